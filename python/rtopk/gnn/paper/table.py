"""The table: test scores beside the published ones, as text and as JSON; and the runs for the page of the study."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from .._atomic import write_whole
from ..data import Dataset
from ..training import environment
from .cells import SETTINGS, Cell
from .graphs import difference
from .published import SOURCE, published_score

TABLE = "table4.json"
RESULTS = "results.json"  # in the form of paper/gnn/study.py, which draws its page


def make_rows(cells: Sequence[Cell], datasets: dict[str, Dataset]) -> list[dict]:
    """A row for each graph and model: the published score and ours by top-k, in %, one for each seed that has
    finished."""
    rows: dict[tuple[str, str], dict] = {}
    for cell in cells:
        graph, model = cell.graph, cell.recipe.model
        own = {"graph": graph, "model": model, "metric": datasets[graph].metric}
        own["published"] = published_score(graph, model)
        scores = rows.setdefault((graph, model), own | {"scores": {}})["scores"].setdefault(cell.recipe.top_k, [])
        if cell.best is not None:
            scores.append(round(100 * cell.best["test"], 2))
    return list(rows.values())


def as_text(rows: Sequence[dict]) -> str:
    top_ks = list(dict.fromkeys(top_k for row in rows for top_k in row["scores"]))
    lines = [["graph", "model", "score", "published", *top_ks]]
    for row in rows:
        scores = [_mean_spread(row["scores"].get(top_k, [])) for top_k in top_ks]
        lines.append([row["graph"], row["model"], row["metric"], f"{row['published']:.2f}", *scores])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = 3  # columns of words
    return "\n".join(
        "  ".join(
            text.ljust(width) if i < left else text.rjust(width) for i, (text, width) in enumerate(pairs)
        ).rstrip()
        for pairs in (list(zip(line, widths, strict=True)) for line in lines)
    )


def _mean_spread(scores: Sequence[float]) -> str:
    if not scores:
        return "-"
    spread = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.2f}{spread}"


def write_table(
    out: Path, cells: Sequence[Cell], datasets: dict[str, Dataset], skipped: Sequence[str], device: torch.device
) -> list[dict]:
    """Writes table4.json and results.json. Returns the rows of the table."""
    here = environment(device) | {"date": time.strftime("%Y-%m-%d", time.gmtime())}
    sizes = {
        name: {"nodes": dataset.graph.num_nodes, "edges": dataset.graph.num_edges, "metric": dataset.metric}
        for name, dataset in datasets.items()
    }
    rows = make_rows(cells, datasets)
    table = {
        "published": SOURCE,
        "settings": SETTINGS | {"features": "as they are in the files"},
        "environment": here,
        "graphs": {name: sizes[name] | {"not_as_published": difference(datasets[name])} for name in sizes},
        "skipped": list(skipped),
        "unfinished": [cell.name for cell in cells if cell.best is None],
        "rows": rows,
    }
    runs = [
        {"graph": cell.graph, "selection": cell.recipe.selection, "recipe": asdict(cell.recipe), "best": cell.best}
        for cell in cells
        if cell.best is not None
    ]
    study = {"environment": here, "graphs": sizes, "timings": [], "runs": runs}
    for name, content in ((TABLE, table), (RESULTS, study)):
        write_whole(out / name, (json.dumps(content, indent=1) + "\n").encode())
    return rows
