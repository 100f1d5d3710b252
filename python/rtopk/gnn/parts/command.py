"""The command `partition`, and a training whose graph is in parts."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from .._atomic import locked
from .._text import printable
from ..data import load
from ..recipe import check_recipe, recipe_for
from ..training import CHECKPOINT, Interruption, begin, status_of, train
from ..training.files import check_all_replaceable
from .exchange import EXCHANGES
from .files import is_folder_of_parts, write_parts
from .group import Ranks
from .joining import TIMEOUT, joined, world_size
from .loading import load_part
from .partition import METHODS
from .trainer import PartTrainer

_PARTITION = """\
Cuts a graph into parts, one for each rank of a training, and writes them to a folder: a file for each part, and
parts.json. A rank of `train --graph FOLDER` reads its own part and no other. With pymetis installed METIS cuts the
graph so that few neighbours are apart; without it, parts are ranges of nodes.

examples:
  python -m rtopk.gnn partition --graph data/products --parts 4 --out parts/products-4
  torchrun --nproc-per-node 4 -m rtopk.gnn train --graph parts/products-4 --model sage --out runs/products
"""

_PARTS = """\
A folder that `partition` has made is read as it is. A whole graph is loaded by rank 0, which cuts it into OUT/parts-P
for P ranks. Later runs take these parts again, if they are of the same graph, cut the same way; else they are cut anew.
"""


def add_partition_command(commands) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    command = commands.add_parser(
        "partition", help="cut a graph into parts for several ranks", description=_PARTITION, formatter_class=raw
    )
    command.add_argument("--graph", required=True, metavar="NAME|PATH", help="the graph, as for train")
    command.add_argument("--parts", required=True, type=int, metavar="N", help="how many parts, one for each rank")
    command.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder for the parts")
    command.add_argument("--method", choices=METHODS, help="default: metis if pymetis is installed, else ranges")
    command.add_argument("--data", type=Path, metavar="FOLDER", help="folder with the graphs that --graph names")
    command.add_argument("--scale", type=float, default=1.0, metavar="X", help="size of generated graphs; default 1")
    command.set_defaults(run=_partition, less_memory="--method ranges needs less.")


def add_parts_options(parser: argparse.ArgumentParser) -> None:
    """The options of a training under torchrun."""
    group = parser.add_argument_group("ranks (under torchrun: each has a part of the nodes)", _PARTS)
    group.add_argument(
        "--exchange",
        choices=EXCHANGES,
        default="compact",
        help="how rows travel between ranks: compact, the default, or dense with their zeros, for comparison",
    )
    group.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"a rank that does not answer for so long counts as ended, but not while rank 0 cuts; default {TIMEOUT:g}",
    )


def _partition(arguments: argparse.Namespace) -> int:
    dataset = load(arguments.graph, arguments.data, scale=arguments.scale)
    print(f"{dataset}", flush=True)
    facts = write_parts(dataset, arguments.out, arguments.parts, arguments.method)
    print(f"{facts.parts} parts by {facts.method} in {printable(arguments.out)}")
    for number, file in enumerate(facts.files):
        own = f"{file['nodes']:,} nodes, {file['edges']:,} edges"
        print(f"part {number}: {own}, {file['boundary']:,} rows from other parts")
    return 0


def trains_in_parts(graph: str) -> bool:
    """Whether a training has several ranks, or a graph that is in parts."""
    return world_size() > 1 or is_folder_of_parts(graph)


def joined_by(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[Ranks]:
    """The ranks of torchrun, which must have been given the same options."""
    given = {name: value for name, value in vars(arguments).items() if name not in ("command", "run")}
    device, timeout = given.pop("device"), given.pop("timeout")
    return joined(device, timeout, {"--" + name.replace("_", "-"): value for name, value in given.items()})


def train_in_parts(arguments: argparse.Namespace, changes: dict) -> int:
    """`train` on the ranks of torchrun. Rank 0 writes the results and prints.

    Args:
        arguments: of the command line.
        changes: settings of the recipe that the command line gives.
    """
    with joined_by(arguments) as ranks, contextlib.ExitStack() as stack:

        def out_for(name: str) -> Path:
            return arguments.out or Path("runs") / recipe_for(name, arguments.model, **changes).run_name(name)

        ranks.together(lambda: check_recipe(recipe_for(Path(arguments.graph).name, arguments.model, **changes)))
        part, facts = load_part(
            arguments.graph,
            lambda: load(arguments.graph, arguments.data, scale=arguments.scale),
            lambda name: out_for(name) / f"parts-{ranks.world}",
            ranks,
            dense=arguments.exchange == "dense",
        )
        out, writes = out_for(facts.name), ranks.rank == 0
        if writes:
            print(f"{facts}; {ranks.world} ranks, {arguments.exchange} exchange", flush=True)
        ranks.together(lambda: _own(stack, out) if writes else None)
        recipe = recipe_for(facts.name, arguments.model, **changes)
        trainer = PartTrainer(part, facts, recipe, ranks)
        ranks.together(lambda: begin(trainer, out, arguments.resume, show=writes))
        ranks.agree({"the checkpoint": trainer.saved_in.get(CHECKPOINT)})
        interruption = stack.enter_context(Interruption(lasting=ranks.world > 1))
        finished = train(trainer, out if writes else None, show=writes, has_lock=True, interruption=interruption)
        return status_of(trainer, finished, show=writes)


def _own(stack: contextlib.ExitStack, out: Path) -> None:
    """Locks the folder, and finds now what the training could not replace."""
    stack.enter_context(locked(out))
    check_all_replaceable(out)
