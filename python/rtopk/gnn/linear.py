"""Linear maps of dense rows in float32, on the tensor cores of a GPU that has Hopper's.

torch multiplies float32 matrices there without them, unless it may round factors to TF32. :func:`linear` takes factors
apart into three bfloat16 numbers, which hold all of their bits: 1.5 to 1.8 times as fast, and no less exact.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from .._functions import is_unwatched

_OPS = torch.ops.rtopk

# Multiplications from which it is faster, and columns of a matrix below which its tiles are mostly empty. On an H200
# 89,250 rows of 256 x 256 take 160 us, and torch 290; 1,000 rows of 36 x 100 take 7, and torch 6.
_LEAST_PRODUCTS = 1 << 28
_LEAST_COLUMNS = 64


def rounds_factors(device: torch.device) -> bool:
    """Whether torch may round the factors of float32 matrices to TF32."""
    return device.type == "cuda" and torch.backends.cuda.matmul.fp32_precision == "tf32"


def takes_apart(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether :func:`linear` multiplies these by itself; otherwise it is torch's."""
    outputs, inputs = weight.shape
    return (
        x.device.type == "cuda"
        and is_unwatched(x)
        and x.dim() == 2
        and x.dtype == weight.dtype == torch.float32
        and inputs % 4 == outputs % 4 == 0
        and min(inputs, outputs) >= _LEAST_COLUMNS
        and len(x) * inputs * outputs >= _LEAST_PRODUCTS
        and not rounds_factors(x.device)
        and not torch.is_autocast_enabled("cuda")
        and torch.cuda.get_device_capability(x.device) == (9, 0)
    )


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x @ weight.T + bias."""
    return _Linear.apply(x, weight, bias) if takes_apart(x, weight) else F.linear(x, weight, bias)


class Linear(nn.Linear):
    """A linear map that :func:`linear` computes; in the baseline, torch."""

    def __init__(self, in_features: int, out_features: int, *, dense: bool = False) -> None:
        super().__init__(in_features, out_features)
        self.product = F.linear if dense else linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x, self.weight, self.bias)


def hooked(module: nn.Module) -> bool:
    """Whether a call of the module does more than its forward()."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks)


def is_plain(layer: nn.Module) -> bool:
    """Whether layer(x) is linear(x, layer.weight, layer.bias) and nothing else, so that its derivative is known."""
    ours = isinstance(layer, Linear) or type(layer) is nn.Linear
    return ours and not hooked(layer) and not is_parametrized(layer)


def _aligned(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """It, or a copy where it begins between multiples of 16 bytes, as a part of a larger tensor may: the operators read
    four elements at a time. torch's own memory begins at such a multiple."""
    if tensor is None or tensor.storage_offset() % 4 == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


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
        if torch.is_grad_enabled():  # this derivative is to have one itself
            return grad @ weight if needs_x else None, grad.t() @ x if needs_weight else None, of_bias
        grad = _aligned(grad)
        of_x = _OPS._linear_input_gradient.default(grad, weight) if needs_x else None
        of_weight = _OPS._linear_weight_gradient.default(grad, x) if needs_weight else None
        return of_x, of_weight, of_bias
