"""A training by sampled neighbourhoods from the command line, on one rank or on those of torchrun."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

import torch

from .._atomic import locked
from ..data import Dataset, load
from ..data.generated import SHAPES
from ..parts import Ranks
from ..parts.command import joined_by
from ..recipe import STORES, check_recipe, recipe_for
from ..training import CHECKPOINT, Interruption, begin, status_of, train
from ..training.files import check_all_replaceable
from .store import data_device, why_on_host
from .trainer import SampledTrainer

# Where --capture captures steps.
_CAPTURED = "one rank on a GPU, and with sage or gin --no-self-loops or a graph without self loops of its own"


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("mini-batches (an epoch is then a pass over the training nodes)")
    group.add_argument(
        "--sample",
        metavar="N,N,...",
        help="train by sampled neighbourhoods: for each layer, first the one nearest to the result, how many neighbours"
        " of a node to pick, such as 15,10,5; -1: all. Scores are those of the whole graph",
    )
    group.add_argument(
        "--batch", type=int, metavar="N", help="nodes of a mini-batch, on each rank under torchrun; default 1024"
    )
    group.add_argument(
        "--store",
        choices=STORES,
        help="where graph and features stay: on the device of the training, or in the memory of the host. There"
        " neighbourhoods are sampled then, and the rows of each mini-batch are copied to the device. Default: host if"
        " they would take more than half of the device's memory. Not with --capture",
    )
    group.add_argument(
        "--capture",
        action="store_true",
        default=None,
        help="replay steps as CUDA graphs, with sizes of mini-batches rounded up: the same results to rounding, but"
        f" dropout draws other numbers. It needs {_CAPTURED}; otherwise steps are computed eagerly, and a line says"
        " why",
    )


def train_sampled(arguments: argparse.Namespace, changes: dict) -> int:
    """`train --sample`. Under torchrun every rank has the whole graph and a share of every step's nodes; rank 0 writes
    the results and prints.

    Args:
        arguments: of the command line.
        changes: settings of the recipe that the command line gives.
    """
    with joined_by(arguments) as ranks, contextlib.ExitStack() as stack:

        def recipe_of(name: str):
            recipe = recipe_for(name, arguments.model, **changes)
            check_recipe(recipe)
            return recipe

        arguments.less_memory = "--store host, or a smaller --hidden, --k or --batch needs less."
        ranks.together(lambda: recipe_of(Path(arguments.graph).name))  # loading may take minutes
        # Generated graphs depend on the device that makes them.
        device = ranks.device if arguments.graph in SHAPES else torch.device("cpu")
        dataset = ranks.together(lambda: load(arguments.graph, arguments.data, scale=arguments.scale, device=device))
        if arguments.store is None and not arguments.capture and (why := _why_on_host(dataset, ranks)):
            changes = changes | {"store": "host"}
            if ranks.rank == 0:
                print(f"graph and features stay on the host: {why}; --store device puts them there", flush=True)
        recipe = ranks.together(lambda: recipe_of(dataset.name))
        dataset = dataset.to(data_device(recipe, ranks.device))
        out, writes = arguments.out or Path("runs") / recipe.run_name(dataset.name), ranks.rank == 0
        if writes:
            print(
                f"{dataset}; mini-batches of {recipe.batch}, sampled {recipe.sample}, {ranks.world} ranks", flush=True
            )
        ranks.together(lambda: _own(stack, out) if writes else None)
        trainer = SampledTrainer(dataset, recipe, ranks)
        if writes and (why := trainer.why_not_captured()):
            print(f"--capture: steps are not captured: {why}; accepted: {_CAPTURED}", flush=True)
        ranks.agree({f"the graph's {name}": value for name, value in trainer.graph_facts().items()})
        ranks.together(lambda: begin(trainer, out, arguments.resume, show=writes))
        ranks.agree({"the checkpoint": trainer.saved_in.get(CHECKPOINT)})
        interruption = stack.enter_context(Interruption("mini-batch", lasting=ranks.world > 1))
        finished = train(trainer, out if writes else None, show=writes, has_lock=True, interruption=interruption)
        return status_of(trainer, finished, show=writes)


def _why_on_host(dataset: Dataset, ranks: Ranks) -> str | None:
    """Why graph and features do not go to the device of some rank; None: they do. The same on every rank."""
    return next(filter(None, ranks.gather(why_on_host(dataset, ranks.device))), None)


def _own(stack: contextlib.ExitStack, out: Path) -> None:
    """Locks the folder, and finds now what the training could not replace."""
    stack.enter_context(locked(out))
    check_all_replaceable(out)
