"""The grid model × graph × top-k × seed: trained, timed, kept as JSON, and drawn as a page."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from .._info import info
from . import page
from ._atomic import check_replaceable, locked, write_whole
from ._results import read_results
from ._text import printable
from .data import Dataset, load
from .measure import measure
from .recipe import Recipe, TrainingError, check_recipe, recipe_for
from .training import Trainer, environment

RESULTS = "results.json"
PAGE = "index.html"


@dataclass(frozen=True)
class Plan:
    graphs: list[str]
    models: list[str]
    max_iters: list[int]
    seeds: int = 5
    repetitions: int = 20
    changes: dict = field(default_factory=dict)  # of the graphs' recipes

    def __post_init__(self) -> None:
        for name, least in (("seeds", 0), ("repetitions", 1)):
            if getattr(self, name) < least:
                raise TrainingError(f"{name} is {getattr(self, name)}; accepted: {least} or more")

    def recipes(self, graph: str, seed: int) -> Iterator[Recipe]:
        """Every model with every top-k: the dense baseline first, then exact, then stopped early."""
        for model in self.models:
            own = self.changes | {"seed": seed}
            yield recipe_for(graph, model, **own, baseline="dense")
            yield recipe_for(graph, model, **own)
            for max_iter in self.max_iters:
                yield recipe_for(graph, model, **own, max_iter=max_iter)


def find_device(name: str | None) -> torch.device:
    """The device of a name; without one, a GPU that rtopk can use, or the CPU."""
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


class Results:
    """What is known so far, in a file that is whole at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = {"environment": {}, "graphs": {}, "timings": [], "runs": []}
        if path.exists():
            self.content = read_results(path)

    def has(self, kind: str, graph: str, recipe: Recipe) -> bool:
        wanted, known = asdict(recipe), asdict(Recipe())  # of what older files do not say
        return any(entry["graph"] == graph and known | entry["recipe"] == wanted for entry in self.content[kind])

    def expect(self, datasets: list[Dataset], device: torch.device) -> None:
        """Refuses what would stand beside results of another device, or of another graph with the same name."""
        now, before = environment(device), self.content["environment"]
        measured = self.content["timings"] or self.content["runs"]
        if measured and before.get("device", now["device"]) != now["device"]:
            raise TrainingError(
                f"{self.path} has results of {before['device']}, and this is {now['device']}; accepted: another --out"
            )
        for dataset in datasets:
            facts = {
                "nodes": dataset.graph.num_nodes,
                "edges": dataset.graph.num_edges,
                "metric": "micro-F1" if dataset.multilabel else "accuracy",
            }
            known = self.content["graphs"].setdefault(dataset.name, facts)
            if known != facts:
                raise TrainingError(
                    f"{self.path}: there are two graphs '{dataset.name}', {known} and {facts}; accepted: one of a name"
                )
        self.content["environment"] = now | {"date": time.strftime("%Y-%m-%d", time.gmtime())}

    def add(self, kind: str, graph: str, recipe: Recipe, **figures) -> None:
        entry = {"graph": graph, "selection": recipe.selection, "recipe": asdict(recipe)}
        self.content[kind].append(entry | figures)
        self.write()

    def write(self) -> None:
        write_whole(self.path, (json.dumps(self.content, indent=1) + "\n").encode())


def run(
    plan: Plan,
    out: Path,
    *,
    device: torch.device,
    data: os.PathLike | None = None,
    scale: float = 1.0,
    time_limit: float | None = None,
) -> bool:
    """Does what is missing in the results of `out`, until the time is over. False if Ctrl-C stopped it."""
    if time_limit is not None and not time_limit >= 0:
        raise TrainingError(f"time_limit is {time_limit}; accepted: 0 seconds or more")
    with locked(out):
        for name in (RESULTS, PAGE):
            check_replaceable(out / name)  # before hours are spent
        return _run_plan(plan, out, device, data, scale, time_limit)


def _run_plan(plan: Plan, out: Path, device: torch.device, data, scale: float, time_limit: float | None) -> bool:
    start = time.monotonic()
    results = Results(out / RESULTS)
    for graph in plan.graphs:
        for recipe in plan.recipes(Path(graph).name, 0):
            check_recipe(recipe)  # all of them before a graph is loaded, and hours are spent on the first
    datasets = [load(graph, data, scale=scale, device=device) for graph in plan.graphs]
    for dataset in datasets:
        print(dataset, flush=True)
    results.expect(datasets, device)

    # Times first; then seed by seed, so that what is there after a while is balanced.
    todo = [("timings", dataset, recipe) for dataset in datasets for recipe in plan.recipes(dataset.name, 0)]
    todo += [
        ("runs", dataset, recipe)
        for seed in range(plan.seeds)
        for dataset in datasets
        for recipe in plan.recipes(dataset.name, seed)
    ]
    # What was asked for twice is done once.
    todo = list({(kind, dataset.name, recipe): (kind, dataset, recipe) for kind, dataset, recipe in todo}.values())
    todo = [entry for entry in todo if not results.has(entry[0], entry[1].name, entry[2])]
    results.write()
    print(f"{len(todo)} to do, on {device}; results in {printable(results.path)}", flush=True)
    try:
        for done, (kind, dataset, recipe) in enumerate(todo, 1):
            if time_limit is not None and time.monotonic() - start > time_limit:
                print(f"{time_limit:g} s are over, and {len(todo) - done + 1} are left: the same command goes on")
                break
            try:
                text = (
                    _time(results, dataset, recipe, device, plan)
                    if kind == "timings"
                    else _run(results, dataset, recipe, device)
                )
            except TrainingError as error:
                text = f"seed {recipe.seed}, no result: {error}"  # the others may have one
            print(
                f"[{time.monotonic() - start:4.0f} s] {done} of {len(todo)}  {dataset.name} {recipe.model}"
                f" {recipe.selection}: {text}",
                flush=True,
            )
    except KeyboardInterrupt:
        print("stopped; the same command goes on")
        return False
    return True


def _time(results: Results, dataset: Dataset, recipe: Recipe, device: torch.device, plan: Plan) -> str:
    figures = measure(Trainer(dataset, recipe, device), plan.repetitions)
    results.add("timings", dataset.name, recipe, **figures)
    return f"{figures['step_ms']:.2f} ms a step, {figures['topk_ms']:.2f} ms of it top-k"


def _run(results: Results, dataset: Dataset, recipe: Recipe, device: torch.device) -> str:
    start = time.monotonic()
    trainer = Trainer(dataset, recipe, device)
    for _ in range(recipe.epochs):
        loss = trainer.step()
        if trainer.due():
            trainer.evaluate(loss)
    seconds = time.monotonic() - start
    results.add("runs", dataset.name, recipe, best=trainer.best, last=trainer.history[-1], seconds=round(seconds, 2))
    return f"seed {recipe.seed}, test {trainer.best['test']:.4f} at epoch {trainer.best['epoch']}, {seconds:.1f} s"


def draw(out: Path) -> Path:
    """The page of the results in a folder."""
    if not (out / RESULTS).exists():
        raise TrainingError(f"there are no results in {out}: {RESULTS} is missing")
    text = page.html(read_results(out / RESULTS))
    write_whole(out / PAGE, text.encode())
    return out / PAGE
