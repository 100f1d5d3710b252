"""topk_segments: rows that are parts of one flat tensor."""

from __future__ import annotations

import torch
from torch.library import register_autograd, register_fake, register_vmap
from torch.overrides import handle_torch_function

from ._calls import check_tensor, is_transformed, wants_grad
from ._operators import OPS
from ._results import TopKThreshold
from ._rows import (
    WithGradient,
    are_unwatched,
    called,
    check_array,
    check_arrays,
    check_ids,
    overridden,
    refuse_wrong_ids,
)
from ._torch_internals import SELECTION, check, is_recorded, selection_kernel

_kernel = selection_kernel("rtopk::topk_segments")


def topk_segments(
    values: torch.Tensor,
    offsets: torch.Tensor,
    k: int,
    *,
    row_k: torch.Tensor | None = None,
    max_length: int | None = None,
    ids: torch.Tensor | None = None,
    largest: bool = True,
    sorted: bool = True,
    magnitude: bool = False,
    return_threshold: bool = False,
    index_dtype: torch.dtype = torch.int64,
) -> torch.return_types.topk | TopKThreshold:
    """The k largest (or smallest) elements of every segment of a flat tensor, with their places in it.

    Segment r is values[offsets[r] : offsets[r + 1]]. Segments may be empty, and may have fewer than k elements:
    behind these, indices are -1, and values lose against every element, as in :func:`topk`. Offsets out of range count
    as the nearest one in range.

    Args:
        values: one dimension, contiguous; float32, float16, bfloat16, float64 or int32.
        offsets: int32 or int64, one for each segment and one more, ascending.
        k: the width of the results, 0 or more.
        row_k: k of each segment, from 0 to `k`.
        max_length: the length of the longest segment. Of a longer one, only the first `max_length` elements count, or k
            if that is more. None: it is read from the offsets, and on a GPU the call waits for it. Where that cannot be
            (a CUDA graph is captured, torch.compile records the call) it is the number of values, and the kernels are
            those for rows as long as all values, which take much longer for short segments. Give it where it is known.
        ids: a number beside every value. Results have these in the place of indices.
        largest, sorted, magnitude, return_threshold, index_dtype: those of :func:`topk`.

    `offsets`, `row_k` and `ids` are read by the kernels, on the device of the values: with `max_length`, nothing waits
    for a GPU. Differentiable in the values.

    >>> values, indices = rtopk.topk_segments(torch.tensor([1.0, 3.0, 2.0, 5.0]), torch.tensor([0, 3, 3, 4]), 2)
    >>> indices
    tensor([[ 1,  2],
            [-1, -1],
            [ 3, -1]])
    """
    if relevant := overridden(values, offsets, row_k, ids):
        options = {"row_k": row_k, "max_length": max_length, "ids": ids, "largest": largest, "sorted": sorted}
        options |= {"magnitude": magnitude, "return_threshold": return_threshold, "index_dtype": index_dtype}
        return handle_torch_function(topk_segments, relevant, values, offsets, k, **options)
    check_tensor("topk_segments", values, "values")
    check_tensor("topk_segments", offsets, "offsets")
    check_arrays("topk_segments", row_k=row_k, ids=ids)
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length is {max_length}; accepted: None, or 1 or more")
    if max_length is None:
        max_length = _longest(values, offsets)
    options = (max_length, largest, sorted, magnitude, return_threshold)
    if ids is None or not (is_transformed(values) or wants_grad(values)):
        results = _select(values, offsets, k, row_k, ids, *options, index_dtype)
    else:
        # A gradient needs the places, which ids do not tell.
        refuse_wrong_ids(ids, values, index_dtype)
        elements, places, thresholds = _select(values, offsets, k, row_k, None, *options, torch.int64)
        results = elements, _with_one_more(ids, -1)[places].to(index_dtype), thresholds
    return TopKThreshold(*results) if return_threshold else torch.return_types.topk(results[:2])


# Rows up to this length have kernels for short rows anyway.
_SHORT = 1024


