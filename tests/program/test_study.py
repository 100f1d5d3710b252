"""`rtopk study` beside NumPy: on the same rows number for number, on other rows within confidence intervals."""

import json
import math
from statistics import NormalDist

import numpy as np
import pytest

KS = [16, 32, 64, 96, 128]
PAIRS = [(256, k) for k in (64, 128)] + [(1024, k) for k in (64, 128, 256, 512)]
PAIRS += [(m, k) for m in (4096, 8192) for k in (64, 128, 256, 512)]


@pytest.fixture
def study(rtopk):
    def call(part, *flags):
        report = json.loads(rtopk("study", part, "--device", "cpu", *flags, "--json", "-").stdout)
        (result,) = report["parts"]
        assert result["part"] == part
        return result

    return call


@pytest.fixture
def rows_of(rtopk, tmp_path):
    """The rows that a study of this seed sees."""

    def make(shape, seed, *flags):
        path = tmp_path / "rows.npz"
        command = ["select", "--random", shape, "--seed", seed, "-k", shape.split("x")[1], "--form", "dense", "-q"]
        rtopk(*command, *flags, "-o", path)
        return np.load(path)["dense"]

    return make


def middle(low, high):
    return np.float32(0.5) * low + np.float32(0.5) * high


def exits(x, k, epsilon):
    """How often the loop of Algorithm 1 runs for each row. It also ends when the threshold cannot move any more."""
    low, high = x.min(1), x.max(1)
    width = np.float32(epsilon) * high
    iterations = np.zeros(len(x), int)
    counted = np.zeros(len(x), bool)  # whether high has been a threshold
    live = high - low > width
    while live.any():
        threshold = middle(low, high)
        live &= (threshold != low) & ((threshold != high) | ~counted)
        count = (x >= threshold[:, None]).sum(1)
        iterations += live
        counted |= live & (count < k)
        high = np.where(live & (count < k), threshold, high)
        low = np.where(live & (count > k), threshold, low)
        live &= (count != k) & (high - low > width)
    return iterations


def bounds(x, k, max_iter, end_at_k=False):
    """The bounds of Algorithm 2. With end_at_k, a row's loop ends at exactly k elements and its bounds stay."""
    low, high = x.min(1), x.max(1)
    live = np.ones(len(x), bool)
    for _ in range(max_iter):
        threshold = middle(low, high)
        count = (x >= threshold[:, None]).sum(1)
        live &= (count != k) | (not end_at_k)
        low = np.where(live & (count >= k), threshold, low)
        high = np.where(live & (count < k), threshold, high)
    return low[:, None], high[:, None]


def first(candidates, places):
    return candidates & (np.cumsum(candidates, 1) <= places)


def early_stop(x, k, max_iter, end_at_k=False):
    """E1, E2, E2 of the maximum and hit rate of Algorithm 2 as printed; in percent, by row."""
    low, _ = bounds(x, k, max_iter, end_at_k)
    return errors(x, k, first(x >= low, k))


def kernel_stop(x, k, max_iter):
    """The same for the selection of the paper's kernel."""
    low, _ = bounds(x, k, max_iter)
    last = middle(*bounds(x, k, max_iter - 1))
    sure = (x >= last) & ((x >= last).sum(1) < k)[:, None]
    return errors(x, k, sure | first((x >= low) & ~sure, k - sure.sum(1)[:, None]))


def sure_stop(x, k, max_iter):
    """The same for all elements at or above the upper bound, then the first at or above the lower one."""
    low, high = bounds(x, k, max_iter)
    sure = x >= high
    return errors(x, k, sure | first((x >= low) & ~sure, k - sure.sum(1)[:, None]))


def errors(x, k, selected):
    ranked = -np.sort(-x, axis=1).astype(np.float64)
    best, kth = ranked[:, 0], ranked[:, k - 1]
    exact = x >= kth[:, None]
    greatest = np.where(selected, x, -np.inf).max(1)
    least = np.where(selected, x, np.inf).min(1)
    assert (selected.sum(1) == k).all()
    return {
        "e1_percent": 100 * np.abs((greatest - best) / best),
        "e2_percent": 100 * np.abs((least - kth) / kth),
        "e2_of_maximum_percent": 100 * np.abs((least - kth) / best),
        "hit_percent": 100 * (selected & exact).sum(1) / k,
    }


