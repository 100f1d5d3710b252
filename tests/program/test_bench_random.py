"""rtopk bench --random-shapes: the problems that it draws, and what it says about them."""

import collections
import json
import math

import pytest

KINDS = {"normal", "own_scale", "two_humps", "softmax", "sparse", "constant", "infinities"}
FIELDS = {
    "rows": int,
    "cols": int,
    "k": int,
    "dtype": str,
    "direction": str,
    "order": str,
    "form": str,
    "index_type": str,
    "row_stride": int,
    "input_offset": int,
    "data": str,
    "seed": int,
}


@pytest.fixture
def drawn(rtopk):
    """The problems of a dry run."""

    def call(count, seed, *flags, device="cpu"):
        command = ["bench", "--random-shapes", count, "--seed", seed, "--device", device, "--dry-run", "--json", "-"]
        report = json.loads(rtopk(*command, *flags).stdout)
        assert len(report["problems"]) + report["left_out"] == count
        return report["problems"]

    return call


def test_same_seed_same_problems(drawn):
    assert drawn(20, 5) == drawn(20, 5) == drawn(30, 5)[:20]
    assert not {problem["seed"] for problem in drawn(20, 5)} & {problem["seed"] for problem in drawn(20, 6)}


@pytest.mark.parametrize(("device", "low", "high"), [("cpu", 18, 22), ("cuda", 24.5, 28.5)])
def test_ranges(drawn, device, low, high):
    """Also for a GPU that is not here."""
    problems = drawn(2000, 1, device=device)
    assert len(problems) == 2000
    for problem in problems:
        assert {field: type(problem[field]) for field in FIELDS} == FIELDS
        rows, cols, k = problem["rows"], problem["cols"], problem["k"]
        assert 8 <= cols <= 262144 and 1 <= k <= cols // 2
        assert rows * cols <= 2**high and (rows + 1) * cols > 2**low
        assert problem["row_stride"] == 0 or cols < problem["row_stride"] <= cols + 64
        assert 0 <= problem["input_offset"] <= 7 and problem["data"] in KINDS
        assert problem["order"] == "unsorted" or problem["form"] == "pairs"
        if problem["form"] == "cbsr":
            assert problem["index_type"] == ("u8" if cols <= 256 else "u16") and cols <= 65536
        else:
            assert problem["index_type"] in ("i32", "i64")


def test_shares(drawn):
    """Of 4000 problems; a share of p has a deviation of sqrt(p (1 - p) / 4000)."""
    problems = drawn(4000, 2)

    def is_about(expected, holds):
        share = sum(map(holds, problems)) / len(problems)
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / len(problems)), (expected, share)

    for dtype, expected in {"f32": 3 / 8, "f16": 1 / 4, "bf16": 1 / 4, "f64": 1 / 16, "i32": 1 / 16}.items():
        is_about(expected, lambda problem, dtype=dtype: problem["dtype"] == dtype)
    for data in KINDS:
        is_about(1 / 3 if data == "normal" else 1 / 9, lambda problem, data=data: problem["data"] == data)
    is_about(1 / 2, lambda problem: problem["row_stride"] == problem["input_offset"] == 0)
    is_about(1 / 4, lambda problem: problem["row_stride"] == 0 and problem["input_offset"] > 0)
    is_about(1 / 8, lambda problem: problem["form"] == "dense")
    is_about(1 / 16, lambda problem: problem["form"] == "mask")
    is_about(1 / 4, lambda problem: problem["direction"] == "smallest")
    # The middle of the logarithms of 8 and 262144.
    is_about(1 / 2, lambda problem: problem["cols"] < 2**10.5)
    orders = collections.Counter(problem["order"] for problem in problems if problem["form"] == "pairs")
    assert orders["unsorted"] > 1.7 * orders["by_value"] > orders["by_index"]


def test_a_flag_changes_nothing_else(drawn):
    plain = drawn(100, 3)
    assert drawn(100, 3, "--dtype", "bf16") == [problem | {"dtype": "bf16"} for problem in plain]
    assert {problem["data"] for problem in drawn(100, 3, "--dist", "ties")} == {"ties"}
    dense = drawn(100, 3, "--form", "dense")
    kept = ("rows", "cols", "k", "dtype", "row_stride", "input_offset", "data", "seed")
    assert [[problem[field] for field in kept] for problem in dense] == [
        [problem[field] for field in kept] for problem in plain
    ]
    assert {problem["form"] for problem in dense} == {"dense"}


def test_what_a_flag_does_not_go_with_is_left_out(rtopk, drawn):
    assert all(problem["cols"] <= 65536 for problem in drawn(100, 3, "--form", "cbsr"))
    short = drawn(100, 3, "--family", "cpu_lanes")
    assert 0 < len(short) < 100 and max(problem["cols"] for problem in short) <= 1024
    done = rtopk("bench", "--random-shapes", 100, "--seed", 3, "--form", "cbsr", "--dry-run", "--device", "cpu")
    assert "problems were left out" in done.stdout


