"""Graphs in .npz files of plain arrays. docs/gnn.md describes the format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from .._text import short
from ..features import SparseFeatures
from ..graph import Graph
from ._arrays import ArrayFile
from ._checks import MAX_FEATURES, check_numbers, check_rows, check_starts, int64, node_count, read_numbers, read_rows
from .dataset import MASKS, MAX_CLASSES, Dataset, GraphError, make_dataset

_SPARSE = ("x_shape", "x_indptr", "x_indices", "x_data")


def read_npz(path: Path) -> Dataset:
    """Reads indptr, indices and y; x, or x_shape, x_indptr, x_indices and x_data; optionally train_mask, val_mask and
    test_mask."""
    with ArrayFile(path, ("indptr", "indices", "y", "x", *_SPARSE, *MASKS)) as file:
        file.need("indptr", "indices", "y")
        dense = "x" in file.heads
        for name in _SPARSE:
            if dense:
                file.heads.pop(name, None)  # not read
            else:
                file.need(name)
        # Headers are checked before any array is decompressed.
        nodes = node_count(file)
        _check_labels(file, nodes)
        if dense:
            check_numbers(file, "x", 2)
            check_rows(path, "features", file.heads["x"].shape, nodes, MAX_FEATURES)
        else:
            _check_sparse(file)
        for name in MASKS:
            if name in file.heads:
                _check_mask(file, name, nodes)
        file.check_memory()
        graph = Graph(*read_rows(file, "indptr", "indices", nodes), check=False)
        features = torch.from_numpy(read_numbers(file, "x")) if dense else _sparse_features(file)
        masks = [torch.from_numpy(file.read(name)) if name in file.heads else None for name in MASKS]
        return make_dataset(path.stem, graph, features, _labels(file), masks)


def _check_sparse(file: ArrayFile) -> None:
    check_starts(file, "x_indptr", "x_indices")
    check_numbers(file, "x_data", 1)
    shape, heads = _sparse_shape(file), file.heads
    if heads["x_indptr"].shape[0] != shape[0] + 1 or heads["x_data"].shape != heads["x_indices"].shape:
        raise GraphError(f"{file.path}: {', '.join(_SPARSE[:-1])} and {_SPARSE[-1]} do not fit together")


def _sparse_shape(file: ArrayFile) -> list[int]:
    head = file.heads["x_shape"]
    shape = file.read("x_shape").tolist() if head.shape == (2,) and head.dtype.kind in "iu" else None
    if shape is None or min(shape) < 0 or shape[1] > MAX_FEATURES:
        found = head if shape is None else shape
        raise GraphError(
            f"{file.path}: x_shape is {found}; accepted: two integers, of nodes and of up to {MAX_FEATURES} features"
        )
    return shape


def _sparse_features(file: ArrayFile) -> SparseFeatures:
    columns = _sparse_shape(file)[1]
    values = torch.from_numpy(read_numbers(file, "x_data"))
    return SparseFeatures(*read_rows(file, "x_indptr", "x_indices", columns), values, columns)


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
    check_rows(file.path, "labels", head.shape, nodes, MAX_CLASSES)


def _labels(file: ArrayFile) -> torch.Tensor:
    array = file.read("y")
    if array.ndim == 1:
        if array.size and array.max() >= MAX_CLASSES:  # before it is narrowed
            found = f"{array.dtype} from {array.min()} to {array.max()}"
            raise GraphError(
                f"{file.path}: the labels are not classes: {found}; accepted: integers from 0 to {MAX_CLASSES - 1}"
            )
        return int64(array)
    other = (array != 0) & (array != 1)
    if other.any():
        raise GraphError(f"{file.path}: y is not rows of zeros and ones: {array[other][0]:g} is among them")
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
