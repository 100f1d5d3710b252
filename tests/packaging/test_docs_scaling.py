"""docs/scaling.md is what bench/scaling_page.py writes, and the model behaves as it says."""

import json
import sys

import pytest

from test_docs import DOCS, ROOT

sys.path.append(str(ROOT / "bench"))

import scaling_model as model  # noqa: E402
import scaling_page  # noqa: E402


def test_the_page_is_what_its_generator_writes():
    text, picture = scaling_page.page(*scaling_page.measured())
    advice = "python bench/scaling_page.py writes the page"
    assert (DOCS / "scaling.md").read_text() == text, advice
    assert (DOCS / "scaling.svg").read_text() == picture, advice


def rows(**changes):
    cut, _, _, steps = scaling_page.measured()
    return {
        (row["wire"], row["gpus"]): row
        for row in model.all_rows(cut, model.gpu_compute(steps), model.Assumed(**changes))
    }


def test_compute_is_fitted_to_the_steps_of_the_command_that_there_is():
    steps = json.loads((DOCS / "paper" / "steps.json").read_text())
    path = steps["environment"]["command"].split()[1]
    assert (ROOT / path).is_file()
    of_node, of_edge, _, fits = model.gpu_compute(steps)
    assert of_node > 0 and of_edge > 0 and [name for name, *_ in fits] == list(steps["graphs"])
    for name, measured, fitted in fits:
        assert fitted == pytest.approx(measured, rel=0.1), name


@pytest.mark.parametrize(
    "changes, part",
    [
        ({"latency": 1.0}, "exposed"),
        ({"cut": 3.0}, "bytes"),
        ({"cut": 3.0}, "memory"),
        ({"edges": 4 * model.CITATIONS}, "compute"),
        ({"edges": 4 * model.CITATIONS}, "memory"),
    ],
)
def test_what_is_assumed_changes_the_model(changes, part):
    changed = rows(**changes)
    for at, row in rows().items():
        for exchange in model.ROW_BYTES:
            assert changed[at][exchange][part] > row[exchange][part], (at, exchange)


def test_dense_rows_and_random_owners_take_more():
    for row in rows().values():
        assert all(row["dense"][part] > row["compact"][part] for part in ("bytes", "memory"))
        assert row["random"]["memory"] > row["compact"]["memory"]
