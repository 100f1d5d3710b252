"""Where graph, features and labels of a training by sampled neighbourhoods stay."""

from __future__ import annotations

import torch

from ..data import Dataset
from ..features import SparseFeatures
from ..recipe import Recipe

# The share of a device's memory that they may take. Mini-batches, evaluations and what the training derives from the
# graph need the rest.
DEVICE_SHARE = 0.5


def data_device(recipe: Recipe, device: torch.device) -> torch.device:
    """Where the data of a training on a device stay."""
    return torch.device("cpu") if recipe.store == "host" else device


def bytes_of(dataset: Dataset) -> int:
    """The memory of graph, features and labels. The graph counts twice: evaluations have one of their own, with self
    loops or weights."""
    graph, features = dataset.graph, dataset.features
    of_graph = [part for part in (graph.row_starts, graph.columns, graph.weights) if part is not None]
    of_features = [features]
    if isinstance(features, SparseFeatures):
        parts = ("crow_indices", "col_indices", "values")
        of_features = [getattr(matrix, part)() for matrix in features.matrices for part in parts]
    return sum(part.nbytes for part in (*of_graph, *of_graph, *of_features, dataset.labels))


def why_on_host(dataset: Dataset, device: torch.device) -> str | None:
    """Why they should stay on the host; None: they fit the device."""
    if device.type != "cuda":
        return None
    needed, there = bytes_of(dataset), torch.cuda.get_device_properties(device).total_memory
    if needed <= DEVICE_SHARE * there:
        return None
    return f"{needed / 1e9:.1f} GB are more than half of the {there / 1e9:.1f} GB of {device}"