def half_width(sample):
    return 1.96 * sample.std(ddof=1) / math.sqrt(len(sample))


def same(estimate, sample):
    """Compares numbers from the same rows."""
    assert estimate["value"] == pytest.approx(sample.mean(), rel=1e-9, abs=1e-9)
    assert estimate["high"] - estimate["value"] == pytest.approx(half_width(sample), rel=1e-3, abs=1e-9)
    assert estimate["value"] - estimate["low"] == pytest.approx(half_width(sample), rel=1e-3, abs=1e-9)


def near(estimate, sample):
    """Compares two samples of one distribution, within three half widths of the intervals, so that tests are stable."""
    both = math.hypot((estimate["high"] - estimate["low"]) / 2, half_width(sample))
    assert abs(estimate["value"] - sample.mean()) <= 3 * both + 1e-9


def test_table1_on_the_same_rows(study, rows_of):
    table = study("table1", "--rows", 3000, "--seed", 5)
    x = rows_of("3000x256", 5)
    assert [column["k"] for column in table["columns"]] == KS and table["rows"] == 3000
    for column in table["columns"]:
        iterations = exits(x, column["k"], 1e-4)
        same(column["mean"], iterations)
        for at in column["cumulative_percent"]:
            assert at["value"] == pytest.approx(100 * (iterations <= at["iteration"]).mean())
            assert 0 <= at["low"] <= at["value"] <= at["high"] <= 100


def test_table1_on_other_rows(study):
    table = study("table1", "--rows", 20000)
    x = np.random.default_rng(11).standard_normal((5000, 256), np.float32)
    for column in table["columns"]:
        iterations = exits(x, column["k"], 1e-4)
        near(column["mean"], iterations)
        for at in column["cumulative_percent"]:
            near(at, 100.0 * (iterations <= at["iteration"]))


def test_table1_is_the_published_table_up_to_iteration_14(study):
    """All published shares agree within chance. The published averages do not: they do not follow from the shares."""
    for column in study("table1")["columns"]:
        for at in column["cumulative_percent"]:
            if 3 <= at["iteration"] <= 14:
                assert abs(at["difference"]) < 0.75
        implied = column["mean_of_published_column"]
        assert implied["low"] - 0.03 < column["mean"]["value"] < implied["high"] + 0.03
        assert not column["mean"]["agrees"]


def test_table2_on_the_same_rows(study, rows_of):
    table = study("table2", "--rows", 1500, "--seed", 9)
    x = rows_of("1500x256", 9)
    assert [(cell["max_iter"], cell["k"]) for cell in table["cells"]] == [(i, k) for i in range(2, 9) for k in KS]
    for cell in table["cells"]:
        expected = early_stop(x, cell["k"], cell["max_iter"])
        for member in ("e1_percent", "e2_percent", "e2_of_maximum_percent", "hit_percent"):
            same(cell[member], expected[member])
        expected = early_stop(x, cell["k"], cell["max_iter"], end_at_k=True)
        for member in ("e1_percent", "e2_of_maximum_percent", "hit_percent"):
            same(cell["unraised"][member], expected[member])
        expected = kernel_stop(x, cell["k"], cell["max_iter"])
        for member in ("e1_percent", "e2_of_maximum_percent", "hit_percent"):
            same(cell["threshold_first"][member], expected[member])
    for name, inside in (("printed", lambda cell: cell), ("threshold_first", lambda cell: cell["threshold_first"])):
        for member, mean in table["mean_absolute_difference"][name].items():
            differences = [abs(inside(cell)[member]["difference"]) for cell in table["cells"]]
            assert mean == pytest.approx(np.mean(differences))


