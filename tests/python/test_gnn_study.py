"""The study: a grid of trainings that goes on where it stopped, and its page."""

import json
import re
from pathlib import Path

import pytest
import torch

pytest.importorskip("numpy", reason="numpy is not installed")

import grid  # noqa: E402
import study  # noqa: E402
import training  # noqa: E402
from results import Results, read_results  # noqa: E402
from rtopk.gnn import GraphError, cli  # noqa: E402
from rtopk.gnn.layers import MODELS  # noqa: E402
from rtopk.gnn.recipe import TrainingError, recipe_for  # noqa: E402
from training_page import training_page  # noqa: E402

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


def test_the_recorded_study_can_be_read():
    results = read_results(ROOT / "docs" / "paper" / "training.json")
    derived = training.training(results)
    assert derived["conclusion"]["exact"]["cells"] >= 3
    for cell in derived["cells"]:
        assert {"dense", "exact"} <= {one["selection"] for one in cell["selections"]}


def test_both_rules_are_one_cell():
    results = made_up_results(dense=[0.5], exact=[0.5])
    results["runs"] += [early_run("printed", 0.25), early_run("threshold_first", 0.375)]
    (cell,) = training.training(results)["cells"]
    assert cell["title"] == "g, GCN"
    differences = {one["rule"]: one["difference"]["value"] for one in cell["selections"] if "difference" in one}
    assert differences == {None: 0, "threshold_first": -12.5, "printed": -25}


def test_a_study_goes_on_where_it_stopped_and_draws_its_page(tmp_path, capsys):
    arguments = ["--graph", str(CORA), "--model", "sage", "gcn", "--max-iter", "2", "--seeds", "2", *SMALL]
    arguments += ["--epochs", "3", "--repetitions", "1", "--out", str(tmp_path)]
    assert study.main([*arguments, "--time-limit", "0"]) == 0
    assert "are left: the same command continues" in capsys.readouterr().out
    assert study.main(arguments) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["timings"]) == 2 * 3 and len(results["runs"]) == 2 * 3 * 2
    assert results["environment"]["commands"] and len(results["environment"]["commits"]) <= 1
    text = (tmp_path / "index.html").read_text()
    assert text.count('class="panel"') == 1 and "cora, GraphSAGE" in text and "Exact equals dense" in text
    assert "http" not in text.replace("http-equiv", "")  # nothing is fetched
    summary = json.loads((tmp_path / "summary.json").read_text())
    place = re.search(r'data-at="summary.json#/([^"]*/step_ms)"', text)[1].split("/")
    for key in place:
        summary = summary[int(key)] if isinstance(summary, list) else summary[key]
    assert summary == results["timings"][0]["step_ms"]
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


RECIPE = {"model": "gcn", "hidden": 8, "k": 2, "layers": 1, "dropout": 0, "lr": 1, "epochs": 1}
RECIPE |= {"self_loops": True, "eval_every": 1}
CHOICES = {"dense": {"baseline": "dense"}, "exact": {}, "max_iter 2": {"max_iter": 2}}


def made_up_results(**scores):
    """Results of one graph and model: test scores by selection."""
    runs = [
        {"graph": "g", "selection": name, "recipe": RECIPE | CHOICES[name] | {"seed": seed}, "best": {"test": value}}
        for name, values in scores.items()
        for seed, value in enumerate(values)
    ]
    times = {"dense": (10.0, 4.0), "exact": (5.0, 0.5), "max_iter 2": (4.0, 0.4)}
    timings = [
        {"graph": "g", "selection": name, "recipe": RECIPE | CHOICES[name], "step_ms": step, "topk_ms": topk}
        for name, (step, topk) in times.items()
    ]
    graphs = {"g": {"nodes": 1, "edges": 1, "metric": "accuracy"}}
    return {"environment": {}, "graphs": graphs, "timings": timings, "runs": runs}


def early_run(rule, value):
    recipe = RECIPE | {"max_iter": 2, "rule": rule, "seed": 0}
    return {"graph": "g", "selection": "max_iter 2", "recipe": recipe, "best": {"test": value}}


def text_of(results):
    """The words of the page."""
    _, text = training_page({"training": "results.json"}, {"training": results})
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def test_every_model_has_a_name_on_the_page():
    assert training.NAMES.keys() == MODELS.keys()


def test_the_figures_of_the_page():
    results = made_up_results(dense=[0.5, 0.7], exact=[0.6, 0.6])
    (cell,) = training.training(results)["cells"]
    dense, exact, early = cell["selections"]
    assert (exact["speedup"], early["speedup"], early["of_exact"]) == (2, 2.5, 0.8)
    assert (dense["share_percent"], exact["share_percent"]) == (40, 10)
    assert dense["score"] == pytest.approx({"mean": 60, "spread": 20 / 2**0.5, "seeds": 2})
    assert exact["difference"]["value"] == pytest.approx(0) and exact["difference"]["beyond_chance"] is False
    text = text_of(results)
    assert "60.00 ± 14.14" in text and "Exact equals dense" in text


def test_a_single_seed_has_no_spread():
    text = text_of(made_up_results(dense=[0.5], exact=[0.625]))
    assert "±" not in text.replace("mean ± standard", "") and "+12.50" in text and "62.50" in text


def test_the_chance_of_a_difference_is_that_of_students_t():
    """For four and eight degrees of freedom: 2.776 and 2.306."""
    assert training.students_t(4) == pytest.approx(2.776, abs=0.03)
    assert training.students_t(8) == pytest.approx(2.306, abs=0.003)
    (cell,) = training.training(made_up_results(dense=[0.50, 0.51, 0.52], exact=[0.55, 0.56, 0.57]))["cells"]
    difference = cell["selections"][1]["difference"]
    assert difference["chance"] == pytest.approx(2.776 * (2 / 3) ** 0.5, abs=0.03) and difference["beyond_chance"]
    text = text_of(made_up_results(dense=[0.50, 0.51, 0.52], exact=[0.55, 0.56, 0.57]))
    assert "Exact differs from dense" in text


def test_other_recipes_are_other_cells():
    results = made_up_results(dense=[0.5], exact=[0.5])
    for kind in ("timings", "runs"):
        longer = [
            entry | {"recipe": entry["recipe"] | {"epochs": 9, "precision": "highest"}} for entry in results[kind]
        ]
        results[kind] += [entry | ({"best": {"test": 0.9}} if kind == "runs" else {}) for entry in longer]
    first, second = training.training(results)["cells"]
    assert (first["title"], second["title"]) == ("g, GCN, epochs 1", "g, GCN, epochs 9")
    assert [cell["selections"][0]["score"]["mean"] for cell in (first, second)] == [50, 90]


def test_steps_and_the_table_of_the_same_folder_are_on_the_page(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(made_up_results(dense=[0.5], exact=[0.5])))
    assert study.main(["--page-only", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "index.html").read_text().count('class="missing"') == 2
    row = {"graph": "flickr", "model": "gin", "metric": "accuracy", "published": 51.73, "scores": {"exact": [51.5]}}
    (tmp_path / "table4.json").write_text(json.dumps({"environment": {}, "rows": [row]}))
    assert study.main(["--page-only", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "index.html").read_text()
    assert text.count('class="missing"') == 1 and "flickr, GIN" in text and ">51.73<" in text
    (tmp_path / "table4.json").write_text("{}")
    assert study.main(["--page-only", "--out", str(tmp_path)]) == 1


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
