#!/usr/bin/env python3
"""Compares communication hooks of DistributedDataParallel: rtopk's topk_hook beside PyTorch's own.

    python bench/compare_gradient_hooks.py coauthor-cs.npz --json bench/results/gradient-hooks-cpu.json
    python bench/compare_gradient_hooks.py --device cuda --json bench/results/gradient-hooks-h200.json

First, the cost of the hooks' own computation: a bucket of 24 MiB in a group of one rank, so that nothing is sent. The
time of a call is that until its result is there. On a GPU, the GPU's own time is told too, except for PowerSGD, which
waits for the GPU in every call.

With a graph, a multi-layer perceptron then learns the classes of its nodes by their words, on the CPU:

- steps: median milliseconds of a training step, and the bytes that a rank sends in one, counted by its network card
  with all headers. Ranks are processes with a thread each. They are in network namespaces, each with a card that sends
  so many Mbit/s at most (limited_wire.py). That needs root; --bandwidth without a number leaves it out.
- accuracy: of the test nodes after the same epochs: the mean over the seeds, the lowest and the highest. PowerSGD and
  top-k begin with all-reduce for a tenth of the steps.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import torch

import rtopk
from checkout import origin
from clocks import interleaved
from gradient_hooks import HOOKS, BucketOf, alone
from limited_wire import LimitedWire, WireError
from rank_processes import run_ranks
from whole_file import write_json

WORKER = Path(__file__).with_name("gradient_hooks.py")
# A bucket of DDP's default size: matrices, and a vector for each.
BUCKET_SHAPES = [(1024, 1024), (1024,)] * 6
REPEATS = {"cuda": 31, "cpu": 5}


# ---- Several ranks ----


def found_by_ranks(ranks, task, wire=None, worker=WORKER):
    """What rank 0 of a group of processes found out."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.json")
        line = [sys.executable, "-W", "ignore", worker, json.dumps(task)]
        run_ranks(line, ranks, wire, seconds=1500, RTOPK_RESULTS=str(results))
        return json.loads(results.read_text())


def wires(ranks, bandwidths):
    """Pairs of a name and a wire, first none: the loopback of this machine."""
    yield "no limit", nullcontext()
    for megabits in bandwidths:
        yield f"{megabits} Mbit/s", LimitedWire(ranks, megabits)


def measure_steps(arguments):
    rows = []
    for ranks in arguments.ranks:
        for name, wire in wires(ranks, arguments.bandwidth):
            task = {"kind": "step times", "wire": name, "steps": arguments.steps} | common(arguments)
            with wire as opened:
                found = found_by_ranks(ranks, task, opened)
            rows += [{"ranks": ranks, "wire": name, "hook": hook, **each} for hook, each in found.items()]
    return rows


def measure_accuracies(arguments):
    rows = []
    for ranks in arguments.ranks:
        task = {"kind": "accuracies", "seeds": arguments.seeds, "epochs": arguments.epochs} | common(arguments)
        found = found_by_ranks(ranks, task)
        rows += [{"ranks": ranks, "hook": hook, "accuracies": each} for hook, each in found.items()]
    return rows


def common(arguments):
    return {"graph": str(arguments.graph.resolve()), "hooks": list(HOOKS), "batch": arguments.batch}


# ---- The hooks' own computation ----


def measure_cost(device):
    """Median microseconds of every hook for one bucket, in a group of one rank."""
    with alone(device):
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.zeros(shape, device=device)) for shape in BUCKET_SHAPES]
        bucket = BucketOf(parameters)
        fresh = bucket.buffer().clone()

        def refill():
            bucket.buffer().copy_(fresh)

        functions = {}
        for name, make in HOOKS.items():
            state, hook = make(2)
            functions[name] = lambda state=state, hook=hook: hook(state, bucket).wait()
            for _ in range(4):  # past the warm-up
                refill()
                functions[name]()
        rows = {name: {"hook": name, "wall_us": us} for name, us in wall_times(functions, refill, device).items()}
        if device == "cuda":
            queued = {name: lambda each=each: [refill, each] for name, each in functions.items() if "SGD" not in name}
            for name, (_, us) in interleaved(device, queued, REPEATS[device])[0].items():
                rows[name]["gpu_us"] = us
        copy_us = wall_times({"copy": refill}, lambda: None, device)["copy"]
        return {"bytes": bucket.buffer().nbytes, "copy_wall_us": copy_us, "hooks": list(rows.values())}


