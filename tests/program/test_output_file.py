"""The output appears whole or not at all."""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import faults
from conftest import PROGRAM, needs_shim, require_tmpfile, stopped


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


def test_makes_what_a_link_points_to(rtopk, refused, tmp_path):
    """A link to a file that is not there yet is followed, as the shell's > does."""
    source = small(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "first.npz").symlink_to("folder/second.npz")
    (tmp_path / "folder" / "second.npz").symlink_to("../real.npz")
    rtopk("select", source, "-k", 1, "-o", tmp_path / "first.npz")
    assert (tmp_path / "first.npz").is_symlink() and (tmp_path / "folder" / "second.npz").is_symlink()
    assert not (tmp_path / "real.npz").is_symlink() and np.load(tmp_path / "real.npz")["values"].shape == (100, 1)
    (tmp_path / "nowhere.npz").symlink_to("none/real.npz")
    refused("select", source, "-k", 1, "-o", tmp_path / "nowhere.npz", says="No such file or directory")
    (tmp_path / "circle.npz").symlink_to("circle.npz")
    refused("select", source, "-k", 1, "-o", tmp_path / "circle.npz", says="Too many levels of symbolic links")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's link needs root")
def test_link_of_another_user_in_a_shared_folder(refused, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "shared" / "out.npz").symlink_to("../real.npz")
    os.lchown(tmp_path / "shared" / "out.npz", 1234, 1234)
    refused("select", small(tmp_path), "-k", 1, "-o", tmp_path / "shared" / "out.npz", says="another user's link")


without_names = pytest.mark.parametrize("tmpfile", [True, pytest.param(False, marks=needs_shim)])


@without_names
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755, 0o200])
def test_mode_of_what_is_replaced_stays(rtopk, tmp_path, mode, tmpfile):
    source = small(tmp_path)
    target = tmp_path / "out.npz"
    target.write_bytes(b"old")
    target.chmod(mode)
    environment = None if tmpfile else faults.environment(tmpfile=False)
    rtopk("select", source, "-k", 1, "-o", target, umask=0o022, env=environment)
    assert target.stat().st_mode & 0o7777 == mode
    target.chmod(0o600)
    assert np.load(target)["values"].shape == (100, 1)


@without_names
@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away needs root")
def test_owner_of_what_is_replaced_stays(rtopk, tmp_path, tmpfile):
    source = small(tmp_path)
    (tmp_path / "out.npz").write_bytes(b"old")
    os.chown(tmp_path / "out.npz", 1234, 5678)
    rtopk("select", source, "-k", 1, "-o", tmp_path / "out.npz", env=faults.environment(tmpfile=tmpfile))
    status = (tmp_path / "out.npz").stat()
    assert (status.st_uid, status.st_gid) == (1234, 5678)
    assert np.load(tmp_path / "out.npz")["values"].shape == (100, 1)


def as_user(identity):
    def become():
        os.setgroups([])
        os.setgid(identity)
        os.setuid(identity)

    return become


