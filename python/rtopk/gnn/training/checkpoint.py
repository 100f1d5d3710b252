"""Checkpoints: their content, and a reader that checks everything in a file before it is used."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from .._text import short
from ..recipe import Recipe, TrainingError, recipe_of

CHECKPOINT = "checkpoint.pt"

SCORES = ("loss", "train", "validation", "test")
_MAX_INTEGER = 2**63 - 1


def tensor_bytes(content: object) -> memoryview:
    """What torch.save writes, in memory: for a full disk torch has no clear error."""
    file = io.BytesIO()
    torch.save(content, file)
    return file.getbuffer()


def digest(content: bytes | memoryview) -> str:
    """The SHA-256, as the program sha256sum prints it."""
    return hashlib.sha256(content).hexdigest()


class _Malformed(Exception):
    """A field is not as it should be: the text says what was found, and what would be accepted."""


@dataclass(frozen=True)
class WithinEpoch:
    """How far an epoch of mini-batches has come."""

    nodes: int  # those that were trained on, over all ranks
    losses: list[float]  # of each rank: the sum of the losses of its nodes


@dataclass
class Checkpoint:
    """The content of a file. Recipe, graph, epoch and history are checked already; the rest is checked against the
    network when it is asked for."""

    path: Path
    sha256: str
    recipe: Recipe
    graph: dict
    epoch: int
    within_epoch: WithinEpoch | None
    history: list[dict]
    best: dict | None
    _saved: dict

    def check_resumable(self, recipe: Recipe, graph: dict, train_nodes: int) -> None:
        """An error unless a run with this recipe and graph may continue from here."""
        if problem := self._difference(recipe, graph):
            raise TrainingError(f"{self.path} is a checkpoint of another run: {problem}")
        within = self.within_epoch
        if within is not None and within.nodes >= train_nodes:
            raise _error(self.path, f"within_epoch.nodes is {within.nodes}; accepted: 1 to {train_nodes - 1}")
        begun = self.epoch + (within is not None)
        if begun > recipe.epochs:
            where = "after" if within is None else "in"
            raise TrainingError(
                f"epochs is {recipe.epochs}, and {self.path} is {where} epoch {begun}; accepted: {begun} or more"
            )

    def check_replaceable(self, recipe: Recipe, graph: dict) -> None:
        """An error unless a new run with this recipe and graph may overwrite the file: the same run, finished."""
        other = problem = self._difference(recipe, graph)
        if problem is None and self.recipe.epochs != recipe.epochs:
            problem = f"its epochs is {self.recipe.epochs}, and this run's is {recipe.epochs}"
        if problem is None and self.epoch < self.recipe.epochs:
            problem = f"it was stopped after epoch {self.epoch} of {self.recipe.epochs}"
        if problem:
            accepted = "another --out" if other else "--resume, which continues it, or another --out"
            raise TrainingError(f"{self.path} is of a run that would be lost: {problem}; accepted: {accepted}")

    def _difference(self, recipe: Recipe, graph: dict) -> str | None:
        """What distinguishes the run of the file from one with this recipe and graph, beside the number of epochs."""
        for field in fields(Recipe):
            theirs, ours = getattr(self.recipe, field.name), getattr(recipe, field.name)
            if field.name == "rule" and recipe.max_iter is None:
                continue  # exact: it has no effect
            if field.name != "epochs" and theirs != ours:
                return f"its {field.name} is {theirs}, and this run's is {ours}"
        return None if self.graph == graph else f"its graph is {self.graph}, and this run's is {graph}"

    def _field(self, *names: str | int):
        value = self._saved
        for i, name in enumerate(names):
            if not isinstance(value, dict) or name not in value:
                raise _error(self.path, f"{_name(names[:i]) or 'it'} has no {name!r}")
            value = value[name]
        return value

    def states(self, network: torch.nn.Module) -> tuple[dict, dict | None]:
        """The parameters of the network, and those with the best validation."""
        wanted = network.state_dict()
        last = self._tensors(("network",), wanted)
        return last, None if self.best is None else self._tensors(("best_state",), wanted)

    def _tensors(self, field: tuple, wanted: dict[str, torch.Tensor]) -> dict:
        found = self._field(*field)
        if not isinstance(found, dict):
            raise _error(self.path, f"{_name(field)} is {short(found)}; accepted: tensors by name")
        if other := sorted(map(short, found.keys() - wanted.keys())):
            raise _error(self.path, f"{_name(field)} has {other[0]}; accepted: the names of this network's parameters")
        return {name: self._tensor((*field, name), like=tensor) for name, tensor in wanted.items()}

    def _tensor(self, field: tuple, *, like: torch.Tensor) -> torch.Tensor:
        return self._fits(field, self._field(*field), like)

    def _fits(self, field: tuple, found: object, like: torch.Tensor) -> torch.Tensor:
        problem = None
        if type(found) not in (torch.Tensor, torch.nn.Parameter):
            problem = short(found)
        elif found.layout != torch.strided or found.is_quantized or found.device != like.device:
            problem = f"a tensor with layout {found.layout} on {found.device}"
        elif (found.dtype, found.shape) != (like.dtype, like.shape):
            problem = f"{list(found.shape)} of {found.dtype}"
        if problem:
            wanted = f"{list(like.shape)} of {like.dtype} on {like.device}"
            raise _error(self.path, f"{_name(field)} is {problem}; accepted: {wanted}")
        return found.detach()

    def optimizer(self, own: dict, parameters: list[torch.Tensor]) -> dict:
        """A state for Adam: moments and learning rate from the file, all other settings from `own`, the state of the
        optimizer that will load it."""
        groups = self._field("optimizer", "param_groups")
        if not isinstance(groups, list) or len(groups) != 1 or not isinstance(groups[0], dict):
            raise _error(self.path, f"optimizer.param_groups is {short(groups)}; accepted: a list of one")
        rate = groups[0].get("lr")
        if not isinstance(rate, float) or not 0 < rate < float("inf"):
            raise _error(self.path, f"optimizer.param_groups.lr is {short(rate)}; accepted: more than 0")
        saved = self._field("optimizer", "state")
        if not isinstance(saved, dict) or any(type(n) is not int or not 0 <= n < len(parameters) for n in saved):
            raise _error(self.path, f"optimizer.state is not by parameter; accepted: 0 to {len(parameters) - 1}")
        state = {}
        for number in saved:
            at, like = ("optimizer", "state", number), parameters[number]
            step = self._tensor((*at, "step"), like=torch.zeros((), device=self._step_device(at, like)))
            if not 0 <= float(step) <= _MAX_INTEGER:
                raise _error(self.path, f"{_name((*at, 'step'))} is {float(step)}; accepted: 0 or more")
            moments = {name: self._tensor((*at, name), like=like) for name in ("exp_avg", "exp_avg_sq")}
            state[number] = {"step": step} | moments
        return {"state": state, "param_groups": [group | {"lr": rate} for group in own["param_groups"]]}

    def _step_device(self, at: tuple, like: torch.Tensor) -> torch.device:
        # On the CPU or beside the parameter: Adam moves it.
        step = self._field(*at, "step")
        return step.device if isinstance(step, torch.Tensor) and step.device.type == "cpu" else like.device

    def random_state(self, kind: str, like: torch.Tensor) -> torch.Tensor | None:
        """The state of a random number generator; None if the file has none of this kind."""
        states = self._field("random")
        if not isinstance(states, dict):
            raise _error(self.path, f"random is {short(states)}; accepted: states by device")
        if kind not in states and kind != "cpu":
            return None
        state = self._field("random", kind)
        if isinstance(state, torch.Tensor) and state.layout == torch.strided and state.device.type != "meta":
            state = state.cpu()  # torch.load has put it on the device of the network
        return self._fits(("random", kind), state, like)

    def take(self, field: str, function: Callable[[], object]) -> None:
        """Calls a function that takes a field of the file and may refuse it."""
        try:
            function()
        except (RuntimeError, ValueError, TypeError) as error:
            raise _error(self.path, f"its {field} cannot be taken: {str(error).splitlines()[0]}") from error


def read(path: Path, device: torch.device) -> Checkpoint:
    """The checkpoint in a file, or a TrainingError that names the file and the field."""
    try:
        content = path.read_bytes()
        _check_archive(content)
        saved = torch.load(io.BytesIO(content), map_location=device, weights_only=True)
    except Exception as error:  # torch.load has no one kind of error for broken files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _error(path, reason) from error
    if not isinstance(saved, dict):
        raise _error(path, f"it holds {short(saved)}; accepted: fields by name")
    for name in ("recipe", "graph", "epoch", "network", "optimizer", "random", "history", "best", "best_state"):
        if name not in saved:
            raise _error(path, f"it has no {name!r}")
    try:
        recipe = recipe_of(saved["recipe"])
        graph = _graph_facts(saved["graph"])
        epoch = _integer("epoch", saved["epoch"])
        within = _within_epoch(saved.get("within_epoch"), recipe)  # older files lack it
        history = _history(saved["history"], epoch)
        best = None if saved["best"] is None else _entry("best", saved["best"])
        if (best is None) != (not history) or (best is not None and best not in history):
            raise _Malformed("best is not in history; accepted: one of its entries, or none if it has none")
    except (_Malformed, TrainingError) as error:
        raise _error(path, error) from None
    return Checkpoint(path, digest(content), recipe, graph, epoch, within, history, best, saved)


def _error(path: Path, reason: object) -> TrainingError:
    return TrainingError(f"{path} cannot be read as a checkpoint: {reason}")


def _name(field: tuple) -> str:
    return ".".join(map(str, field))


def _check_archive(content: bytes) -> None:
    """An error if the content could become larger than the file: torch.save compresses nothing."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise _Malformed("parts of it are compressed; accepted: what torch.save writes")
    if sum(member.file_size for member in members) > len(content):
        raise _Malformed("its parts overlap; accepted: what torch.save writes")


