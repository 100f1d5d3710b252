"""The command `paper`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from ..._rules import RULES
from .._atomic import check_replaceable, locked
from .._text import printable
from ..data import Dataset
from ..layers import MODELS
from ..recipe import TrainingError, check_recipe
from ..training import find_device
from .cells import TOP_KS, Cell, make_cells
from .estimate import duration
from .graphs import FOLDERS, describe, find_folders, missing_text, read_graph
from .run import estimate_all, train_all
from .table import RESULTS, TABLE, as_text, write_table

_DESCRIPTION = f"""\
Trains the last table of the RTop-K paper on the graphs that it names: every model on every graph, with torch.topk
(dense), with exact selection, and with searches that stop after 2 to 8 passes. Rows have 256 columns, of which MaxK
keeps 32. All else is as in MaxK-GNN: layers, dropout, learning rate and epochs of each graph, weights drawn by Xavier's
rule, matrix products in TF32 on a GPU, features as they are in the files.

--data has a folder for each graph. Graphs that are not there are skipped, and the output says so.
  flickr, yelp      GraphSAINT's files: adj_full.npz, feats.npy, class_map.json, role.json
  reddit            DGL's files: reddit_data.npz, reddit_graph.npz (114.6 million edges; GraphSAINT's has fewer)
  ogbn-products     the unpacked files of OGB: raw/*.csv.gz, split/; the folder may be called products

It times a few epochs of each graph and model first, and prints how long the whole will take. Every network has a folder
in --out, as `train` writes it. Ctrl-C saves and stops; --resume continues. At the end {TABLE} has the scores beside
the published ones.

examples:
  python -m rtopk.gnn paper --data ~/graphs --out runs/paper
  python -m rtopk.gnn paper --data ~/graphs --out runs/paper --resume
  python -m rtopk.gnn paper --data ~/graphs --graphs flickr --models sage --top-k exact 2 8 --epochs 50
"""


def add_paper_command(commands) -> None:
    parser = commands.add_parser(
        "paper",
        help="train the paper's table on the real graphs",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="folder with a folder for each graph"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/paper"), metavar="FOLDER", help="default runs/paper")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS, help="default: all")
    parser.add_argument("--graphs", nargs="+", default=list(FOLDERS), choices=FOLDERS, help="default: all")
    parser.add_argument(
        "--top-k",
        nargs="+",
        default=list(TOP_KS),
        type=_top_k,
        metavar="WHICH",
        help="dense, exact, passes; default: all",
    )
    parser.add_argument("--rule", choices=RULES, help="what a search that stops early selects; default threshold_first")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many, from 97 on; default 1")
    parser.add_argument("--epochs", type=int, metavar="N", help="fewer than MaxK-GNN's 400 to 3000, for a first look")
    parser.add_argument("--resume", action="store_true", help="continue what is in --out")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda or cuda:N; default: a GPU if rtopk can use one")
    parser.set_defaults(run=_run)


def _top_k(text: str) -> str:
    if text in ("dense", "exact"):
        return text
    try:
        return str(int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no kind of top-k; accepted: dense, exact, passes") from None


def _run(arguments: argparse.Namespace) -> int:
    device = find_device(arguments.device)
    if arguments.seeds < 1:
        raise TrainingError(f"seeds is {arguments.seeds}; accepted: 1 or more")
    folders, skipped = find_folders(arguments.data, list(dict.fromkeys(arguments.graphs)))
    changes = {"rule": arguments.rule, "epochs": arguments.epochs}
    out = arguments.out
    cells = make_cells(list(folders), arguments.models, arguments.top_k, arguments.seeds, out, **changes)
    for cell in cells:
        check_recipe(cell.recipe)  # loading may take minutes
    about_skipped = missing_text(arguments.data, skipped)
    with locked(out):
        for name in (TABLE, RESULTS):
            check_replaceable(out / name)
        if not arguments.resume:
            _check_new(cells)
        print(about_skipped, end="", flush=True)
        datasets = {}
        for graph, folder in folders.items():
            datasets[graph] = read_graph(graph, folder)
            print(describe(datasets[graph]), flush=True)
        finished = _train(cells, datasets, device, out)
        rows = write_table(out, cells, datasets, skipped, device)
    print(f"\ntest score in %, at the best validation; published: by the paper's authors\n{as_text(rows)}")
    print(about_skipped, end="")
    print(f"table: {printable(out / TABLE)}")
    print(f"page, in the sources of rtopk: python paper/gnn/study.py --page-only --out {printable(out)}")
    if not finished:
        print("stopped; the same command with --resume continues")
    return 0 if finished else 130


def _train(cells: list[Cell], datasets: dict[str, Dataset], device: torch.device, out: Path) -> bool:
    print("timing a few epochs of each graph and model", flush=True)
    seconds = estimate_all(cells, datasets, device)
    left = sum(cell.epochs_left > 0 for cell in cells)
    print(
        f"{left} of {len(cells)} networks to train, about {duration(seconds)} on {device}; results in {printable(out)}",
        flush=True,
    )
    try:
        return train_all(cells, datasets, device)
    except KeyboardInterrupt:  # the second Ctrl-C
        print()
        return False


def _check_new(cells: list[Cell]) -> None:
    if old := [cell for cell in cells if cell.checkpoint.exists()]:
        raise TrainingError(
            f"{old[0].folder} is of an earlier run, one of {len(old)}; accepted: --resume, which continues them, or"
            " another --out"
        )
