"""Shared libraries from the .cu files of this folder, compiled when they are needed and kept in build/peers."""

import ctypes
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from .peer import Missing

HERE = Path(__file__).resolve().parent
KEPT = HERE.parents[1] / "build" / "peers"
LIMIT_SECONDS = 300


def nvcc():
    """The compiler of the CUDA toolkit, or None."""
    beside = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
    return shutil.which("nvcc") or shutil.which("nvcc", path=str(beside))


def architecture():
    """Of the current GPU: sm_90."""
    import torch

    return "sm_{}{}".format(*torch.cuda.get_device_capability())


def libraries(source, variants, arch=None, kept=KEPT):
    """Compiles the file once for each list of options, at the same time. Returns the libraries in that order."""
    compiler = nvcc()
    if compiler is None:
        raise Missing("nvcc is not installed")
    arch = arch or architecture()
    release = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    text = (HERE / source).read_text()
    started = []
    for options in variants:
        name = hashlib.sha256("\n".join([release, text, arch, *options]).encode()).hexdigest()[:16]
        path = kept / f"{Path(source).stem}-{name}.so"
        started.append((path, None if path.exists() else _start(compiler, source, options, arch, path)))
    for path, running in started:
        if running is not None:
            _finish(running, path)
    return [ctypes.CDLL(str(path)) for path, _ in started]


def _start(compiler, source, options, arch, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-O3", "-std=c++17", f"-arch={arch}", "-shared", "-Xcompiler", "-fPIC", *options]
    command += [str(HERE / source), "-o", str(_part(path))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _finish(running, path):
    try:
        output, _ = running.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
        raise RuntimeError(f"nvcc took longer than {LIMIT_SECONDS} s") from None
    if running.returncode != 0:
        errors = [line for line in output.splitlines() if "error" in line]
        raise RuntimeError(f"nvcc: {(errors or output.splitlines() or ['it failed'])[0]}")
    _part(path).replace(path)  # so that a broken-off compilation leaves no library


def _part(path):
    return path.with_name(f"{path.name}.{os.getpid()}.part")
