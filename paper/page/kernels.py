#!/usr/bin/env python3
"""Measures the RTop-K paper's kernel experiments: rtopk, exact and stopped early, against torch.topk.

On a GPU it uses the paper's sizes and the timing and checks of compare_gpu.py: cold caches, CUDA events, medians, all
settings alternating. On a CPU it uses fewer rows and compare_torch.py. Every result is checked in the same run. For
selections that stop early, the share of the exact selection that they hold is recorded too.

On a GPU, other libraries' kernels are timed in the same run where they are installed: the authors' own in every
experiment, with and without early stopping, and the others of bench/peers in a part. Those that are missing are named.

    python paper/page/kernels.py --json build/paper/kernels.json
    python paper/page/kernels.py --device cpu --quick --json build/paper/kernels.json
"""

import argparse
import faulthandler
import json
import platform
import shlex
import sys
import time
from pathlib import Path

import bench_folder  # noqa: F401
import librtopk
import peers
from checkout import commit
from gpu_report import Outcome, print_peers
from grids import DISTRIBUTIONS, EXACT, RULE, SCALES, experiments

REPEATS = {"gpu": 7, "cpu": 5}
QUICK_REPEATS = {"gpu": 5, "cpu": 3}
TORCH_REPEATS = 3
# An experiment takes a second or two; after this long it counts as hanging.
EXPERIMENT_LIMIT_SECONDS = {"gpu": 20, "cpu": 300}
# With peers: some of them compile for every shape.
PEER_EXPERIMENT_LIMIT_SECONDS = 120
# Rows for hit rates: enough for a precision of a tenth of a percent.
HIT_ROWS = 1 << 15


class OnGpu:
    def __init__(self, library, repeats, seed):
        import compare_gpu

        self._compare = compare_gpu
        self._gpu = compare_gpu.Gpu(library, repeats, min(TORCH_REPEATS, repeats), True, seed, DISTRIBUTIONS)

    def facts(self):
        return self._gpu.facts()

    def find(self, asked, dtypes):
        """Looks for the peers that are asked for, and prepares them for these element types."""
        found = peers.Found.among(asked, self._gpu.torch, dtypes)
        self._gpu.peers = tuple(found.peers)
        return found

    def measure(self, experiment, number):
        """(median microseconds, hit rates in percent, plans) by setting; the times include torch, the floor and peers.
        Then what else is known of the peers."""
        gpu = self._gpu
        matrix = gpu.matrix(experiment.cell, number)
        works = {setting: self._compare.Work(gpu, cell, matrix) for setting, cell in experiment.cells().items()}
        chosen = tuple(peer for peer in gpu.peers if peer.stops_early or experiment.among_peers)
        beside = peers.Beside(chosen, experiment.max_iters)
        times = gpu.checked_times(works, beside)
        indices = {setting: work.outputs["indices"] for setting, work in works.items()}
        hits = hit_percent(gpu.torch, indices, experiment.cell.cols, early_settings(experiment))
        plans = {setting: work.family.split()[0] for setting, work in works.items()}
        return times, hits, plans, self.of_peers(beside, indices, experiment.cell.cols) if chosen else {}

    def of_peers(self, beside, indices, cols):
        hits = hit_percent(self._gpu.torch, {EXACT: indices[EXACT]} | beside.indices, cols, beside.indices)
        return {
            "peer_wrong_rows": beside.wrong_rows,
            "peer_errors": beside.errors,
            "peer_hit_percent": {name: round(value, 3) for name, value in hits.items()},
        }


