"""Reads graphs from files. Nothing is ever unpickled, and whatever a file holds is checked before it is used."""

from __future__ import annotations

import gzip
import itertools
import json
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import torch

from .data import MASKS, Dataset, GraphError, make_dataset
from .graph import Graph, csr_problem
from .layers import SparseFeatures

# Columns of sparse features, for each of which a network has a row of weights: 17 GB with 256 hidden columns.
_MOST_FEATURES = 1 << 24


def read(path: Path) -> Dataset:
    """From a file or folder of any of the known kinds."""
    if path.is_file():
        if path.suffix != ".npz":
            raise GraphError(f"{path} is not an .npz file")
        return read_npz(path)
    if (path / "adj_full.npz").exists():
        return read_graphsaint(path)
    for folder in (path, path / "products", path / "ogbn_products"):
        if (folder / "raw" / "edge.csv.gz").exists():
            return read_ogb_files(folder)
    raise GraphError(
        f"{path} is a folder of no known kind; accepted: GraphSAINT's files (adj_full.npz, feats.npy, class_map.json,"
        " role.json) or ogbn-products' (raw/edge.csv.gz, raw/node-feat.csv.gz, raw/node-label.csv.gz, split/)"
    )


# ---- Plain arrays ----


def read_npz(path: Path) -> Dataset:
    """indptr and indices; x, or x_shape, x_indptr, x_indices and x_data; y; perhaps train_mask, val_mask, test_mask."""
    arrays = _npz(path, ["indptr", "indices", "y"])
    graph = Graph(*_rows(path, arrays, "indptr", "indices", None), check=False)
    if "x" in arrays:
        features = torch.from_numpy(_numbers(path, "x", arrays["x"], 2))
    else:
        for name in ("x_shape", "x_indptr", "x_indices", "x_data"):
            _need(path, arrays, name)
        shape = arrays["x_shape"]
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0 or shape[1] > _MOST_FEATURES:
            raise GraphError(
                f"{path}: x_shape is {shape.tolist()}; accepted: two integers, of nodes and of up to"
                f" {_MOST_FEATURES} features"
            )
        starts, columns = _rows(path, arrays, "x_indptr", "x_indices", int(shape[1]))
        values = torch.from_numpy(_numbers(path, "x_data", arrays["x_data"], 1))
        if len(starts) != shape[0] + 1 or values.shape != columns.shape:
            raise GraphError(f"{path}: x_shape, x_indptr, x_indices and x_data do not fit together")
        features = SparseFeatures(starts, columns, values, int(shape[1]))
    masks = [_mask(path, name, arrays[name]) if name in arrays else None for name in MASKS]
    return make_dataset(path.stem, graph, features, _labels(path, arrays["y"]), masks)


def _npz(path: Path, needed: list[str]) -> dict[str, np.ndarray]:
    arrays = _load(path)
    if isinstance(arrays, np.ndarray):
        raise GraphError(f"{path} holds one array without a name; accepted: what numpy.savez writes")
    for name in needed:
        _need(path, arrays, name)
    return arrays


