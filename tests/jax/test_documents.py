"""Samples in docstrings and in the page on JAX, and what the package exports."""

import ctypes
import doctest
import json
import re
import subprocess
from pathlib import Path

import jax.numpy as jnp
import pytest

import rtopk.jax
from rtopk.jax import _approx, _library, _maxk, _rows, _topk

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("module", [rtopk.jax, _topk, _maxk, _approx, _rows], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    outcome = doctest.testmod(module, extraglobs={"jnp": jnp, "rtopk": rtopk})
    assert outcome.failed == 0 and outcome.attempted > 0


def test_examples_in_the_page(run_script):
    """All of the page's Python blocks, as one script, as typed."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "jax.md").read_text(), re.DOTALL)
    assert len(blocks) > 3
    run_script("\n".join(blocks))


def cells_after(text, header):
    """The rows of the table with this first column and these others."""
    lines = text.split(header, 1)[1].splitlines()[2:]
    end = next(number for number, line in enumerate(lines) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:end]]


def test_figures_of_the_page_are_the_measured_ones():
    page = (ROOT / "docs" / "jax.md").read_text()
    record = json.loads((ROOT / "bench" / "results" / "jax-cpu.json").read_text())
    measured = []
    for cell in record["cells"]:
        times = {name: f"{each / 1e3:.2f}" for name, each in cell["microseconds"].items()}
        name = f"{cell['rows']} x {cell['cols']}, {cell['k']}, {cell['dtype']}"
        times_lax, recall = f"{cell['times_lax']:.1f}", f"{cell['recall']['rtopk max_iter 4']:.3f}"
        exact = [name, times["lax.top_k"], times["rtopk"], times_lax, times["library"]]
        measured.append([*exact, times["rtopk max_iter 4"], recall])
    assert cells_after(page, "| rows x columns, k | lax.top_k, ms |") == measured
    small = [
        [f"{cell['rows']} x {cell['cols']}, {cell['k']}", *(f"{each:.0f}" for each in cell["microseconds"].values())]
        for cell in record["small"]
    ]
    assert cells_after(page, "| rows x columns, k | lax.top_k, us |") == small


def test_figures_of_a_gpu_are_the_measured_ones():
    page = (ROOT / "docs" / "jax.md").read_text()
    record = json.loads((ROOT / "bench" / "results" / "jax-h200.json").read_text())
    measured = []
    for cell in record["cells"]:
        times = cell["microseconds"]
        name = f"{cell['rows']} x {cell['cols']}, {cell['k']}, {cell['dtype']}"
        peers = [f"{times['lax.top_k']:.0f}", f"{times['lax.approx_max_k']:.0f}"]
        own = [f"{times['rtopk']:.1f}", f"{cell['times_lax']:.0f}", f"{times['library']:.1f}"]
        rest = [f"{cell['over_library']:.2f}", f"{times['copy']:.1f}", f"{times['rtopk max_iter 4']:.0f}"]
        measured.append([name, *peers, *own, *rest])
    assert cells_after(page, "| rows x columns, k | lax.top_k | lax.approx_max_k |") == measured


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
