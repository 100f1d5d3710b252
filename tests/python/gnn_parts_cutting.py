"""Run by two ranks that train a whole graph, one case after the other. The arguments: a folder for results, then a free
port for each case. In the last case rank 0 is killed while it cuts."""

import contextlib
import io
import os
import signal
import sys
import time
from pathlib import Path

import torch

from ranks import report
from rtopk.gnn import cli
from rtopk.gnn.parts import reuse

CORA = Path(__file__).parent.parent / "data" / "cora.npz"
TRAINED = ["train", "--graph", str(CORA), "--model", "gcn", "--hidden", "32", "--k", "8", "--layers", "2"]
TIMEOUT = 10.0  # seconds of the training of a graph that takes longer to cut


def cuts(*arguments, write=reuse.write_parts):
    return write(*arguments)


def cuts_slowly(*arguments):
    time.sleep(TIMEOUT + 2)
    return cuts(*arguments)


def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def must_not_cut(*_):
    raise AssertionError("the graph is cut again")


# Of each case the folder for results, more options, and how rank 0 cuts.
CASES = {
    "first": ("out", ["--epochs", "2"], cuts),
    "resumed": ("out", ["--epochs", "4", "--resume"], must_not_cut),
    "slow": ("slow", ["--epochs", "2", "--timeout", str(TIMEOUT)], cuts_slowly),
    "killed": ("killed", ["--epochs", "2"], dies),
}


def main():
    torch.set_num_threads(1)
    out, *ports = sys.argv[1:]
    results = {}
    for (name, (folder, options, write)), port in zip(CASES.items(), ports, strict=True):
        os.environ["MASTER_PORT"] = port
        reuse.write_parts = write
        text, start = io.StringIO(), time.monotonic()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = cli.main([*TRAINED, *options, "--out", str(Path(out, folder))])
        results[name] = {"status": status, "text": text.getvalue(), "seconds": time.monotonic() - start}
        report(results)


if __name__ == "__main__":
    main()
