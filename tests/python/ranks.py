"""Scripts run by several real processes that form a group of torch.distributed, as torchrun would start them.

The test's side is run_ranks(). The script's side is run_cases(): starting a process with torch takes seconds, so one
group runs many cases, and the tests look at what each of them gave.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

_RESULTS = "RANK_RESULTS"  # the environment's name for the file that a rank reports to


@dataclass
class Ended:
    status: int  # exit code, or minus the signal that ended it
    output: str  # stdout and stderr
    results: dict  # what the rank reported before it ended


def run_ranks(script: Path, world: int, *arguments, timeout: float = 120) -> list[dict]:
    """Runs a script in `world` processes, and returns what each rank reported. A rank that fails is a failed test."""
    ended = end_of_ranks(script, world, *arguments, timeout=timeout)
    texts = [f"exit status {rank.status}\n{rank.output}" for rank in ended]
    assert all(rank.status == 0 for rank in ended), _outputs(texts)
    return [rank.results for rank in ended]


def end_of_ranks(script: Path, world: int, *arguments, timeout: float = 120) -> list[Ended]:
    """How each rank ended. After `timeout` seconds all are killed: then the test has failed, and shows their output."""
    import rtopk

    environment = os.environ | {"PYTHONPATH": str(Path(rtopk.__file__).parents[1]), "PYTHONUNBUFFERED": "1"}
    environment |= {"PYTHONFAULTHANDLER": "1"}  # shows where a rank crashed
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world)}
    environment |= {"LOCAL_WORLD_SIZE": str(world), "GLOO_SOCKET_IFNAME": "lo"}
    environment |= {"OMP_NUM_THREADS": "1"}  # more threads than cores wait for each other
    line = [sys.executable, str(script), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, f"output-{rank}") for rank in range(world)]
        results = [Path(folder, f"results-{rank}.json") for rank in range(world)]
        processes = []
        try:
            for rank in range(world):
                own = {"RANK": str(rank), "LOCAL_RANK": str(rank), _RESULTS: str(results[rank])}
                with outputs[rank].open("w") as file:
                    processes.append(
                        subprocess.Popen(line, env=environment | own, stdout=file, stderr=subprocess.STDOUT)
                    )
            deadline = time.monotonic() + timeout
            for process in processes:
                process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            texts = _outputs(output.read_text(errors="replace") for output in outputs)
            raise AssertionError(f"the ranks had not ended after {timeout} s:\n{texts}") from None
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return [
            Ended(
                process.returncode,
                output.read_text(errors="replace"),
                json.loads(result.read_text()) if result.exists() else {},
            )
            for process, output, result in zip(processes, outputs, results, strict=True)
        ]


def _outputs(texts):
    return "\n".join(f"---- rank {rank} ----\n{text[-6000:]}" for rank, text in enumerate(texts))


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


# ---- In a rank ----


def run_cases(cases: dict, backend="gloo", timeout: float = 30) -> None:
    """Joins the group, calls every case, reports, and leaves. A case's result is what it returns, which must be JSON;
    where it raised an error, {"error": the traceback}. A rank that waits for longer than `timeout` gets an error."""
    from torch import distributed

    distributed.init_process_group(backend, timeout=timedelta(seconds=timeout))
    results = {}
    for name, case in cases.items():
        try:
            results[name] = case()
        except Exception:
            results[name] = {"error": traceback.format_exc()}
        report(results)
    distributed.destroy_process_group()


def report(results: dict) -> None:
    """Writes what run_ranks() returns for this rank. May be called again: the last one counts. Without run_ranks() it
    does nothing."""
    path = os.environ.get(_RESULTS)
    if path is None:
        return
    with open(f"{path}.new", "w") as file:
        json.dump(results, file)
    os.replace(f"{path}.new", path)  # a rank may be killed at any time
