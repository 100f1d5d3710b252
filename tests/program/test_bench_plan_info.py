"""The commands that report."""

import json

import pytest


def test_version(rtopk):
    version = rtopk("--version").stdout.split()
    assert version[0] == "rtopk" and version[1].count(".") == 2
    assert json.loads(rtopk("info", "--json").stdout)["version"] == version[1]
    assert version[1] in rtopk("info").stdout


def test_info(rtopk):
    info = json.loads(rtopk("info", "--json").stdout)
    assert "cpu" in info["backends"] and info["cpu"]["threads"] >= 1
    assert info["cpu"]["target"] in info["cpu"]["targets"] or not info["highway"]
    text = rtopk("info").stdout
    assert info["cpu"]["target"] in text and "gpu" in text


def test_plan(rtopk):
    command = ["plan", "--shape", "1000x768x32", "--dtype", "bf16", "--device", "cpu", "--threads", 2]
    text = rtopk(*command).stdout
    fields = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert fields["rows"] == "1000" and fields["dtype"] == "bf16" and "workspace_bytes" in fields
    plan = json.loads(rtopk(*command, "--json").stdout)
    assert {name: str(value) for name, value in plan.items()} == fields
    assert plan["cols"] == 768 and isinstance(plan["family"], str)


def test_plan_takes_every_flag(rtopk):
    plan = json.loads(
        rtopk(
            "plan",
            "--shape",
            "100x300x5",
            "--form",
            "cbsr",
            "--smallest",
            "--order",
            "by-index",
            "--max-iter",
            7,
            "--rule",
            "printed",
            "--json",
        ).stdout
    )
    assert (plan["form"], plan["index_type"], plan["direction"]) == ("cbsr", "u16", "smallest")
    assert (plan["max_iter"], plan["rule"]) == (7, "printed")


def test_plan_has_the_rule_of_early_stopping(rtopk):
    def rule(*flags):
        return json.loads(rtopk("plan", "--shape", "100x300x5", *flags, "--json").stdout).get("rule")

    assert rule("--max-iter", 7) == "threshold_first" and rule("--max-iter", 7, "--rule", "printed") == "printed"
    assert rule() is None and rule("--epsilon", 0.1) is None


def test_bench_table(rtopk):
    done = rtopk("bench", "--device", "cpu", "--shape", "2000x100x5", "--shape", "500x1000x50", "--repeats", 3)
    lines = done.stdout.splitlines()
    header = next(i for i, line in enumerate(lines) if line.split()[:3] == ["rows", "cols", "k"])
    for line, shape in zip(lines[header + 1 :], (["2000", "100", "5"], ["500", "1000", "50"]), strict=False):
        assert line.split()[:3] == shape
        assert all(float(field.lstrip("~")) >= 0 for field in line.split()[3:8])
    assert "geometric mean" in done.stdout and "64 rows were checked" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    "flags",
    [
        ["--dtype", "f16"],
        ["--dtype", "bf16", "--smallest"],
        ["--dtype", "f64", "--sorted"],
        ["--dtype", "i32", "--form", "mask"],
        ["--form", "dense", "--max-iter", "3"],
        ["--max-iter", "3", "--rule", "printed"],
        ["--form", "cbsr", "--epsilon", "0.01"],
        ["--search", "bisection"],
        ["--no-values", "--index-type", "i32", "--threads", "1"],
        ["--dist", "ties"],
        ["--passes"],
    ],
)
def test_bench_json(rtopk, flags):
    command = ["bench", "--shape", "300x200x7", "--device", "cpu", "--repeats", 2, "--json", "-", *flags]
    report = json.loads(rtopk(*command).stdout)
    assert report["command"].startswith("rtopk bench --shape 300x200x7")
    assert {"version", "date", "cpu", "threads", "dtype"} <= report.keys()
    (result,) = report["results"]
    assert (result["rows"], result["cols"], result["k"]) == (300, 200, 7)
    assert result["rule"] == report["rule"] == ("printed" if "--rule" in flags else "threshold_first")
    assert result["correct"] and result["rows_checked"] == 32 and len(result["samples_ms"]) == 2
    for field in ("ms", "gb_per_s", "floor_ms", "times_floor", "nth_element_ms", "times_faster_than_nth_element"):
        assert result[field] > 0


def test_bench_json_file(rtopk, tmp_path):
    done = rtopk("bench", "--shape", "1x1x1", "--repeats", 1, "--json", tmp_path / "bench.json")
    assert "rows" in done.stdout
    assert json.loads((tmp_path / "bench.json").read_text())["results"][0]["correct"]
    assert [p.name for p in tmp_path.iterdir()] == ["bench.json"]
