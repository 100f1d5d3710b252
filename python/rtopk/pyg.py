"""Pooling over graphs of different sizes, as PyTorch Geometric does it.

:func:`topk` selects nodes as torch_geometric.nn.pool.select.topk.topk does, and :func:`accelerate` puts it there, for
TopKPooling, SAGPooling and SelectTopK. The module itself does not need PyTorch Geometric.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator

import torch

from ._segments import topk_segments

__all__ = ["accelerate", "topk"]

#: Results have the width of the greatest k. From this many times the nodes on they are mostly padding, and nodes are
#: sorted instead, as in a batch of one large graph and thousands of small ones.
_MAX_PADDING = 8


def topk(
    x: torch.Tensor,
    ratio: float | int | None,
    batch: torch.Tensor,
    min_score: float | None = None,
    tol: float = 1e-7,
) -> torch.Tensor:
    """The nodes with the highest scores of every graph, graph by graph, best first.

    Arguments and results are those of torch_geometric.nn.pool.select.topk.topk. Among equal scores, where its order is
    left open, nodes with lower indices are selected, and come first, on every device.

    Args:
        x: a score for each node.
        ratio: below 1, the share of a graph's nodes, rounded up; else their number.
        batch: int64, the graph of each node. It need not ascend.
        min_score: selects the nodes with higher scores instead, and in every graph at least the best, in ascending
            index.
        tol: how far below the best of its graph a score may be, if all are below `min_score`.

    As there, the number of nodes in the result is known only when the GPU has computed it.

    >>> from rtopk.pyg import topk
    >>> topk(torch.tensor([0.3, 0.9, 0.4, 0.1, 0.2]), 0.5, torch.tensor([0, 0, 0, 1, 1]))
    tensor([1, 2, 4])
    """
    if ratio is None and min_score is None:
        raise ValueError("ratio and min_score are None; accepted: at least one of them")
    x, batch = x.detach().reshape(-1), batch.reshape(-1)
    if x.shape != batch.shape:
        raise ValueError(f"batch has {batch.numel()} elements; accepted: {x.numel()}, one for each score")
    if x.numel() == 0:
        return batch.new_empty(0, dtype=torch.int64)
    ascends = (batch[1:] >= batch[:-1]).all()
    last, ascends = torch.stack([batch.max(), ascends.to(batch.dtype)]).tolist()
    nodes = None
    if not ascends:
        batch, nodes = batch.sort(stable=True)
        x = x[nodes]
    graphs = last + 1
    offsets = torch.searchsorted(batch, torch.arange(graphs + 1, dtype=batch.dtype, device=batch.device))
    if min_score is not None:
        best = topk_segments(x, offsets, 1).values[:, 0]
        chosen = (x > (best[batch] - tol).clamp(max=min_score)).nonzero()[:, 0]
        return chosen if nodes is None else nodes[chosen].sort().values
    sizes = offsets.diff()
    # In the dtype of the scores: it decides how a product that is nearly a whole number is rounded up.
    row_k = sizes.clamp(max=int(ratio)) if ratio >= 1 else (float(ratio) * sizes.to(x.dtype)).ceil().to(torch.int64)
    longest, width = torch.stack([sizes.max(), row_k.max()]).tolist()
    if graphs * width > _MAX_PADDING * len(x):
        chosen = _sorted_nodes(x, batch, offsets, row_k)
        return chosen if nodes is None else nodes[chosen]
    places = topk_segments(x, offsets, width, row_k=row_k, max_length=longest, ids=nodes).indices
    return places[places >= 0]


def _sorted_nodes(x, batch, offsets, row_k):
    """The same by sorting all nodes."""
    order = x.sort(descending=True, stable=True).indices
    order = order[batch[order].sort(stable=True).indices]
    rank = torch.arange(len(x), device=x.device) - offsets[batch]
    return order[rank < row_k[batch]]


@contextlib.contextmanager
def accelerate() -> Iterator[None]:
    """A context manager, and a decorator: while the block runs, the poolings of PyTorch Geometric select by
    :func:`topk`, in all threads of the process."""
    module = importlib.import_module("torch_geometric.nn.pool.select.topk")
    before = module.topk
    module.topk = topk
    try:
        yield
    finally:
        module.topk = before
