"""Training by sampled neighbourhoods whose graph and features stay on the host."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("numpy", reason="numpy is not installed")

import rtopk.gnn.batches.command  # noqa: E402
from rtopk.gnn import Graph, NeighborSampler, SparseFeatures, cli  # noqa: E402
from rtopk.gnn._copies import copied, rows_on  # noqa: E402
from rtopk.gnn.batches import SampledTrainer, layerwise, store  # noqa: E402
from rtopk.gnn.data import make_dataset  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402
from rtopk.gnn.parts import Ranks  # noqa: E402
from rtopk.gnn.recipe import Recipe, TrainingError, check_recipe  # noqa: E402
from test_gnn_sampled import to_the_end, trainer_of  # noqa: E402

CORA = Path(__file__).parent.parent / "data" / "cora.npz"
OPTIONS = ["train", "--graph", CORA, "--model", "sage", "--hidden", 16, "--k", 4, "--layers", 2, "--device", "cpu"]
OPTIONS += ["--sample", "4,3", "--batch", 500]

pytestmark = pytest.mark.usefixtures("one_thread")


def state_of(trainer):
    return torch.cat([value.flatten() for value in trainer.network.state_dict().values()])


def places(data):
    """The types of device where the data of a training are."""
    return {part.device.type for part in (data.graph, data.features, data.labels, *data.split.values())}


@pytest.mark.parametrize("model", MODELS)
def test_on_a_cpu_the_host_gives_the_bits_of_the_device(cora, model):
    ours, theirs = (to_the_end(trainer_of(cora, model=model, epochs=2, store=where)) for where in ("host", "device"))
    assert ours.history == theirs.history and state_of(ours).equal(state_of(theirs))


@pytest.mark.parametrize("model", MODELS)
def test_the_host_keeps_the_data_and_the_device_trains(cora, model, monkeypatch, device):
    """Evaluations, too, which have many chunks here."""
    monkeypatch.setattr(layerwise, "CHUNK_BYTES", 1 << 24)
    cora = cora.to(device)  # wherever they come from
    trainer = trainer_of(cora, device, model=model, epochs=6, eval_every=3, store="host")
    assert places(trainer.data) == {"cpu"} and trainer.sampler.graph.device.type == "cpu"
    seen = set()

    def note(module, arguments):
        x, graphs = arguments
        seen.update(part.device.type for part in (x, *graphs))

    trainer.network.register_forward_pre_hook(note)
    assert to_the_end(trainer).best["test"] > 0.83
    assert seen == {device} and next(trainer.network.parameters()).device.type == device


def test_resumed_equals_uninterrupted(cora, tmp_path, device):
    torch.use_deterministic_algorithms(True)
    try:
        whole = to_the_end(trainer_of(cora, device, epochs=4, store="host"))
        first = trainer_of(cora, device, epochs=4, store="host")
        first.evaluate(first.step())
        answers = iter([False, True])
        assert first.step(lambda: next(answers)) is None  # in the middle of the second epoch
        first.save(tmp_path / "checkpoint.pt")
        torch.manual_seed(1)
        resumed = trainer_of(cora, device, epochs=4, store="host")
        resumed.resume(tmp_path / "checkpoint.pt")
        to_the_end(resumed)
    finally:
        torch.use_deterministic_algorithms(False)
    assert resumed.history == whole.history and state_of(resumed).equal(state_of(whole))
    with pytest.raises(TrainingError, match="another run: its store is host, and this run's is device"):
        trainer_of(cora, device, epochs=4).resume(tmp_path / "checkpoint.pt")


def test_checkpoints_from_before_there_was_a_choice(cora, tmp_path):
    path = tmp_path / "checkpoint.pt"
    trainer_of(cora).save(path)
    saved = torch.load(path, weights_only=True)
    del saved["recipe"]["store"]
    torch.save(saved, path)
    trainer_of(cora).resume(path)


def test_recipes_that_cannot_be():
    sampled = {"sample": "15,10,5", "batch": 8}
    check_recipe(Recipe(**sampled, store="host"))
    for changes, text in (
        (sampled | {"store": "disk"}, "store is 'disk'; accepted: device, host"),
        ({"store": "host"}, "store is host without sample; accepted: device, or with sample"),
        (sampled | {"store": "host", "capture": True}, "store is host with capture; accepted: device, since"),
    ):
        with pytest.raises(TrainingError, match=text):
            check_recipe(Recipe(**changes))


def test_rows_and_their_copies(device):
    device, nodes = torch.device(device), torch.tensor([3, 0, 3])
    for rows in (torch.randn(5, 4), torch.arange(5), torch.randint(9, (5, 2), dtype=torch.uint8)):
        found = rows_on(rows, nodes, device)
        assert found.device.type == device.type and found.cpu().equal(rows[nodes])
        assert rows_on(rows, nodes[:0], device).shape == rows[:0].shape
        assert copied(rows, device).cpu().equal(rows)
    csr = torch.eye(5).to_sparse_csr()
    sparse = SparseFeatures(csr.crow_indices(), csr.col_indices(), csr.values(), 5)
    found = rows_on(sparse, nodes, device)
    assert found.device.type == device.type and found.to_dense().cpu().equal(torch.eye(5)[nodes])


@pytest.mark.parametrize("weights", [None, torch.rand(60)], ids=["", "weights"])
def test_a_mini_batch_goes_to_a_device_whole(weights, device):
    graph = Graph.from_edge_index(torch.randint(20, (2, 60)), 20, weights)
    batch = NeighborSampler(graph, [3, 2]).sample(torch.tensor([4, 11]))
    moved = batch.to(device)
    assert moved.num_sampled_nodes == batch.num_sampled_nodes and moved.num_sampled_edges == batch.num_sampled_edges
    for name in ("nodes", "row_starts", "columns", "weights"):
        part, expected = getattr(moved, name), getattr(batch, name)
        assert part is None if expected is None else (part.device.type == device and part.cpu().equal(expected))
    assert {part.device.type for part in moved.graphs()} == {device}


@pytest.mark.gpu
def test_a_gpu_never_holds_all_features():
    features = torch.randn(200_000, 500)
    graph = Graph.from_edge_index(torch.randint(200_000, (2, 400_000)), 200_000)
    dataset = make_dataset("wide", graph, features, torch.arange(200_000) % 5)
    recipe = Recipe(hidden=64, k=8, layers=2, sample="2,2", batch=1024, store="host")
    trainer = SampledTrainer(dataset, recipe, Ranks(device=torch.device("cuda", 0)))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    seeds, count = next(iter(trainer.mini_batches()))
    loss = trainer._train_on(seeds, count, 0)
    assert torch.isfinite(loss) and torch.cuda.max_memory_allocated() - before < features.nbytes / 4
    layerwise_scores = trainer.scores()
    assert set(layerwise_scores) == {"train", "validation", "test"}
    assert torch.cuda.max_memory_allocated() - before < features.nbytes


# ---- Where they stay, if nothing is said ----


def test_what_takes_more_than_half_of_a_gpu_stays_on_the_host(cora, monkeypatch):
    graph = cora.graph
    dense = make_dataset("mine", graph, torch.randn(graph.num_nodes, 10), cora.labels)
    graph_bytes = 4 * (graph.num_nodes + 1 + graph.num_edges)
    assert store.bytes_of(dense) == 2 * graph_bytes + graph.num_nodes * (10 * 4 + 8)
    entries = cora.features.matrices[0].values().numel()
    sparse_bytes = 2 * 8 * entries + 4 * (cora.features.shape[0] + cora.features.shape[1] + 2)
    assert store.bytes_of(cora) == 2 * graph_bytes + sparse_bytes + 8 * graph.num_nodes
    memory = 2 * store.bytes_of(dense)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=memory))
    assert store.why_on_host(dense, torch.device("cpu")) is None
    assert store.why_on_host(dense, torch.device("cuda", 1)) is None
    memory -= 2
    why = store.why_on_host(dense, torch.device("cuda", 1))
    assert why == "0.0 GB are more than half of the 0.0 GB of cuda:1"


def trained(out, *options):
    return cli.main([str(word) for word in (*OPTIONS, "--out", out, *options)])


def test_from_the_command_line(tmp_path, capsys):
    assert trained(tmp_path, "--epochs", 1, "--store", "host") == 0
    assert trained(tmp_path, "--epochs", 2, "--store", "host", "--resume") == 0
    assert "continuing after epoch 1" in capsys.readouterr().out
    assert json.loads((tmp_path / "result.json").read_text())["recipe"]["store"] == "host"
    assert trained(tmp_path, "--epochs", 3, "--resume") == 1
    assert "its store is host, and this run's is device" in capsys.readouterr().err
    assert trained(tmp_path, "--epochs", 3, "--store", "host", "--capture") == 1
    assert "error: store is host with capture; accepted: device" in capsys.readouterr().err
    whole = [
        str(word) for word in (*OPTIONS[: OPTIONS.index("--sample")], "--store", "host", "--out", tmp_path / "whole")
    ]
    assert cli.main(whole) == 1
    assert "error: store is host without sample; accepted: device, or with sample" in capsys.readouterr().err


def test_the_choice_is_announced(tmp_path, capsys, monkeypatch):
    why = "9.9 GB are more than half of the 8.0 GB of cuda:0"
    monkeypatch.setattr(rtopk.gnn.batches.command, "why_on_host", lambda *_: why)
    line = f"graph and features stay on the host: {why}; --store device puts them there\n"
    for options, chosen in (((), "host"), (("--store", "device"), "device"), (("--capture",), "device")):
        out = tmp_path / "-".join(("out", *options))
        assert trained(out, "--epochs", 1, *options) == 0
        assert capsys.readouterr().out.count(line) == (1 if options == () else 0)
        assert json.loads((out / "result.json").read_text())["recipe"]["store"] == chosen
