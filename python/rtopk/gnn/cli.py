"""The command line of rtopk.gnn."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import torch

from .._info import __version__
from . import study
from ._atomic import locked
from ._text import Refusal, printable
from .data import DATA_VARIABLE, load
from .layers import MODELS
from .recipe import PRECISIONS, check_recipe, recipe_for
from .training import CHECKPOINT, Trainer, train

_GRAPHS = f"""\
A graph is one of these:
  wordnet           117,659 synsets of WordNet 3.0 and their pointers, built from the Debian package wordnet-base
  flickr-like, yelp-like, reddit-like, products-like
                    generated, with the published sizes, skewed degrees and planted classes; --scale 0.01: smaller
  ogbn-products     through the package ogb, if it is installed
  a path            of an .npz file of plain arrays, a GraphSAINT folder (adj_full.npz, feats.npy, class_map.json,
                    role.json) or the unpacked files of ogbn-products
  a name            of one of these in the folder that --data or {DATA_VARIABLE} names
"""

_TRAIN = f"""\
Trains one network on all nodes at once: Adam without weight decay, LayerNorm in every layer. Flickr, Yelp, Reddit and
ogbn-products (and the generated graphs like them) have MaxK-GNN's own numbers of layers and epochs, rates of dropout
and learning; others have 3 layers, dropout 0.5, lr 0.003, 200 epochs. Options change any of them.

{_GRAPHS}
In the folder --out there are result.json (every figure), best.pt (the parameters with the best validation) and
checkpoint.pt, from which --resume goes on. They are saved after the first evaluation, then every minute, and at the
end. On a CPU, and on a GPU with --deterministic, a resumed run gives the same bits as one without a break. Ctrl-C or
SIGTERM ends the epoch, saves all of them and stops. A run that was stopped, or that has another recipe, is not written
over: --resume it, or give another --out. One run at a time writes to a folder.

examples:
  python -m rtopk.gnn train --graph wordnet --model sage --hidden 256 --k 32
  python -m rtopk.gnn train --graph wordnet --model sage --max-iter 4       # top-k stopped early
  python -m rtopk.gnn train --graph wordnet --model sage --baseline dense   # torch.topk, torch's sparse product
  python -m rtopk.gnn train --graph data/Flickr --model gcn --out runs/flickr --epochs 800 --resume
"""

_STUDY = f"""\
Trains every model on every graph with every kind of top-k and every seed, times a step of each, and writes a page with
the paper's last table and figure: top-k's share of a step, the speed-up with max_iter, accuracy with its spread.

{_GRAPHS}
Results are kept as they come in results.json in the folder --out; the same command goes on where it was stopped, and
--page-only draws the page again from what is there.

examples:
  python -m rtopk.gnn study --graph wordnet --model sage gcn gin
  python -m rtopk.gnn study --graph cora coauthor-cs --data ~/graphs --seeds 5 --epochs 100 --time-limit 300
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rtopk.gnn",
        description="MaxK graph networks on compact sparse rows: training, and a study of it.",
    )
    parser.add_argument("--version", action="version", version=f"rtopk {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter

    one = commands.add_parser("train", help="train one network", description=_TRAIN, formatter_class=raw)
    one.add_argument("--graph", required=True, metavar="NAME|PATH")
    one.add_argument("--model", required=True, choices=MODELS)
    one.add_argument("--max-iter", type=int, metavar="N", help="stop the top-k search after N passes; default: exact")
    one.add_argument("--baseline", choices=["dense"], help="without rtopk: torch.topk, a mask, torch's sparse product")
    one.add_argument("--seed", type=int, metavar="N", help="of parameters and dropout; default 97, as MaxK-GNN")
    one.add_argument("--resume", action="store_true", help="go on from checkpoint.pt in --out, if there is one")
    one.add_argument("--deterministic", action="store_true", help="only kernels with a fixed order of summation")
    _shared(one, "runs/GRAPH-MODEL-TOPK-seedN")
    one.set_defaults(run=_train, out=None)

    many = commands.add_parser("study", help="train and time a grid", description=_STUDY, formatter_class=raw)
    many.add_argument("--graph", nargs="+", default=["wordnet"], metavar="NAME|PATH", help="default: wordnet")
    many.add_argument("--model", nargs="+", default=list(MODELS), choices=MODELS, help="default: all")
    many.add_argument("--max-iter", nargs="*", type=int, default=list(range(2, 9)), metavar="N", help="default: 2 to 8")
    many.add_argument("--seeds", type=int, default=5, metavar="N", help="how many; default 5")
    many.add_argument("--repetitions", type=int, default=20, metavar="N", help="timed steps of each kind; default 20")
    many.add_argument("--time-limit", type=float, metavar="SECONDS", help="start no training after this time")
    many.add_argument("--page-only", action="store_true", help="draw the page from results.json, train nothing")
    _shared(many, "gnn-study")
    many.set_defaults(run=_study, out=Path("gnn-study"))
    return parser


def _shared(parser: argparse.ArgumentParser, default_out: str) -> None:
    where = parser.add_argument_group("where")
    where.add_argument("--out", type=Path, metavar="FOLDER", help=f"for results; default {default_out}")
    where.add_argument("--data", type=Path, metavar="FOLDER", help="with graphs that --graph names")
    where.add_argument("--scale", type=float, default=1.0, metavar="X", help="size of generated graphs; default 1")
    where.add_argument("--device", metavar="NAME", help="cpu, cuda or cuda:N; default: a GPU if rtopk can use one")
    recipe = parser.add_argument_group("recipe (Flickr, Yelp, Reddit and products have other defaults)")
    recipe.add_argument("--hidden", type=int, metavar="N", help="columns of the layers; default 256, Yelp 384")
    recipe.add_argument("--k", type=int, metavar="N", help="elements that MaxK keeps; default 32")
    recipe.add_argument("--layers", type=int, metavar="N", help="convolutions; default 3, Yelp and Reddit 4")
    recipe.add_argument("--dropout", type=float, metavar="P", help="probability to drop a kept element; default 0.5")
    recipe.add_argument("--lr", type=float, metavar="RATE", help="Adam's learning rate; default 0.003")
    recipe.add_argument("--epochs", type=int, metavar="N", help="steps, each on all nodes; default 200")
    recipe.add_argument(
        "--self-loops",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="an edge from every node to itself; default: yes, but not with SAGE on products",
    )
    recipe.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="of products of float32 matrices: high lets a GPU round their factors to TF32, medium to bfloat16 where it"
        " can; default highest",
    )
    recipe.add_argument("--eval-every", type=int, metavar="N", help="epochs between two evaluations; default 1")


