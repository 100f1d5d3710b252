"""Makes every allocation, thread start and file operation of the main commands fail: once, and from then on.

Each time the program must either succeed with the usual results, or end with exit code 2 and one line. The output file
is then the old or the new one, complete, and nothing else is left in its folder. RTOPK_TEST_SCALE scales the number of
allocations that fail.
"""

import collections
import json
import os
import random
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import faults
from conftest import PROGRAM, SCALE, needs_shim

pytestmark = needs_shim

ALLOCATIONS = 60  # allocations per command that fail; of other calls, all do
ROWS = 16000  # enough for two threads in each of two chunks
OLD = b"what was there before"
COMMANDS = {
    "select": "select in.npy -k 4 --threads 2 --chunk-rows 8000 -o out.npz",
    "select_random": f"select --random {ROWS}x32 -k 4 --form dense --threads 2 -o out.npz",
    "select_shown": "select in.npy -k 4 --threads 1",
    "verify": "verify in.npy saved.npz --threads 2",
    "verify_selected": "verify in.npy -k 4 --threads 2",
    "plan": "plan --shape 65536x768x32 --json --device cpu",
    "info": "info --json",
    "bench": "bench --shape 50x32x4 --repeats 1 --threads 2 --json out.npz",
    "study": "study table1 --rows 20 --threads 2 --json out.npz",
}


def steady(text):
    """The text without numbers and the spaces around them, since times differ from run to run."""
    return re.sub(r"[\s\d.~]+", " ", re.sub(r"[\d.]+ [mu]?s\b", "", text))


def steady_json(content):
    value = json.loads(content)
    for key in ("date", "command"):
        del value[key]
    rows = value.get("results", []) + value.get("parts", [])
    return value | {"results": [sorted(row) for row in rows], "parts": []}


def same_output(name, content, expected):
    if name in ("bench", "study"):
        return steady_json(content) == steady_json(expected)
    return content == expected


class Folder:
    """The folder of one run: its inputs, and a file that its output replaces."""

    def __init__(self, template, replaces):
        self.path = Path(tempfile.mkdtemp(prefix="faults-", dir=template.parent))
        for file in template.iterdir():
            shutil.copy(file, self.path)
        if replaces:
            (self.path / "out.npz").write_bytes(OLD)
        self.before = {file.name for file in self.path.iterdir()}

    def output(self):
        path = self.path / "out.npz"
        return path.read_bytes() if path.exists() else None

    def remove(self):
        shutil.rmtree(self.path)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults") / "template"
    folder.mkdir()
    np.save(folder / "in.npy", np.random.default_rng(1).standard_normal((ROWS, 32)).astype(np.float32))
    faults.run([PROGRAM, "select", "in.npy", "-k", "4", "-o", "saved.npz"], None, 0, cwd=folder).check_returncode()
    return folder


def numbers(kind, count, share):
    """Which calls of a kind fail: all, or if there are many, the first, the last and some between."""
    most = max(1, round(ALLOCATIONS * share * SCALE))
    if kind != "malloc" or count <= most:
        return range(1, count + 1)
    generator = random.Random(int(os.environ.get("RTOPK_TEST_SEED", "0")) or count)
    spread = {1 + i * (count - 1) // max(1, most // 2) for i in range(most // 2 + 1)}
    return sorted(spread | set(generator.sample(range(1, count + 1), most // 2)))


# Whether a file is replaced, and whether the system has files without a name.
WAYS = {"new": (False, True), "replaces": (True, True), "new_named": (False, False), "replaces_named": (True, False)}


def writes_a_file(name):
    return "out.npz" in COMMANDS[name].split()


@pytest.mark.parametrize(
    "name, way", [(name, way) for name in COMMANDS for way in WAYS if way == "new" or writes_a_file(name)]
)
def test_every_fault(template, record_property, name, way):
    replaces, tmpfile = WAYS[way]
    writes = writes_a_file(name)
    command = [PROGRAM, *COMMANDS[name].split()]

    def once(kind=None, n=0, lasting=False):
        folder = Folder(template, replaces)
        try:
            done = faults.run(command, kind, n, lasting=lasting, under=folder.path, tmpfile=tmpfile, cwd=folder.path)
            after = {file.name for file in folder.path.iterdir()}
            return done, folder.output(), after - folder.before
        finally:
            folder.remove()

    good, expected, _ = once()
    assert good.returncode == 0 and good.stderr == "", good
    assert writes == (expected is not None)
    folder = Folder(template, replaces)
    counts = faults.count(command, under=folder.path, tmpfile=tmpfile, cwd=folder.path)
    folder.remove()

    def judge(case):
        kind, n, lasting = case
        done, content, more = once(kind, n, lasting)
        where = f"{name}, {kind} {n}{' and later' if lasting else ''}: {done}"
        assert more <= {"out.npz"}, f"left behind {more}, {where}"
        if done.returncode == 0:
            same = (
                done.stdout == good.stdout if name in ("plan", "info") else steady(done.stdout) == steady(good.stdout)
            )
            assert same and done.stderr == "", where
            assert not writes or same_output(name, content, expected), where
            return "succeeded"
        assert done.returncode == 2, where
        assert done.stderr.startswith("rtopk: ") and done.stderr.count("\n") == 1 and len(done.stderr) > 10, where
        # After the file has its name, syncing its folder or printing the last line may still fail.
        late = kind in ("malloc", "fsync")
        assert content == (OLD if replaces else None) or (late and same_output(name, content, expected)), where
        return "refused"

    share = 1.0 if way == "new" else 0.2  # of the allocations, which are the same every time
    chosen = [(kind, n) for kind in counts for n in numbers(kind, counts[kind], share)]
    cases = [(kind, n, lasting) for kind, n in chosen for lasting in (False, True)]
    if (name, way) == ("select", "new"):  # all that are its own: most of the others make the command line's options
        first = faults.count([PROGRAM, "--version"])["malloc"]
        cases += [("malloc", n, False) for n in range(first, counts["malloc"] + 1)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = collections.Counter(pool.map(judge, cases))
    assert outcomes["refused"] > 0
    record_property("faults injected", f"{len(cases)} ({dict(outcomes)}) of {counts}")
