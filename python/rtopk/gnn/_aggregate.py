"""Sums over the neighbours in a graph, of features that are kept as compact sparse rows (CBSR).

torch.ops.rtopk.aggregate is Y = A X, and torch.ops.rtopk.aggregate_backward is (A^T dY) at the selectors of X: each is
the derivative of the other, so that gradients of any order exist.
"""

from __future__ import annotations

import torch
from torch.library import register_autograd, register_fake

from .. import _library  # noqa: F401  # defines the operators

_OPS = torch.ops.rtopk
_REDUCTIONS = ("sum", "mean")


def aggregate(graph, values: torch.Tensor, selectors: torch.Tensor, cols: int, reduce: str = "sum") -> torch.Tensor:
    """The features of every row's neighbours, added up: Y = A X with X in CBSR, as :func:`rtopk.compact` makes it.

    Differentiable in the values. Sums are made in float32 and in a fixed order; the gradient uses atomic additions on a
    GPU, whose order differs from run to run, unless torch.use_deterministic_algorithms(True) forbids it.

    Args:
        graph: has the sparse matrix A by rows, ``row_starts``, ``columns`` and ``weights`` (or None), and its transpose
            as ``t_row_starts``, ``t_columns`` and ``t_weights``. Indices are int32 or int64, weights float32.
        values: [nodes, k], float32, float16 or bfloat16.
        selectors: [nodes, k], uint8 or uint16: the columns of the values, distinct in a row.
        cols: how many columns X has.
        reduce: "sum", or "mean": divided by the number of a row's edges.

    Returns:
        [rows, cols] in the type of the values.
    """
    check_aggregation(graph, reduce)
    nodes = graph.t_row_starts.numel() - 1
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
        graph.t_row_starts,
        graph.t_columns,
        graph.t_weights,
    )


def check_aggregation(graph, reduce: str) -> None:
    """What every sum over neighbours asks of its graph and its kind."""
    if reduce not in _REDUCTIONS:
        raise ValueError(f"reduce is {reduce!r}; accepted: {' or '.join(map(repr, _REDUCTIONS))}")
    _check_weights("graph.weights", graph.weights)


def _check_weights(name, weights) -> None:
    if weights is not None and weights.requires_grad:
        raise ValueError(f"{name} requires a gradient, which an aggregation does not have; accepted: weights.detach()")


# ---- Shapes ----


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
    return row_starts.new_empty(n + 1), columns.new_empty(columns.shape), _empty_like(weights)


@register_fake("rtopk::_add_product")
def _fake_add_product(onto, values, selectors, matrix):
    devices = {tensor.device for tensor in (onto, values, selectors, matrix)}
    torch._check(len(devices) == 1, lambda: f"tensors are on {devices}; accepted: all on one device")


@register_fake("rtopk::_product_values_gradient")
def _fake_product_values_gradient(grad, selectors, matrix):
    return grad.new_empty(selectors.shape)


@register_fake("rtopk::_product_matrix_gradient")
def _fake_product_matrix_gradient(grad, values, selectors, cols):
    return grad.new_empty(cols, grad.shape[1])


@register_fake("rtopk::_linear")
def _fake_linear(x, weight, bias):
    return x.new_empty(x.shape[0], weight.shape[0])


@register_fake("rtopk::_linear_input_gradient")
def _fake_linear_input_gradient(grad, weight):
    return grad.new_empty(grad.shape[0], weight.shape[1])


@register_fake("rtopk::_linear_weight_gradient")
def _fake_linear_weight_gradient(grad, x):
    return grad.new_empty(grad.shape[1], x.shape[1])


@register_fake("rtopk::_norm")
def _fake_norm(x, bias, gamma, beta, epsilon):
    return x.new_empty(x.shape)


@register_fake("rtopk::_norm_backward")
def _fake_norm_backward(x, bias, gamma, epsilon, grad):
    return x.new_empty(x.shape), *(gamma.new_empty(gamma.shape) for _ in range(2)), _empty_like(bias)


@register_fake("rtopk::_norm_compact_backward")
def _fake_norm_compact_backward(x, bias, gamma, epsilon, values, selectors):
    return _fake_norm_backward(x, bias, gamma, epsilon, values)


def _empty_like(tensor):
    return None if tensor is None else tensor.new_empty(tensor.shape)


# ---- Derivatives ----


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


def _save_backward(ctx, inputs, output):
    *graphs, _, selectors, ctx.mean, ctx.deterministic = inputs
    _check_weights("weights", graphs[2])
    _check_weights("t_weights", graphs[5])
    ctx.cols = inputs[6].shape[1]
    ctx.save_for_backward(*graphs, selectors)


def _backward_backward(ctx, grad_values):
    row_starts, columns, weights, *transposed, selectors = ctx.saved_tensors
    grad = _OPS.aggregate(
        row_starts, columns, weights, grad_values, selectors, ctx.cols, ctx.mean, ctx.deterministic, *transposed
    )
    return *(None,) * 6, grad, None, None, None


register_autograd("rtopk::aggregate", _backward_aggregate, setup_context=_save_aggregate)
register_autograd("rtopk::aggregate_backward", _backward_backward, setup_context=_save_backward)
