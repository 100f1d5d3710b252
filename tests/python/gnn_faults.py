"""Trainings in which something fails, or that are killed.

    gnn_faults.py faults [--every N]         each open, write, fsync, rename and link fails, once and from there on;
                                             with --every each N-th of these
    gnn_faults.py kills --count N --seed S   SIGKILL at random moments; every run then goes on to its end

A run must end well or with one line of error. What is in its folder is whole and fits together, and a run that goes on
from there ends with the same bits as one without a break. Prints counts. Runs are forked from a process that has
imported torch; for faults it is started with the shim of tests/faults.
"""

import argparse
import collections
import contextlib
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

if "RTOPK_TEST_SITE" in os.environ:
    sys.path.insert(0, os.environ["RTOPK_TEST_SITE"])
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "faults"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "paper" / "gnn"))

import numpy as np
import torch

import faults
import forks
import study
from results import read_results
from rtopk.gnn import cli
from rtopk.gnn._atomic import LOCK
from rtopk.gnn.training import Trainer, loop

NODES = 64
CANNOT_FORK = 77  # the exit code
EPOCHS = 4
PART = re.compile(r"\.rtopk-[0-9a-f]{32}\.part")
FILE_KINDS = ("open", "write", "fsync", "rename", "link")
LARGE = 1 << 15  # bytes of an allocation that may fail


class Wrong(Exception):
    """What a run left behind, or said, that it must not."""


def require(condition, what):
    if not condition:
        raise Wrong(what)


def make_graph(path):
    numbers = np.random.default_rng(7)
    indptr = np.concatenate([[0], numbers.integers(0, 5, NODES).cumsum()])
    indices = numbers.integers(0, NODES, indptr[-1])
    np.savez(path, indptr=indptr, indices=indices, y=np.arange(NODES) % 3, x=numbers.random((NODES, 8), np.float32))


def command(task, graph, out, *more):
    recipe = ["--graph", str(graph), "--model", "sage", "--hidden", "8", "--k", "2", "--layers", "1", "--out", str(out)]
    if task == "study":
        return ["study", *recipe, "--max-iter", "--seeds", "1", "--repetitions", "1", "--epochs", "1", *more]
    return ["train", *recipe, "--epochs", str(EPOCHS), "--resume", *more]


def main_of(arguments, *, threads=1):
    """What a child does."""

    def function():
        torch.set_num_threads(threads)
        loop._SAVE_SECONDS = 0.0  # after every epoch
        return study.main(arguments[1:]) if arguments[0] == "study" else cli.main(arguments)

    return function


def warm_up(folder):
    """What torch imports and compiles when it is first asked is there before anything is forked, or fails."""
    make_graph(folder / "g.npz")
    with contextlib.redirect_stdout(io.StringIO()):
        for task in ("train", "study"):
            main_of(command(task, folder / "g.npz", folder / task))()
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:  # builds of torch for a GPU may have some
        print(f"torch has {threads} threads here, and a fork would lose them")
        sys.exit(CANNOT_FORK)


# ---- What is in a folder ----


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checkpoint_of(out):
    return torch.load(out / "checkpoint.pt", weights_only=True, map_location="cpu")


def check_training(out, *, killed=False):
    """Whole files that fit together. How far the run came."""
    names = {path.name for path in out.iterdir()} if out.exists() else set()
    others = names - {"checkpoint.pt", "best.pt", "result.json"}
    if killed:
        others = {name for name in others if name != LOCK and not PART.fullmatch(name)}
    require(not others, f"left behind: {others}")
    epoch = -1
    if "checkpoint.pt" in names:
        epoch = checkpoint_of(out)["epoch"]
    if "best.pt" in names:
        torch.load(out / "best.pt", weights_only=True)
    if "result.json" in names:
        result = json.loads((out / "result.json").read_text())
        named = result["files"].get("checkpoint.pt")
        if named is not None:
            newer = epoch > named["epoch"]
            require(newer or digest(out / "checkpoint.pt") == named["sha256"], "the result names another checkpoint")
        require(not result["finished"] or epoch == result["epochs_done"] == EPOCHS, "finished, and it is not")
    return epoch


def state_of(out):
    """What must be the same bits however a run came to its end."""
    result, saved = json.loads((out / "result.json").read_text()), checkpoint_of(out)
    require(result["finished"] and saved["epoch"] == EPOCHS, "it has not ended")
    for name in ("checkpoint.pt", "best.pt"):
        require(digest(out / name) == result["files"][name]["sha256"], f"the result names another {name}")
    return {"result": {name: result[name] for name in ("history", "best", "epochs_done")}, "saved": saved}


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def check_end(ended, accepted=(0, 1)):
    require(ended.status in accepted, f"exit code {ended.status}")
    require("Traceback" not in ended.output, "a traceback")
    if ended.status == 1:
        errors = [line for line in ended.output.splitlines() if line.startswith(("error: ", "libgomp: "))]
        require(len(errors) == 1 and ended.output.endswith(f"{errors[0]}\n"), "not one line of error")


# ---- Faults ----


