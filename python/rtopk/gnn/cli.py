"""The command line of rtopk.gnn."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from .._info import __version__
from .._rules import RULES
from ._atomic import locked
from ._text import Refusal, printable
from .batches.command import add_sampling_options, train_sampled
from .data import DATA_VARIABLE, load
from .initialization import INITIALIZATIONS
from .layers import MODELS
from .paper.command import add_paper_command
from .parts.command import add_partition_command, add_parts_options, train_in_parts, trains_in_parts
from .recipe import PRECISIONS, check_recipe, recipe_for
from .training import Trainer, begin, find_device, status_of, train

GRAPHS = f"""\
A graph is one of these:
  wordnet           117,659 synsets of WordNet 3.0 and their pointers, built from the Debian package wordnet-base
  flickr-like, yelp-like, reddit-like, products-like
                    generated, with the published sizes, skewed degrees and planted classes; --scale 0.01: smaller
  ogbn-products     through the package ogb, if it is installed
  a path            of an .npz file of plain arrays, a GraphSAINT folder (adj_full.npz, feats.npy, class_map.json,
                    role.json), DGL's Reddit (reddit_data.npz, reddit_graph.npz) or the unpacked files of ogbn-products
  a name            of one of these in the folder that --data or {DATA_VARIABLE} names
  a folder          of parts, which `partition` has made: under torchrun each rank reads one
"""

_TRAIN = f"""\
Trains one network on all nodes at once, with Adam without weight decay and a LayerNorm in every layer. Flickr, Yelp,
Reddit and ogbn-products, and the generated graphs like them, are trained with MaxK-GNN's published settings. Other
graphs have 3 layers, dropout 0.5, lr 0.003 and 200 epochs. Options change any of these.

{GRAPHS}
The folder --out gets result.json (all figures), best.pt (the parameters with the best validation score) and
checkpoint.pt, from which --resume continues. They are saved after the first evaluation, then every minute, and at the
end. On a CPU, and on a GPU with --deterministic, a resumed run gives the same bits as one without a break. Ctrl-C or
SIGTERM finishes the epoch, or with --sample the mini-batch, saves all of them and stops. A run that was stopped, or
that has another recipe, is not overwritten: --resume it, or give another --out. Only one run at a time may write to a
folder.

examples:
  python -m rtopk.gnn train --graph wordnet --model sage --hidden 256 --k 32
  python -m rtopk.gnn train --graph wordnet --model sage --max-iter 4       # top-k stopped early
  python -m rtopk.gnn train --graph wordnet --model sage --baseline dense   # torch.topk, torch's sparse product
  python -m rtopk.gnn train --graph data/Flickr --model gcn --out runs/flickr --epochs 800 --resume
  torchrun --nproc-per-node 4 -m rtopk.gnn train --graph wordnet --model sage   # in parts, one for each rank
  python -m rtopk.gnn train --graph wordnet --model sage --sample 15,10,5 --batch 1024   # by sampled neighbourhoods
