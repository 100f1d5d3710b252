"""Full-batch training of one network, with checkpoints from which it goes on bit for bit."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import torch
import torch.nn.functional as F

from .._info import __version__
from . import capture
from .data import Dataset
from .layers import MaxKGNN

_MOST_COLUMNS = 1 << 16  # that a selector tells apart
_MOST_PASSES = 10_000  # of a selection
PRECISIONS = ("highest", "high", "medium")


@dataclass(frozen=True)
class Recipe:
    """What is trained, and how."""

    model: str = "sage"
    hidden: int = 256
    k: int = 32
    layers: int = 3
    dropout: float = 0.5
    lr: float = 3e-3
    epochs: int = 200
    self_loops: bool = True
    max_iter: int | None = None  # None: exact
    baseline: str | None = None  # "dense": torch.topk, a mask and torch's sparse product
    seed: int = 97
    eval_every: int = 1  # epochs
    precision: str = "highest"  # of products of float32 matrices, as torch.set_float32_matmul_precision has it

    @property
    def selection(self) -> str:
        """The top-k in a word, as tables and figures name it."""
        return self.baseline or ("exact" if self.max_iter is None else f"max_iter {self.max_iter}")


# MaxK-GNN's own settings for the graphs of the paper's last table. Adam without weight decay and a LayerNorm in every
# layer go for all.
_PUBLISHED = {
    "flickr": {"layers": 3, "dropout": 0.2, "lr": 1e-3, "epochs": 400},
    "yelp": {"hidden": 384, "layers": 4, "dropout": 0.1, "lr": 1e-3, "epochs": 3000},
    "reddit": {"layers": 4, "dropout": 0.5, "lr": 1e-2, "epochs": 3000},
    "products": {"layers": 3, "dropout": 0.5, "lr": 3e-3, "epochs": 500},
}


def recipe_for(graph: str, model: str, **changes) -> Recipe:
    """The recipe of a graph, with what a user wants otherwise. Graphs that MaxK-GNN did not train on have the defaults
    of :class:`Recipe`."""
    published = next((name for name in _PUBLISHED if name in graph.lower()), None)
    settings = dict(_PUBLISHED.get(published, {}))
    if published == "products" and model == "sage":
        settings["self_loops"] = False
    return replace(
        Recipe(model=model), **settings | {name: value for name, value in changes.items() if value is not None}
    )


class TrainingError(ValueError):
    """A training run that cannot be: the text says why, and what would be accepted."""


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
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.device)
        _write_tensors(
            path,
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
            },
        )

    def check_replaces(self, path: Path) -> None:
        """Whether a new run may take the place of a checkpoint: that of the same run, finished, can be had again."""
        with self._reading(path) as saved:
            theirs = Recipe(**saved["recipe"])
            other = self._differs(theirs, saved["graph"])
            problem = other
            if problem is None and theirs.epochs != self.recipe.epochs:
                problem = f"its epochs is {theirs.epochs}, and this run's is {self.recipe.epochs}"
            if problem is None and saved["epoch"] < theirs.epochs:
                problem = f"it was stopped after epoch {saved['epoch']} of {theirs.epochs}"
        if problem:
            accepted = "another --out" if other else "--resume, which goes on from it, or another --out"
            raise TrainingError(f"{path} is of a run that would be lost: {problem}; accepted: {accepted}")

    def resume(self, path: Path) -> None:
        """Goes on from a checkpoint of the same recipe and graph; there may be more epochs."""
        with self._reading(path) as saved:
            recipe, graph = Recipe(**saved["recipe"]), saved["graph"]
            if problem := self._differs(recipe, graph):
                raise TrainingError(f"{path} is a checkpoint of another run: {problem}")
            if saved["epoch"] > self.recipe.epochs:
                raise TrainingError(
                    f"epochs is {self.recipe.epochs}, and {path} is after epoch {saved['epoch']}; accepted: as many"
                )
            self._forget_captured()  # the optimizer's state is about to lie elsewhere
            self.network.load_state_dict(saved["network"])
            for group in saved["optimizer"]["param_groups"]:
                group.update(self._optimizer_options)  # of this device
            self.optimizer.load_state_dict(saved["optimizer"])
            torch.set_rng_state(saved["random"]["cpu"].cpu())
            if self.device.type == "cuda" and "cuda" in saved["random"]:
                torch.cuda.set_rng_state(saved["random"]["cuda"].cpu(), self.device)
            self.epoch, self.history = saved["epoch"], saved["history"]
            self.best, self.best_state = saved["best"], saved["best_state"]

    @contextlib.contextmanager
    def _reading(self, path: Path) -> Iterator[dict]:
        """What a checkpoint holds. Whatever is missing in it or does not fit is a TrainingError."""
        try:
            yield torch.load(path, map_location=self.device, weights_only=True)
        except TrainingError:
            raise
        except KeyError as error:
            raise TrainingError(f"{path} cannot be read as a checkpoint: it has no {error}") from error
        except Exception as error:  # torch.load has no one kind of error for broken files
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TrainingError(f"{path} cannot be read as a checkpoint: {reason}") from error

    def _differs(self, recipe: Recipe, graph: dict) -> str | None:
        for field in fields(Recipe):
            theirs, ours = getattr(recipe, field.name), getattr(self.recipe, field.name)
            if field.name != "epochs" and theirs != ours:
                return f"its {field.name} is {theirs}, and this run's is {ours}"
        return None if graph == self.graph_facts() else f"its graph is {graph}, and this run's is {self.graph_facts()}"

    def save_best(self, path: Path) -> None:
        """The parameters with the best validation, for MaxKGNN.load_state_dict."""
        _write_tensors(path, self.best_state)

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


def check_recipe(recipe: Recipe) -> None:
    if recipe.hidden > _MOST_COLUMNS:
        raise TrainingError(f"hidden is {recipe.hidden}; accepted: 1 to {_MOST_COLUMNS}")
    if not -(2**63) <= recipe.seed < 2**64:
        raise TrainingError(f"seed is {recipe.seed}; accepted: an integer of 64 bits")
    least = {"hidden": 1, "k": 1, "layers": 1, "epochs": 1, "eval_every": 1}
    for name, limit in least.items():
        if getattr(recipe, name) < limit:
            raise TrainingError(f"{name} is {getattr(recipe, name)}; accepted: {limit} or more")
    if recipe.k > recipe.hidden:
        raise TrainingError(f"k is {recipe.k}; accepted: 1 to {recipe.hidden}, the columns of a hidden row")
    if not 0 <= recipe.dropout < 1:
        raise TrainingError(f"dropout is {recipe.dropout}; accepted: 0 to less than 1")
    if not 0 < recipe.lr < float("inf"):
        raise TrainingError(f"lr is {recipe.lr}; accepted: more than 0")
    if recipe.max_iter is not None and not 1 <= recipe.max_iter <= _MOST_PASSES:
        raise TrainingError(
            f"max_iter is {recipe.max_iter}; accepted: 1 to {_MOST_PASSES}, or none for exact selection"
        )
    if recipe.precision not in PRECISIONS:
        raise TrainingError(f"precision is '{recipe.precision}'; accepted: {', '.join(PRECISIONS)}")
    if recipe.baseline is not None and recipe.max_iter is not None:
        raise TrainingError("max_iter with a baseline: torch.topk is exact, and does not stop early")


def environment(device: torch.device) -> dict:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rtopk": __version__,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Writes a file that is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_json(path: Path, content: object) -> None:
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


def _write_tensors(path: Path, content: object) -> None:
    file = io.BytesIO()  # torch has no clear error for a full disk
    torch.save(content, file)
    write_whole(path, file.getbuffer())


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
            return
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        print("\nstopping after this epoch; Ctrl-C again stops at once", file=sys.stderr, flush=True)


# Seconds between two lines of progress where no terminal shows it in place, and between two checkpoints.
_REPORT_SECONDS = 5.0
_SAVE_SECONDS = 60.0


def train(trainer: Trainer, out: Path, *, show: bool = True) -> bool:
    """Trains to the end of the recipe, or to Ctrl-C. Leaves checkpoint.pt, best.pt and result.json in `out`. Whether it
    reached the end."""
    terminal = sys.stdout.isatty()
    start = reported = saved = time.monotonic()
    first = trainer.epoch
    between_epochs = False
    check_writable(out)  # before hours are spent
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
                if now - saved >= _SAVE_SECONDS and not last:
                    trainer.save(out / "checkpoint.pt")
                    saved = now
            between_epochs = True
        finally:
            interruption.saving = True
            finished = between_epochs and trainer.epoch >= trainer.recipe.epochs
            # The largest last: it is what a disk may be too full for.
            write_json(out / "result.json", trainer.result() | {"finished": finished})
            if trainer.best is not None:
                trainer.save_best(out / "best.pt")
            if between_epochs:
                trainer.save(out / "checkpoint.pt")
    return finished


def check_writable(folder: Path) -> None:
    """An error if files cannot be made in a folder, which is made where it is missing."""
    if folder.exists() and not folder.is_dir():
        raise TrainingError(f"{folder} is a file; accepted: a folder for results")
    probe = folder / ".probe"
    write_whole(probe, b"")
    probe.unlink()


def _progress(trainer, entry, pace) -> str:
    return (
        f"epoch {entry['epoch']:>{len(str(trainer.recipe.epochs))}} of {trainer.recipe.epochs}"
        f"  loss {entry['loss']:.4f}  train {entry['train']:.4f}  validation {entry['validation']:.4f}"
        f"  test {entry['test']:.4f}  {pace * 1e3:.0f} ms an epoch"
    )
