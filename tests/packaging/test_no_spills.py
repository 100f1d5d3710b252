"""The check that fails a build with a kernel that spills registers."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
REPORT = """\
ptxas info    : Compiling entry function '{kernel}' for 'sm_{sm}'
ptxas info    : Function properties for {kernel}
    {frame} bytes stack frame, {spill} bytes spill stores, {spill} bytes spill loads
ptxas info    : Used 64 registers, used 0 barriers
ptxas info    : Function properties for rare_rows
    0 bytes stack frame, 48 bytes spill stores, 40 bytes spill loads
"""


@pytest.fixture(scope="module")
def no_spills():
    spec = importlib.util.spec_from_file_location("no_spills", ROOT / "cmake" / "no_spills.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("sm", "frame", "spill", "expected"),
    [("90", 0, 0, []), ("90", 24, 0, []), ("90", 24, 8, [("k", 8)]), ("80", 24, 8, [])],
)
def test_only_kernels_that_spill_are_named(no_spills, sm, frame, spill, expected):
    assert list(no_spills.spilled(REPORT.format(kernel="k", sm=sm, frame=frame, spill=spill))) == expected
