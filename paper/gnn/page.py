"""The page of a study: one HTML file, with its figures in it."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path

from rtopk.gnn.data.generated import SHAPES
from rtopk.gnn.paper.published import PUBLISHED
from rtopk.gnn.recipe import recipe_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import charts  # noqa: E402
from charts import Axis, Bars, Level, Panel, Point, Series  # noqa: E402

NAMES = {"sage": "GraphSAGE", "gcn": "GCN", "gin": "GIN"}

_STYLE = """
body {
  font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 84rem; margin: 2rem auto; padding: 0 1rem;
}
h1 { font-size: 1.6rem; line-height: 1.2 } h2 { font-size: 1.2rem; margin-top: 2.5rem }
p { max-width: 48rem } .soft { color: var(--soft) }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.85rem }
th, td { padding: 0.25rem 0.45rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th { font-weight: 600; white-space: normal; vertical-align: bottom }
th:first-child, td:first-child { text-align: left } td.text { text-align: left }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); gap: 1rem 1.5rem }
figure { margin: 0 } figcaption { font-weight: 600; font-size: 0.9rem }
svg.panel { width: 100%; height: auto; display: block }
"""


# The settings that differ between the networks of one cell.
_VARIED = ("max_iter", "baseline", "seed")


def _shared_recipe(entry: dict) -> dict:
    """The settings that the networks of a cell have in common."""
    known = asdict(recipe_of(entry["recipe"]))
    return {name: value for name, value in known.items() if name not in _VARIED}


class Cell:
    """One graph with one model and one recipe: times and accuracies by selection."""

    def __init__(self, results: dict, graph: str, recipe: dict, distinction: str = "") -> None:
        def of(kind):
            return [e for e in results[kind] if e["graph"] == graph and _shared_recipe(e) == recipe]

        self.graph, self.model, self.recipe, self.distinction = graph, recipe["model"], recipe, distinction
        self.metric = results["graphs"][graph]["metric"]
        self.times = {entry["selection"]: entry for entry in of("timings")}
        self.scores: dict[str, list[float]] = {}
        for entry in of("runs"):
            self.scores.setdefault(entry["selection"], []).append(100 * entry["best"]["test"])
        stopped = {s for s in (*self.times, *self.scores) if s.startswith("max_iter")}
        self.stopped = sorted(stopped, key=lambda selection: int(selection.split()[1]))

    @property
    def title(self) -> str:
        return f"{self.graph}, {NAMES[self.model]}{self.distinction}"

    def speedup(self, selection: str) -> float | None:
        if "dense" not in self.times or selection not in self.times:
            return None
        return self.times["dense"]["step_ms"] / self.times[selection]["step_ms"]

    def share(self, selection: str) -> float | None:
        entry = self.times.get(selection)
        return None if entry is None else 100 * entry["topk_ms"] / entry["step_ms"]

    def score(self, selection: str) -> tuple[float, float | None] | None:
        """Mean and spread (standard deviation over seeds); a single seed has no spread."""
        values = self.scores.get(selection)
        return None if not values else (statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def _cells(results: dict) -> list[Cell]:
    """In the order of the results. If a graph and a model have several recipes, titles say what differs."""
    recipes: dict[tuple[str, str], list[dict]] = {}
    for entry in (*results["timings"], *results["runs"]):
        recipe = _shared_recipe(entry)
        known = recipes.setdefault((entry["graph"], recipe["model"]), [])
        if recipe not in known:
            known.append(recipe)
    cells = []
    for (graph, _), known in recipes.items():
        differing = [name for name in known[0] if any(other.get(name) != known[0][name] for other in known)]
        for recipe in known:
            words = "".join(f", {name.replace('_', ' ')} {recipe.get(name)}" for name in differing)
            cells.append(Cell(results, graph, recipe, words))
    return cells


def html(results: dict) -> str:
    cells = _cells(results)
    environment = results["environment"]
    where = ", ".join(
        f"{name} {environment[key]}".strip()
        for name, key in (("", "device"), ("torch", "torch"), ("rtopk", "rtopk"), ("", "date"))
        if key in environment
    )
    figures = "".join(_figure(cell) for cell in cells)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>MaxK graph networks with rtopk</title><style>{charts.STYLE}{_STYLE}</style></head><body>
<h1>MaxK graph networks: time and accuracy by kind of top-k</h1>
<p class="soft">{escape(where)}</p>
<p>Every network is trained on all nodes at once with the same split and different seeds. <b>Dense</b> is the baseline:
torch.topk, a mask, and torch's sparse product with the transpose kept. <b>Exact</b> is rtopk on compact rows (CBSR),
which selects the same elements. <b>max_iter</b> stops its search after that many passes; a recipe's rule says what it
selects then.{_about_generated(cells)}</p>
<h2>Speed-up and accuracy</h2>
<p class="soft">Bars: how many times as fast a training step is as the dense baseline's. Dots, where networks were
trained: test score in %, mean and standard deviation over seeds; the grey band is the dense baseline's.</p>
<div class="panels">{figures}</div>
<h2>Top-k's share of a step</h2>
<p class="soft">Medians. Top-k: the selections of one step by themselves, on rows that the network makes. Memory: the
peak of a step beyond what lies on the device between steps.</p>
{_times_table(cells)}
{_scores(cells)}
<h2>Recipes</h2>
{_recipes_table(cells)}
<h2>As published</h2>
<p class="soft">Table 4 of the RTop-K paper, measured by its authors on an RTX A6000: test score in %, and top-k's share
of the training time in %. Not measured here.</p>
{_published_table()}
</body></html>
"""


