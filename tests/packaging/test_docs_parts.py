"""The accuracies of docs/distributed.md of graphs in parts are the measured ones."""

import json

from test_docs import DOCS, ROOT, table_after


def test_accuracy():
    record = json.loads((ROOT / "bench" / "results" / "parts-accuracy-cpu.json").read_text())
    page = DOCS / "distributed.md"
    rows = table_after(page, "| seed | 0 | 1 | 2 | 3 | 4 | difference from one rank |")
    for (name, *cells), found in zip(rows, record["accuracy"], strict=True):
        assert name == ("1 rank" if found["ranks"] == 1 else f"{found['ranks']} ranks")
        assert cells[:-1] == [f"{entry['test']:.4f}" for entry in found["seeds"]]
        if found["ranks"] == 1:
            assert cells[-1] == ""
            continue
        assert cells[-1] == f"{found['mean_difference']:+.4f} ± {found['standard_error']:.4f}"
        assert abs(found["mean_difference"]) < found["standard_error"]  # as the page says
    facts, text = record["environment"], " ".join(page.read_text().split())
    assert (facts["model"], facts["layers"]) == ("sage", 3)
    assert f"after {facts['epochs']} epochs, SAGE with three layers of {facts['hidden']}, k = {facts['k']}" in text
