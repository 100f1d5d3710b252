"""The ranks of a benchmark as processes of this machine, as torchrun would start them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import rtopk

HOST_SECONDS = 900  # for one group of processes, on a busy machine


def run_ranks(line, world, wire=None, seconds=HOST_SECONDS, **environment):
    """Runs a command in every rank. One that fails ends the benchmark.

    Args:
        line: the command.
        world: how many ranks.
        wire: an opened LimitedWire that they are connected by; None: the loopback of this machine.
        seconds: how long they may take.
        environment: variables that they have beside those of this process.
    """
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(rtopk.__file__).parents[1])}
    environment |= {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_PORT": str(free_port())}
    if wire is None:
        environment |= {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
    else:
        # Namespaces have no names of hosts, and torch warns about that.
        environment |= {"TORCH_CPP_LOG_LEVEL": "ERROR"} | wire.environment
    ranks = []
    try:
        for rank in range(world):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            prefix = [] if wire is None else wire.prefix(rank)
            ranks.append(subprocess.Popen([*prefix, *map(str, line)], env=os.environ | environment | own))
        for process in ranks:
            if process.wait(seconds):
                sys.exit(f"a rank of {world} has failed")
    finally:
        for process in ranks:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
