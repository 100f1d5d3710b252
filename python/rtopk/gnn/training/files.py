"""The files that a training leaves in its folder: checkpoint, best parameters and result."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from .._atomic import check_replaceable, write_together
from .checkpoint import CHECKPOINT, digest, tensor_bytes
from .trainer import Trainer

BEST = "best.pt"
RESULT = "result.json"


def check_all_replaceable(out: Path) -> None:
    """An OSError if the folder has something that a training could not replace."""
    for name in (CHECKPOINT, BEST, RESULT):
        check_replaceable(out / name)


def save_run(trainer: Trainer, out: Path, *, whole: bool, finished: bool) -> None:
    """Writes the checkpoint, the best parameters and the result.

    They take their places in this order, and only if the disk has room for all of them. The result says of which epoch
    each file is. So at any time the folder holds the files of one save, or newer ones beside the result of the save
    before.

    Args:
        trainer: what to save.
        out: the folder.
        whole: False if the training ended where it cannot continue, as in the middle of an update: the checkpoint is
            left out.
        finished: what the result says about the run.
    """
    files = {}
    if whole:
        files[CHECKPOINT] = (trainer.epoch, trainer.checkpoint())
    if trainer.best is not None:
        files[BEST] = (trainer.best["epoch"], tensor_bytes(trainer.best_state))
    try:
        _write(trainer, out, files, finished)
    except OSError:
        # If the folder holds no earlier save, write as much as there is room for.
        while files and not (out / RESULT).exists():
            files.pop(next(iter(files)))
            with contextlib.suppress(OSError):
                _write(trainer, out, files, False)
        raise


def _write(trainer: Trainer, out: Path, files: dict[str, tuple[int, memoryview]], finished: bool) -> None:
    facts = {name: {"epoch": epoch, "sha256": digest(content)} for name, (epoch, content) in files.items()}
    facts = trainer.saved_in | facts
    result = json.dumps(trainer.result() | {"finished": finished, "files": facts}, indent=1) + "\n"
    contents = {name: content for name, (_, content) in files.items()} | {RESULT: result.encode()}
    write_together([(out / name, content) for name, content in contents.items()])
    trainer.saved_in = facts
