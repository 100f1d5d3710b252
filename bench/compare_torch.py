#!/usr/bin/env python3
"""Times rtopk's CPU backend against torch.topk(sorted=False) with the same number of threads, in the same run.

A cell is one shape: rows x cols elements, k selected from each row. rtopk, torch.topk and a copy of the matrix
alternate over fresh random matrices; times are medians. rtopk's results are first checked against torch's.

    .venv/bin/python bench/compare_torch.py --dtype f32 f16 bf16 --json bench/results/cpu.json
    .venv/bin/python bench/compare_torch.py --random 80 --seed 7

--random takes the problems of `rtopk bench --random-shapes` with results as pairs; torch.topk sorts where rtopk does.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

# OpenMP's threads spin after their work, on the CPUs that rtopk's threads need next. The variable has to be set before
# torch starts them.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch  # noqa: E402

import librtopk
from checkout import cpu_model, origin
from gpu_grids import matrix_of, random_cells
from gpu_report import geometric_mean, percentile

COLS = [32, 64, 128, 256, 512, 768, 1024, 4096, 8192, 65536]
KS = [8, 32, 64, 128, 512]
TORCH_DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i32": torch.int32,
}
INDEX_TYPES = {"i32": torch.int32, "i64": torch.int64}


@dataclass
class Cell:
    """Median times in seconds of one shape."""

    dtype: str
    rows: int
    cols: int
    k: int
    rtopk: float
    torch: float
    copy: float

    @property
    def speedup(self):
        return self.torch / self.rtopk

    @property
    def over_copy(self):
        return self.rtopk / self.copy


class WrongResult(Exception):
    pass


def available_cpus():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def timed(function, matrix):
    start = time.perf_counter()
    function(matrix)
    return time.perf_counter() - start


def check(matrix, values, indices, expected):
    """Raises WrongResult unless the values are torch's and the indices are distinct and lead to them."""
    if not torch.equal(values.sort(dim=1).values, expected.sort(dim=1).values):
        raise WrongResult("values differ from torch.topk")
    if not torch.equal(matrix.gather(1, indices), values):
        raise WrongResult("an index does not lead to its value")
    if values.shape[1] > 1 and not (indices.sort(dim=1).values.diff(dim=1) > 0).all():
        raise WrongResult("an index occurs twice in a row")


def interleaved(functions, matrices, repeats, warm_up=1):
    """Median time of each function. They alternate, so that a busy moment of the machine hits all of them."""
    times = {name: [] for name in functions}
    for turn in range(warm_up + repeats):
        matrix = matrices[turn % len(matrices)]
        for name, function in functions.items():
            elapsed = timed(function, matrix)
            if turn >= warm_up:
                times[name].append(elapsed)
    return {name: statistics.median(samples) for name, samples in times.items()}


def measure(library, matrices, k, dtype, threads, repeats, extra=None):
    """Measures one shape: a Cell, and the median times of the `extra` functions by name. Those take a matrix."""
    rows, cols = matrices[0].shape
    selection = library.topk(rows, cols, k, dtype, threads)
    ours = torch.empty(rows, k, dtype=matrices[0].dtype), torch.empty(rows, k, dtype=torch.int64)
    theirs = torch.empty_like(ours[0]), torch.empty_like(ours[1])
    copied = torch.empty_like(matrices[0])

    def run_rtopk(matrix):
        selection.run(matrix.data_ptr(), ours[0].data_ptr(), ours[1].data_ptr())

    def run_torch(matrix):
        torch.topk(matrix, k, dim=1, sorted=False, out=theirs)

    for matrix in matrices:
        run_rtopk(matrix)
        run_torch(matrix)
        check(matrix, *ours, theirs[0])
    functions = {"rtopk": run_rtopk, "torch": run_torch, "copy": copied.copy_, **(extra or {})}
    times = interleaved(functions, matrices, repeats)
    cell = Cell(dtype, rows, cols, k, times.pop("rtopk"), times.pop("torch"), times.pop("copy"))
    return cell, times


def random_matrices(count, rows, cols, dtype):
    return [torch.randn(rows, cols).to(TORCH_DTYPES[dtype]) for _ in range(count)]


