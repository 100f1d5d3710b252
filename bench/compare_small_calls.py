#!/usr/bin/env python3
"""Times small calls of rtopk.topk, and of torch.topk with rtopk.accelerate() on and off again, beside torch.topk.

    python bench/compare_small_calls.py [--device cuda] [--processes 15]

Times are the host's. A call takes a few microseconds, and up to 50 % more depending on where the libraries are loaded
in memory. Therefore several processes measure, and each time is the median over processes. Within a process it is the
median of short runs, in which the compared functions alternate.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

SHAPES = [((1, 128), 8), ((4, 16), 4), ((256, 8), 2), ((64, 64), 8)]
CALLS, TURNS = 50, 60
HEADS = ["shape, k", "torch.topk, us", "rtopk.topk", "unsorted", "with a gradient", "accelerate()", "off again"]


def medians(functions, device):
    """The host's median microseconds for one call of each function."""
    import torch

    times = [[] for _ in functions]
    for turn in range(TURNS + 1):
        for function, samples in zip(functions, times, strict=True):
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                function()
            if turn > 0:
                samples.append((time.perf_counter() - start) / CALLS * 1e6)
    return [statistics.median(samples) for samples in times]


def measured(device):
    """The times of each shape: pairs of torch.topk's and ours, in the order of HEADS."""
    import torch

    import rtopk

    torch.set_num_threads(1)
    results = []
    for shape, k in SHAPES:
        x = torch.randn(shape, device=device)
        leaf = x.clone().requires_grad_()
        pairs = [
            medians([lambda x=x, k=k: torch.topk(x, k), lambda x=x, k=k: rtopk.topk(x, k)], device),
            medians(
                [lambda x=x, k=k: torch.topk(x, k, sorted=False), lambda x=x, k=k: rtopk.topk(x, k, sorted=False)],
                device,
            ),
            medians([lambda x=leaf, k=k: torch.topk(x, k), lambda x=leaf, k=k: rtopk.topk(x, k)], device),
        ]
        for on in (True, False):
            rtopk.set_accelerated(on)
            pairs.append([pairs[0][0], *medians([lambda x=x, k=k: torch.topk(x, k)], device)])
        results.append(pairs)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--processes", type=int, default=15)
    parser.add_argument("--once", action="store_true", help="measure in this process and print JSON")
    options = parser.parse_args()
    if options.once:
        json.dump(measured(options.device), sys.stdout)
        return
    command = [sys.executable, __file__, "--device", options.device, "--once"]
    runs = []
    for number in range(options.processes):
        print(f"\r{number + 1} of {options.processes}", end="", file=sys.stderr, flush=True)
        runs.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
    print(file=sys.stderr)
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
    for place, (shape, k) in enumerate(SHAPES):
        pairs = [
            [statistics.median(run[place][column][side] for run in runs) for side in (0, 1)]
            for column in range(len(HEADS) - 2)
        ]
        cells = [f"{' x '.join(map(str, shape))}, {k}", f"{pairs[0][0]:.1f}"]
        print(f"| {' | '.join(cells + [f'{ours / theirs:.2f}' for theirs, ours in pairs])} |")


if __name__ == "__main__":
    main()
