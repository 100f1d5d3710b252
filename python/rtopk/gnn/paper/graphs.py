"""The four graphs of the table: where they lie, and whether they are those that the paper trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .._text import printable
from ..data import Dataset, GraphError, load
from ..data.generated import SHAPES

# By graph: the names that its folder may have, in any case.
FOLDERS = {
    "flickr": ("flickr",),
    "yelp": ("yelp",),
    "reddit": ("reddit",),
    "ogbn-products": ("ogbn-products", "ogbn_products", "products"),
}


def find_folders(data: Path, graphs: list[str]) -> tuple[dict[str, Path], list[str]]:
    """The folders of the graphs that are in `data`, and the names of those that are not."""
    if not data.is_dir():
        raise GraphError(f"{data} is not a folder; accepted: one with the folders {', '.join(FOLDERS)}")
    found: dict[str, Path] = {}
    for path in sorted(path for path in data.iterdir() if path.is_dir()):
        for graph in graphs:
            if path.name.lower() in FOLDERS[graph]:
                if graph in found:
                    raise GraphError(f"{found[graph]} and {path} are both {graph}; accepted: one folder for each graph")
                found[graph] = path
    missing = [graph for graph in graphs if graph not in found]
    if not found:
        raise GraphError(f"{data} has none of the folders {', '.join(missing)}; accepted: one for each graph")
    return {graph: found[graph] for graph in graphs if graph in found}, missing


def read_graph(graph: str, folder: Path) -> Dataset:
    """Reads a graph with its features as they are in its files: MaxK-GNN's loaders do not standardise them."""
    return replace(load(folder, standardize=False), name=graph)


def difference(dataset: Dataset) -> str | None:
    """What distinguishes the graph from the paper's; None if it has the published sizes."""
    shape = SHAPES[f"{dataset.name.removeprefix('ogbn-')}-like"]
    have = {"nodes": dataset.graph.num_nodes, "edges": dataset.graph.num_edges}
    have |= {"features": dataset.features.shape[1], "classes": dataset.classes}
    other = [
        f"{count:,} {name} ({getattr(shape, name):,})" for name, count in have.items() if count != getattr(shape, name)
    ]
    return ", ".join(other) or None


def describe(dataset: Dataset) -> str:
    problem = difference(dataset)
    return f"{dataset}" + (f"\n  not the paper's graph: it has {problem}" if problem else "")


def missing_text(data: Path, missing: list[str]) -> str:
    return "".join(
        f"skipped: {graph}, since {printable(data)} has no folder {' or '.join(FOLDERS[graph])}\n" for graph in missing
    )
