"""What tells a graph from another: a SHA-256 of all that a training takes from it."""

from __future__ import annotations

import hashlib

import torch

from ..data import Dataset
from ..features import SparseFeatures


def fingerprint(dataset: Dataset) -> str:
    """The SHA-256 of the name, edges, features, labels and roles of a graph on the CPU. Of what was loaded, not of
    files: every format has it, and a reader that changes what it gives changes it."""
    total = hashlib.sha256(repr((dataset.name, dataset.classes, list(dataset.features.shape))).encode())
    features = dataset.features
    if isinstance(features, SparseFeatures):
        matrix = features.matrices[0]
        arrays = [matrix.crow_indices(), matrix.col_indices(), matrix.values()]
    else:
        arrays = [features]
    for array in (dataset.graph.row_starts, dataset.graph.columns, *arrays, dataset.labels, *dataset.split.values()):
        total.update(f"{array.dtype} {list(array.shape)}".encode())
        total.update(array.contiguous().view(-1).view(torch.uint8).numpy())
    return total.hexdigest()
