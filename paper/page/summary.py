"""Derives summary.json from the statistics and kernels.json: means over shapes, and which published numbers agree.

The page shows numbers of these files only and computes nothing.
"""

import math
import statistics

import bench_folder  # noqa: F401
from gpu_report import geometric_mean
from grids import BISECTION, EPSILONS, EXACT, MAX_ITERS, TYPES

# ---- What the paper prints about its kernel, on an NVIDIA A6000 ----

PUBLISHED_COLS = (256, 512, 768)
PUBLISHED_TABLE3 = {  # mean speed-up over torch.topk for M = 256, 512, 768, and their average
    "max_iter=2": (13.07, 11.66, 9.73, 11.49),
    "max_iter=3": (12.32, 11.37, 9.44, 11.04),
    "max_iter=4": (11.46, 10.43, 8.72, 10.20),
    "max_iter=5": (10.86, 9.51, 7.75, 9.37),
    "max_iter=6": (10.32, 8.87, 7.16, 8.79),
    "max_iter=7": (9.88, 8.34, 6.78, 8.34),
    "max_iter=8": (9.55, 7.98, 6.46, 7.99),
    EXACT: (8.88, 7.27, 5.72, 7.29),
}
# The paper's text about the sweep over M without early stopping: M from, M to, least and greatest speed-up.
PUBLISHED_SWEEP = ((128, 1280, 4.9, 12.5), (1280, 3072, 2.3, 4.9), (3072, 6144, 1.1, 2.3), (6144, 8192, None, 1.0))
# Graph, top-k's share of the training time (the three models of Table 4), speed-up of the training; in percent.
PUBLISHED_TRAINING = (
    ("Reddit", (11.66, 11.61, 11.62), (11.97, 12.21)),
    ("Flickr", (26.86, 26.78, 26.73), (32.48, 33.29)),
    ("ogbn-products", (19.81, 19.61, 19.67), (22.00, 22.74)),
    ("Yelp", (26.09, 25.84, 25.92), (31.21, 32.42)),
)


# ---- Means over shapes ----


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


def table3(kernels):
    lines = []
    groups = [(cols, measured(kernels, "grid", cols=cols)) for cols in PUBLISHED_COLS]
    for position, (cols, cells) in enumerate([*groups, (None, measured(kernels, "grid"))]):
        entries = [
            {"setting": setting, "published": numbers[position]} | mean_speedup(cells, setting)
            for setting, numbers in PUBLISHED_TABLE3.items()
            if speedups(cells, setting)
        ]
        lines.append({"cols": cols, "entries": entries, "bisection": mean_speedup(cells, BISECTION)})
    return lines


def panels(kernels):
    """The panels of the main figure: one for each (N, M), with its mean speed-up without early stopping."""
    pairs = dict.fromkeys((cell["rows"], cell["cols"]) for cell in measured(kernels, "grid"))
    return [
        {"rows": rows, "cols": cols} | mean_speedup(measured(kernels, "grid", rows=rows, cols=cols), EXACT)
        for rows, cols in sorted(pairs)
    ]


def sweep(kernels):
    """Speed-ups by row length, averaged over k: of every setting for f32, of the exact selection for every type."""
    lines = []
    for cols in sorted({cell["cols"] for cell in measured(kernels, "sweep")}):
        cells = measured(kernels, "sweep", cols=cols)
        f32 = [cell for cell in cells if cell["dtype"] == "f32"]
        by_setting = {setting: mean_speedup(f32, setting) for setting in (EXACT, BISECTION, *MAX_ITERS, *EPSILONS)}
        by_type = {dtype: mean_speedup([c for c in cells if c["dtype"] == dtype], EXACT) for dtype in TYPES}
        lines.append(
            {
                "cols": cols,
                "ks": sorted({cell["k"] for cell in f32}),
                "published": [band[2:] for band in PUBLISHED_SWEEP if band[0] <= cols <= band[1]][0],
                "settings": {name: mean for name, mean in by_setting.items() if mean},
                "types": {name: mean for name, mean in by_type.items() if mean},
            }
        )
    return lines


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


# ---- The search by distribution ----


def part(study, name):
    return next((part for part in study["parts"] if part["part"] == name), None)


DISTRIBUTION_COLS = 256  # of Table 1, and of the rules beside it


def distributions(studies):
    """Exits and hit rates of the paper's search by distribution and k, from one study of each."""
    lines = []
    for name, study in studies.items():
        exits = {column["k"]: column["mean"]["value"] for column in part(study, "table1")["columns"]}
        for k, mean in exits.items():
            hits = {
                cell["max_iter"]: {
                    rule: cell[f"hit_{rule}_percent"]["value"] for rule in ("printed", "threshold_first", "sure_first")
                }
                for cell in part(study, "rule")["cells"]
                if cell["cols"] == DISTRIBUTION_COLS and cell["k"] == k
            }
            lines.append({"data": name, "k": k, "exit": mean, "hits": hits})
    return lines


# ---- Agreement with published numbers ----

CHANCE = "chance (95 %, two samples of these sizes) and rounding"


