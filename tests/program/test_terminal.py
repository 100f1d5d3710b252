"""Progress is drawn on a terminal, and nowhere else."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

from conftest import PROGRAM


def on_terminal(*arguments, columns=80):
    """Runs the program with stderr on a terminal; returns what it drew there and what it printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end was closed
            break
        if not piece:
            break
        drawn += piece
    os.close(ours)
    printed = process.stdout.read().decode()
    assert process.wait() == 0
    return drawn.decode(), printed


def frames(drawn):
    return [frame for frame in drawn.split("\r\x1b[K") if frame]


def test_select_draws_and_clears(tmp_path):
    drawn, printed = on_terminal("select", "--random", "150000x256", "-k", 4, "-o", tmp_path / "out.npz")
    assert frames(drawn) and drawn.endswith("\r\x1b[K")
    assert all(re.match(r"select \[#*-*\] +\d+%  \d+/150000 rows  [\d.]+ GB/s", frame) for frame in frames(drawn))
    assert "\n" not in drawn and "wrote" in printed


def test_narrow_terminal():
    drawn, _ = on_terminal("select", "--random", "150000x256", "-k", 4, columns=30)
    assert frames(drawn) and max(map(len, frames(drawn))) < 30


def test_verify_and_bench_draw(tmp_path):
    on_terminal("select", "--random", "60000x256", "-k", 4, "-o", tmp_path / "out.npz")
    drawn, printed = on_terminal("verify", tmp_path / "out.npz")
    assert frames(drawn)[0].startswith("verify [") and printed.startswith("OK")
    drawn, printed = on_terminal("bench", "--shape", "1000x64x4", "--shape", "1000x64x8", "--repeats", 2)
    assert [frame.split(":")[0] for frame in frames(drawn)] == ["bench 1/2", "bench 2/2"]


def test_study_draws():
    drawn, printed = on_terminal("study", "table1", "--rows", 50000)
    assert frames(drawn)[0].startswith("study table1, M=256 [") and drawn.endswith("\r\x1b[K")
    assert printed.startswith("Table 1")
    assert on_terminal("study", "table1", "--rows", 50000, "--quiet") == ("", "")


def test_quiet():
    drawn, printed = on_terminal("select", "--random", "50000x256", "-k", 4, "--quiet")
    assert drawn == "" and printed == ""
