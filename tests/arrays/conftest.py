"""Tests of the installed package with arrays, without torch. With RTOPK_TEST_SITE=FOLDER, of the package there."""

import os
import sys

import pytest

if "RTOPK_TEST_SITE" in os.environ:
    sys.path.insert(0, os.environ["RTOPK_TEST_SITE"])

pytest.importorskip("numpy", reason="numpy is not installed")
rtopk = pytest.importorskip("rtopk", reason="the package is not installed: pip install . (see CONTRIBUTING.md)")
pytest.importorskip("rtopk._native", reason="the package was built without the module for arrays")

try:
    import hypothesis
except ImportError:
    pass  # test_random.py is skipped
else:
    hypothesis.settings.register_profile("rtopk", deadline=None)
    hypothesis.settings.load_profile("rtopk")


def missing_gpu():
    """Why CuPy cannot be tested; None: it can."""
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed"
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "there is no GPU"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy has no GPU: {error}"
    from rtopk import _native

    return None if "\ncuda=1" in _native.build_text() else "rtopk was built without CUDA"


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs CuPy, a GPU, and a build with CUDA")


def pytest_collection_modifyitems(items):
    if any(item.get_closest_marker("gpu") for item in items) and (why := missing_gpu()):
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=why))