def wall_times(functions, before, device):
    """Median microseconds from a call until its results are there. The functions alternate."""
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    times = {name: [] for name in functions}
    for _ in range(REPEATS[device]):
        for name, function in functions.items():
            before()
            synchronize()
            start = time.perf_counter()
            function()
            synchronize()
            times[name].append((time.perf_counter() - start) * 1e6)
    return {name: statistics.median(samples) for name, samples in times.items()}


# ---- Tables ----


def print_steps(rows):
    print(f"\n{'ranks':>5}  {'wire':<12} {'hook':<26} {'ms a step':>10} {'quarters':>17} {'MB sent':>9} {'less':>6}")
    for row in rows:
        dense = next(each for each in rows if (each["ranks"], each["wire"]) == (row["ranks"], row["wire"]))
        low, high = row["quarters_ms"]
        text = f"{row['ranks']:5}  {row['wire']:<12} {row['hook']:<26} {row['ms']:10.1f} {low:8.1f} {high:8.1f}"
        if row["bytes"]:
            text += f" {row['bytes'] / 1e6:9.3f} {dense['bytes'] / row['bytes']:5.1f}x"
        print(text)


def print_accuracies(rows):
    print(f"\n{'ranks':>5}  {'hook':<26} {'accuracy':>9} {'lowest':>8} {'highest':>8}")
    for row in rows:
        each = row["accuracies"]
        print(f"{row['ranks']:5}  {row['hook']:<26} {statistics.mean(each):9.2%} {min(each):8.2%} {max(each):8.2%}")


def print_cost(cost):
    print(f"\na bucket of {cost['bytes'] / 2**20:.1f} MiB; its copy takes {cost['copy_wall_us']:.0f} us")
    print(f"{'hook':<26} {'us a call':>10} {'us on GPU':>10}")
    for row in cost["hooks"]:
        print(f"{row['hook']:<26} {row['wall_us']:10.0f} " + (f"{row['gpu_us']:10.0f}" if "gpu_us" in row else ""))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", nargs="?", type=Path, help="an .npz file with sparse features, as docs/gnn.md says")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if rtopk.info()["gpus"] else "cpu")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--bandwidth", type=int, nargs="*", default=[1000, 100], help="of each card, in Mbit/s")
    parser.add_argument("--steps", type=int, default=12, help="timed steps of each hook on each wire; 0: none")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3, help="0: no accuracies")
    parser.add_argument("--batch", type=int, default=256, help="nodes in a step, of all ranks together")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    if arguments.graph and not arguments.graph.is_file():
        parser.error(f"there is no file {arguments.graph}")
    if arguments.graph and arguments.device == "cuda":
        parser.error("a graph is for the CPU alone; accepted with --device cuda: no graph")
    if arguments.graph and arguments.bandwidth and not shutil.which("tc"):
        parser.error("--bandwidth needs tc (Debian: iproute2); accepted without: --bandwidth with no number")
    return arguments


def main():
    arguments = parse_arguments()
    device = arguments.device
    facts = {
        **origin(),
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "rtopk": rtopk.info(),
    }
    record = {"environment": facts, "cost": measure_cost(device)}
    print_cost(record["cost"])
    if arguments.graph:
        record["task"] = {"graph": arguments.graph.stem, "batch": arguments.batch, "epochs": arguments.epochs}
        if arguments.steps:
            try:
                record["steps"] = measure_steps(arguments)
            except WireError as error:
                sys.exit(f"{error}. Without a limited wire: --bandwidth with no number.")
            print_steps(record["steps"])
        if arguments.seeds:
            record["accuracies"] = measure_accuracies(arguments)
            print_accuracies(record["accuracies"])
    if arguments.json:
        write_json(arguments.json, record)


if __name__ == "__main__":
    main()