class OnCpu:
    def __init__(self, library, repeats, seed):
        import torch

        import compare_torch

        self._compare, self._torch = compare_torch, torch
        self._library = librtopk.Library(library)
        self._repeats, self._seed = repeats, seed
        self._threads = compare_torch.available_cpus()
        torch.set_num_threads(self._threads)

    def find(self, asked, dtypes):
        return peers.not_looked_for(asked, "needs a GPU")

    def facts(self):
        return {
            "cpu": self._compare.cpu_model(),
            "threads": self._threads,
            "torch": self._torch.__version__,
            "rtopk": self._library.version,
        }

    def matrix(self, cell, number):
        torch = self._torch
        generator = torch.Generator().manual_seed(self._seed + number)
        normal = torch.randn(cell.rows, cell.cols, generator=generator)
        return DISTRIBUTIONS[cell.data](torch, normal, generator).to(self._compare.TORCH_DTYPES[cell.dtype])

    def measure(self, experiment, number):
        cell = experiment.cell
        matrix = self.matrix(cell, number)
        functions, indices, plans = {}, {}, {}
        for setting, variant in experiment.cells().items():
            functions[setting], indices[setting], plans[setting] = self.checked(matrix, setting, variant)
        exact = functions.pop(EXACT)  # compare_torch times the exact selection itself, beside torch and a copy
        exact(matrix)
        hits = hit_percent(self._torch, indices, cell.cols, early_settings(experiment))
        measured, times = self._compare.measure(
            self._library, [matrix], cell.k, cell.dtype, self._threads, self._repeats, functions
        )
        times |= {EXACT: measured.rtopk, "torch": measured.torch, "copy": measured.copy}
        return {name: seconds * 1e6 for name, seconds in times.items()}, hits, plans, {}

    def checked(self, matrix, setting, cell):
        """Checks a selection. Returns it as a function of the matrix, its indices, and its plan's family."""
        torch = self._torch
        selection = self._library.topk_cpu(
            cell.rows, cell.cols, cell.k, cell.dtype,
            index_type="i64", max_iter=cell.max_iter, rule=cell.rule, epsilon=cell.epsilon, search=cell.search,
        )  # fmt: skip
        values = torch.empty(cell.rows, cell.k, dtype=matrix.dtype)
        indices = torch.empty(cell.rows, cell.k, dtype=torch.int64)

        def run(matrix):
            selection.run(matrix.data_ptr(), values.data_ptr(), indices.data_ptr())

        run(matrix)
        if cell.max_iter:
            expected = stopped_early(torch, matrix.float(), cell.k, cell.max_iter)
            if not torch.equal(indices.sort(dim=1).values, expected):
                raise self._compare.WrongResult(f"{setting} differs from the selection of the paper's kernel")
        exact = cell.max_iter == 0 and cell.epsilon == 0
        best = torch.topk(matrix, cell.k, dim=1, sorted=False).values if exact else values
        self._compare.check(matrix, values, indices, best)
        family = dict(line.split("=", 1) for line in selection.text.splitlines() if "=" in line).get("family")
        return run, indices, family


def stopped_early(torch, matrix, k, max_iter):
    """The ascending indices that the paper's kernel selects from f32 rows: the first k at or above the last threshold
    or, if they are fewer, all of them and the first others at or above the lower bound."""
    low, high = matrix.amin(dim=1, keepdim=True), matrix.amax(dim=1, keepdim=True)
    for _ in range(max_iter):
        middle = 0.5 * low + 0.5 * high
        enough = (matrix >= middle).sum(dim=1, keepdim=True) >= k
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    sure = (matrix >= middle) & ~enough
    rest = (matrix >= low) & ~sure
    rest &= rest.cumsum(dim=1) <= k - sure.sum(dim=1, keepdim=True)
    return (sure | rest).nonzero()[:, 1].view(-1, k)


def early_settings(experiment):
    return [setting for setting, cell in experiment.cells().items() if cell.stops_early]


def hit_percent(torch, indices, cols, settings):
    """The share of the exact selection's indices that each of these early-stopped selections has too, in percent."""
    exact = indices[EXACT][:HIT_ROWS].long()
    mask = torch.zeros(len(exact), cols, dtype=torch.bool, device=exact.device).scatter_(1, exact, True)
    return {
        setting: 100 * float(mask.gather(1, indices[setting][:HIT_ROWS].long()).float().mean()) for setting in settings
    }


class MadeUp:
    """For --dry-run: the same experiments without measuring anything."""

    def __init__(self, device):
        self._device = device

    def find(self, asked, dtypes):
        return peers.not_looked_for(asked, "needs a GPU")

    def facts(self):
        unknown = dict.fromkeys(("torch", "torch_cuda", "driver", "threads", "rtopk"))
        return {self._device: "no machine: the times are made up"} | unknown

    def measure(self, experiment, number):
        base = experiment.cell.floor_bytes / 4.3e6 + 2
        times = {"torch": base * 20, "floor" if self._device == "gpu" else "copy": base}
        times |= {setting: base * (1.2 + 0.1 * i + number % 5 / 50) for i, setting in enumerate(experiment.settings)}
        hits = {s: min(30 + 10.0 * cell.max_iter, 99) for s, cell in experiment.cells().items() if cell.stops_early}
        return times, hits, dict.fromkeys(experiment.settings, "made_up"), {}