def _longest(values, offsets):
    """The length of the longest segment; 0 if the offsets cannot be looked at, or need not be."""
    if values.dim() != 1 or offsets.dim() != 1 or values.shape[0] <= _SHORT or offsets.shape[0] <= 2:
        return 0
    if offsets.dtype not in (torch.int32, torch.int64) or offsets.is_meta:
        return 0
    if is_transformed(values) or is_transformed(offsets) or is_recorded(values) or is_recorded(offsets):
        return 0
    if offsets.is_cuda and torch.cuda.is_current_stream_capturing():
        return 0
    # Offsets out of range count as the nearest one in range.
    return max(int(offsets.clamp(0, values.shape[0]).diff().max()), 1)


def _with_one_more(flat, last):
    """The flat tensor with an element more at its end, which -1 is the place of."""
    return torch.nn.functional.pad(flat, (0, 1), value=last)


def _select(values, *arguments):
    operator = OPS.topk_segments.default
    if is_transformed(values):
        elements, places, thresholds = operator(values.detach(), *arguments)
        found = _with_one_more(values, 0)[places.to(torch.int64)]
        return torch.where(places < 0, elements, found), places, thresholds
    if wants_grad(values) and are_unwatched(values, *arguments):
        size = values.shape[0]
        select = lambda values: _kernel(SELECTION, values, *arguments)  # noqa: E731
        return WithGradient.apply(values, select, lambda grad, places: _put(grad, places, size))
    return called(_kernel, operator, values, *arguments)


def _put(grad, places, size):
    """Zeros with the elements of `grad` at their places. Added up: segments overlap if offsets do not ascend."""
    places = places.to(torch.int64)
    places = torch.where(places < 0, size, places)
    return grad.new_zeros(size + 1).scatter_add(0, places.reshape(-1), grad.reshape(-1))[:size]


# ---- The operator ----


@register_fake("rtopk::topk_segments")
def _fake_topk_segments(
    values, offsets, k, row_k=None, ids=None, max_length=0, largest=True, sorted=True, magnitude=False,
    threshold=False, index_dtype=torch.int64,
):  # fmt: skip
    check(values.dim() == 1, lambda: f"values has {values.dim()} dimensions; accepted: 1")
    check(offsets.dim() == 1, lambda: f"offsets has {offsets.dim()} dimensions; accepted: 1")
    check(k >= 0, lambda: f"k is {k}; accepted: 0 or more")
    check(not threshold or k > 0, lambda: f"k is {k}; accepted with a threshold: 1 or more")
    rows = offsets.shape[0] - 1
    check(rows >= 0, lambda: "offsets has no elements; accepted: one for each segment, and one more")
    check_array("row_k", row_k, [rows])
    check_ids(ids, values.shape, index_dtype)
    thresholds = values.new_empty(rows if threshold else 0)
    return values.new_empty(rows, k), values.new_empty((rows, k), dtype=index_dtype), thresholds


def _save(ctx, inputs, output):
    ctx.size, ctx.inputs = inputs[0].shape[0], len(inputs)
    places = output[1]
    if len(inputs) > 4 and inputs[4] is not None:
        # Ids do not tell the places. topk_segments() does not call the operator like this where a gradient is wanted.
        arguments = [*inputs[:4], None, *inputs[5:10]]
        places = OPS.topk_segments(*arguments)[1]
    ctx.save_for_backward(places)
    ctx.mark_non_differentiable(output[1], output[2])


def _backward(ctx, grad, _, __):
    (places,) = ctx.saved_tensors
    result = None if grad is None else _put(grad, places, ctx.size)
    return (result,) + (None,) * (ctx.inputs - 1)


register_autograd("rtopk::topk_segments", _backward, setup_context=_save)


@register_vmap("rtopk::topk_segments")
def _vmap(info, in_dims, *arguments):
    # Segments of one tensor are not those of the next: one call for each.
    results = []
    for i in range(info.batch_size):
        own = [
            argument if in_dim is None else argument.select(in_dim, i).contiguous()
            for argument, in_dim in zip(arguments, in_dims, strict=True)
        ]
        results.append(OPS.topk_segments(*own))
    return tuple(torch.stack(tensors) for tensors in zip(*results, strict=True)), (0, 0, 0)
