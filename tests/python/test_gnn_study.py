"""The study: a grid of trainings that goes on where it stopped, and its page."""

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("numpy", reason="numpy is not installed")

import grid  # noqa: E402
import page  # noqa: E402
import study  # noqa: E402
from results import Results, read_results  # noqa: E402
from rtopk.gnn import GraphError, cli  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402
from rtopk.gnn.recipe import TrainingError, recipe_for  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CORA = ROOT / "tests" / "data" / "cora.npz"
SMALL = ["--hidden", "32", "--k", "8", "--layers", "2"]

pytestmark = pytest.mark.usefixtures("one_thread")


def test_results_from_before_precision_are_known(tmp_path):
    recipe = recipe_for("cora", "sage", seed=0)
    results = Results(tmp_path / "results.json")
    results.add("runs", "cora", recipe, best={}, last={}, seconds=1.0)
    del results.content["runs"][0]["recipe"]["precision"]
    assert results.has("runs", "cora", recipe)
    assert not results.has("runs", "cora", recipe_for("cora", "sage", seed=0, precision="high"))


def test_results_from_before_there_were_rules_are_of_the_printed_one(tmp_path):
    recipe = recipe_for("cora", "sage", seed=0, max_iter=2)
    printed = recipe_for("cora", "sage", seed=0, max_iter=2, rule="printed")
    results = Results(tmp_path / "results.json")
    results.add("runs", "cora", printed, best={}, last={}, seconds=1.0)
    del results.content["runs"][0]["recipe"]["rule"]
    assert results.has("runs", "cora", printed) and not results.has("runs", "cora", recipe)


def test_the_recorded_study_is_read_with_its_rule():
    recorded = ROOT / "docs" / "gnn"
    results = read_results(recorded / "results.json")
    cells = page._cells(results)
    assert all(cell.recipe["rule"] == "printed" and "dense" in cell.times and cell.stopped for cell in cells)
    assert (recorded / "index.html").read_text().count("<td>printed</td>") == len(cells)


def test_other_rules_are_other_figures():
    results = made_up_results(dense=[0.5], exact=[0.5])
    for kind in ("timings", "runs"):
        results[kind] += [e | {"recipe": e["recipe"] | {"rule": "threshold_first"}} for e in results[kind]]
    assert [cell.title for cell in page._cells(results)] == ["g, GCN, rule printed", "g, GCN, rule threshold_first"]


def test_a_study_goes_on_where_it_stopped_and_draws_its_page(tmp_path, capsys):
    arguments = ["--graph", str(CORA), "--model", "sage", "gcn", "--max-iter", "2", "--seeds", "2", *SMALL]
    arguments += ["--epochs", "3", "--repetitions", "1", "--out", str(tmp_path)]
    assert study.main([*arguments, "--time-limit", "0"]) == 0
    assert "are left: the same command continues" in capsys.readouterr().out
    assert study.main(arguments) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["timings"]) == 2 * 3 and len(results["runs"]) == 2 * 3 * 2
    text = (tmp_path / "index.html").read_text()
    assert text.count("<svg") == 4 and "cora, GraphSAGE" in text and "96.74" in text
    assert "http" not in text.replace("http-equiv", "")  # nothing is fetched
    capsys.readouterr()
    assert study.main(arguments) == 0
    assert "0 to do" in capsys.readouterr().out
    assert json.loads((tmp_path / "results.json").read_text())["runs"] == results["runs"]


def test_a_study_of_the_same_twice_and_of_what_diverges(tmp_path, capsys):
    arguments = ["--graph", str(CORA), str(CORA), "--model", "sage", "sage", "--max-iter", "2", "2", *SMALL]
    arguments += ["--seeds", "1", "--epochs", "2", "--lr", "1e30", "--repetitions", "1", "--out", str(tmp_path)]
    assert study.main(arguments) == 0
    output = capsys.readouterr().out
    assert "6 of 6" in output and output.count("seed 0, no result: the loss is") == 3
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["timings"]) == 3 and results["runs"] == []


def test_a_study_mixes_neither_devices_nor_graphs(cora, tmp_path):
    results = Results(tmp_path / "results.json")
    results.expect([cora, cora], torch.device("cpu"))
    other = cora.with_graph(cora.graph.with_self_loops())
    with pytest.raises(TrainingError, match="there are two graphs 'cora', .*10556.* and .*13264.*; accepted: one of a"):
        results.expect([other], torch.device("cpu"))
    results.content["environment"]["device"] = "another"
    results.expect([cora], torch.device("cpu"))  # nothing was measured there
    results.content["environment"]["device"] = "another"
    results.add("runs", "cora", recipe_for("cora", "sage"), best={}, last={}, seconds=1.0)
    with pytest.raises(TrainingError, match="has results of another, and this is .*; accepted: another --out"):
        results.expect([cora], torch.device("cpu"))


