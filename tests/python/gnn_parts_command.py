"""A rank that runs `python -m rtopk.gnn`: python gnn_parts_command.py CHANGE ARGUMENTS..., where CHANGE is for rank 1
alone: "die:N" to be killed in epoch N, "fail:N" to run out of memory there while rows travel, or "none"; "fail:N:S" if
the others take part S seconds later. It reports gloo's threads that are left when the command has ended."""

import os
import signal
import sys
import time
from pathlib import Path

import torch

from ranks import report
from rtopk.gnn import cli
from rtopk.gnn.parts import PartTrainer
from rtopk.gnn.parts.exchange import Exchange

THREADS = Path("/proc/self/task")  # of Linux


def main():
    change, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    name, *numbers = change.split(":")
    if name != "none":
        PartTrainer.eager_step = changed_step(name, *map(int, numbers))
    status = cli.main(arguments)
    report({"threads": threads_left()})
    return status


def changed_step(name, epoch, seconds=0.5):
    step = PartTrainer.eager_step

    def eager_step(trainer):
        if trainer.epoch + 1 == epoch:
            if os.environ["RANK"] != "1":
                time.sleep(seconds)  # rank 1 ends before the others send
            elif name == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            else:
                Exchange.start_rows = failing
        return step(trainer)

    return eager_step


def failing(exchange, values, selectors, cols, start=Exchange.start_rows):
    start(exchange, values, selectors, cols)
    raise torch.OutOfMemoryError("there is no memory.")


def threads_left():
    """The names of gloo's threads. The system may list one that has just ended."""
    deadline = time.monotonic() + 5
    while True:
        names = [name for name in map(name_of, THREADS.iterdir()) if "gloo" in name]
        if not names or time.monotonic() > deadline:
            return names
        time.sleep(0.01)


def name_of(thread):
    try:
        return (thread / "comm").read_text().strip()
    except OSError:
        return ""  # it has ended


if __name__ == "__main__":
    raise SystemExit(main())