_RECIPE = ("hidden", "k", "layers", "dropout", "lr", "epochs", "self_loops", "eval_every", "precision")


def _changes(arguments: argparse.Namespace, *more: str) -> dict:
    return {name: getattr(arguments, name) for name in (*_RECIPE, *more)}


def _train(arguments: argparse.Namespace) -> int:
    device = study.find_device(arguments.device)
    changes = _changes(arguments, "max_iter", "baseline", "seed")
    check_recipe(recipe_for(Path(arguments.graph).name, arguments.model, **changes))  # loading may take minutes
    if arguments.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS wants it said before its first product
        torch.use_deterministic_algorithms(True)
    dataset = load(arguments.graph, arguments.data, scale=arguments.scale, device=device)
    print(dataset, flush=True)
    recipe = recipe_for(dataset.name, arguments.model, **changes)
    label = recipe.selection.replace(" ", "-")
    name = dataset.name.replace(" ", "")
    out = arguments.out or Path("runs") / f"{name}-{recipe.model}-{label}-seed{recipe.seed}"
    trainer = Trainer(dataset, recipe, device)
    with locked(out):
        finished = _train_in(out, trainer, arguments.resume)
    metric = trainer.result()["metric"]
    if trainer.best is None:
        print(f"stopped after epoch {trainer.epoch}, before the first evaluation; --resume goes on")
        return 130
    best = trainer.best
    stopped = "" if finished else f", stopped after epoch {trainer.epoch}; --resume goes on"
    print(
        f"test {metric} {best['test']:.4f} at the best validation {metric} {best['validation']:.4f} (epoch"
        f" {best['epoch']} of {recipe.epochs}{stopped})"
    )
    return 0 if finished else 130


def _train_in(out: Path, trainer: Trainer, resume: bool) -> bool:
    checkpoint, recipe = out / CHECKPOINT, trainer.recipe
    if not checkpoint.exists():
        if resume:
            print(f"there is no {printable(checkpoint)}: from the beginning")
    elif resume:
        trainer.resume(checkpoint)
        print(f"going on after epoch {trainer.epoch}")
    else:
        trainer.check_replaces(checkpoint)
    print(
        f"{recipe.model}, {recipe.layers} layers of {recipe.hidden}, k {recipe.k}, top-k {recipe.selection}, on"
        f" {trainer.device}; results in {printable(out)}",
        flush=True,
    )
    return train(trainer, out, has_lock=True)


def _study(arguments: argparse.Namespace) -> int:
    if arguments.page_only:
        print(f"page: {printable(study.draw(arguments.out))}")
        return 0
    plan = study.Plan(
        graphs=arguments.graph,
        models=arguments.model,
        max_iters=arguments.max_iter,
        seeds=arguments.seeds,
        repetitions=arguments.repetitions,
        changes=_changes(arguments),
    )
    finished = study.run(
        plan,
        arguments.out,
        device=study.find_device(arguments.device),
        data=arguments.data,
        scale=arguments.scale,
        time_limit=arguments.time_limit,
    )
    print(f"page: {printable(study.draw(arguments.out))}")
    return 0 if finished else 130


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        return arguments.run(arguments)
    except (Refusal, OSError) as error:
        print(f"error: {printable(error)}", file=sys.stderr)
        return 1
    except (RuntimeError, MemoryError) as error:
        # torch's for a GPU is one of its own, its for a CPU is none.
        out_of_memory = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "CPUAllocator" in str(error)
        if not out_of_memory:
            raise
        reason = str(error).splitlines()[0] if str(error) else "there is not enough memory."
        print(f"error: {printable(reason)} A smaller --hidden, --k or --scale needs less.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
