"""Runs programs in which a chosen call fails: the n-th allocation, thread start, open, write, fsync, rename, link or
map.

    count(command, under=folder)              how many calls of each kind a whole run makes
    run(command, "write", 3, under=folder)    the same run, in which the third write fails
    environment("write", 3, signal=SIGSTOP)   what to start a program with that stops at its third write

The calls are intercepted by fault_shim.c, which is compiled on first use.
"""

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

KINDS = ("malloc", "thread", "open", "write", "fsync", "rename", "link", "map")

_SOURCE = Path(__file__).with_name("fault_shim.c")
_LIBRARY = Path(__file__).resolve().parents[2] / "build" / "faults" / "librtopk_faults.so"


@functools.cache
def library():
    """The shim to preload; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    if not _LIBRARY.exists() or _LIBRARY.stat().st_mtime < _SOURCE.stat().st_mtime:
        _LIBRARY.parent.mkdir(parents=True, exist_ok=True)
        made = f"{_LIBRARY}.{os.getpid()}"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, str(_SOURCE), "-ldl", "-lpthread"], check=True)
        os.replace(made, _LIBRARY)  # at once: tests run side by side
    return _LIBRARY


def environment(
    kind=None, n=0, *, lasting=False, under=None, min_bytes=0, signal=0, tmpfile=True, counts="", base=None
):
    """What a program is started with, so that its n-th call of a kind fails, and every later one too if `lasting`.

    `under`: of files, only those below this folder count. `min_bytes`: of allocations, only those that large.
    `signal`: the program gets it at that call, which does not fail. `tmpfile`: whether there are files without a name.
    """
    result = dict(os.environ if base is None else base)
    result["LD_PRELOAD"] = " ".join(filter(None, (str(library()), result.get("LD_PRELOAD"))))
    result["RTOPK_FAULT_COUNTS"] = str(counts)
    if kind is not None:
        assert kind in KINDS, kind
        result["RTOPK_FAULT_KIND"] = kind
    result["RTOPK_FAULT_N"] = str(n)
    result["RTOPK_FAULT_LASTING"] = str(int(lasting))
    result["RTOPK_FAULT_MIN_BYTES"] = str(min_bytes)
    result["RTOPK_FAULT_SIGNAL"] = str(int(signal))
    result["RTOPK_FAULT_NO_TMPFILE"] = str(int(not tmpfile))
    if under is not None:
        result["RTOPK_FAULT_UNDER"] = os.path.realpath(under)
    return result


def _started(command, options, **fault):
    options = {"capture_output": True, "text": True, "errors": "replace", "timeout": 120} | options
    fault["base"] = options.pop("env", None)
    return subprocess.run([str(part) for part in command], env=environment(**fault), **options)


def count(command, *, under=None, min_bytes=0, tmpfile=True, **options):
    """How many calls of each kind a run makes that must succeed."""
    with tempfile.NamedTemporaryFile("r") as counts:
        done = _started(command, options, under=under, min_bytes=min_bytes, tmpfile=tmpfile, counts=counts.name)
        assert done.returncode == 0, done.stderr
        lines = (line.split() for line in counts.read().splitlines())
        return {kind: int(number) for kind, number in lines}


def run(command, kind, n, *, lasting=False, under=None, min_bytes=0, tmpfile=True, **options):
    """A run whose n-th call of a kind fails, counted from 1; a subprocess.CompletedProcess."""
    return _started(
        command, options, kind=kind, n=n, lasting=lasting, under=under, min_bytes=min_bytes, tmpfile=tmpfile
    )


class Shim:
    """The shim of this very process, which was started with `environment()`: for children that are forked from it."""

    def __init__(self):
        self._library = ctypes.CDLL(str(library()))

    def arm(self, kind=None, n=0, *, lasting=False, under=None, min_bytes=0):
        folder = None if under is None else os.fsencode(os.path.realpath(under))
        self._library.rtopk_fault_arm(
            None if kind is None else kind.encode(),
            ctypes.c_long(n),
            int(lasting),
            folder,
            ctypes.c_size_t(min_bytes),
        )

    def disarm(self):
        self._library.rtopk_fault_disarm()

    def counts(self):
        result = (ctypes.c_long * len(KINDS))()
        self._library.rtopk_fault_counts(result)
        return dict(zip(KINDS, result, strict=True))
