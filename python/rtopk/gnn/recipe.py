"""Recipes: the settings of a network and of its training, and which of them are accepted."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from .._rules import RULES
from ._text import Refusal, short
from .initialization import INITIALIZATIONS
from .layers import MODELS
from .sampling import MAX_FANOUT, check_fanouts

_MAX_COLUMNS = 1 << 16  # what a 16-bit selector can name
_MAX_PASSES = 10_000  # limit of max_iter
_BATCH = 1024  # nodes of a mini-batch, if nothing else is asked for
PRECISIONS = ("highest", "high", "medium")
STORES = ("device", "host")


@dataclass(frozen=True)
class Recipe:
    """The settings of a network and of its training."""

    model: str = "sage"
    hidden: int = 256
    k: int = 32
    layers: int = 3
    dropout: float = 0.5
    lr: float = 3e-3
    epochs: int = 200
    self_loops: bool = True
    max_iter: int | None = None  # None: exact
    rule: str = "threshold_first"  # of max_iter, as in rtopk.topk
    baseline: str | None = None  # "dense": torch.topk, a mask and torch's sparse product
    seed: int = 97
    eval_every: int = 1  # epochs between two evaluations
    precision: str = "highest"  # of float32 matrix products, for torch.set_float32_matmul_precision
    initialization: str = "torch"  # of the weights of linear maps: torch's own, or "xavier"
    sample: str | None = None  # neighbours that each hop picks, such as "15,10,5"; None: all nodes at once
    batch: int | None = None  # with sample: the nodes of a mini-batch on each rank
    capture: bool = False  # with sample: steps as CUDA graphs, of mini-batches whose sizes are rounded up
    store: str = "device"  # where graph, features and labels stay: "device", or with sample "host"

    @property
    def fanouts(self) -> list[int]:
        """The neighbours that each hop picks."""
        return check_fanouts([_number(text) for text in (self.sample or "").split(",")])

    @property
    def selection(self) -> str:
        """The kind of top-k, as tables and figures name it."""
        return self.baseline or ("exact" if self.max_iter is None else f"max_iter {self.max_iter}")

    @property
    def top_k(self) -> str:
        """The kind of top-k, with its rule if that is not the default."""
        early = self.max_iter is not None and self.rule != RULES[0]
        return f"{self.selection}, {self.rule}" if early else self.selection

    def run_name(self, graph: str) -> str:
        """The name of a run on a graph, for its folder."""
        label = self.top_k.replace(", ", "-").replace(" ", "-")
        label += "" if self.sample is None else f"-sample{self.sample.replace(',', '-')}-batch{self.batch}"
        return f"{graph.replace(' ', '')}-{self.model}-{label}-seed{self.seed}"


# MaxK-GNN's settings for the graphs of the paper's last table. All of them use Adam without weight decay, and a
# LayerNorm in every layer.
_PUBLISHED = {
    "flickr": {"layers": 3, "dropout": 0.2, "lr": 1e-3, "epochs": 400},
    "yelp": {"hidden": 384, "layers": 4, "dropout": 0.1, "lr": 1e-3, "epochs": 3000},
    "reddit": {"layers": 4, "dropout": 0.5, "lr": 1e-2, "epochs": 3000},
    "products": {"layers": 3, "dropout": 0.5, "lr": 3e-3, "epochs": 500},
}


def recipe_for(graph: str, model: str, **changes) -> Recipe:
    """The recipe of a graph, with changes; a change to None is none. Graphs that MaxK-GNN did not train on have the
    defaults of :class:`Recipe`."""
    published = next((name for name in _PUBLISHED if name in graph.lower()), None)
    settings = dict(_PUBLISHED.get(published, {}))
    if published == "products" and model == "sage":
        settings["self_loops"] = False
    if changes.get("sample") is not None:
        settings["batch"] = _BATCH
    return replace(
        Recipe(model=model), **settings | {name: value for name, value in changes.items() if value is not None}
    )


class TrainingError(Refusal):
    """A training that is not possible: the text says why, and what would be accepted."""


def recipe_of(saved: object) -> Recipe:
    """The recipe in a file: a checked Recipe, or a TrainingError. Settings that older files lack have their defaults.
    Files without a rule are from before there was another than the printed one."""
    if not isinstance(saved, dict):
        raise TrainingError(f"recipe is {short(saved)}; accepted: settings by name")
    known = {field.name for field in fields(Recipe)}
    for name in saved:
        if name not in known:
            raise TrainingError(f"recipe has {short(name)}; accepted: {', '.join(sorted(known))}")
    recipe = Recipe(**{"rule": "printed"} | saved)
    check_recipe(recipe)
    return recipe


_TYPES = {"int": int, "float": (int, float), "bool": bool, "str": str}


def _check_types(recipe: Recipe) -> None:
    for field in fields(Recipe):
        value = getattr(recipe, field.name)
        kind, _, or_none = field.type.partition(" | ")
        if or_none and value is None:
            continue
        right = isinstance(value, _TYPES[kind]) and (kind == "bool" or not isinstance(value, bool))
        if not right:
            raise TrainingError(f"{field.name} is {short(value)}; accepted: {kind}{' or none' if or_none else ''}")
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise TrainingError(f"{field.name} is {short(value)}; accepted: an integer of 64 bits")


def check_recipe(recipe: Recipe) -> None:
    _check_types(recipe)
    if recipe.model not in MODELS:
        raise TrainingError(f"model is {short(recipe.model)}; accepted: {', '.join(MODELS)}")
    if recipe.baseline not in (None, "dense"):
        raise TrainingError(f"baseline is {short(recipe.baseline)}; accepted: dense, or none")
    if recipe.hidden > _MAX_COLUMNS:
        raise TrainingError(f"hidden is {recipe.hidden}; accepted: 1 to {_MAX_COLUMNS}")
    for name in ("hidden", "k", "layers", "epochs", "eval_every"):
        if getattr(recipe, name) < 1:
            raise TrainingError(f"{name} is {getattr(recipe, name)}; accepted: 1 or more")
    if recipe.k > recipe.hidden:
        raise TrainingError(f"k is {recipe.k}; accepted: 1 to {recipe.hidden}, the columns of a hidden row")
    if not 0 <= recipe.dropout < 1:
        raise TrainingError(f"dropout is {recipe.dropout}; accepted: 0 to less than 1")
    if not 0 < recipe.lr < float("inf"):
        raise TrainingError(f"lr is {recipe.lr}; accepted: more than 0")
    if recipe.max_iter is not None and not 1 <= recipe.max_iter <= _MAX_PASSES:
        raise TrainingError(f"max_iter is {recipe.max_iter}; accepted: 1 to {_MAX_PASSES}, or none for exact selection")
    if recipe.rule not in RULES:
        raise TrainingError(f"rule is {short(recipe.rule)}; accepted: {', '.join(RULES)}")
    if recipe.precision not in PRECISIONS:
        raise TrainingError(f"precision is '{recipe.precision}'; accepted: {', '.join(PRECISIONS)}")
    if recipe.initialization not in INITIALIZATIONS:
        raise TrainingError(f"initialization is {short(recipe.initialization)}; accepted: {', '.join(INITIALIZATIONS)}")
    _check_sample(recipe)
    _check_store(recipe)
    if recipe.capture and (recipe.sample is None or recipe.baseline is not None):
        why = "without sample" if recipe.sample is None else "with a baseline"
        raise TrainingError(f"capture is true {why}; accepted: with sample and without a baseline")
    if recipe.baseline is not None and recipe.max_iter is not None:
        raise TrainingError(f"max_iter is {recipe.max_iter} with a baseline; accepted: none, since torch.topk is exact")


def _number(text: str) -> int | str:
    """The integer that a text is, or the text. Not int(), which takes spaces, underscores and other digits."""
    return int(text) if text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 9 else text


def _check_store(recipe: Recipe) -> None:
    if recipe.store not in STORES:
        raise TrainingError(f"store is {short(recipe.store)}; accepted: {', '.join(STORES)}")
    if recipe.store == "host" and recipe.sample is None:
        raise TrainingError("store is host without sample; accepted: device, or with sample")
    if recipe.store == "host" and recipe.capture:
        raise TrainingError("store is host with capture; accepted: device, since a captured step samples on the GPU")


def _check_sample(recipe: Recipe) -> None:
    if recipe.sample is None:
        if recipe.batch is not None:
            raise TrainingError(
                f"batch is {recipe.batch} without sample; accepted: both, or none for all nodes at once"
            )
        return
    try:
        hops = len(recipe.fanouts)
    except ValueError:
        hops = None
    if hops != recipe.layers:
        raise TrainingError(
            f"sample is {short(recipe.sample)}; accepted: for each of {recipe.layers} layers 1 to {MAX_FANOUT}, or -1"
            " for all neighbours, such as " + ",".join(["15", "10", *["5"] * recipe.layers][: recipe.layers])
        )
    if recipe.batch is None or recipe.batch < 1:
        raise TrainingError(f"batch is {recipe.batch}; accepted: 1 or more")