def counted(name, estimates, why="", tolerance=CHANCE):
    """How many of these published numbers agree with ours, and the mean and the largest difference."""
    estimates = [estimate for estimate in estimates if "published" in estimate]
    differences = [abs(estimate["difference"]) for estimate in estimates if estimate["difference"] is not None]
    agree = sum(bool(estimate["agrees"]) for estimate in estimates)
    return {
        "name": name,
        "numbers": len(estimates),
        "agree": agree,
        "mean_difference": statistics.fmean(differences) if differences else None,
        "largest_difference": max(differences, default=None),
        "tolerance": tolerance,
        "why": why if agree < len(estimates) else "",
    }


def beside_column(column):
    """Our mean exit beside the mean of the published column, which is known up to two bounds."""
    mean, bounds = column["mean"], column["mean_of_published_column"]
    nearest = min(max(mean["value"], bounds["low"]), bounds["high"])
    chance = math.sqrt(2) * (mean["high"] - mean["low"]) / 2
    difference = mean["value"] - nearest
    return {"published": nearest, "difference": difference, "agrees": abs(difference) <= chance + 0.005}


def agreement(study):
    table1, table2, table5 = (part(study, name) for name in ("table1", "table2", "table5"))
    shares = [at for column in table1["columns"] for at in column["cumulative_percent"]]
    few_stars = "one in twenty is expected to differ by chance"
    lines = [
        counted("Table 1: shares, iterations 3 to 14, %", [at for at in shares if at["iteration"] <= 14]),
        counted(
            "Table 1: shares, iterations 15 and 16, %",
            [at for at in shares if at["iteration"] > 14],
            "Algorithm 1 stops at epsilon' times the row's maximum, which takes 15 iterations at most; the published"
            " columns end at 16, as they do where the interval itself is 1e-4 wide.",
        ),
        counted(
            "Table 1: average exit",
            [column["mean"] for column in table1["columns"]],
            "The published averages are not the means of the published columns; those are in the next line.",
        ),
        counted("Table 1: the mean of the published columns", [beside_column(column) for column in table1["columns"]]),
    ]
    levels_off = (
        "The published columns level off, which Algorithm 2 as printed does not. They are those of a loop that ends"
        " at exactly k elements without raising its lower bound: see the next lines."
    )
    for name, member in (("hit rate", "hit_percent"), ("E1", "e1_percent")):
        lines.append(
            counted(f"Table 2: {name}, %, Algorithm 2 as printed", [c[member] for c in table2["cells"]], levels_off)
        )
    lines.append(
        counted(
            "Table 2: E2 as the caption defines it, %",
            [cell["e2_percent"] for cell in table2["cells"]],
            "It divides by the smallest selected element, which can be near zero (at k = 128 the mean does not exist)."
            " What was published is the error divided by the row's maximum.",
        )
    )
    lines.append(
        counted(
            "Table 2: E2 of the maximum, %, Algorithm 2 as printed",
            [cell["e2_of_maximum_percent"] for cell in table2["cells"]],
            levels_off,
        )
    )
    for selection, inside, why in (
        (
            "with a loop that ends at k",
            "unraised",
            "Close, but not all within chance: our guess at what was measured explains nearly all of the"
            " difference, not every digit.",
        ),
        (
            "with the selection of the paper's kernel",
            "threshold_first",
            "The Selecting Stage of the paper's section on its GPU implementation. It misses less than Algorithm 2 as"
            " printed, and is further from the published numbers: they are not of that selection.",
        ),
    ):
        for name, member in (
            ("hit rate", "hit_percent"),
            ("E1", "e1_percent"),
            ("E2 of the maximum", "e2_of_maximum_percent"),
        ):
            estimates = [cell[inside][member] for cell in table2["cells"]]
            lines.append(counted(f"Table 2: {name}, %, {selection}", estimates, why))
    lines += [
        counted(
            "Table 5: shares, %",
            [at for column in table5["columns"] for at in column["cumulative_percent"]],
            few_stars.capitalize() + ".",
        ),
        counted(
            "Table 5: average exit", [column["mean"] for column in table5["columns"]], few_stars.capitalize() + "."
        ),
        counted(
            "Table 5: E(n)", [column["theory"] for column in table5["columns"]], tolerance="rounding to two decimals"
        ),
    ]
    return lines


def amdahl():
    """The gain from replacing torch.topk alone, by the published shares and the published speed-ups at M = 256."""
    factors = [numbers[0] for setting, numbers in PUBLISHED_TABLE3.items() if setting in MAX_ITERS]

    def gained(share, factor):
        return 100 * (1 / (1 - share / 100 * (1 - 1 / factor)) - 1)

    return [
        {
            "graph": graph,
            "share_least": min(shares),
            "share_greatest": max(shares),
            "computed_least": gained(statistics.fmean(shares), min(factors)),
            "computed_greatest": gained(statistics.fmean(shares), max(factors)),
            "published_least": published[0],
            "published_greatest": published[1],
        }
        for graph, shares, published in PUBLISHED_TRAINING
    ]


def summary_of(studies, kernels):
    """`studies` by distribution, with normal elements among them."""
    lines = early(kernels)
    return {
        "agreement": agreement(studies["normal"]),
        "table3": table3(kernels),
        "panels": panels(kernels),
        "sweep": sweep(kernels),
        "early": lines,
        "early_means": early_means(lines),
        "data": data(kernels),
        "distributions": distributions(studies),
        "amdahl": amdahl(),
        "failed": [cell for cell in kernels["cells"] if cell["error"]],
    }