def test_published_table2_is_that_of_a_loop_that_ends_at_k(study):
    table = study("table2", "--rows", 30000)
    hits = {name: means["hit_percent"] for name, means in table["mean_absolute_difference"].items()}
    assert hits["unraised"] < 0.3 and 3 < hits["printed"] < 4.5 and hits["threshold_first"] > 7
    for cell in table["cells"]:
        for estimate in cell["unraised"].values():
            assert abs(estimate["difference"]) < 1.2
        if cell["max_iter"] >= 4:
            assert abs(cell["unraised"]["hit_percent"]["difference"]) < 0.6 < abs(cell["hit_percent"]["difference"])


def test_table2_on_other_rows(study):
    x = np.random.default_rng(12).standard_normal((4000, 256), np.float32)
    for cell in study("table2", "--rows", 10000)["cells"]:
        expected = early_stop(x, cell["k"], cell["max_iter"])
        members = ["e1_percent", "e2_percent", "e2_of_maximum_percent", "hit_percent"]
        if cell["k"] == 128:
            members.remove("e2_percent")  # it has no mean
        for member in members:
            near(cell[member], expected[member])


def test_table2_published(study):
    cells = {(cell["max_iter"], cell["k"]): cell for cell in study("table2", "--rows", 1000)["cells"]}
    assert cells[2, 16]["hit_percent"]["published"] == 45.85
    assert cells[5, 64]["e1_percent"]["published"] == 1.47
    assert cells[8, 128]["e2_percent"]["published"] == cells[8, 128]["e2_of_maximum_percent"]["published"] == 2.11
    for cell in cells.values():
        hit = cell["hit_percent"]
        assert hit["difference"] == pytest.approx(hit["value"] - hit["published"])


def test_table5_on_the_same_rows(study, rows_of):
    table = study("table5", "--rows", 200, "--seed", 3)
    assert [(column["cols"], column["k"]) for column in table["columns"]] == PAIRS
    x = {m: rows_of(f"200x{m}", 3) for m, _ in PAIRS}
    for column in table["columns"]:
        same(column["mean"], exits(x[column["cols"]], column["k"], 0.0))


def test_theory_is_the_published_row(study):
    for column in study("table5", "--rows", 2)["columns"]:
        m, k = column["cols"], column["k"]
        quantile = NormalDist().inv_cdf(1 - k / m)
        expected = math.log2(2 * m * math.sqrt(math.log(m) / math.pi)) - quantile**2 / (2 * math.log(2))
        assert column["theory"]["value"] == pytest.approx(expected, abs=1e-9)
        assert round(column["theory"]["value"], 2) == column["theory"]["published"]


def test_table5_is_the_published_table(study):
    for column in study("table5", "--rows", 2500)["columns"]:
        assert abs(column["mean"]["difference"]) < 0.25  # 4.5 standard errors


def test_rule_on_the_same_rows(study, rows_of):
    x = {cols: rows_of(f"1000x{cols}", 2) for cols in (256, 1024)}
    cells = study("rule", "--rows", 1000, "--seed", 2)["cells"]
    assert [(cell["cols"], cell["max_iter"], cell["k"]) for cell in cells] == [
        (cols, i, k) for cols in x for i in range(2, 9) for k in KS
    ]
    rules = {"printed": early_stop, "threshold_first": kernel_stop, "sure_first": sure_stop}
    for cell in cells:
        expected = {
            name: rule(x[cell["cols"]], cell["k"], cell["max_iter"])["hit_percent"] for name, rule in rules.items()
        }
        for name, hits in expected.items():
            same(cell[f"hit_{name}_percent"], hits)
        assert (expected["printed"] <= expected["threshold_first"]).all()
        assert (expected["threshold_first"] <= expected["sure_first"]).all()


def test_rule_after_two_passes(study):
    """Where the rules differ most: Algorithm 2 as printed misses most of the best elements."""
    cells = study("rule", "--rows", 5000)["cells"]
    cell = next(cell for cell in cells if (cell["cols"], cell["max_iter"], cell["k"]) == (256, 2, 32))
    assert 38 < cell["hit_printed_percent"]["value"] < 41
    assert 67 < cell["hit_threshold_first_percent"]["value"] < 71


