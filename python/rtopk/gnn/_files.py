"""Reads graphs from files. Nothing is ever unpickled, and whatever a file holds is checked before it is used."""

from __future__ import annotations

import gzip
import io
import json
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from ._arrays import ArrayFile, check_memory, open_plain
from ._text import printable, short
from .data import MASKS, MOST_CLASSES, Dataset, GraphError, make_dataset
from .graph import Graph, columns_problem, starts_problem
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


_SPARSE = ("x_shape", "x_indptr", "x_indices", "x_data")


def read_npz(path: Path) -> Dataset:
    """indptr and indices; x, or x_shape, x_indptr, x_indices and x_data; y; perhaps train_mask, val_mask, test_mask."""
    with ArrayFile(path, ("indptr", "indices", "y", "x", *_SPARSE, *MASKS)) as file:
        file.need("indptr", "indices", "y")
        dense = "x" in file.heads
        for name in _SPARSE:
            if dense:
                file.heads.pop(name, None)  # not read
            else:
                file.need(name)
        # What arrays claim to be, before any of them is inflated.
        nodes = _node_count(file)
        _check_labels(file, nodes)
        if dense:
            _check_numbers(file, "x", 2)
            _check_rows(path, "features", file.heads["x"].shape, nodes, _MOST_FEATURES)
        else:
            _check_sparse(file)
        for name in MASKS:
            if name in file.heads:
                _check_mask(file, name, nodes)
        file.check_memory()
        graph = Graph(*_rows(file, "indptr", "indices", nodes), check=False)
        features = torch.from_numpy(_numbers(file, "x")) if dense else _sparse_features(file)
        masks = [torch.from_numpy(file.read(name)) if name in file.heads else None for name in MASKS]
        return make_dataset(path.stem, graph, features, _labels(file), masks)


def _check_sparse(file: ArrayFile) -> None:
    _check_starts(file, "x_indptr", "x_indices")
    _check_numbers(file, "x_data", 1)
    shape, heads = _sparse_shape(file), file.heads
    if heads["x_indptr"].shape[0] != shape[0] + 1 or heads["x_data"].shape != heads["x_indices"].shape:
        raise GraphError(f"{file.path}: {', '.join(_SPARSE[:-1])} and {_SPARSE[-1]} do not fit together")


def _sparse_shape(file: ArrayFile) -> list[int]:
    head = file.heads["x_shape"]
    shape = file.read("x_shape").tolist() if head.shape == (2,) and head.dtype.kind in "iu" else None
    if shape is None or min(shape) < 0 or shape[1] > _MOST_FEATURES:
        found = head if shape is None else shape
        raise GraphError(
            f"{file.path}: x_shape is {found}; accepted: two integers, of nodes and of up to {_MOST_FEATURES} features"
        )
    return shape


def _sparse_features(file: ArrayFile) -> SparseFeatures:
    columns = _sparse_shape(file)[1]
    values = torch.from_numpy(_numbers(file, "x_data"))
    return SparseFeatures(*_rows(file, "x_indptr", "x_indices", columns), values, columns)


def _node_count(file: ArrayFile) -> int:
    _check_starts(file, "indptr", "indices")
    count = file.heads["indptr"].shape[0] - 1
    if count < 1:
        raise GraphError(f"{file.path}: there are no nodes: indptr has {count + 1} entries; accepted: 2 or more")
    return count


def _check_starts(file: ArrayFile, starts: str, columns: str) -> None:
    for name in (starts, columns):
        head = file.heads[name]
        unsigned = head.dtype.kind == "u" and head.dtype.itemsize == 8
        if len(head.shape) != 1 or head.dtype.kind not in "iu" or unsigned:
            raise GraphError(f"{file.path}: {name} is {head}; accepted: integers in a row, up to int64")


