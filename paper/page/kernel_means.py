"""Means over the shapes of kernels.json: speed-ups over torch.topk, and times beside the exact selection."""

import statistics

import bench_folder  # noqa: F401
from gpu_report import geometric_mean
from grids import BISECTION, EPSILONS, EXACT, MAX_ITERS, TYPES
from published import PUBLISHED_COLS, PUBLISHED_TABLE3

STOPPED = (*MAX_ITERS, *EPSILONS)
SWEEP_SETTINGS = (EXACT, BISECTION, *STOPPED, *(f"{BISECTION} {setting}" for setting in STOPPED))


def measured(kernels, of_set, **conditions):
    return [
        cell
        for cell in kernels["cells"]
        if cell["set"] == of_set
        and not cell["error"]
        and all(cell[name] == value for name, value in conditions.items())
    ]


def speedups(cells, setting):
    """torch.topk's time divided by ours, for each cell that was measured."""
    times = [cell["microseconds"] for cell in cells if setting in cell["microseconds"]]
    return [time["torch"] / time[setting] for time in times]


def mean_speedup(cells, setting):
    """The arithmetic mean, which the paper uses, and the extremes."""
    ratios = speedups(cells, setting)
    if not ratios:
        return None
    return {"mean": statistics.fmean(ratios), "least": min(ratios), "greatest": max(ratios), "cells": len(ratios)}


def by_bisection(kernels, setting):
    """The name under which kernels.json has a stopped search that runs the paper's passes; None if it has none. Without
    `search = bisection` the library finds the same result in another way. Files that name no rule are from before it
    did."""
    own = f"{BISECTION} {setting}"
    if any(own in cell["microseconds"] for cell in kernels["cells"] if not cell["error"]):
        return own
    return None if "rule" in kernels["environment"] else setting


def table3(kernels):
    """For each M, and for all: the published speed-ups, those of the paper's search here, and those of rtopk."""
    lines = []
    groups = [(cols, measured(kernels, "grid", cols=cols)) for cols in PUBLISHED_COLS]
    for position, (cols, cells) in enumerate([*groups, (None, measured(kernels, "grid"))]):
        entries = []
        for setting, published in PUBLISHED_TABLE3.items():
            passes = by_bisection(kernels, setting) if setting in MAX_ITERS else BISECTION
            entries.append(
                {
                    "setting": setting,
                    "published": published[position],
                    "bisection": mean_speedup(cells, passes),
                    "rtopk": mean_speedup(cells, setting) if passes != setting else None,
                }
            )
        lines.append({"cols": cols, "entries": [one for one in entries if one["bisection"] or one["rtopk"]]})
    return lines


def panels(kernels):
    """The panels of the main figure: one for each (N, M), with its mean speed-up without early stopping."""
    pairs = dict.fromkeys((cell["rows"], cell["cols"]) for cell in measured(kernels, "grid"))
    return [
        {"rows": rows, "cols": cols} | mean_speedup(measured(kernels, "grid", rows=rows, cols=cols), BISECTION)
        for rows, cols in sorted(pairs)
    ]


def sweep(kernels):
    """Speed-ups by row length, averaged over k: of every setting for f32, of the exact selection for every type."""
    lines = []
    for cols in sorted({cell["cols"] for cell in measured(kernels, "sweep")}):
        cells = measured(kernels, "sweep", cols=cols)
        f32 = [cell for cell in cells if cell["dtype"] == "f32"]
        by_setting = {setting: mean_speedup(f32, setting) for setting in SWEEP_SETTINGS}
        by_type = {dtype: mean_speedup([c for c in cells if c["dtype"] == dtype], EXACT) for dtype in TYPES}
        lines.append(
            {
                "cols": cols,
                "ks": sorted({cell["k"] for cell in f32}),
                "settings": {name: mean for name, mean in by_setting.items() if mean},
                "types": {name: mean for name, mean in by_type.items() if mean},
            }
        )
    return lines


