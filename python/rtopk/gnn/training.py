"""Full-batch training of one network, with checkpoints from which it goes on bit for bit."""

from __future__ import annotations

import contextlib
import json
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path

import torch
import torch.nn.functional as F

from .._info import __version__
from . import capture
from ._atomic import check_replaceable, locked, write_together, write_whole
from ._checkpoint import Checkpoint, digest, tensor_bytes
from ._checkpoint import read as read_checkpoint
from .data import Dataset
from .layers import MaxKGNN
from .recipe import Recipe, TrainingError, check_recipe

CHECKPOINT = "checkpoint.pt"
BEST = "best.pt"
RESULT = "result.json"


class Trainer:
    """A network, its optimizer, and where they are.

    A step of a small graph on a GPU is captured in the third: what it launches stays the same from then on, whatever is
    changed of the network, the learning rate or torch's settings. With `eager` none is.
    """

    def __init__(self, dataset: Dataset, recipe: Recipe, device: torch.device | str, *, eager: bool = False) -> None:
        check_recipe(recipe)
        self.recipe = recipe
        self.device = torch.device(device)
        dataset = dataset.to(self.device)
        self.data = dataset.with_graph(dataset.graph.with_self_loops()) if recipe.self_loops else dataset
        torch.manual_seed(recipe.seed)  # also of every GPU
        self.network = MaxKGNN(
            recipe.model,
            dataset.features.shape[1],
            recipe.hidden,
            dataset.classes,
            layers=recipe.layers,
            k=recipe.k,
            max_iter=recipe.max_iter,
            dropout=recipe.dropout,
            dense=recipe.baseline == "dense",
        ).to(self.device)
        gpu = self.device.type == "cuda"
        # Fused: one kernel instead of a dozen.
        self._optimizer_options = {"fused": gpu, "capturable": gpu}
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=recipe.lr, **self._optimizer_options)
        elements = self.data.graph.num_nodes * recipe.hidden * recipe.layers
        self._captures = not eager and capture.pays(self.device, elements)
        self._forget_captured()
        self.loss = _loss_on(self.data)
        self.epoch = 0
        self.history: list[dict] = []  # of the epochs that were evaluated
        self.best: dict | None = None  # that of them with the best validation
        self.best_state: dict[str, torch.Tensor] | None = None
        self.saved_in: dict[str, dict] = {}  # which files hold what of this run

    def step(self) -> torch.Tensor:
        """One epoch: forward, backward, update. Does not wait for the device."""
        if not self._captures or self._eager_steps_left > 0:
            self._eager_steps_left -= 1
            loss = self.eager_step()
        else:
            if self._captured is None:
                self._captured = capture.CapturedStep(self.eager_step, self.device)
            loss = self._captured()
        self.epoch += 1
        return loss

    def eager_step(self) -> torch.Tensor:
        """The same, every kernel launched from here, and not counted."""
        with matmul_precision(self.recipe.precision):
            self.network.train()
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss(self.network(self.data.features, self.data.graph))
            loss.backward()
            self.optimizer.step()
        return loss.detach()

    def _forget_captured(self) -> None:
        self._captured: capture.CapturedStep | None = None
        self._eager_steps_left = capture.EAGER_STEPS

    @torch.no_grad()
    def evaluate(self, loss: torch.Tensor) -> dict:
        """Scores of the three parts of the nodes; the best by validation is kept."""
        self.network.eval()
        with matmul_precision(self.recipe.precision):
            result = self.network(self.data.features, self.data.graph)
        parts = {"train": self.data.train, "validation": self.data.validation, "test": self.data.test}
        # Everything is asked of the device before anything is waited for.
        scores = {name: score(result[nodes], self.data.labels[nodes]) for name, nodes in parts.items()}
        entry = {"epoch": self.epoch, "loss": float(loss)} | {name: float(value) for name, value in scores.items()}
        if not torch.isfinite(loss):
            raise TrainingError(f"the loss is {float(loss)} in epoch {self.epoch}; a smaller --lr may help")
        self.history.append(entry)
        if self.best is None or entry["validation"] > self.best["validation"]:
            state = {name: value.clone() for name, value in self.network.state_dict().items()}
            self.best, self.best_state = entry, state
        return entry

    def due(self) -> bool:
        """Whether this epoch is one to be evaluated."""
        return self.epoch % self.recipe.eval_every == 0 or self.epoch == self.recipe.epochs

    # ---- Checkpoints ----

    def save(self, path: Path) -> None:
        write_whole(path, self.checkpoint())

    def checkpoint(self) -> memoryview:
        """The content of a checkpoint."""
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.device)
        return tensor_bytes(
            {
                "recipe": asdict(self.recipe),
                "graph": self.graph_facts(),
                "epoch": self.epoch,
                "network": self.network.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "random": random,
                "history": self.history,
                "best": self.best,
                "best_state": self.best_state,
            }
        )

    def check_replaces(self, path: Path) -> None:
        """Whether a new run may take the place of a checkpoint: that of the same run, finished, can be had again."""
        saved = read_checkpoint(path, self.device)
        other = problem = self._differs(saved)
        if problem is None and saved.recipe.epochs != self.recipe.epochs:
            problem = f"its epochs is {saved.recipe.epochs}, and this run's is {self.recipe.epochs}"
        if problem is None and saved.epoch < saved.recipe.epochs:
            problem = f"it was stopped after epoch {saved.epoch} of {saved.recipe.epochs}"
        if problem:
            accepted = "another --out" if other else "--resume, which goes on from it, or another --out"
            raise TrainingError(f"{path} is of a run that would be lost: {problem}; accepted: {accepted}")

    def resume(self, path: Path) -> None:
        """Goes on from a checkpoint of the same recipe and graph; there may be more epochs."""
        saved = read_checkpoint(path, self.device)
        if problem := self._differs(saved):
            raise TrainingError(f"{path} is a checkpoint of another run: {problem}")
        if saved.epoch > self.recipe.epochs:
            raise TrainingError(
                f"epochs is {self.recipe.epochs}, and {path} is after epoch {saved.epoch}; accepted: as many"
            )
        # All of it is checked before any of it is taken.
        network, best_state = saved.states(self.network)
        optimizer = saved.optimizer(self.optimizer.state_dict(), list(self.network.parameters()))
        random = saved.random_state("cpu", torch.get_rng_state())
        gpu_random = None
        if self.device.type == "cuda":
            gpu_random = saved.random_state("cuda", torch.cuda.get_rng_state(self.device))
        saved.take("random.cpu", lambda: torch.set_rng_state(random))
        if gpu_random is not None:
            saved.take("random.cuda", lambda: torch.cuda.set_rng_state(gpu_random, self.device))
        self._forget_captured()  # the optimizer's state is about to lie elsewhere
        self.network.load_state_dict(network)
        self.optimizer.load_state_dict(optimizer)
        self.epoch, self.history = saved.epoch, saved.history
        self.best, self.best_state = saved.best, best_state
        self.saved_in[CHECKPOINT] = {"epoch": saved.epoch, "sha256": saved.sha256}

    def _differs(self, saved: Checkpoint) -> str | None:
        for field in fields(Recipe):
            theirs, ours = getattr(saved.recipe, field.name), getattr(self.recipe, field.name)
            if field.name != "epochs" and theirs != ours:
                return f"its {field.name} is {theirs}, and this run's is {ours}"
        facts = self.graph_facts()
        return None if saved.graph == facts else f"its graph is {saved.graph}, and this run's is {facts}"

    def save_best(self, path: Path) -> None:
        """The parameters with the best validation, for MaxKGNN.load_state_dict."""
        write_whole(path, tensor_bytes(self.best_state))

    def save_run(self, out: Path, *, whole: bool, finished: bool) -> None:
        """Writes checkpoint (not where an epoch was broken off, and `whole` is false), best parameters and result. They
        take their places in this order, and only if there is room for all; the result says which of its files are of
        which epoch. So what is in the folder is of one save, or has a result from before."""
        files = {}
        if whole:
            files[CHECKPOINT] = (self.epoch, self.checkpoint())
        if self.best is not None:
            files[BEST] = (self.best["epoch"], tensor_bytes(self.best_state))
        try:
            self._save_files(out, files, finished)
        except OSError:
            # Where there is nothing from before, as much as there is room for.
            while files and not (out / RESULT).exists():
                files.pop(next(iter(files)))
                with contextlib.suppress(OSError):
                    self._save_files(out, files, False)
            raise

    def _save_files(self, out: Path, files: dict[str, tuple[int, memoryview]], finished: bool) -> None:
        facts = {name: {"epoch": epoch, "sha256": digest(content)} for name, (epoch, content) in files.items()}
        facts = self.saved_in | facts
        result = json.dumps(self.result() | {"finished": finished, "files": facts}, indent=1) + "\n"
        contents = {name: content for name, (_, content) in files.items()} | {RESULT: result.encode()}
        write_together([(out / name, content) for name, content in contents.items()])
        self.saved_in = facts

    def graph_facts(self) -> dict:
        graph = self.data.graph
        facts = {"name": self.data.name, "nodes": graph.num_nodes, "edges": graph.num_edges}
        return facts | {"features": self.data.features.shape[1], "classes": self.data.classes}

    def result(self) -> dict:
        """Everything about the run, for JSON."""
        return {
            "recipe": asdict(self.recipe),
            "graph": self.graph_facts(),
            "metric": "micro-F1" if self.data.multilabel else "accuracy",
            "epochs_done": self.epoch,
            "best": self.best,
            "history": self.history,
            "environment": environment(self.device),
        }


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Products of float32 matrices in this precision, then as before."""
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError as error:
        raise TrainingError(f"torch does not know its precision of products: {error}") from error
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _loss_on(data: Dataset) -> Callable[[torch.Tensor], torch.Tensor]:
    """The loss of the training nodes, of results for all: picking rows out would cost more, most of all backwards."""
    if not data.multilabel:
        target = torch.full_like(data.labels, -100)  # F.cross_entropy passes over these
        target[data.train] = data.labels[data.train]
        # Reduced by F.cross_entropy itself, it would be the work of a single block of a GPU.
        return lambda result: F.cross_entropy(result, target, reduction="none").sum() / len(data.train)
    share = torch.zeros_like(data.labels[:, :1])
    share[data.train] = 1 / (len(data.train) * data.classes)
    return lambda result: F.binary_cross_entropy_with_logits(result, data.labels, share, reduction="sum")


def score(result: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Accuracy; micro-F1 where a node may have several labels."""
    if labels.dim() == 1:
        return (result.argmax(1) == labels).float().mean()
    chosen, true = result > 0, labels > 0.5
    both = (chosen & true).sum()
    return 2 * both / (chosen.sum() + true.sum()).clamp(min=1)


