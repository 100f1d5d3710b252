"""Training: accuracy on a real graph, checkpoints, Ctrl-C, the command line."""

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
import torch.nn.functional as F

pytest.importorskip("numpy", reason="numpy is not installed")

import rtopk  # noqa: E402
import study  # noqa: E402
from measure import measure  # noqa: E402
from rtopk.gnn import MaxKGNN, capture, cli, load  # noqa: E402
from rtopk.gnn.data import make_dataset  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402
from rtopk.gnn.recipe import Recipe, TrainingError, recipe_for  # noqa: E402
from rtopk.gnn.rows import CompactMaxK, DenseMaxK  # noqa: E402
from rtopk.gnn.training import Interruption, Trainer, score, train  # noqa: E402
from rtopk.gnn.training.trainer import loss_on  # noqa: E402

CORA = Path(__file__).parent.parent / "data" / "cora.npz"
SMALL = ["--hidden", "32", "--k", "8", "--layers", "2"]


pytestmark = pytest.mark.usefixtures("one_thread")


def trained(dataset, device="cpu", **changes):
    trainer = Trainer(dataset, Recipe(**changes), device)
    while trainer.epoch < trainer.recipe.epochs:
        loss = trainer.step()
        if trainer.due():
            trainer.evaluate(loss)
    return trainer


def command(*arguments):
    """A command line that runs the package which is tested."""
    site = Path(rtopk.__file__).parent.parent
    path = f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return [sys.executable, "-m", "rtopk.gnn", *map(str, arguments)], environment


def run(*arguments):
    line, environment = command(*arguments)
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300)


# ---- Captures ----


def test_a_capture_without_memory_is_told(cora, capsys, monkeypatch):
    def without_memory(*_):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(capture, "CapturedStep", without_memory)
    trainer = Trainer(cora, Recipe(hidden=16, k=4, layers=2, epochs=5), "cpu")
    assert trainer.why_not_captured() is None
    trainer._captures = True  # as on a GPU
    assert train(trainer, None)
    printed = capsys.readouterr().out
    assert printed.count("not captured") == 1
    assert "steps are not captured as CUDA graphs from now on: the memory of the GPU does not suffice\n" in printed


# ---- Accuracy ----

# Over seeds these networks reach 0.87 to 0.90; without the edges 0.71 to 0.77; the largest class is 0.28.
REACHED = 0.83
SELECTIONS = {
    "exact": {},
    "early": {"max_iter": 4},
    "printed": {"max_iter": 4, "rule": "printed"},
    "dense": {"baseline": "dense"},
}


@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("model", MODELS)
def test_accuracy_on_cora(cora, model, selection, device):
    trainer = trained(cora, device, model=model, hidden=64, k=16, layers=2, lr=1e-2, epochs=25, **selection)
    assert trainer.best["test"] > REACHED


def test_a_generated_graph_teaches_more_than_its_features():
    dataset = load("flickr-like", scale=0.02)
    alone = dataset.with_graph(rtopk.gnn.Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 1785))
    settings = {"model": "sage", "hidden": 32, "k": 8, "layers": 2, "lr": 1e-2, "epochs": 20}
    with_graph, without = (trained(data, **settings).best["test"] for data in (dataset, alone))
    assert with_graph > 0.8 and with_graph > without + 0.1


def test_several_labels_a_node():
    features = torch.randn(400, 8)
    graph = rtopk.gnn.Graph.from_edge_index(torch.randint(400, (2, 800)), 400)
    dataset = make_dataset("signs", graph, features, features > 0)
    trainer = trained(dataset, model="sage", hidden=32, k=16, layers=1, lr=1e-2, epochs=50, dropout=0.0)
    assert trainer.result()["metric"] == "micro-F1"
    assert trainer.best["test"] > 0.8  # chance is 2/3


@pytest.mark.parametrize("several", [False, True])
def test_the_loss_is_that_of_the_training_nodes(several):
    labels = torch.rand(40, 5).round() if several else torch.randint(5, (40,))
    graph = rtopk.gnn.Graph.from_edge_index(torch.randint(40, (2, 80)), 40)
    dataset = make_dataset("random", graph, torch.randn(40, 3), labels)
    result = torch.randn(40, dataset.classes)
    function = F.binary_cross_entropy_with_logits if several else F.cross_entropy
    expected = function(result[dataset.train], dataset.labels[dataset.train])
    torch.testing.assert_close(loss_on(dataset, len(dataset.train))(result), expected)


