"""Does what a user of the Python package does: pip builds and installs it from this source tree."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("pip", "scikit_build_core", "torch")
# Those that look at the package itself: its version, documentation, binary and import. The package of the main build
# has to pass all of tests/python.
TESTS = ("test_package.py", "test_import.py", "test_topk.py")


def run(command, **environment):
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(
    any(importlib.util.find_spec(module) is None for module in NEEDED), reason=f"one of {', '.join(NEEDED)} is missing"
)
def test_pip_install(tmp_path):
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--target", site, ROOT]
    # Without CUDA, whose kernels take minutes to compile; the main build has them. The compilers by the names that the
    # main build uses, so that ccache knows what they have compiled.
    run([*command, "--config-settings=cmake.define.RTOPK_CUDA=OFF"], CC="cc", CXX="c++")
    tests = [ROOT / "tests" / "python" / name for name in TESTS]
    # The examples of the documents are the same with either package, and would take most of the time of these tests.
    run([sys.executable, "-m", "pytest", "-q", *tests, "-k", "not examples_in_documents"], RTOPK_TEST_SITE=str(site))
