"""Run by two ranks that are given different options of `python -m rtopk.gnn train`, one case after the other. The
arguments: a folder for results, then a free port for each case."""

import contextlib
import io
import os
import sys
from pathlib import Path

import torch

from ranks import report
from rtopk.gnn import cli
from rtopk.gnn.parts import joining

CORA = Path(__file__).parent.parent / "data" / "cora.npz"
SHARED = ["train", "--graph", str(CORA), "--model", "gcn", "--hidden", "32", "--k", "8", "--layers", "2"]
# Of each case the options of rank 0 and those of rank 1, and what both must say.
CASES = {
    "k": (["--k", "8"], ["--k", "4"], "--k is 4 on rank 1 and 8 on rank 0"),
    "learning rate": ([], ["--lr", "nan"], "--lr is nan on rank 1 and not given on rank 0"),
    "exchange": (["--exchange", "dense"], [], "--exchange is compact on rank 1 and dense on rank 0"),
    "sampled": ([], ["--sample", "5,3"], "--sample is 5,3 on rank 1 and not given on rank 0"),
    "mini-batch": (
        ["--sample", "5,3", "--batch", "64"],
        ["--sample", "5,3", "--batch", "32"],
        "--batch is 32 on rank 1 and 64 on rank 0",
    ),
    "device": (["--device", "cpu"], ["--device", "cuda"], "--device is cuda on rank 1 and cpu on rank 0"),
    "no such device": (["--device", "tpu"], ["--device", "cpu"], "--device is cpu on rank 1 and tpu on rank 0"),
    "refused by both": (["--device", "tpu"], ["--device", "tpu"], "there is no device 'tpu'"),
    "timeout": (["--timeout", "0"], [], "--timeout is 300.0 on rank 1 and 0.0 on rank 0"),
    # By joining.device_of_rank: rank 1 has a GPU, or its GPU cannot be used.
    "found devices": ([], [], "the device that --device picks is cuda on rank 1 and cpu on rank 0"),
    "broken GPU": ([], [], "rank 1: CUDA error: device busy"),
}


def found_gpu(_):
    return torch.device("cuda", 0), True


def broken_gpu(_):
    raise RuntimeError("CUDA error: device busy")


def main():
    out, *ports = sys.argv[1:]
    rank, real, results = int(os.environ["RANK"]), joining.device_of_rank, {}
    for (name, (*options, _)), port in zip(CASES.items(), ports, strict=True):
        os.environ["MASTER_PORT"] = port
        gpus = {"found devices": found_gpu, "broken GPU": broken_gpu} if rank == 1 else {}
        joining.device_of_rank = gpus.get(name, real)
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = cli.main([*SHARED, *options[rank], "--out", str(Path(out, name))])
        results[name] = {"status": status, "text": text.getvalue()}
        report(results)


if __name__ == "__main__":
    main()