def _rows(file: ArrayFile, starts_name: str, columns_name: str, num_columns: int):
    """Compressed rows as tensors."""
    entries = file.heads[columns_name].shape[0]
    starts = _int64(file.read(starts_name))
    problem = starts_problem(starts, entries)
    if problem is None:
        columns = _int64(file.read(columns_name))
        problem = columns_problem(columns, num_columns)
    if problem:
        problem = problem.replace("row_starts", starts_name).replace("columns", columns_name)
        raise GraphError(f"{file.path}: {problem}")
    return starts, columns


def _int64(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))


def _check_rows(path: Path, what: str, shape: tuple[int, ...], nodes: int, most: int) -> None:
    if shape[0] != nodes:
        raise GraphError(f"{path}: {what} for {shape[0]} nodes, and the graph has {nodes}")
    if len(shape) == 2 and shape[1] > most:
        raise GraphError(f"{path}: {what} of {shape[1]} columns; accepted: up to {most}")


def _check_numbers(file: ArrayFile, name: str, dims: int) -> None:
    head = file.heads[name]
    if len(head.shape) != dims or head.dtype.kind not in "fiu":
        what = name or "the array"
        raise GraphError(f"{file.path}: {what} is {head}; accepted: {dims} dimensions of numbers")


def _numbers(file: ArrayFile, name: str = "") -> np.ndarray:
    return _finite(file.path, name or "the array", file.read(name))


