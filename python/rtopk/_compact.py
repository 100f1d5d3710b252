"""compact and expand: rows as their selected values and the columns of these (CBSR)."""

from __future__ import annotations

import torch
from torch.library import register_autograd, register_fake, register_vmap
from torch.overrides import handle_torch_function

from . import _onnx
from ._calls import check_tensor, pairs, selected
from ._operators import OPS, checked_shape, scattered, vmap_pairs
from ._results import CBSR
from ._rows import compact_of_rows
from ._rules import search_flags
from ._torch_internals import is_overridden, selection_kernel

compact_kernel = selection_kernel("rtopk::compact")


def compact(
    input: torch.Tensor,
    k: int,
    largest: bool = True,
    *,
    max_iter: int | None = None,
    rule: str = "threshold_first",
    epsilon: float = 0.0,
    search: str = "fast",
    magnitude: bool = False,
) -> CBSR:
    """:func:`maxk` along the last dimension without its zeros: values and 8- or 16-bit column selectors.

    :func:`expand` makes the dense tensor again. Differentiable in the values. The arguments are those of :func:`topk`.
    Rows with lengths of their own have no compact form.

    >>> rtopk.compact(torch.tensor([[3.0, 1.0, 2.0]]), 2)
    CBSR(values=tensor([[3., 2.]]), selectors=tensor([[0, 2]], dtype=torch.uint8))
    """
    if is_overridden(input):
        options = {"max_iter": max_iter, "rule": rule, "epsilon": epsilon, "search": search, "magnitude": magnitude}
        return handle_torch_function(compact, (input,), input, k, largest, **options)
    check_tensor("compact", input)
    arguments = (k, largest, max_iter or 0, epsilon, *search_flags(rule, search))
    if magnitude:
        return CBSR(*compact_of_rows(input, selector_dtype(input.shape[-1] if input.dim() else 1), *arguments))
    if max_iter is None and epsilon == 0.0 and _onnx.exports_onnx():
        values, indices = _onnx.pairs(input, k, input.dim() - 1, largest, False)
        return CBSR(values, indices.to(selector_dtype(input.shape[-1])))
    return CBSR(*pairs(compact_kernel, OPS.compact.default, input, -1, *arguments))


def compact_without_gradient(input, k, largest, max_iter, epsilon, printed):
    """The operator alone, for a caller that has a derivative of its own."""
    return selected(compact_kernel, OPS.compact.default, input, k, largest, max_iter, epsilon, printed)


def expand(values: torch.Tensor, selectors: torch.Tensor, cols: int) -> torch.Tensor:
    """The dense tensor of rows that :func:`compact` made: `cols` elements each, zero where nothing was selected.

    >>> rtopk.expand(*rtopk.compact(torch.tensor([[3.0, 1.0, 2.0]]), 2), cols=3)
    tensor([[3., 0., 2.]])
    """
    if is_overridden(values):
        return handle_torch_function(expand, (values,), values, selectors, cols)
    return scattered(values, selectors, (*values.shape[:-1], cols) if values.dim() else (), -1)


def selector_dtype(cols):
    """The dtype of selectors of rows with so many columns."""
    return torch.uint8 if cols <= 256 else torch.uint16


# ---- The operator ----


@register_fake("rtopk::compact")
def _fake_compact(input, k, largest=True, max_iter=0, epsilon=0.0, printed=False, bisection=False):
    shape = checked_shape(input, k, -1)
    cols = input.shape[-1] if input.dim() else 1
    return input.new_empty(shape), input.new_empty(shape, dtype=selector_dtype(cols))


def _save_compact(ctx, inputs, output):
    ctx.shape, ctx.inputs = inputs[0].shape, len(inputs)
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _backward_compact(ctx, grad_values, _):
    (selectors,) = ctx.saved_tensors
    grad = None if grad_values is None else scattered(grad_values, selectors, ctx.shape, -1)
    return (grad,) + (None,) * (ctx.inputs - 1)


register_autograd("rtopk::compact", _backward_compact, setup_context=_save_compact)
register_vmap("rtopk::compact", vmap_pairs(OPS.compact, has_dim=False))
