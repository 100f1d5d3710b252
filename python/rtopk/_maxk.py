"""maxk and topk_mask: results as large as the input."""

from __future__ import annotations

import torch
from torch.library import register_autograd, register_fake, register_vmap
from torch.overrides import handle_torch_function

from . import _onnx
from ._calls import check_tensor, is_dtensor, is_transformed, selected, wants_grad
from ._dtensor import of_dtensor
from ._operators import OPS, checked_shape, scattered, vmap_whole_rows, wrapped_dim
from ._rows import check_arrays, overridden, whole_rows_of
from ._rules import search_flags
from ._topk import topk
from ._torch_internals import is_compiling, is_overridden, selection_kernel

_maxk_kernel = selection_kernel("rtopk::maxk")


def maxk(
    input: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    *,
    max_iter: int | None = None,
    rule: str = "threshold_first",
    epsilon: float = 0.0,
    search: str = "fast",
    lengths: torch.Tensor | None = None,
    starts: torch.Tensor | None = None,
    row_k: torch.Tensor | None = None,
    magnitude: bool = False,
) -> torch.Tensor:
    """The input with everything but the k largest (or smallest) elements along a dimension set to zero.

    The gradient goes to the elements that were kept. The arguments are those of :func:`topk`; what lies outside of a
    row that has a length or start of its own is zero.

    >>> rtopk.maxk(torch.tensor([[3.0, 1.0, 2.0], [0.0, -1.0, -2.0]]), 2)
    tensor([[ 3.,  0.,  2.],
            [ 0., -1.,  0.]])
    """
    early = {"max_iter": max_iter, "rule": rule, "epsilon": epsilon, "search": search}
    if lengths is not None or starts is not None or row_k is not None or magnitude:
        rows = {"lengths": lengths, "starts": starts, "row_k": row_k}
        return _of_rows(maxk, input, k, dim, largest, early, rows, magnitude)
    if is_overridden(input):
        return handle_torch_function(maxk, (input,), input, k, dim, largest, **early)
    if is_dtensor(input):
        return of_dtensor(maxk, input, k, dim, largest, **early)
    check_tensor("maxk", input)
    wrapped_dim(input, dim)
    arguments = (k, dim, largest, max_iter or 0, epsilon, *search_flags(rule, search))
    if not is_transformed(input) and not _onnx.exports_onnx():
        if not wants_grad(input):
            return selected(_maxk_kernel, OPS.maxk.default, input, *arguments)
        # The gradient needs the places of the kept elements: as indices if they are few, else as a byte an element.
        few = not is_compiling() and not torch.jit.is_tracing() and input.dim() > 0 and 0 < 8 * k < input.size(dim)
        if few:
            values, indices = topk(input, k, dim, largest, False, **early)
            return scattered(values, indices, input.shape, dim)
    mask = topk_mask(input.detach(), k, dim, largest, **early)
    return torch.where(mask, input, 0)


def topk_mask(
    input: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    *,
    max_iter: int | None = None,
    rule: str = "threshold_first",
    epsilon: float = 0.0,
    search: str = "fast",
    lengths: torch.Tensor | None = None,
    starts: torch.Tensor | None = None,
    row_k: torch.Tensor | None = None,
    magnitude: bool = False,
) -> torch.Tensor:
    """A boolean tensor that is True where :func:`topk` would select. The arguments are those of :func:`topk`.

    >>> rtopk.topk_mask(torch.tensor([3.0, 1.0, 3.0, 3.0]), 2)
    tensor([ True, False,  True, False])
    """
    early = {"max_iter": max_iter, "rule": rule, "epsilon": epsilon, "search": search}
    if lengths is not None or starts is not None or row_k is not None or magnitude:
        rows = {"lengths": lengths, "starts": starts, "row_k": row_k}
        return _of_rows(topk_mask, input, k, dim, largest, early, rows, magnitude)
    if is_overridden(input):
        return handle_torch_function(topk_mask, (input,), input, k, dim, largest, **early)
    if is_dtensor(input):
        return of_dtensor(topk_mask, input, k, dim, largest, **early)
    check_tensor("topk_mask", input)
    wrapped_dim(input, dim)
    flags = search_flags(rule, search)
    if max_iter is None and epsilon == 0.0 and _onnx.exports_onnx():
        return _onnx.mask(input, k, dim, largest)
    return OPS.topk_mask.default(input, k, dim, largest, max_iter or 0, epsilon, *flags)


def _of_rows(function, input, k, dim, largest, early, rows, magnitude):
    """maxk or topk_mask with arguments for general rows."""
    if relevant := overridden(input, *rows.values()):
        options = early | rows | {"magnitude": magnitude}
        return handle_torch_function(function, relevant, input, k, dim, largest, **options)
    if is_dtensor(input):
        return of_dtensor(function, input, k, dim, largest, **early, **rows, magnitude=magnitude)
    check_tensor(function.__name__, input)
    if not isinstance(magnitude, bool):
        raise TypeError(f"{function.__name__}(): argument 'magnitude' must be bool, not {type(magnitude).__name__}")
    check_arrays(function.__name__, **rows)
    flags = search_flags(early["rule"], early["search"])
    arguments = (*rows.values(), largest, magnitude, early["max_iter"] or 0, early["epsilon"], *flags)
    return whole_rows_of(function.__name__, input, k, wrapped_dim(input, dim), *arguments)


# ---- The operators ----


@register_fake("rtopk::maxk")
def _fake_maxk(input, k, dim=-1, largest=True, max_iter=0, epsilon=0.0, printed=False, bisection=False):
    checked_shape(input, k, dim)
    return input.new_empty(input.shape)


@register_fake("rtopk::topk_mask")
def _fake_topk_mask(input, k, dim=-1, largest=True, max_iter=0, epsilon=0.0, printed=False, bisection=False):
    checked_shape(input, k, dim)
    return input.new_empty(input.shape, dtype=torch.bool)


def _save_maxk(ctx, inputs, output):
    # The output does not tell what was kept: a kept element may be zero.
    ctx.inputs = len(inputs)
    ctx.save_for_backward(OPS.topk_mask(*inputs))


def _backward_maxk(ctx, grad):
    (mask,) = ctx.saved_tensors
    return torch.where(mask, grad, 0), *(None,) * (ctx.inputs - 1)


register_autograd("rtopk::maxk", _backward_maxk, setup_context=_save_maxk)
register_vmap("rtopk::maxk", vmap_whole_rows(OPS.maxk))
register_vmap("rtopk::topk_mask", vmap_whole_rows(OPS.topk_mask))
