"""Rows with a length, a start, a k or ids of their own, compared by magnitude, or with a threshold.

topk, maxk, topk_mask and compact come here if they are called with one of these. The tensors that describe rows are
read by the kernels: nothing waits for a GPU to know them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import torch
from torch.library import register_autograd, register_fake, register_vmap
from torch.nn.functional import pad

from ._calls import is_transformed, wants_grad
from ._operators import OPS, batch_first, checked_shape, scattered
from ._rules import losing_value
from ._torch_internals import SELECTION, check, in_torch_func, is_overridden, is_unwatched, selection_kernel

_topk_kernel = selection_kernel("rtopk::topk_rows")
_maxk_kernel = selection_kernel("rtopk::maxk_rows")


class RowOptions(TypedDict, total=False):
    """The arguments of topk() for general rows."""

    lengths: torch.Tensor | None
    starts: torch.Tensor | None
    row_k: torch.Tensor | None
    ids: torch.Tensor | None
    magnitude: bool
    return_threshold: bool


# ---- Arguments ----


def overridden(*tensors: Any) -> tuple:
    """Those of the arguments of a call that want the function as a whole. They need not be tensors: torch.fx records
    with objects of its own."""
    return tuple(each for each in tensors if each is not None and is_overridden(each))


def check_arrays(function: str, **arrays: Any) -> None:
    for name, array in arrays.items():
        if array is not None and not isinstance(array, torch.Tensor):
            raise TypeError(
                f"{function}(): argument '{name}' is {type(array).__name__}; accepted: a tensor of int32 or int64"
            )


def refuse_wrong_ids(ids, input, index_dtype):
    """What the operator refuses, where it does not get the ids."""
    if ids.shape != input.shape or ids.dtype not in (torch.int32, torch.int64) or ids.device != input.device:
        raise RuntimeError(
            f"ids is {ids.dtype} of shape {list(ids.shape)} on {ids.device}; accepted: int32 or int64 of shape"
            f" {list(input.shape)} on {input.device}{_or_one_row(input)}"
        )
    if ids.dtype is torch.int64 and index_dtype is not torch.int64:
        raise RuntimeError(_narrow_ids(index_dtype))


def _or_one_row(input):
    return f", or of shape {list(input.shape[-1:])} for all rows" if input.dim() > 1 else ""


def _narrow_ids(index_dtype):
    return f"index_dtype is {index_dtype}, and ids are int64; accepted for them: torch.int64"


def _other_dim(input, dim):
    remedy = f", as of input.movedim({dim}, -1).contiguous()" if input.dim() > 0 else ""
    return (
        f"dim is {dim} of a tensor with {input.dim()} dimensions; accepted with lengths, starts, row_k or ids: the last"
        f" dimension{remedy}"
    )


def check_last_dim(input: torch.Tensor, dim: int, *arrays: Any) -> bool:
    """Whether there is one of these arrays, which are for rows along the last dimension. `dim` is not negative."""
    if all(each is None for each in arrays):
        return False
    if input.dim() == 0 or dim != input.dim() - 1:
        raise RuntimeError(_other_dim(input, dim))
    return True


def are_unwatched(input: torch.Tensor, *others: Any) -> bool:
    """Whether a call with these tensors is known to be executed and nothing else."""
    return is_unwatched(input) and all(is_unwatched(each) for each in others if isinstance(each, torch.Tensor))


def called(kernel: Callable, operator: Callable, input: torch.Tensor, *arguments: Any):
    """The result of an operator if nothing differentiates this call now."""
    if are_unwatched(input, *arguments):
        return kernel(SELECTION, input, *arguments)
    return operator(input, *arguments)


# ---- Gradients ----
#
# Ordinary torch operators on saved places, as in _operators.py. A place of -1 has no element: its gradient is dropped.


def put_in_rows(grad, places, shape, dim):
    """Zeros with the elements of `grad` at their places along `dim`."""
    places = places.to(torch.int64)
    nowhere = places < 0
    zeros = grad.new_zeros(shape)
    # Places of a row are distinct, and what is added beside them is zero: exact, in any order.
    add = zeros.scatter_add if in_torch_func(grad, places) else zeros.scatter_add_
    return add(dim, places.clamp(min=0), grad.masked_fill(nowhere, 0))


def look_up_in_rows(input, places, otherwise, dim):
    """The elements at these places, differentiable."""
    places = places.to(torch.int64)
    return torch.where(places < 0, otherwise, input.gather(dim, places.clamp(min=0)))


class WithGradient(torch.autograd.Function):
    """The derivative of a selection in plain eager calls. What torch.library makes of the same formula takes a tenth of
    a millisecond a call."""

    @staticmethod
    def forward(ctx, input, select, put):
        values, places, thresholds = select(input)
        ctx.put = put
        ctx.save_for_backward(places)
        ctx.mark_non_differentiable(places, thresholds)
        return values, places, thresholds

    @staticmethod
    def backward(ctx, grad, _, __):
        (places,) = ctx.saved_tensors
        return ctx.put(grad, places), None, None


def _select(input, arguments, dim, is_ragged):
    """Values, differentiable, places and thresholds, by an operator with checked arguments and without ids."""
    shape = input.shape

    def put(grad, places):
        return (put_in_rows if is_ragged else scattered)(grad, places, shape, dim)

    if is_transformed(input):
        # register_autograd covers neither forward mode nor torch.func; torch's gather has derivatives for both.
        values, places, thresholds = OPS.topk_rows.default(input.detach(), *arguments)
        return look_up_in_rows(input, places, values, dim), places, thresholds
    if wants_grad(input) and are_unwatched(input, *arguments):
        return WithGradient.apply(input, lambda input: _topk_kernel(SELECTION, input, *arguments), put)
    return called(_topk_kernel, OPS.topk_rows.default, input, *arguments)


# ---- The forms ----


def _beyond_the_columns(
    input, k, dim, lengths, starts, row_k, ids, largest, sorted, magnitude, threshold, *early
):  # fmt: skip
    """topk_of_rows() with k beyond the columns: no row has more elements than the matrix has columns."""
    cols = input.shape[-1]
    some_have_thresholds = threshold and row_k is not None and cols > 0
    values, indices, thresholds = topk_of_rows(
        input, cols, dim, lengths, starts, row_k, ids, largest, sorted, magnitude, some_have_thresholds, *early
    )
    losing = losing_value(values.dtype is torch.int32, largest, magnitude)
    if some_have_thresholds:
        thresholds = torch.where(row_k > cols, losing, thresholds)
    elif threshold:
        thresholds = values.new_full(values.shape[:-1], losing)
    more = (0, k - cols)
    return pad(values, more, value=losing), pad(indices, more, value=-1), thresholds


def topk_of_rows(
    input, k, dim, lengths, starts, row_k, ids, largest, sorted, magnitude, threshold, max_iter, epsilon, index_dtype,
    printed, bisection,
):  # fmt: skip
    """Values, indices and thresholds, by arguments that were checked, but for those that the operator checks."""
    check_last_dim(input, dim, lengths, starts, row_k, ids)
    is_ragged = not (lengths is starts is row_k is None)
    if is_ragged and k > input.shape[-1]:
        return _beyond_the_columns(
            input, k, dim, lengths, starts, row_k, ids, largest, sorted, magnitude, threshold, max_iter, epsilon,
            index_dtype, printed, bisection,
        )  # fmt: skip

    def arguments(ids, index_dtype):
        rows = (lengths, starts, row_k, ids)
        order = (largest, sorted, magnitude, threshold)
        return k, dim, *rows, *order, max_iter, epsilon, index_dtype, printed, bisection

    if ids is None:
        return _select(input, arguments(None, index_dtype), dim, is_ragged)
    if ids.dim() == 1 and ids.shape[0] == input.shape[-1]:
        ids = ids.expand(input.shape)
    # The kernel reads ids that lie in rows of their own. A gradient needs the places, which ids do not tell.
    is_shared = 0 in ids.stride()[:-1]
    if not (is_shared or is_transformed(input) or wants_grad(input)):
        return called(_topk_kernel, OPS.topk_rows.default, input, *arguments(ids, index_dtype))
    refuse_wrong_ids(ids, input, index_dtype)
    values, places, thresholds = _select(input, arguments(None, torch.int64), dim, is_ragged)
    found = ids.gather(dim, places.clamp(min=0)).to(index_dtype)
    return values, torch.where(places < 0, -1, found), thresholds


def compact_of_rows(input, selector_dtype, k, largest, max_iter, epsilon, *flags):
    """Values and selectors of the largest by magnitude."""
    options = (largest, False, True, False, max_iter, epsilon, selector_dtype, *flags)
    return _select(input, (k, -1, None, None, None, None, *options), -1, False)[:2]


def whole_rows_of(function: str, input, k, dim, *arguments):
    """maxk or topk_mask, by the name of the function, along a dimension that was checked."""
    if check_last_dim(input, dim, *arguments[:3]):
        k = min(k, input.shape[-1])  # no row has more elements
    if function == "topk_mask":
        return OPS.topk_mask_rows.default(input, k, dim, *arguments)
    if not (is_transformed(input) or wants_grad(input)):
        return called(_maxk_kernel, OPS.maxk_rows.default, input, k, dim, *arguments)
    return torch.where(OPS.topk_mask_rows.default(input.detach(), k, dim, *arguments), input, 0)


# ---- The operators ----


def check_array(name, array, shape):
    """Checks a fake tensor of integers."""
    if array is None:
        return
    check(array.dtype in (torch.int32, torch.int64), lambda: f"{name} is {array.dtype}; accepted: int32 or int64")

    def wrong_shape():
        return f"{name} has shape {list(array.shape)}; accepted: {list(shape)}"

    check(array.dim() == len(shape), wrong_shape)
    for size, wanted in zip(array.shape, shape, strict=True):
        check(size == wanted, wrong_shape)


def check_ids(ids, shape, index_dtype):
    check_array("ids", ids, shape)
    check(
        ids is None or ids.dtype is not torch.int64 or index_dtype is torch.int64,
        lambda: _narrow_ids(index_dtype),
    )


def _check_rows(input, dim, lengths, starts, row_k, ids, index_dtype=None):
    arrays = {"lengths": lengths, "starts": starts, "row_k": row_k}
    if any(each is not None for each in (*arrays.values(), ids)):
        check(
            input.dim() > 0 and dim in (-1, input.dim() - 1),
            lambda: _other_dim(input, dim),
        )
    for name, array in arrays.items():
        check_array(name, array, input.shape[:-1])
    check_ids(ids, input.shape, index_dtype)


@register_fake("rtopk::topk_rows")
def _fake_topk_rows(
    input, k, dim=-1, lengths=None, starts=None, row_k=None, ids=None, largest=True, sorted=True, magnitude=False,
    threshold=False, max_iter=0, epsilon=0.0, index_dtype=torch.int64, printed=False, bisection=False,
):  # fmt: skip
    shape = checked_shape(input, k, dim)
    _check_rows(input, dim, lengths, starts, row_k, ids, index_dtype)
    check(not threshold or k > 0, lambda: f"k is {k}; accepted with a threshold: 1 or more")
    rows = list(shape)
    if rows:
        del rows[dim]
    thresholds = input.new_empty(rows if threshold else [0])
    return input.new_empty(shape), input.new_empty(shape, dtype=index_dtype), thresholds


def _save_topk_rows(ctx, inputs, output):
    defaults = (None, None, -1, None, None, None, None)
    input, k, dim, lengths, starts, row_k, ids = (*inputs[:7], *defaults[len(inputs) :])
    ctx.shape, ctx.dim, ctx.inputs = input.shape, dim, len(inputs)
    ctx.is_ragged = not (lengths is starts is row_k is None)
    places = output[1]
    if ids is not None:
        # Ids do not tell the places. topk() does not call the operator like this where a gradient is wanted.
        rest = list(inputs[7:])
        if len(inputs) > 13:
            rest[6] = torch.int64
        places = OPS.topk_rows(input, k, dim, lengths, starts, row_k, None, *rest)[1]
    ctx.save_for_backward(places)
    ctx.mark_non_differentiable(output[1], output[2])


def _backward_topk_rows(ctx, grad, _, __):
    (places,) = ctx.saved_tensors
    result = None
    if grad is not None:
        result = (put_in_rows if ctx.is_ragged else scattered)(grad, places, ctx.shape, ctx.dim)
    return (result,) + (None,) * (ctx.inputs - 1)


register_autograd("rtopk::topk_rows", _backward_topk_rows, setup_context=_save_topk_rows)


def batched(tensor, in_dim, size):
    """The tensor with the vmapped dimension first, in memory as kernels read it."""
    if tensor is None:
        return None
    return (tensor.expand(size, *tensor.shape) if in_dim is None else tensor.movedim(in_dim, 0)).contiguous()


def _vmap_rows(operator, arrays):
    """The vmap rule of an operator whose arguments are input, k, dim, `arrays` tensors of rows, and others."""

    def rule(info, in_dims, input, k, dim=-1, *rest):
        size = info.batch_size
        tensors = [batched(each, at, size) for each, at in zip(rest[:arrays], in_dims[3:], strict=False)]
        ragged = any(each is not None for each in tensors)
        batch = input.expand(size, *input.shape) if in_dims[0] is None else input
        batch, dim, added = batch_first(batch, in_dims[0] or 0, dim)
        results = operator(batch.contiguous() if ragged else batch, k, dim, *tensors, *rest[arrays:])
        if isinstance(results, tuple):
            values, indices, thresholds = results
            if thresholds.dim() + 1 != values.dim():  # none
                thresholds = thresholds.expand(size, 0)
            results = (values.squeeze(-1), indices.squeeze(-1), thresholds) if added else (*results[:2], thresholds)
            return results, (0, 0, 0)
        return results.squeeze(-1) if added else results, 0

    return rule


register_vmap("rtopk::topk_rows", _vmap_rows(OPS.topk_rows, 4))
register_vmap("rtopk::maxk_rows", _vmap_rows(OPS.maxk_rows, 3))
register_vmap("rtopk::topk_mask_rows", _vmap_rows(OPS.topk_mask_rows, 3))


def _check_whole_rows(input, k, dim, lengths, starts, row_k):
    checked_shape(input, k, dim)
    _check_rows(input, dim, lengths, starts, row_k, None)


@register_fake("rtopk::maxk_rows")
def _fake_maxk_rows(
    input, k, dim=-1, lengths=None, starts=None, row_k=None, largest=True, magnitude=False, max_iter=0, epsilon=0.0,
    printed=False, bisection=False,
):  # fmt: skip
    _check_whole_rows(input, k, dim, lengths, starts, row_k)
    return input.new_empty(input.shape)


@register_fake("rtopk::topk_mask_rows")
def _fake_topk_mask_rows(
    input, k, dim=-1, lengths=None, starts=None, row_k=None, largest=True, magnitude=False, max_iter=0, epsilon=0.0,
    printed=False, bisection=False,
):  # fmt: skip
    _check_whole_rows(input, k, dim, lengths, starts, row_k)
    return input.new_empty(input.shape, dtype=torch.bool)


def _save_maxk_rows(ctx, inputs, output):
    ctx.inputs = len(inputs)
    ctx.save_for_backward(OPS.topk_mask_rows(*inputs))


def _backward_maxk_rows(ctx, grad):
    (mask,) = ctx.saved_tensors
    return torch.where(mask, grad, 0), *(None,) * (ctx.inputs - 1)


register_autograd("rtopk::maxk_rows", _backward_maxk_rows, setup_context=_save_maxk_rows)
