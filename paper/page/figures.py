"""The figures of the search and of the kernels."""

from dataclasses import dataclass
from html import escape

import bench_folder  # noqa: F401
import charts
from charts import Panel, Point, Series
from formats import setting_name
from grids import BISECTION, DISTRIBUTIONS, EPSILONS, EXACT, MAX_ITERS, TYPES
from published import PUBLISHED_COLS

GRID_SETTINGS = (EXACT, BISECTION, *MAX_ITERS)


def series_of(label, style, pairs, **options):
    """A series through pairs of x and a Node, without those that were not measured."""
    return Series(
        label, style, [Point(x, node.raw, source=node.at) for x, node in pairs if node.raw is not None], **options
    )


def numbers_of(series):
    return [point.y * one.scale for one in series for point in one.points]


def style_of(setting):
    setting = setting.removeprefix(f"{BISECTION} ")
    if setting in MAX_ITERS:
        return f"iter i{MAX_ITERS[setting]['max_iter']}"
    if setting in EPSILONS:
        return f"iter i{3 + 2 * list(EPSILONS).index(setting)}"
    return {EXACT: "ours", BISECTION: "bisection", "torch": "torch"}[setting]


@dataclass
class Labels:
    """Words above points, for a line that would run through words beside them."""

    points: list
    label: str = ""
    in_legend: bool = False

    def draw(self, frame):
        for point in self.points:
            x, y = frame.x(point.x), frame.y(point.y) - 6
            yield f'<text x="{x:.1f}" y="{y:.1f}" class="value" text-anchor="middle">{escape(point.text)}</text>'


