#!/usr/bin/env python3
"""Draws how far rtopk and torch.topk are from the floor over the row length, from the JSON of compare_gpu.py.

    python bench/plot_gpu.py bench/results/gpu-h200.json docs/gpu.svg

Every f32 cell of the grids paper, sweep, small, long and few is a dot; the line goes through their geometric means.
"""

import argparse
import json
import math
import statistics
from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot, ticker  # noqa: E402

SETS = ("paper", "sweep", "small", "long", "few")
OURS, OTHER, INK = "#0b7a75", "#9aa5b1", "#3b4650"


def ratios_by_cols(cells, name):
    """The ratios of `name`'s time to the floor, by row length, shortest first."""
    ratios = {}
    for cell in cells:
        times = cell["microseconds"]
        if cell["set"] in SETS and cell["dtype"] == "f32" and name in times:
            ratios.setdefault(cell["cols"], []).append(times[name] / times["floor"])
    return dict(sorted(ratios.items()))


def geometric_mean(numbers):
    return math.exp(statistics.fmean(math.log(number) for number in numbers))


def draw(record, path):
    cells, facts = record["cells"], record["environment"]
    pyplot.rcParams.update(
        {
            "font.size": 11,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": INK,
            "svg.hashsalt": "rtopk",  # the same data gives the same file
        }
    )
    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    lengths = set()
    for name, label, colour in (("torch", "torch.topk", OTHER), ("rtopk", "rtopk", OURS)):
        ratios = ratios_by_cols(cells, name)
        if not ratios:
            continue
        lengths |= set(ratios)
        dots = [(cols, ratio) for cols, of_cols in ratios.items() for ratio in of_cols]
        axes.plot(*zip(*dots, strict=True), "o", color=colour, alpha=0.35, markersize=4, markeredgewidth=0)
        means = [geometric_mean(of_cols) for of_cols in ratios.values()]
        axes.plot(list(ratios), means, "-o", color=colour, linewidth=2, markersize=6, label=label)
        axes.annotate(f"{means[-1]:.2g}", (list(ratios)[-1], means[-1]), xytext=(8, -4), textcoords="offset points")
    axes.axhline(1, color=INK, linewidth=1, linestyle="--", label="floor: a copy of the same bytes")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(ticker.FixedLocator([n for n in sorted(lengths) if n & (n - 1) == 0]))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda cols, _: f"{cols:.0f}"))
    axes.tick_params(axis="x", labelrotation=45)
    axes.yaxis.set_major_locator(ticker.FixedLocator([1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100]))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda ratio, _: f"{ratio:g}"))
    axes.grid(axis="y", color="#e6e9ec", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("row length")
    axes.set_ylabel("time / time of a copy of the same bytes")
    axes.set_title(f"Exact top-k of f32 rows, k = 2 to 2048, on {facts['gpu']}", fontsize=12)
    axes.legend(frameon=False, loc="center right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path)
    parser.add_argument("svg", type=Path)
    arguments = parser.parse_args()
    draw(json.loads(arguments.json.read_text()), arguments.svg)
    print(f"written: {arguments.svg}")


if __name__ == "__main__":
    main()
