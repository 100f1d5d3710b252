"""Kills the program while it writes, many times: the file is always complete, either the old one or the new one.

RTOPK_TEST_SCALE scales how often.
"""

import collections
import os
import random
import signal
import statistics
import subprocess
import time

import numpy as np
import pytest

import faults
from conftest import PROGRAM, SCALE, needs_shim, require_tmpfile

pytestmark = needs_shim
KILLS = 60


@pytest.fixture(params=["new", "replaces", "named"])
def situation(request, tmp_path, rtopk):
    """A command, and what it may leave behind when it is killed."""
    np.save(tmp_path / "in.npy", np.random.default_rng(1).standard_normal((2000, 64)).astype(np.float32))
    folder = tmp_path / "out"
    folder.mkdir()
    if request.param != "named":
        require_tmpfile(folder)
    return Situation(request.param, tmp_path, folder, rtopk)


class Situation:
    def __init__(self, name, where, folder, rtopk):
        self.folder, self.target = folder, folder / "out.npz"
        self.replaces = name != "new"
        self.tmpfile = name != "named"
        self.arguments = ["select", where / "in.npy", "-k", 8, "--chunk-rows", 500, "--threads", 2, "-q", "-o"]
        rtopk(*self.arguments, where / "new.npz")
        self.new = (where / "new.npz").read_bytes()
        rtopk("select", where / "in.npy", "-k", 3, "-o", where / "old.npz")
        self.old = (where / "old.npz").read_bytes() if self.replaces else None
        self.command = [str(PROGRAM), *map(str, self.arguments), str(self.target)]

    def prepare(self):
        for path in self.folder.iterdir():
            path.unlink()
        if self.replaces:
            self.target.write_bytes(self.old)

    def start(self, kind=None, n=0, number=0):
        self.prepare()
        environment = faults.environment(kind, n, signal=number, under=self.folder, tmpfile=self.tmpfile)
        return subprocess.Popen(self.command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def judge(self):
        """Which file is there, and what else. Fails if it is neither the old nor the new one."""
        content = self.target.read_bytes() if self.target.exists() else None
        assert content in (self.old, self.new), f"{len(content)} bytes"
        more = [path for path in self.folder.iterdir() if path != self.target]
        # Only if the file has a temporary name: always, or between a link and a rename.
        assert len(more) <= self.replaces, more
        for path in more:
            assert path.name.startswith(".rtopk-")
            assert not self.tmpfile or path.read_bytes() == self.new, "it had a name before it was complete"
        return ("new" if content == self.new else "old") + (", left over" if more else "")


def test_killed_at_any_moment(situation, record_property):
    durations = []
    for _ in range(5):
        start = time.monotonic()
        process = situation.start()
        assert process.wait() == 0, process.stderr.read()
        durations.append(time.monotonic() - start)
        assert situation.judge() == "new"
    usual = statistics.median(durations)
    generator = random.Random(int(os.environ.get("RTOPK_TEST_SEED", "0")))
    outcomes = collections.Counter()
    kills = max(1, round(KILLS * SCALE))
    for _ in range(kills):
        process = situation.start()
        end = time.monotonic() + generator.uniform(0, usual)
        while time.monotonic() < end and process.poll() is None:
            pass
        process.kill()
        code = process.wait()
        assert code in (0, -signal.SIGKILL), process.stderr.read()
        process.stderr.close()
        outcome = situation.judge()
        assert code != 0 or outcome == "new"
        outcomes["ended before" if code == 0 else outcome] += 1
    record_property("killed", f"{kills} times over {usual * 1e3:.0f} ms: {dict(outcomes)}")


def test_killed_at_every_call(situation, record_property):
    situation.prepare()
    counts = faults.count(situation.command, under=situation.folder, tmpfile=situation.tmpfile)
    stages = {kind: counts[kind] for kind in ("open", "write", "fsync", "link", "rename")}
    assert stages["fsync"] == 2 and stages["write"] > 8  # the file and its folder; chunks of two arrays
    outcomes = collections.Counter()
    for kind, count in stages.items():
        for n in range(1, count + 1):
            process = situation.start(kind, n, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            process.stderr.close()
            outcome = situation.judge()
            outcomes[outcome] += 1
            # The new file is there exactly if it was the second fsync, that of the folder.
            assert outcome.startswith("new") == (kind == "fsync" and n == 2), (kind, n)
            left_over = not situation.tmpfile if kind in ("write", "fsync") else kind == "rename"
            assert ("left over" in outcome) == (left_over and not outcome.startswith("new")), (kind, n)
    record_property("killed", f"at {sum(stages.values())} calls: {dict(outcomes)}")
