"""MaxK-GNN: graph networks whose rows are sparsified by MaxK and aggregated without their zeros.

`python -m rtopk.gnn train --help` trains one.
"""

try:
    import numpy  # noqa: F401
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("numpy", "torch"):
        raise
    raise ModuleNotFoundError(
        f"rtopk.gnn needs {error.name}, which is not installed: pip install {error.name}", name=error.name
    ) from error

from .captured import CapturedBatchStep
from .data import Dataset, GraphError, load
from .features import SparseFeatures
from .graph import Graph
from .layers import MaxKGCNConv, MaxKGINConv, MaxKGNN, MaxKSAGEConv
from .rows import CompactMaxK, CompactRows
from .sampling import MiniBatch, NeighborSampler, hops_of

__all__ = [
    "CapturedBatchStep",
    "CompactMaxK",
    "CompactRows",
    "Dataset",
    "Graph",
    "GraphError",
    "MaxKGCNConv",
    "MaxKGINConv",
    "MaxKGNN",
    "MaxKSAGEConv",
    "MiniBatch",
    "NeighborSampler",
    "SparseFeatures",
    "hops_of",
    "load",
]
