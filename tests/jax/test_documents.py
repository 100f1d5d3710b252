"""Samples in docstrings and in the page on JAX, and what the package exports."""

import ctypes
import doctest
import re
import subprocess
from pathlib import Path

import jax.numpy as jnp
import pytest

import rtopk.jax
from rtopk.jax import _approx, _library, _maxk, _topk

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("module", [rtopk.jax, _topk, _maxk, _approx], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    outcome = doctest.testmod(module, extraglobs={"jnp": jnp, "rtopk": rtopk})
    assert outcome.failed == 0 and outcome.attempted > 0


def test_examples_in_the_page(run_script):
    """All of the page's Python blocks, as one script, as typed."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "jax.md").read_text(), re.DOTALL)
    assert len(blocks) > 3
    run_script("\n".join(blocks))


def test_attributes_are_those_of_the_handlers():
    """Both sides list the fields of one struct."""
    header = ROOT / "bindings" / "jax" / "selection.hpp"
    struct = re.search(r"struct Attributes \{(.*?)\};", header.read_text(), re.DOTALL).group(1)
    fields = re.findall(r"(std::int64_t|double) (\w+) =", struct)
    kinds = {"std::int64_t": ctypes.c_int64, "double": ctypes.c_double}
    assert [(name, kinds[kind]) for kind, name in fields] == list(_library.Attributes._fields_)


def test_the_library_exports_our_functions_alone():
    listed = subprocess.run(["nm", "-D", "--defined-only", str(_library.PATH)], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("nm is not installed")
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    declared = (ROOT / "bindings" / "jax" / "handlers.hpp").read_text()
    assert names == set(re.findall(r"(rtopk_jax_\w+)\(", declared))
