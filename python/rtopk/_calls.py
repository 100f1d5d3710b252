"""How the functions call their operators: past the dispatcher where only the selection is wanted, through it otherwise.

Through the dispatcher an operator meets its derivative. That is in Python, and takes longer than a small selection even
to find that no gradient is wanted.
"""

from __future__ import annotations

import sys

import torch

from ._operators import scattered
from ._torch_internals import SELECTION, in_forward_mode, in_torch_func, is_unwatched


def selected(kernel, operator, input, *arguments):
    """The result of an operator if nothing differentiates this call now. A graph that records it may be differentiated
    later."""
    if is_unwatched(input):
        try:
            return kernel(SELECTION, input, *arguments)
        except RuntimeError:
            pass  # a sparse tensor, or another that our kernels refuse: the dispatcher takes it, or says why not
    return operator(input, *arguments)


class _WithGradient(torch.autograd.Function):
    """The derivative, for plain eager calls, of an operator that gives values and their places. What torch.library
    makes of the same formula takes a tenth of a millisecond a call."""

    @staticmethod
    def forward(ctx, input, dim, kernel, operator, *arguments):
        values, indices = selected(kernel, operator, input, *arguments)
        ctx.shape, ctx.dim, ctx.constants = input.shape, dim, 3 + len(arguments)
        ctx.save_for_backward(indices)
        ctx.mark_non_differentiable(indices)
        return values, indices

    @staticmethod
    def backward(ctx, grad, _):
        (indices,) = ctx.saved_tensors
        return scattered(grad, indices, ctx.shape, ctx.dim), *(None,) * ctx.constants


def pairs(kernel, operator, input, dim, *arguments):
    """Values, differentiable, and their places, by an operator with checked arguments."""
    if is_transformed(input):
        # register_autograd covers neither forward mode nor torch.func; torch's gather has derivatives for both.
        indices = operator(input.detach(), *arguments)[1]
        return input.gather(dim, indices if indices.dtype is torch.int64 else indices.to(torch.int64)), indices
    if is_unwatched(input) and input.requires_grad and torch.is_grad_enabled():
        return _WithGradient.apply(input, dim, kernel, operator, *arguments)
    return selected(kernel, operator, input, *arguments)


def wants_grad(input):
    # torch.jit.trace checks itself by tracing again without gradients: what it records must be the same with and
    # without.
    return (input.requires_grad and torch.is_grad_enabled()) or (torch.jit.is_tracing() and input.is_floating_point())


def is_transformed(input):
    """Whether derivatives are taken in another way than backward by autograd: in forward mode, or by torch.func."""
    return in_forward_mode(input) or in_torch_func(input)


def check_tensor(function, input, name="input"):
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"{function}(): argument '{name}' must be Tensor, not {type(input).__name__}")


def is_dtensor(input: object) -> bool:
    """Whether this is a DTensor. Importing their module takes a second, and without it nobody has one."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(input, module.DTensor)
