"""The ranks of a benchmark as processes of this machine, as torchrun would start them."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import rtopk
from limited_wire import LimitedWire

HOST_SECONDS = 900  # for one group of processes, on a busy machine


def run_ranks(line, world, megabits=0):
    """Runs a command in every rank. One that fails ends the benchmark.

    Args:
        line: the command.
        world: how many ranks.
        megabits: what a rank may send in a second; 0: no limit.
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(rtopk.__file__).parents[1])}
    environment |= {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_PORT": free_port()}
    with LimitedWire(world, megabits) if megabits else contextlib.nullcontext() as wire:
        network = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"} if wire is None else wire.environment
        ranks = []
        try:
            for rank in range(world):
                own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                prefix = [] if wire is None else wire.prefix(rank)
                ranks.append(subprocess.Popen([*prefix, *map(str, line)], env=environment | network | own))
            for process in ranks:
                if process.wait(HOST_SECONDS):
                    sys.exit(f"a rank of {world} has failed")
        finally:
            for process in ranks:
                process.kill()
                process.wait()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])