def test_passes(study, rows_of):
    cells = study("passes", "--rows", 300)["cells"]
    assert len({cell["distribution"] for cell in cells}) == 6
    for cell in cells:
        assert 0 < cell["passes"]["value"] < 20
        if cell["distribution"] in ("normal", "student") and cell["cols"] == 256:
            x = rows_of("300x256", 0, "--dist", cell["distribution"])
            same(cell["bisection_passes"], exits(x, cell["k"], 0.0))


@pytest.mark.parametrize("part", ["table1", "table2", "table5", "rule"])
def test_threads_do_not_matter(study, part):
    one, three = (study(part, "--rows", 700, "--threads", threads) for threads in (1, 3))
    del one["seconds"], three["seconds"]
    assert one == three
    other = study(part, "--rows", 700, "--seed", 1)
    assert other.get("columns", other.get("cells")) != one.get("columns", one.get("cells"))


def test_other_elements_have_nothing_published(rtopk, study):
    for part in ("table1", "table2", "table5"):
        assert "published" not in json.dumps(study(part, "--rows", 20, "--dist", "ties")["notes"]).lower()
        table = study(part, "--rows", 20, "--dist", "student")
        for cell in table.get("columns", table.get("cells")):
            assert '"published"' not in json.dumps(cell) and not {"unraised", "threshold_first"} & cell.keys()
        assert "paper " not in rtopk("study", part, "--rows", 20, "--dist", "uniform").stdout


def test_text_has_the_numbers_of_the_json(rtopk, tmp_path):
    text = rtopk("study", "--rows", 50, "--json", tmp_path / "study.json").stdout
    assert all(line == line.rstrip() and len(line) <= 130 for line in text.splitlines())
    report = json.loads((tmp_path / "study.json").read_text())
    assert [part["part"] for part in report["parts"]] == ["table1", "table2", "table5", "rule", "passes"]
    assert {"command", "version", "date", "cpu", "device", "seed", "confidence"} <= report.keys()
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for column in report["parts"][2]["columns"]:
        mean = column["mean"]
        start = f"{column['cols']} {column['k']} {mean['value']:.2f} [{mean['low']:.2f}, {mean['high']:.2f}]"
        assert any(line.replace("[ ", "[").replace(",  ", ", ").startswith(start) for line in lines), start
    for cell in report["parts"][1]["cells"]:
        e1 = cell["e1_percent"]
        start = f"{cell['max_iter']} {cell['k']} {e1['value']:.2f} {e1['published']:.2f} "
        assert any(line.startswith(start) for line in lines), start
    for part in report["parts"]:
        assert all(" ".join(note.split()[:4]) in text for note in part["notes"])


def test_division_by_zero(rtopk, study):
    """For elements in sixteenths the k-th one is zero in some rows. E2 then has no mean, and the report says so."""
    cells = study("table2", "--rows", 200, "--dist", "quantized")["cells"]
    nowhere = [cell for cell in cells if cell["e2_percent"]["value"] is None]
    assert nowhere and all(cell["hit_percent"]["value"] > 0 for cell in cells)
    assert "nan" not in rtopk("study", "table2", "--rows", 200, "--dist", "quantized").stdout


@pytest.mark.usefixtures("needs_gpu")
def test_gpu_gives_the_same(rtopk):
    """The paper's algorithms are the same bits on every device."""
    parts = ["table1", "table2", "table5", "rule"]
    reports = [
        json.loads(rtopk("study", *parts, "--rows", 2000, "--device", device, "--json", "-").stdout)["parts"]
        for device in ("cpu", "cuda")
    ]
    for report in reports:
        for part in report:
            del part["seconds"]
    assert reports[0] == reports[1]


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["table3"], "PART 'table3' is none of table1, table2, table5, rule, passes"),
        (["--rows", "1"], "--rows"),
        (["--rows", "many"], "--rows"),
        (["--seed", "-1"], "--seed: '-1' is no whole number from 0 to 18446744073709551615"),
        (["--seed", "18446744073709551616"], "is no whole number from 0"),
        (["--dist", "cauchy"], "none of normal, uniform, lognormal, student, quantized, ties, constant"),
        (["--json", "/nonexistent/study.json"], "cannot write"),
    ],
)
def test_refused(refused, arguments, says):
    refused("study", *arguments, says=says)
