"""Products of compact rows and matrices, which skip the zeros.

Their operators have no registered derivatives: the autograd.Functions here are their derivatives, and call them only
where nothing records the call.
"""

from __future__ import annotations

import torch
from torch.library import register_fake

from .._operators import writing_operator
from .._torch_internals import check
from ._aggregate import at_selectors, expanded
from ._csr import csr_product

_OPS = torch.ops.rtopk

# Rows that are made dense at a time if a product needs them so: 32 MB at 256 columns of float32, which an H200's L2
# cache holds. The products are large enough for full speed.
_BLOCK_ROWS = 1 << 15

# Columns for each kept element from which a GPU multiplies compact rows. On an H200 (89,250 rows, 256 x 256, float32) a
# product and its two derivatives take 0.31 ms with 16 elements a row, 0.47 with 32, and so about 0.8 with 64. Dense
# they take 0.82, and making the rows dense takes 0.1.
_MIN_SPARSITY = 4

# _add_product(onto, values, selectors, matrix): onto += rows @ matrix, in place.
_add_product = writing_operator("_add_product", written=(0,))


def add_linear(onto: torch.Tensor, values: torch.Tensor, selectors: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """onto + rows @ weight.T, in the memory of `onto`. Differentiable."""
    return _AddLinear.apply(onto, values, selectors, weight)


def linear_at(
    values: torch.Tensor, selectors: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """`values`, which are those of linear(x) at the selectors, with their derivative in x, weight and bias."""
    return _LinearAt.apply(values, selectors, x, weight, bias)


def sparse_linear_at(
    values: torch.Tensor, selectors: torch.Tensor, matrices: tuple, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """The same for sparse x, which is given with its transpose. The gradient of the weight is an aggregation: every
    column of x gathers the compact gradients of the rows that have it."""
    return _SparseLinearAt.apply(values, selectors, weight, bias, *matrices)


def _blocks(count: int):
    for first in range(0, count, _BLOCK_ROWS):
        yield slice(first, min(first + _BLOCK_ROWS, count))


def multiplies_compact(like: torch.Tensor, k: int, cols: int) -> bool:
    """Whether products of float32 rows with k of `cols` elements skip the zeros: always on the CPU; on a GPU, which
    multiplies dense matrices much faster, only if most elements are zeros."""
    if like.dtype != torch.float32:
        return False
    return like.device.type == "cpu" or (like.device.type == "cuda" and _MIN_SPARSITY * k <= cols)


class _AddLinear(torch.autograd.Function):
    """onto + rows @ weight.T. If the products do not skip the zeros, rows are made dense block by block, so that memory
    is bounded."""

    @staticmethod
    def forward(ctx, onto, values, selectors, weight):
        ctx.mark_dirty(onto)
        ctx.save_for_backward(values, selectors, weight)
        if multiplies_compact(values, values.shape[1], weight.shape[1]) and onto.is_contiguous():
            _add_product(onto, values, selectors, weight.t())
            return onto
        for block in _blocks(len(values)):
            onto[block].addmm_(expanded(values[block], selectors[block], weight.shape[1]), weight.t())
        return onto

    @staticmethod
    def backward(ctx, grad):
        values, selectors, weight = ctx.saved_tensors
        # Gradients of second order need dense products, which have derivatives.
        if multiplies_compact(values, values.shape[1], weight.shape[1]) and not torch.is_grad_enabled():
            grad_values = _OPS._product_values_gradient.default(grad, selectors, weight.t())
            grad_matrix = _OPS._product_matrix_gradient.default(grad, values, selectors, weight.shape[1])
            return grad, grad_values, None, grad_matrix.t()
        grad_values, grad_weight = torch.empty_like(values), torch.zeros_like(weight)
        for block in _blocks(len(values)):
            grad_weight.addmm_(grad[block].t(), expanded(values[block], selectors[block], weight.shape[1]))
            grad_values[block] = at_selectors(grad[block] @ weight, selectors[block])
        return grad, grad_values, None, grad_weight


class _LinearAt(torch.autograd.Function):
    """Gives `values`, the selected elements of linear(x), the derivative of that map in x, weight and bias."""

    @staticmethod
    def forward(ctx, values, selectors, x, weight, bias):
        ctx.mark_dirty(values)
        ctx.save_for_backward(selectors, x, weight)
        return values

    @staticmethod
    def backward(ctx, grad):
        selectors, x, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # for gradients of second order: dense products, which have derivatives
            rows = expanded(grad, selectors, len(weight))
            return None, None, rows @ weight, rows.t() @ x, rows.sum(0) if ctx.needs_input_grad[4] else None
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[2]:
            grad_x = x.new_zeros(x.shape)
            _add_product(grad_x, grad, selectors, weight)
        if ctx.needs_input_grad[3]:
            grad_weight = _OPS._product_matrix_gradient.default(x, grad, selectors, len(weight))
        if ctx.needs_input_grad[4]:
            ones = x.new_ones(len(x), 1)
            grad_bias = _OPS._product_matrix_gradient.default(ones, grad, selectors, len(weight)).squeeze(1)
        return None, None, grad_x, grad_weight, grad_bias


class _SparseLinearAt(torch.autograd.Function):
    """Gives `values`, the selected elements of linear(x) with sparse x, the derivative of that map in weight, bias."""

    @staticmethod
    def forward(ctx, values, selectors, weight, bias, matrix, transpose):
        ctx.mark_dirty(values)
        ctx.save_for_backward(selectors)
        ctx.columns, ctx.matrices = len(weight), (transpose, matrix)
        return values

    @staticmethod
    def backward(ctx, grad):
        (selectors,) = ctx.saved_tensors
        grad_weight = grad_bias = None
        if torch.is_grad_enabled():  # for gradients of second order: products that have derivatives
            rows = expanded(grad, selectors, ctx.columns)
            return None, None, csr_product(ctx.matrices, rows).t(), rows.sum(0), None, None
        if ctx.needs_input_grad[2]:
            parts = (ctx.matrices[0].crow_indices(), ctx.matrices[0].col_indices(), ctx.matrices[0].values())
            options = (ctx.columns, False, True, None, None, None)
            grad_weight = _OPS.aggregate.default(*parts, grad.contiguous(), selectors, *options).t()
        if ctx.needs_input_grad[3]:
            ones = grad.new_ones(len(grad), 1)
            grad_bias = _OPS._product_matrix_gradient.default(ones, grad, selectors, ctx.columns).squeeze(1)
        return None, None, grad_weight, grad_bias, None, None


@register_fake("rtopk::_add_product")
def _fake_add_product(onto, values, selectors, matrix):
    devices = {tensor.device for tensor in (onto, values, selectors, matrix)}
    check(len(devices) == 1, lambda: f"tensors are on {devices}; accepted: all on one device")


@register_fake("rtopk::_product_values_gradient")
def _fake_product_values_gradient(grad, selectors, matrix):
    return grad.new_empty(selectors.shape)


@register_fake("rtopk::_product_matrix_gradient")
def _fake_product_matrix_gradient(grad, values, selectors, cols):
    return grad.new_empty(cols, grad.shape[1])
