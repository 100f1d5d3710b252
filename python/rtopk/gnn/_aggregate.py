"""Sums over the neighbours in a graph, of features that are kept as compact sparse rows (CBSR).

torch.ops.rtopk.aggregate is Y = A X, and torch.ops.rtopk.aggregate_backward is (A^T dY) at the selectors of X. Each is
the derivative of the other, so gradients of any order exist.
"""

from __future__ import annotations

import torch
from torch.library import register_autograd, register_fake

from .. import _library  # noqa: F401  # defines the operators

_OPS = torch.ops.rtopk
_REDUCTIONS = ("sum", "mean")


def aggregate(
    graph, values: torch.Tensor, selectors: torch.Tensor, cols: int, reduce: str = "sum", transpose: tuple | None = None
) -> torch.Tensor:
    """The sum of the features of every row's neighbours: Y = A X with X in CBSR, as :func:`rtopk.compact` makes it.

    Differentiable in the values. Sums are made in float32 and in a fixed order. On a GPU the gradient uses atomic
    additions, whose order differs from run to run, unless torch.use_deterministic_algorithms(True) is set.

    Args:
        graph: has the sparse matrix A by rows, ``row_starts``, ``columns`` and ``weights`` (or None), and its transpose
            as ``t_row_starts``, ``t_columns`` and ``t_weights``. Indices are int32 or int64, weights float32.
        values: [nodes, k], float32, float16 or bfloat16.
        selectors: [nodes, k], uint8 or uint16: the columns of the values, distinct in a row.
        cols: the number of columns of X.
        reduce: "sum", or "mean" for the sum divided by the number of the row's edges.
        transpose: the three parts of the transpose, if they are not those of the graph.

    Returns:
        [rows, cols] in the type of the values.
    """
    check_aggregation(graph, reduce)
    if transpose is None:
        transpose = (graph.t_row_starts, graph.t_columns, graph.t_weights)
    nodes = transpose[0].numel() - 1
    if len(values) != nodes:
        raise ValueError(
            f"values has {len(values)} rows; accepted: {nodes}, one for each node that the graph gathers from"
        )
    return _OPS.aggregate.default(
        graph.row_starts,
        graph.columns,
        graph.weights,
        values,
        selectors,
        cols,
        reduce == "mean",
        torch.are_deterministic_algorithms_enabled(),
        *transpose,
    )


def check_aggregation(graph, reduce: str) -> None:
    """Raises an error if a graph or a reduction does not suit an aggregation."""
    if reduce not in _REDUCTIONS:
        raise ValueError(f"reduce is {reduce!r}; accepted: {' or '.join(map(repr, _REDUCTIONS))}")
    _check_weights("graph.weights", graph.weights)


def _check_weights(name, weights) -> None:
    if weights is not None and weights.requires_grad:
        raise ValueError(f"{name} requires a gradient, and an aggregation has none for it; accepted: weights.detach()")


# ---- Dense rows, and back: aggregations in which every node gathers from itself ----


def _identity(rows: int, device: torch.device):
    """The parts of the identity matrix, which is its own transpose."""
    starts = torch.arange(rows + 1, dtype=index_type(rows), device=device)
    return starts, starts[:-1], None


def expanded(values: torch.Tensor, selectors: torch.Tensor, cols: int) -> torch.Tensor:
    """The dense rows. An aggregation writes every element once; a scatter would need zeros and 64-bit indices first."""
    identity = _identity(len(values), values.device)
    return _OPS.aggregate.default(*identity, values, selectors, cols, False, True, None, None, None)


def at_selectors(rows: torch.Tensor, selectors: torch.Tensor) -> torch.Tensor:
    """The elements of dense rows that the selectors name."""
    identity = _identity(len(rows), rows.device)
    return _OPS.aggregate_backward.default(*identity, *identity, rows, selectors, False, True)


def index_type(maximum: int) -> torch.dtype:
    """The smallest type of indices up to a number."""
    return torch.int32 if maximum < 2**31 else torch.int64


# ---- The operators ----


@register_fake("rtopk::aggregate")
def _fake_aggregate(row_starts, columns, weights, values, selectors, cols, mean, deterministic, *transposed):
    return values.new_empty(row_starts.shape[0] - 1, cols)


@register_fake("rtopk::aggregate_backward")
def _fake_aggregate_backward(
    row_starts, columns, weights, t_row_starts, t_columns, t_weights, grad, selectors, mean, deterministic
):
    return grad.new_empty(selectors.shape)


@register_fake("rtopk::transpose_graph")
def _fake_transpose_graph(row_starts, columns, weights, n):
    t_weights = None if weights is None else weights.new_empty(weights.shape)
    return row_starts.new_empty(n + 1), columns.new_empty(columns.shape), t_weights


@register_fake("rtopk::_own_edges")
def _fake_own_edges(row_starts, columns, weights, n, edge, normalized, others_total):
    rows = row_starts.shape[0] - 1
    places = columns.shape[0] + (rows if edge else 0)
    starts, new_columns = (row_starts.new_empty(rows + 1), columns.new_empty(places)) if edge else (None, None)
    new_weights = columns.new_empty(places, dtype=torch.float32) if normalized or weights is not None else None
    return starts, new_columns, new_weights, columns.new_empty(rows, dtype=torch.float64) if normalized else None


def _save_aggregate(ctx, inputs, output):
    row_starts, columns, weights, _, selectors, ctx.cols, ctx.mean, ctx.deterministic, *transposed = inputs
    _check_weights("weights", weights)
    ctx.save_for_backward(row_starts, columns, weights, selectors, *transposed)


def _backward_aggregate(ctx, grad):
    row_starts, columns, weights, selectors, *transposed = ctx.saved_tensors
    if transposed[0] is None:
        transposed = _OPS.transpose_graph(row_starts, columns, weights, selectors.shape[0])
    grad_values = _OPS.aggregate_backward(
        row_starts, columns, weights, *transposed, grad, selectors, ctx.mean, ctx.deterministic
    )
    return None, None, None, grad_values, *(None,) * 7


def _save_aggregate_backward(ctx, inputs, output):
    *graphs, _, selectors, ctx.mean, ctx.deterministic = inputs
    _check_weights("weights", graphs[2])
    _check_weights("t_weights", graphs[5])
    ctx.cols = inputs[6].shape[1]
    ctx.save_for_backward(*graphs, selectors)


def _backward_aggregate_backward(ctx, grad_values):
    row_starts, columns, weights, *transposed, selectors = ctx.saved_tensors
    grad = _OPS.aggregate(
        row_starts, columns, weights, grad_values, selectors, ctx.cols, ctx.mean, ctx.deterministic, *transposed
    )
    return *(None,) * 6, grad, None, None, None


register_autograd("rtopk::aggregate", _backward_aggregate, setup_context=_save_aggregate)
register_autograd("rtopk::aggregate_backward", _backward_aggregate_backward, setup_context=_save_aggregate_backward)
