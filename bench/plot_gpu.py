#!/usr/bin/env python3
"""Draws the times of rtopk and torch.topk over the row length, as multiples of the floor, from compare_gpu.py's JSON.

    python bench/plot_gpu.py bench/results/gpu-h200.json docs/gpu.svg

Every f32 cell of the grids paper, sweep, small, long and few is a dot; the line goes through their geometric means.
"""

import argparse
import json
from pathlib import Path

from charts import Axis, Level, Panel, Point, Series, picture
from gpu_report import geometric_mean

SETS = ("paper", "sweep", "small", "long", "few")
RATIO_TICKS = (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100)


def ratios_by_cols(cells, name):
    """The ratios of `name`'s time to the floor, by row length, shortest first."""
    ratios = {}
    for cell in cells:
        times = cell["microseconds"]
        if cell["set"] in SETS and cell["dtype"] == "f32" and name in times:
            ratios.setdefault(cell["cols"], []).append(times[name] / times["floor"])
    return dict(sorted(ratios.items()))


def draw(record):
    dots, lines = [], []
    for name, label, style in (("torch", "torch.topk", "torch"), ("rtopk", "rtopk", "ours")):
        ratios = ratios_by_cols(record["cells"], name)
        points = [Point(cols, ratio) for cols, of_cols in ratios.items() for ratio in of_cols]
        means = [Point(cols, geometric_mean(of_cols)) for cols, of_cols in ratios.items()]
        if means:
            means[-1] = means[-1]._replace(text=f"{means[-1].y:.2g}")
        dots.append(Series(label, f"{style} faint", points, line=False, in_legend=False))
        lines.append(Series(label, style, means))
    lengths = sorted({point.x for series in lines for point in series.points})
    highest = max((point.y for series in dots for point in series.points), default=1)
    powers = [cols for cols in lengths if cols & (cols - 1) == 0]
    x = Axis("row length", lengths[0] / 1.2, lengths[-1] * 1.5, [(cols, str(cols)) for cols in powers[::2]], log=True)
    ticks = [tick for tick in RATIO_TICKS if tick <= highest]
    y = Axis("time / time of a copy of the same bytes", 0.9, highest * 1.1, ticks, log=True)
    floor = Level("floor: a copy of the same bytes", "floor", 1)
    title = f"Exact top-k of f32 rows, k = 2 to 2048, on {record['environment']['gpu']}"
    return picture([Panel(x, y, [*dots, floor, *lines])], title, size=(760, 420))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, help="what compare_gpu.py has written")
    parser.add_argument("svg", type=Path, help="the picture to write")
    arguments = parser.parse_args()
    arguments.svg.parent.mkdir(parents=True, exist_ok=True)
    arguments.svg.write_text(draw(json.loads(arguments.json.read_text())))
    print(f"written: {arguments.svg}")


if __name__ == "__main__":
    main()
