"""The functions of the package. Each picks the operator that does what is wanted and no more."""

from __future__ import annotations

import warnings
from operator import index as operator_index
from typing import NamedTuple

import torch
import torch.autograd.forward_ad as forward_ad
from torch.overrides import handle_torch_function, has_torch_function_unary

from . import _onnx
from ._registrations import (
    check_writable,
    in_torch_func,
    out_of_range,
    result_shape,
    scattered,
    selector_dtype,
    wrapped_dim,
)

_OPS = torch.ops.rtopk
_INT64 = torch.int64
_Result = torch.return_types.topk

# ---- Ways past the derivatives ----
#
# Through the dispatcher an operator meets its derivative, which is in Python and takes longer than a small selection
# even to say that it is not needed. So operators.cpp registers the operators for a backend that no tensor has, and
# aten::topk too. Called by that key, an operator is the selection and nothing else; aten::topk from autograd on down is
# torch.topk's own derivative around it, in C++, forwards and backwards and of every order.
#
# Small calls of topk are shorter still: operators of their own, with no derivative and few arguments, each of which
# takes some 3 % of such a call. Where anything wants to see the call they give None (operators.cpp).

_Key, _Keys = torch._C.DispatchKey, torch._C.DispatchKeySet
_SELECTION = _Keys(_Key.PrivateUse3)
_DERIVATIVE_THEN_SELECTION = _Keys(_Key.AutogradPrivateUse3) | _SELECTION


def _kernel(name, key="PrivateUse3"):
    return torch.library.get_kernel(name, key).call_boxed


_differentiable_topk = _kernel("aten::topk", "AutogradPrivateUse3")
_selected_topk_early, _selected_maxk, _selected_compact = map(_kernel, ("rtopk::topk", "rtopk::maxk", "rtopk::compact"))

_call = torch._C._dispatch_call_boxed
_plain_topk, _plain_topk_along = (
    torch._C._dispatch_find_schema_or_throw(f"rtopk::{name}", "") for name in ("_plain_topk", "_plain_topk_along")
)
_NOT_PLAIN = (None, None)
_LAST = -1

# What may want to see a call beside autograd and a kernel: subclasses, modes of two kinds, tracers, transforms.
# Functions without arguments are the quickest to ask; that of torch.compile comes first, for it is all that
# torch.compile can see through. Sparse tensors and others that our kernels do not take are refused there, and then the
# dispatcher has the call after all.
_PLAIN_TYPES = frozenset((torch.Tensor, torch.nn.Parameter))
_is_compiling = torch.compiler.is_dynamo_compiling
_dispatch_modes = torch._C._len_torch_dispatch_stack
_has_function_mode = torch._C._is_torch_function_mode_enabled
_has_transform = torch._C._are_functorch_transforms_active
_has_tracer = torch._C._is_tracing


def _is_watched(input):
    """Whether the dispatcher has others to show a call to than autograd and a kernel."""
    return _dispatch_modes() or _has_transform() or _has_tracer() or input.is_neg()


def is_unwatched(input):
    """Whether a call with this tensor is executed and nothing else: not recorded, not transformed, not overridden."""
    return not _is_compiling() and type(input) in _PLAIN_TYPES and not _has_function_mode() and not _is_watched(input)


def _is_overridden(input):
    """Whether a subclass or a mode wants a function as a whole. make_fx has a mode for other purposes while it records
    before autograd: it calls the function again without the mode, and then nothing would tell that it records."""
    return (
        not _is_compiling()
        and has_torch_function_unary(input)
        and not torch._C._dispatch_tls_is_dispatch_key_included(_Key.PythonDispatcher)
    )


def _selected(kernel, operator, input, *arguments):
    """An operator of which no gradient is wanted here. It may be wanted of a graph that is being made."""
    if is_unwatched(input):
        try:
            return kernel(_SELECTION, input, *arguments)
        except RuntimeError:
            pass
    return operator(input, *arguments)


class _WithGradient(torch.autograd.Function):
    """An operator that gives values and where they stand: its derivative for plain eager calls. What torch.library
    makes of the same formula takes a tenth of a millisecond a call."""

    @staticmethod
    def forward(ctx, input, dim, kernel, operator, *arguments):
        values, indices = _selected(kernel, operator, input, *arguments)
        ctx.shape, ctx.dim, ctx.constants = input.shape, dim, 3 + len(arguments)
        ctx.save_for_backward(indices)
        ctx.mark_non_differentiable(indices)
        return values, indices

    @staticmethod
    def backward(ctx, grad, _):
        (indices,) = ctx.saved_tensors
        return scattered(grad, indices, ctx.shape, ctx.dim), *(None,) * ctx.constants


def _pairs(kernel, operator, input, dim, *arguments):
    """Values, differentiable, and where they stand, by an operator with checked arguments."""
    if _is_transformed():
        # Operators of one's own cannot tell torch about derivatives forwards and in torch.func; a gather has them all.
        indices = operator(input.detach(), *arguments)[1]
        return input.gather(dim, indices if indices.dtype is _INT64 else indices.to(_INT64)), indices
    if is_unwatched(input) and input.requires_grad and torch.is_grad_enabled():
        return _WithGradient.apply(input, dim, kernel, operator, *arguments)
    return _selected(kernel, operator, input, *arguments)