def _integer(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_INTEGER:
        raise _Malformed(f"{name} is {short(value)}; accepted: an integer from 0")
    return value


def _graph_facts(value: object) -> dict:
    names = ("name", "nodes", "edges", "features", "classes")
    if not isinstance(value, dict) or set(value) != set(names):
        raise _Malformed(f"graph is {short(value)}; accepted: {', '.join(names)}")
    if not isinstance(value["name"], str):
        raise _Malformed(f"graph.name is {short(value['name'])}; accepted: a text")
    return {"name": value["name"]} | {name: _integer(f"graph.{name}", value[name]) for name in names[1:]}


def _finite(name: str, value: object) -> float:
    if type(value) is not float or not abs(value) < float("inf"):
        raise _Malformed(f"{name} is {short(value)}; accepted: a finite number")
    return value


def _within_epoch(value: object, recipe: Recipe) -> WithinEpoch | None:
    if value is None:
        return None
    names = {field.name for field in fields(WithinEpoch)}
    if recipe.sample is None or not isinstance(value, dict) or set(value) != names:
        accepted = "none" if recipe.sample is None else f"{', '.join(sorted(names))}, or none"
        raise _Malformed(f"within_epoch is {short(value)}; accepted: {accepted}")
    nodes, losses = _integer("within_epoch.nodes", value["nodes"]), value["losses"]
    if nodes == 0:
        raise _Malformed("within_epoch.nodes is 0; accepted: 1 or more")
    if not isinstance(losses, list) or not losses:
        raise _Malformed(f"within_epoch.losses is {short(losses)}; accepted: a number for each rank")
    return WithinEpoch(nodes, [_finite(f"within_epoch.losses[{rank}]", loss) for rank, loss in enumerate(losses)])


def _entry(name: str, value: object) -> dict:
    if not isinstance(value, dict) or set(value) != {"epoch", *SCORES}:
        raise _Malformed(f"{name} is {short(value)}; accepted: epoch, {', '.join(SCORES)}")
    for score in SCORES:
        _finite(f"{name}.{score}", value[score])
    return {"epoch": _integer(f"{name}.epoch", value["epoch"])} | {score: value[score] for score in SCORES}


def _history(value: object, epoch: int) -> list[dict]:
    if not isinstance(value, list):
        raise _Malformed(f"history is {short(value)}; accepted: a list")
    entries = [_entry(f"history[{i}]", entry) for i, entry in enumerate(value)]
    epochs = [entry["epoch"] for entry in entries]
    if epochs != sorted(set(epochs)) or (epochs and not 1 <= epochs[0] <= epochs[-1] <= epoch):
        raise _Malformed(f"history is not in order; accepted: epochs from 1 to {epoch}, ascending")
    return entries
