"""Which part of a graph each node belongs to: by METIS, or by ranges of nodes."""

from __future__ import annotations

import torch

from ..data import GraphError
from ..graph import Graph

METHODS = ("metis", "ranges")

MAX_PARTS = 1 << 15
_SEED = 0  # of METIS: the same graph has the same parts


def default_method() -> str:
    """METIS where its bindings are installed."""
    try:
        import pymetis  # noqa: F401
    except ImportError:
        return "ranges"
    return "metis"


def owners(graph: Graph, parts: int, method: str) -> torch.Tensor:
    """The part of each node, [nodes] of int64.

    Both methods balance what a rank has to do: rows as much as edges. METIS also keeps neighbours together.

    Args:
        graph: on the CPU.
        parts: how many.
        method: "metis" or "ranges".
    """
    if not 1 <= parts <= MAX_PARTS:
        raise GraphError(f"parts is {parts}; accepted: 1 to {MAX_PARTS}")
    if method not in METHODS:
        raise GraphError(f"method is '{method}'; accepted: {', '.join(METHODS)}")
    work = _work(graph)
    if method == "ranges" or parts == 1 or graph.num_nodes <= parts:
        return _ranges(work, parts)
    return _metis(graph, work, parts)


def _work(graph: Graph) -> torch.Tensor:
    """What a node costs, in edges: its own, and for its row as many as a node has on average."""
    return graph.row_starts.diff().long() + max(graph.num_edges // graph.num_nodes, 1)


def _ranges(work: torch.Tensor, parts: int) -> torch.Tensor:
    before = work.cumsum(0) - work
    return (before.double() * parts / int(work.sum())).long().clamp_(max=parts - 1)


def _metis(graph: Graph, work: torch.Tensor, parts: int) -> torch.Tensor:
    try:
        import pymetis
    except ImportError as error:
        raise GraphError("method is 'metis', and pymetis is not installed; accepted: ranges") from error
    nodes = graph.num_nodes
    rows = torch.repeat_interleave(torch.arange(nodes), graph.row_starts.diff().long())
    columns = graph.columns.long()
    # METIS wants each edge once in both directions, and none from a node to itself.
    pairs = torch.cat([rows * nodes + columns, columns * nodes + rows])[(rows != columns).repeat(2)].unique()
    starts = torch.zeros(nodes + 1, dtype=torch.int64)
    starts[1:] = torch.bincount(pairs // nodes, minlength=nodes).cumsum(0)
    options = pymetis.Options(seed=_SEED)
    adjacency = pymetis.CSRAdjacency(starts.numpy(), (pairs % nodes).numpy())
    _, found = pymetis.part_graph(parts, adjacency, vweights=work.numpy(), options=options)
    return torch.as_tensor(found, dtype=torch.int64)
