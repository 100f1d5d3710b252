"""The benchmarks of graphs in parts run from beginning to end, on a graph so small that their times mean nothing."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="numpy is not installed")

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import compare_parts  # noqa: E402
import parts_accuracy  # noqa: E402

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
