"""topk: values and indices, as torch.topk gives them."""

from __future__ import annotations

import warnings
from inspect import Parameter, signature
from operator import index as operator_index
from typing import TYPE_CHECKING

import torch
from torch.library import register_autograd, register_fake, register_vmap
from torch.overrides import handle_torch_function

from . import _onnx
from ._calls import check_tensor, is_dtensor, pairs
from ._dtensor import of_dtensor
from ._operators import (
    DTYPES,
    OPS,
    check_writable,
    checked_shape,
    out_of_range,
    result_shape,
    scattered,
    vmap_pairs,
    wrapped_dim,
    writing_operator,
)
from ._results import TopKThreshold
from ._rows import RowOptions, check_arrays, overridden, topk_of_rows
from ._rules import RULES, SEARCHES, search_flags
from ._torch_internals import (
    DERIVATIVE_THEN_SELECTION,
    PLAIN_TYPES,
    call_boxed,
    check,
    derivative_kernel,
    has_function_mode,
    in_forward_mode,
    is_compiling,
    is_overridden,
    is_watched,
    schema,
    selection_kernel,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

_INT64 = torch.int64
_RULE, _SEARCH = RULES[0], SEARCHES[0]
_LAST = -1
_Result = torch.return_types.topk

# Small calls have operators of their own, with no derivative and few arguments: each argument takes some 3 % of such a
# call. If anything else wants to see the call, they give None (bindings/torch/operators.cpp).
_plain_topk, _plain_topk_along = schema("rtopk::_plain_topk"), schema("rtopk::_plain_topk_along")
_NOT_PLAIN = (None, None)
_differentiable_topk = derivative_kernel("aten::topk")
_topk_kernel = selection_kernel("rtopk::topk")


def topk(
    input: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    max_iter: int | None = None,
    rule: str = "threshold_first",
    epsilon: float = 0.0,
    search: str = "fast",
    index_dtype: torch.dtype = torch.int64,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
    **rows: Unpack[RowOptions],
) -> torch.return_types.topk | TopKThreshold:
    """The k largest (or smallest) elements along a dimension, with their indices, as torch.topk gives them.

    Beyond torch.topk's promises, ties are settled: among elements equal to the kth value the lowest indices are
    selected. Sorted results with equal values are in ascending order of index, and so are all unsorted results. The
    result is the same on every device and in every run.

    Args:
        input: float32, float16, bfloat16, float64, int32, int64, int16, int8 or uint8. Strides
            may be any; only unusual layouts are copied first. Among integers only int32 has a search of its own:
            shorter ones are widened to it, int64 is sorted. Of a DTensor, results are DTensors, exact also where
            the dimension is split over ranks.
        k: how many elements to select, from 0 to the size of the dimension; with `lengths`, `starts` or `row_k` it may
            be more.
        dim: the dimension to select along.
        largest: True for the largest elements, False for the smallest. NaN is greater than every number.
        sorted: True for results in order, best first.
        max_iter: stop the search after this many passes (Algorithm 2 of the RTop-K paper). The result has k elements,
            not always the best. None: exact.
        rule: what a search that max_iter stops selects. "threshold_first": all elements that reach its last threshold,
            then the first ones in the interval below, as the paper's kernel does. "printed": the first k at or above
            the interval's lower end, as the paper prints it.
        epsilon: stop when the search interval is this narrow, relative to the best value (the paper's Algorithm 1).
            0: exact.
        search: "fast", or "bisection" for the passes of the paper, for studies. The result is the same.
        index_dtype: torch.int64 or torch.int32.
        out: tensors for values and indices, as in torch.topk. Not with one of the arguments below.
        lengths: how many elements each row has. Below 0 counts as 0, beyond the end as to the end.
        starts: the column that each row begins at. None: 0.
        row_k: k of each row, from 0 to `k`, which is the width of the results.
        ids: a number beside every element, or beside every column for all rows. Results have these in the place of
            indices.
        magnitude: True to compare absolute values. Results keep their sign.
        return_threshold: True for the kth value of each row as a third result.

    `lengths`, `starts` and `row_k` have the shape of the input without its last dimension, `ids` that of the input, or
    of its last dimension alone. All are int32 or int64 on the device of the input, where the kernels read them: other
    contents need no other plan, and nothing waits for a GPU. Ids for all rows, one-dimensional or expanded, are looked
    up after the selection. Where a row has fewer than k elements, indices end with -1, and values with the value
    that loses against every element: -infinity for the largest, NaN for the smallest, 0 for the largest by magnitude.
    Its threshold is that value too. What lies outside of a row is never selected.

    With these four the dimension must be the last one, and memory is read as it lies: the elements of a row side by
    side, and one stride from row to row (any slice of columns of a matrix). With any of the new arguments the input
    is float32, float16, bfloat16, float64 or int32. Gradients of values go to the elements that were selected; the
    threshold has none (with `sorted`, the last of a row's values is the same number with a gradient).

    Returns:
        A named tuple (values, indices) of torch.topk's own type, or with `return_threshold` a named tuple (values,
        indices, threshold).

    >>> x = torch.tensor([1.0, 7.0, 3.0, 7.0])
    >>> values, indices = rtopk.topk(x, 3)
    >>> values, indices
    (tensor([7., 7., 3.]), tensor([1, 3, 2]))
    >>> rtopk.topk(x, 2, largest=False, index_dtype=torch.int32).indices
    tensor([0, 2], dtype=torch.int32)
    >>> rtopk.topk(torch.tensor([[1.0, 3.0, 9.0], [5.0, 9.0, 9.0]]), 2, lengths=torch.tensor([2, 1]))
    torch.return_types.topk(
    values=tensor([[3., 1.],
            [5., -inf]]),
    indices=tensor([[ 1,  0],
            [ 0, -1]]))
    >>> rtopk.topk(torch.tensor([1.0, -4.0, 3.0]), 2, magnitude=True).values
    tensor([-4.,  3.])
    """
    # The usual call first, with as few questions as possible: each costs 1 to 3 % of a small call. So do arguments with
    # names, and those for general rows are one for that reason. is_compiling() comes before all others, since it is the
    # only one that torch.compile can see through.
    if (
        max_iter is None
        and out is None
        and not rows
        and epsilon == 0.0
        and rule == _RULE
        and search == _SEARCH
        and index_dtype is _INT64
        and type(k) is int
        and not is_compiling()
        and type(input) in PLAIN_TYPES
        and not has_function_mode()
    ):
        try:
            pair = _NOT_PLAIN
            if input.requires_grad or in_forward_mode(input):
                if type(dim) is int and type(largest) is type(sorted) is bool and not is_watched(input):
                    pair = _differentiable_topk(DERIVATIVE_THEN_SELECTION, input, k, dim, largest, sorted)
            elif dim is _LAST and largest is True and sorted is True:
                pair = call_boxed(_plain_topk, input, k)
            elif type(dim) is int and type(largest) is type(sorted) is bool:
                pair = call_boxed(_plain_topk_along, input, k, dim, largest, sorted)
            if pair[0] is not None:
                return _Result(pair)
        except RuntimeError:
            pass  # tried again below in another way, or refused there as torch.topk would
    options = {"max_iter": max_iter, "rule": rule, "epsilon": epsilon, "search": search}
    options |= {"index_dtype": index_dtype, "out": out}
    if rows:
        return _topk_of_rows(input, k, dim, largest, sorted, options, **rows)
    if is_overridden(input):
        return handle_torch_function(topk, (input,), input, k, dim, largest, sorted, **options)
    if is_dtensor(input):
        return of_dtensor(topk, input, k, dim, largest, sorted, **options)
    check_tensor("topk", input)
    k, dim = _integer("k", k), wrapped_dim(input, _integer("dim", dim))
    _check_bool("largest", largest)
    _check_bool("sorted", sorted)
    arguments, flags = (k, dim, largest, sorted, max_iter or 0, epsilon), search_flags(rule, search)
    try:
        if out is not None:
            return _topk_out(input, arguments, index_dtype, out, flags)
        if max_iter is None and epsilon == 0.0 and _onnx.exports_onnx():
            values, indices = _onnx.pairs(input, k, dim, largest, sorted)
            return _Result((values, indices.to(index_dtype)))
        return _Result(pairs(_topk_kernel, OPS.topk.default, input, dim, *arguments, index_dtype, *flags))
    except RuntimeError:
        if input.dtype in DTYPES:
            raise
        raise _unsupported(input) from None


def _topk_of_rows(
    input,
    k,
    dim,
    largest,
    sorted,
    options,
    /,
    lengths: torch.Tensor | None = None,
    starts: torch.Tensor | None = None,
    row_k: torch.Tensor | None = None,
    ids: torch.Tensor | None = None,
    magnitude: bool = False,
    return_threshold: bool = False,
    **unknown,
):
    """topk() with arguments for general rows. `options`: the other arguments that have names."""
    if unknown:
        raise TypeError(f"topk() got an unexpected keyword argument {next(iter(unknown))!r}")
    rows = {"lengths": lengths, "starts": starts, "row_k": row_k, "ids": ids}
    if all(each is None for each in rows.values()) and magnitude is return_threshold is False:
        return topk(input, k, dim, largest, sorted, **options)
    if relevant := overridden(input, *rows.values()):
        options |= rows | {"magnitude": magnitude, "return_threshold": return_threshold}
        return handle_torch_function(topk, relevant, input, k, dim, largest, sorted, **options)
    if is_dtensor(input):
        options |= rows | {"magnitude": magnitude, "return_threshold": return_threshold}
        return of_dtensor(topk, input, k, dim, largest, sorted, **options)
    check_tensor("topk", input)
    k, dim = _integer("k", k), wrapped_dim(input, _integer("dim", dim))
    for name, value in (("largest", largest), ("sorted", sorted), ("magnitude", magnitude)):
        _check_bool(name, value)
    _check_bool("return_threshold", return_threshold)
    check_arrays("topk", **rows)
    if options["out"] is not None:
        rows |= {"magnitude": magnitude or None, "return_threshold": return_threshold or None}
        given = " and ".join(name for name, value in rows.items() if value is not None)
        raise ValueError(f"out is given beside {given}; accepted: without out")
    early = {"max_iter": options["max_iter"] or 0, "epsilon": options["epsilon"]}
    early |= {"index_dtype": options["index_dtype"]}
    early["printed"], early["bisection"] = search_flags(options["rule"], options["search"])
    order = {"largest": largest, "sorted": sorted, "magnitude": magnitude, "threshold": return_threshold}
    results = topk_of_rows(input, k, dim, **rows, **order, **early)
    return TopKThreshold(*results) if return_threshold else _Result(results[:2])


def _shown_parameters():
    """The parameters of topk() with those for general rows by their names, for help() and the reference."""
    plain = [each for each in signature(topk).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    rows = [each for each in signature(_topk_of_rows).parameters.values() if each.name in RowOptions.__annotations__]
    return [*plain, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in rows)]


topk.__signature__ = signature(topk).replace(parameters=_shown_parameters())


def _topk_out(input, arguments, index_dtype, out, flags):
    if not isinstance(out, (tuple, list)) or len(out) != 2 or not all(isinstance(each, torch.Tensor) for each in out):
        raise TypeError("topk(): argument 'out' must be tuple of Tensors: values and indices")
    values, indices = out
    k, dim, *_ = arguments
    shape, size = result_shape(input, k, dim)
    if k < 0 or k > size:
        raise RuntimeError(out_of_range(k, size))
    for tensor, dtype in ((values, input.dtype), (indices, index_dtype)):
        if tensor.dtype != dtype:
            raise RuntimeError(f"Expected out tensor to have dtype {dtype}, but got {tensor.dtype} instead")
        if tensor.device != input.device:
            raise RuntimeError(f"Expected out tensor to be on {input.device}, but got {tensor.device} instead")
    for tensor in out:
        if list(tensor.shape) != shape:
            check_writable("topk()", (input, *out), out)
            if tensor.numel() != 0:
                warnings.warn(
                    f"An output with one or more elements was resized since it had shape {list(tensor.shape)}, which"
                    f" does not match the required output shape {shape}.",
                    stacklevel=3,
                )
            tensor.resize_(shape)
    _write_topk(input, *arguments, values, indices, *flags)
    return torch.return_types.topk_out((values, indices))


# ---- Errors of the kinds that torch.topk has ----


def _unsupported(input):
    """The error for a dtype that is not supported: of the kind that torch.topk has for it on that device."""
    names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in DTYPES))
    text = f"topk(): not implemented for {input.dtype}; accepted: {names}"
    try:
        torch.topk(input.new_empty(1), 1)
    except RuntimeError as error:
        return type(error)(text)
    return NotImplementedError(text)