def test_scores():
    assert score(torch.tensor([[1.0, 2], [3, 0], [0, 1]]), torch.tensor([1, 0, 0])) == pytest.approx(2 / 3)
    several = torch.tensor([[1.0, -1, 2], [-1, -1, -1]])
    assert score(several, torch.tensor([[1.0, 1, 0], [0, 0, 0]])) == pytest.approx(2 * 1 / (2 + 2))
    assert score(-several.abs(), torch.zeros(2, 3)) == 0


def test_the_best_is_chosen_by_validation_and_not_by_test(cora, monkeypatch):
    trainer = Trainer(cora, Recipe(**BRIEF), "cpu")
    scores = iter([0.1, 0.5, 0.6, 0.2, 0.4, 0.9, 0.3, 0.5, 0.7])  # training, validation, test
    monkeypatch.setattr("rtopk.gnn.training.trainer.score", lambda *_: next(scores))
    for _ in range(3):
        trainer.evaluate(trainer.step())
    assert trainer.best["epoch"] == 1


def test_a_recipe_is_what_is_trained(cora):
    def activation(**changes):
        return Trainer(cora, Recipe(**BRIEF, **changes), "cpu").network.convolutions[0].activation

    assert isinstance(activation(baseline="dense"), DenseMaxK)
    for max_iter in (None, 3):
        chosen = activation(max_iter=max_iter)
        assert isinstance(chosen, CompactMaxK) and (chosen.k, chosen.max_iter) == (8, max_iter)
        assert chosen.rule == "threshold_first"
    assert activation(max_iter=3, rule="printed").rule == "printed"


def test_steps_are_what_is_timed(cora, monkeypatch):
    trainer = Trainer(cora, Recipe(**BRIEF), "cpu")
    figures = []
    monkeypatch.setattr("measure.milliseconds", lambda function, *_: figures.append(function) or len(figures))
    assert measure(trainer, 3) == {"topk_ms": 1, "step_ms": 2}
    before = [parameter.detach().clone() for parameter in trainer.network.parameters()]
    for function, changes in zip(figures, (False, True), strict=True):
        function()
        after = list(trainer.network.parameters())
        assert changes == any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_published_recipes():
    assert recipe_for("reddit", "gcn") == Recipe(model="gcn", layers=4, dropout=0.5, lr=1e-2, epochs=3000)
    assert recipe_for("yelp-like x 0.1", "gin").hidden == 384
    assert [recipe_for("ogbn-products", model).self_loops for model in ("sage", "gcn", "gin")] == [False, True, True]
    assert recipe_for("flickr", "sage", epochs=7, lr=None).epochs == 7
    assert recipe_for("flickr", "sage", epochs=7, lr=None).lr == 1e-3


# ---- Checkpoints ----

BRIEF = {"hidden": 32, "k": 8, "layers": 2, "epochs": 12}


