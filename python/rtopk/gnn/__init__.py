"""MaxK-GNN: graph networks whose rows are sparsified by MaxK and aggregated without their zeros.

`python -m rtopk.gnn train --help` trains one.
"""

try:
    import numpy  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "rtopk.gnn needs numpy, which is not installed: pip install 'rtopk[gnn]'", name="numpy"
    ) from error

from .data import Dataset, GraphError, load
from .features import SparseFeatures
from .graph import Graph
from .layers import MaxKGCNConv, MaxKGINConv, MaxKGNN, MaxKSAGEConv
from .rows import CompactMaxK, CompactRows
from .sampling import MiniBatch, NeighborSampler, hops_of

__all__ = [
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