@pytest.mark.skipif(os.geteuid() != 0, reason="being somebody else needs root")
def test_group_that_cannot_be_kept_passes_nothing_on():
    """Write access by the `other` bits does not allow keeping the group. The new group gets the rights of others."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        program = shutil.copy(PROGRAM, folder / "rtopk")
        if subprocess.run(["env", program, "info"], capture_output=True, preexec_fn=as_user(1234)).returncode != 0:
            pytest.skip("the program does not run elsewhere")
        (folder / "out.npz").write_bytes(b"old")
        (folder / "out.npz").chmod(0o672)
        command = [program, "select", "--random", "10x10", "-k", "1", "-q", "-o", folder / "out.npz"]
        subprocess.run(command, check=True, preexec_fn=as_user(1234))
        status = (folder / "out.npz").stat()
        assert (status.st_uid, status.st_gid) == (1234, 1234)
        assert status.st_mode & 0o777 == 0o622
        (folder / "out.npz").chmod(0o600)
        os.chown(folder / "out.npz", 0, 0)
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=as_user(1234))
        assert done.returncode == 2 and "it is read-only" in done.stderr


def test_read_only_is_not_replaced(refused, tmp_path):
    """Not even by root: a file without any write bit is meant to be kept."""
    source = small(tmp_path)
    (tmp_path / "out.npz").write_bytes(b"old")
    (tmp_path / "out.npz").chmod(0o444)
    refused("select", source, "-k", 1, "-o", tmp_path / "out.npz", says="it is read-only")
    refused("study", "table1", "--rows", 100, "--json", tmp_path / "out.npz", says="it is read-only")
    assert (tmp_path / "out.npz").read_bytes() == b"old"


@without_names
@pytest.mark.parametrize("exists", [False, True])
def test_longest_names(rtopk, tmp_path, tmpfile, exists):
    limit = os.pathconf(tmp_path, "PC_NAME_MAX")
    for size in (limit - 21, limit):
        target = tmp_path / ("x" * (size - 4) + ".npz")
        if exists:
            target.write_bytes(b"old")
        rtopk("select", "--random", "5x10", "-k", 1, "-o", target, env=faults.environment(tmpfile=tmpfile))
        assert np.load(target)["values"].shape == (5, 1)
    assert len(list(tmp_path.iterdir())) == 2


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
    """A limit on the size of files acts like a full disk and needs no privileges."""
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


SELECT = ["select", "--random", "3000x64", "-k", "2", "--chunk-rows", "1000", "-o"]
MIDDLE = 4  # of the writes: the space and the first chunk are written


# A file with a temporary name stays after SIGKILL: test_crashes.py.
ENDS = [
    (number, tmpfile)
    for number in ("INT", "TERM", "HUP", "QUIT", "ALRM", "USR1", "XCPU", "SEGV", "ABRT", "RTMAX", "KILL")
    for tmpfile in (True, False)
    if tmpfile or number != "KILL"
]


@needs_shim
@pytest.mark.parametrize("number, tmpfile", ENDS)
def test_interrupted(tmp_path, number, tmpfile):
    """Whatever signal ends the program, nothing is left of an unfinished file."""
    number = signal.Signals[f"SIG{number}"]
    if tmpfile:
        require_tmpfile(tmp_path)
    (tmp_path / "out.npz").write_bytes(b"what was there before")
    # The program keeps ignoring signals that were ignored at its start (nohup), so they are set to their default here.
    listen = None if number == signal.SIGKILL else lambda: signal.signal(number, signal.SIG_DFL)
    with stopped([*SELECT, tmp_path / "out.npz"], "write", MIDDLE, tmp_path, tmpfile, preexec_fn=listen) as process:
        assert len(list(tmp_path.iterdir())) == (1 if tmpfile else 2)
        process.send_signal(number)
    process.communicate(timeout=60)
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


@needs_shim
@pytest.mark.parametrize("threads", ["1", "4"])
def test_input_shortened_meanwhile(tmp_path, threads):
    """By whole pages, so that reading raises SIGBUS. test_changed_input.py has the other cases."""
    sparse_matrix(tmp_path / "in.npy", 100_000, 1024)
    command = ["select", tmp_path / "in.npy", "-k", "1", "--device", "cpu", "-o", tmp_path / "out.npz"]
    with stopped([*command, "--threads", threads], "write", MIDDLE, tmp_path) as process:
        os.truncate(tmp_path / "in.npy", 4096)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors.startswith("rtopk: ") and errors.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["in.npy"]


def test_memory_stays_small(tmp_path):
    """Half a gigabyte goes through with a fraction of it in memory."""
    sparse_matrix(tmp_path / "in.npy", 120_000, 1024)
    command = [PROGRAM, "select", tmp_path / "in.npy", "-k", "4", "--device", "cpu", "-o", tmp_path / "out.npz", "-q"]
    # From a small process: a child's peak counts the memory of its parent, until it starts another program.
    measure = "import os, subprocess, sys; print(*os.wait4(subprocess.Popen(sys.argv[1:]).pid, 0)[1:3])"
    done = subprocess.run([sys.executable, "-c", measure, *command], capture_output=True, text=True, check=True)
    status, peak = re.match(r"(\d+) .*ru_maxrss=(\d+)", done.stdout).groups()
    assert int(status) == 0 and int(peak) < 250 * 1024, done.stdout  # KiB
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