@pytest.mark.parametrize("model", MODELS)
def test_resumed_equals_uninterrupted(cora, model, tmp_path, device):
    torch.use_deterministic_algorithms(True)
    try:
        whole = trained(cora, device, model=model, **BRIEF)
        first = Trainer(cora, Recipe(model=model, **BRIEF), device)
        for _ in range(5):
            first.evaluate(first.step())
        first.save(tmp_path / "checkpoint.pt")
        torch.rand(100, device=device)  # what else happens to the generator must not matter
        second = Trainer(cora, Recipe(model=model, **BRIEF), device)
        second.resume(tmp_path / "checkpoint.pt")
        assert second.epoch == 5
        train(second, tmp_path, show=False)
    finally:
        torch.use_deterministic_algorithms(False)
    assert second.history == whole.history and second.best == whole.best
    for mine, theirs in zip(second.network.parameters(), whole.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    for name, value in torch.load(tmp_path / "best.pt", weights_only=True).items():
        assert torch.equal(value, whole.best_state[name])


@pytest.mark.gpu
@pytest.mark.parametrize("baseline", [None, "dense"])
@pytest.mark.parametrize("model", MODELS)
def test_captured_steps_equal_eager_ones(cora, model, baseline):
    torch.use_deterministic_algorithms(True)
    try:
        recipe = Recipe(model=model, baseline=baseline, **BRIEF)
        captured, eager = Trainer(cora, recipe, "cuda"), Trainer(cora, recipe, "cuda", eager=True)
        states = []
        for trainer in (captured, eager):
            torch.manual_seed(4)
            losses = []
            for _ in range(6):
                losses.append(trainer.step())
                trainer.evaluate(losses[-1])
            states.append([*losses, *trainer.network.parameters(), torch.cuda.get_rng_state()])
    finally:
        torch.use_deterministic_algorithms(False)
    assert captured._captured is not None and eager._captured is None
    for mine, theirs in zip(*states, strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.gpu
def test_a_graph_that_is_kept_does_not_hinder_a_capture(cora):
    torch.use_deterministic_algorithms(True)
    try:
        losses = []
        for keeps in (True, False):
            trainer = Trainer(cora, Recipe(**BRIEF), "cuda")
            kept = [parameter.clone() for parameter in trainer.network.parameters()] if keeps else []
            losses.append([float(trainer.step()) for _ in range(5)])
            assert trainer._captured is not None
            del kept
    finally:
        torch.use_deterministic_algorithms(False)
    assert losses[0] == losses[1]


@pytest.mark.gpu
@pytest.mark.parametrize("baseline", [None, "dense"])
@pytest.mark.parametrize("model", MODELS)
def test_captured_steps_are_close_to_eager_ones_where_sums_have_any_order(cora, model, baseline):
    recipe = Recipe(model=model, baseline=baseline, **BRIEF)
    losses = []
    for eager in (False, True):
        trainer = Trainer(cora, recipe, "cuda", eager=eager)
        torch.manual_seed(4)
        losses.append(torch.stack([trainer.step() for _ in range(6)]))
    torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
def test_a_trainer_that_has_captured_resumes(cora, tmp_path):
    torch.use_deterministic_algorithms(True)
    try:
        trainer = Trainer(cora, Recipe(**BRIEF), "cuda")
        for _ in range(4):
            trainer.step()
        trainer.save(tmp_path / "checkpoint.pt")
        first = [trainer.step() for _ in range(4)]
        trainer.resume(tmp_path / "checkpoint.pt")
        assert [float(loss) for loss in first] == [float(trainer.step()) for _ in range(4)]
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
@pytest.mark.parametrize("saved_on,resumed_on", [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_checkpoint_goes_on_on_another_device(cora, tmp_path, saved_on, resumed_on):
    trained(cora, saved_on, **BRIEF | {"epochs": 4}).save(tmp_path / "checkpoint.pt")
    second = Trainer(cora, Recipe(**BRIEF), resumed_on)
    second.resume(tmp_path / "checkpoint.pt")
    assert train(second, tmp_path, show=False) and second.epoch == 12


def test_a_checkpoint_from_before_precision_and_capture(cora, tmp_path):
    path = tmp_path / "checkpoint.pt"
    trained(cora, "cpu", **BRIEF | {"epochs": 2}).save(path)
    saved = torch.load(path, weights_only=True)
    del saved["recipe"]["precision"]
    for group in saved["optimizer"]["param_groups"]:
        del group["capturable"]
    torch.save(saved, path)
    second = Trainer(cora, Recipe(**BRIEF), "cpu")
    second.resume(path)
    second.step()
    assert second.epoch == 3


def test_a_checkpoint_from_before_there_were_rules_is_of_the_printed_one(cora, tmp_path):
    path = tmp_path / "checkpoint.pt"
    for max_iter in (None, 3):
        trained(cora, "cpu", **BRIEF | {"epochs": 2}, max_iter=max_iter, rule="printed").save(path)
        saved = torch.load(path, weights_only=True)
        assert saved["recipe"].pop("rule") == "printed"
        torch.save(saved, path)
        second = Trainer(cora, Recipe(**BRIEF, max_iter=max_iter, rule="printed"), "cpu")
        second.resume(path)
        second.step()
        assert second.epoch == 3
        other = Trainer(cora, Recipe(**BRIEF, max_iter=max_iter), "cpu")
        if max_iter is None:
            other.resume(path)  # exact: rules have no effect
        else:
            with pytest.raises(TrainingError, match="its rule is printed, and this run's is threshold_first"):
                other.resume(path)


def test_the_rule_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "--graph", str(CORA), "--model", "sage", *SMALL, "--epochs", "1", "--max-iter", "3"]
    for more, label, text in (
        ([], "max_iter-3", "top-k max_iter 3, on cpu"),
        (["--rule", "printed"], "max_iter-3-printed", "top-k max_iter 3, printed, on cpu"),
    ):
        assert cli.main([*arguments, *more, "--device", "cpu"]) == 0
        assert text in capsys.readouterr().out
        result = json.loads((tmp_path / "runs" / f"cora-sage-{label}-seed97" / "result.json").read_text())
        assert result["recipe"]["rule"] == (more[1] if more else "threshold_first")
    with pytest.raises(SystemExit):
        cli.main([*arguments, "--rule", "first"])
    assert re.search("--rule: invalid choice: 'first' .*threshold_first.*printed", capsys.readouterr().err)


def test_precision_is_that_of_the_steps_alone(cora):
    seen = []
    trainer = Trainer(cora, Recipe(precision="high", **BRIEF), "cpu")
    trainer.network.register_forward_hook(lambda *_: seen.append(torch.get_float32_matmul_precision()))
    trainer.evaluate(trainer.step())
    assert seen == ["high", "high"] and torch.get_float32_matmul_precision() == "highest"
    with pytest.raises(TrainingError, match="precision is 'fast'; accepted: highest, high, medium"):
        Trainer(cora, Recipe(precision="fast"), "cpu")


def test_the_best_parameters_give_the_best_scores(cora, tmp_path):
    trainer = Trainer(cora, Recipe(**BRIEF), "cpu")
    assert train(trainer, tmp_path, show=False)
    network = MaxKGNN("sage", 1433, 32, 7, num_layers=2, k=8).eval()
    network.load_state_dict(torch.load(tmp_path / "best.pt", weights_only=True))
    with torch.no_grad():
        result = network(cora.features, cora.graph.with_self_loops())
    result_file = json.loads((tmp_path / "result.json").read_text())
    assert score(result[cora.test], cora.labels[cora.test]) == pytest.approx(result_file["best"]["test"])
    assert result_file["finished"] and len(result_file["history"]) == BRIEF["epochs"]
    assert not list(tmp_path.glob(".*"))  # no temporary files


def test_checkpoints_of_other_runs_and_broken_ones_are_refused(cora, tmp_path):
    path = tmp_path / "checkpoint.pt"
    trainer = Trainer(cora, Recipe(**BRIEF), "cpu")
    trainer.save(path)
    with pytest.raises(TrainingError, match="another run: its model is sage, and this run's is gcn"):
        Trainer(cora, Recipe(model="gcn", **BRIEF), "cpu").resume(path)
    with pytest.raises(TrainingError, match="another run: its graph is .*flickr"):
        flickr = Trainer(load("flickr-like", scale=0.01), Recipe(**BRIEF), "cpu")
        flickr.save(path)
        trainer.resume(path)
    Trainer(cora, Recipe(**BRIEF | {"epochs": 99}), "cpu").save(path)
    trainer.resume(path)  # other epochs are no other run
    for content in (b"", b"garbage", path.read_bytes()[:1000]):
        path.write_bytes(content)
        with pytest.raises(TrainingError, match="checkpoint.pt cannot be read as a checkpoint"):
            trainer.resume(path)
    torch.save(trainer.network.state_dict(), path)
    with pytest.raises(TrainingError, match="cannot be read as a checkpoint: it has no 'recipe'"):
        trainer.resume(path)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("foreign data was unpickled",))


def test_a_checkpoint_runs_no_code(cora, tmp_path):
    torch.save({"recipe": Trap()}, tmp_path / "checkpoint.pt")
    with pytest.raises(TrainingError, match="cannot be read as a checkpoint"):
        Trainer(cora, Recipe(**BRIEF), "cpu").resume(tmp_path / "checkpoint.pt")


# ---- The command line ----


def test_train_ends_with_the_test_accuracy(tmp_path):
    arguments = ["train", "--graph", CORA, "--model", "gcn", *SMALL, "--epochs", 6, "--out", tmp_path / "run"]
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"test accuracy 0\.\d{4} at the best validation accuracy 0\.\d{4} \(epoch \d of 6\)", lines[-1])
    assert re.match(r"epoch 6 of 6  loss \d\.\d+  train 0\.\d+  validation 0\.\d+  test 0\.\d+", lines[-2])
    again = run(*arguments[:-3], 8, *arguments[-2:], "--resume")
    assert again.returncode == 0 and "continuing after epoch 6" in again.stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [entry["epoch"] for entry in result["history"]] == list(range(1, 9))


def test_signals_while_results_are_saved_wait():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.asked
        interruption.saving = True
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        interruption.saving = False
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_second_ctrl_c_keeps_the_best(cora, tmp_path, monkeypatch):
    trainer = Trainer(cora, Recipe(**BRIEF), "cpu")
    step = trainer.step

    def interrupted(asked):
        if trainer.epoch == 2:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return step(asked)

    monkeypatch.setattr(trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(trainer, tmp_path, show=False)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["epochs_done"] == 2 and not result["finished"]
    assert result["files"]["checkpoint.pt"]["epoch"] == 1  # of the first evaluation; the epoch that broke off has none
    assert sorted(file.name for file in tmp_path.iterdir()) == ["best.pt", "checkpoint.pt", "result.json"]


def test_killed_after_the_first_evaluation(tmp_path):
    """kill -9, long before the first minute is over: there is something to go on from."""
    arguments = ["train", "--graph", CORA, "--model", "sage", *SMALL, "--epochs", 1000000, "--out", tmp_path]
    line, environment = command(*arguments)
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            for output in process.stdout:
                if output.startswith("epoch"):
                    break
            for _ in range(600):
                if (tmp_path / "result.json").exists():
                    break
                time.sleep(0.1)
        finally:
            process.kill()
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["files"]["checkpoint.pt"]["epoch"] == 1
    trainer = Trainer(load(CORA), Recipe(**result["recipe"]), "cpu")
    trainer.resume(tmp_path / "checkpoint.pt")
    assert trainer.epoch == 1 and len(trainer.history) == 1


@pytest.mark.parametrize("option,value", [("k", 0), ("k", 999), ("epochs", 0), ("lr", -1), ("max-iter", 0)])
def test_a_recipe_is_refused_before_the_graph_is_loaded(tmp_path, capsys, option, value):
    arguments = ["--graph", "nowhere", "--model", "gcn", f"--{option}", str(value), "--out", str(tmp_path / "new")]
    for main, line in ((cli.main, ["train", *arguments]), (study.main, arguments)):
        assert main(line) == 1
        assert f"{option.replace('-', '_')} is {value}" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_keeps_what_was_learnt(tmp_path, number):
    arguments = ["train", "--graph", CORA, "--model", "sage", *SMALL, "--epochs", 1000000, "--out", tmp_path]
    line, environment = command(*arguments)
    process = subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        for output in process.stdout:
            if output.startswith("epoch"):
                break
        time.sleep(0.5)
        process.send_signal(number)
        rest, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "stopping after this epoch" in errors and "Traceback" not in errors
    assert "--resume continues" in rest.splitlines()[-1]
    result = json.loads((tmp_path / "result.json").read_text())
    assert not result["finished"] and result["best"]["epoch"] >= 1
    trainer = Trainer(load(CORA), Recipe(**result["recipe"]), "cpu")
    trainer.resume(tmp_path / "checkpoint.pt")
    assert trainer.epoch == result["epochs_done"]
    for name, value in torch.load(tmp_path / "best.pt", weights_only=True, map_location="cpu").items():
        assert torch.equal(value, trainer.best_state[name])


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["--k", "33", "--hidden", "32"], "error: k is 33; accepted: 1 to 32"),
        (["--layers", "0"], "error: layers is 0; accepted: 1 or more"),
        (["--dropout", "1"], "error: dropout is 1.0; accepted: 0 to less than 1"),
        (["--lr", "-1"], "error: lr is -1.0"),
        (["--lr", "nan"], "error: lr is nan"),
        (["--epochs", "0"], "error: epochs is 0"),
        (["--max-iter", "0"], "error: max_iter is 0"),
        (["--max-iter", "3", "--baseline", "dense"], "error: max_iter is 3 with a baseline; accepted: none"),
        (["--device", "gpu"], "error: there is no device 'gpu'; accepted: cpu, cuda, cuda:N"),
        (["--device", "meta"], "error: device 'meta' cannot be used"),
        (["--scale", "0.5"], "error: .*a scale is for generated graphs"),
        (["--graph", "nope"], "error: there is no graph 'nope'"),
        (["--hidden", "70000"], "error: hidden is 70000; accepted: 1 to 65536"),
        (["--seed", str(10**30)], "error: seed is 10+; accepted: an integer of 64 bits"),
        (["--max-iter", "10001"], "error: max_iter is 10001; accepted: 1 to 10000"),
        (["--lr", "1e30", "--epochs", "5", *SMALL], "error: the loss is .*; a smaller --lr may help"),
    ],
)
def test_errors_of_the_command_line(arguments, text, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "--graph", str(CORA), "--model", "sage", "--epochs", "1", *arguments]) == 1
    assert re.search(text, capsys.readouterr().err)


