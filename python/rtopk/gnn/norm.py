"""Bias, LayerNorm and MaxK between two layers, fused on a GPU.

torch adds the bias, normalizes, makes the gradient of MaxK dense, differentiates and sums columns in separate steps,
each of which reads and writes all rows. Here LayerNorm reads the rows once and writes them once. Its derivative reads
the rows and the gradient, which is compact if MaxK follows, and writes one result.
"""

from __future__ import annotations

import torch
from torch.library import register_fake

from .._torch_internals import is_unwatched, may_have_hooks
from ._aggregate import expanded
from .rows import CompactMaxK, CompactRows

_OPS = torch.ops.rtopk

# Above _MAX_SINGLE_COLUMNS the kernels take four columns at a time.
_MAX_COLUMNS = 1024
_MAX_SINGLE_COLUMNS = 512


def fuses(norm: torch.nn.Module) -> bool:
    """Whether :func:`normalized` can stand for this module: a plain LayerNorm in float32 on a GPU."""
    return is_plain_norm(norm) and norm.weight.device.type == "cuda"


def is_plain_norm(norm: torch.nn.Module) -> bool:
    """Whether :func:`normalized_rows` can stand for this module: a plain LayerNorm in float32."""
    if type(norm) is not torch.nn.LayerNorm or may_have_hooks(norm):
        return False
    columns = norm.normalized_shape[-1]
    return (
        len(norm.normalized_shape) == 1
        and (columns <= _MAX_SINGLE_COLUMNS or (columns <= _MAX_COLUMNS and columns % 4 == 0))
        and norm.weight is not None
        and norm.bias is not None
        and norm.weight.dtype == norm.bias.dtype == torch.float32
        and is_unwatched(norm.weight)
        and not torch.is_autocast_enabled(norm.weight.device.type)
    )


def normalized(
    x: torch.Tensor, bias: torch.Tensor | None, norm: torch.nn.LayerNorm, activation: CompactMaxK | None = None
) -> torch.Tensor | CompactRows:
    """norm(x + bias), or activation(norm(x + bias)), for a norm that :func:`fuses` accepts."""
    arguments = (x, bias, norm.weight, norm.bias, norm.eps)
    if activation is None:
        return _Norm.apply(*arguments)
    with torch.no_grad():
        rows = activation(_OPS._norm.default(*arguments))
    return CompactRows(_NormAt.apply(rows.values, rows.selectors, *arguments), rows.selectors, rows.cols)


# ---- Without a derivative, for functions that have their own ----


def normalized_rows(x, bias, gamma, beta, epsilon) -> tuple[torch.Tensor, tuple]:
    """norm(x + bias), and what :func:`norm_gradients` needs beside x. On a CPU x becomes x + bias."""
    if x.device.type == "cuda":
        return _OPS._norm.default(x, bias, gamma, beta, epsilon), ()
    if bias is not None:
        x.add_(bias)
    rows, *statistics = torch.native_layer_norm(x, gamma.shape, gamma, beta, epsilon)
    return rows, tuple(statistics)


def norm_gradients(x, bias, gamma, beta, epsilon, statistics, grad, selectors) -> tuple:
    """The gradients of x, bias, gamma and beta. `grad` is dense, or with selectors compact."""
    if x.device.type == "cuda":
        if selectors is None:
            return _in_order(_OPS._norm_backward.default(x, bias, gamma, epsilon, grad))
        return _in_order(_OPS._norm_compact_backward.default(x, bias, gamma, epsilon, grad, selectors))
    if selectors is not None:
        grad = expanded(grad, selectors, x.shape[1])
    backward = torch.ops.aten.native_layer_norm_backward.default
    of_x, of_gamma, of_beta = backward(grad, x, gamma.shape, *statistics, gamma, beta, [True] * 3)
    return of_x, None if bias is None else of_x.sum(0), of_gamma, of_beta


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias, gamma, beta, epsilon):
        ctx.save_for_backward(x, bias, gamma)
        ctx.epsilon = epsilon
        return _OPS._norm.default(x, bias, gamma, beta, epsilon)

    @staticmethod
    def backward(ctx, grad):
        x, bias, gamma = ctx.saved_tensors
        if torch.is_grad_enabled():  # for gradients of second order
            gradients = _differentiable_gradients(x, bias, gamma, ctx.epsilon, grad)
        else:
            gradients = _OPS._norm_backward.default(x, bias, gamma, ctx.epsilon, grad)
        return *_in_order(gradients), None


class _NormAt(torch.autograd.Function):
    """Gives `values`, the selected elements of normalized rows, the derivative of the normalization. The normalized
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
    """What the operators compute, made of operations that have derivatives."""
    z = x if bias is None else x + bias
    z = z - z.mean(1, keepdim=True)
    scale = (z.square().mean(1, keepdim=True) + epsilon).rsqrt()
    z = z * scale
    weighted = grad * gamma
    of_x = scale * (weighted - weighted.mean(1, keepdim=True) - z * (weighted * z).mean(1, keepdim=True))
    return of_x, (grad * z).sum(0), grad.sum(0), None if bias is None else of_x.sum(0)


@register_fake("rtopk::_norm")
def _fake_norm(x, bias, gamma, beta, epsilon):
    return x.new_empty(x.shape)


@register_fake("rtopk::_norm_backward")
def _fake_norm_backward(x, bias, gamma, epsilon, grad):
    of_bias = None if bias is None else bias.new_empty(bias.shape)
    return x.new_empty(x.shape), *(gamma.new_empty(gamma.shape) for _ in range(2)), of_bias


@register_fake("rtopk::_norm_compact_backward")
def _fake_norm_compact_backward(x, bias, gamma, epsilon, values, selectors):
    return _fake_norm_backward(x, bias, gamma, epsilon, values)
