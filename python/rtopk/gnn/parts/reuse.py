"""The parts of a whole graph under torchrun: cut once, and taken again while they are of the same graph."""

from __future__ import annotations

from pathlib import Path

from .._text import printable
from ..data import Dataset, GraphError
from .files import FACTS, check_file, is_folder_of_parts, read_facts, write_parts
from .fingerprint import fingerprint
from .partition import default_method


def keep_parts(dataset: Dataset, folder: Path, parts: int) -> None:
    """Cuts a graph into a folder, unless its parts are there already. Prints which of the two, and why."""
    method = default_method()
    why = _why_cut(dataset, folder, parts, method)
    if why is None:
        print(f"{printable(folder)} has the {parts} parts of this graph, cut by {method} before", flush=True)
        return
    print(f"cutting {dataset.name} into {parts} parts by {method}, for {printable(folder)}: {why}", flush=True)
    write_parts(dataset, folder, parts, method)


def _why_cut(dataset: Dataset, folder: Path, parts: int, method: str) -> str | None:
    """Why the parts in a folder cannot be taken; None if they can."""
    if not is_folder_of_parts(folder):
        return f"there is no {FACTS}"
    try:
        facts = read_facts(folder)
        if (facts.parts, facts.method) != (parts, method):
            return f"it has {facts.parts} parts by {facts.method}"
        if facts.graph_sha256 != fingerprint(dataset):
            return "its parts are of another graph, or of what this graph was before"
        for file in facts.files:
            check_file(folder, file)
    except GraphError as error:
        return printable(error)
    return None