def environment(device: torch.device) -> dict:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rtopk": __version__,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


# ---- The loop, for people ----


class Interruption:
    """Lets an epoch end before Ctrl-C, or SIGTERM, takes effect, so that what is saved is whole. A second one acts at
    once, but while results are being saved none does."""

    def __init__(self) -> None:
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
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        print("\nstopping after this epoch; Ctrl-C again stops at once", file=sys.stderr, flush=True)


# Seconds between two lines of progress where no terminal shows it in place, and between two checkpoints.
_REPORT_SECONDS = 5.0
_SAVE_SECONDS = 60.0


def train(trainer: Trainer, out: Path, *, show: bool = True, has_lock: bool = False) -> bool:
    """Trains to the end of the recipe, or to Ctrl-C. Leaves checkpoint.pt, best.pt and result.json in `out`, which is
    locked meanwhile; with `has_lock` the caller did that. Whether it reached the end."""
    with contextlib.nullcontext() if has_lock else locked(out):
        for name in (CHECKPOINT, BEST, RESULT):
            check_replaceable(out / name)  # before hours are spent
        return _train(trainer, out, show)


def _train(trainer: Trainer, out: Path, show: bool) -> bool:
    terminal = sys.stdout.isatty()
    start = reported = saved = time.monotonic()
    first = trainer.epoch
    between_epochs = False
    with Interruption() as interruption:
        try:
            while trainer.epoch < trainer.recipe.epochs and not interruption.asked:
                loss = trainer.step()
                if not trainer.due():
                    continue
                entry = trainer.evaluate(loss)
                now = time.monotonic()
                last = trainer.epoch == trainer.recipe.epochs
                if show and (terminal or last or len(trainer.history) == 1 or now - reported >= _REPORT_SECONDS):
                    pace = (now - start) / (trainer.epoch - first)
                    print(_progress(trainer, entry, pace), end="\r" if terminal and not last else "\n", flush=True)
                    reported = now
                # The first evaluation at once: a run that is killed early leaves something to go on from.
                if (len(trainer.history) == 1 or now - saved >= _SAVE_SECONDS) and not last:
                    interruption.saving = True
                    trainer.save_run(out, whole=True, finished=False)
                    interruption.saving = False
                    saved = now
            between_epochs = True
        finally:
            finished = between_epochs and trainer.epoch >= trainer.recipe.epochs
            if not interruption.saving:  # else that has just failed, and what was there before is still there
                interruption.saving = True
                trainer.save_run(out, whole=between_epochs, finished=finished)
    return finished


def _progress(trainer, entry, pace) -> str:
    return (
        f"epoch {entry['epoch']:>{len(str(trainer.recipe.epochs))}} of {trainer.recipe.epochs}"
        f"  loss {entry['loss']:.4f}  train {entry['train']:.4f}  validation {entry['validation']:.4f}"
        f"  test {entry['test']:.4f}  {pace * 1e3:.0f} ms an epoch"
    )
