"""The examples run, on the CPU, in a smaller size, and end with their tables."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rtopk

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "python"
# Of everything else that warns nothing may come; this is what a package says that was built without Highway.
WARNINGS = "error,ignore:rtopk was built without Highway:UserWarning"
SMALL = {
    "sparse_autoencoder.py": ["--steps", "3", "--latents", "512", "--batch", "64"],
    "expert_router.py": ["--steps", "3", "--tokens", "500"],
    "gradient_sparsification.py": ["--steps", "12"],
    "sparse_attention.py": ["--steps", "3", "--tokens", "500", "--k", "32"],
    "nearest_neighbours.py": ["--vectors", "2000", "--queries", "20", "--lists", "16"],
    "graph_pooling.py": ["--steps", "10"],
}
# Those that torchrun starts, in two processes.
PARALLEL = {
    "tensor_parallel_topk.py": ["--steps", "3", "--latents", "500"],
}


def test_all_of_them_are_here():
    assert sorted([*SMALL, *PARALLEL]) == sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", [*SMALL, *PARALLEL])
def test_example(name):
    environment = os.environ | {"PYTHONPATH": str(Path(rtopk.__file__).parents[1]), "PYTHONWARNINGS": WARNINGS}
    command = [sys.executable, str(FOLDER / name), "--device", "cpu", *(SMALL | PARALLEL)[name]]
    if name in PARALLEL:
        environment |= {"OMP_NUM_THREADS": "1"}
        command[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 5