def measure_random(library, problem, number, seed, threads, repeats):
    """Median times of one random problem: (rtopk, torch, family)."""
    generator = torch.Generator().manual_seed(seed + number)
    dtype = TORCH_DTYPES[problem.dtype]
    matrices = [matrix_of(torch, problem, dtype, generator) for _ in range(2)]
    options = {name: getattr(problem, name) for name in ("direction", "order", "index_type", "row_stride")}
    selection = library.topk(problem.rows, problem.cols, problem.k, problem.dtype, threads, **options)
    results = (problem.rows, problem.k)
    ours = torch.empty(results, dtype=dtype), torch.empty(results, dtype=INDEX_TYPES[problem.index_type])
    theirs = torch.empty(results, dtype=dtype), torch.empty(results, dtype=torch.int64)
    largest, in_order = problem.direction == "largest", problem.order == "by_value"

    def run_rtopk(matrix):
        selection.run(matrix.data_ptr(), ours[0].data_ptr(), ours[1].data_ptr())

    def run_torch(matrix):
        torch.topk(matrix, problem.k, dim=1, largest=largest, sorted=in_order, out=theirs)

    for matrix in matrices:
        run_rtopk(matrix)
        run_torch(matrix)
        check(matrix, ours[0], ours[1].long(), theirs[0])
    times = interleaved({"rtopk": run_rtopk, "torch": run_torch}, matrices, repeats)
    family = next(line.split("=")[1] for line in selection.text.splitlines() if line.startswith("family="))
    return times["rtopk"], times["torch"], family


def compare_random(library, arguments, seed):
    """Random problems, one line each, and their summary; both for the record."""
    program = arguments.library.resolve().parent.parent / "bin" / "rtopk"
    problems = [cell for cell in random_cells(program, arguments.random, seed, "cpu") if cell.form == "pairs"]
    cells = []
    for number, problem in enumerate(problems):
        try:
            rtopk, theirs, family = measure_random(library, problem, number, seed, arguments.threads, arguments.repeats)
        except WrongResult as wrong:
            sys.exit(f"{problem.name}, seed={seed}: {wrong}")
        cells.append({"problem": problem.name, "family": family, "rtopk": rtopk, "torch": theirs,
                      "speedup": theirs / rtopk})  # fmt: skip
        print(
            f"{problem.name:<64} {rtopk * 1e3:9.3f} {theirs * 1e3:9.3f} ms {theirs / rtopk:8.2f}x  {family}", flush=True
        )
    speedups = [cell["speedup"] for cell in cells]
    facts = {
        "cells": len(cells),
        "speedup_geometric_mean": geometric_mean(speedups),
        "speedup_tenth_percentile": percentile(speedups, 10),
        "speedup_worst": min(speedups),
        "slower_than_torch": sum(speedup < 1 for speedup in speedups),
        "below_1.2": sum(speedup < 1.2 for speedup in speedups),
    }
    print("\n" + ", ".join(f"{name}: {round(value, 2)}" for name, value in facts.items()))
    print("the worst:")
    for cell in sorted(cells, key=lambda cell: cell["speedup"])[:10]:
        print(f"{cell['speedup']:8.2f}x  {cell['problem']:<64} {cell['family']}")
    return facts, cells


def write_json(path, record):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written: {path}")


def summary(cells):
    worst = min(cells, key=lambda cell: cell.speedup)
    middle = [cell.over_copy for cell in cells if 256 <= cell.cols <= 1024]
    return {
        "cells": len(cells),
        "speedup_geometric_mean": geometric_mean(cell.speedup for cell in cells),
        "speedup_worst": worst.speedup,
        "speedup_worst_at": {"cols": worst.cols, "k": worst.k},
        "slower_than_torch": sum(cell.speedup < 1 for cell in cells),
        "over_copy_256_to_1024_worst": max(middle) if middle else None,
    }


