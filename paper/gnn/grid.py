"""The grid model x graph x top-k x seed: trained, timed and saved."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from measure import measure
from results import Results, read_results
from rtopk.gnn import Dataset, load
from rtopk.gnn._atomic import check_replaceable, locked, write_whole
from rtopk.gnn._text import printable
from rtopk.gnn.recipe import Recipe, TrainingError, check_recipe, recipe_for
from rtopk.gnn.training import Trainer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "page"))

from training_page import training_page  # noqa: E402

RESULTS = "results.json"
SUMMARY = "summary.json"
PAGE = "index.html"
# What else the page shows if it is in the same folder: steps beside others (baselines.py), and the paper's table on the
# real graphs (python -m rtopk.gnn paper).
BESIDE = {"steps": "baselines.json", "table4": "table4.json"}


@dataclass(frozen=True)
class Plan:
    """What to train: every model on every graph, with every kind of top-k and every seed."""

    graphs: list[str]
    models: list[str]
    max_iters: list[int]
    seeds: int = 5
    repetitions: int = 20
    changes: dict = field(default_factory=dict)  # settings that replace those of the graphs' recipes

    def __post_init__(self) -> None:
        for name, minimum in (("seeds", 0), ("repetitions", 1)):
            if getattr(self, name) < minimum:
                raise TrainingError(f"{name} is {getattr(self, name)}; accepted: {minimum} or more")

    def recipes(self, graph: str, seed: int) -> Iterator[Recipe]:
        """Every model with every top-k: the dense baseline first, then exact, then stopped early."""
        for model in self.models:
            own = self.changes | {"seed": seed}
            yield recipe_for(graph, model, **own, baseline="dense")
            yield recipe_for(graph, model, **own)
            for max_iter in self.max_iters:
                yield recipe_for(graph, model, **own, max_iter=max_iter)


def run(
    plan: Plan,
    out: Path,
    *,
    device: torch.device,
    data: os.PathLike | None = None,
    scale: float = 1.0,
    time_limit: float | None = None,
) -> bool:
    """Trains and times what the results in `out` lack. Starts nothing after `time_limit` seconds. Returns False if
    Ctrl-C stopped it."""
    if time_limit is not None and not time_limit >= 0:
        raise TrainingError(f"time_limit is {time_limit}; accepted: 0 seconds or more")
    with locked(out):
        for name in (RESULTS, PAGE):
            check_replaceable(out / name)  # now, not after hours of training
        return _run_plan(plan, out, device, data, scale, time_limit)


def _run_plan(plan: Plan, out: Path, device: torch.device, data, scale: float, time_limit: float | None) -> bool:
    start = time.monotonic()
    results = Results(out / RESULTS)
    for graph in plan.graphs:
        for recipe in plan.recipes(Path(graph).name, 0):
            check_recipe(recipe)  # all of them, before the first graph is loaded
    datasets = [load(graph, data, scale=scale, device=device) for graph in plan.graphs]
    for dataset in datasets:
        print(dataset, flush=True)
    results.expect(datasets, device)

    # Times first, then seed by seed: if it is stopped early, all graphs and models have equally many seeds.
    todo = [("timings", dataset, recipe) for dataset in datasets for recipe in plan.recipes(dataset.name, 0)]
    todo += [
        ("runs", dataset, recipe)
        for seed in range(plan.seeds)
        for dataset in datasets
        for recipe in plan.recipes(dataset.name, seed)
    ]
    # Each entry once, also if the command line names something twice.
    todo = list({(kind, dataset.name, recipe): (kind, dataset, recipe) for kind, dataset, recipe in todo}.values())
    todo = [entry for entry in todo if not results.has(entry[0], entry[1].name, entry[2])]
    results.write()
    print(f"{len(todo)} to do, on {device}; results in {printable(results.path)}", flush=True)
    try:
        for done, (kind, dataset, recipe) in enumerate(todo, 1):
            if time_limit is not None and time.monotonic() - start > time_limit:
                print(f"{time_limit:g} s are over, and {len(todo) - done + 1} are left: the same command continues")
                break
            try:
                text = (
                    _time(results, dataset, recipe, device, plan)
                    if kind == "timings"
                    else _run(results, dataset, recipe, device)
                )
            except TrainingError as error:
                text = f"seed {recipe.seed}, no result: {error}"  # the others may succeed
            print(
                f"[{time.monotonic() - start:4.0f} s] {done} of {len(todo)}  {dataset.name} {recipe.model}"
                f" {recipe.selection}: {text}",
                flush=True,
            )
    except KeyboardInterrupt:
        print("stopped; the same command continues")
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
    """Draws the page of the results in a folder. Returns its path."""
    if not (out / RESULTS).exists():
        raise TrainingError(f"there are no results in {out}: {RESULTS} is missing")
    names = {"training": RESULTS} | {kind: name for kind, name in BESIDE.items() if (out / name).exists()}
    contents = {"training": read_results(out / RESULTS)}
    contents |= {kind: _read(out / name) for kind, name in names.items() if kind in BESIDE}
    try:
        summary, text = training_page(names, contents)
    except (KeyError, TypeError, AttributeError) as error:
        others = ", ".join(name for name in names.values() if name != RESULTS)
        if not others:
            raise
        raise TrainingError(f"{others} in {out} cannot be drawn: {error!r}") from error
    write_whole(out / SUMMARY, (json.dumps(summary, indent=1) + "\n").encode())
    write_whole(out / PAGE, text.encode())
    return out / PAGE


def _read(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrainingError(f"{path} cannot be read: {error}") from error
