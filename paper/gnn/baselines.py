#!/usr/bin/env python3
"""Times training steps beside those that people have today: python paper/gnn/baselines.py --help."""

# ruff: noqa: E402
from __future__ import annotations

import os

# PyTorch reads it when it is loaded. Without it, small tensors cut the memory of a layer's messages into pieces: the
# next layer did not find as much side by side, and a step that fits counted as out of memory.
ALLOCATOR = os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import argparse
import json
import sys
import time
from pathlib import Path

import torch

import pyg
from cell import TOLERANCES, measure_cell
from results import graph_facts
from rtopk._rules import RULES
from rtopk.gnn import load
from rtopk.gnn._atomic import check_replaceable, locked, write_whole
from rtopk.gnn._text import printable
from rtopk.gnn.cli import GRAPHS, add_shared_options, recipe_changes, run_command
from rtopk.gnn.data.generated import SHAPES
from rtopk.gnn.layers import MODELS
from rtopk.gnn.recipe import TrainingError, check_recipe, recipe_for
from rtopk.gnn.training import environment, find_device
from selections import selections

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from checkout import command_line, commit

RESULTS = "baselines.json"

DESCRIPTION = f"""\
Times training steps of every model on every graph. All variants of a model have the same recipe, graph and initial
parameters:

  torch.topk          the baseline: torch.topk, a mask, torch's sparse product of dense rows
  torch.topk unsorted the same with sorted=False
  exact, max_iter N   the same with only torch.topk replaced, by rtopk.topk: what the RTop-K paper measured
  compact             rtopk.gnn: compact rows from the selection to the sum over neighbours
  pyg edge_index, csr SAGEConv, GCNConv and GINConv of PyTorch Geometric after torch.topk and a scatter into zeros,
                      with the edges in either form. Left out if it is not installed

A speed-up in percent is the time of the step with torch.topk divided by that of the variant, less 1. Times are medians
of steps that take turns. On a GPU steps are launched kernel by kernel; only the compact step of a small graph is
captured as a CUDA graph, as in training. Top-k's time (topk_ms) is that of the selections of a step alone, all layers
in turn, on rows that this network makes. maxk_ms has the mask, its product and their derivative too. amdahl_percent is
what Amdahl's law gives from top-k's share of the step and from how much faster the selections alone became.

Exact variants must have the loss and the norm of the gradient of torch.topk's first step (without dropout), and the
same selected values; otherwise the exit status is 1. A variant that needs too much memory says so; the others go on.

{GRAPHS}
The folder --out gets {RESULTS}, written after each model. An older one is replaced.

examples:
  python paper/gnn/baselines.py --graph flickr-like --scale 0.01 --quick     # half a minute on a CPU
  python paper/gnn/baselines.py --hidden 256 --repetitions 3                 # all four sizes, for a GPU
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python paper/gnn/baselines.py",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",
    )
    integers = {"type": int, "metavar": "N"}
    graphs = ", ".join(SHAPES)
    parser.add_argument("--graph", nargs="+", default=list(SHAPES), metavar="NAME|PATH", help=f"default: {graphs}")
    parser.add_argument("--model", nargs="+", default=list(MODELS), choices=MODELS, help="default: all")
    parser.add_argument("--max-iter", nargs="*", help="default: 2 to 8; with --quick 2, 4 and 8", **integers)
    parser.add_argument("--repetitions", help="timed steps of each variant; default 5, with --quick 3", **integers)
    parser.add_argument("--quick", action="store_true", help="fewer max_iter and repetitions")
    add_shared_options(parser, default_out="gnn-baselines")
    parser.add_argument("--rule", nargs="+", default=list(RULES), choices=RULES, help="of --max-iter; default: both")
    parser.set_defaults(run=_run, out=Path("gnn-baselines"))
    return parser


def _run(arguments: argparse.Namespace) -> int:
    if arguments.max_iter is None:
        arguments.max_iter = [2, 4, 8] if arguments.quick else list(range(2, 9))
    if arguments.repetitions is None:
        arguments.repetitions = 3 if arguments.quick else 5
    if arguments.repetitions < 1:
        raise TrainingError(f"repetitions is {arguments.repetitions}; accepted: 1 or more")
    device = find_device(arguments.device)
    changes = recipe_changes(arguments) | {"rule": None, "seed": 0}
    for graph in arguments.graph:
        for model in arguments.model:
            check_recipe(recipe_for(Path(graph).name, model, **changes))  # before the first graph is loaded
            for max_iter in arguments.max_iter:
                check_recipe(recipe_for(Path(graph).name, model, **changes, max_iter=max_iter))
    if reason := pyg.missing():
        print(f"without PyTorch Geometric: {reason}", flush=True)
    with locked(arguments.out):
        check_replaceable(arguments.out / RESULTS)
        return _measure(arguments, changes, device)


def _measure(arguments: argparse.Namespace, changes: dict, device: torch.device) -> int:
    start = time.monotonic()
    facts = environment(device) | {"torch_geometric": pyg.version(), "date": time.strftime("%Y-%m-%d", time.gmtime())}
    facts |= {"allocator": ALLOCATOR, "commit": commit(), "command": command_line()}
    content = {"environment": facts, "repetitions": arguments.repetitions, "tolerances": TOLERANCES}
    content |= {"graphs": {}, "cells": []}
    compared = selections(arguments.max_iter, arguments.rule)
    wrong = []
    for graph in arguments.graph:
        dataset = load(graph, arguments.data, scale=arguments.scale, device=device)
        print(dataset, flush=True)
        content["graphs"][dataset.name] = graph_facts(dataset)
        for model in arguments.model:
            recipe = recipe_for(dataset.name, model, **changes, baseline="dense")
            cell = measure_cell(dataset, recipe, compared, device, arguments.repetitions)
            content["cells"].append(cell)
            write_whole(arguments.out / RESULTS, (json.dumps(content, indent=1) + "\n").encode())
            print(f"[{time.monotonic() - start:4.0f} s] {dataset.name} {model}{_share(cell)}", flush=True)
            for variant in cell["variants"]:
                print(f"  {variant['name']:28}{_line(variant)}", flush=True)
            wrong += _differences(cell)
    print(f"results: {printable(arguments.out / RESULTS)}")
    for text in wrong:
        print(f"error: {text}", file=sys.stderr)
    return 1 if wrong else 0


def _share(cell: dict) -> str:
    if "topk_share_percent" not in cell:
        return ""
    known = cell["published"]
    beside = f" (published: {known['topk_share_percent']:.2f} %)" if known else ""
    return f": top-k takes {cell['topk_share_percent']:.2f} % of the step with torch.topk{beside}"


def _line(variant: dict) -> str:
    if "error" in variant:
        return variant["error"]
    text = f"{variant['step_ms']:10.2f} ms"
    if "speedup_percent" in variant:
        text += f"{variant['speedup_percent']:+9.2f} %"
    if "amdahl_percent" in variant:
        text += f", Amdahl {variant['amdahl_percent']:+.2f} %"
    if "step_mib" in variant:
        text += f", {variant['step_mib']:,.0f} MiB"
    return text


def _differences(cell: dict) -> list[str]:
    where = f"{cell['graph']} {cell['model']}"
    texts = [
        f"{where}: {variant['name']} has another loss or gradient than torch.topk"
        for variant in cell["variants"]
        if not variant.get("agrees", True)
    ]
    if not cell.get("same_selection", True):
        texts.append(f"{where}: exact selection has other values than torch.topk")
    return texts


def main(argv: list[str] | None = None) -> int:
    return run_command(_parser().parse_args(argv))


if __name__ == "__main__":
    raise SystemExit(main())
