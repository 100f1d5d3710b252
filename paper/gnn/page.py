"""The page of a study: one HTML file, with its figures in it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from html import escape

from rtopk.gnn.data.generated import SHAPES
from rtopk.gnn.recipe import Recipe

# As published: table 4 of the RTop-K paper (ICLR 2025), an RTX A6000, N = nodes, M = 256, k = 32.
PUBLISHED = {
    "ogbn-products": {"nodes": 2_449_029, "sage": (80.08, 19.81), "gcn": (76.6, 19.61), "gin": (77.77, 19.67)},
    "Yelp": {"nodes": 716_847, "sage": (61.09, 26.09), "gcn": (48.26, 25.84), "gin": (43.16, 25.92)},
    "Reddit": {"nodes": 232_965, "sage": (96.74, 11.66), "gcn": (95.18, 11.61), "gin": (94.96, 11.62)},
    "Flickr": {"nodes": 89_250, "sage": (53.44, 26.86), "gcn": (50.42, 26.78), "gin": (51.73, 26.73)},
}
NAMES = {"sage": "GraphSAGE", "gcn": "GCN", "gin": "GIN"}

_STYLE = """
:root {
  --ink: #1f2328; --soft: #656d76; --line: #d8dee4; --ground: #ffffff; --bar: #2f6fbd; --dot: #b3470c; --band: #e4e7eb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --ground: #0d1117; --bar: #5b9bea; --dot: #f0883e;
    --band: #2a313c;
  }
}
body {
  font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
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
svg { width: 100%; height: auto; font: 10px system-ui, sans-serif }
svg text { fill: var(--soft) } svg .value { fill: var(--ink) } .bar { fill: var(--bar) } .dot { fill: var(--dot) }
.whisker { stroke: var(--dot); stroke-width: 1.5 } .band { fill: var(--band) } .rule { stroke: var(--line) }
.mean { stroke: var(--soft); stroke-dasharray: 4 3 }
"""


# The settings that differ between the networks of one cell.
_VARIED = ("max_iter", "baseline", "seed")


def _shared_recipe(entry: dict) -> dict:
    """The settings that the networks of a cell have in common. Those that older results lack have their defaults."""
    known = asdict(Recipe()) | entry["recipe"]
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
    figures = "".join(_panel(cell) for cell in cells)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>MaxK graph networks with rtopk</title><style>{_STYLE}</style></head><body>
<h1>MaxK graph networks: time and accuracy by kind of top-k</h1>
<p class="soft">{escape(where)}</p>
<p>Every network is trained on all nodes at once with the same split and different seeds. <b>Dense</b> is the baseline:
torch.topk, a mask, and torch's sparse product with the transpose kept. <b>Exact</b> is rtopk on compact rows (CBSR),
which selects the same elements. <b>max_iter</b> stops its search after that many passes.{_about_generated(cells)}</p>
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
    names = ("hidden", "k", "layers", "dropout", "lr", "epochs", "self_loops", "eval_every", "precision")
    rows = [[cell.title, *(str(cell.recipe.get(name, "-")) for name in names)] for cell in cells]
    return _table(["graph, model", *(name.replace("_", " ") for name in names)], rows)


def _published_table() -> str:
    head = ["graph", "nodes"] + [f"{NAMES[model]}{what}" for model in NAMES for what in ("", ", top-k")]
    rows = [
        [graph, f"{entry['nodes']:,}", *(f"{value:.2f}" for model in NAMES for value in entry[model])]
        for graph, entry in PUBLISHED.items()
    ]
    return _table(head, rows)


def _all_stopped(cells: Sequence[Cell]) -> list[str]:
    return sorted({s for cell in cells for s in cell.stopped}, key=lambda selection: int(selection.split()[1]))


# ---- Figures ----

_WIDTH, _LEFT, _RIGHT = 320, 34, 6
_BARS = (16, 96)  # top and bottom of the speed-ups
_DOTS = (116, 196)  # and of the scores
_AXIS = 30  # below them: what is on the x axis


def _panel(cell: Cell) -> str:
    selections = [*cell.stopped, "exact"]
    step = (_WIDTH - _LEFT - _RIGHT) / len(selections)
    centres = [_LEFT + step * (i + 0.5) for i in range(len(selections))]
    parts = [*_bars(cell, selections, centres, step), *_dots(cell, selections, centres)]
    bottom = (_DOTS if cell.scores else _BARS)[1]
    for centre, selection in zip(centres, selections, strict=True):
        parts.append(_label(centre, bottom + 14, selection.removeprefix("max_iter "), "middle"))
    parts.append(_label((_WIDTH + _LEFT) / 2, bottom + 26, "max_iter", "middle"))
    return (
        f"<figure><figcaption>{escape(cell.title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {bottom + _AXIS}" role="img"'
        f' aria-label="{escape(cell.title)}: speed-up and test score">'
        f"{''.join(parts)}</svg></figure>"
    )


def _bars(cell, selections, centres, step):
    speeds = [cell.speedup(selection) for selection in selections]
    known = [speed for speed in speeds if speed is not None]
    if not known:
        return
    top, bottom = _BARS
    ticks = _ticks(0, 1.15 * max(1.0, *known))  # room for a number on the highest bar
    scale = (bottom - top) / ticks[-1]
    yield _label(_LEFT, top - 6, "speed-up of a step", "start")
    yield from _axis(ticks, lambda value: bottom - value * scale)
    for centre, speed in zip(centres, speeds, strict=True):
        if speed is not None:
            height = speed * scale
            yield f'<rect class="bar" x="{centre - step * 0.36:.1f}" y="{bottom - height:.1f}"'
            yield f' width="{step * 0.72:.1f}" height="{height:.1f}"/>'
            yield _label(centre, bottom - height - 3, f"{speed:.2f}", "middle", "value")


def _dots(cell, selections, centres):
    # A single seed has no spread: a dot without a whisker, a line without a band.
    scores = [score and (score[0], score[1] or 0.0) for score in map(cell.score, selections)]
    dense = cell.score("dense")
    dense = dense and (dense[0], dense[1] or 0.0)
    known = [score for score in (*scores, dense) if score is not None]
    if not known:
        return
    top, bottom = _DOTS
    ticks = _ticks(min(mean - spread for mean, spread in known), max(mean + spread for mean, spread in known))
    scale = (bottom - top) / (ticks[-1] - ticks[0])

    def height(value):
        return bottom - (value - ticks[0]) * scale

    yield _label(_LEFT, top - 6, f"test {cell.metric}, %", "start")
    if dense is not None:
        mean, spread = dense
        yield f'<rect class="band" x="{_LEFT}" y="{height(mean + spread):.1f}" width="{_WIDTH - _LEFT - _RIGHT}"'
        yield f' height="{max(2 * spread * scale, 1):.1f}"/>'
    yield from _axis(ticks, height)
    if dense is not None:
        y = height(mean)
        yield f'<line class="mean" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    for centre, score in zip(centres, scores, strict=True):
        if score is not None:
            mean, spread = score
            yield f'<line class="whisker" x1="{centre:.1f}" x2="{centre:.1f}" y1="{height(mean - spread):.1f}"'
            yield f' y2="{height(mean + spread):.1f}"/>'
            yield f'<circle class="dot" cx="{centre:.1f}" cy="{height(mean):.1f}" r="3"/>'


def _axis(ticks, height):
    for tick in ticks:
        y = height(tick)
        yield f'<line class="rule" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _label(_LEFT - 4, y + 3, f"{tick:g}", "end")


def _label(x, y, text, anchor, kind=""):
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers that enclose an interval."""
    width = max(high - low, 1e-3 * max(abs(high), 1.0))
    power = 10.0 ** math.floor(math.log10(width / 3))
    step = next(power * factor for factor in (1, 2, 5, 10) if width / (power * factor) <= 4)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(i * step, 10) for i in range(first, max(last, first + 1) + 1)]
