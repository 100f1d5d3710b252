"""Training by sampled neighbourhoods: resumed bit for bit, from the command line, and on several ranks."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

pytest.importorskip("numpy", reason="numpy is not installed")

import rtopk  # noqa: E402
from gnn_batches_ranks import BATCHES, OPTIONS, case_of, of_ranks  # noqa: E402
from ranks import end_of_ranks, run_ranks  # noqa: E402
from rtopk.gnn import Graph, MaxKGNN, SparseFeatures, cli  # noqa: E402
from rtopk.gnn.batches import SampledTrainer  # noqa: E402
from rtopk.gnn.data import make_dataset  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402
from rtopk.gnn.parts import Ranks  # noqa: E402
from rtopk.gnn.recipe import Recipe, TrainingError, check_recipe, recipe_for  # noqa: E402
from rtopk.gnn.training import train  # noqa: E402

CORA = Path(__file__).parent.parent / "data" / "cora.npz"
BRIEF = {"hidden": 32, "k": 8, "layers": 2, "lr": 1e-2, "sample": "10,5", "batch": 256}

pytestmark = pytest.mark.usefixtures("one_thread")


def trainer_of(dataset, device="cpu", **changes):
    return SampledTrainer(dataset, Recipe(**BRIEF | changes), Ranks(device=torch.device(device)))


def to_the_end(trainer):
    while trainer.epoch < trainer.recipe.epochs:
        loss = trainer.step()
        if trainer.due():
            trainer.evaluate(loss)
    return trainer


@pytest.mark.parametrize("model, baseline", [*((model, None) for model in MODELS), ("sage", "dense")])
def test_accuracy_on_cora(cora, model, baseline, device):
    """As in test_gnn_training, where all nodes are trained at once."""
    trainer = to_the_end(trainer_of(cora, device, model=model, epochs=6, eval_every=3, baseline=baseline))
    assert trainer.best["test"] > 0.83


@pytest.mark.parametrize("capture", [False, True], ids=["", "capture"])
@pytest.mark.parametrize("model", MODELS)
def test_resumed_equals_uninterrupted(cora, model, capture, tmp_path, device):
    """Also if steps are captured: that depends on the mini-batches before, and must not change a bit."""
    settings = {"model": model, "capture": capture}
    torch.use_deterministic_algorithms(True)
    try:
        whole = to_the_end(trainer_of(cora, device, epochs=4, **settings))
        first = to_the_end(trainer_of(cora, device, epochs=2, **settings))
        first.save(tmp_path / "checkpoint.pt")
        torch.manual_seed(1)
        resumed = trainer_of(cora, device, epochs=4, **settings)
        resumed.resume(tmp_path / "checkpoint.pt")
        to_the_end(resumed)
    finally:
        torch.use_deterministic_algorithms(False)
    assert resumed.history == whole.history
    for name, value in whole.network.state_dict().items():
        assert torch.equal(resumed.network.state_dict()[name], value)


@pytest.mark.parametrize("model", MODELS)
def test_stopped_within_an_epoch_equals_uninterrupted(cora, model, tmp_path, device):
    """In the second epoch, after two of its six updates."""
    torch.use_deterministic_algorithms(True)
    try:
        whole = to_the_end(trainer_of(cora, device, model=model, epochs=3))
        first = trainer_of(cora, device, model=model, epochs=3)
        first.evaluate(first.step(lambda: False))
        answers = iter([False, True])
        assert first.step(lambda: next(answers)) is None
        assert first.position() == "epoch 1 and 512 of 1,354 nodes" and first.result()["nodes_of_next_epoch"] == 512
        first.save(tmp_path / "checkpoint.pt")
        torch.manual_seed(1)
        resumed = trainer_of(cora, device, model=model, epochs=3)
        resumed.resume(tmp_path / "checkpoint.pt")
        assert [len(seeds) for seeds, _ in resumed.mini_batches()] == [256] * 3 + [74]
        to_the_end(resumed)
    finally:
        torch.use_deterministic_algorithms(False)
    assert resumed.history == whole.history and resumed.within_epoch is None
    for name, value in whole.network.state_dict().items():
        assert torch.equal(resumed.network.state_dict()[name], value)
    with pytest.raises(TrainingError, match="epochs is 1, and .* is in epoch 2; accepted: 2 or more"):
        trainer_of(cora, device, model=model, epochs=1).resume(tmp_path / "checkpoint.pt")


def test_epochs_differ_and_visit_every_training_node_once(cora):
    trainer = trainer_of(cora, model="sage", epochs=2)
    orders = []
    for _ in range(2):
        seeds = [seeds for seeds, _ in trainer.mini_batches()]
        assert [len(part) for part in seeds] == [256] * 5 + [74]
        orders.append(torch.cat(seeds))
        trainer.step()
    assert orders[0].sort().values.equal(cora.train) and not orders[0].equal(orders[1])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("several", [False, True], ids=["a label", "labels"])
def test_sizes_that_are_rounded_give_the_same_losses(cora, model, several, device):
    """Without dropout, which draws other numbers then."""
    if several:
        features = cora.features.to_dense()
        cora = make_dataset("signs", cora.graph, features, features[:, :5] > 0)
    losses = []
    for capture in (False, True):
        trainer = trainer_of(cora, device, model=model, dropout=0.0, capture=capture)
        assert (trainer.captured_step is not None) == capture
        if capture:
            trainer.captured_step.pad = True
        losses.append([float(trainer.step()) for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-2 if device == "cuda" else 1e-5)


def test_what_cannot_be_captured_is_not(cora):
    loops = cora.with_graph(cora.graph.with_self_loops())
    assert trainer_of(loops, model="sage", capture=True).captured_step is None
    assert trainer_of(loops, model="gcn", capture=True).captured_step is not None
    assert trainer_of(loops, model="sage", capture=True, self_loops=False).captured_step is not None
    why_not = [
        trainer_of(dataset, capture=capture, model=model).why_not_captured()
        for dataset, model, capture in (
            (cora, "gin", True),
            (loops, "gin", True),
            (loops, "gcn", True),
            (loops, "gin", False),
        )
    ]
    assert why_not == [
        "the device is cpu",
        "the device is cpu, the graph has self loops of its own",
        "the device is cpu",
        None,
    ]
    for changes, text in (
        ({"capture": True, "sample": None, "batch": None}, "capture is true without sample; accepted: with sample"),
        ({"capture": True, "baseline": "dense"}, "capture is true with a baseline; accepted: .* without a baseline"),
    ):
        with pytest.raises(TrainingError, match=text):
            check_recipe(Recipe(**BRIEF | changes))


@pytest.mark.parametrize("model, baseline", [*((model, None) for model in MODELS), ("gcn", "dense")])
def test_self_loops_of_mini_batches(cora, model, baseline, monkeypatch):
    """Those of Graph.with_self_loops(), and nothing of a step after the sampling waits for a GPU."""
    cora = replace(cora, features=torch.randn(cora.graph.num_nodes, 20))  # rows of sparse ones are counted
    trainer = trainer_of(cora, model=model, baseline=baseline, dropout=0.0)
    batch = trainer.sampler.sample(cora.train[:50], torch.Generator().manual_seed(1))
    options = {"add_self_loops": False} if model == "gcn" else {}
    options |= {"num_layers": 2, "k": 8, "dense": baseline == "dense"}
    plain = MaxKGNN(model, 20, 32, cora.classes, **options)
    plain.load_state_dict(trainer.network.state_dict())
    expected = plain(cora.features[batch.nodes], [graph.with_self_loops() for graph in batch.graphs()])
    results = []
    trainer.network.register_forward_hook(lambda module, arguments, result: results.append(result.detach().clone()))
    monkeypatch.setattr(trainer.sampler, "sample", lambda seeds, generator: batch)
    trainer.optimizer = torch.optim.SGD(trainer.network.parameters(), lr=0.1)  # on a CPU, Adam reads its step
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        trainer._train_on(batch.nodes[:50], 50, 0)
    assert torch.equal(results[0], expected)
    called = {event.name for event in profiled.events()}
    if baseline is None:
        assert not called & {f"aten::{name}" for name in ("_local_scalar_dense", "nonzero", "masked_select", "unique")}


def test_graphs_that_have_self_loops_already(cora):
    """Each node still has one, in every mini-batch."""
    assert not cora.graph.has_self_loops()
    trainer = trainer_of(cora.with_graph(cora.graph.with_self_loops()), model="sage", sample="-1,-1")
    graphs = []
    trainer.network.register_forward_pre_hook(lambda module, arguments: graphs.extend(arguments[1]))
    trainer._train_on(cora.train[:50], 50, 0)
    for graph in graphs:
        assert (graph._rows() == graph.columns).sum() == graph.num_nodes


def test_several_labels_a_node():
    features = torch.randn(400, 8)
    graph = Graph.from_edge_index(torch.randint(400, (2, 800)), 400)
    dataset = make_dataset("signs", graph, features, features > 0)
    settings = {"model": "sage", "k": 16, "layers": 1, "sample": "4", "batch": 50, "epochs": 15, "dropout": 0.0}
    trainer = to_the_end(trainer_of(dataset, **settings))
    assert trainer.result()["metric"] == "micro-F1" and trainer.best["test"] > 0.8  # chance is 2/3


def test_rows_of_sparse_features(device):
    dense = torch.randn(9, 6) * (torch.rand(9, 6) < 0.4)
    dense[4] = 0
    csr = dense.to_sparse_csr()
    sparse = SparseFeatures(csr.crow_indices(), csr.col_indices(), csr.values(), 6).to(device)
    for nodes in ([3, 0, 4, 8], [4], [], [2, 2]):
        nodes = torch.tensor(nodes, dtype=torch.int64, device=device)
        rows = sparse[nodes]
        assert rows.shape == (len(nodes), 6) and rows.to_dense().cpu().equal(dense[nodes.cpu()])
        assert rows.matrices[1].to_dense().cpu().equal(dense[nodes.cpu()].t())


@pytest.mark.parametrize(
    "value, text",
    [
        ([], "within_epoch is a list; accepted: losses, nodes, or none"),
        ({"nodes": 1}, "within_epoch is a dict; accepted: losses, nodes, or none"),
        ({"nodes": "1", "losses": [1.0]}, "within_epoch.nodes is '1'; accepted: an integer from 0"),
        ({"nodes": 0, "losses": [1.0]}, "within_epoch.nodes is 0; accepted: 1 or more"),
        ({"nodes": 1354, "losses": [1.0]}, "within_epoch.nodes is 1354; accepted: 1 to 1353"),
        ({"nodes": 256, "losses": 1.0}, "within_epoch.losses is 1.0; accepted: a number for each rank"),
        ({"nodes": 256, "losses": []}, "within_epoch.losses is a list; accepted: a number for each rank"),
        ({"nodes": 256, "losses": [1.0, float("nan")]}, r"within_epoch.losses\[1\] is nan; accepted: a finite number"),
    ],
)
def test_checkpoints_within_an_epoch_that_cannot_be(cora, tmp_path, value, text):
    trainer, path = trainer_of(cora, model="sage"), tmp_path / "checkpoint.pt"
    trainer.save(path)
    torch.save(torch.load(path, weights_only=True) | {"within_epoch": value}, path)
    with pytest.raises(TrainingError, match=f"checkpoint.pt cannot be read as a checkpoint: {text}"):
        trainer.resume(path)
    assert trainer.within_epoch is None


# ---- The command line ----


def test_from_the_command_line(tmp_path, capsys):
    arguments = ["train", "--graph", CORA, "--model", "sage", "--hidden", "16", "--k", "4", "--layers", "2", "--epochs"]
    arguments = [*map(str, arguments), "2", "--sample", "4,3", "--batch", "500", "--capture", "--out", str(tmp_path)]
    assert cli.main([*arguments, "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "mini-batches of 500, sampled 4,3, 1 ranks" in printed
    assert "\n--capture: steps are not captured: the device is cpu; accepted: one rank on a GPU, and with" in printed
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["finished"] and [result[name] for name in ("ranks", "captured", "replays")] == [1, 0, 0]
    assert [result["recipe"][name] for name in ("sample", "batch", "capture")] == ["4,3", 500, True]
    other = [*arguments[:-5], "--batch", "400", *arguments[-3:]]
    assert cli.main([*other, "--resume", "--device", "cpu"]) == 1
    assert "another run: its batch is 500, and this run's is 400" in capsys.readouterr().err


def test_captures_that_are_given_up_are_told_once(cora, capsys):
    trainer = trainer_of(cora, model="gcn", capture=True, epochs=4)
    trainer.captured_step.replays = 7
    step = trainer.step

    def without_memory(asked):
        if trainer.epoch == 1:
            trainer.captured_step._do_without_captures()
        return step(asked)

    trainer.step = without_memory
    assert train(trainer, None)
    printed = capsys.readouterr().out
    assert printed.count("not captured") == 1
    assert "steps are not captured as CUDA graphs from now on: the memory of the GPU does not suffice\n" in printed
    assert trainer.result()["captured"] == 0 and trainer.result()["replays"] == 7


def test_recipes_of_mini_batches():
    assert recipe_for("mine", "sage", sample="15,10,5").batch == 1024
    assert recipe_for("mine", "sage").batch is None
    recipe = recipe_for("mine", "sage", sample="15,-1,5", batch=7)
    check_recipe(recipe)
    assert recipe.fanouts == [15, -1, 5]
    assert recipe.run_name("mine") == "mine-sage-exact-sample15--1-5-batch7-seed97"
    for changes, text in (
        ({"sample": "15,10"}, "sample is '15,10'; accepted: for each of 3 layers 1 to 1024, .* such as 15,10,5"),
        ({"sample": "15,10,x"}, "sample is '15,10,x'"),
        ({"sample": "15, 10,5"}, "sample is '15, 10,5'"),
        ({"sample": "15,0,5"}, "sample is '15,0,5'"),
        ({"sample": ""}, "sample is ''"),
        ({"sample": "15,10,9999999999999"}, "sample is"),
        ({"sample": "15,10,5", "batch": 0}, "batch is 0; accepted: 1 or more"),
        ({"batch": 64}, "batch is 64 without sample; accepted: both, or none"),
    ):
        with pytest.raises(TrainingError, match=text):
            check_recipe(recipe_for("mine", "sage", **changes))


def test_a_capture_on_a_gpu_is_announced_by_no_line(device, tmp_path, capsys):
    arguments = ["--batch", "500", "--epochs", "1", "--capture", "--device", device, "--out", str(tmp_path)]
    assert cli.main([*map(str, OPTIONS[: OPTIONS.index("--device")]), "--sample", "4,3", *arguments]) == 0
    assert ("steps are not captured" in capsys.readouterr().out) == (device == "cpu")


# ---- Several ranks ----


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    out = tmp_path_factory.mktemp("ranks")
    results = run_ranks(Path(__file__).parent / "gnn_batches_ranks.py", 2, out, timeout=240)
    return out, results


@pytest.fixture(scope="module")
def four_ranks():
    return run_ranks(Path(__file__).parent / "gnn_batches_ranks.py", 4, "", timeout=240)


@pytest.mark.parametrize("case", BATCHES[2])
@pytest.mark.parametrize("world", BATCHES)
def test_ranks_train_as_one_with_their_batches_together(world, case, request):
    """All neighbours and no dropout: the same nodes in the same steps give the same gradients, to rounding. Not so with
    GCN, where the degree of a node is that in its mini-batch."""
    ranks = request.getfixturevalue("two_ranks")[1] if world == 2 else request.getfixturevalue("four_ranks")
    alone = of_ranks(*case_of(case), world * BATCHES[world][case], Ranks())
    first, *others = (results[case] for results in ranks)
    assert len(others) == world - 1
    for other in others:
        assert other["bits"] == first["bits"] and other["history"] == first["history"]
    shares = [results[case]["shares"] for results in ranks]
    assert [sum(step) for step in zip(*shares, strict=True)] == alone["shares"]
    if case != "cora":
        assert shares[-1][-1] == 0  # a rank without nodes in a step
    assert first["sums"] == pytest.approx(alone["sums"], rel=1e-3, abs=1e-3)
    for ours, theirs in zip(first["history"], alone["history"], strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)


def test_two_ranks_resume_bit_for_bit(two_ranks):
    out, results = two_ranks
    for case in ("whole", "stopped", "resumed"):
        assert [of_rank[case]["status"] for of_rank in results] == [0, 0], results
        assert results[1][case]["text"] == ""  # rank 0 speaks for all
    assert "continuing after epoch 2" in results[0]["resumed"]["text"]
    whole, resumed = (torch.load(out / name / "checkpoint.pt", weights_only=True) for name in ("whole", "resumed"))
    assert whole["history"] == resumed["history"] and whole["epoch"] == 4
    for name, value in whole["network"].items():
        assert torch.equal(resumed["network"][name], value)
    result = json.loads((out / "whole" / "result.json").read_text())
    assert result["ranks"] == 2 and result["recipe"]["batch"] == 1024


def test_two_ranks_with_their_data_on_the_host_resume_bit_for_bit(two_ranks):
    """On a CPU, with the bits of data on the device."""
    out, results = two_ranks
    for case in ("host", "host resumed"):
        assert [of_rank[case]["status"] for of_rank in results] == [0, 0], results
    whole, resumed = (torch.load(out / name / "checkpoint.pt", weights_only=True) for name in ("whole", "host"))
    assert resumed["recipe"]["store"] == "host" and whole["history"] == resumed["history"]
    for name, value in whole["network"].items():
        assert torch.equal(resumed["network"][name], value)


def test_a_signal_to_one_rank_stops_both_after_a_mini_batch(two_ranks):
    out, results = two_ranks
    assert [of_rank["within"]["status"] for of_rank in results] == [130, 130]
    assert results[1]["within"]["text"] == "\nstopping after this mini-batch\n"
    assert "stopped after epoch 1 and 768 of 1,354 nodes; --resume continues" in results[0]["within"]["text"]
    assert [of_rank["continued"]["status"] for of_rank in results] == [0, 0], results
    assert "continuing after epoch 1 and 768 of 1,354 nodes" in results[0]["continued"]["text"]
    whole, continued = (torch.load(out / name / "checkpoint.pt", weights_only=True) for name in ("often", "within"))
    assert whole["history"] == continued["history"] and continued["within_epoch"] is None
    for name, value in whole["network"].items():
        assert torch.equal(continued["network"][name], value)


def test_one_rank_continues_an_epoch_of_two(two_ranks, capsys):
    out, _ = two_ranks
    options = [*OPTIONS, "--batch", 128, "--epochs", 3, "--out", out / "by-one", "--resume"]
    assert cli.main(list(map(str, options))) == 0
    torch.use_deterministic_algorithms(False)
    assert "continuing after epoch 1 and 768 of 1,354 nodes" in capsys.readouterr().out
    history = json.loads((out / "by-one" / "result.json").read_text())["history"]
    whole = json.loads((out / "often" / "result.json").read_text())["history"]
    # Without the losses of the two ranks it would be about half.
    assert history[1]["loss"] == pytest.approx(whole[1]["loss"], rel=0.1)


def test_a_killed_rank_ends_the_other_and_leaves_a_whole_checkpoint(tmp_path):
    first, second = end_of_ranks(Path(__file__).parent / "gnn_batches_ranks.py", 2, tmp_path / "run", "die")
    assert second.status == -9 and first.status == 1, first.output
    assert "error: another rank has ended or does not answer" in first.output and "Traceback" not in first.output
    assert torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)["epoch"] == 1


def test_torchrun_gives_the_same_bits_and_says_why_no_step_is_captured(two_ranks, tmp_path):
    out, _ = two_ranks
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "-m", "rtopk.gnn"]
    command += [*OPTIONS, "--epochs", 4, "--capture", "--out", tmp_path]
    environment = os.environ | {"PYTHONPATH": str(Path(rtopk.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    why = "--capture: steps are not captured: there are 2 ranks, the device is cpu; accepted: one rank on a GPU"
    assert done.stdout.count(why) == 1  # rank 0 speaks for all
    ours, expected = (torch.load(folder / "checkpoint.pt", weights_only=True) for folder in (tmp_path, out / "whole"))
    assert ours["history"] == expected["history"]
    for name, value in expected["network"].items():
        assert torch.equal(ours["network"][name], value)
