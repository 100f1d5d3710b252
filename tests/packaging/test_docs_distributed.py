"""The figures of docs/distributed.md about split rows and gradients are the measured ones."""

import json
import statistics

import pytest

from test_docs import DOCS, ROOT, table_after

PAGE = DOCS / "distributed.md"


def measured(name):
    return json.loads((ROOT / "bench" / "results" / name).read_text())


def words():
    return " ".join(PAGE.read_text().split())


# ---- Rows split over ranks ----

SHARDS = "of each rank | k | all columns | two gathers | `topk` | with `sizes` | `maxk` |"
WAYS = ("everything", "two gathers", "rtopk", "sizes known", "maxk")


def shard_cells(name):
    """By ranks, shape as the page says it, and k."""
    return {
        (cell["ranks"], f"{cell['rows']:,} x {cell['cols_of_a_rank']:,} float32", cell["k"]): cell
        for cell in measured(name)["cells"]
    }


def kib(number):
    return f"{number / 1024:,.0f} KiB"


@pytest.mark.parametrize("name", ["shards-h200.json", "shards-cpu.json"])
def test_received_bytes(name):
    cells = shard_cells(name)
    rows = table_after(PAGE, "| of each rank | k | all columns | two gathers, int64 indices | `topk` | `maxk` |")
    assert len(rows) == 3
    for shape, k, *found in rows:
        received = cells[2, shape, int(k)]["received_bytes"]
        ours = [received[way] - 128 for way in ("rtopk", "maxk")]  # the header
        assert found == [kib(each) for each in (received["everything"], received["two gathers"], *ours)], shape
        assert received["sizes known"] == received["rtopk"]


def in_ms(us):
    return f"{us / 1e3:.{1 if us >= 1e4 else 2}f}"


@pytest.mark.parametrize(
    ("unit", "ranks", "form"), [("ms", 2, in_ms), ("µs", 1, "{:.0f}".format)], ids=["two ranks", "one rank"]
)
def test_shards_on_an_h200(unit, ranks, form):
    cells = shard_cells("shards-h200.json")
    rows = table_after(PAGE, f"| {unit}, {SHARDS}")
    assert len(rows) == 4
    for shape, k, *found in rows:
        us = cells[ranks, shape, int(k)]["us"]
        assert found == [form(us[way]) for way in WAYS], (shape, k)


def test_shards_on_a_cpu():
    cells = shard_cells("shards-cpu.json")
    rows = table_after(PAGE, f"| ranks | {SHARDS}")
    assert len(rows) == 4
    for ranks, shape, k, *found in rows:
        us = cells[int(ranks), shape, int(k)]["us"]
        assert found == [f"{us[way] / 1e3:.1f}" for way in WAYS], (ranks, shape, k)


def test_the_log_of_shards():
    cells = [cell for cell in measured("shards-h200.json")["cells"] if cell["ranks"] == 1]
    times = [[cell["us"][way] for cell in cells] for way in WAYS[1:]]
    *spans, last = (f"{min(each):.0f} to {max(each):.0f}" for each in times)
    text = " ".join((DOCS / "log" / "shards.md").read_text().split())
    assert f"Now they take {', '.join(spans)} and {last} (" in text
    (counts,) = {tuple(cell["operators"][way] for way in WAYS[1:]) for cell in cells}
    two_gathers, *ours, last = counts
    assert f"a call has {', '.join(map(str, ours))} and {last} operators now, two gathers {two_gathers}." in text


# ---- Gradients ----

RANKS = (2, 4)


def by_hook(rows, *names):
    return {tuple(row[name] for name in names): row for row in rows}


def steps():
    return by_hook(measured("gradient-hooks-cpu.json")["steps"], "hook", "ranks", "wire")


def accuracies():
    rows = by_hook(measured("gradient-hooks-accuracy-cpu.json")["accuracies"], "hook", "ranks")
    return {key: [100 * each for each in row["accuracies"]] for key, row in rows.items()}


def test_hooks():
    header = (
        "| hook | MB sent a step, 2 / 4 ranks | ms a step at 100 Mbit/s, 2 / 4 ranks | at 1 Gbit/s | no limit |"
        " accuracy, 2 / 4 ranks |"
    )
    table, found, accuracy = table_after(PAGE, header), steps(), accuracies()
    assert {(row[0], ranks) for row in table for ranks in RANKS} == set(accuracy)

    for hook, *cells in table:
        of = {wire: [found[hook, ranks, wire] for ranks in RANKS] for wire in ("100 Mbit/s", "1000 Mbit/s", "no limit")}
        expected = [" / ".join(f"{row['bytes'] / 1e6:.3f}" for row in of["100 Mbit/s"])]
        expected += [" / ".join(f"{row['ms']:.0f}" for row in rows) for rows in of.values()]
        expected.append(" / ".join(f"{statistics.mean(accuracy[hook, ranks]):.1f}%" for ranks in RANKS))
        assert cells == expected, hook


