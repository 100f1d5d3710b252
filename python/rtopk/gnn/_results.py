"""Reads the results of a study again, from which it goes on and its page is drawn."""

from __future__ import annotations

import json
from pathlib import Path

from ._text import short
from .recipe import Recipe, TrainingError, recipe_of

_LARGEST = 2**63 - 1
# Milliseconds of a step: what a clock can tell apart, to years. The page divides by them.
_SHORTEST, _LONGEST = 1e-6, 1e12
_METRICS = ("accuracy", "micro-F1")


def read_results(path: Path) -> dict:
    """What the file holds, in the form that a study writes; or a TrainingError that names the file and the field."""
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
        _number(where, entry, "step_ms", _SHORTEST, _LONGEST)
        _number(where, entry, "topk_ms", 0, _LONGEST)
        for name in ("step_mib", "held_mib"):
            if name in entry:
                _number(where, entry, name, 0, _LONGEST)
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
    return isinstance(value, int) and not 0 <= value <= _LARGEST


def _number(where: str, entry: dict, name: str, least: float, most: float) -> None:
    value = entry.get(name)
    if type(value) not in (int, float) or not least <= value <= most:
        raise ValueError(f"{where}.{name} is {short(value)}; accepted: {least:g} to {most:g}")
