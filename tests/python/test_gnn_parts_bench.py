"""The benchmarks of graphs in parts run from beginning to end, on a graph so small that their times mean nothing."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="numpy is not installed")

import torch  # noqa: E402

from rtopk.gnn import Graph  # noqa: E402
from rtopk.gnn.parts import Ranks  # noqa: E402
from rtopk.gnn.parts.exchange import Exchange  # noqa: E402
from rtopk.gnn.parts.graph import CsrMatrix, PartGraph  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import compare_parts  # noqa: E402
import parts_accuracy  # noqa: E402
import scaling_model  # noqa: E402

CORA = str(Path(__file__).parent.parent / "data" / "cora.npz")


@pytest.fixture
def results_of(monkeypatch, tmp_path):
    """What a benchmark writes. It runs in this process, and its ranks in others."""

    def results(bench, *options):
        path = tmp_path / "results.json"
        monkeypatch.setattr(sys, "argv", [f"{bench.__name__}.py", *map(str, options), "--json", str(path)])
        bench.main()
        return json.loads(path.read_text())

    return results


def test_compare_parts(results_of, capfd):
    options = ["--device", "cpu", "--hidden", 32, "--k", 8, "--layers", 2, "--repeats", 1]
    rows = results_of(compare_parts, "--graph", CORA, "--ranks", 2, 1, *options)["steps"]
    assert [(row["ranks"], row["through"], row["exchange"]) for row in rows] == [
        (1, None, "compact"),
        (2, "gloo", "compact"),
        (2, "gloo", "dense"),
    ]
    one = rows[0]["first_loss"]
    for row in rows[1:]:
        assert row["first_loss_of_one_rank"] == one and row["first_loss"] == pytest.approx(one, rel=1e-5)
        assert row["step_bytes"] > 0
    assert rows[1]["first_loss"] == rows[2]["first_loss"]
    text = capfd.readouterr().out
    assert "2 ranks, wire gloo, loopback: compact" in text and f"{one:.6f}" in text


def test_what_sums_beside_rows_hide(results_of, capfd):
    options = ["--device", "cpu", "--hidden", 32, "--k", 8, "--layers", 2, "--repeats", 2, "--overlap"]
    rows = results_of(compare_parts, "--graph", CORA, "--ranks", 1, 2, *options)["steps"]
    assert ["overlap" in row for row in rows] == [False, True, True]
    assert rows[1]["loss"] == rows[2]["loss"]
    for row in rows[1:]:
        times = row["overlap"]
        assert 0 < times["stood_still_ms"]["median"] < times["waiting_ms"]["median"]
        assert times["ms"]["median"] == row["step_ms"]
        assert row["waiting_for_rows_ms"] < row["step_ms"]
    assert "stood_still_ms" in capfd.readouterr().out


@pytest.mark.parametrize(
    "through, megabits, name",
    [
        (None, None, "-"),
        ("NCCL", None, "NCCL"),
        ("gloo", None, "gloo, loopback"),
        ("gloo", 100, "gloo, 100 Mb/s"),
        ("gloo through the host", None, "gloo through the host, loopback"),
    ],
)
def test_what_carries_rows_is_named(through, megabits, name):
    assert compare_parts.wire_of({"through": through, "megabits": megabits}) == name


def test_parts_accuracy(results_of):
    options = ["--hidden", 32, "--k", 8, "--layers", 2, "--epochs", 2]
    facts = results_of(parts_accuracy, CORA, "--ranks", 2, "--seeds", 2, *options)
    assert facts["graph"] == "cora" and facts["environment"]["epochs"] == 2
    one, two = facts["accuracy"]
    assert (one["ranks"], two["ranks"]) == (1, 2)
    differences = [ours["test"] - theirs["test"] for ours, theirs in zip(two["seeds"], one["seeds"], strict=True)]
    assert two["mean_difference"] == pytest.approx(sum(differences) / 2)
    assert two["standard_error"] == pytest.approx(abs(differences[0] - differences[1]) / 2)


class OneRank(Ranks):
    """Sends rows to itself, and holds both ends of a message until nobody waits for it any more."""

    def start_exchange(self, rows, *_):
        ends = rows, rows.clone()
        return lambda: ends[1]


def bytes_of_sums(boundary, exchange):
    """The most that the sums of a layer hold at one time, and what they keep for backward."""
    nodes, cols, k = 2000, scaling_model.HIDDEN, scaling_model.K
    ids = torch.arange(nodes, dtype=torch.int32)
    local = Graph(torch.arange(nodes + 1), ids)
    starts = torch.linspace(0, boundary, nodes + 1).int()
    others = CsrMatrix(starts, torch.arange(boundary, dtype=torch.int32), None, boundary)
    counts = [boundary], [boundary]
    sent = Exchange(OneRank(), torch.arange(boundary) % nodes, *counts, dense=exchange == "dense")
    graph = PartGraph(local, others, sent)
    assert all(part is not None for part in (graph.t_columns, others.transpose))  # made before
    values = torch.zeros(nodes, k, requires_grad=True)
    selectors = torch.arange(k, dtype=torch.uint8).repeat(nodes, 1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiled:
        result = graph.aggregate(values, selectors, cols, "sum")
        with torch.profiler.record_function("after forward"):
            upstream = torch.ones_like(result)
        result.backward(upstream)
    held = kept = peak = 0
    for event in sorted(profiled.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
        elif event.name() == "after forward":
            kept = held
    return peak, kept


@pytest.mark.parametrize("exchange", scaling_model.ROW_BYTES)
def test_boundary_rows_take_what_the_model_of_many_gpus_says(exchange):
    few, many = 2000, 8000
    at_few, at_many = (bytes_of_sums(boundary, exchange) for boundary in (few, many))
    peak, kept = ((more - less) / (many - few) for less, more in zip(at_few, at_many, strict=True))
    assert peak == pytest.approx(scaling_model.PEAK_BYTES[exchange], rel=0.01)
    assert kept == scaling_model.KEPT_BYTES[exchange]
