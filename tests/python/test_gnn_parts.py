"""Graphs in parts: real processes, each with a part of the nodes, beside one process with all of them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("numpy", reason="numpy is not installed")

import gnn_parts_cutting  # noqa: E402
import gnn_parts_ranks as scenario  # noqa: E402
import gnn_parts_to_itself  # noqa: E402
import gnn_unequal_ranks  # noqa: E402
import rtopk  # noqa: E402
from ranks import end_of_ranks, free_port, run_ranks  # noqa: E402
from rtopk.gnn import Graph, cli  # noqa: E402
from rtopk.gnn._aggregate import aggregate  # noqa: E402
from rtopk.gnn.data import make_dataset  # noqa: E402
from rtopk.gnn.parts import PartTrainer, Ranks, load_part, write_parts  # noqa: E402
from rtopk.gnn.parts.partition import default_method, owners  # noqa: E402
from rtopk.gnn.parts.split import split  # noqa: E402
from rtopk.gnn.recipe import Recipe  # noqa: E402
from rtopk.gnn.training import CHECKPOINT, Trainer  # noqa: E402
from rtopk.gnn.training.checkpoint import read as read_checkpoint  # noqa: E402

CORA = Path(__file__).parent.parent / "data" / "cora.npz"
COMMAND = Path(__file__).with_name("gnn_parts_command.py")
CUTTING = Path(gnn_parts_cutting.__file__)
TO_ITSELF = Path(gnn_parts_to_itself.__file__)
UNEQUAL = Path(gnn_unequal_ranks.__file__)
MODELS = scenario.MODELS
WORLDS = (2, 4)
METIS = pytest.mark.skipif(default_method() != "metis", reason="pymetis is not installed")

pytestmark = pytest.mark.usefixtures("one_thread")


def dataset_of(name, edges, nodes, several=False):
    """A graph whose nodes all have a role, features that differ, and edges in both directions."""
    edges = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t()
    graph = Graph.from_edge_index(torch.cat([edges, edges.flip(0)], 1), nodes)
    features = torch.sin(torch.arange(nodes * 6.0)).reshape(nodes, 6)
    masks = [torch.arange(nodes) % 3 == role for role in range(3)] if nodes >= 3 else None
    labels = (features > 0) if several else torch.arange(nodes) % 2
    if masks is None:  # too few for every role: not what make_dataset takes
        role = torch.arange(nodes)
        return rtopk.gnn.Dataset(name, graph, features, labels, 2, role, role[:1], role[:1])
    return make_dataset(name, graph, features, labels, masks)


def random_edges(nodes, count):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(nodes, (count, 2), generator=generator).tolist()


@pytest.fixture(scope="module")
def graphs(cora):
    half = 6
    return {
        "cora": cora,
        "small": dataset_of("small", random_edges(30, 90), 30),
        "signs": dataset_of("signs", random_edges(60, 150), 60, several=True),
        # Of four ranks, two have no rows.
        "few": dataset_of("few", [(0, 1), (1, 2)], 3),
        "one-node": dataset_of("one-node", [], 1),
        # A ring for every quarter of the nodes: no part has a boundary.
        "apart": dataset_of("apart", [(i, i // 3 * 3 + (i + 1) % 3) for i in range(12)], 12),
        # Edges only between the halves, and with four ranks only between ranks: no neighbour is local.
        "crossing": dataset_of("crossing", [(i, half + (i + j) % half) for i in range(half) for j in range(2)], 12),
    }


@pytest.fixture(scope="module")
def folder(graphs, tmp_path_factory):
    """All graphs in 2 and in 4 parts, and a checkpoint of a single process."""
    folder = tmp_path_factory.mktemp("parts")
    for world in WORLDS:
        for name, dataset in graphs.items():
            write_parts(dataset, folder / f"{name}-{world}", world, None if name == "cora" else "ranges")
        write_parts(graphs["signs"], folder / f"signs-metis-{world}", world)
        for name in ("small", *scenario.TINY):
            owner = owners(graphs[name].graph, world, "ranges")
            for rank, part in enumerate(split(graphs[name], owner, world)):
                torch.save(part.arrays["ids"], folder / f"{name}-ids-{world}-{rank}.pt")
    write_parts(graphs["cora"], folder / "cora-3", 3)
    trainer = Trainer(graphs["cora"], Recipe(**scenario.CONTINUED), "cpu")
    for _ in range(3):
        trainer.evaluate(trainer.step())
    trainer.save(folder / "of-1" / CHECKPOINT)
    return folder


def found_by(world, folder):
    """What each rank found in every case."""
    found = run_ranks(Path(scenario.__file__), world, folder, timeout=300)
    for rank in found:
        for name, case in rank.items():
            assert not isinstance(case, dict) or "error" not in case, f"{name}: {case['error']}"
    return found


@pytest.fixture(scope="module")
def two(folder):
    return found_by(2, folder)


@pytest.fixture(scope="module")
def four(folder, two):  # after two, whose checkpoint they take
    return found_by(4, folder)


@pytest.fixture(params=["two", "four"])
def ranks(request):
    return request.getfixturevalue(request.param)


def one_rank(dataset, steps, **changes):
    trainer = Trainer(dataset, Recipe(**changes), "cpu")
    return [trainer.evaluate(trainer.step()) for _ in range(steps)]


def losses(case):
    return torch.tensor([float.fromhex(loss) for loss in case["losses"]])


def check_trained(ranks, name, expected):
    """The losses of one rank, within rounding; and every rank has the same bits."""
    first = ranks[0][name]
    assert all(rank[name] == first for rank in ranks)
    torch.testing.assert_close(losses(first), torch.tensor([entry["loss"] for entry in expected]), rtol=2e-5, atol=1e-6)


# ---- Training ----


@pytest.mark.parametrize("model", MODELS)
def test_losses_and_scores_are_those_of_one_rank(ranks, graphs, model):
    expected = one_rank(graphs["cora"], 3, model=model, **scenario.SMALL)
    check_trained(ranks, f"cora {model}", expected)
    scores = ranks[0][f"cora {model}"]["last"]
    for role in ("train", "validation", "test"):  # a node or two may fall to the other side
        assert scores[role] == pytest.approx(expected[-1][role], abs=3e-3)


def test_accuracy_on_cora(ranks):
    """As test_gnn_training.py has it for one rank: over seeds 0.87 to 0.90, without the edges 0.71 to 0.77."""
    assert all(rank["learns"] == ranks[0]["learns"] for rank in ranks)
    assert ranks[0]["learns"]["test"] > 0.83


@pytest.mark.parametrize("model", MODELS)
def test_several_labels_a_node(ranks, graphs, model):
    check_trained(ranks, f"signs {model}", one_rank(graphs["signs"], 4, model=model, **scenario.SMALL))


@pytest.mark.parametrize("model", MODELS)
def test_two_runs_have_the_same_bits(ranks, model):
    assert ranks[0][f"signs {model} again"] == ranks[0][f"signs {model}"]


@pytest.mark.parametrize("place, late_rank", scenario.LATE)
def test_a_late_rank_changes_no_bit(ranks, place, late_rank):
    assert all(rank[f"late {place}, {late_rank}"] == rank["signs sage"] for rank in ranks)


@pytest.mark.parametrize("model", MODELS)
def test_the_compact_exchange_loses_nothing(ranks, model):
    assert ranks[0][f"signs {model} dense"] == ranks[0][f"signs {model}"]


@pytest.mark.parametrize(
    "name, changes",
    [
        pytest.param("by metis", {"model": "gin"}, marks=METIS),
        ("wide", {"model": "sage", "hidden": 300, "layers": 1}),  # selectors of 16 bits
    ],
)
def test_other_parts_and_columns(ranks, graphs, name, changes):
    check_trained(ranks, name, one_rank(graphs["signs"], 4, **scenario.SMALL | changes))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", scenario.TINY)
def test_ranks_without_rows_without_boundary_or_with_nothing_else(ranks, graphs, name, model):
    check_trained(ranks, f"{name} {model}", one_rank(graphs[name], 2, model=model, **scenario.SMALL))


def test_the_tiny_graphs_are_what_they_are_meant_to_be(graphs):
    parts = {name: list(split(graphs[name], owners(graphs[name].graph, 4, "ranges"), 4)) for name in scenario.TINY}
    assert sorted(part.nodes for part in parts["one-node"]) == [0, 0, 0, 1]
    assert 0 in [part.nodes for part in parts["few"]]
    assert all(part.nodes > 0 and len(part.arrays["boundary"]) == 0 for part in parts["apart"])
    assert all(len(part.arrays["indices"]) == 0 < len(part.arrays["boundary"]) for part in parts["crossing"])


# ---- Sums ----


def whole_sums(dataset, reduce, normalized):
    graph = dataset.graph.with_self_loops().gcn_normalized() if normalized else dataset.graph
    ids = torch.arange(graph.num_nodes)
    values, selectors = scenario.rows_of(ids, 40, 3)
    values.requires_grad_(True)
    result = aggregate(graph, values, selectors, 40, reduce)
    result.backward(scenario.upstream_of(ids, 40))
    return result.detach(), values.grad


def joined_by_id(ranks, name, what, like):
    result = torch.full_like(like, float("nan"))
    for rank in ranks:
        if rank[name]["ids"]:
            result[rank[name]["ids"]] = torch.tensor(rank[name][what])
    return result


@pytest.mark.parametrize("name", ["small sum", "small sum dense", *(f"{name} sum" for name in scenario.TINY)])
def test_sums_and_gradients_are_exact(ranks, graphs, name):
    sums, gradients = whole_sums(graphs[name.split()[0]], "sum", False)
    assert torch.equal(joined_by_id(ranks, name, "sums", sums), sums)
    assert torch.equal(joined_by_id(ranks, name, "gradients", gradients), gradients)


@pytest.mark.parametrize("name, reduce", [("small mean", "mean"), ("small gcn", "sum")])
def test_weighted_sums_and_gradients(ranks, graphs, name, reduce):
    sums, gradients = whole_sums(graphs["small"], reduce, reduce == "sum")
    torch.testing.assert_close(joined_by_id(ranks, name, "sums", sums), sums)
    torch.testing.assert_close(joined_by_id(ranks, name, "gradients", gradients), gradients)


def test_a_row_takes_160_bytes_there_and_128_back(ranks):
    for rank in ranks:
        assert rank["travelled"]["rows"] > 0
        assert rank["travelled"]["forward"] == 160 * rank["travelled"]["rows"]
        assert rank["travelled"]["back"] == 128 * rank["travelled"]["received"]


@pytest.mark.parametrize("backend", ["gloo", pytest.param("nccl", marks=pytest.mark.gpu)])
def test_a_rank_sends_rows_to_itself(backend):
    """What NCCL carries between GPUs, on one of them: rows and gradients, exactly as on a CPU without a message."""
    (found,) = run_ranks(TO_ITSELF, 1, backend)
    rows, cols, k = (getattr(gnn_parts_to_itself, name) for name in ("NODES", "COLS", "K"))
    # There: values and selectors, or all columns. Back: a gradient for each of the values, or of the columns.
    assert found == {
        "compact": {"exact": [True, True], "bytes": rows * (5 * k + 4 * k)},
        "dense": {"exact": [True, True], "bytes": rows * (4 * cols + 4 * cols)},
        "numbers": True,
    }


# ---- Checkpoints ----


def test_a_resumed_training_has_the_same_bits(ranks):
    for rank in ranks:
        whole, resumed = rank["resumes"]["whole"], rank["resumes"]["resumed"]
        assert resumed["losses"] == whole["losses"][2:] and resumed["parameters"] == whole["parameters"]


@pytest.mark.parametrize("before", [1, 2])
def test_other_numbers_of_ranks_continue(ranks, graphs, before):
    expected = one_rank(graphs["cora"], 6, **scenario.CONTINUED)[3:]
    check_trained(ranks, f"continues {before}", expected)


# ---- Refusals ----


@pytest.mark.parametrize(
    "case, text",
    [
        ("disagrees", "--k is 8 on rank {last} and 16 on rank 0; accepted: the same on every rank"),
        ("one fails", "rank 1: its disk is gone"),
        ("other counts", "rows for rank 0, which expects"),
        ("too few ranks", "has 3 parts, and there are {world} ranks; accepted: torchrun --nproc-per-node 3"),
        ("no such folder", "rank 0: there is no graph"),
        ("dense baseline", "baseline is dense with a graph in parts"),
    ],
)
def test_every_rank_is_told_why(ranks, case, text):
    for rank in ranks:
        assert text.format(world=len(ranks), last=len(ranks) - 1) in rank[case]


# ---- The command ----


TRAINED = ["train", "--graph", CORA, "--model", "gcn", "--hidden", 32, "--k", 8, "--layers", 2, "--lr", 0.01]


def result_of(out):
    return json.loads((out / "result.json").read_text())


@pytest.fixture(scope="module")
def unequal_ranks(tmp_path_factory):
    """A rank with other options leaves none waiting for the timeout of 300 s: run_ranks() gives up earlier."""
    out = tmp_path_factory.mktemp("unequal")
    return out, run_ranks(UNEQUAL, 2, out, *(free_port() for _ in gnn_unequal_ranks.CASES))


@pytest.mark.parametrize("case", gnn_unequal_ranks.CASES)
def test_a_rank_with_other_options_is_named(unequal_ranks, case):
    out, results = unequal_ranks
    *_, text = gnn_unequal_ranks.CASES[case]
    for of_rank in results:
        assert of_rank[case]["status"] == 1
        assert of_rank[case]["text"].startswith(f"error: {text}")
    assert not (out / case).exists()


@pytest.fixture(scope="module")
def cutting(tmp_path_factory):
    """How two ranks ended that train a whole graph, and where its parts are."""
    out = tmp_path_factory.mktemp("cutting")
    ports = [free_port() for _ in gnn_parts_cutting.CASES]
    return out, end_of_ranks(CUTTING, 2, out, *ports, timeout=300)


def test_a_whole_graph_is_cut_once(cutting):
    out, (first, second) = cutting
    folder = out / "out" / "parts-2"
    for case, text in {
        "first": f"cutting cora into 2 parts by {default_method()}, for {folder}: there is no parts.json\n",
        "resumed": f"{folder} has the 2 parts of this graph, cut by {default_method()} before\n",
    }.items():
        assert first.results[case]["status"] == 0 and first.results[case]["text"].startswith(text)
        assert second.results[case]["status"] == 0 and second.results[case]["text"] == ""
    assert result_of(out / "out")["epochs_done"] == 4


def test_ranks_wait_for_the_cut_beyond_their_timeout(cutting):
    _, ranks = cutting
    for rank in ranks:
        assert rank.results["slow"]["status"] == 0, rank.results["slow"]["text"]
        assert rank.results["slow"]["seconds"] > gnn_parts_cutting.TIMEOUT + 2


def test_a_rank_that_is_killed_while_it_cuts_ends_the_others(cutting):
    out, (killed, other) = cutting
    assert killed.status == -signal.SIGKILL
    assert other.status == 0 and other.results["killed"]["status"] == 1, other.output
    assert "error: another rank has ended or does not answer" in other.results["killed"]["text"]
    assert not (out / "killed" / "parts-2" / "parts.json").exists()


def test_a_killed_rank_ends_the_others_and_one_process_continues(tmp_path, cora):
    """Rank 1 is killed in epoch 4. The checkpoint of the first evaluation is whole."""
    out = tmp_path / "out"
    options = [*TRAINED, "--dropout", 0, "--out", out]
    dead, killed = end_of_ranks(COMMAND, 2, "die:4", *options, "--epochs", 8, "--timeout", 30)
    assert killed.status == -signal.SIGKILL
    assert dead.status == 1 and "error: another rank has ended or does not answer" in dead.output
    assert "--resume continues from the last checkpoint, which is whole" in dead.output
    assert dead.results["threads"] == []
    assert read_checkpoint(out / CHECKPOINT, torch.device("cpu")).epoch == 1
    assert result_of(out)["finished"] is False and result_of(out)["epochs_done"] == 3
    assert cli.main(list(map(str, [*options, "--epochs", 8, "--resume"]))) == 0
    expected = one_rank(cora, 8, model="gcn", hidden=32, k=8, layers=2, lr=0.01, dropout=0.0)
    found = result_of(out)["history"]
    assert [entry["epoch"] for entry in found] == list(range(1, 9))
    for entry, other in zip(found, expected, strict=True):
        assert entry["loss"] == pytest.approx(other["loss"], rel=1e-4)


@pytest.mark.parametrize(
    "change, options, statuses, texts",
    [
        ("none", [], [0, 0], ["", ""]),
        ("none", ["--graph", "no-such.npz"], [1, 1], ["error: rank 0: there is no graph 'no-such.npz'"] * 2),
        ("fail:2", [], [1, 1], ["error: another rank has ended or does not answer", "error: there is no memory."]),
        (
            "fail:2:6",
            [],
            [1, 1],
            [
                "error: another rank has ended or does not answer",
                "rank 1 has failed (OutOfMemoryError: there is no memory.) and waits until other ranks take what it"
                " sends, or for --timeout\nerror: there is no memory.",
            ],
        ),
    ],
    ids=["success", "refusal", "error", "error that waits"],
)
def test_ranks_end_without_threads_of_gloo(tmp_path, change, options, statuses, texts):
    """A thread that still runs when Python ends may abort the process."""
    ended = end_of_ranks(COMMAND, 2, change, *TRAINED, "--epochs", 3, "--out", tmp_path / "out", *options)
    for rank, status, text in zip(ended, statuses, texts, strict=True):
        assert rank.status == status and text in rank.output, rank.output
        assert rank.results["threads"] == []


def torchrun(ranks, *program):
    environment = os.environ | {"PYTHONPATH": str(Path(rtopk.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, *program]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(list(map(str, line)), env=environment, **output)


def test_a_killed_rank_of_four_under_torchrun_and_two_continue(tmp_path, cora):
    """Rank 1 is killed in epoch 4. Two ranks continue from the checkpoint of the first evaluation."""
    out = tmp_path / "out"
    options = [*TRAINED, "--dropout", 0, "--out", out, "--epochs", 6]
    process = torchrun(4, COMMAND, "die:4", *options, "--timeout", 60)
    try:
        text, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 1, text
    assert "4 ranks, compact exchange" in text
    assert "error: another rank has ended or does not answer" in text
    assert "Signal 9 (SIGKILL)" in text and re.search(r"rank *: 1 \(", text), text  # torchrun says which one
    for rank in end_of_ranks(COMMAND, 2, "none", *options, "--resume"):
        assert rank.status == 0, rank.output
    expected = one_rank(cora, 6, model="gcn", hidden=32, k=8, layers=2, lr=0.01, dropout=0.0)
    found = result_of(out)
    assert found["finished"] is True and found["parts"]["parts"] == 2
    assert [entry["loss"] for entry in found["history"]] == pytest.approx([e["loss"] for e in expected], rel=1e-4)


def test_torchrun_with_a_folder_of_parts_stops_at_a_signal(tmp_path, capsys):
    folder, out = tmp_path / "parts", tmp_path / "out"
    assert cli.main(["partition", "--graph", str(CORA), "--parts", "2", "--out", str(folder)]) == 0
    assert "part 1: " in capsys.readouterr().out
    for path in folder.glob("part-*"):
        path.chmod(0o400)
    options = [*TRAINED, "--graph", folder, "--out", out, "--resume"]
    process = torchrun(2, "-m", "rtopk.gnn", *options, "--epochs", 100_000)
    try:
        deadline = time.monotonic() + 60
        while not (out / "result.json").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "stopping after this epoch" in text and "--resume continues" in text, text
    assert "2 ranks, compact exchange" in text
    epoch = read_checkpoint(out / CHECKPOINT, torch.device("cpu")).epoch
    assert result_of(out)["finished"] is False and result_of(out)["epochs_done"] == epoch
    assert result_of(out)["parts"]["parts"] == 2 and result_of(out)["parts"]["exchange"] == "compact"


def test_how_long_torchrun_waits_for_a_training_to_save(monkeypatch):
    """What docs/distributed.md says of it."""
    launcher = pytest.importorskip("torch.distributed.launcher.api")
    if not hasattr(launcher.LaunchConfig, "shutdown_timeout"):
        pytest.skip("this torchrun always waits 30 seconds")
    monkeypatch.delenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", raising=False)
    assert launcher.LaunchConfig(1, 1, 1).shutdown_timeout == 30
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "240")
    assert launcher.LaunchConfig(1, 1, 1).shutdown_timeout == 240


def test_a_folder_of_one_part_needs_no_torchrun(tmp_path, cora):
    folder, out = tmp_path / "parts", tmp_path / "out"
    write_parts(cora, folder, 1)
    assert cli.main(list(map(str, [*TRAINED, "--graph", folder, "--out", out, "--epochs", 2, "--dropout", 0]))) == 0
    expected = one_rank(cora, 2, model="gcn", hidden=32, k=8, layers=2, lr=0.01, dropout=0.0)
    assert [entry["loss"] for entry in result_of(out)["history"]] == [entry["loss"] for entry in expected]


@pytest.mark.parametrize(
    "environment, options, text",
    [
        ({"WORLD_SIZE": "two"}, [], "the environment variable WORLD_SIZE is 'two'; accepted: a number"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, [], "rank 0 of 2 did not find the others"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, ["--timeout", "0"], "timeout is 0; accepted: more than 0"),
    ],
)
def test_environments_that_torchrun_did_not_make(monkeypatch, capsys, environment, options, text):
    for name in ("MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cli.main(list(map(str, [*TRAINED, *options]))) == 1
    assert text in capsys.readouterr().err


@pytest.mark.gpu
def test_two_ranks_of_one_gpu(tmp_path, cora):
    """NCCL takes one rank a GPU: gloo carries the rows, through the memory of the host."""
    out = tmp_path / "out"
    options = [*TRAINED, "--dropout", 0, "--epochs", 4, "--device", "cuda", "--deterministic", "--out", out]
    for rank in end_of_ranks(COMMAND, 2, "none", *options):
        assert rank.status == 0, rank.output
    trainer = Trainer(cora, Recipe(model="gcn", hidden=32, k=8, layers=2, lr=0.01, dropout=0.0), "cuda")
    expected = [trainer.evaluate(trainer.step())["loss"] for _ in range(4)]
    assert [entry["loss"] for entry in result_of(out)["history"]] == pytest.approx(expected, rel=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("model", MODELS)
def test_one_rank_on_a_gpu(tmp_path, cora, model):
    """The only part: the same sums as without parts. NCCL between GPUs needs several of them."""
    write_parts(cora, tmp_path, 1)
    part, facts = load_part(str(tmp_path), None, None, ranks := Ranks(device=torch.device("cuda", 0)))
    recipe = Recipe(model=model, hidden=64, k=16, layers=2, lr=0.01, dropout=0.0)
    parted, whole = PartTrainer(part, facts, recipe, ranks), Trainer(cora, recipe, "cuda:0")
    for _ in range(4):
        found, expected = (trainer.evaluate(trainer.step())["loss"] for trainer in (parted, whole))
        assert found == pytest.approx(expected, rel=1e-4)