def _about_generated(cells: Sequence[Cell]) -> str:
    if not any(cell.graph.split()[0] in SHAPES for cell in cells):
        return ""
    return """ Graphs named <b>-like</b> are generated: they have the published sizes of Flickr, Yelp, Reddit and
ogbn-products, and are for times; scores on them say nothing about the real ones."""


# ---- Tables ----


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _text(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _mean_spread(score: tuple[float, float | None] | None) -> str:
    if score is None:
        return "–"
    mean, spread = score
    return f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}"


def _times_table(cells: Sequence[Cell]) -> str:
    stopped = _all_stopped(cells)
    head = ["graph, model", "step dense, ms", "top-k", "step exact, ms", "top-k", "memory dense, MiB", "exact"]
    head += ["speed-up exact", *stopped]
    rows = []
    for cell in cells:
        row = [cell.title]
        for selection in ("dense", "exact"):
            entry = cell.times.get(selection, {})
            share = cell.share(selection)
            row += [_text(entry.get("step_ms"), ".2f"), "–" if share is None else f"{share:.1f} %"]
        row += [_text(cell.times.get(selection, {}).get("step_mib"), ",.0f") for selection in ("dense", "exact")]
        row += [_speed(cell, selection) for selection in ("exact", *stopped)]
        rows.append(row)
    return _table(head, rows)


def _speed(cell: Cell, selection: str) -> str:
    value = cell.speedup(selection)
    return "–" if value is None else f"{value:.2f}×"


def _scores(cells: Sequence[Cell]) -> str:
    if not any(cell.scores for cell in cells):
        return ""  # times alone
    return f"""<h2>Test score in %</h2>
<p class="soft">Mean ± standard deviation over seeds, at the epoch with the best validation. Difference: exact − dense;
in parentheses the spread of a difference of two runs.</p>
{_scores_table(cells)}"""


def _scores_table(cells: Sequence[Cell]) -> str:
    stopped = _all_stopped(cells)
    rows = []
    for cell in cells:
        if not cell.scores:
            continue  # times alone
        dense, exact = cell.score("dense"), cell.score("exact")
        difference = "–"
        if dense and exact:
            difference = f"{exact[0] - dense[0]:+.2f}"
            if dense[1] is not None and exact[1] is not None:
                difference += f" ({math.hypot(dense[1], exact[1]):.2f})"
        counts = sorted({len(values) for values in cell.scores.values()})
        seeds = "–".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        scores = [_mean_spread(cell.score(selection)) for selection in ("dense", "exact", *stopped)]
        rows.append([cell.title, cell.metric, seeds, *scores[:2], difference, *scores[2:]])
    return _table(["graph, model", "score", "seeds", "dense", "exact", "difference (spread)", *stopped], rows)


def _recipes_table(cells: Sequence[Cell]) -> str:
    names = ("hidden", "k", "layers", "dropout", "lr", "epochs", "self_loops")
    names += ("rule", "eval_every", "precision", "initialization")
    rows = [[cell.title, *(str(cell.recipe.get(name, "-")) for name in names)] for cell in cells]
    return _table(["graph, model", *(name.replace("_", " ") for name in names)], rows)


def _published_table() -> str:
    models = [model for model in NAMES if all(model in entry for entry in PUBLISHED.values())]
    head = ["graph", "nodes"] + [f"{NAMES[model]}{what}" for model in models for what in ("", ", top-k")]
    rows = [
        [graph, f"{entry['nodes']:,}", *(f"{value:.2f}" for model in models for value in entry[model])]
        for graph, entry in PUBLISHED.items()
    ]
    return _table(head, rows)


def _all_stopped(cells: Sequence[Cell]) -> list[str]:
    return sorted({s for cell in cells for s in cell.stopped}, key=lambda selection: int(selection.split()[1]))


# ---- Figures ----

_SIZE = (320, 150)  # of a panel


def _figure(cell: Cell) -> str:
    selections = [*cell.stopped, "exact"]
    x = charts.category_axis("max_iter", [selection.removeprefix("max_iter ") for selection in selections])
    panels = [panel for panel in (_speedups(cell, selections, x), _test_scores(cell, selections, x)) if panel]
    drawn = "".join(charts.svg(panel, _SIZE) for panel in panels)
    return f"<figure><figcaption>{escape(cell.title)}</figcaption>{drawn}</figure>"


def _speedups(cell: Cell, selections: Sequence[str], x: Axis) -> Panel | None:
    speeds = [(i, cell.speedup(selection)) for i, selection in enumerate(selections)]
    points = [Point(i, speed, text=f"{speed:.2f}") for i, speed in speeds if speed is not None]
    if not points:
        return None
    y = charts.linear_axis("speed-up", [1.15 * point.y for point in points], at_least=1.15)  # room for the texts
    return Panel(x, y, [Bars("speed-up of a step", "ours", points)])


def _test_scores(cell: Cell, selections: Sequence[str], x: Axis) -> Panel | None:
    """A single seed has no spread: a dot without a whisker, a line without a band."""
    scores = [(i, cell.score(selection)) for i, selection in enumerate(selections)]
    points = [Point(i, score[0], spread=score[1] or 0.0) for i, score in scores if score is not None]
    dense = cell.score("dense")
    level = [Level("dense", "torch", dense[0], dense[1] or 0.0)] if dense is not None else []
    ends = [mark.y + sign * mark.spread for mark in (*points, *level) for sign in (-1, 1)]
    if not ends:
        return None
    y = charts.enclosing_axis(f"{cell.metric}, %", ends)
    return Panel(x, y, [*level, Series(f"test {cell.metric}", "theory", points, line=False)])
