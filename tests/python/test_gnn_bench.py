"""The benchmarks of mini-batches run from beginning to end, on graphs so small that their figures mean nothing."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("numpy", reason="numpy is not installed")
pytest.importorskip("torch_geometric", reason="PyTorch Geometric is not installed")

from geometric_loader import node_loader  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import compare_batches  # noqa: E402
import compare_loaders  # noqa: E402

CORA = str(Path(__file__).parent.parent / "data" / "cora.npz")
SMALL = ["--sample", "4", "3", "--batch", "100", "--hidden", "32", "--repeats", "1", "--epochs", "1"]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def results_of(monkeypatch, tmp_path):
    """What a benchmark writes. It runs in this process."""

    def results(bench, *options):
        path = tmp_path / "results.json"
        monkeypatch.setattr(sys, "argv", [f"{bench.__name__}.py", *SMALL, *map(str, options), "--json", str(path)])
        bench.main()
        return json.loads(path.read_text())

    return results


def test_compare_batches(results_of):
    facts = results_of(
        compare_batches, "--scale", 0.002, "--batches", 1, "--count-calls", "--device", "cpu",
        "--real", CORA, "--real-models", *MODELS, "--real-hidden", 32, "--seeds", 2, "--count-sizes",
    )  # fmt: skip
    assert list(facts["steps"]) == list(facts["layers"]) == list(facts["accuracy"]["models"]) == list(MODELS)
    assert [sum(counts) for counts in facts["accuracy"]["mini_batches_by_size"]] == [14, 14]
    for model, cell in facts["accuracy"]["models"].items():
        theirs = "PyG, trim_to_layer" if model == "gcn" else "PyG, pairs"
        assert [list(entry) for entry in cell["seeds"]] == [["seed", theirs, "rtopk"]] * 2
        differences = [entry["rtopk"]["test"] - entry[theirs]["test"] for entry in cell["seeds"]]
        assert cell["mean_difference"] == pytest.approx(sum(differences) / 2)


@pytest.mark.parametrize(
    "replays, why_not, text",
    [(0, None, "0 steps were replayed$"), (9, "there is no memory", "9 steps were replayed: there is no memory")],
)
def test_captured_figures_are_those_of_replays(replays, why_not, text):
    step = object.__new__(compare_batches.CapturedStep)
    step.step = SimpleNamespace(replays=9, why_not_captured=lambda: None)
    step.check_replayed()
    step.step = SimpleNamespace(replays=replays, why_not_captured=lambda: why_not)
    with pytest.raises(SystemExit, match=text):
        step.check_replayed()


class Clusters:
    """In the place of ClusterData and of ClusterLoader, which need METIS: nodes in any parts."""

    def __init__(self, data, parts, log):
        self.data, self.parts = data, parts

    def loader(self, batch_size, shuffle):
        nodes = torch.randperm(self.data.num_nodes).split(batch_size * self.data.num_nodes // self.parts)
        return [self.data.subgraph(part) for part in nodes]


def test_compare_loaders(results_of, monkeypatch):
    monkeypatch.setattr(compare_loaders, "NeighborLoader", node_loader)
    monkeypatch.setattr(compare_loaders, "ClusterData", Clusters)
    monkeypatch.setattr(compare_loaders, "ClusterLoader", Clusters.loader)
    facts = results_of(
        compare_loaders, "--graph", CORA, "--trained-hidden", 32, "--seeds", 1, "--parts", 6, "--clusters", 2,
        "--cluster-epochs", 1,
    )  # fmt: skip
    assert list(facts["steps"]) == list(MODELS) and len(facts["trained"]) == 1
    for cell in facts["steps"].values():
        assert cell["nodes"][0] == 100 and {"rtopk", "rtopk, all nodes", "PyG, trim_to_layer"} <= set(cell["ms"])
    assert facts["trained"][0]["clusters, rtopk"]["distance"] < 1e-2  # another kth element in a few rows
