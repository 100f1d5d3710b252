#!/usr/bin/env python3
"""Times training steps of graphs in parts, with boundary rows that travel compact beside dense ones.

    python bench/compare_parts.py --graph data/coauthor-physics.npz flickr-like:0.25 --megabits 0 100 --json FILE
    python bench/compare_parts.py --ranks 1 2 --json bench/results/parts-h200.json      # on the GPU if there is one
    python bench/compare_parts.py --overlap --megabits 0 100 --json FILE                # what sums beside rows hide

Every number of ranks is a group of real processes. On CPUs each has one thread and gloo carries the rows, through the
loopback or, with --megabits, a wire of that bandwidth. On GPUs NCCL does; if ranks share a GPU it is gloo, through the
memory of the host. Both exchanges train in turns in the same processes. A step's time is that of the slowest rank;
times are medians. Losses of both exchanges are compared, bit by bit; the first loss, before any update, is compared
with that of one rank, if --ranks has 1, and agrees within rounding.

On a machine that others use too, the time that the processor spent on a step says more than the step's own. Of each
exchange there are the bytes that all ranks send in a step and in an epoch (a step and an evaluation), how long the
slowest rank waited in a step for rows and for gradients to be summed, and how long the messages of one layer take
alone.

With --overlap every step is made in two ways that alternate: as it is, with sums over local neighbours while rows are
under way; and waiting, where a rank goes on when they have arrived. What the sums hide is the difference.
"""

import argparse
import functools
import itertools
import json
import operator
import os
import platform
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

import rtopk
from checkout import origin
from hidden_time import WAYS, header, hidden_time, shown
from limited_wire import LimitedWire
from rank_processes import HOST_SECONDS, run_ranks
from rtopk.gnn import load
from rtopk.gnn.parts import EXCHANGES, METHODS, PartTrainer, Ranks, joined, load_part, write_parts
from rtopk.gnn.recipe import Recipe
from whole_file import write_json

# How far, relative to it, a loss may be from one whose sums have another order.
ROUNDING = 1e-5
# What a record says of the steps as they are, by what a rank measures.
TIMES = {"step_ms": "step", "cpu_ms": "cpu", "waiting_for_rows_ms": "rows", "summing_gradients_ms": "gradients"}


@dataclass(frozen=True)
class TimedRanks(Ranks):
    """Ranks that note how long they wait."""

    waited: dict = None

    def start_exchange(self, *arguments):
        finish = self._timed("rows", super().start_exchange, *arguments)
        return lambda: self._timed("rows", finish)

    def add_up(self, tensor):
        return self._timed("gradients", super().add_up, tensor)

    def _timed(self, name, function, *arguments):
        start = time.perf_counter()
        result = function(*arguments)
        self.waited[name] += time.perf_counter() - start
        return result


@dataclass(frozen=True)
class WaitingRanks(TimedRanks):
    """Ranks that do nothing while rows are under way."""

    def start_exchange(self, *arguments):
        rows = super().start_exchange(*arguments)()
        self._timed("rows", wait_for_device, self.device)
        return lambda: rows


# ---- In a rank ----


