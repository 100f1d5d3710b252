"""The results of a study: written as they come, and read again to continue it or to draw its page."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

from rtopk.gnn import Dataset
from rtopk.gnn._atomic import write_whole
from rtopk.gnn._text import short
from rtopk.gnn.recipe import Recipe, TrainingError, recipe_of
from rtopk.gnn.training import environment

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from checkout import command_line, commit  # noqa: E402

_MAX_INTEGER = 2**63 - 1
# Milliseconds of a step, from the resolution of a clock to years. The page divides by them.
_MIN_MS, _MAX_MS = 1e-6, 1e12
_METRICS = ("accuracy", "micro-F1")


class Results:
    """The results so far, in a file that is complete at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = {"environment": {}, "graphs": {}, "timings": [], "runs": []}
        if path.exists():
            self.content = read_results(path)

    def has(self, kind: str, graph: str, recipe: Recipe) -> bool:
        return any(entry["graph"] == graph and recipe_of(entry["recipe"]) == recipe for entry in self.content[kind])

    def expect(self, datasets: list[Dataset], device: torch.device) -> None:
        """An error if the file has results of another device, or of another graph with the same name."""
        now, before = environment(device), self.content["environment"]
        measured = self.content["timings"] or self.content["runs"]
        if measured and before.get("device", now["device"]) != now["device"]:
            raise TrainingError(
                f"{self.path} has results of {before['device']}, and this is {now['device']}; accepted: another --out"
            )
        for dataset in datasets:
            facts = graph_facts(dataset)
            known = self.content["graphs"].setdefault(dataset.name, facts)
            if known != facts:
                raise TrainingError(
                    f"{self.path}: there are two graphs '{dataset.name}', {known} and {facts}; accepted: one of a name"
                )
        # A study that goes on may have other commits and commands than when it began.
        made = {"commits": commit(), "commands": command_line()}
        known = {name: _texts(before.get(name)) if measured else [] for name in made}
        self.content["environment"] = now | {"date": time.strftime("%Y-%m-%d", time.gmtime())}
        for name, latest in made.items():
            self.content["environment"][name] = [
                *known[name],
                *([latest] if latest and latest not in known[name] else []),
            ]

    def add(self, kind: str, graph: str, recipe: Recipe, **figures) -> None:
        entry = {"graph": graph, "selection": recipe.selection, "recipe": asdict(recipe)}
        self.content[kind].append(entry | figures)
        self.write()

    def write(self) -> None:
        write_whole(self.path, (json.dumps(self.content, indent=1) + "\n").encode())


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def graph_facts(dataset: Dataset) -> dict:
    metric = "micro-F1" if dataset.multilabel else "accuracy"
    return {"nodes": dataset.graph.num_nodes, "edges": dataset.graph.num_edges, "metric": metric}


def read_results(path: Path) -> dict:
    """The content of a file that a study wrote; or a TrainingError that names the file and the field."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
        _check(content)
    except (OSError, ValueError, RecursionError) as error:
        raise TrainingError(f"{path} cannot be read as results of a study: {error}") from error
    return content


def _no_number(text: str):
    raise ValueError(f"it has {text}; accepted: finite numbers")


def _check(content: object) -> None:
    _fields("it", content, {"environment": dict, "graphs": dict, "timings": list, "runs": list})
    for name in ("device", "torch", "rtopk", "date"):
        if not isinstance(value := content["environment"].get(name, ""), str):
            raise ValueError(f"environment.{name} is {short(value)}; accepted: a text")
    for name, facts in content["graphs"].items():
        where = f"graphs.{short(name)}"
        _fields(where, facts, {"nodes": int, "edges": int, "metric": str})
        if facts["metric"] not in _METRICS:
            raise ValueError(f"{where}.metric is {short(facts['metric'])}; accepted: {', '.join(_METRICS)}")
    for i, entry in enumerate(content["timings"]):
        where = f"timings[{i}]"
        _check_entry(where, entry, content["graphs"])
        _number(where, entry, "step_ms", _MIN_MS, _MAX_MS)
        _number(where, entry, "topk_ms", 0, _MAX_MS)
        for name in ("step_mib", "held_mib"):
            if name in entry:
                _number(where, entry, name, 0, _MAX_MS)
    for i, entry in enumerate(content["runs"]):
        where = f"runs[{i}]"
        _check_entry(where, entry, content["graphs"])
        _fields(where, entry, {"best": dict})
        _number(f"{where}.best", entry["best"], "test", 0, 1)


def _check_entry(where: str, entry: object, graphs: dict) -> None:
    _fields(where, entry, {"graph": str, "selection": str, "recipe": dict})
    if entry["graph"] not in graphs:
        raise ValueError(f"{where}.graph is {short(entry['graph'])}, which is not among its graphs")
    try:
        recipe: Recipe = recipe_of(entry["recipe"])
    except TrainingError as error:
        raise ValueError(f"{where}: {error}") from None
    if entry["selection"] != recipe.selection:
        raise ValueError(f"{where}.selection is {short(entry['selection'])}, and its recipe's is {recipe.selection}")
    entry["recipe"] = asdict(recipe)  # with the settings that it left out


def _fields(where: str, value: object, wanted: dict[str, type]) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {short(value)}; accepted: an object")
    for name, kind in wanted.items():
        if name not in value:
            raise ValueError(f"{where} has no {name}")
        found = value[name]
        if type(found) is not kind or _too_large(found):
            raise ValueError(f"{where}.{name} is {short(found)}; accepted: {kind.__name__}")


def _too_large(value: object) -> bool:
    return isinstance(value, int) and not 0 <= value <= _MAX_INTEGER


def _number(where: str, entry: dict, name: str, minimum: float, maximum: float) -> None:
    value = entry.get(name)
    if type(value) not in (int, float) or not minimum <= value <= maximum:
        raise ValueError(f"{where}.{name} is {short(value)}; accepted: {minimum:g} to {maximum:g}")
