"""In a torch that lacks a private name, rtopk takes the public way. hidden_names.py hides each name, and runs tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rtopk import _torch_internals
from rtopk._torch_internals import NAMES, may_have_hooks

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

# Tests of what comes out, not of how it comes about, which is what the names change.
BRIEF = (
    ["test_topk.py", "test_forms.py", "test_writing.py", "test_rows.py", "test_segments.py", "test_serving.py"],
    "with_ties or nan_infinities or test_errors or test_forms or test_out or test_thresholds",
)
# Gradients of every kind, vmap, a compiled call, and layers: for one name of each public way. Most names have the same.
THOROUGH = (
    [*BRIEF[0], "test_autograd.py", "test_transforms.py", "test_rows_recorded.py", "test_gnn_layers.py"],
    f"{BRIEF[1]} or (test_gradcheck and (maxk or compact)) or test_forward_mode or test_topk_keeps_its_indices_alone"
    " or test_vmap or test_functional_transforms or test_torch_func or test_compiled_out"
    " or (test_layers and plain-cpu-7)",
)
ONE_OF_EACH = (
    "_C._are_functorch_transforms_active",
    "_C._len_torch_dispatch_stack",
    "_ops.OpOverload.redispatch",
    "autograd.forward_ad._current_level",
)


@pytest.fixture(scope="module")
def outcomes():
    """By name: whether the tests passed without it. And everything that was printed."""
    todo = {}
    for name in NAMES:
        files, chosen = THOROUGH if name in ONE_OF_EACH else BRIEF
        todo[name] = [*files, "-k", chosen]
    # Children are forked: there may be no other threads, and a GPU's runtime has some.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    line = [sys.executable, str(HERE / "hidden_names.py"), json.dumps(todo)]
    done = subprocess.run(line, env=environment, cwd=HERE, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    lines = (text.split() for text in done.stdout.splitlines())
    return {words[1]: words[0] == "0" for words in lines if len(words) == 2 and words[1] in NAMES}, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_without(name, outcomes):
    passed, output = outcomes
    assert passed[name], output[-8000:]


def test_this_torch_has_them_all():
    assert [name for name in NAMES if _torch_internals._found[name] is None] == []


def test_private_names_are_in_one_file():
    folder = Path(_torch_internals.__file__).parent
    private = (
        "torch._C",
        "torch._check",
        "forward_ad._",
        ".redispatch(",
        "._schema",
        "._destroy",
        "_dynamo",
        "PrivateUse3",
    )
    for path in folder.rglob("*.py"):
        if path.name != "_torch_internals.py":
            text = path.read_text()
            assert [name for name in private if name in text] == [], path


def test_hooks_that_cannot_be_seen_count():
    module = torch.nn.Linear(2, 2)
    assert not may_have_hooks(module)
    del module.__dict__["_backward_pre_hooks"]
    assert may_have_hooks(module)