@pytest.mark.parametrize("out", ["/dev/null/x", CORA])
def test_a_folder_that_cannot_be_is_known_before_training(out, capsys):
    assert cli.main(["train", "--graph", str(CORA), "--model", "sage", *SMALL, "--out", str(out)]) == 1
    printed = capsys.readouterr()
    assert f"error: {out}" in printed.err or f"cannot write {out}" in printed.err
    assert "epoch" not in printed.out


def test_a_disk_that_is_full_costs_no_more_than_it_must(tmp_path):
    """With 20 KB for a file there is room for result.json, and for no parameters."""
    resource = pytest.importorskip("resource")
    line, environment = command("train", "--graph", CORA, "--model", "sage", *SMALL, "--epochs", 2, "--out", tmp_path)
    done = subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )  # fmt: skip
    assert done.returncode == 1 and re.search(r"^error: .*cannot write .*checkpoint\.pt: ", done.stderr)
    assert done.stderr.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["epochs_done"] == 1 and result["files"] == {} and not result["finished"]


def test_a_run_is_not_written_over(cora, tmp_path, capsys):
    arguments = ["train", "--graph", str(CORA), "--model", "sage", *SMALL, "--epochs", "3", "--out", str(tmp_path)]
    assert cli.main([*arguments, "--resume"]) == 0
    assert "checkpoint.pt: starting from the beginning" in capsys.readouterr().out
    before = (tmp_path / "checkpoint.pt").read_bytes()
    assert cli.main([*arguments, "--lr", "0.5"]) == 1
    assert "would be lost: its lr is 0.003, and this run's is 0.5; accepted: another --out" in capsys.readouterr().err
    assert cli.main([*arguments, "--epochs", "4"]) == 1
    assert "its epochs is 3, and this run's is 4; accepted: --resume" in capsys.readouterr().err
    assert cli.main([*arguments, "--epochs", "2", "--resume"]) == 1
    assert "error: epochs is 2, and" in capsys.readouterr().err
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    assert cli.main(arguments) == 0  # the same again
    stopped = Trainer(cora, Recipe(hidden=32, k=8, layers=2, epochs=3), "cpu")
    stopped.step()
    stopped.save(tmp_path / "checkpoint.pt")
    capsys.readouterr()
    assert cli.main(arguments) == 1
    assert "it was stopped after epoch 1 of 3; accepted: --resume" in capsys.readouterr().err
    assert cli.main([*arguments, "--resume"]) == 0


