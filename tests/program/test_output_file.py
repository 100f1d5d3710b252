"""The output appears whole or not at all."""

import os
import pathlib
import resource
import signal
import subprocess
import time

import numpy as np
import pytest

from conftest import PROGRAM


def small(tmp_path):
    np.save(tmp_path / "in.npy", np.random.default_rng(1).standard_normal((100, 50)).astype(np.float32))
    return tmp_path / "in.npy"


def test_unwritable(refused, tmp_path):
    source = small(tmp_path)
    (tmp_path / "folder").mkdir()
    refused("select", source, "-k", 1, "-o", tmp_path / "none" / "out.npz", says="No such file or directory")
    refused("select", source, "-k", 1, "-o", tmp_path / "folder", says="it is a directory")
    refused("select", source, "-k", 1, "-o", "/dev/null", says="not a regular file")
    refused("select", source, "-k", 1, "-o", source / "out.npz", says="Not a directory")
    refused("select", source, "-k", 1, "-o", tmp_path / ("x" * 300), says="File name too long")
    if os.geteuid() != 0:
        (tmp_path / "folder").chmod(0o500)
        refused("select", source, "-k", 1, "-o", tmp_path / "folder" / "out.npz", says="Permission denied")
    elif pathlib.Path("/proc").is_dir():
        refused("select", source, "-k", 1, "-o", "/proc/out.npz", says="cannot write")


def test_output_is_the_input(refused, tmp_path):
    source = small(tmp_path)
    content = source.read_bytes()
    (tmp_path / "link.npy").symlink_to(source)
    os.link(source, tmp_path / "hard.npy")
    for target in ("in.npy", "link.npy", "hard.npy"):
        refused("select", source, "-k", 1, "-o", tmp_path / target, says="it is the input file")
    assert source.read_bytes() == content


def test_replaces_what_a_link_points_to(rtopk, tmp_path):
    source = small(tmp_path)
    (tmp_path / "real.npz").write_bytes(b"old")
    (tmp_path / "link.npz").symlink_to("real.npz")
    rtopk("select", source, "-k", 1, "-o", tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert np.load(tmp_path / "real.npz")["values"].shape == (100, 1)


def test_permissions_follow_the_umask(rtopk, tmp_path):
    source = small(tmp_path)
    rtopk("select", source, "-k", 1, "-o", tmp_path / "out.npz", umask=0o027)
    assert (tmp_path / "out.npz").stat().st_mode & 0o777 == 0o640


def test_relative_path(rtopk, tmp_path):
    small(tmp_path)
    rtopk("select", "in.npy", "-k", 1, "-o", "out.npz", cwd=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.npy", "out.npz"]


@pytest.mark.parametrize("limit", [0, 100, 4096, 100_000, 900_000])
def test_no_room(refused, tmp_path, limit):
    """A limit on the size of files is the full disk that needs no privileges."""
    (tmp_path / "out.npz").write_bytes(b"what was there before")
    refused(
        "select",
        "--random",
        "20000x64",
        "-k",
        4,
        "-o",
        tmp_path / "out.npz",
        says="cannot write",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert (tmp_path / "out.npz").read_bytes() == b"what was there before"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_full_disk(rtopk, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    try:
        done = rtopk("select", "--random", "20000x64", "-k", 8, "-o", disk / "out.npz", code=2)
        assert "No space left on device" in done.stderr and done.stderr.count("\n") == 1
        assert list(disk.iterdir()) == []
        rtopk("select", "--random", "200x64", "-k", 8, "-o", disk / "out.npz")
        rtopk("verify", disk / "out.npz")
    finally:
        subprocess.run(["umount", disk], check=True)


def test_full_standard_output(rtopk):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [PROGRAM, "select", "--random", "4x4", "-k", "1"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2 and done.stderr.startswith("rtopk: ") and done.stderr.count("\n") == 1


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(tmp_path, number):
    (tmp_path / "out.npz").write_bytes(b"what was there before")
    command = [PROGRAM, "select", "--random", "4000000x256", "-k", "2", "-o", tmp_path / "out.npz"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # The program leaves alone what it was started to ignore, as under nohup; here it is started to listen.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == -number
    assert [p.name for p in tmp_path.iterdir()] == ["out.npz"]
    assert (tmp_path / "out.npz").read_bytes() == b"what was there before"


def sparse_matrix(path, rows, cols):
    """A .npy file of zeros that takes no room on the disk."""
    np.save(path, np.zeros((0, cols), np.float32))
    header = path.read_bytes().replace(b"(0, ", b"(%d, " % rows)
    excess = len(header) - 128
    header = header.replace(b" " * (excess + 1) + b"\n", b" \n") if excess else header
    assert len(header) == 128
    path.write_bytes(header)
    os.truncate(path, 128 + rows * cols * 4)


@pytest.mark.parametrize("threads", ["1", "4"])
def test_input_shortened_meanwhile(tmp_path, threads):
    sparse_matrix(tmp_path / "in.npy", 1_000_000, 1024)
    command = [PROGRAM, "select", tmp_path / "in.npy", "-k", "1", "--device", "cpu", "-o", tmp_path / "out.npz"]
    command += ["--threads", threads]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    os.truncate(tmp_path / "in.npy", 4096)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors.startswith("rtopk: ") and errors.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["in.npy"]


def test_memory_stays_small(tmp_path):
    """Half a gigabyte goes through with a fraction of it in memory."""
    sparse_matrix(tmp_path / "in.npy", 120_000, 1024)
    command = [PROGRAM, "select", tmp_path / "in.npy", "-k", "4", "--device", "cpu", "-o", tmp_path / "out.npz", "-q"]
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert usage.ru_maxrss < 250 * 1024  # KiB
    out = np.load(tmp_path / "out.npz")
    assert out["indices"].shape == (120_000, 4) and (np.sort(out["indices"][-1]) == [0, 1, 2, 3]).all()


@pytest.mark.skipif("RTOPK_TEST_LARGE" not in os.environ, reason="writes 9 GB; set RTOPK_TEST_LARGE to run it")
def test_output_beyond_4_gib(rtopk, tmp_path):
    sparse_matrix(tmp_path / "in.npy", 1_100_000, 1024)
    rtopk("select", tmp_path / "in.npy", "-k", 1024, "--form", "dense", "--passes", "-o", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    assert out["passes"].shape == (1_100_000,) and out["dense"].shape == (1_100_000, 1024)
    (tmp_path / "out.npz").unlink()
    rtopk("select", tmp_path / "in.npy", "-k", 600, "--no-values", "-o", tmp_path / "out.npz")
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")
