"""A training from the command line: how it begins, and what is said at its end."""

from __future__ import annotations

from pathlib import Path

from .._text import printable
from .checkpoint import CHECKPOINT
from .trainer import Trainer


def begin(trainer: Trainer, out: Path, resume: bool, *, show: bool = True) -> None:
    """Continues from the checkpoint in a folder, if that is asked for. An error if a run there would be lost."""
    checkpoint, recipe = out / CHECKPOINT, trainer.recipe
    found = checkpoint.exists()
    if found and resume:
        trainer.resume(checkpoint)
    elif found:
        trainer.check_replaces(checkpoint)
    if not show:
        return
    if found and resume:
        print(f"continuing after {trainer.position()}")
    elif resume:
        print(f"there is no {printable(checkpoint)}: starting from the beginning")
    print(
        f"{recipe.model}, {recipe.layers} layers of {recipe.hidden}, k {recipe.k}, top-k {recipe.top_k}, on"
        f" {trainer.device}; results in {printable(out)}",
        flush=True,
    )


def status_of(trainer: Trainer, finished: bool, *, show: bool = True) -> int:
    """The exit status of a training that has ended. Prints its scores."""
    if trainer.best is None:
        text = f"stopped after {trainer.position()}, before the first evaluation; --resume continues"
    else:
        best, metric = trainer.best, trainer.data.metric
        stopped = "" if finished else f", stopped after {trainer.position()}; --resume continues"
        text = (
            f"test {metric} {best['test']:.4f} at the best validation {metric} {best['validation']:.4f} (epoch"
            f" {best['epoch']} of {trainer.recipe.epochs}{stopped})"
        )
    if show:
        print(text)
    return 0 if finished else 130