def test_a_run_that_diverged_is_not_finished(cora, tmp_path):
    trainer = Trainer(cora, Recipe(**BRIEF | {"lr": 1e30, "epochs": 2}), "cpu")
    with pytest.raises(TrainingError, match="the loss is"):
        train(trainer, tmp_path, show=False)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["finished"] is False and (tmp_path / "best.pt").exists()
    assert result["files"]["checkpoint.pt"]["epoch"] == 1  # from before it diverged


def test_too_little_memory_is_said_in_a_line(capsys, monkeypatch):
    def run_out(*_):
        torch.empty(1 << 60)

    monkeypatch.setattr(cli, "recipe_for", lambda *_, **__: run_out())
    assert cli.main(["train", "--graph", str(CORA), "--model", "sage"]) == 1
    assert re.search("error: .*memory.* A smaller --hidden, --k or --scale needs less", capsys.readouterr().err)


@pytest.mark.skipif(bool(rtopk.info()["gpus"]), reason="there is a GPU")
def test_a_gpu_that_is_not_there(capsys):
    assert cli.main(["train", "--graph", str(CORA), "--model", "sage", "--device", "cuda"]) == 1
    assert "error: device 'cuda' cannot be used: " in capsys.readouterr().err


def test_help_teaches(capsys):
    for main, arguments, words in (
        (cli.main, ["train", "--help"], "--graph wordnet --model sage"),
        (study.main, ["--help"], "results.json"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0 and words in capsys.readouterr().out