def argument_figure(argument):
    """Speed against exactness: what stopping early gives up, and what it gains."""
    points = list(argument["points"])
    if not points:
        return ""

    def line(label, style, speed, hit):
        found = [(point[hit].raw, point[speed]) for point in points if point[speed].raw is not None]
        return [series_of(label, style, found)] if found else []

    passes = "the paper's passes, max_iter 2 to 8"
    series = line(f"{passes}, selected as its kernel does", "bisection", "bisection", "kernel_hit_percent")
    series += line(f"{passes}, selected as Algorithm 2 is printed", "theory", "bisection", "printed_hit_percent")
    series += line("rtopk, the same results in its own way", "ours thin", "rtopk", "kernel_hit_percent")
    for label, style, name in (
        ("the paper's search to its end: exact", "bisection big", "bisection"),
        ("rtopk: exact", "ours big", "exact"),
    ):
        if argument[name].raw is not None:
            series.append(series_of(label, style, [(100, argument[name])], line=False))
    low = 10 * int(min(point.x for one in series for point in one.points) // 10)
    x = charts.Axis("share of the true top k that is selected, %", low, 102, list(range(low, 101, 10)))
    y = charts.linear_axis("times as fast as torch.topk", numbers_of(series), at_least=1.5)
    highest = [max(point[name].raw or 0.0 for name in ("bisection", "rtopk")) for point in points]
    names = []
    for point, speed in reversed(list(zip(points, highest, strict=True))):
        place = point["kernel_hit_percent"].raw
        if not names or names[-1].x - place > 1.5:  # else they would overlap
            names.append(Point(place, speed, text=str(point["max_iter"])))
    return charts.figure([Panel(x, y, [*series, Labels(names)])])


def exits_figure(table):
    """Table 1: lines are ours, rings are the paper's."""
    x = charts.Axis("iterations", 0.7, 16.3, [2, 4, 6, 8, 10, 12, 14, 16])
    y = charts.Axis("rows that have exited, %", 0, 100, [0, 25, 50, 75, 100])
    panels = []
    for column in table["columns"]:
        shares = list(column["cumulative_percent"])
        ours = [(at["iteration"].raw, at["value"]) for at in shares if at["iteration"].raw <= 16]
        paper = [(at["iteration"].raw, at["published"]) for at in shares if "published" in at]
        series = [series_of("computed here", "ours", ours)]
        series += [series_of("published", "published", paper, line=False)] if paper else []
        panels.append(Panel(x, y, series, f"k = {column['k']}"))
    return charts.figure(panels)


def iterations_figure(table):
    """Table 5: mean exits beside theory."""
    columns = list(table["columns"])
    x = charts.places_axis("k", [column["k"].raw for column in columns])
    y = charts.Axis("iterations, mean", 7, 14, [7, 8, 9, 10, 11, 12, 13, 14])
    panels = []
    for cols in dict.fromkeys(column["cols"].raw for column in columns):
        of_cols = [column for column in columns if column["cols"].raw == cols]
        series = [series_of("computed here", "ours", [(c["k"].raw, c["mean"]["value"]) for c in of_cols])]
        if "theory" in of_cols[0]:
            published = [(c["k"].raw, c["mean"]["published"]) for c in of_cols]
            series.append(
                series_of("E(n), the paper's theory", "theory", [(c["k"].raw, c["theory"]["value"]) for c in of_cols])
            )
            series.append(series_of("published", "published", published, line=False))
        panels.append(Panel(x, y, series, f"M = {cols}"))
    return charts.figure(panels)


def percent_axis(label):
    return charts.Axis(label, 0, 100, [0, 20, 40, 60, 80, 100])


ITERATIONS = charts.Axis("max_iter", 1.7, 8.3, [2, 3, 4, 5, 6, 7, 8])


def by_iteration(cells, *members):
    def inside(cell):
        for member in members:
            cell = cell[member]
        return cell

    return [(cell["max_iter"].raw, inside(cell)) for cell in cells]


def hits_figure(table):
    """Table 2."""
    panels = []
    for k in dict.fromkeys(cell["k"].raw for cell in table["cells"]):
        cells = table["cells"].having(k=k)
        series = [series_of("Algorithm 2 as printed", "ours", by_iteration(cells, "hit_percent", "value"))]
        if "unraised" in cells[0]:
            ended = by_iteration(cells, "unraised", "hit_percent", "value")
            series.append(series_of("with a loop that ends at exactly k", "theory", ended))
            kernel = by_iteration(cells, "threshold_first", "hit_percent", "value")
            series.append(series_of("with the selection of the paper's kernel", "bisection", kernel))
            published = by_iteration(cells, "hit_percent", "published")
            series.append(series_of("published", "published", published, line=False))
        panels.append(Panel(ITERATIONS, percent_axis("hit rate, %"), series, f"k = {k}"))
    return charts.figure(panels)


# The selections after the same passes: name in the JSON, label, style.
RULES = (
    ("sure_first", "everything ≥ hi first (ours)", "ours"),
    ("threshold_first", "the paper's kernel: everything ≥ the last threshold first", "bisection"),
    ("printed", "Algorithm 2 as printed: the first k ≥ lo", "published"),
)


def rule_figure(table):
    panels = []
    for cols, k in dict.fromkeys((cell["cols"].raw, cell["k"].raw) for cell in table["cells"]):
        cells = table["cells"].having(cols=cols, k=k)
        series = [
            series_of(label, style, by_iteration(cells, f"hit_{rule}_percent", "value")) for rule, label, style in RULES
        ]
        panels.append(Panel(ITERATIONS, percent_axis("hit rate, %"), series, f"M = {cols}, k = {k}"))
    return charts.figure(panels)


def grid_figure(kernels, summary):
    """The paper's main figure: times over k for every (N, M)."""
    cells = [cell for cell in kernels["cells"].having(set="grid") if not cell["error"].raw]
    if not cells:
        return ""
    panels = []
    for panel in summary["panels"]:
        rows, cols = panel["rows"].raw, panel["cols"].raw
        here = [cell for cell in cells if cell["rows"].raw == rows and cell["cols"].raw == cols]
        settings = ["torch", *(setting for setting in here[0]["plans"] if setting in GRID_SETTINGS)]
        order = sorted(settings, key=lambda setting: (setting in (EXACT, "torch"), setting))
        series = [
            series_of(
                "torch.topk" if setting == "torch" else setting_name(setting),
                style_of(setting),
                [(cell["k"].raw, cell["microseconds"][setting]) for cell in here if setting in cell["microseconds"]],
                scale=1e-3,
            )
            for setting in order
        ]
        power = rows.bit_length() - 1
        title, mean = f"N = 2^{power}, M = {cols}:", panel["mean"]
        speedup = f' <tspan data-at="{mean.at}" data-digits="1">{mean.raw:.1f}</tspan> ×'
        x = charts.Axis("k", 8, 136, [cell["k"].raw for cell in here])
        panels.append(Panel(x, charts.log_axis("milliseconds", numbers_of(series)), series, title, speedup))
    return charts.figure(panels)


def sweep_series(summary, group, names, label, style):
    return [
        series_of(
            label(name),
            style(name),
            [(line["cols"].raw, line[group][name]["mean"]) for line in summary["sweep"] if name in line[group]],
        )
        for name in names
        if any(name in line[group] for line in summary["sweep"])
    ]


def sweep_figure(summary, group, names, label=setting_name, style=style_of):
    series = sweep_series(summary, group, names, label, style)
    if not series:
        return ""
    x = charts.places_axis("row length M", [point.x for one in series for point in one.points])
    y = charts.linear_axis("times as fast as torch.topk", numbers_of(series), at_least=1.5)
    return charts.figure([Panel(x, y, series)])


def early_figure(summary):
    """Hit rate over time, for the grid's shapes with the most rows."""
    panels = []
    for cols in PUBLISHED_COLS:
        lines = summary["early"].having(cols=cols)
        series = []
        for position, line in enumerate(lines):
            early = [point for point in line["points"] if str(point["setting"]) in MAX_ITERS]
            points = [(point["of_exact"].raw, point["hit_percent"]) for point in early]
            series.append(series_of(f"k = {line['k']}, max_iter 2 to 8", f"iter i{2 + position}", points))
        if not any(one.points for one in series):
            continue
        exact = next(point for point in lines[0]["points"] if str(point["setting"]) == EXACT)
        series.append(series_of("exact (rtopk)", "ours big", [(1.0, exact["hit_percent"])], line=False))
        times = [point.x for one in series for point in one.points]
        x = charts.linear_axis("time / time of the exact selection", times, at_least=1.2)
        panels.append(Panel(x, percent_axis("hit rate, %"), series, f"M = {cols}"))
    return charts.figure(panels)


def passes_figure(table):
    """A panel for each distribution: rtopk and bisection for each k."""
    names = [name for name in DISTRIBUTIONS if table["cells"].where(distribution=name)]
    cells = list(table["cells"])
    x = charts.places_axis("row length M", [cell["cols"].raw for cell in cells])
    highest = [cell[which]["value"].raw for cell in cells for which in ("passes", "bisection_passes")]
    y = charts.log_axis("passes per row", highest)
    panels = []
    for name in names:
        series = []
        for part, width in ((2, "wide"), (8, ""), (16, "thin")):
            of_part = [c for c in table["cells"].having(distribution=name) if c["cols"].raw == part * c["k"].raw]
            for label, member, style in (("rtopk", "passes", "ours"), ("bisection", "bisection_passes", "bisection")):
                points = [(cell["cols"].raw, cell[member]["value"]) for cell in of_part]
                series.append(series_of(f"{label}, k = M/{part}", f"{style} {width}", points))
        panels.append(Panel(x, y, series, name))
    return charts.figure(panels)


def sensitivity_figure(summary, k=32):
    panels = []
    for name in DISTRIBUTIONS:
        line = summary["distributions"].where(data=name, k=k)
        if line is None:
            continue
        series = [
            series_of(label, style, [(int(n), line["hits"][n][rule]) for n in line["hits"]])
            for rule, label, style in RULES
        ]
        panels.append(Panel(ITERATIONS, percent_axis("hit rate, %"), series, name))
    return charts.figure(panels)


def precision_settings(summary):
    """The paper's passes where they were timed by themselves."""
    own = [f"{BISECTION} {setting}" for setting in EPSILONS]
    timed = any(setting in line["settings"] for line in summary["sweep"] for setting in own)
    return [EXACT, BISECTION, *(own if timed else EPSILONS)]


def pictures(files):
    summary, kernels, study = files["summary"], files["kernels"], files["study"]
    parts = {str(part["part"]): part for part in study["parts"]}
    return {
        "argument": argument_figure(summary["argument"]),
        "exits": exits_figure(parts["table1"]),
        "iterations": iterations_figure(parts["table5"]),
        "hits": hits_figure(parts["table2"]),
        "grid": grid_figure(kernels, summary),
        "sweep": sweep_figure(summary, "settings", [EXACT, BISECTION, *MAX_ITERS]),
        "precision": sweep_figure(summary, "settings", precision_settings(summary)),
        "types": sweep_figure(
            summary,
            "types",
            TYPES,
            label=str,
            style=lambda name: {"f32": "ours", "f16": "iter i4", "bf16": "iter i7"}[name],
        ),
        "early": early_figure(summary),
        "rule": rule_figure(parts["rule"]),
        "passes": passes_figure(parts["passes"]),
        "sensitivity": sensitivity_figure(summary),
    }
