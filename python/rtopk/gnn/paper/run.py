"""Trains the cells of the table that have not finished, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import groupby

import torch

from ..data import Dataset
from ..recipe import TrainingError
from ..training import Interruption, Trainer, train
from .cells import Cell
from .estimate import duration, estimate


def _by_graph(
    cells: Sequence[Cell], datasets: dict[str, Dataset], device: torch.device
) -> Iterator[tuple[Dataset, list[Cell]]]:
    """The cells of each graph, with the graph on the device: one graph at a time lies there."""
    for graph, group in groupby(cells, lambda cell: cell.graph):
        yield datasets[graph].to(device), list(group)


def _look_at_saved(dataset: Dataset, cells: Sequence[Cell], device: torch.device) -> None:
    """Takes the epochs and scores that the folders of the cells have already; an error if they are of other runs."""
    for cell in cells:
        if cell.checkpoint.exists():
            _take(cell, _trainer_of(dataset, cell, device))


def _trainer_of(dataset: Dataset, cell: Cell, device: torch.device) -> Trainer:
    trainer = Trainer(dataset, cell.recipe, device)
    if cell.checkpoint.exists():
        trainer.resume(cell.checkpoint)
    return trainer


def _take(cell: Cell, trainer: Trainer) -> None:
    cell.epochs_done = trainer.epoch
    cell.best = trainer.best if cell.epochs_left == 0 else None


def estimate_all(cells: Sequence[Cell], datasets: dict[str, Dataset], device: torch.device) -> float:
    """The seconds that all cells will take from here."""
    total = 0.0
    all_seeds = [cell for graph in datasets for cell in cells if cell.graph == graph]
    for dataset, of_graph in _by_graph(all_seeds, datasets, device):
        _look_at_saved(dataset, of_graph, device)
        total += estimate(dataset, of_graph, device)
        del dataset  # before the next one is moved to the device
    return total


def train_all(cells: Sequence[Cell], datasets: dict[str, Dataset], device: torch.device) -> bool:
    """Trains the cells. A line for each: what it is at its beginning, what came out at its end. Returns False if Ctrl-C
    stopped it."""
    start, done = time.monotonic(), 0
    with Interruption() as interruption:
        for dataset, of_graph in _by_graph(cells, datasets, device):
            for cell in of_graph:
                done += 1
                if cell.epochs_left == 0:
                    continue
                if interruption.asked:
                    return False
                passed = duration(time.monotonic() - start)
                print(f"[{passed}] {done} of {len(cells)}  {cell.name}: ", end="", flush=True)
                print(_train_cell(dataset, cell, device, interruption), flush=True)
            del dataset  # before the next one is moved to the device
    return all(cell.epochs_left == 0 for cell in cells) or not interruption.asked


def _train_cell(dataset: Dataset, cell: Cell, device: torch.device, interruption: Interruption) -> str:
    """What came out."""
    try:
        trainer = _trainer_of(dataset, cell, device)
        finished = train(trainer, cell.folder, show=False, interruption=interruption)
    except TrainingError as error:
        return f"no result: {error}"  # the others may succeed
    _take(cell, trainer)
    if not finished:
        return f"stopped after epoch {trainer.epoch} of {cell.recipe.epochs}"
    return f"test {100 * cell.best['test']:.2f} % at epoch {cell.best['epoch']}"
