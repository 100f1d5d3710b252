"""Rows between two layers, on a GPU: a bias, LayerNorm and MaxK in as few passes over memory as they need.

torch adds the bias, normalizes, makes the gradient of MaxK dense, differentiates, and adds up columns one after the
other, each with a pass over all rows. Here LayerNorm reads the rows once and writes them once. Its derivative reads
them and the gradient, which is compact where MaxK follows, and writes one.
"""

from __future__ import annotations

import torch

from .._functions import is_unwatched
from .linear import hooked
from .rows import CompactMaxK, CompactRows, expanded

_OPS = torch.ops.rtopk

# Above 512 it takes columns by four.
_MOST_COLUMNS = 1024
_MOST_SINGLE_COLUMNS = 512


def fuses(norm: torch.nn.Module) -> bool:
    """Whether :func:`normalized` takes the rows that this one normalizes: float32 on a GPU."""
    if type(norm) is not torch.nn.LayerNorm or hooked(norm):
        return False
    columns = norm.normalized_shape[-1]
    return (
        len(norm.normalized_shape) == 1
        and (columns <= _MOST_SINGLE_COLUMNS or (columns <= _MOST_COLUMNS and columns % 4 == 0))
        and norm.weight is not None
        and norm.bias is not None
        and norm.weight.device.type == "cuda"
        and norm.weight.dtype == norm.bias.dtype == torch.float32
        and is_unwatched(norm.weight)
        and not torch.is_autocast_enabled("cuda")
    )


def normalized(
    x: torch.Tensor, bias: torch.Tensor | None, norm: torch.nn.LayerNorm, activation: CompactMaxK | None = None
) -> torch.Tensor | CompactRows:
    """norm(x + bias), or activation(norm(x + bias)), for rows that :func:`fuses` allows."""
    arguments = (x, bias, norm.weight, norm.bias, norm.eps)
    if activation is None:
        return _Norm.apply(*arguments)
    with torch.no_grad():
        rows = activation(_OPS._norm.default(*arguments))
    return CompactRows(_NormAt.apply(rows.values, rows.selectors, *arguments), rows.selectors, rows.cols)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias, gamma, beta, epsilon):
        ctx.save_for_backward(x, bias, gamma)
        ctx.epsilon = epsilon
        return _OPS._norm.default(x, bias, gamma, beta, epsilon)

    @staticmethod
    def backward(ctx, grad):
        x, bias, gamma = ctx.saved_tensors
        if torch.is_grad_enabled():  # this derivative is to have one itself
            gradients = _differentiable_gradients(x, bias, gamma, ctx.epsilon, grad)
        else:
            gradients = _OPS._norm_backward.default(x, bias, gamma, ctx.epsilon, grad)
        return *_in_order(gradients), None


class _NormAt(torch.autograd.Function):
    """The elements of normalized rows that selectors name, given as `values`, with their derivative. The normalized
    rows themselves are not kept."""

    @staticmethod
    def forward(ctx, values, selectors, x, bias, gamma, beta, epsilon):
        ctx.mark_dirty(values)
        ctx.save_for_backward(selectors, x, bias, gamma)
        ctx.epsilon = epsilon
        return values

    @staticmethod
    def backward(ctx, grad):
        selectors, x, bias, gamma = ctx.saved_tensors
        if torch.is_grad_enabled():
            rows = expanded(grad, selectors, x.shape[1])
            gradients = _differentiable_gradients(x, bias, gamma, ctx.epsilon, rows)
        else:
            gradients = _OPS._norm_compact_backward.default(x, bias, gamma, ctx.epsilon, grad, selectors)
        return None, None, *_in_order(gradients), None


def _in_order(gradients):
    of_x, of_gamma, of_beta, of_bias = gradients
    return of_x, of_bias, of_gamma, of_beta


def _differentiable_gradients(x, bias, gamma, epsilon, grad):
    """What the operators compute, from operations that have derivatives."""
    z = x if bias is None else x + bias
    z = z - z.mean(1, keepdim=True)
    scale = (z.square().mean(1, keepdim=True) + epsilon).rsqrt()
    z = z * scale
    weighted = grad * gamma
    of_x = scale * (weighted - weighted.mean(1, keepdim=True) - z * (weighted * z).mean(1, keepdim=True))
    return of_x, (grad * z).sum(0), grad.sum(0), None if bias is None else of_x.sum(0)