def record(experiment, number, device):
    cell = experiment.cell
    known = {name: getattr(cell, name) for name in ("set", "rows", "cols", "k", "dtype", "data")}
    try:
        times, hits, plans, of_peers = device.measure(experiment, number)
    except Exception as error:  # the other experiments go on
        return known | {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
    return (
        known
        | {
            "microseconds": {name: round(value, 3) for name, value in times.items()},
            "hit_percent": {name: round(value, 3) for name, value in hits.items()},
            "plans": plans,
            "error": None,
        }
        | of_peers
    )


def write(path, facts, of_peers, cells):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n  ".join(json.dumps(cell) for cell in cells)
    head = json.dumps({"environment": facts, "peers": of_peers}, indent=1).removesuffix("}").rstrip()
    part = path.with_name(path.name + ".part")
    part.write_text(f'{head},\n "cells": [\n  {lines}\n ]\n}}\n')
    part.replace(path)


def line_of(cell):
    name = f"{cell['rows']} x {cell['cols']}, k={cell['k']} {cell['dtype']} {cell['data']}"
    if cell["error"]:
        return f"{name:<44} FAILED {cell['error']}"
    times = cell["microseconds"]
    early = [f"{name[9:]}: {times['torch'] / t:.1f}" for name, t in times.items() if name.startswith("max_iter=")]
    return (f"{name:<44} torch {times['torch']:9.0f} us; times as fast: exact {times['torch'] / times[EXACT]:.1f}"
            f"{'; max_iter ' if early else ''}{', '.join(early)}")  # fmt: skip


def outcomes_of(wanted, cells):
    """The exact selections as compare_gpu.py has them, for the table of peers."""
    return [
        Outcome(
            experiment.cell,
            cell["microseconds"] | {"rtopk": cell["microseconds"][EXACT]},
            peer_wrong_rows=cell.get("peer_wrong_rows", {}),
            peer_errors=cell.get("peer_errors", {}),
        )
        for experiment, cell in zip(wanted, cells, strict=True)
        if not cell["error"]
    ]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="write the results to this file")
    parser.add_argument("--device", choices=["gpu", "cpu"], default="gpu", help="default %(default)s")
    parser.add_argument("--quick", action="store_true", help="fewer shapes and repetitions")
    parser.add_argument("--seed", type=int, default=0, help="default %(default)s")
    parser.add_argument("--library", type=Path, default=librtopk.DEFAULT_PATH)
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=["all", "none", *peers.NAMES],
        default=["all"],
        help="of these libraries, time those that are installed; default all",
    )
    parser.add_argument("--dry-run", action="store_true", help="real shapes, made-up times")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    faulthandler.enable()
    scale = SCALES[arguments.device, arguments.quick]
    repeats = (QUICK_REPEATS if arguments.quick else REPEATS)[arguments.device]
    if arguments.dry_run:
        device = MadeUp(arguments.device)
    else:
        device = {"gpu": OnGpu, "cpu": OnCpu}[arguments.device](arguments.library, repeats, arguments.seed)
    facts = {
        "command": shlex.join(["python", *sys.argv]),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "device": arguments.device,
        "quick": arguments.quick,
        "seed": arguments.seed,
        "rule": RULE,
        "repeats": repeats,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    } | device.facts()
    wanted = experiments(scale)
    start = time.monotonic()
    dtypes = {experiment.cell.dtype for experiment in wanted if experiment.among_peers}
    found = device.find(peers.named(arguments.peers), sorted(dtypes))
    limit = PEER_EXPERIMENT_LIMIT_SECONDS if found.measured else EXPERIMENT_LIMIT_SECONDS[arguments.device]
    cells = []
    for number, experiment in enumerate(wanted):
        faulthandler.dump_traceback_later(limit, exit=True)
        cells.append(record(experiment, number, device))
        elapsed = time.monotonic() - start
        write(arguments.json, facts | {"seconds": round(elapsed, 1)}, found.record(), cells)
        print(f"{number + 1:3} of {len(wanted)}, {elapsed:3.0f} s: {line_of(cells[-1])}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    print_peers(outcomes_of(wanted, cells), found.record())
    failed = sum(bool(cell["error"]) for cell in cells)
    print(f"{len(cells) - failed} experiments measured and checked, {failed} failed; written: {arguments.json}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