def test_what_is_said_about_the_hooks():
    found, accuracy, text = steps(), accuracies(), words()

    def gains(ranks, wire, form):
        dense = found["all-reduce", ranks, wire]["ms"]
        ratios = [
            dense / row["ms"] for (hook, *cell), row in found.items() if "top-k" in hook and cell == [ranks, wire]
        ]
        return f"{min(ratios):{form}} to {max(ratios):{form}}"

    assert (
        f"a step with top-k takes {gains(2, '100 Mbit/s', '.0f')} times less time than with all-reduce on two ranks,"
        f" and {gains(4, '100 Mbit/s', '.0f')} times less on four; at 1 Gbit/s {gains(2, '1000 Mbit/s', '.1f')} and"
        f" {gains(4, '1000 Mbit/s', '.1f')} times less."
    ) in text

    def against(ranks, ours, theirs):
        return " against ".join(f"{statistics.mean(accuracy[hook, ranks]):.1f}" for hook in (ours, theirs)) + " %"

    assert f"k = 2 of 256 learns more ({against(2, 'top-k, 2 of 256', 'PowerSGD, rank 1')})" in text
    half = "top-k, 8 of 256, float16"
    more = found[half, 2, "100 Mbit/s"]["bytes"] / found["PowerSGD, rank 2", 2, "100 Mbit/s"]["bytes"]
    assert (
        f"With {more:.1f} times the bytes of rank 2, k = 8 of 256 in float16 learns as much"
        f" ({against(2, half, 'PowerSGD, rank 2')})"
    ) in text
    assert f"k = 2 learns less ({against(4, 'top-k, 2 of 256', 'PowerSGD, rank 2')})" in text

    def apart(*hooks):
        spans = [max(each) - min(each) for (hook, _), each in accuracy.items() if hook in hooks]
        return f"{max(spans):.1f}"

    first, second = "PowerSGD, rank 1", "top-k, 2 of 256"
    others = {hook for hook, _ in accuracy} - {first, second}
    said = f"Seeds are up to {apart(*others)} points apart, {apart(first)} with PowerSGD's rank 1 and {apart(second)}"
    assert f"{said} with k = 2." in text


def test_what_backward_hides():
    rows = by_hook(measured("gradient-overlap-cpu.json")["overlap"], "megabits", "hook")
    header = "| Mbit/s | hook | MB sent | ms a step | waiting | stood still | hidden | quarters | share |"
    table = table_after(PAGE, header)
    assert [(int(megabits.replace(",", "")), hook) for megabits, hook, *_ in table] == list(rows)
    for (_, _, *cells), row in zip(table, rows.values(), strict=True):
        low, high = row["hidden_ms"]["quarters"]
        expected = [f"{row['bytes'] / 1e6:.2f}"]
        expected += [f"{row[name]['median']:,.0f}" for name in ("ms", "waiting_ms", "stood_still_ms", "hidden_ms")]
        expected += [f"{low:.0f} to {high:.0f}", f"{row['hidden_ms']['median'] / row['stood_still_ms']['median']:.0%}"]
        assert cells == expected, row["hook"]
        assert low > 0 or (row["megabits"], row["hook"]) == (100, "all-reduce")  # as the page says

    def hidden(megabits):
        found = [row for (of, hook), row in rows.items() if of == megabits and "top-k" in hook]
        shares = [100 * row["hidden_ms"]["median"] / row["stood_still_ms"]["median"] for row in found]
        return f"{min(shares):.0f} to {max(shares):.0f} %"

    said = f"of top-k, backward hides {hidden(100)} at 100 Mbit/s and {hidden(1000)} at 1 Gbit/s."
    assert said in words()


def test_what_hooks_compute_on_an_h200():
    cost = measured("gradient-hooks-h200.json")["cost"]
    hooks = {row["hook"]: row for row in cost["hooks"]}

    def span(kind, field, scale, form):
        values = [row[field] / scale for hook, row in hooks.items() if kind in hook]
        return f"{min(values):{form}} to {max(values):{form}}"

    assert (
        f"its copy takes {cost['copy_wall_us']:.0f} µs): top-k {span('top-k', 'gpu_us', 1, '.0f')} µs of the GPU and"
        f" {span('top-k', 'wall_us', 1e3, '.1f')} ms of the host, fp16 {hooks['fp16']['gpu_us']:.0f} µs and"
        f" {hooks['fp16']['wall_us'] / 1e3:.2f} ms, PowerSGD {span('PowerSGD', 'wall_us', 1e3, '.1f')} ms"
    ) in words()
