"""Tests of the installed package. With RTOPK_TEST_SITE=FOLDER, of the one that lies in that folder."""

import os
import sys
from pathlib import Path

import pytest

if "RTOPK_TEST_SITE" in os.environ:
    sys.path.insert(0, os.environ["RTOPK_TEST_SITE"])
sys.path.append(str(Path(__file__).resolve().parents[2] / "paper" / "gnn"))  # the study

# For tests under torch.use_deterministic_algorithms; cuBLAS looks at it before its first product.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
# Inductor would start a process for every core, which takes longer than the few small graphs of the tests.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

torch = pytest.importorskip("torch", reason="torch is not installed")
rtopk = pytest.importorskip("rtopk", reason="the package is not installed: pip install . (see CONTRIBUTING.md)")

try:
    import hypothesis
except ImportError:
    pass  # test_random.py is skipped
else:
    # Compilation and the first call of a kernel take long, once.
    hypothesis.settings.register_profile("rtopk", deadline=None)
    hypothesis.settings.load_profile("rtopk")

GPU_MISSING = None if rtopk.info()["gpus"] else rtopk.info()["cuda"]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("gpu") and GPU_MISSING:
            item.add_marker(pytest.mark.skip(reason=GPU_MISSING))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return request.param


@pytest.fixture(scope="module")
def one_thread():
    """For graphs that are too small for more: threads that wait for each other take long on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def cora():
    from rtopk.gnn import load

    return load(Path(__file__).parent.parent / "data" / "cora.npz")


@pytest.fixture(autouse=True)
def fixed_seed():
    torch.manual_seed(20250921)


@pytest.fixture(autouse=True)
def nothing_left_switched_on():
    yield
    assert not rtopk.is_accelerated()
