"""The training loop: progress, saves and interruptions."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path

from .._atomic import locked
from .files import check_all_replaceable, save_run
from .trainer import Trainer


class Interruption:
    """Delays Ctrl-C and SIGTERM to the next place where the training can be saved whole. A second signal acts at once,
    except while results are being saved.

    Args:
        after: what ends there.
        lasting: a second signal does nothing. Under torchrun it need not be the user's: Ctrl-C reaches every rank, some
            batch systems signal every process, and torchrun then sends a signal of its own.
    """

    def __init__(self, after: str = "epoch", *, lasting: bool = False) -> None:
        self._after = after
        self._lasting = lasting
        self.asked = False
        self.saving = False
        self._previous: dict = {}

    def __enter__(self) -> Interruption:
        with contextlib.suppress(ValueError):  # not the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, *_) -> None:
        if self.saving:
            self.asked = True
            return
        if self.asked and self._lasting:
            return
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        again = "" if self._lasting else "; Ctrl-C again stops at once"
        print(f"\nstopping after this {self._after}{again}", file=sys.stderr, flush=True)


# Seconds between two lines of progress, if no terminal shows it in place, and between two saves.
_REPORT_SECONDS = 5.0
_SAVE_SECONDS = 60.0


def train(
    trainer: Trainer,
    out: Path | None,
    *,
    show: bool = True,
    has_lock: bool = False,
    interruption: Interruption | None = None,
) -> bool:
    """Trains to the end of the recipe, or to Ctrl-C. Leaves checkpoint.pt, best.pt and result.json in a folder.

    Args:
        trainer: what to train.
        out: the folder. It is locked until the function returns. None: another rank saves.
        show: print progress.
        has_lock: the caller has locked the folder.
        interruption: the caller's, which it has entered, and asks before it starts another training.

    Returns:
        Whether it reached the end of the recipe.
    """
    with contextlib.nullcontext() if has_lock or out is None else locked(out):
        if out is not None:
            check_all_replaceable(out)  # now, not after hours of training
        return _train(trainer, out, show, interruption)


def _train(trainer: Trainer, out: Path | None, show: bool, given: Interruption | None) -> bool:
    terminal = sys.stdout.isatty()
    start = reported = saved = time.monotonic()
    first = trainer.epoch
    whole, said = False, trainer.why_not_captured()
    with Interruption() if given is None else contextlib.nullcontext(given) as interruption:
        interruption.saving = False  # the training before has ended
        try:
            while trainer.epoch < trainer.recipe.epochs and not trainer.on_any_rank(interruption.asked):
                loss = trainer.step(lambda: interruption.asked)
                if show and (why := trainer.why_not_captured()) not in (None, said):
                    print(f"steps are not captured as CUDA graphs from now on: {why}", flush=True)
                    said = why
                if loss is None:
                    break
                if not trainer.due():
                    continue
                entry = trainer.evaluate(loss)
                now = time.monotonic()
                last = trainer.epoch == trainer.recipe.epochs
                if show and (terminal or last or len(trainer.history) == 1 or now - reported >= _REPORT_SECONDS):
                    pace = (now - start) / (trainer.epoch - first)
                    print(_progress(trainer, entry, pace), end="\r" if terminal and not last else "\n", flush=True)
                    reported = now
                # The first evaluation is saved at once: a run that is killed early can be resumed too.
                due = len(trainer.history) == 1 or now - saved >= _SAVE_SECONDS
                if due and not last and out is not None:
                    interruption.saving = True
                    save_run(trainer, out, whole=True, finished=False)
                    interruption.saving = False
                    saved = now
            whole = True
        finally:
            finished = whole and trainer.epoch >= trainer.recipe.epochs
            # If it is saving, a save has just failed, and the one before is still there.
            if out is not None and not interruption.saving:
                interruption.saving = True
                save_run(trainer, out, whole=whole, finished=finished)
    return finished


def _progress(trainer, entry, pace) -> str:
    return (
        f"epoch {entry['epoch']:>{len(str(trainer.recipe.epochs))}} of {trainer.recipe.epochs}"
        f"  loss {entry['loss']:.4f}  train {entry['train']:.4f}  validation {entry['validation']:.4f}"
        f"  test {entry['test']:.4f}  {pace * 1e3:.0f} ms an epoch"
    )