def made_up_results(**scores):
    """Results of one graph and model: test scores by selection."""
    recipe = {"model": "gcn", "hidden": 8, "k": 2, "layers": 1, "dropout": 0, "lr": 1, "epochs": 1}
    recipe |= {"self_loops": True, "eval_every": 1}
    runs = [
        {"graph": "g", "selection": selection, "recipe": recipe, "best": {"test": value}}
        for selection, values in scores.items()
        for value in values
    ]
    times = {"dense": (10.0, 4.0), "exact": (5.0, 0.5), "max_iter 2": (4.0, 0.4)}
    timings = [
        {"graph": "g", "selection": selection, "recipe": recipe, "step_ms": step, "topk_ms": topk}
        for selection, (step, topk) in times.items()
    ]
    graphs = {"g": {"nodes": 1, "edges": 1, "metric": "accuracy"}}
    return {"environment": {}, "graphs": graphs, "timings": timings, "runs": runs}


def test_every_model_has_a_name_on_the_page():
    assert page.NAMES.keys() == MODELS.keys()


def test_the_figures_of_the_page():
    (cell,) = page._cells(made_up_results(dense=[0.5, 0.7], exact=[0.6, 0.6]))
    assert cell.speedup("exact") == 2 and cell.speedup("max_iter 2") == 2.5 and cell.speedup("max_iter 9") is None
    assert cell.share("dense") == 40 and cell.share("exact") == 10
    assert cell.score("dense") == pytest.approx((60, 20 / 2**0.5)) and cell.score("exact") == pytest.approx((60, 0))
    text = page.html(made_up_results(dense=[0.5, 0.7], exact=[0.6, 0.6]))
    assert "60.00 ± 14.14" in text and "2.50×" in text and "40.0 %" in text and "generated" not in text


def test_a_single_seed_has_no_spread():
    text = page.html(made_up_results(dense=[0.5], exact=[0.625]))
    assert "±" not in text.replace("Mean ± standard", "") and "+12.50<" in text and "62.50<" in text


def test_seeds_that_are_missing_are_counted():
    assert "<td>1–2</td>" in page.html(made_up_results(dense=[0.5, 0.7], exact=[0.6]))


def test_generated_graphs_are_called_so():
    results = json.loads(json.dumps(made_up_results(dense=[0.5])).replace('"g"', '"flickr-like x 0.1"'))
    assert "are generated" in page.html(results)


def test_other_recipes_are_other_figures():
    results = made_up_results(dense=[0.5], exact=[0.5])
    for kind in ("timings", "runs"):
        longer = [
            entry | {"recipe": entry["recipe"] | {"epochs": 9, "precision": "highest"}} for entry in results[kind]
        ]
        results[kind] += [entry | ({"best": {"test": 0.9}} if kind == "runs" else {}) for entry in longer]
    first, second = page._cells(results)
    assert (first.title, second.title) == ("g, GCN, epochs 1", "g, GCN, epochs 9")
    assert first.scores == {"dense": [50], "exact": [50]} and second.scores == {"dense": [90], "exact": [90]}
    assert page.html(results).count("<svg") == 4


def test_studies_that_cannot_be(tmp_path, capsys):
    assert study.main(["--page-only", "--out", str(tmp_path)]) == 1
    assert "there are no results in" in capsys.readouterr().err
    (tmp_path / "results.json").write_text('{"runs": [{}]}')
    assert study.main(["--page-only", "--out", str(tmp_path)]) == 1
    assert "cannot be read as results of a study" in capsys.readouterr().err
    assert study.main(["--graph", str(CORA), "--k", "999", "--out", str(tmp_path / "new")]) == 1
    assert "error: k is 999" in capsys.readouterr().err
    for arguments, text in (
        (["--repetitions", "0"], "error: repetitions is 0; accepted: 1 or more"),
        (["--seeds", "-1"], "error: seeds is -1; accepted: 0 or more"),
        (["--time-limit", "nan"], "error: time_limit is nan"),
        (["--out", str(CORA)], "error: "),
    ):
        assert study.main(["--graph", str(CORA), "--out", str(tmp_path / "new"), *arguments]) == 1
        assert text in capsys.readouterr().err
    with pytest.raises(GraphError):
        grid.run(grid.Plan(["nope"], ["sage"], []), tmp_path / "new", device=torch.device("cpu"))


def test_the_old_command_says_where_the_study_is(capsys):
    assert cli.main(["study", "--graph", str(CORA)]) == 2
    assert "accepted: python paper/gnn/study.py" in capsys.readouterr().err