def _load(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    """The array of an .npy file; those of an .npz file by name."""
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content as file:
            # What is no array is there as bytes.
            return {name: array for name in file.files if isinstance(array := file[name], np.ndarray)}
    except Exception as error:  # numpy and zipfile have no one kind of error for broken files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise GraphError(f"{path} cannot be read: {reason}") from error


def _need(path, arrays, name):
    if name not in arrays:
        raise GraphError(f"{path} has no array {name}; it has {', '.join(arrays) or 'none'}")


def _rows(path, arrays, starts_name, columns_name, num_columns):
    """Compressed rows as tensors; without a number of columns, a square matrix."""
    for name in (starts_name, columns_name):
        array = arrays[name]
        if array.ndim != 1 or array.dtype.kind not in "iu" or (array.dtype.itemsize == 8 and array.dtype.kind == "u"):
            raise GraphError(f"{path}: {name} is {array.ndim}-dimensional {array.dtype}; accepted: integers in a row")
    starts, columns = (
        torch.from_numpy(np.ascontiguousarray(arrays[name], dtype=np.int64)) for name in (starts_name, columns_name)
    )
    problem = csr_problem(starts, columns, len(starts) - 1 if num_columns is None else num_columns)
    if problem:
        raise GraphError(f"{path}: {problem.replace('row_starts', starts_name).replace('columns', columns_name)}")
    return starts, columns


def _numbers(path, name, array, dims) -> np.ndarray:
    if array.ndim != dims or array.dtype.kind not in "fiu":
        raise GraphError(
            f"{path}: {name} is {array.ndim}-dimensional {array.dtype}; accepted: {dims} dimensions of numbers"
        )
    with np.errstate(over="ignore"):  # it becomes an infinity
        array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise GraphError(f"{path}: {name} holds a NaN or an infinity, as float32")
    return array


def _mask(path, name, array) -> torch.Tensor:
    if array.dtype.kind != "b":
        raise GraphError(f"{path}: {name} is {array.ndim}-dimensional {array.dtype}; accepted: a bool for each node")
    return torch.from_numpy(array)


def _labels(path, array) -> torch.Tensor:
    if array.dtype.kind not in "iufb" or array.ndim not in (1, 2):
        raise GraphError(
            f"{path}: y is {array.ndim}-dimensional {array.dtype}; accepted: a class a node, or a row a node"
        )
    kind = np.float32 if array.ndim == 2 else np.int64
    if array.ndim == 1 and array.dtype.kind not in "iu":
        raise GraphError(f"{path}: y is {array.dtype}; accepted: integers, a class a node")
    return torch.from_numpy(np.ascontiguousarray(array, dtype=kind))


# ---- GraphSAINT's folders (Flickr, Yelp, Reddit, as published) ----


def read_graphsaint(folder: Path) -> Dataset:
    """adj_full.npz (a SciPy CSR matrix), feats.npy, class_map.json, role.json. Features are standardised by the mean
    and deviation of the training nodes, as GraphSAINT does."""
    adjacency = folder / "adj_full.npz"
    arrays = _npz(adjacency, ["indptr", "indices", "shape"])
    if "format" in arrays and arrays["format"].tolist() not in (b"csr", "csr"):
        raise GraphError(f"{adjacency} is not in CSR form, but {arrays['format']}")
    graph = Graph(*_rows(adjacency, arrays, "indptr", "indices", None), check=False)
    nodes = graph.num_nodes
    if arrays["shape"].tolist() != [nodes, nodes]:
        raise GraphError(f"{adjacency}: shape is {arrays['shape'].tolist()}, and indptr is for {nodes} rows")

    roles = _json(folder / "role.json", dict)
    masks = []
    for role in ("tr", "va", "te"):
        mask = torch.zeros(nodes, dtype=torch.bool)
        mask[_nodes(folder / "role.json", role, roles.get(role), nodes)] = True
        masks.append(mask)

    features_file = folder / "feats.npy"
    features = _load(features_file)
    if not isinstance(features, np.ndarray):
        raise GraphError(f"{features_file} holds arrays with names; accepted: what numpy.save writes")
    features = torch.from_numpy(_numbers(features_file, "the array", features, 2))
    if len(features) == nodes and masks[0].any():
        chosen = features[masks[0]].double()
        deviation = chosen.std(0, correction=0)
        deviation[deviation == 0] = 1
        features = ((features - chosen.mean(0)) / deviation).float()
    labels = _class_map(folder / "class_map.json", nodes)
    return make_dataset(folder.resolve().name.lower(), graph, features, labels, masks)


def _json(path: Path, kind: type):
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise GraphError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, kind):
        raise GraphError(f"{path} holds no JSON object")
    return content


def _nodes(path, role, nodes, count) -> torch.Tensor:
    if not isinstance(nodes, list) or not all(type(node) is int and 0 <= node < count for node in nodes):
        raise GraphError(f"{path}: '{role}' is not a list of nodes from 0 to {count - 1}")
    return torch.tensor(nodes, dtype=torch.int64)


