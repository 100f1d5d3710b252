"""Reddit in DGL's files: posts that a user commented on are joined, 114.6 million edges in both directions."""

from __future__ import annotations

from pathlib import Path

import torch

from .._text import short
from ..graph import Graph
from ._arrays import ArrayFile
from ._checks import MAX_FEATURES, check_numbers, check_rows, check_starts, int64, read_numbers, read_rows, scipy_form
from .dataset import MAX_CLASSES, Dataset, GraphError, make_dataset

DATA_FILE = "reddit_data.npz"
GRAPH_FILE = "reddit_graph.npz"

_PARTS = (1, 2, 3)  # node_types: training, validation, test


def read_reddit(folder: Path) -> Dataset:
    """Reads reddit_data.npz (feature, label, node_types) and reddit_graph.npz (a SciPy COO or CSR matrix). Features are
    left as they are."""
    path = folder / DATA_FILE
    with ArrayFile(path, ("feature", "label", "node_types")) as file:
        file.need("feature", "label", "node_types")
        check_numbers(file, "feature", 2)
        nodes = file.heads["feature"].shape[0]
        check_rows(path, "features", file.heads["feature"].shape, nodes, MAX_FEATURES)
        for name in ("label", "node_types"):
            _check_integers(file, name, nodes)
        graph = _graph(folder / GRAPH_FILE, nodes)
        file.check_memory()
        types = _integers(file, "node_types", _PARTS[0], _PARTS[-1])
        labels = _integers(file, "label", 0, MAX_CLASSES - 1)
        features = torch.from_numpy(read_numbers(file, "feature"))
    masks = [types == part for part in _PARTS]
    return make_dataset(folder.resolve().name.lower(), graph, features, labels, masks)


def _check_integers(file: ArrayFile, name: str, nodes: int) -> None:
    head = file.heads[name]
    if head.dtype.kind not in "iu" or len(head.shape) != 1:
        raise GraphError(f"{file.path}: {name} is {head}; accepted: an integer for each node")
    check_rows(file.path, name, head.shape, nodes, 1)


def _integers(file: ArrayFile, name: str, lowest: int, highest: int) -> torch.Tensor:
    array = file.read(name)
    if array.size and not lowest <= array.min() <= array.max() <= highest:
        found = f"{array.min()} to {array.max()}"
        raise GraphError(f"{file.path}: {name} goes from {found}; accepted: {lowest} to {highest}")
    return int64(array)


def _graph(path: Path, nodes: int) -> Graph:
    """As DGL reads it: the node of a column gathers from the nodes of its rows."""
    with ArrayFile(path, ("row", "col", "indptr", "indices", "shape", "format")) as file:
        form, shape = scipy_form(file)
        readers = {b"coo": _coo_edges, "coo": _coo_edges, b"csr": _csr_edges, "csr": _csr_edges}
        if not isinstance(form, (bytes, str)) or form not in readers:
            raise GraphError(f"{path} is in the form {short(form)}; accepted: coo, csr")
        if shape != [nodes, nodes]:
            raise GraphError(f"{path}: shape is {shape}, and {DATA_FILE} has {nodes} nodes")
        edges = readers[form](file, nodes)
    try:
        return Graph.from_edge_index(edges, nodes)
    except ValueError as error:
        raise GraphError(f"{path}: {error}") from error


def _coo_edges(file: ArrayFile, nodes: int) -> torch.Tensor:
    _keep(file, "row", "col")
    first, second = (file.heads[name].shape[0] for name in ("row", "col"))
    if first != second:
        raise GraphError(f"{file.path}: row has {first} entries, and col {second}; accepted: one each for an edge")
    return torch.stack([int64(file.read(name)) for name in ("row", "col")])


def _csr_edges(file: ArrayFile, nodes: int) -> torch.Tensor:
    _keep(file, "indptr", "indices")
    if (entries := file.heads["indptr"].shape[0]) != nodes + 1:
        raise GraphError(f"{file.path}: indptr has {entries} entries; accepted: {nodes + 1}, one more than nodes")
    starts, columns = read_rows(file, "indptr", "indices", nodes)
    return torch.stack([torch.repeat_interleave(torch.arange(nodes), starts.diff()), columns])


def _keep(file: ArrayFile, *names: str) -> None:
    """Checks the arrays that this form of a matrix has, and forgets those of the other."""
    file.need(*names)
    file.heads = {name: file.heads[name] for name in names}
    check_starts(file, *names)
    file.check_memory()
