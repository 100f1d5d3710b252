"""What readers of graph files share: arrays of an :class:`ArrayFile`, checked before they are used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from .._csr import columns_problem, starts_problem
from ._arrays import ArrayFile
from .dataset import GraphError

# Columns of features. A network has a row of weights for each: 17 GB with 256 hidden columns.
MAX_FEATURES = 1 << 24


def node_count(file: ArrayFile) -> int:
    check_starts(file, "indptr", "indices")
    count = file.heads["indptr"].shape[0] - 1
    if count < 1:
        raise GraphError(f"{file.path}: there are no nodes: indptr has {count + 1} entries; accepted: 2 or more")
    return count


def scipy_form(file: ArrayFile) -> tuple[object, object]:
    """The format and the shape of a sparse matrix, as SciPy wrote them. Without a format: csr."""
    file.need("shape")
    for name in file.heads.keys() & {"shape", "format"}:
        if file.heads[name].nbytes > 64:
            raise GraphError(f"{file.path}: {name} is {file.heads[name]}; accepted: what SciPy writes")
    form = file.read("format").tolist() if "format" in file.heads else "csr"
    return form, file.read("shape").tolist()


def check_starts(file: ArrayFile, starts: str, columns: str) -> None:
    for name in (starts, columns):
        head = file.heads[name]
        unsigned = head.dtype.kind == "u" and head.dtype.itemsize == 8
        if len(head.shape) != 1 or head.dtype.kind not in "iu" or unsigned:
            raise GraphError(f"{file.path}: {name} is {head}; accepted: integers in a row, up to int64")


def read_rows(file: ArrayFile, starts_name: str, columns_name: str, num_columns: int):
    """Compressed rows as tensors."""
    entries = file.heads[columns_name].shape[0]
    starts = int64(file.read(starts_name))
    problem = starts_problem(starts, entries)
    if problem is None:
        columns = int64(file.read(columns_name))
        problem = columns_problem(columns, num_columns)
    if problem:
        problem = problem.replace("row_starts", starts_name).replace("columns", columns_name)
        raise GraphError(f"{file.path}: {problem}")
    return starts, columns


def int64(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))


def check_rows(path: Path, what: str, shape: tuple[int, ...], nodes: int, max_columns: int) -> None:
    if shape[0] != nodes:
        raise GraphError(f"{path}: {what} for {shape[0]} nodes, and the graph has {nodes}")
    if len(shape) == 2 and shape[1] > max_columns:
        raise GraphError(f"{path}: {what} of {shape[1]} columns; accepted: up to {max_columns}")


def check_numbers(file: ArrayFile, name: str, dims: int) -> None:
    head = file.heads[name]
    if len(head.shape) != dims or head.dtype.kind not in "fiu":
        what = name or "the array"
        raise GraphError(f"{file.path}: {what} is {head}; accepted: {dims} dimensions of numbers")


def read_numbers(file: ArrayFile, name: str = "") -> np.ndarray:
    return finite(file.path, name or "the array", file.read(name))


def finite(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # it becomes an infinity
        array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise GraphError(f"{path}: {name} holds a NaN or an infinity, as float32")
    return array
