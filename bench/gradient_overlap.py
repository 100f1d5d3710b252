#!/usr/bin/env python3
"""How much of what communication hooks send travels while backward goes on.

    python bench/gradient_overlap.py --json bench/results/gradient-overlap-cpu.json     # as root; 4 minutes

Trains a deep network, of which every layer is a bucket of DDP. Each hook is timed in two ways that alternate, step by
step:

- as it is: backward goes on while a bucket is on its way;
- waiting: the hook returns when the bucket has arrived, so that nothing is hidden. How long it stood still is counted.

The difference is what backward hid, and divided by the time of standing still its share. Times are medians and
quarters, on rank 0. Ranks are processes with a thread each, in network namespaces with a card that sends so many
Mbit/s at most (limited_wire.py).
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import rtopk
from checkout import cpu_model, origin
from compare_gradient_hooks import found_by_ranks
from gradient_hooks import HOOKS, say
from hidden_time import WAYS, header, hidden_time, shown
from limited_wire import LimitedWire, WireError, bytes_sent
from whole_file import write_json

COMPARED = ["all-reduce", "fp16", "top-k, 8 of 256", "top-k, 8 of 256, float16"]
WARM_UP = 2  # steps; DDP makes its buckets anew after the first


# ---- In a rank ----


class Trainer:
    def __init__(self, hook, way, task):
        torch.manual_seed(0)
        width = task["width"]
        layers = [torch.nn.Linear(width, width, bias=False) for _ in range(task["layers"])]
        network = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.ReLU())))
        self.x = torch.randn(task["batch"], width)
        self.stood_still = 0.0  # seconds, in the last step
        self.buckets = 0
        # Less than a layer, so that no bucket has two.
        self.ddp = DistributedDataParallel(network, bucket_cap_mb=width**2 * 2 / 2**20)
        self.ddp.register_comm_hook(*self.counting(*HOOKS[hook](0), way))
        self.optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)

    def counting(self, state, hook, way):
        def wrapped(state, bucket):
            self.buckets += 1
            future = hook(state, bucket)
            if way == "waiting":
                start = time.perf_counter()
                future.wait()
                self.stood_still += time.perf_counter() - start
            return future

        return state, wrapped

    def step(self):
        self.stood_still, self.buckets = 0.0, 0
        self.optimizer.zero_grad()
        self.ddp(self.x).square().mean().backward()
        self.optimizer.step()


def step_times(task):
    """Rank 0's milliseconds of every counted step, of each hook both ways."""
    trainers = {(hook, way): Trainer(hook, way, task) for hook in COMPARED for way in WAYS}
    rows = {hook: {"ms": {way: [] for way in WAYS}, "stood_still_ms": [], "bytes": []} for hook in COMPARED}
    for turn in range(WARM_UP + task["steps"]):
        for (hook, way), trainer in trainers.items():
            dist.barrier()
            start, before = time.perf_counter(), bytes_sent()
            trainer.step()
            elapsed = time.perf_counter() - start
            dist.barrier()  # until all have what was sent
            if turn >= WARM_UP:
                row = rows[hook]
                row["ms"][way].append(elapsed * 1e3)
                row["bytes"].append(bytes_sent() - before)
                if way == "waiting":
                    row["stood_still_ms"].append(trainer.stood_still * 1e3)
        say(f"{task['megabits']} Mbit/s, step {turn + 1} of {WARM_UP + task['steps']}")
    assert all(trainer.buckets == task["layers"] for trainer in trainers.values())
    return rows


def work():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = step_times(json.loads(sys.argv[1]))
    if dist.get_rank() == 0:
        Path(os.environ["RTOPK_RESULTS"]).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


# ---- All ranks ----


def summary(megabits, hook, row):
    facts = {"megabits": megabits, "hook": hook, "bytes": statistics.median(row["bytes"])}
    return facts | hidden_time(*(row["ms"][way] for way in WAYS), row["stood_still_ms"])


def print_rows(rows):
    print(f"\n{'Mbit/s':>6}  {'hook':<26} {'MB':>7}{header()}")
    for row in rows:
        print(f"{row['megabits']:6}  {row['hook']:<26} {row['bytes'] / 1e6:7.3f}{shown(row)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bandwidth", type=int, nargs="+", default=[1000, 100], help="of each card, in Mbit/s")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768, help="of every layer")
    parser.add_argument("--batch", type=int, default=256, help="rows of each rank")
    parser.add_argument("--steps", type=int, default=15, help="timed steps of each hook, both ways, on each wire")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    arguments = parser.parse_args()
    task = {name: getattr(arguments, name) for name in ("layers", "width", "batch", "steps")}
    rows = []
    try:
        for megabits in arguments.bandwidth:
            with LimitedWire(arguments.ranks, megabits) as wire:
                found = found_by_ranks(arguments.ranks, task | {"megabits": megabits}, wire, worker=Path(__file__))
            rows += [summary(megabits, hook, row) for hook, row in found.items()]
    except WireError as error:
        sys.exit(str(error))
    print_rows(rows)
    if arguments.json:
        machine = {"device": cpu_model(), "cores": os.cpu_count(), "torch": torch.__version__, "rtopk": rtopk.info()}
        write_json(
            arguments.json,
            {"environment": origin() | machine, "task": task | {"ranks": arguments.ranks}, "overlap": rows},
        )


if __name__ == "__main__":
    work() if "RTOPK_RESULTS" in os.environ else main()