def test_sizes_alone_differ_on_a_gpu(drawn):
    for here, there in zip(drawn(50, 4), drawn(50, 4, device="cuda"), strict=True):
        assert {**here, "rows": 0, "distinct_rows": 0} == {**there, "rows": 0, "distinct_rows": 0}
        assert there["rows"] > here["rows"] and there["distinct_rows"] >= min(16, there["rows"])


def test_dry_run_of_shapes(rtopk):
    command = ["bench", "--shape", "100x64x4", "--shape", "100x65x4", "--dtype", "f16", "--dry-run"]
    for device in ("cpu", "cuda"):
        report = json.loads(rtopk(*command, "--device", device, "--json", "-").stdout)
        assert [problem["cols"] for problem in report["problems"]] == [64, 65]
        assert {problem["dtype"] for problem in report["problems"]} == {"f16"}
        assert "100      64      4 f16" in rtopk(*command, "--device", device).stdout


def test_table(rtopk):
    command = ["bench", "--random-shapes", 14, "--seed", 3, "--device", "cpu", "--repeats", 1]
    done = rtopk(*command)
    assert done.stderr == "" and "nth_element" not in done.stdout
    heading, problems, groups, worst, _ = done.stdout.split("\n\n")
    assert "14 random problems of seed 3" in heading
    assert len(problems.splitlines()) == 1 + 14
    heading, everything, *_ = groups.splitlines()
    assert heading.split() == ["x", "floor", "problems", "mean", "median", "90th", "worst"]
    assert everything.split()[:2] == ["all", "14"]
    mean, middle, percentile, most = map(float, everything.split()[2:])
    assert 0 < mean <= most and middle <= percentile <= most
    assert "cpu_" in groups
    heading, *worst = worst.splitlines()
    assert heading == "the worst:" and len(worst) == 20
    assert float(worst[0].split()[0]) == most
    assert all(line.split()[0].startswith("cpu_") and "threads=" in line for line in worst[1::2])


def test_json(rtopk, drawn):
    command = ["bench", "--random-shapes", 12, "--seed", 8, "--device", "cpu", "--repeats", 2, "--json", "-"]
    report = json.loads(rtopk(*command).stdout)
    assert report["seed"] == 8 and report["left_out"] == 0
    results = report["results"]
    for result, problem in zip(results, drawn(12, 8), strict=True):
        assert {field: result[field] for field in problem} == problem
        assert result["correct"] and result["rows_checked"] == min(32, result["rows"])
        assert len(result["samples_ms"]) == 2 and result["config"].startswith("threads=")
        assert result["times_floor"] == pytest.approx(result["ms"] / result["floor_ms"])
    ratios = sorted(result["times_floor"] for result in results)
    groups = {group["group"]: group for group in report["times_floor"]}
    everything = groups["all"]
    assert everything["problems"] == 12 and everything["worst"] == ratios[-1]
    assert everything["geometric_mean"] == pytest.approx(math.exp(sum(map(math.log, ratios)) / 12))
    assert everything["median"] == pytest.approx((ratios[5] + ratios[6]) / 2)
    assert everything["percentile_90"] == ratios[10]  # 11 of 12 are the first that are nine in ten
    assert sum(groups[name]["problems"] for name in ("f32", "16 bits", "others") if name in groups) == 12
    assert sum(group["problems"] for name, group in groups.items() if name.startswith("cpu_")) == 12
    by_number = {result["number"]: result["times_floor"] for result in results}
    assert [by_number[number] for number in report["worst"]] == ratios[::-1][:10]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--random-shapes", "3", "--shape", "4x4x2"], "--shape"),
        (["--random-shapes", "3", "--grid", "small"], "--grid"),
        (["--random-shapes", "0"], "--random-shapes"),
        (["--random-shapes", "3", "--seed", "-1"], "'-1' is no whole number"),
        (["--random-shapes", "3", "--device", "cpu", "--family", "cuda_warp"], "leave no problem"),
        (["--random-shapes", "3", "--device", "cuda", "--dry-run", "--family", "cuda_warp"], "depends on the GPU"),
        (["--dry-run"], "nothing to time"),
    ],
)
def test_refused(refused, arguments, says):
    refused("bench", *arguments, says=says)


def test_on_a_gpu(rtopk, needs_gpu):
    command = ["bench", "--random-shapes", 12, "--device", "cuda", "--repeats", 2, "--json", "-"]
    report = json.loads(rtopk(*command).stdout)
    assert all(result["correct"] and result["family"].startswith("cuda_") for result in report["results"])
