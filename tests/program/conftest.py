"""Runs the built program as a user would. RTOPK_PROGRAM names it; the default is build/bin/rtopk."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("RTOPK_PROGRAM", REPOSITORY / "build" / "bin" / "rtopk"))
# Scales the number of random draws and of cases.
SCALE = float(os.environ.get("RTOPK_TEST_SCALE", "1"))

sys.path.insert(0, str(REPOSITORY / "tests" / "faults"))
import faults  # noqa: E402


def pytest_configure(config):
    if not PROGRAM.is_file():
        raise pytest.UsageError(f"no program at {PROGRAM}: build it first, or name it with RTOPK_PROGRAM")


def pytest_terminal_summary(terminalreporter):
    """Prints the counts that tests have recorded."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties if report.when == "call" else ():
            terminalreporter.write_line(f"{report.nodeid.split('::')[-1]}: {name} {value}")


@pytest.fixture(scope="session")
def gpus():
    """The GPUs that the program sees here."""
    done = subprocess.run([PROGRAM, "info", "--json"], capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)["gpus"]


@pytest.fixture
def needs_gpu(gpus):
    if not gpus:
        pytest.skip("there is no GPU here, or the program was built without CUDA")


@pytest.fixture
def rtopk():
    """Runs the program and returns the result. Checks the exit code unless code=None."""

    def call(*arguments, code=0, **options):
        command = [str(PROGRAM), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
        assert code is None or done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return call


@pytest.fixture
def refused(rtopk, tmp_path):
    """Runs the program with input that it must refuse: exit code 2, one line on stderr, no other output, no file."""

    def call(*arguments, says="", **options):
        before = sorted(tmp_path.iterdir())
        done = rtopk(*arguments, code=2, **options)
        assert done.stderr.startswith("rtopk: ")
        assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), done.stderr
        assert done.stdout == ""
        assert says in done.stderr, done.stderr
        assert sorted(tmp_path.iterdir()) == before
        return done.stderr

    return call


needs_shim = pytest.mark.skipif(faults.library() is None, reason="there is no C compiler for the fault shim")


def require_tmpfile(folder):
    """Skips the test if the file system has no files without a name."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError as error:
        pytest.skip(f"this file system has no files without a name: {error.strerror}")


@contextlib.contextmanager
def stopped(arguments, kind, n, under, tmpfile=True, **options):
    """The program, stopped at its n-th call of a kind for files below a folder. It continues when the block ends."""
    environment = faults.environment(kind, n, signal=signal.SIGSTOP, under=under, tmpfile=tmpfile)
    process = subprocess.Popen(
        [str(PROGRAM), *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
        yield process
    finally:
        process.send_signal(signal.SIGCONT)


def bf16_to_float(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def best_first(matrix, smallest=False):
    """Columns of every row, best first, ties by ascending index: NaN is the greatest, -0 equals +0."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        x = matrix.astype(np.float64)
    nan = np.isnan(x)
    x = np.where(nan, 0.0, x) + 0.0
    if not smallest:
        return np.lexsort((-x, ~nan), axis=-1)
    return np.lexsort((x, nan), axis=-1)


def top_indices(matrix, k, order="by_index", smallest=False):
    chosen = best_first(matrix, smallest)[..., :k]
    return chosen if order == "by_value" else np.sort(chosen, axis=-1)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
