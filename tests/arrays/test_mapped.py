"""Files that are mapped into memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rtopk
from oracle import indices, rows
from rows_oracle import Expected, expect
from rtopk._arrays import mapped

SITE = str(Path(rtopk.__file__).parents[1])


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(mapped, "CHUNK_BYTES", 5000)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_chunks_of_rows(tmp_path, small_chunks, mode):
    a = rows("nan", (30, 7, 40), np.float32)
    np.save(tmp_path / "a.npy", a)
    for view in (lambda x: x, lambda x: x[3:, ::2], lambda x: x[:, :, ::-1], lambda x: x[0]):
        file = view(np.load(tmp_path / "a.npy", mmap_mode=mode))
        for axis in range(-file.ndim, file.ndim):
            for nan in ("first", "last"):
                result = rtopk.top_k(file, 3, axis=axis, nan=nan)
                assert type(result.values) is np.ndarray
                np.testing.assert_array_equal(result.indices, indices(view(a), 3, axis, nan=nan))
                np.testing.assert_array_equal(result.values, np.take_along_axis(view(a), result.indices, axis))
                dense = rtopk.top_k_dense(file, 3, axis=axis, nan=nan)
                np.testing.assert_array_equal(dense, rtopk.top_k_dense(view(a), 3, axis=axis, nan=nan))
    file = np.load(tmp_path / "a.npy", mmap_mode=mode)
    with pytest.raises(ValueError, match="axis is 3"):
        rtopk.top_k(file, 3, axis=3)
    for axis in (None, 1.0):
        with pytest.raises(TypeError, match=f"axis is {axis}; accepted: an integer"):
            rtopk.top_k(file, 3, axis=axis)


def test_general_rows(tmp_path, small_chunks):
    a = rows("ties", (30, 7, 40), np.float32)
    np.save(tmp_path / "a.npy", a)
    file = np.load(tmp_path / "a.npy", mmap_mode="r")
    lengths = np.arange(210).reshape(30, 7) % 42
    expect(rtopk.top_k(file, 3, lengths=lengths, ids=a.argsort()), Expected(a, 3, lengths, ids=a.argsort()))
    expect(rtopk.top_k(file, 3, axis=1, ids=range(7)), Expected(a, 3, axis=1))


def test_changes_that_are_in_memory_alone_stay(tmp_path, small_chunks):
    """Copy on write: the pages of such a mapping must not be given back."""
    np.save(tmp_path / "a.npy", np.zeros((300, 40), np.float32))
    file = np.load(tmp_path / "a.npy", mmap_mode="c")
    file[:, 5] = 1
    for _ in range(2):
        assert (rtopk.top_k(file, 1).indices == 5).all()
    assert (file[:, 5] == 1).all()


RESIDENT = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy, rtopk
rows, columns = 2000, 50000  # 400 MB, and pages of a file that has never been written to need no disk
file = numpy.memmap(sys.argv[2], numpy.float32, "r", shape=(rows, columns))
rtopk.top_k(numpy.zeros((64, 64), numpy.float32), 4)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = rtopk.top_k(file, 8)
assert result.indices.tolist() == [list(range(8))] * rows
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures as Linux does")
def test_memory_stays_bounded(tmp_path):
    """The file has 400 MB. The process grows by two chunks at most, and what is beside them."""
    with open(tmp_path / "file", "wb") as file:
        file.truncate(2000 * 50000 * 4)
    command = [sys.executable, "-c", RESIDENT, SITE, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < 2.5 * mapped.CHUNK_BYTES
