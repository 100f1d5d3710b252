"""The library where the n-th allocation or thread start fails, for every n: each call is right, or refused."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "faults"))

import faults  # noqa: E402


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    library = ROOT / "build" / "lib" / "librtopk.so"
    if not library.exists():
        pytest.skip("there is no main build with a shared library")
    if shutil.which("c++") is None:
        pytest.skip("there is no compiler")
    made = tmp_path_factory.mktemp("faults") / "program"
    source = HERE / "consumer" / "faults.cpp"
    link = [f"-L{library.parent}", "-lrtopk", f"-Wl,-rpath,{library.parent}"]
    subprocess.run(["c++", "-std=c++20", "-O1", f"-I{ROOT / 'include'}", source, "-o", made, *link], check=True)
    return made


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from_then_on"])
@pytest.mark.parametrize("kind", ["malloc", "thread"])
def test_every_call_is_right_or_refused(program, kind, lasting):
    calls = faults.count([program])[kind]
    assert calls >= 3
    for n in range(1, calls + 1):
        done = faults.run([program], kind, n, lasting=lasting)
        assert done.returncode == 0, f"{kind} {n} of {calls}: {done.returncode}\n{done.stderr}"
