"""Full-batch training of one network."""

from __future__ import annotations

import contextlib
import functools
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F

from ..._info import __version__, info
from .. import capture
from .._atomic import write_whole
from ..data import Dataset
from ..initialization import draw_xavier
from ..layers import MaxKGNN
from ..recipe import Recipe, TrainingError, check_recipe
from .checkpoint import CHECKPOINT, WithinEpoch, tensor_bytes
from .checkpoint import read as read_checkpoint


class Trainer:
    """A network in training: its optimizer, its epoch, and its scores so far.

    On a GPU, the third step of a small graph is captured as a CUDA graph, and later steps replay it. Changes of the
    network, the learning rate or torch's settings have no effect from then on.

    Args:
        dataset: what to train on.
        recipe: the settings of the network and of the training.
        device: where to train.
        eager: never capture a step.
        data_device: where graph, features and labels are; None: where to train.
    """

    def __init__(
        self,
        dataset: Dataset,
        recipe: Recipe,
        device: torch.device | str,
        *,
        eager: bool = False,
        data_device: torch.device | None = None,
    ) -> None:
        check_recipe(recipe)
        self.recipe = recipe
        self.device = torch.device(device)
        dataset = dataset.to(data_device or self.device)
        self.data = dataset.with_graph(dataset.graph.with_self_loops()) if recipe.self_loops else dataset
        torch.manual_seed(recipe.seed)  # seeds every GPU too
        self.network = MaxKGNN(
            recipe.model,
            dataset.features.shape[1],
            recipe.hidden,
            dataset.classes,
            num_layers=recipe.layers,
            k=recipe.k,
            max_iter=recipe.max_iter,
            rule=recipe.rule,
            dropout=recipe.dropout,
            # The recipe decides about self loops, for every model. Those of the whole graph are there already.
            add_self_loops=recipe.self_loops if recipe.model == "gcn" else None,
            dense=recipe.baseline == "dense",
        )
        if recipe.initialization == "xavier":
            draw_xavier(self.network)
        self.network.to(self.device)
        gpu = self.device.type == "cuda"
        # Fused, the update is one kernel instead of a dozen.
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=recipe.lr, fused=gpu, capturable=gpu)
        elements = self.data.graph.num_nodes * recipe.hidden * recipe.layers
        self._captures = not eager and capture.pays(self.device, elements)
        self._why_not_captured: str | None = None
        self._forget_captured()
        self.epoch = 0
        self.within_epoch: WithinEpoch | None = None  # None between two epochs
        self.history: list[dict] = []  # an entry for each epoch that was evaluated
        self.best: dict | None = None  # the entry with the best validation score
        self.best_state: dict[str, torch.Tensor] | None = None
        self.saved_in: dict[str, dict] = {}  # by file name: the epoch and the SHA-256 of what this run has saved

    def step(self, asked: Callable[[], bool] = lambda: False) -> torch.Tensor | None:
        """Trains one epoch: forward, backward, update. Does not wait for the device.

        Args:
            asked: whether to stop. An epoch of many updates asks between two of them, and then returns None.
        """
        if self._captures and self._captured is None and self._eager_steps_left <= 0:
            self._capture()
        if self._captured is None:
            self._eager_steps_left -= 1
            loss = self.eager_step()
        else:
            loss = self._captured()
        self.epoch += 1
        return loss

    def eager_step(self) -> torch.Tensor:
        """The same without a captured graph. Does not count as an epoch."""
        with matmul_precision(self.recipe.precision):
            self.network.train()
            self.optimizer.zero_grad(set_to_none=True)
            loss = capture.backward(self.network, lambda: self.loss(self.network(self.data.features, self.data.graph)))
            loss = self.over_ranks(loss)
            self.optimizer.step()
        return loss

    @functools.cached_property
    def loss(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """From the results of all nodes to the loss of the training nodes."""
        return loss_on(self.data, self.train_count())

    def train_count(self) -> int:
        """The number of nodes to train on."""
        return len(self.data.train)

    def over_ranks(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss, summed over ranks, where several train together; then their gradients are summed here too."""
        return loss

    def on_any_rank(self, asked: bool) -> bool:
        """Whether any rank was asked to stop. Every rank asks this before every epoch."""
        return asked

    def position(self) -> str:
        """How far the training has come, in words."""
        return f"epoch {self.epoch}"

    def _capture(self) -> None:
        try:
            self._captured = capture.CapturedStep(self.eager_step, self.device)
        except torch.OutOfMemoryError:
            self._captures = False  # without a capture the memory may suffice
            self._why_not_captured = "the memory of the GPU does not suffice"

    def why_not_captured(self) -> str | None:
        """Why steps are not captured that were meant to be; None: they are, or were not meant to be."""
        return self._why_not_captured

    def _forget_captured(self) -> None:
        self._captured: capture.CapturedStep | None = None
        self._eager_steps_left = capture.EAGER_STEPS

    @torch.no_grad()
    def evaluate(self, loss: torch.Tensor) -> dict:
        """Scores on the training, validation and test nodes. Keeps the parameters with the best validation score."""
        self.network.eval()
        with matmul_precision(self.recipe.precision):
            scores = self.scores()
        # All work is queued on the device before the first result is waited for.
        entry = {"epoch": self.epoch, "loss": float(loss)} | {name: float(value) for name, value in scores.items()}
        if not torch.isfinite(loss):
            raise TrainingError(f"the loss is {float(loss)} in epoch {self.epoch}; a smaller --lr may help")
        self.history.append(entry)
        if self.best is None or entry["validation"] > self.best["validation"]:
            state = {name: value.clone() for name, value in self.network.state_dict().items()}
            self.best, self.best_state = entry, state
        return entry

    def scores(self) -> dict[str, torch.Tensor]:
        """The score on the training, validation and test nodes."""
        result = self.network(self.data.features, self.data.graph)
        return {name: score(result[nodes], self.data.labels[nodes]) for name, nodes in self.data.split.items()}

    def due(self) -> bool:
        """Whether this epoch is to be evaluated."""
        return self.epoch % self.recipe.eval_every == 0 or self.epoch == self.recipe.epochs

    # ---- Checkpoints ----

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
                "within_epoch": None if self.within_epoch is None else asdict(self.within_epoch),
                "network": self.network.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "random": random,
                "history": self.history,
                "best": self.best,
                "best_state": self.best_state,
            }
        )

    def save(self, path: Path) -> None:
        write_whole(path, self.checkpoint())

    def check_replaces(self, path: Path) -> None:
        """An error unless this run may overwrite a checkpoint: only one of the same recipe that has finished, since
        that can be computed again."""
        read_checkpoint(path, self.device).check_replaceable(self.recipe, self.graph_facts())

    def resume(self, path: Path) -> None:
        """Continues from a checkpoint of the same recipe and graph. The number of epochs may be larger."""
        saved = read_checkpoint(path, self.device)
        saved.check_resumable(self.recipe, self.graph_facts(), self.train_count())
        # All of it is checked before any of it is used.
        network, best_state = saved.states(self.network)
        optimizer = saved.optimizer(self.optimizer.state_dict(), list(self.network.parameters()))
        random = saved.random_state("cpu", torch.get_rng_state())
        gpu_random = None
        if self.device.type == "cuda":
            gpu_random = saved.random_state("cuda", torch.cuda.get_rng_state(self.device))
        saved.take("random.cpu", lambda: torch.set_rng_state(random))
        if gpu_random is not None:
            saved.take("random.cuda", lambda: torch.cuda.set_rng_state(gpu_random, self.device))
        self._forget_captured()  # the optimizer's state is about to move in memory
        self.network.load_state_dict(network)
        self.optimizer.load_state_dict(optimizer)
        self.epoch, self.within_epoch, self.history = saved.epoch, saved.within_epoch, saved.history
        self.best, self.best_state = saved.best, best_state
        self.saved_in[CHECKPOINT] = {"epoch": saved.epoch, "sha256": saved.sha256}

    def graph_facts(self) -> dict:
        graph = self.data.graph
        facts = {"name": self.data.name, "nodes": graph.num_nodes, "edges": graph.num_edges}
        return facts | {"features": self.data.features.shape[1], "classes": self.data.classes}

    def result(self) -> dict:
        """Recipe, graph, scores and environment of the run, for JSON."""
        return {
            "recipe": asdict(self.recipe),
            "graph": self.graph_facts(),
            "metric": self.data.metric,
            "epochs_done": self.epoch,
            "best": self.best,
            "history": self.history,
            "environment": environment(self.device),
        }


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Sets torch's precision of float32 matrix products for the block."""
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError as error:
        raise TrainingError(f"torch cannot tell its precision of float32 matrix products: {error}") from error
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def loss_on(data: Dataset, train: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function from the results of all nodes to the loss of the training nodes, of which there are `train`. It masks
    the other nodes: selecting the rows of the training nodes would cost more, above all in the backward computation."""
    if not data.multilabel:
        target = torch.full_like(data.labels, -100)  # the label that F.cross_entropy ignores
        target[data.train] = data.labels[data.train]
        # Not reduced by F.cross_entropy, which uses a single block of a GPU for that.
        return lambda result: F.cross_entropy(result, target, reduction="none").sum() / train
    share = torch.zeros_like(data.labels[:, :1])
    share[data.train] = 1 / (train * data.classes)
    return lambda result: F.binary_cross_entropy_with_logits(result, data.labels, share, reduction="sum")


def score(result: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Accuracy; micro-F1 if a node may have several labels."""
    right, of = score_counts(result, labels)
    return right / of.clamp(min=1)


def score_counts(result: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two numbers whose ratio is the score. Those of parts of the nodes may be added up."""
    if labels.dim() == 1:
        return (result.argmax(1) == labels).sum(), torch.full((), len(labels), device=labels.device)
    chosen, true = result > 0, labels > 0.5
    return 2 * (chosen & true).sum(), chosen.sum() + true.sum()


def environment(device: torch.device) -> dict:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rtopk": __version__,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def find_device(name: str | None) -> torch.device:
    """The device of a name. None: a GPU if rtopk can use one, else the CPU."""
    usable = bool(info()["gpus"])
    if name is None:
        name = "cuda" if usable else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise TrainingError(f"there is no device '{name}'; accepted: cpu, cuda, cuda:N") from error
    if device.type == "cuda":
        if not usable:
            raise TrainingError(f"device '{name}' cannot be used: {info()['cuda']}")
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            raise TrainingError(f"there is no device '{name}'; accepted: cuda:0 to cuda:{count - 1}")
        return torch.device("cuda", device.index or 0)
    if device.type != "cpu":
        raise TrainingError(f"device '{name}' cannot be used; accepted: cpu, cuda, cuda:N")
    return device
