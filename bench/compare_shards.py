#!/usr/bin/env python3
"""Bytes and time of a top-k whose columns are split over ranks, beside gathering everything and beside two gathers.

    python bench/compare_shards.py --json bench/results/shards-cpu.json     # 2 and 4 processes with gloo
    python bench/compare_shards.py --device cuda --json bench/results/shards-h200.json
    python bench/compare_shards.py --bandwidth 1000 100 --json bench/results/shards-wire-cpu.json     # as root

- everything: all ranks gather all columns, then select (rtopk.topk).
- two gathers: each rank selects its k best; values and int64 indices are gathered one after the other; all select.
- rtopk: rtopk.distributed.topk. One gather, with a header by which ranks are compared.
- sizes known: the same with the sizes of the shards given, so that nothing waits for a GPU.
- maxk: rtopk.distributed.maxk, which sends values alone.

All of them have the same result, which is checked. Bytes are those that a rank receives from the others. Times are
medians over repetitions of the slowest rank's time; the ways alternate. Operators are those of PyTorch's dispatcher in
a call of rank 0, without views: on a quick wire with few candidates, they are what takes the time. All ranks are on
this machine: the wire is its memory. Where they are more than its cores they wait for each other; fastest_us in the
JSON has the fastest repetition.

With --bandwidth everything is measured again with ranks in network namespaces, each with a card that sends so many
Mbit/s at most (limited_wire.py). That needs root; sent_bytes in the JSON is what the card of rank 0 sent in a call,
with all headers and the few bytes by which the ranks tell each other their times.

With --device cuda two ranks share one GPU through gloo, which copies over the host;
NCCL has one rank for each GPU, so on one GPU it is measured with one rank, where nothing is sent.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import distributed
from torch.profiler import ProfilerActivity, profile

import rtopk
import rtopk.distributed
from called_operators import operators
from checkout import origin
from compare_gradient_hooks import found_by_ranks, wires
from limited_wire import WireError, bytes_sent
from rtopk.distributed import exchange
from whole_file import write_json

SHAPES = [(256, 16384), (2048, 2048)]  # rows, and columns of each rank
KS = [32, 128, 256]
NO_LIMIT = "no limit"


# ---- The ways ----


def gathered(tensor):
    """The tensors of all ranks, one after the other."""
    result = tensor.new_empty(distributed.get_world_size() * len(tensor), *tensor.shape[1:])
    exchange.all_gather(result, tensor, group=distributed.group.WORLD)
    return result.unflatten(0, (-1, len(tensor)))


def everything(x, k):
    return rtopk.topk(torch.cat([*gathered(x)], dim=1), k)


def two_gathers(x, k):
    values, indices = rtopk.topk(x, k, sorted=False)
    indices += distributed.get_rank() * x.shape[1]
    values, indices = (torch.cat([*gathered(each)], dim=1) for each in (values, indices))
    best = rtopk.topk(values, k)
    return best.values, indices.gather(1, best.indices)


def ways(rows, cols, k):
    """By name: the function, and the bytes of a rank's tensors that it gathers."""
    sizes = [cols] * distributed.get_world_size()
    shape = {"function": "topk", "dtype": torch.float32, "shape": (rows,), "dim": 1, "k": k}
    call = exchange.Call(**shape, largest=True, sorted=True)
    maxk = exchange.Call(**shape | {"function": "maxk"}, largest=True, sorted=True)
    layout = exchange.Layout.of
    return {
        "everything": (everything, rows * cols * 4),
        "two gathers": (two_gathers, rows * k * (4 + 8)),
        "rtopk": (rtopk.distributed.topk, layout(call, sizes).bytes),
        "sizes known": (
            lambda x, k: rtopk.distributed.topk(x, k, sizes=sizes),
            layout(call, sizes).bytes,
        ),
        "maxk": (rtopk.distributed.maxk, layout(maxk, sizes).bytes),
    }


# ---- Measuring, on every rank ----


def slowest(function, x, k):
    """Microseconds of the slowest rank, and what the card of this one sent."""
    distributed.barrier()
    start, before = time.perf_counter(), bytes_sent()
    function(x, k)
    if x.is_cuda:
        torch.cuda.synchronize()
    elapsed = torch.tensor([time.perf_counter() - start], dtype=torch.float64, device=x.device)
    distributed.all_reduce(elapsed, distributed.ReduceOp.MAX)
    return elapsed.item() * 1e6, bytes_sent() - before


