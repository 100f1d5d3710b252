"""What a convolution is called with: rows of one kind of nodes or of two, and a graph in any of the usual forms."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ._csr import described
from ._text import short
from .features import SparseFeatures
from .graph import Graph, checked_size
from .rows import CompactRows, DenseRows

Rows = torch.Tensor | SparseFeatures | CompactRows | DenseRows

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


# ---- Graphs ----


def as_graph(
    graph,
    size: tuple[int, int],
    edge_weight: torch.Tensor | None = None,
    *,
    weighted: bool = True,
    cuts: Sequence[int] = (),
) -> Graph:
    """A Graph from any form that layers take.

    Args:
        graph: a Graph; an edge_index, also PyTorch Geometric's EdgeIndex; the transposed adjacency as a torch_sparse
            SparseTensor or a sparse torch tensor; or a torch_geometric.data.Data.
        size: (sources, targets), for a form that does not say so itself.
        edge_weight: [edges], for an edge_index.
        weighted: whether the layer uses the values of a SparseTensor. As in PyTorch Geometric, GCN alone does.
        cuts: targets for which `Graph.starts_at` will be asked; then there is no edge_weight.
    """
    if edge_weight is not None and not _is_edge_index(graph):
        raise ValueError(f"edge_weight is given with a {type(graph).__name__}; accepted: with an edge_index")
    if isinstance(graph, Graph):
        return graph
    if _is_edge_index(graph):
        own_size = None
        if hasattr(graph, "as_tensor") and hasattr(graph, "sparse_size"):  # EdgeIndex, with operations of its own
            own_size = tuple(graph.sparse_size())
            graph = graph.as_tensor()
        if cuts:
            return Graph.from_mini_batch(graph, _merged(own_size, size), cuts)
        return Graph.from_edge_index(graph, None, edge_weight, _merged(own_size, size))
    if isinstance(graph, torch.Tensor):
        return _of_csr(graph)
    if hasattr(graph, "csr") and hasattr(graph, "sparse_sizes"):  # SparseTensor, known without its package
        row_starts, columns, values = graph.csr()
        return Graph(row_starts, columns, values if weighted else None, num_sources=graph.sparse_sizes()[1])
    if hasattr(graph, "edge_types") or hasattr(graph, "edge_index") or hasattr(graph, "adj_t"):
        return Graph.from_pyg(graph)
    raise TypeError(
        f"graph is {type(graph).__name__}; accepted: Graph, edge_index, SparseTensor, a sparse tensor, or an object"
        " that has edge_index"
    )


def _is_edge_index(graph) -> bool:
    return isinstance(graph, torch.Tensor) and graph.layout == torch.strided


def _of_csr(adjacency: torch.Tensor) -> Graph:
    """From a sparse matrix with a row for each target, PyTorch Geometric's adj_t as torch has it."""
    if adjacency.dim() != 2 or adjacency.dense_dim() or adjacency.layout not in _SPARSE:
        raise ValueError(f"graph is {described(adjacency)}; accepted: an edge_index, or a sparse matrix of targets")
    matrix = adjacency if adjacency.layout == torch.sparse_csr else adjacency.to_sparse_csr()
    return Graph(matrix.crow_indices(), matrix.col_indices(), matrix.values(), num_sources=matrix.shape[1])


_SPARSE = (torch.sparse_csr, torch.sparse_csc, torch.sparse_coo)


def _merged(own: tuple | None, size: tuple[int, int]) -> tuple[int, int]:
    """The size that an EdgeIndex has itself, as far as it knows; the rest from the rows."""
    return size if own is None else tuple(b if a is None else a for a, b in zip(own, size, strict=True))


# ---- Rows ----


def split_rows(x) -> tuple[Rows, Rows | None, bool]:
    """Rows to gather from, rows of the targets or None, and whether the two were given separately."""
    if not isinstance(x, (tuple, list)):
        return x, x, False
    if len(x) != 2 or not isinstance(x[0], torch.Tensor) or not isinstance(x[1], torch.Tensor | None):
        names = ", ".join(type(part).__name__ for part in x)
        raise TypeError(f"x is a {type(x).__name__} of {names}; accepted: a tensor, or (x_src, x_dst or None)")
    return x[0], x[1], True


def size_of(x: Rows, own: Rows | None, separate: bool, size) -> tuple[int, int]:
    """(sources, targets) of a call. As in PyTorch Geometric, targets of unknown number are as many as sources."""
    given = (None, None) if size is None else size
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise ValueError(f"size is {short(size)}; accepted: (sources, targets)")
    sources = len(x) if given[0] is None else given[0]
    targets = given[1]
    if targets is None:
        targets = len(own) if separate and own is not None else sources
    return checked_size((sources, targets))


def check_sizes(own: Rows | None, separate: bool, graph: Graph, size) -> None:
    """An error if the rows, or a given size, do not fit to the graph."""
    sizes = (graph.num_sources, graph.num_nodes)
    if size is not None and any(a is not None and a != b for a, b in zip(size, sizes, strict=True)):
        raise ValueError(f"size is {tuple(size)}; accepted: {sizes}, the sources and targets of the graph")
    if separate and own is not None and len(own) != graph.num_nodes:
        raise ValueError(f"x[1] has {len(own)} rows; accepted: {graph.num_nodes}, one for each target of the graph")
    if not separate and graph.num_nodes > graph.num_sources:
        raise ValueError(
            f"x is a tensor, and the graph has {graph.num_nodes} targets and {graph.num_sources} sources; accepted:"
            " (x_src, x_dst), since the targets are not the first of the sources"
        )


def check_rows(x: Rows, rows: int, columns: int, name: str = "x") -> None:
    """An error if these are not `rows` rows of `columns` columns in a type that layers take."""
    if isinstance(x, (CompactRows, DenseRows)):
        if len(x) != rows:
            raise ValueError(f"{name} has {len(x)} rows; accepted: {rows}, a row for each node of the graph")
        return
    if tuple(x.shape) != (rows, columns):
        raise ValueError(
            f"{name} has shape {list(x.shape)}; accepted: [{rows}, {columns}], a row for each node of the graph"
        )
    if isinstance(x, torch.Tensor) and x.dtype not in _FLOATS:
        raise TypeError(
            f"{name} is {x.dtype}; accepted: float32, float16 and bfloat16, the types of compact rows: x.float(), and"
            " the network's float()"
        )
