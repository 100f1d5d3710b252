"""A file that changes while it is read: no output, no verdict, one clear line.

The program is stopped at a call that it makes while it reads, so that every change happens at the same moment.
"""

import os

import numpy as np
import pytest

from conftest import needs_shim, stopped

pytestmark = needs_shim
ROWS, COLS = 3000, 64


@pytest.fixture
def matrix(tmp_path):
    path = tmp_path / "in.npy"
    np.save(path, np.random.default_rng(1).standard_normal((ROWS, COLS)).astype(np.float32))
    os.utime(path, (1e9, 1e9))  # an old time, because two writes within one tick of the clock have the same time
    return path


def cut(path):
    """Shortens the file within its last page, where reading gives zeros and no SIGBUS."""
    size = path.stat().st_size
    assert size % os.sysconf("SC_PAGESIZE") > 4
    os.truncate(path, size - 4)


def grow(path):
    with path.open("ab") as file:
        file.write(b"\0")


def write(path):
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\0\0\0")


CHANGES = {change.__name__: change for change in (cut, grow, write)}


def changed(arguments, kind, n, folder, change, path):
    with stopped(arguments, kind, n, folder) as process:
        change(path)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def refused(result, name):
    code, output, errors = result
    assert code == 2 and output == "", result
    assert errors.startswith("rtopk: ") and errors.count("\n") == 1, errors
    assert f"{name}' was changed while it was read" in errors


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("exists", [False, True])
def test_select(tmp_path, matrix, change, exists):
    out = tmp_path / "out.npz"
    if exists:
        out.write_bytes(b"old")
    command = ["select", matrix, "-k", 4, "--device", "cpu", "--chunk-rows", 1000, "-o", out]
    # At the fourth write the first of three chunks has been read.
    refused(changed(command, "write", 4, tmp_path, CHANGES[change], matrix), "in.npy")
    assert sorted(p.name for p in tmp_path.iterdir()) == (["in.npy", "out.npz"] if exists else ["in.npy"])
    assert not exists or out.read_bytes() == b"old"


@pytest.mark.parametrize("change", CHANGES)
def test_preview(tmp_path, matrix, change):
    refused(changed(["select", matrix, "-k", 4], "map", 1, tmp_path, CHANGES[change], matrix), "in.npy")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("which", ["in.npy", "out.npz"])
def test_verify(rtopk, tmp_path, matrix, change, which):
    out = tmp_path / "out.npz"
    rtopk("select", matrix, "-k", 4, "-o", out)
    with out.open("ab") as file:  # a zip comment, which the program does not read
        file.seek(-2, os.SEEK_END)
        file.truncate()
        file.write(b"\x08\0" + b"12345678")
    os.utime(out, (1e9, 1e9))
    rtopk("verify", matrix, out)
    result = changed(["verify", matrix, out], "map", 2, tmp_path, CHANGES[change], tmp_path / which)
    if which == "in.npy":
        refused(result, which)
    else:  # the changed end may make it unusable before the change is noticed
        assert result[0] == 2 and result[2].count("\n") == 1, result


def test_saved_selection_written_again_with_the_same_size(rtopk, tmp_path, matrix):
    out = tmp_path / "out.npz"
    rtopk("select", matrix, "-k", 4, "-o", out)
    os.utime(out, (1e9, 1e9))

    def write_same(path):
        with path.open("r+b") as file:
            file.write(b"PK")

    refused(changed(["verify", matrix, out], "map", 2, tmp_path, write_same, out), "out.npz")


def test_verify_what_is_selected(tmp_path, matrix):
    refused(changed(["verify", matrix, "-k", 4], "map", 2, tmp_path, write, matrix), "in.npy")


def replace(path):
    np.save(path.with_name("other.npy"), np.zeros((ROWS, COLS), np.float32))
    os.replace(path.with_name("other.npy"), path)


@pytest.mark.parametrize("change", [lambda path: None, replace, os.unlink], ids=["nothing", "replace", "unlink"])
def test_the_file_itself_stays_as_it_is(rtopk, tmp_path, matrix, change):
    """Renaming or removing the file does not matter."""
    out = tmp_path / "out.npz"
    rtopk("select", matrix, "-k", 4, "-o", out)
    expected = out.read_bytes()
    command = ["select", matrix, "-k", 4, "--chunk-rows", 1000, "-o", out]
    code, _, errors = changed(command, "write", 4, tmp_path, change, matrix)
    assert code == 0 and errors == ""
    assert out.read_bytes() == expected