class Scenario:
    """A command, the folder as it is before, and what is expected afterwards."""

    def __init__(self, folder, task, prepared):
        self.folder, self.task = folder, task
        self.graph, self.out, self.prepared = folder / "g.npz", folder / "out", prepared
        self.shim = faults.Shim()

    def restore(self):
        shutil.rmtree(self.out, ignore_errors=True)
        if self.prepared is not None:
            shutil.copytree(self.prepared, self.out)

    def run(self, kind=None, n=0, *, lasting=False, min_bytes=0, threads=1):
        function = main_of(command(self.task, self.graph, self.out), threads=threads)

        def with_fault():
            self.shim.arm(kind, n, lasting=lasting, under=self.out, min_bytes=min_bytes)
            try:
                return function()
            finally:
                counts = self.shim.counts()
                self.shim.disarm()
                (self.folder / "counts").write_text(json.dumps(counts))

        self.restore()
        (self.folder / "counts").unlink(missing_ok=True)
        return forks.run(with_fault, self.folder)

    def check(self, ended, expected):
        check_end(ended)
        if "libgomp: " in ended.output:
            (self.out / LOCK).unlink(missing_ok=True)  # it ends the process there and then; nobody holds the lock
        if self.task == "study":
            names = {path.name for path in self.out.iterdir()} if self.out.exists() else set()
            require(names <= {"results.json", "summary.json", "index.html"}, f"left behind: {names}")
            if "results.json" in names:
                read_results(self.out / "results.json")
        else:
            check_training(self.out)
            require(ended.status != 0 or same(state_of(self.out), expected), "another result")
        again = forks.run(main_of(command(self.task, self.graph, self.out)), self.folder)
        check_end(again, (0,))
        if self.task == "study":
            require(len(read_results(self.out / "results.json")["runs"]) == 2, "the study is not whole")
        else:
            require(same(state_of(self.out), expected), "another result after going on")


def spread(count, most):
    """Up to `most` numbers from 1 to count."""
    return sorted({1 + i * count // most for i in range(most)}) if count > most else range(1, count + 1)


def inject(scenario, expected, every, seed, counts):
    ended = scenario.run()
    check_end(ended, (0,))
    calls = json.loads((scenario.folder / "counts").read_text())
    plans = [
        (kind, n, lasting, {}) for kind in FILE_KINDS for n in range(1, calls[kind] + 1) for lasting in (False, True)
    ]
    for kind, options in (("malloc", {"min_bytes": LARGE}), ("thread", {"threads": 2})):
        scenario.run(**options)
        calls = json.loads((scenario.folder / "counts").read_text())
        plans += [(kind, n, False, options) for n in spread(calls[kind], 12)]
    for i, (kind, n, lasting, options) in enumerate(plans):
        if (i + seed) % every:
            continue
        ended = scenario.run(kind, n, lasting=lasting, **options)
        try:
            scenario.check(ended, expected)
        except Exception as error:
            print(ended.output)
            raise Wrong(f"{scenario.task}: {kind} {n}, lasting: {lasting}: {error!r}") from error
        counts[f"{kind} {'refused' if ended.status else 'survived'}"] += 1


def run_faults(arguments, folder):
    counts = collections.Counter()
    graph, whole, half = folder / "g.npz", folder / "whole", folder / "half"
    make_graph(graph)
    check_end(forks.run(main_of(command("train", graph, whole)), folder), (0,))
    expected = state_of(whole)
    stop_after_first(graph, half, folder)
    for task, prepared in (("train", None), ("train", half), ("study", None)):
        inject(Scenario(folder, task, prepared), expected, arguments.every, arguments.seed, counts)
    print(f"{counts.total()} faults: {json.dumps(dict(sorted(counts.items())))}")


def stop_after_first(graph, out, folder):
    """A folder as a run leaves it that was stopped after its first epoch."""

    def function():
        torch.set_num_threads(1)
        evaluate = Trainer.evaluate

        def stopped(self, loss):
            entry = evaluate(self, loss)
            os.kill(os.getpid(), signal.SIGTERM)
            return entry

        Trainer.evaluate = stopped
        return cli.main(command("train", graph, out))

    check_end(forks.run(function, folder), (130,))
    require(check_training(out) == 1, "it was not stopped after its first epoch")


# ---- Kills ----


def run_kills(arguments, folder):
    rng = random.Random(arguments.seed)
    graph, out = folder / "g.npz", folder / "out"
    make_graph(graph)
    run = main_of(command("train", graph, out))
    start = time.monotonic()
    check_end(forks.run(run, folder), (0,))
    seconds = time.monotonic() - start
    expected, counts, epochs = state_of(out), collections.Counter(), collections.Counter()
    shutil.rmtree(out)
    while counts["killed"] < arguments.count:
        ended = forks.run(run, folder, kill_after=rng.uniform(0, seconds))
        if ended.status == 0:
            require(same(state_of(out), expected), "another result after going on")
            counts["ended before"] += 1
            shutil.rmtree(out)
            continue
        require(ended.status == -9, f"exit code {ended.status}: {ended.output}")
        counts["killed"] += 1
        epochs[max(check_training(out, killed=True), 0)] += 1
        counts["part left"] += any(PART.fullmatch(path.name) for path in out.glob(".*"))
        # A run is killed again and again, and at last comes to its end.
        if rng.random() < 0.3:
            check_end(forks.run(run, folder), (0,))
            check_training(out)
            require(same(state_of(out), expected), "another result after going on")
            counts["gone on to the end"] += 1
            shutil.rmtree(out)
    by_epoch = json.dumps(dict(sorted(epochs.items())))
    print(f"{counts['killed']} kills: {json.dumps(dict(sorted(counts.items())))}; by epoch saved: {by_epoch}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["faults", "kills"])
    parser.add_argument("--every", type=int, default=1, help="of the faults, each N-th")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    # Flushing a disk would take most of the time.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        warm_up(Path(name))
        {"faults": run_faults, "kills": run_kills}[arguments.what](arguments, Path(name).resolve())


if __name__ == "__main__":
    main()