def check(x, k, functions):
    expected = everything(x, k)
    for name, (function, _) in functions.items():
        if name == "maxk":
            continue
        result = function(x, k)
        if not all(torch.equal(one, other) for one, other in zip(result, expected, strict=True)):
            raise SystemExit(f"{name}: results differ from those of one device")


def operators_of(function, x, k):
    """How many operators a call takes. Every rank calls it."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        function(x, k)
    return len(operators(profiled))


def measure(task):
    rank, world, device = distributed.get_rank(), distributed.get_world_size(), task["device"]
    cells = []
    for rows, cols in task["shapes"]:
        torch.manual_seed(rank)
        x = torch.randn(rows, cols, device=device)
        for k in task["ks"]:
            functions = ways(rows, cols, k)
            check(x, k, functions)
            found = {name: [] for name in functions}
            for turn in range(task["repeats"] + 2):
                for name, (function, _) in functions.items():
                    one = slowest(function, x, k)
                    if turn > 1:
                        found[name].append(one)
            times, sent = ({name: [each[at] for each in found[name]] for name in found} for at in range(2))
            cell = {"ranks": world, "backend": distributed.get_backend(), "wire": task["wire"]}
            cell |= {"rows": rows, "cols_of_a_rank": cols, "k": k}
            cell["us"] = {name: statistics.median(spans) for name, spans in times.items()}
            cell["fastest_us"] = {name: min(spans) for name, spans in times.items()}
            cell["operators"] = {name: operators_of(function, x, k) for name, (function, _) in functions.items()}
            cell["received_bytes"] = {name: (world - 1) * sent for name, (_, sent) in functions.items()}
            if task["wire"] != NO_LIMIT:
                cell["sent_bytes"] = {name: statistics.median(bytes) for name, bytes in sent.items()}
            cells.append(cell)
            if rank == 0:
                print(f"{world} ranks, {task['wire']}, {rows} x {cols} each, k = {k}", flush=True)
    return cells


def work():
    task = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    alone_on_a_gpu = task["device"] == "cuda" and os.environ["WORLD_SIZE"] == "1"
    distributed.init_process_group("nccl" if alone_on_a_gpu else "gloo")
    cells = measure(task)
    if distributed.get_rank() == 0:
        Path(os.environ["RTOPK_RESULTS"]).write_text(json.dumps(cells))
    distributed.barrier()
    distributed.destroy_process_group()


# ---- All ranks ----


def table(cells):
    names = list(cells[0]["us"])
    print(f"\n{'ranks':>5} {'wire':>11} {'of a rank':>12} {'k':>4}  " + " ".join(f"{name:>29}" for name in names))
    for cell in cells:
        shape = f"{cell['rows']} x {cell['cols_of_a_rank']}"
        columns = (
            f"{cell['us'][n] / 1e3:9.2f} ms {cell['received_bytes'][n] / 1024:6.0f} KiB {cell['operators'][n]:>2} op"
            for n in names
        )
        name = f"{cell['ranks']:>5} {cell['wire']:>11} {shape:>12} {cell['k']:>4}"
        print(f"{name}  " + " ".join(f"{each:>29}" for each in columns))


def shape_of(text):
    rows, _, cols = text.partition("x")
    return int(rows), int(cols)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if rtopk.info()["gpus"] else "cpu")
    parser.add_argument("--ranks", type=int, nargs="+", help="numbers of processes (2 4; on one GPU 2 1)")
    parser.add_argument("--shapes", type=shape_of, nargs="+", default=SHAPES, metavar="ROWSxCOLS", help="of each rank")
    parser.add_argument("--ks", type=int, nargs="+", default=KS)
    parser.add_argument("--bandwidth", type=int, nargs="*", default=[], help="of each card, in Mbit/s (none)")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    task = {name: getattr(options, name) for name in ("device", "shapes", "ks", "repeats")}
    cells = []
    try:
        for world in options.ranks or ([2, 1] if options.device == "cuda" else [2, 4]):
            for name, wire in wires(world, options.bandwidth):
                with wire as opened:
                    cells += found_by_ranks(world, task | {"wire": name}, opened, worker=Path(__file__))
    except WireError as error:
        sys.exit(f"{error}. Without a limited wire: no --bandwidth.")
    name = torch.cuda.get_device_name() if options.device == "cuda" else f"{platform.machine()}, {os.cpu_count()} CPUs"
    table(cells)
    if options.json:
        environment = {**origin(), "device": name, "torch": torch.__version__, "repeats": options.repeats}
        write_json(options.json, {"environment": environment, "cells": cells})


if __name__ == "__main__":
    work() if "RTOPK_RESULTS" in os.environ else main()
