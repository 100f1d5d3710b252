"""The authors' kernel and other libraries, timed by kernels.py in the same run where they are installed."""

import statistics

import bench_folder  # noqa: F401
from gpu_report import geometric_mean
from grids import EXACT

PREFIX = "peer:"


def peers(kernels):
    """None if the file knows nothing of peers."""
    if "peers" not in kernels:
        return None
    cells = [cell for cell in kernels["cells"] if not cell["error"]]
    return kernels["peers"] | {"lines": [line for group in groups(cells) for line in lines_of(*group)]}


def groups(cells):
    """Shapes that are averaged together: by set, row length and type."""
    found = {}
    for cell in cells:
        found.setdefault((cell["set"], cell["cols"], cell["dtype"]), []).append(cell)
    return list(found.items())


def lines_of(group, cells):
    names = dict.fromkeys(name for cell in cells for name in cell["microseconds"] if name.startswith(PREFIX))
    for timed in names:
        name = timed.removeprefix(PREFIX)
        # One that stops early is held against rtopk with the same max_iter: a peer counts it as rtopk does.
        _, early, passes = name.partition(" max_iter=")
        beside = f"max_iter={passes}" if early else EXACT
        found = [cell for cell in cells if cell["microseconds"].get(timed) and beside in cell["microseconds"]]
        if not found:
            continue
        times = [cell["microseconds"] for cell in found]
        ratios = [time[timed] / time[beside] for time in times]
        yield {
            "name": name,
            "beside": beside,
            "set": group[0],
            "cols": group[1],
            "dtype": group[2],
            "cells": len(found),
            "speedup": statistics.fmean(time["torch"] / time[timed] for time in times),
            "our_speedup": statistics.fmean(time["torch"] / time[beside] for time in times),
            "ratio": geometric_mean(ratios),
            "least": min(ratios),
            "greatest": max(ratios),
            "wrong_rows": sum(cell.get("peer_wrong_rows", {}).get(name) or 0 for cell in found),
        }