def _finite(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # it becomes an infinity
        array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise GraphError(f"{path}: {name} holds a NaN or an infinity, as float32")
    return array


def _check_mask(file: ArrayFile, name: str, nodes: int) -> None:
    head = file.heads[name]
    if head.dtype.kind != "b" or head.shape != (nodes,):
        shape = short(str(list(head.shape))).strip("'")
        raise GraphError(f"{file.path}: {name} is {head}, {shape}; accepted: a bool for each of {nodes} nodes")


def _check_labels(file: ArrayFile, nodes: int) -> None:
    head = file.heads["y"]
    if head.dtype.kind not in "iufb" or len(head.shape) not in (1, 2):
        raise GraphError(f"{file.path}: y is {head}; accepted: a class a node, or a row a node")
    if len(head.shape) == 1 and head.dtype.kind not in "iu":
        raise GraphError(f"{file.path}: y is {head.dtype}; accepted: integers, a class a node")
    _check_rows(file.path, "labels", head.shape, nodes, MOST_CLASSES)


def _labels(file: ArrayFile) -> torch.Tensor:
    array = file.read("y")
    if array.ndim == 1:
        if array.size and array.max() >= MOST_CLASSES:  # before it is narrowed
            found = f"{array.dtype} from {array.min()} to {array.max()}"
            raise GraphError(
                f"{file.path}: the labels are not classes: {found}; accepted: integers from 0 to {MOST_CLASSES - 1}"
            )
        return _int64(array)
    other = (array != 0) & (array != 1)
    if other.any():
        raise GraphError(f"{file.path}: y is not rows of zeros and ones: {array[other][0]:g} is among them")
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


# ---- GraphSAINT's folders (Flickr, Yelp, Reddit, as published) ----


def read_graphsaint(folder: Path) -> Dataset:
    """adj_full.npz (a SciPy CSR matrix), feats.npy, class_map.json, role.json. Features are standardised by the mean
    and deviation of the training nodes, as GraphSAINT does."""
    adjacency = folder / "adj_full.npz"
    with ArrayFile(adjacency, ("indptr", "indices", "shape", "format")) as file:
        file.need("indptr", "indices", "shape")
        nodes = _node_count(file)
        for name in file.heads.keys() & {"shape", "format"}:
            if file.heads[name].nbytes > 64:
                raise GraphError(f"{adjacency}: {name} is {file.heads[name]}; accepted: what SciPy writes")
        if "format" in file.heads and (form := file.read("format").tolist()) not in (b"csr", "csr"):
            raise GraphError(f"{adjacency} is not in CSR form, but {form}")
        if (shape := file.read("shape").tolist()) != [nodes, nodes]:
            raise GraphError(f"{adjacency}: shape is {shape}, and indptr is for {nodes} rows")
        file.check_memory()
        graph = Graph(*_rows(file, "indptr", "indices", nodes), check=False)

    roles = _json(folder / "role.json", dict)
    masks = []
    for role in ("tr", "va", "te"):
        mask = torch.zeros(nodes, dtype=torch.bool)
        mask[_nodes(folder / "role.json", role, roles.get(role), nodes)] = True
        masks.append(mask)

    features_file = folder / "feats.npy"
    with ArrayFile(features_file) as file:
        _check_numbers(file, "", 2)
        _check_rows(features_file, "features", file.heads[""].shape, nodes, _MOST_FEATURES)
        file.check_memory()
        features = torch.from_numpy(_numbers(file))
    if masks[0].any():
        chosen = features[masks[0]].double()
        deviation = chosen.std(0, correction=0)
        deviation[deviation == 0] = 1
        features = (features - chosen.mean(0)) / deviation
        features = torch.from_numpy(_finite(features_file, "the array, standardised,", features.numpy()))
    labels = _class_map(folder / "class_map.json", nodes)
    return make_dataset(folder.resolve().name.lower(), graph, features, labels, masks)


def _json(path: Path, kind: type):
    try:
        with open_plain(path) as file:
            content = json.loads(file.read())
    except GraphError:
        raise
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
    features = torch.from_numpy(_finite(features_file, "the table", _csv(features_file, np.float32)))
    nodes = len(features)
    labels = torch.from_numpy(_csv(folder / "raw" / "node-label.csv.gz", np.int64, nodes)).flatten()
    edges = torch.from_numpy(_csv(folder / "raw" / "edge.csv.gz", np.int64))
    if edges.shape[1] != 2:
        raise GraphError(f"{folder / 'raw' / 'edge.csv.gz'} has {edges.shape[1]} columns; accepted: source, target")
    splits = sorted((folder / "split").glob("*/train.csv.gz"))
    if not splits:
        raise GraphError(f"{folder / 'split'} has no folder with train.csv.gz, valid.csv.gz and test.csv.gz")
    masks = []
    for name in ("train", "valid", "test"):
        path = splits[0].with_name(f"{name}.csv.gz")
        part = torch.from_numpy(_csv(path, np.int64, nodes)).flatten()
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


# Characters of a text file that are parsed at a time, and that a line may have; after so many lines there is a word of
# progress.
_BLOCK = 1 << 26
_LONGEST_LINE = 1 << 22
_REPORT_LINES = 2_000_000


def _csv(path: Path, kind, most: int | None = None) -> np.ndarray:
    """A table of numbers, of `most` lines at most."""
    parts, done, bytes_done, reported = [], 0, 0, 0
    try:
        with open_plain(path) as raw, gzip.open(raw, "rt", encoding="ascii") as file:
            for text in _whole_lines(file):
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
                    part = np.loadtxt(io.StringIO(text), dtype=kind, delimiter=",", ndmin=2)
                parts.append(part)
                done += len(part)
                bytes_done += part.nbytes
                if most is not None and done > most:
                    raise GraphError(f"{path} has more than {most} lines, and the graph has {most} nodes")
                check_memory(path, 2 * bytes_done)  # they are put together at the end
                if done - reported >= _REPORT_LINES:
                    print(f"{printable(path.name)}: {done:,} lines", file=sys.stderr, flush=True)
                    reported = done
    except GraphError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise GraphError(f"{path} cannot be read: {error}") from error
    if done == 0:
        raise GraphError(f"{path} is empty")
    try:
        return np.concatenate([part for part in parts if len(part)])
    except ValueError as error:
        raise GraphError(f"{path}: lines of different lengths ({error})") from error


def _whole_lines(file) -> Iterator[str]:
    """The text in blocks that end with a line."""
    rest = ""
    while block := file.read(_BLOCK):
        text, newline, after = (rest + block).rpartition("\n")
        if newline:
            yield text + newline
        rest = after
        if len(rest) > _LONGEST_LINE:
            raise ValueError(f"a line has more than {_LONGEST_LINE} characters")
    if rest:
        yield rest


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
