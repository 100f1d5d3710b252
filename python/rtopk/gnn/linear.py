"""Linear maps of dense float32 rows on Hopper's tensor cores.

torch uses them for float32 matrices only if it may round factors to TF32. :func:`linear` splits each factor into three
bfloat16 numbers, which together hold all of its bits: 1.5 to 1.8 times as fast as torch, and no less exact.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.library import register_fake
from torch.nn.utils.parametrize import is_parametrized

from .._torch_internals import is_unwatched, may_have_hooks

_OPS = torch.ops.rtopk

# The smallest problem for which it is faster than torch, in multiplications, and in columns of a matrix: with fewer,
# its tiles are mostly empty. On an H200, 89,250 rows of 256 x 256 take 160 us (torch: 290); 1,000 rows of 36 x 100 take
# 7 (torch: 6).
_MIN_PRODUCTS = 1 << 28
_MIN_COLUMNS = 64


def rounds_factors(device: torch.device) -> bool:
    """Whether torch may round the factors of float32 matrices to TF32."""
    return device.type == "cuda" and torch.backends.cuda.matmul.fp32_precision == "tf32"


def takes_apart(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether :func:`linear` multiplies these itself; otherwise it calls torch."""
    outputs, inputs = weight.shape
    return (
        x.device.type == "cuda"
        and is_unwatched(x)
        and x.dim() == 2
        and x.dtype == weight.dtype == torch.float32
        and inputs % 4 == outputs % 4 == 0
        and min(inputs, outputs) >= _MIN_COLUMNS
        and len(x) * inputs * outputs >= _MIN_PRODUCTS
        and not rounds_factors(x.device)
        and not torch.is_autocast_enabled("cuda")
        and torch.cuda.get_device_capability(x.device) == (9, 0)
    )


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x @ weight.T + bias."""
    return _Linear.apply(x, weight, bias) if takes_apart(x, weight) else F.linear(x, weight, bias)


class Linear(nn.Linear):
    """A linear map computed by :func:`linear`; with `dense`, in the baseline, by torch."""

    def __init__(self, in_features: int, out_features: int, *, dense: bool = False) -> None:
        super().__init__(in_features, out_features)
        self.dense = dense
        self.product = F.linear if dense else linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x, self.weight, self.bias)


def is_plain(layer: nn.Module) -> bool:
    """Whether layer(x) is exactly linear(x, layer.weight, layer.bias), so that its derivative is known."""
    ours = isinstance(layer, Linear) or type(layer) is nn.Linear
    return ours and not may_have_hooks(layer) and not is_parametrized(layer)


def _aligned(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """The tensor, or a copy if it does not begin at a multiple of 16 bytes, as a part of a larger tensor may not. The
    operators read four elements at a time. Memory that torch allocates is aligned."""
    if tensor is None or tensor.storage_offset() % 4 == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


# The same without a derivative, for functions that have their own. `apart` is what takes_apart() has said.


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, apart: bool) -> torch.Tensor:
    if not apart:
        return F.linear(x, weight, bias)
    return _OPS._linear.default(_aligned(x), _aligned(weight), _aligned(bias))


def input_gradient(grad: torch.Tensor, weight: torch.Tensor, apart: bool) -> torch.Tensor:
    return _OPS._linear_input_gradient.default(_aligned(grad), _aligned(weight)) if apart else torch.mm(grad, weight)


def weight_gradient(grad: torch.Tensor, x: torch.Tensor, apart: bool) -> torch.Tensor:
    return _OPS._linear_weight_gradient.default(_aligned(grad), _aligned(x)) if apart else torch.mm(grad.t(), x)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        x, weight, bias = _aligned(x), _aligned(weight), _aligned(bias)
        ctx.save_for_backward(x, weight)
        return _OPS._linear.default(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        of_bias = grad.sum(0) if needs_bias else None
        if torch.is_grad_enabled():  # for gradients of second order: operations that have derivatives
            return grad @ weight if needs_x else None, grad.t() @ x if needs_weight else None, of_bias
        grad = _aligned(grad)
        of_x = _OPS._linear_input_gradient.default(grad, weight) if needs_x else None
        of_weight = _OPS._linear_weight_gradient.default(grad, x) if needs_weight else None
        return of_x, of_weight, of_bias


@register_fake("rtopk::_linear")
def _fake_linear(x, weight, bias):
    return x.new_empty(x.shape[0], weight.shape[0])


@register_fake("rtopk::_linear_input_gradient")
def _fake_linear_input_gradient(grad, weight):
    return grad.new_empty(grad.shape[0], weight.shape[1])


@register_fake("rtopk::_linear_weight_gradient")
def _fake_linear_weight_gradient(grad, x):
    return grad.new_empty(grad.shape[1], x.shape[1])
