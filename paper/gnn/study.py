#!/usr/bin/env python3
"""Trains and times a grid of MaxK graph networks, and draws a page of it: python paper/gnn/study.py --help."""

from __future__ import annotations

import argparse
from pathlib import Path

import grid
from rtopk.gnn._text import printable
from rtopk.gnn.cli import GRAPHS, add_shared_options, recipe_changes, run_command
from rtopk.gnn.layers import MODELS
from rtopk.gnn.training import find_device

DESCRIPTION = f"""\
Trains every model on every graph with every kind of top-k and every seed, times a step of each, and writes a page with
the last table and figure of the RTop-K paper: top-k's share of a step, the speed-up by max_iter, accuracy with its
spread.

{GRAPHS}
Results are saved as they come, in results.json in the folder --out. The same command continues where it was stopped.
--page-only draws the page again from the results there.

examples:
  python paper/gnn/study.py --graph wordnet --model sage gcn gin
  python paper/gnn/study.py --graph cora coauthor-cs --data ~/graphs --seeds 5 --epochs 100 --time-limit 300
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python paper/gnn/study.py",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    integers = {"type": int, "metavar": "N"}
    parser.add_argument("--graph", nargs="+", default=["wordnet"], metavar="NAME|PATH", help="default: wordnet")
    parser.add_argument("--model", nargs="+", default=list(MODELS), choices=MODELS, help="default: all")
    parser.add_argument("--max-iter", nargs="*", default=list(range(2, 9)), help="default: 2 to 8", **integers)
    parser.add_argument("--seeds", default=5, help="number of seeds; default 5", **integers)
    parser.add_argument("--repetitions", default=20, help="timed steps of each kind; default 20", **integers)
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="start no training after this time")
    parser.add_argument("--page-only", action="store_true", help="draw the page from results.json, train nothing")
    add_shared_options(parser, default_out="gnn-study")
    parser.set_defaults(run=_run, out=Path("gnn-study"))
    return parser


def _run(arguments: argparse.Namespace) -> int:
    finished = True
    if not arguments.page_only:
        plan = grid.Plan(
            graphs=arguments.graph,
            models=arguments.model,
            max_iters=arguments.max_iter,
            seeds=arguments.seeds,
            repetitions=arguments.repetitions,
            changes=recipe_changes(arguments),
        )
        finished = grid.run(
            plan,
            arguments.out,
            device=find_device(arguments.device),
            data=arguments.data,
            scale=arguments.scale,
            time_limit=arguments.time_limit,
        )
    print(f"page: {printable(grid.draw(arguments.out))}")
    return 0 if finished else 130


def main(argv: list[str] | None = None) -> int:
    return run_command(_parser().parse_args(argv))


if __name__ == "__main__":
    raise SystemExit(main())