def dimensions(kernels):
    """The mean speed-up for each value of N, k and M of the grid, by the paper's search and by rtopk's own."""
    cells = measured(kernels, "grid")
    return [
        {
            "name": name,
            "values": [
                {
                    "value": value,
                    "bisection": mean_speedup(of_value, BISECTION)["mean"],
                    "rtopk": mean_speedup(of_value, EXACT)["mean"],
                }
                for value in sorted({cell[member] for cell in cells})
                for of_value in [[cell for cell in cells if cell[member] == value]]
            ],
        }
        for name, member in (("N", "rows"), ("k", "k"), ("M", "cols"))
    ]


# ---- Time and hit rate ----


def against_exact(cell):
    """The time of each setting, relative to the exact selection of the same rows, and its hit rate."""
    times = cell["microseconds"]
    return [
        {
            "setting": setting,
            "microseconds": times[setting],
            "of_exact": times[setting] / times[EXACT],
            "hit_percent": 100.0 if setting in (EXACT, BISECTION) else cell["hit_percent"][setting],
        }
        for setting in cell["plans"]
        if setting in (EXACT, BISECTION) or setting in cell["hit_percent"]
    ]


def early(kernels):
    """Time and hit rate for the shapes of the grid with the most rows."""
    cells = measured(kernels, "grid")
    most = max((cell["rows"] for cell in cells), default=0)
    kept = [cell for cell in cells if cell["rows"] == most]
    lines = [{name: cell[name] for name in ("rows", "cols", "k")} | {"points": against_exact(cell)} for cell in kept]
    return lines


def early_means(lines):
    """Time and hit rate of each setting by row length, averaged over k."""
    table = []
    for cols in sorted({line["cols"] for line in lines}):
        points = [point for line in lines if line["cols"] == cols for point in line["points"]]
        for setting in dict.fromkeys(point["setting"] for point in points):
            of_setting = [point for point in points if point["setting"] == setting]
            table.append(
                {
                    "cols": cols,
                    "setting": setting,
                    "of_exact": geometric_mean([point["of_exact"] for point in of_setting]),
                    "hit_percent": statistics.fmean(point["hit_percent"] for point in of_setting),
                }
            )
    return table


TARGET = 1.25  # times as long as the exact selection: the most that an early-stopped one should take


def against_target(kernels):
    """The time of early-stopped selections of f32, relative to the exact ones, over the grid and over the row lengths:
    for each max_iter the mean, the worst shape, and how many shapes miss the target."""
    sets = []
    for name in ("grid", "sweep"):
        cells = [cell for cell in measured(kernels, name) if cell["dtype"] == "f32"]
        lines = []
        for setting, options in MAX_ITERS.items():
            ratios = [
                (cell["microseconds"][setting] / cell["microseconds"][EXACT], cell)
                for cell in cells
                if setting in cell["microseconds"]
            ]
            if not ratios:
                continue
            worst, cell = max(ratios, key=lambda one: one[0])
            line = {"max_iter": options["max_iter"], "shapes": len(ratios)}
            line |= {"mean": geometric_mean([ratio for ratio, _ in ratios]), "worst": worst}
            line |= {"worst_of": {member: cell[member] for member in ("rows", "cols", "k")}}
            lines.append(line | {"missed": sum(ratio > TARGET for ratio, _ in ratios)})
        totals = {member: sum(line[member] for line in lines) for member in ("missed", "shapes")}
        sets.append({"set": name, "lines": lines} | totals)
    return {"times": TARGET, "sets": sets}


def data(kernels):
    """Times by distribution of the elements, relative to normal ones."""
    lines = []
    for cell in measured(kernels, "data"):
        normal = measured(kernels, "data", rows=cell["rows"], cols=cell["cols"], k=cell["k"], data="normal")
        exact = cell["microseconds"][EXACT]
        lines.append(
            {name: cell[name] for name in ("rows", "cols", "k", "data")}
            | {
                "microseconds": exact,
                "of_normal": exact / normal[0]["microseconds"][EXACT] if normal else None,
                "speedup": cell["microseconds"]["torch"] / exact,
                "points": {p["setting"]: p for p in against_exact(cell)},
            }
        )
    return lines
