"""Does what a user of the Python package does: pip builds and installs it from this source tree."""

import importlib.util
import os
import subprocess
import sys
import venv

import pytest

from consumers import ROOT, run

NEEDED = ("pip", "scikit_build_core", "nanobind", "torch")
# Those that look at the package itself: its version, documentation, binary and import. The package of the main build
# has to pass all of tests/python.
TESTS = ("test_package.py", "test_import.py", "test_topk.py")


def is_installed(module):
    return importlib.util.find_spec(module) is not None


@pytest.mark.skipif(not all(map(is_installed, NEEDED)), reason=f"one of {', '.join(NEEDED)} is missing")
def test_pip_install(tmp_path):
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--target", site, ROOT]
    # Without CUDA, and without one of the instruction sets, which take minutes to compile; the main build has them. The
    # compilers by the names that the main build uses, so that ccache knows what they have compiled.
    run(*command, "--config-settings=cmake.define.RTOPK_CUDA=OFF", CC="cc", CXX="c++", CXXFLAGS="-DRTOPK_NO_AVX2")
    tests = [ROOT / "tests" / "python" / name for name in TESTS]
    # The examples of the documents are the same with either package, and would take most of the time of these tests.
    run(sys.executable, "-m", "pytest", "-q", *tests, "-k", "not examples_in_documents", RTOPK_TEST_SITE=str(site))


def configured(folder, python, **environment):
    """What CMake says about the package for this Python. Nothing is compiled."""
    wanted = {"RTOPK_BUILD_TORCH": "AUTO", "RTOPK_BUILD_JAX": "AUTO", "Python_EXECUTABLE": python}
    wanted |= {f"RTOPK_{name}": "OFF" for name in ("CUDA", "HIGHWAY", "BUILD_TESTS", "BUILD_TOOLS", "INSTALL")}
    defines = (f"-D{key}={value}" for key, value in wanted.items())
    return run("cmake", "-S", ROOT, "-B", folder, *defines, **environment)


@pytest.mark.parametrize(
    "module, front", [("torch", "operators for PyTorch"), ("jaxlib", "calls for JAX")], ids=["torch", "jax"]
)
def test_an_isolated_build_sees_what_the_user_has(module, front, tmp_path):
    """As pip isolates it: a sitecustomize that takes the user's packages out of the path."""
    if not is_installed(module):
        pytest.skip(f"{module} is not installed")
    isolated = tmp_path / "isolated"
    isolated.mkdir()
    (isolated / "sitecustomize.py").write_text(
        "import sys\nsys.path[:] = [folder for folder in sys.path if not folder.endswith('-packages')]\n"
    )
    hidden = [sys.executable, "-c", f"import {module}"]
    assert subprocess.run(hidden, env=os.environ | {"PYTHONPATH": str(isolated)}, capture_output=True).returncode == 1
    output = configured(tmp_path / "build", sys.executable, PYTHONPATH=str(isolated))
    assert f"rtopk: {front}, with the headers of " in output


def test_what_the_user_has_not_is_left_out(tmp_path):
    venv.create(tmp_path / "venv", symlinks=True)
    output = configured(tmp_path / "build", tmp_path / "venv" / "bin" / "python")
    assert "rtopk: left out: operators for PyTorch" in output
    assert "rtopk: left out: calls for JAX" in output
