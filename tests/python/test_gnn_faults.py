"""Readers fuzzed, trainings in which calls fail, trainings that are killed. Each in a process of its own: gnn_fuzz.py
and gnn_faults.py can also be run by hand, for longer. RTOPK_TEST_SCALE makes them do more or less."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="numpy is not installed")
pytest.importorskip("resource", reason="this system has no resource")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "faults"))

import faults  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="this system has no /proc"),
]
CANNOT_FORK = 77  # of gnn_faults.py
SCALE = float(os.environ.get("RTOPK_TEST_SCALE", "1"))
SEED = os.environ.get("RTOPK_TEST_SEED", "1")


def drive(*arguments, environment=None):
    line = [sys.executable, HERE / arguments[0], *map(str, arguments[1:])]
    # Children are forked: there may be no other threads, and a GPU's runtime has some.
    environment = dict(environment or os.environ) | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    print(done.stdout)
    if done.returncode == CANNOT_FORK:
        pytest.skip(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def test_readers_of_files_are_fuzzed():
    count = max(1, int(1200 * SCALE))
    assert f"{count} attempts: " in drive("gnn_fuzz.py", "--count", count, "--seed", SEED)


@pytest.mark.skipif(faults.library() is None, reason="there is no compiler for the shim")
def test_trainings_in_which_a_call_fails():
    every = max(1, round(11 / SCALE))
    options = ["--every", every, "--seed", SEED]
    assert " faults: " in drive("gnn_faults.py", "faults", *options, environment=faults.environment())


def test_trainings_that_are_killed():
    count = max(1, int(40 * SCALE))
    assert f"{count} kills: " in drive("gnn_faults.py", "kills", "--count", count, "--seed", SEED)