def topk(
    input: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    max_iter: int | None = None,
    epsilon: float = 0.0,
    index_dtype: torch.dtype = torch.int64,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.return_types.topk:
    """The k largest (or smallest) elements along a dimension, with their indices, as torch.topk gives them.

    Beyond torch.topk's promises: among equal values at the border the lowest indices win, sorted results with equal
    values are in ascending index, unsorted ones are too, and the result is the same on every device and run.

    Args:
        input: float32, float16, bfloat16, float64, int32, int64, int16, int8 or uint8. Rows with any stride between
            them are read in place; a tensor whose selected dimension is not contiguous is copied first. Integers other
            than int32 have no search of their own: the short ones are widened, int64 is sorted.
        k: how many; 0 to the size of the dimension.
        dim: along which dimension.
        largest: the largest, or the smallest. NaN is greater than every number.
        sorted: best first.
        max_iter: stop the search after this many passes (Algorithm 2 of the RTop-K paper): k elements, not always the
            best. None: exact.
        epsilon: stop when the interval is this narrow, relative to the best value (the paper's Algorithm 1). 0: exact.
        index_dtype: torch.int64 or torch.int32.
        out: tensors for values and indices, as in torch.topk.

    Returns:
        A named tuple (values, indices) of torch.topk's own type.

    >>> x = torch.tensor([1.0, 7.0, 3.0, 7.0])
    >>> values, indices = rtopk.topk(x, 3)
    >>> values, indices
    (tensor([7., 7., 3.]), tensor([1, 3, 2]))
    >>> rtopk.topk(x, 2, largest=False, index_dtype=torch.int32).indices
    tensor([0, 2], dtype=torch.int32)
    """
    # The usual call first, with as few questions as it takes: each costs 1 to 3 % of a small call.
    if (
        max_iter is None
        and out is None
        and epsilon == 0.0
        and index_dtype is _INT64
        and type(k) is int
        and not _is_compiling()
        and type(input) in _PLAIN_TYPES
        and not _has_function_mode()
    ):
        try:
            pair = _NOT_PLAIN
            if input.requires_grad or forward_ad._current_level >= 0:
                if type(dim) is int and type(largest) is type(sorted) is bool and not _is_watched(input):
                    pair = _differentiable_topk(_DERIVATIVE_THEN_SELECTION, input, k, dim, largest, sorted)
            elif dim is _LAST and largest is True and sorted is True:
                pair = _call(_plain_topk, input, k)
            elif type(dim) is int and type(largest) is type(sorted) is bool:
                pair = _call(_plain_topk_along, input, k, dim, largest, sorted)
            if pair[0] is not None:
                return _Result(pair)
        except RuntimeError:
            pass  # below it is done in another way, or refused as torch.topk does
    options = {"max_iter": max_iter, "epsilon": epsilon, "index_dtype": index_dtype, "out": out}
    if _is_overridden(input):
        return handle_torch_function(topk, (input,), input, k, dim, largest, sorted, **options)
    _check_tensor("topk", input)
    k, dim = _integer("k", k), wrapped_dim(input, _integer("dim", dim))
    _check_bool("largest", largest)
    _check_bool("sorted", sorted)
    arguments = (k, dim, largest, sorted, max_iter or 0, epsilon)
    try:
        if out is not None:
            return _topk_out(input, arguments, index_dtype, out)
        if max_iter is None and epsilon == 0.0 and _onnx.exports_onnx():
            values, indices = _onnx.pairs(input, k, dim, largest, sorted)
            return _Result((values, indices.to(index_dtype)))
        return _Result(_pairs(_selected_topk_early, _OPS.topk.default, input, dim, *arguments, index_dtype))
    except RuntimeError:
        if input.dtype in _DTYPES:
            raise
        raise _unsupported(input) from None


def maxk(
    input: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    *,
    max_iter: int | None = None,
    epsilon: float = 0.0,
) -> torch.Tensor:
    """The input with everything but the k largest (or smallest) elements along a dimension set to zero.

    The gradient goes to the elements that were kept. The arguments are those of :func:`topk`.

    >>> rtopk.maxk(torch.tensor([[3.0, 1.0, 2.0], [0.0, -1.0, -2.0]]), 2)
    tensor([[ 3.,  0.,  2.],
            [ 0., -1.,  0.]])
    """
    if _is_overridden(input):
        options = {"max_iter": max_iter, "epsilon": epsilon}
        return handle_torch_function(maxk, (input,), input, k, dim, largest, **options)
    _check_tensor("maxk", input)
    wrapped_dim(input, dim)
    arguments = (k, dim, largest, max_iter or 0, epsilon)
    if not _is_transformed() and not _onnx.exports_onnx():
        if not _wants_grad(input):
            return _selected(_selected_maxk, _OPS.maxk.default, input, *arguments)
        # A gradient needs to know what was kept: its indices where they are few, else a byte for every element.
        few = not _is_compiling() and not torch.jit.is_tracing() and input.dim() > 0 and 0 < 8 * k < input.size(dim)
        if few:
            values, indices = topk(input, k, dim, largest, False, max_iter=max_iter, epsilon=epsilon)
            return scattered(values, indices, input.shape, dim)
    return torch.where(topk_mask(input.detach(), k, dim, largest, max_iter=max_iter, epsilon=epsilon), input, 0)


def topk_mask(
    input: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    *,
    max_iter: int | None = None,
    epsilon: float = 0.0,
) -> torch.Tensor:
    """A boolean tensor that is True where :func:`topk` would select.

    >>> rtopk.topk_mask(torch.tensor([3.0, 1.0, 3.0, 3.0]), 2)
    tensor([ True, False,  True, False])
    """
    if _is_overridden(input):
        options = {"max_iter": max_iter, "epsilon": epsilon}
        return handle_torch_function(topk_mask, (input,), input, k, dim, largest, **options)
    _check_tensor("topk_mask", input)
    wrapped_dim(input, dim)
    if max_iter is None and epsilon == 0.0 and _onnx.exports_onnx():
        return _onnx.mask(input, k, dim, largest)
    return _OPS.topk_mask.default(input, k, dim, largest, max_iter or 0, epsilon)


class CBSR(NamedTuple):
    """Compact balanced sparse rows: k values of every row, and the columns that they stand in, ascending."""

    values: torch.Tensor
    selectors: torch.Tensor  #: uint8 for rows of up to 256 elements, uint16 for up to 65536


def compact(
    input: torch.Tensor,
    k: int,
    largest: bool = True,
    *,
    max_iter: int | None = None,
    epsilon: float = 0.0,
) -> CBSR:
    """:func:`maxk` along the last dimension without its zeros: values and 8- or 16-bit column selectors.

    :func:`expand` makes the dense tensor again. Differentiable in the values.

    >>> rtopk.compact(torch.tensor([[3.0, 1.0, 2.0]]), 2)
    CBSR(values=tensor([[3., 2.]]), selectors=tensor([[0, 2]], dtype=torch.uint8))
    """
    if _is_overridden(input):
        return handle_torch_function(compact, (input,), input, k, largest, max_iter=max_iter, epsilon=epsilon)
    _check_tensor("compact", input)
    arguments = (k, largest, max_iter or 0, epsilon)
    if max_iter is None and epsilon == 0.0 and _onnx.exports_onnx():
        values, indices = _onnx.pairs(input, k, input.dim() - 1, largest, False)
        return CBSR(values, indices.to(selector_dtype(input.shape[-1])))
    return CBSR(*_pairs(_selected_compact, _OPS.compact.default, input, -1, *arguments))


def compact_without_gradient(input, k, largest, max_iter, epsilon):
    """The operator, for one whose derivative is another."""
    return _selected(_selected_compact, _OPS.compact.default, input, k, largest, max_iter, epsilon)


def expand(values: torch.Tensor, selectors: torch.Tensor, cols: int) -> torch.Tensor:
    """The dense tensor of rows that :func:`compact` made: `cols` elements each, zero where nothing was selected.

    >>> rtopk.expand(*rtopk.compact(torch.tensor([[3.0, 1.0, 2.0]]), 2), cols=3)
    tensor([[3., 0., 2.]])
    """
    if _is_overridden(values):
        return handle_torch_function(expand, (values,), values, selectors, cols)
    return scattered(values, selectors, (*values.shape[:-1], cols) if values.dim() else (), -1)


def _wants_grad(input):
    # What torch.jit.trace records is the same with a gradient and without: its own check traces again without.
    return (input.requires_grad and torch.is_grad_enabled()) or (torch.jit.is_tracing() and input.is_floating_point())


def _is_transformed():
    """Whether derivatives are taken in another way than backwards by autograd: forwards, or by torch.func."""
    return forward_ad._current_level >= 0 or in_torch_func()


# ---- Errors of the kinds that torch.topk has ----

_DTYPES = frozenset(
    getattr(torch, name) for name in "float32 float16 bfloat16 float64 int32 int64 int16 int8 uint8".split()
)


def _unsupported(input):
    """The error for a type that is not selected: of the kind that torch.topk has for it on that device."""
    names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in _DTYPES))
    text = f"topk(): not implemented for {input.dtype}; accepted: {names}"
    try:
        torch.topk(input.new_empty(1), 1)
    except RuntimeError as error:
        return type(error)(text)
    return NotImplementedError(text)


def _check_tensor(function, input):
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"{function}(): argument 'input' must be Tensor, not {type(input).__name__}")


def _integer(name, value):
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"topk(): argument '{name}' must be int, not {type(value).__name__}")
    return operator_index(value)


def _check_bool(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"topk(): argument '{name}' must be bool, not {type(value).__name__}")


def _topk_out(input, arguments, index_dtype, out):
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
    _OPS.topk_out.default(input, *arguments, values, indices)
    return torch.return_types.topk_out((values, indices))
