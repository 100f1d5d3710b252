"""The figures of training: the paper's Figure 5 in two halves, speed and accuracy."""

import bench_folder  # noqa: F401
import charts
from charts import Level, Panel, Point, Series
from training import KERNEL_RULE, NAMES

STYLES = {"sage": "ours", "gcn": "bisection", "gin": "theory"}


def rules_of(found):
    """(rule, words, style) of the rules that occur; the printed one is faint beside the kernel's."""
    both = {KERNEL_RULE, "printed"} <= found
    known = ((KERNEL_RULE, "", ""), ("printed", ", rule printed", " faint" if both else ""))
    return [one for one in known if one[0] in found]


def accuracy_figure(training):
    """How many points of accuracy early stopping costs: a panel for each graph, a line for each model and rule."""
    if not training:
        return ""
    x = max_iter_axis([n.raw for n in training["max_iters"]])
    rules = rules_of({one["rule"].raw for cell in training["cells"] for one in cell["selections"]})
    panels = []
    for graph in dict.fromkeys(cell["graph"].raw for cell in training["cells"]):
        series = []
        for cell in training["cells"].having(graph=graph):
            for rule, words, style in rules:
                found = [one for one in cell["selections"] if one["rule"].raw == rule and "difference" in one]
                points = [
                    Point(
                        one["max_iter"].raw,
                        one["difference"]["value"].raw,
                        spread=one["difference"]["chance"].raw or 0.0,
                        source=one["difference"]["value"].at,
                    )
                    for one in found
                ]
                if points:
                    series.append(Series(NAMES[cell["model"].raw] + words, STYLES[cell["model"].raw] + style, points))
        if series:
            ends = [point.y + sign * point.spread for one in series for point in one.points for sign in (1, -1)]
            y = charts.enclosing_axis("points of accuracy", [0.0, *ends])
            panels.append(Panel(x, y, [Level("exact", "torch", 0.0), *series], graph))
    return charts.figure(panels) if panels else ""


def steps_figure(summary, steps):
    """The gain of a step from replacing torch.topk alone: a panel for each graph."""
    if not steps:
        return ""
    panels = []
    rules = rules_of({one.raw.get("rule") for cell in steps["cells"] for one in cell["variants"]} | {KERNEL_RULE})
    for graph in summary["graphs"]:
        series = []
        for cell in steps["cells"].having(graph=graph["graph"].raw):
            for rule, words, style in rules:
                found = [one for one in cell["variants"] if one.raw.get("rule") == rule and "speedup_percent" in one]
                points = [(one["max_iter"].raw, one["speedup_percent"]) for one in found]
                if rule == KERNEL_RULE:
                    exact = cell["variants"].where(name="exact")
                    points += [(EXACT_PLACE, exact["speedup_percent"])] if "speedup_percent" in exact else []
                marks = [Point(place, node.raw, source=node.at) for place, node in points]
                if marks:
                    series.append(Series(NAMES[cell["model"].raw] + words, STYLES[cell["model"].raw] + style, marks))
        if not series:
            continue
        levels, numbers = [], [point.y for one in series for point in one.points]
        if published := graph["published_percent"]:
            levels = [Level("published, A6000", "published", published["middle"].raw, published["half"].raw)]
            numbers.append(published["greatest"].raw)
        y = charts.enclosing_axis("step faster by, %", [0.0, *numbers])
        panels.append(Panel(EXACT_AXIS, y, [*levels, *series], graph["graph"].raw))
    return charts.figure(panels) if panels else ""


EXACT_PLACE = 9
EXACT_AXIS = charts.Axis("max_iter", 1.7, 9.5, [*range(2, 9), (EXACT_PLACE, "exact")])


def max_iter_axis(numbers):
    if not numbers:
        return None
    return charts.Axis("max_iter", numbers[0] - 0.3, numbers[-1] + 0.3, numbers)


def training_pictures(summary, files):
    return {
        "accuracy": accuracy_figure(summary["training"]),
        "steps": steps_figure(summary["steps"], files.get("steps")),
    }
