"""Training steps beside torch.topk's and PyTorch Geometric's: what is measured, and what is said about it."""

import json
import sys
from functools import partial

import pytest
import torch

pytest.importorskip("numpy", reason="numpy is not installed")

import baselines  # noqa: E402
import cell  # noqa: E402
import measure  # noqa: E402
import percent  # noqa: E402
import pyg  # noqa: E402
from rtopk.gnn import load  # noqa: E402
from rtopk.gnn.recipe import recipe_for  # noqa: E402
from selections import EXACT, TORCH, Selection, selections  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
SMALL = {"hidden": 32, "k": 8, "layers": 2}
ARGUMENTS = ["--graph", "flickr-like", "--scale", "0.003", "--device", "cpu", "--repetitions", "2"]
ARGUMENTS += [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
EARLY = [f"max_iter {n}, {rule}" for rule in ("threshold_first", "printed") for n in (2, 8)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory, one_thread):
    """The results of a run with all models."""
    out = tmp_path_factory.mktemp("baselines")
    assert baselines.main([*ARGUMENTS, "--max-iter", "2", "8", "--out", str(out)]) == 0
    return json.loads((out / "baselines.json").read_text())


def by_name(figures):
    return {variant["name"]: variant for variant in figures["variants"]}


def cell_of(compared, model="gcn"):
    dataset = load("flickr-like", scale=0.003)
    recipe = recipe_for("flickr-like", model, **SMALL, baseline="dense", seed=0)
    return cell.measure_cell(dataset, recipe, compared, CPU, 1)


def test_what_the_file_has(measured):
    assert measured.keys() == {"environment", "repetitions", "tolerances", "graphs", "cells"}
    facts = {"device", "threads", "torch", "rtopk", "deterministic", "torch_geometric", "allocator", "date", "commit"}
    assert measured["environment"].keys() == facts | {"command"}
    assert measured["environment"]["allocator"] == "expandable_segments:True"
    assert measured["graphs"] == {"flickr-like x 0.003": {"nodes": 268, "edges": 2698, "metric": "accuracy"}}
    assert [figures["model"] for figures in measured["cells"]] == ["sage", "gcn", "gin"]
    for figures in measured["cells"]:
        names = ["torch.topk", "torch.topk unsorted", "exact", *EARLY, "compact", "pyg edge_index", "pyg csr"]
        assert list(by_name(figures)) == names
        assert figures["recipe"]["baseline"] == "dense" and figures["recipe"]["seed"] == 0
        assert figures["published"]["topk_share_percent"] > 26 and figures["published"]["speedup_percent"][0] == 32.48
        rules = [(v["max_iter"], v["rule"]) for v in figures["variants"] if v["kind"] == "replaced"]
        assert rules == [(None, None), *((n, rule) for rule in ("threshold_first", "printed") for n in (2, 8))]


def test_percentages_follow_from_the_times(measured):
    for figures in measured["cells"]:
        variants = by_name(figures)
        baseline = variants.pop("torch.topk")
        share = baseline["topk_ms"] / baseline["step_ms"]
        assert figures["topk_share_percent"] == pytest.approx(100 * share)
        assert figures["maxk_share_percent"] == pytest.approx(100 * figures["maxk_ms"] / baseline["step_ms"])
        for name, variant in variants.items():
            if "error" in variant:
                assert variant["error"] == pyg.missing()
                continue
            assert variant["speedup_percent"] == pytest.approx(100 * (baseline["step_ms"] / variant["step_ms"] - 1))
            if name.startswith(("torch", "exact", "max_iter")):
                after = 1 - share + share * variant["topk_ms"] / baseline["topk_ms"]
                assert variant["amdahl_percent"] == pytest.approx(100 * (1 / after - 1))
                assert "amdahl_of_published_share_percent" in variant


def test_variants_that_select_the_same_have_the_same_loss(measured):
    for figures in measured["cells"]:
        variants = by_name(figures)
        assert figures["same_selection"]
        loss, norm = variants["torch.topk"]["loss"], variants["torch.topk"]["gradient_norm"]
        exact = ["torch.topk unsorted", "exact", "compact"]
        exact += [] if pyg.missing() else ["pyg edge_index", "pyg csr"]
        for name in exact:
            assert variants[name]["agrees"]
            assert variants[name]["loss"] == pytest.approx(loss, rel=1e-5), name
            assert variants[name]["gradient_norm"] == pytest.approx(norm, rel=1e-4), name
        assert all("agrees" not in variants[name] for name in EARLY)
        # Stopped early, the selection is another one.
        assert variants["max_iter 2, printed"]["loss"] != pytest.approx(loss, rel=1e-5)


def test_without_pytorch_geometric(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    assert baselines.main([*ARGUMENTS, "--model", "sage", "--max-iter", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "without PyTorch Geometric: " in output and "accepted: pip install torch_geometric" in output
    results = json.loads((tmp_path / "baselines.json").read_text())
    assert results["environment"]["torch_geometric"] is None
    variants = by_name(results["cells"][0])
    assert all("PyTorch Geometric cannot be used" in variants[name]["error"] for name in ("pyg edge_index", "pyg csr"))
    assert variants["compact"]["step_ms"] > 0


def test_a_variant_that_needs_too_much_memory_says_so(monkeypatch):
    def too_much(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 109.31 GiB.\nMore.")

    monkeypatch.setattr(pyg, "missing", lambda: None)
    monkeypatch.setattr(pyg, "edges_of", too_much)
    figures = cell_of([TORCH, Selection("too large", too_much), EXACT])
    variants = by_name(figures)
    expected = "out of memory: CUDA out of memory. Tried to allocate 109.31 GiB."
    for name in ("too large", "pyg edge_index", "pyg csr"):
        assert variants[name]["error"] == expected and "step_ms" not in variants[name]
        assert baselines._line(variants[name]) == expected
    assert all(variants[name]["step_ms"] > 0 for name in ("torch.topk", "exact", "compact"))
    assert variants["exact"]["agrees"]


def test_other_errors_are_not_hidden(monkeypatch):
    def wrong(*_, **__):
        raise RuntimeError("not implemented")

    monkeypatch.setattr(pyg, "missing", lambda: None)
    monkeypatch.setattr(pyg, "edges_of", wrong)
    assert by_name(cell_of([TORCH]))["pyg csr"]["error"] == "not implemented"
    with pytest.raises(RuntimeError, match="not implemented"):
        cell_of([TORCH, Selection("wrong", wrong)])


def test_another_selection_is_noticed(monkeypatch):
    monkeypatch.setattr(pyg, "missing", lambda: "none")
    figures = cell_of([TORCH, Selection("exact", partial(torch.topk, largest=False))])
    assert by_name(figures)["exact"]["agrees"] is False and by_name(figures)["compact"]["agrees"]
    assert baselines._differences(figures | {"same_selection": False}) == [
        "flickr-like x 0.003 gcn: exact has another loss or gradient than torch.topk",
        "flickr-like x 0.003 gcn: exact selection has other values than torch.topk",
    ]


def test_what_is_compared():
    names = [selection.name for selection in selections([4], ["printed"])]
    assert names == ["torch.topk", "torch.topk unsorted", "exact", "max_iter 4, printed"]


def test_percentages():
    assert percent.speedup_percent(3.0, 2.0) == pytest.approx(50)
    assert percent.amdahl_percent(50, 2) == pytest.approx(100 / 3)
    assert percent.amdahl_percent(20, float("inf")) == pytest.approx(25)
    # The paper's share for Reddit and its kernel's speed-up at max_iter 2 give the speed-up that it prints.
    assert percent.amdahl_percent(percent.published("Reddit", "sage")["topk_share_percent"], 13.07) == pytest.approx(
        12.1, abs=0.1
    )
    assert percent.published("products-like", "gin") == {
        "topk_share_percent": 19.67,
        "speedup_percent": [22.0, 22.74],
    }
    assert percent.published("cora", "gin") is None


def test_functions_take_turns():
    order = []
    times = measure.medians({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, CPU, 3)
    assert order == ["a", "b"] * 3 and times.keys() == {"a", "b"} and min(times.values()) > 0


def test_the_command_line(tmp_path, capsys):
    with pytest.raises(SystemExit):
        baselines.main(["--help"])
    text = capsys.readouterr().out
    assert all(word in text for word in ("torch.topk unsorted", "pyg edge_index", "--quick", "Amdahl", "examples:"))
    for arguments, error in (
        (["--repetitions", "0"], "repetitions is 0; accepted: 1 or more"),
        (["--max-iter", "0"], "max_iter is 0; accepted: 1 to"),
        (["--k", "33"], "k is 33; accepted: 1 to 32"),
    ):
        assert baselines.main([*ARGUMENTS, "--out", str(tmp_path), *arguments]) == 1
        assert error in capsys.readouterr().err