def _class_map(path: Path, nodes: int) -> torch.Tensor:
    classes = _json(path, dict)
    try:
        rows = [classes[str(node)] for node in range(nodes)]
    except KeyError as error:
        raise GraphError(f"{path} has no class for node {error}") from None
    several = isinstance(rows[0], list) if rows else False
    width = len(rows[0]) if several else 0
    for node, row in enumerate(rows):
        good = (
            isinstance(row, list) and len(row) == width and all(entry in (0, 1) for entry in row)
            if several
            else type(row) is int and 0 <= row < 2**63
        )
        if not good:
            raise GraphError(
                f"{path}: node {node} has {str(row)[:60]}; accepted: a class for all, or a list of 0 and 1 for all"
            )
    return torch.tensor(rows, dtype=torch.float32 if several else torch.int64)


# ---- ogbn-products ----


def read_ogb_files(folder: Path) -> Dataset:
    """The files as they are downloaded: raw/*.csv.gz and split/*/{train,valid,test}.csv.gz. Edges count in both
    directions."""
    features_file = folder / "raw" / "node-feat.csv.gz"
    features = torch.from_numpy(_numbers(features_file, "the table", _csv(features_file, np.float32), 2))
    nodes = len(features)
    labels = torch.from_numpy(_csv(folder / "raw" / "node-label.csv.gz", np.int64)).flatten()
    edges = torch.from_numpy(_csv(folder / "raw" / "edge.csv.gz", np.int64))
    if edges.shape[1] != 2:
        raise GraphError(f"{folder / 'raw' / 'edge.csv.gz'} has {edges.shape[1]} columns; accepted: source, target")
    splits = sorted((folder / "split").glob("*/train.csv.gz"))
    if not splits:
        raise GraphError(f"{folder / 'split'} has no folder with train.csv.gz, valid.csv.gz and test.csv.gz")
    masks = []
    for name in ("train", "valid", "test"):
        path = splits[0].with_name(f"{name}.csv.gz")
        part = torch.from_numpy(_csv(path, np.int64)).flatten()
        if len(part) and not 0 <= int(part.min()) <= int(part.max()) < nodes:
            raise GraphError(f"{path} names nodes {int(part.min())} to {int(part.max())}; accepted: 0 to {nodes - 1}")
        mask = torch.zeros(nodes, dtype=torch.bool)
        mask[part] = True
        masks.append(mask)
    return _ogb_dataset("ogbn-products", edges.t(), features, labels, masks)


def _ogb_dataset(name, edges, features, labels, masks):
    try:
        graph = Graph.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1), len(features))
    except ValueError as error:
        raise GraphError(f"{name}: {error}") from error
    return make_dataset(name, graph, features, labels, masks)


# Lines of a text file that are parsed at a time; between them there is a word of progress.
_LINES = 2_000_000


def _csv(path: Path, kind) -> np.ndarray:
    parts, done = [], 0
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            while True:
                lines = list(itertools.islice(file, _LINES))
                if not lines:
                    break
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
                    part = np.loadtxt(lines, dtype=kind, delimiter=",", ndmin=2)
                parts.append(part)
                done += len(part)
                if done >= _LINES:
                    print(f"{path.name}: {done:,} lines", file=sys.stderr, flush=True)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise GraphError(f"{path} cannot be read: {error}") from error
    if done == 0:
        raise GraphError(f"{path} is empty")
    try:
        return np.concatenate(parts)
    except ValueError as error:
        raise GraphError(f"{path}: lines of different lengths ({error})") from error


def read_ogb_package(name: str, folder: Path) -> Dataset:
    """Through the package ogb, which downloads what is missing."""
    try:
        from ogb.nodeproppred import NodePropPredDataset
    except ImportError as error:
        raise GraphError(
            f"{name} is not in the folder {folder}, and the package that downloads it is not installed: pip install"
            " ogb, or give the path of its unpacked files"
        ) from error
    dataset = NodePropPredDataset(name, root=str(folder))
    graph, labels = dataset[0]
    features = torch.from_numpy(graph["node_feat"])
    masks = []
    for part in dataset.get_idx_split().values():
        mask = torch.zeros(len(features), dtype=torch.bool)
        mask[torch.as_tensor(part)] = True
        masks.append(mask)
    # The package gives both directions already.
    edges = torch.from_numpy(graph["edge_index"])
    return make_dataset(
        name, Graph.from_edge_index(edges, len(features)), features, torch.from_numpy(labels).flatten(), masks
    )
