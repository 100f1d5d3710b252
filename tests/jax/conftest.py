"""Tests of rtopk.jax. With RTOPK_TEST_SITE=FOLDER, of the package in that folder. They need jax and no torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if "RTOPK_TEST_SITE" in os.environ:
    sys.path.insert(0, os.environ["RTOPK_TEST_SITE"])
sys.path.append(str(ROOT / "bench"))  # librtopk: the library's own results
sys.path.append(str(ROOT / "tests" / "faults"))
sys.path.append(str(ROOT / "tests" / "arrays"))  # rows_oracle

# JAX would take three quarters of a GPU's memory, and tests start processes beside each other.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

jax = pytest.importorskip("jax", reason="jax is not installed")
try:
    import rtopk.jax
except ImportError as error:
    pytest.skip(f"rtopk.jax is not there: {error}", allow_module_level=True)

if not rtopk.jax._library.HAS_CUDA:
    # Hundreds of small programs: to compile them takes longer than to run them. XLA reads this with its first device.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")


def _gpu_missing():
    if not rtopk.jax._library.HAS_CUDA:
        return "this rtopk was built without CUDA"
    try:
        jax.devices("cuda")
    except RuntimeError as error:
        return f"JAX has no GPU: {error}"
    return None


GPU_MISSING = _gpu_missing()


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("gpu") and GPU_MISSING:
            item.add_marker(pytest.mark.skip(reason=GPU_MISSING))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Arrays are made here."""
    with jax.default_device(jax.devices(request.param)[0]):
        yield request.param


@pytest.fixture
def run_script(tmp_path):
    """Runs Python code in a process of its own, with this package and this folder on its path. Gives its output."""

    def run(script, *arguments, **environment):
        begin = f"import sys\nsys.path[:0] = {[str(Path(rtopk.__file__).parents[1]), str(Path(__file__).parent)]!r}\n"
        done = subprocess.run(
            [sys.executable, "-c", begin + script, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=300,
            env=os.environ | environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