def environment(library, threads):
    return {
        **origin(),
        "cpu": cpu_model(),
        "cpus": available_cpus(),
        "threads": threads,
        "rtopk": library.version,
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", nargs="+", choices=TORCH_DTYPES, default=["f32"])
    parser.add_argument("--threads", type=int, default=available_cpus(), help="default: all CPUs (%(default)s)")
    parser.add_argument("--elements", type=int, default=1 << 24, help="rows x cols, default 2^24")
    parser.add_argument("--cols", type=int, nargs="+", default=COLS)
    parser.add_argument("--k", type=int, nargs="+", default=KS)
    parser.add_argument(
        "--random", type=int, metavar="N", help="N random problems instead of the grid; --seed says which"
    )
    parser.add_argument("--repeats", type=int, default=5, help="timed turns per cell, default %(default)s")
    parser.add_argument("--matrices", type=int, default=3, help="fresh matrices per shape, default %(default)s")
    parser.add_argument("--seed", type=int, help="default: a different one in every run")
    parser.add_argument("--library", type=Path, default=librtopk.DEFAULT_PATH)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    library = librtopk.Library(arguments.library)
    torch.set_num_threads(arguments.threads)
    seed = arguments.seed if arguments.seed is not None else torch.seed() % (1 << 32)
    torch.manual_seed(seed)
    facts = environment(library, arguments.threads) | {"seed": seed, "repeats": arguments.repeats}
    print(f"rtopk {facts['rtopk']} against torch {facts['torch']}, {facts['threads']} threads, {facts['cpu']}")

    if arguments.random:
        summary_of_all, cells = compare_random(library, arguments, seed)
        if arguments.json:
            write_json(arguments.json, {"environment": facts, "summary": summary_of_all, "cells": cells})
        return

    cells = []
    for dtype in arguments.dtype:
        print(f"\n{dtype:>5} {'rows':>8} {'cols':>6} {'k':>4} {'rtopk ms':>9} {'torch ms':>9} {'copy ms':>8}"
              f" {'torch/rtopk':>12} {'rtopk/copy':>11}")  # fmt: skip
        for cols in arguments.cols:
            matrices = random_matrices(arguments.matrices, max(arguments.elements // cols, 1), cols, dtype)
            for k in (k for k in arguments.k if k < cols):
                try:
                    cell, _ = measure(library, matrices, k, dtype, arguments.threads, arguments.repeats)
                except WrongResult as wrong:
                    sys.exit(f"{dtype} cols={cols} k={k} seed={seed}: {wrong}")
                cells.append(cell)
                print(f"{'':5} {cell.rows:8} {cols:6} {k:4} {cell.rtopk * 1e3:9.2f} {cell.torch * 1e3:9.2f}"
                      f" {cell.copy * 1e3:8.2f} {cell.speedup:11.2f}x {cell.over_copy:10.2f}x", flush=True)  # fmt: skip

    summaries = {}
    print()
    for dtype in arguments.dtype:
        summaries[dtype] = facts_of = summary([cell for cell in cells if cell.dtype == dtype])
        at = facts_of["speedup_worst_at"]
        print(f"{dtype}: {facts_of['cells']} cells, all checked against torch; geometric mean"
              f" {facts_of['speedup_geometric_mean']:.2f} times torch.topk, worst {facts_of['speedup_worst']:.2f}"
              f" (cols={at['cols']} k={at['k']}), {facts_of['slower_than_torch']} slower than torch")  # fmt: skip
        if facts_of["over_copy_256_to_1024_worst"]:
            print(f"     at most {facts_of['over_copy_256_to_1024_worst']:.2f} times a copy at cols 256..1024")
    if "f32" in arguments.dtype:
        f32 = {(cell.cols, cell.k): cell.rtopk for cell in cells if cell.dtype == "f32"}
        for dtype in (dtype for dtype in arguments.dtype if dtype != "f32"):
            ratios = [cell.rtopk / f32[cell.cols, cell.k] for cell in cells if cell.dtype == dtype]
            print(f"{dtype}: {geometric_mean(ratios):.2f} times the time of f32, worst {max(ratios):.2f}")
    if arguments.json:
        write_json(
            arguments.json, {"environment": facts, "summary": summaries, "cells": [asdict(cell) for cell in cells]}
        )


if __name__ == "__main__":
    main()