def _integer(name, value):
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"topk(): argument '{name}' must be int, not {type(value).__name__}")
    return operator_index(value)


def _check_bool(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"topk(): argument '{name}' must be bool, not {type(value).__name__}")


# ---- The operators ----


@register_fake("rtopk::topk")
def _fake_topk(
    input, k, dim=-1, largest=True, sorted=True, max_iter=0, epsilon=0.0, index_dtype=torch.int64, printed=False,
    bisection=False,
):  # fmt: skip
    shape = checked_shape(input, k, dim)
    return input.new_empty(shape), input.new_empty(shape, dtype=index_dtype)


def _save_topk(ctx, inputs, output):
    ctx.shape, ctx.dim, ctx.inputs = inputs[0].shape, inputs[2], len(inputs)
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _backward_topk(ctx, grad_values, _):
    (indices,) = ctx.saved_tensors
    grad = None if grad_values is None else scattered(grad_values, indices, ctx.shape, ctx.dim)
    return (grad,) + (None,) * (ctx.inputs - 1)


register_autograd("rtopk::topk", _backward_topk, setup_context=_save_topk)
register_vmap("rtopk::topk", vmap_pairs(OPS.topk, has_dim=True))


@register_fake("rtopk::topk_out")
def _fake_topk_out(input, k, dim, largest, sorted, max_iter, epsilon, values, indices, printed=False, bisection=False):
    shape = checked_shape(input, k, dim)
    _check_output("values", values, shape, (input.dtype,), input)
    _check_output("indices", indices, shape, (torch.int64, torch.int32), input)


def _check_output(name, tensor, shape, dtypes, like):
    check(tensor.dtype in dtypes, lambda: f"{name} is {tensor.dtype}; accepted: {dtypes}")
    check(tensor.device == like.device, lambda: f"{name} is on {tensor.device}; accepted: {like.device}")

    def wrong_shape():
        return f"{name} has shape {list(tensor.shape)}; accepted: {shape}"

    check(tensor.dim() == len(shape), wrong_shape)
    for size, wanted in zip(tensor.shape, shape, strict=True):
        check(size == wanted, wrong_shape)


_write_topk = writing_operator("topk_out", written=(7, 8))

# Only topk() calls these, and only where no gradient is wanted: autograd is skipped.
_without_gradient = torch.library.Library("rtopk", "IMPL")
for _name in ("_plain_topk", "_plain_topk_along"):
    _without_gradient.impl(_name, torch.library.fallthrough_kernel, "Autograd")
