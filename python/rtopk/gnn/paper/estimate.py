"""How long the cells will take, from a few epochs of each graph and model."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from ..capture import EAGER_STEPS
from ..data import Dataset
from ..recipe import Recipe
from ..training import Trainer
from .cells import Cell

_TIMED = 2  # epochs


def seconds_of_an_epoch(dataset: Dataset, recipe: Recipe, device: torch.device) -> float:
    """The mean time of a step and an evaluation, after what is done only once: transposes, and a captured step."""
    trainer = Trainer(dataset, recipe, device)
    for _ in range(EAGER_STEPS + 1 if device.type == "cuda" else 1):
        trainer.evaluate(trainer.step())
    start = time.perf_counter()
    for _ in range(_TIMED):
        trainer.evaluate(trainer.step())  # waits for the device
    return (time.perf_counter() - start) / _TIMED


def estimate(dataset: Dataset, cells: Sequence[Cell], device: torch.device) -> float:
    """The seconds that the cells of one graph will take. Prints a line for each model. One kind of top-k stands for all
    of them, since they take about as long; the dense baseline is timed by itself."""
    total = 0.0
    for model in dict.fromkeys(cell.recipe.model for cell in cells):
        texts, seconds = [], 0.0
        for baseline in ("dense", None):
            left = [cell for cell in cells if (cell.recipe.model, cell.recipe.baseline) == (model, baseline)]
            left = [cell for cell in left if cell.epochs_left]
            if left:
                epoch = seconds_of_an_epoch(dataset, left[0].recipe, device)
                seconds += epoch * sum(cell.epochs_left for cell in left)
                texts.append(f"{len(left)} {'dense' if baseline else 'with rtopk'} at {epoch * 1e3:.3g} ms an epoch")
        print(f"  {dataset.name} {model}: {' and '.join(texts) or 'nothing left'}, {duration(seconds)}", flush=True)
        total += seconds
    return total


def duration(seconds: float) -> str:
    """Two units, of which the first is not zero: 2 h 5 min."""
    whole = round(seconds)
    parts = ((whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    first = next((i for i, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2])
