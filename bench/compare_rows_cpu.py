#!/usr/bin/env python3
"""Times general rows on a CPU beside plain ones, in the same run: thresholds, magnitudes, and lengths of all columns.

A cell is one shape. The plain call and the others alternate over fresh random matrices; times are medians, and values,
indices and thresholds are compared with torch's first. compare_rows.py does the same on a GPU.

    .venv/bin/python bench/compare_rows_cpu.py --json bench/results/rows-cpu.json
    .venv/bin/python bench/compare_rows_cpu.py --random 40 --seed 7
"""

import argparse
import random
import sys
from pathlib import Path

import torch

import librtopk
from compare_torch import TORCH_DTYPES, available_cpus, environment, interleaved, random_matrices, write_json
from gpu_report import geometric_mean

SHAPES = [
    (65536, 16, 4),
    (65536, 64, 8),
    (16384, 256, 32),
    (4096, 1024, 64),
    (512, 8192, 64),
    (64, 65536, 64),
    (1, 1 << 20, 64),
]
VARIANTS = {
    "threshold": {"thresholds": True},
    "magnitude": {"magnitude": True},
    "both": {"thresholds": True, "magnitude": True},
    "lengths": {"lengths": librtopk.ARRAYS["i32"]},
}


class Call:
    """A selection with its results."""

    def __init__(self, library, shape, dtype, threads, **options):
        rows, _, k = shape
        self.values = torch.empty(rows, k, dtype=TORCH_DTYPES[dtype])
        self.indices = torch.empty(rows, k, dtype=torch.int64)
        self.thresholds = torch.empty(rows, dtype=TORCH_DTYPES[dtype]) if options.get("thresholds") else None
        self.plan = library.topk(*shape, dtype, threads, **options)
        self.lengths = torch.full((rows,), shape[1], dtype=torch.int32) if "lengths" in options else None

    def __call__(self, matrix):
        more = {"thresholds": self.thresholds, "lengths": self.lengths}
        more = {name: tensor.data_ptr() for name, tensor in more.items() if tensor is not None}
        self.plan.run(matrix.data_ptr(), self.values.data_ptr(), self.indices.data_ptr(), **more)


def check(name, call, matrix, k):
    compared = matrix.abs() if "magnitude" in VARIANTS.get(name, {}) else matrix
    best = torch.topk(compared, k, dim=1).values
    found = compared.gather(1, call.indices).sort(dim=1, descending=True).values
    right = torch.equal(found, best) and torch.equal(matrix.gather(1, call.indices), call.values)
    if call.thresholds is not None:
        kth = call.thresholds.abs() if compared is not matrix else call.thresholds
        right = right and torch.equal(kth, best[:, -1])
    if not right:
        sys.exit(f"{tuple(matrix.shape)}, k = {k}, {name}: wrong results")


def measure(library, shape, dtype, threads, repeats):
    """Median times in microseconds: of the plain call and of every variant."""
    rows, cols, k = shape
    matrices = random_matrices(2, rows, cols, dtype)
    calls = {name: Call(library, shape, dtype, threads, **more) for name, more in ({"plain": {}} | VARIANTS).items()}
    for name, call in calls.items():
        for matrix in matrices:
            call(matrix)
            check(name, call, matrix, k)
    times = interleaved(calls, matrices, repeats, warm_up=2)
    return {name: round(seconds * 1e6, 2) for name, seconds in times.items()}


def drawn_shapes(count, seed):
    draw = random.Random(seed)
    shapes = []
    for _ in range(count):
        cols = int(2 ** draw.uniform(3, 18))
        k = max(int(cols * 2 ** draw.uniform(-9, -0.5)), 1)
        shapes.append((max((1 << 22) // cols, 1), cols, min(k, cols)))
    return shapes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, metavar="N", help="N random shapes instead of the table's")
    parser.add_argument("--seed", type=int, help="default: a different one in every run")
    parser.add_argument("--dtype", nargs="+", choices=["f32", "bf16"], default=["f32", "bf16"])
    parser.add_argument("--threads", type=int, default=available_cpus(), help="default: all CPUs (%(default)s)")
    parser.add_argument("--repeats", type=int, default=21, help="timed turns per cell, default %(default)s")
    parser.add_argument("--library", type=Path, default=librtopk.DEFAULT_PATH)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    library = librtopk.Library(arguments.library)
    torch.set_num_threads(arguments.threads)
    seed = arguments.seed if arguments.seed is not None else torch.seed() % (1 << 32)
    torch.manual_seed(seed)
    facts = environment(library, arguments.threads) | {"seed": seed, "repeats": arguments.repeats}
    shapes = drawn_shapes(arguments.random, seed) if arguments.random else SHAPES

    print(f"{facts['cpu']}, {facts['threads']} threads; microseconds of the plain call, and times of it")
    print(f"{'rows x columns, k':<32}{'plain':>10}" + "".join(f"{name:>11}" for name in VARIANTS))
    cells = []
    for dtype in arguments.dtype:
        for shape in shapes:
            times = measure(library, shape, dtype, arguments.threads, arguments.repeats)
            cells.append({"dtype": dtype, "rows": shape[0], "cols": shape[1], "k": shape[2], "times": times})
            ratios = "".join(f"{times[name] / times['plain']:11.2f}" for name in VARIANTS)
            print(f"{f'{shape[0]} x {shape[1]}, {shape[2]}, {dtype}':<32}{times['plain']:10.1f}{ratios}", flush=True)
    ratios = {name: [cell["times"][name] / cell["times"]["plain"] for cell in cells] for name in VARIANTS}
    summary = {
        name: {"geometric_mean": round(geometric_mean(all_), 3), "worst": round(max(all_), 3)}
        for name, all_ in ratios.items()
    }
    print("\nall results are right; times the plain call:")
    for name, made in summary.items():
        print(f"  {name:<10} mean {made['geometric_mean']:.2f}, worst {made['worst']:.2f}")
    if arguments.json:
        write_json(arguments.json, {"environment": facts, "summary": summary, "cells": cells})


if __name__ == "__main__":
    main()
