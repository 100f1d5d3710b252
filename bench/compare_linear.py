#!/usr/bin/env python3
"""Times linear maps of dense float32 rows and their derivatives beside torch's, and compares the errors of both.

    python bench/compare_linear.py --json bench/results/linear-h200.json
    python bench/compare_linear.py --rows 89250 --inputs 500 --outputs 256

By default there are as many rows as four published graphs have nodes. `torch` multiplies in float32; `TF32` is torch
with factors rounded to TF32, which rtopk does not do. Times are medians in us with cold caches; the compared functions
alternate. An error is the root mean square of (result - exact) / (sum of magnitudes), where exact is computed in
float64, in units of 2^-24, half the resolution of float32. It is given for normal factors, and for factors in [0, 1),
whose errors do not cancel.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

import rtopk.gnn  # noqa: F401  # the operators
from checkout import command_line, commit
from clocks import interleaved

OPS = torch.ops.rtopk
GRAPHS = {"flickr": 89_250, "yelp": 716_847, "reddit": 232_965, "products": 2_449_029}
CHECKED_ROWS = 512
# The error of a correct result is below this.
MAX_ERROR = 16.0


def products(x, weight, grad):
    """The functions of rtopk and torch to compare, by name."""
    return {
        "product": (lambda: OPS._linear(x, weight, None), lambda: F.linear(x, weight)),
        "input gradient": (lambda: OPS._linear_input_gradient(grad, weight), lambda: grad @ weight),
        "weight gradient": (lambda: OPS._linear_weight_gradient(grad, x), lambda: grad.t() @ x),
    }


def exact(name, x, weight, grad):
    """Some rows of the exact result, of the sums of magnitudes, and their numbers."""
    if name == "weight gradient":
        rows = torch.arange(grad.shape[1], device=x.device)[::37]
        left, right = grad[:, rows].t(), x
    else:
        left, right = (x, weight.t()) if name == "product" else (grad, weight)
        rows = torch.randint(len(x), (CHECKED_ROWS,), device=x.device)
        left = left[rows]
    left, right = left.double(), right.double()
    return left @ right, left.abs() @ right.abs(), rows


def errors(name, factors):
    result, magnitude, rows = exact(name, *factors)
    functions = products(*factors)[name]
    off = [((function()[rows].double() - result) / magnitude).square().mean().sqrt().item() for function in functions]
    return [error * 2**24 for error in off]


def rounding(function):
    """The same function with factors rounded to TF32."""

    def rounded():
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        try:
            return function()
        finally:
            torch.backends.cuda.matmul.fp32_precision = "ieee"

    return rounded


def measure(rows, inputs, outputs, repeats):
    sizes = ((rows, inputs), (outputs, inputs), (rows, outputs))
    positive = [torch.rand(*size, device="cuda") for size in sizes]
    off = {name: {"positive": errors(name, positive)} for name in products(*positive)}
    del positive
    factors = [torch.randn(*size, device="cuda") for size in sizes]
    cells = {}
    for name, (ours, torchs) in products(*factors).items():
        off[name]["normal"] = errors(name, factors)
        for kind, (error, _) in off[name].items():
            if not error <= MAX_ERROR:
                sys.exit(f"{name} of {kind} factors is wrong: off by {error}")
        functions = {"rtopk": ours, "torch": torchs, "tf32": rounding(torchs)}
        times, _ = interleaved("cuda", {key: lambda f=f: [f] for key, f in functions.items()}, repeats)
        cells[name] = {
            "us": {key: parts[0] for key, parts in times.items()},
            "errors": {kind: dict(zip(("rtopk", "torch"), pair, strict=True)) for kind, pair in off[name].items()},
        }
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=int, nargs="+", default=list(GRAPHS.values()), help="default: those of the graphs"
    )
    parser.add_argument("--inputs", type=int, default=256, help="a multiple of 4; default %(default)s")
    parser.add_argument("--outputs", type=int, default=256, help="a multiple of 4; default %(default)s")
    parser.add_argument("--repeats", type=int, default=11, help="repetitions of every measurement; default %(default)s")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        sys.exit("a GPU of compute capability 9.0 is needed, for which these products are made")
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {arguments.inputs} x {arguments.outputs}")
    print(f"{'rows':>9} {'':16}{'torch':>9}{'rtopk':>9}{'ratio':>8}{'TF32':>9} |{'torch':>8}{'rtopk':>8}  errors")
    results = []
    for rows in arguments.rows:
        cells = measure(rows, arguments.inputs, arguments.outputs, arguments.repeats)
        results.append({"rows": rows, "inputs": arguments.inputs, "outputs": arguments.outputs, "terms": cells})
        for name, cell in cells.items():
            us, off = cell["us"], cell["errors"]
            print(
                f"{rows:9,} {name:16}{us['torch']:9.1f}{us['rtopk']:9.1f}{us['torch'] / us['rtopk']:7.2f}x"
                f"{us['tf32']:9.1f} |{off['normal']['torch']:8.3f}{off['normal']['rtopk']:8.3f}  normal"
                f"{off['positive']['torch']:8.3f}{off['positive']['rtopk']:8.3f}  positive",
                flush=True,
            )
        torch.cuda.empty_cache()
    if arguments.json is not None:
        facts = {
            "command": command_line(),
            "commit": commit(),
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
        }
        temporary = arguments.json.with_suffix(".tmp")
        temporary.write_text(json.dumps({**facts, "cells": results}, indent=1) + "\n")
        temporary.replace(arguments.json)


if __name__ == "__main__":
    main()
