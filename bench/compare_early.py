#!/usr/bin/env python3
"""Times early-stopped selections on a CPU beside the exact ones and beside the paper's passes, in the same run.

A selection that stops early (max_iter) is derived from the exact one; `search = bisection` makes the paper's passes and
selects the same. All three alternate over fresh random matrices; times are medians, and the results of both ways are
compared bit by bit first.

    .venv/bin/python bench/compare_early.py --json bench/results/early-cpu.json
    .venv/bin/python bench/compare_early.py --random 60 --seed 7
"""

import argparse
import sys
from pathlib import Path

import torch

import librtopk
from compare_torch import TORCH_DTYPES, available_cpus, environment, interleaved, write_json
from gpu_grids import Cell, matrix_of, random_early_cells
from gpu_report import geometric_mean, percentile

TARGETS = {"exact": 1.25, "passes": 1.0}
SHAPES = [(65536, 64, 8), (16384, 256, 32), (4096, 1024, 64), (1024, 4096, 256), (64, 65536, 512), (1, 1 << 20, 1024)]
MAX_ITER = (2, 4, 8)
# Times of less than this are those of the call, not of the selection.
LEAST_MICROSECONDS = 20


def grid_cells():
    return [
        Cell("early", rows, cols, k, dtype, max_iter=passes)
        for dtype in ("f32", "bf16")
        for rows, cols, k in SHAPES
        for passes in MAX_ITER
    ]


def drawn_cells(program, count, seed):
    """Of every problem that random_early_cells() draws for a baseline each, one."""
    cells = random_early_cells(program, count, seed, "cpu")
    return [cell for cell in cells if cell.baseline.max_iter == 0]


def measure(library, cell, generator, threads, repeats):
    """Median times of one cell in microseconds: early, exact, passes; and the family that runs."""
    dtype = TORCH_DTYPES[cell.dtype]
    matrices = [matrix_of(torch, cell, dtype, generator) for _ in range(2)]

    def selection(**options):
        values = torch.empty(cell.rows, cell.k, dtype=dtype)
        indices = torch.empty(cell.rows, cell.k, dtype=torch.int64)
        plan = library.topk(cell.rows, cell.cols, cell.k, cell.dtype, threads, **options)

        def run(matrix):
            plan.run(matrix.data_ptr(), values.data_ptr(), indices.data_ptr())

        return plan, run, (values, indices)

    early, run_early, ours = selection(max_iter=cell.max_iter)
    _, run_passes, literal = selection(max_iter=cell.max_iter, search="bisection")
    _, run_exact, _ = selection()
    for matrix in matrices:
        run_early(matrix)
        run_passes(matrix)
        bits = (ours[0].view(torch.uint8), literal[0].view(torch.uint8))
        if not torch.equal(ours[1], literal[1]) or not torch.equal(*bits):
            sys.exit(f"{cell.name}: the derived selection is not that of the passes")
    times = interleaved({"early": run_early, "exact": run_exact, "passes": run_passes}, matrices, repeats)
    family = next(line.split("=")[1] for line in early.text.splitlines() if line.startswith("family="))
    return {name: round(seconds * 1e6, 2) for name, seconds in times.items()}, family


def summary(cells, against):
    ratios = [cell["times"]["early"] / cell["times"][against] for cell in cells if cell["counts"]]
    return {
        "cells": len(ratios),
        "geometric_mean": round(geometric_mean(ratios), 3),
        "ninetieth": round(percentile(ratios, 90), 3),
        "worst": round(max(ratios), 3),
        "target": TARGETS[against],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, metavar="N", help="N random problems instead of the grid")
    parser.add_argument("--seed", type=int, help="default: a different one in every run")
    parser.add_argument("--threads", type=int, default=available_cpus(), help="default: all CPUs (%(default)s)")
    parser.add_argument("--repeats", type=int, default=9, help="timed turns per cell, default %(default)s")
    parser.add_argument("--library", type=Path, default=librtopk.DEFAULT_PATH)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    library = librtopk.Library(arguments.library)
    torch.set_num_threads(arguments.threads)
    seed = arguments.seed if arguments.seed is not None else torch.seed() % (1 << 32)
    generator = torch.Generator().manual_seed(seed)
    facts = environment(library, arguments.threads) | {"seed": seed, "repeats": arguments.repeats}
    program = arguments.library.resolve().parent.parent / "bin" / "rtopk"
    problems = drawn_cells(program, arguments.random, seed) if arguments.random else grid_cells()

    print(
        f"{facts['cpu']}, {facts['threads']} threads; microseconds, and ratios to the exact selection and to the passes"
    )
    cells = []
    for cell in problems:
        times, family = measure(library, cell, generator, arguments.threads, arguments.repeats)
        counts = times["exact"] >= LEAST_MICROSECONDS
        cells.append(
            {"problem": cell.name, "max_iter": cell.max_iter, "family": family, "times": times, "counts": counts}
        )
        print(f"{cell.name:<58} {times['early']:11.1f} {times['early'] / times['exact']:7.2f}"
              f" {times['early'] / times['passes']:7.2f}  {family}", flush=True)  # fmt: skip
    summaries = {against: summary(cells, against) for against in TARGETS}
    print(f"\nall {len(cells)} selections are those of the passes, bit by bit")
    for against, made in summaries.items():
        print(f"early / {against}: " + ", ".join(f"{name} {value}" for name, value in made.items()))
    if arguments.json:
        write_json(arguments.json, {"environment": facts, "summary": summaries, "cells": cells})


if __name__ == "__main__":
    main()