def wait_for_device(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed_alone(trainer, ranks, dense, repeats):
    """Seconds for the rows of one layer there and their gradients back, and nothing else."""
    exchange, recipe = trainer.exchange, trainer.recipe
    elements = recipe.hidden if dense else recipe.k
    there = torch.zeros(sum(exchange.send_counts), elements * 4 + (0 if dense else recipe.k), dtype=torch.uint8)
    back = torch.zeros(sum(exchange.receive_counts), elements * 4, dtype=torch.uint8)
    there, back = there.to(ranks.device), back.to(ranks.device)
    spans = []
    for _ in range(repeats):
        ranks.gather(None)
        start = time.perf_counter()
        ranks.start_exchange(there, exchange.send_counts, exchange.receive_counts)()
        ranks.start_exchange(back, exchange.receive_counts, exchange.send_counts)()
        wait_for_device(ranks.device)
        spans.append(time.perf_counter() - start)
    return spans


def through(ranks):
    """What carries rows between ranks; None: there is one, which sends nothing."""
    if ranks.world == 1:
        return None
    if ranks.staged:
        return "gloo through the host"
    return "NCCL" if ranks.device.type == "cuda" else "gloo"


def measure_rank(arguments):
    if arguments.device == "cpu":
        torch.set_num_threads(1)
    with joined(arguments.device, HOST_SECONDS) as plain:
        waited = {"rows": 0.0, "gradients": 0.0}
        seen = (plain.rank, plain.world, plain.device, plain.staged)
        ranks, waiting = (kind(*seen, waited=waited) for kind in (TimedRanks, WaitingRanks))
        recipe = Recipe(model=arguments.model, hidden=arguments.hidden, k=arguments.k, layers=arguments.layers)
        trainers = {}
        for name in EXCHANGES[: 1 if ranks.world == 1 else None]:
            part, facts = load_part(str(arguments.folder), None, None, ranks, dense=name == "dense")
            trainers[name] = PartTrainer(part, facts, replace(recipe, dropout=0.0), ranks)
        ways = {WAYS[0]: ranks}
        if arguments.overlap and ranks.world > 1:
            ways[WAYS[1]] = waiting
        found = {name: {way: {what: [] for what in TIMES.values()} for way in ways} for name in trainers}
        for turn in range(arguments.repeats + 1):
            for way, name in itertools.product(ways, trainers):
                trainer, of_way = trainers[name], found[name][way]
                trainer.exchange.ranks = ways[way]
                ranks.gather(None)  # all begin together
                wait_for_device(ranks.device)
                waited.update(rows=0.0, gradients=0.0)
                sent, start, used = trainer.exchange.bytes_sent, time.perf_counter(), time.process_time()
                loss = float(trainer.step())
                wait_for_device(ranks.device)
                if turn > 0:  # the first makes transposes and warms up
                    of_way["step"].append(time.perf_counter() - start)
                    of_way["cpu"].append(time.process_time() - used)
                    for what, seconds in waited.items():
                        of_way[what].append(seconds)
                found[name].setdefault("first_loss", loss.hex())
                found[name] |= {"loss": loss.hex(), "bytes": trainer.exchange.bytes_sent - sent}
        for name, trainer in trainers.items():
            sent = trainer.exchange.bytes_sent
            trainer.evaluate(torch.zeros((), device=ranks.device))
            found[name]["evaluation_bytes"] = trainer.exchange.bytes_sent - sent
            found[name]["alone"] = timed_alone(trainer, ranks, name == "dense", arguments.repeats)
            found[name]["parameters"] = sum(parameter.numel() for parameter in trainer.network.parameters())
        every = ranks.gather(found)
        if ranks.rank == 0:
            found = {"ranks": every, "through": through(ranks), "device": ranks.device.type}
            arguments.result.write_text(json.dumps(found))


# ---- The groups ----


def slowest(ranks, *what):
    """The slowest rank's milliseconds in every repetition. What: names in what a rank has found."""
    turns = zip(*(functools.reduce(operator.getitem, what, rank) for rank in ranks), strict=True)
    return [1e3 * max(turn) for turn in turns]


def run_group(world, folder, megabits, arguments):
    """What every rank of a group of processes has measured."""
    result = folder / "measured.json"
    line = [sys.executable, __file__, "--folder", folder, "--result", result, "--device", arguments.device]
    for name in ("model", "hidden", "k", "layers", "repeats"):
        line += [f"--{name}", getattr(arguments, name)]
    line += ["--overlap"] if arguments.overlap else []
    with LimitedWire(world, megabits) if megabits else nullcontext() as wire:
        run_ranks(line, world, wire)
    measured = json.loads(result.read_text())
    if megabits and measured["through"] == "NCCL":
        sys.exit("--megabits limits the wire of gloo, and NCCL has carried the rows; accepted: --megabits 0")
    return measured


def wire_of(row):
    """What carried the rows of a measurement, as tables name it."""
    if row["through"] in (None, "NCCL"):
        return row["through"] or "-"
    wire = f"{row['megabits']} Mb/s" if row["megabits"] else "loopback"
    return f"{row['through']}, {wire}"


def records(facts, world, megabits, measured, of_one):
    """What is written of a group of processes.

    Args:
        of_one: the first loss of one rank; None: it was not measured.
    """
    ranks = measured["ranks"]
    losses = {name: [rank[name]["first_loss"] for rank in ranks] for name in ranks[0]}
    every = [float.fromhex(loss) for of_ranks in losses.values() for loss in of_ranks]
    # On a GPU, dense rows have another kernel, which adds up in another order.
    allowed = ROUNDING if measured["device"] == "cuda" else 0.0
    if max(every) - min(every) > allowed * abs(every[0]):
        sys.exit(f"{facts.name}, {world} ranks: losses differ: {losses}")
    if of_one is not None and max(abs(loss - of_one) for loss in every) > ROUNDING * abs(of_one):
        sys.exit(f"{facts.name}, {world} ranks: losses differ from {of_one}, that of one rank: {losses}")
    for name in ranks[0]:
        step, evaluation = (sum(rank[name][what] for rank in ranks) for what in ("bytes", "evaluation_bytes"))
        yield {
            "graph": facts.name,
            "nodes": facts.nodes,
            "edges": facts.edges,
            "ranks": world,
            "through": measured["through"],
            "megabits": megabits or None,
            "method": facts.method,
            "exchange": name,
            "boundary_rows": facts.boundary,
            "largest_part": max(
                ({k: file[k] for k in ("nodes", "edges", "boundary")} for file in facts.files),
                key=lambda part: part["edges"],
            ),
            "step_bytes": step,
            "epoch_bytes": step + evaluation,
            "slowest_rank_step_bytes": max(rank[name]["bytes"] for rank in ranks),
            "gradient_bytes": 4 * ranks[0][name]["parameters"],
            **{key: statistics.median(slowest(ranks, name, WAYS[0], what)) for key, what in TIMES.items()},
            "layer_alone_ms": statistics.median(slowest(ranks, name, "alone")),
            "first_loss": float.fromhex(ranks[0][name]["first_loss"]),
            "first_loss_of_one_rank": of_one,
            "loss": float.fromhex(ranks[0][name]["loss"]),
            **overlap(ranks, name),
        }


def overlap(ranks, name):
    """What the sums beside an exchange hide, if it was measured."""
    if WAYS[1] not in ranks[0][name]:
        return {}
    steps = (slowest(ranks, name, way, "step") for way in WAYS)
    return {"overlap": hidden_time(*steps, slowest(ranks, name, WAYS[1], "rows"))}


def loaded(name, data):
    """A graph by its name or path; NAME:SCALE for a generated one."""
    name, _, scale = name.partition(":")
    return load(name, data, scale=float(scale or 1))


def print_header():
    print(
        f"\n{'graph':<22} {'ranks':>5} {'wire':<31} {'exchange':>8} {'MB a step':>9} {'MB an epoch':>11} {'step ms':>9}"
        f" {'CPU ms':>8} {'waits ms':>9} {'layer alone ms':>14} {'first loss':>10} {'of one rank':>11}"
    )


def print_row(row):
    sizes = f"{row['step_bytes'] / 1e6:>9.2f} {row['epoch_bytes'] / 1e6:>11.2f}"
    times = f"{row['step_ms']:>9.1f} {row['cpu_ms']:>8.1f} {row['waiting_for_rows_ms']:>9.1f}"
    times += f" {row['layer_alone_ms']:>14.2f}"
    of_one = row["first_loss_of_one_rank"]
    losses = f"{row['first_loss']:>10.6f} {'-' if of_one is None else f'{of_one:.6f}':>11}"
    wire = f"{row['ranks']:>5} {wire_of(row):<31} {row['exchange']:>8}"
    print(f"{row['graph']:<22} {wire} {sizes} {times} {losses}", flush=True)


def print_overlap(rows):
    print(f"\n{'graph':<22} {'ranks':>5} {'wire':<31} {'exchange':>8}{header()}")
    for row in rows:
        if "overlap" in row:
            print(
                f"{row['graph']:<22} {row['ranks']:>5} {wire_of(row):<31} {row['exchange']:>8}{shown(row['overlap'])}"
            )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usable = bool(rtopk.info()["gpus"])
    small = "flickr-like" if usable else "flickr-like:0.1"
    parser.add_argument("--graph", nargs="+", default=[small], help=f"names or paths; NAME:SCALE; default {small}")
    parser.add_argument("--data", type=Path, help="folder with the graphs that --graph names")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2] if usable else [1, 2, 4], help="how many")
    parser.add_argument("--method", choices=METHODS, help="how graphs are cut; default: metis if it is installed")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if usable else "cpu")
    parser.add_argument("--model", default="sage", help="sage, gcn or gin")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--k", type=int, default=32)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--megabits",
        type=int,
        nargs="+",
        default=[0],
        help="limits of what a rank may send in a second with gloo, 0 for none; others need root (limited_wire.py)",
    )
    parser.add_argument("--overlap", action="store_true", help="measure what sums beside rows hide: twice the steps")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # of a rank: where the parts are
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)  # of a rank: what rank 0 writes
    arguments = parser.parse_args()
    if arguments.overlap and arguments.repeats < 2:
        parser.error(f"--overlap with --repeats {arguments.repeats}; accepted: 2 or more")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.folder is not None:
        return measure_rank(arguments)
    gpu = arguments.device == "cuda"
    environment = {
        **origin(),
        "device": torch.cuda.get_device_name() if gpu else f"{platform.machine()}, {os.cpu_count()} cores",
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "torch": torch.__version__,
        "rtopk": rtopk.info(),
        "model": arguments.model,
        "hidden": arguments.hidden,
        "k": arguments.k,
        "layers": arguments.layers,
        "repeats": arguments.repeats,
    }
    found = []
    for name in arguments.graph:
        dataset = loaded(name, arguments.data)
        print(dataset, flush=True)
        of_one = None
        for world in sorted(arguments.ranks):
            with tempfile.TemporaryDirectory() as folder:
                facts = write_parts(dataset, Path(folder), world, arguments.method)
                for megabits in arguments.megabits[: 1 if world == 1 else None]:
                    measured = run_group(world, Path(folder), megabits, arguments)
                    rows = list(records(facts, world, megabits, measured, of_one))
                    found += rows
                    if world == 1:
                        of_one = rows[0]["first_loss"]
                    times = ", ".join(f"{row['exchange']} {row['step_ms']:.1f} ms" for row in rows)
                    print(f"{world} ranks, wire {wire_of(rows[0])}: {times}", flush=True)
    print_header()
    for row in found:
        print_row(row)
    if arguments.overlap:
        print_overlap(found)
    if arguments.json:
        write_json(arguments.json, {"environment": environment, "steps": found})


if __name__ == "__main__":
    main()