"""

_STUDY = "the study has moved out of the package; accepted: python paper/gnn/study.py, in the sources of rtopk"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rtopk.gnn",
        description="MaxK graph networks on compact sparse rows.",
    )
    parser.add_argument("--version", action="version", version=f"rtopk {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter

    one = commands.add_parser("train", help="train one network", description=_TRAIN, formatter_class=raw)
    one.add_argument("--graph", required=True, metavar="NAME|PATH", help="the graph to train on, see above")
    one.add_argument("--model", required=True, choices=MODELS, help="the kind of convolution")
    one.add_argument("--max-iter", type=int, metavar="N", help="stop the top-k search after N passes; default: exact")
    one.add_argument("--baseline", choices=["dense"], help="without rtopk: torch.topk, a mask, torch's sparse product")
    one.add_argument("--seed", type=int, metavar="N", help="seed of parameters and dropout; default 97, as MaxK-GNN")
    one.add_argument("--resume", action="store_true", help="continue from checkpoint.pt in --out, if there is one")
    one.add_argument("--deterministic", action="store_true", help="use only kernels with a fixed order of summation")
    add_shared_options(one, default_out="runs/GRAPH-MODEL-SELECTION-seedN")
    add_sampling_options(one)
    add_parts_options(one)
    one.set_defaults(run=_train)
    add_partition_command(commands)
    add_paper_command(commands)
    return parser


def add_shared_options(parser: argparse.ArgumentParser, default_out: str) -> None:
    """The options of every command that trains: where to read and write, and the recipe."""
    where = parser.add_argument_group("where")
    where.add_argument("--out", type=Path, metavar="FOLDER", help=f"folder for results; default {default_out}")
    where.add_argument("--data", type=Path, metavar="FOLDER", help="folder with the graphs that --graph names")
    where.add_argument("--scale", type=float, default=1.0, metavar="X", help="size of generated graphs; default 1")
    where.add_argument("--device", metavar="NAME", help="cpu, cuda or cuda:N; default: a GPU if rtopk can use one")
    recipe = parser.add_argument_group("recipe (Flickr, Yelp, Reddit and products have other defaults)")
    recipe.add_argument("--hidden", type=int, metavar="N", help="columns of the hidden rows; default 256, Yelp 384")
    recipe.add_argument("--k", type=int, metavar="N", help="elements of a row that MaxK keeps; default 32")
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
        help="of float32 matrix products: high lets a GPU round their factors to TF32, medium to bfloat16 if it can;"
        " default highest",
    )
    recipe.add_argument(
        "--initialization",
        choices=INITIALIZATIONS,
        help="how weights are drawn: torch's own way, the default, or Xavier's",
    )
    recipe.add_argument(
        "--rule", choices=RULES, help="what a search that --max-iter stops selects; default threshold_first"
    )
    recipe.add_argument("--eval-every", type=int, metavar="N", help="epochs between two evaluations; default 1")


_RECIPE = ("hidden", "k", "layers", "dropout", "lr", "epochs", "self_loops")
_RECIPE += ("rule", "eval_every", "precision", "initialization")


def recipe_changes(arguments: argparse.Namespace, *more: str) -> dict:
    """The settings of the recipe that the options give, and those named in `more`."""
    return {name: getattr(arguments, name) for name in (*_RECIPE, *more)}


def _train(arguments: argparse.Namespace) -> int:
    changes = recipe_changes(arguments, "max_iter", "baseline", "seed", "sample", "batch", "capture", "store")
    if arguments.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it before its first product
        torch.use_deterministic_algorithms(True)
    if arguments.sample is not None:
        return train_sampled(arguments, changes)
    if trains_in_parts(arguments.graph):
        return train_in_parts(arguments, changes)
    device = find_device(arguments.device)
    check_recipe(recipe_for(Path(arguments.graph).name, arguments.model, **changes))  # loading may take minutes
    dataset = load(arguments.graph, arguments.data, scale=arguments.scale, device=device)
    print(dataset, flush=True)
    recipe = recipe_for(dataset.name, arguments.model, **changes)
    out = arguments.out or Path("runs") / recipe.run_name(dataset.name)
    trainer = Trainer(dataset, recipe, device)
    with locked(out):
        begin(trainer, out, arguments.resume)
        finished = train(trainer, out, has_lock=True)
    return status_of(trainer, finished)


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["study"]:
        print(f"error: {_STUDY}", file=sys.stderr)
        return 2
    return run_command(_parser().parse_args(argv))


def run_command(arguments: argparse.Namespace) -> int:
    """Calls `arguments.run`, and reports what users can do something about as one line. Returns the exit status."""
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except (Refusal, OSError) as error:
        print(f"error: {printable(error)}", file=sys.stderr)
        return 1
    except (RuntimeError, MemoryError) as error:
        # CUDA raises OutOfMemoryError; the CPU allocator a plain RuntimeError.
        out_of_memory = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "CPUAllocator" in str(error)
        if not out_of_memory:
            raise
        reason = str(error).splitlines()[0] if str(error) else "there is not enough memory."
        advice = getattr(arguments, "less_memory", "A smaller --hidden, --k or --scale needs less.")
        print(f"error: {printable(reason)} {advice}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
