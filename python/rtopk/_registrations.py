"""What PyTorch is told about the operators beside their kernels: shapes (fake tensors), which tensors they write to,
derivatives, vmap.

Every operator whose results depend on its input smoothly has a derivative: it may stand in a saved graph, which is used
with a gradient later. _functions.py has ways past them for calls that need none.
"""

import torch
import torch.autograd.forward_ad as forward_ad
from torch.library import register_autograd, register_fake, register_vmap

from . import _library  # noqa: F401  # defines the operators

_OPS = torch.ops.rtopk


# ---- Shapes ----


def wrapped_dim(tensor, dim):
    """`dim` from 0 on. A tensor without dimensions counts as one with one of them, as everywhere in torch."""
    dims = max(tensor.dim(), 1)
    if not -dims <= dim < dims:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got {dim})")
    return dim % dims


def out_of_range(k, size):
    return f"selected index k out of range: k is {k}; accepted: 0 to {size}"


def result_shape(tensor, k, dim):
    """The shape of k results along `dim`, and the size of that dimension."""
    shape = list(tensor.shape)
    if not shape:
        return shape, 1
    dim = wrapped_dim(tensor, dim)
    size, shape[dim] = shape[dim], k
    return shape, size


def _checked_shape(tensor, k, dim):
    wrapped_dim(tensor, dim)
    shape, size = result_shape(tensor, k, dim)
    torch._check(k >= 0, lambda: out_of_range(k, size))
    torch._check(k <= size, lambda: out_of_range(k, size))
    return shape


def _fake_topk(input, k, dim=-1, largest=True, sorted=True, max_iter=0, epsilon=0.0, index_dtype=torch.int64):
    shape = _checked_shape(input, k, dim)
    return input.new_empty(shape), input.new_empty(shape, dtype=index_dtype)


def _fake_topk_out(input, k, dim, largest, sorted, max_iter, epsilon, values, indices):
    shape = _checked_shape(input, k, dim)
    _check_output("values", values, shape, (input.dtype,), input)
    _check_output("indices", indices, shape, (torch.int64, torch.int32), input)


def _check_output(name, tensor, shape, dtypes, like):
    torch._check(tensor.dtype in dtypes, lambda: f"{name} is {tensor.dtype}; accepted: {dtypes}")
    torch._check(tensor.device == like.device, lambda: f"{name} is on {tensor.device}; accepted: {like.device}")

    def wrong_shape():
        return f"{name} has shape {list(tensor.shape)}; accepted: {shape}"

    torch._check(tensor.dim() == len(shape), wrong_shape)
    for size, wanted in zip(tensor.shape, shape, strict=True):
        torch._check(size == wanted, wrong_shape)


def _fake_maxk(input, k, dim=-1, largest=True, max_iter=0, epsilon=0.0):
    _checked_shape(input, k, dim)
    return input.new_empty(input.shape)


def _fake_topk_mask(input, k, dim=-1, largest=True, max_iter=0, epsilon=0.0):
    _checked_shape(input, k, dim)
    return input.new_empty(input.shape, dtype=torch.bool)


def selector_dtype(cols):
    return torch.uint8 if cols <= 256 else torch.uint16


def _fake_compact(input, k, largest=True, max_iter=0, epsilon=0.0):
    shape = _checked_shape(input, k, -1)
    cols = input.shape[-1] if input.dim() else 1
    return input.new_empty(shape), input.new_empty(shape, dtype=selector_dtype(cols))


register_fake("rtopk::topk", _fake_topk)
register_fake("rtopk::topk_out", _fake_topk_out)
register_fake("rtopk::maxk", _fake_maxk)
register_fake("rtopk::topk_mask", _fake_topk_mask)
register_fake("rtopk::compact", _fake_compact)


# ---- What is written to ----
#
# torch's own operators that write into a given tensor raise its version, by which autograd notices that what it saved
# is gone, and refuse inference tensors outside of inference mode and whatever wants a derivative. Here a kernel of the
# key ADInplaceOrView does so. It comes before those of devices, modes and fake tensors, whoever makes the call.


def check_writable(name, arguments, written):
    """Throws where torch would not let an operator write into these tensors."""
    if not torch.is_inference_mode_enabled() and any(tensor.is_inference() for tensor in written):
        raise RuntimeError(
            f"{name}: Inplace update to inference tensor outside InferenceMode is not allowed; accepted: its clone()"
        )
    if any(tensor.is_neg() for tensor in written):
        raise RuntimeError(f"{name}: a lazily negated view is not written to; accepted: its resolve_neg()")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in arguments):
        raise RuntimeError(
            f"{name}: what writes into a given tensor, as out=... does, has no derivative, but one of the arguments"
            " requires grad; accepted: its detach(), or a call under torch.no_grad()"
        )
    if forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(tensor).tangent is not None for tensor in arguments
    ):
        raise NotImplementedError(f"{name}: forward AD is not supported where a given tensor is written to")


def _register_writing(name):
    operator = getattr(_OPS, name).default
    schema = operator._schema
    is_written = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
    below = torch._C._after_ADInplaceOrView_keyset

    def kernel(keyset, *arguments):
        tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
        # None for a tensor comes this far; the kernels below refuse it.
        written = [each for each, writes in zip(arguments, is_written, strict=True) if writes and each is not None]
        check_writable(schema.name, tensors, written)
        operator.redispatch(keyset & below, *arguments)
        torch.autograd.graph.increment_version(written)

    _library_for_writing.impl(name, kernel, "ADInplaceOrView", with_keyset=True)


_library_for_writing = torch.library.Library("rtopk", "IMPL")
for _name in ("topk_out", "_add_product"):
    _register_writing(_name)


# ---- Derivatives ----
#
# Ordinary torch operators on saved indices, so that second and higher order follow from theirs. The indices of a row
# are distinct: scatter, which adds nothing up, is exact and deterministic.


def scattered(values, indices, shape, dim):
    """Zeros with `values` at `indices` along `dim`."""
    zeros = values.new_zeros(shape)
    if indices.dtype is not torch.int64:
        indices = indices.to(torch.int64)
    # In place, or the zeros would be written twice. Under vmap they are no batch where only the indices are one.
    return (zeros.scatter if in_torch_func() else zeros.scatter_)(dim, indices, values)


def in_torch_func():
    return torch._C._are_functorch_transforms_active()


# What torch.compiler.assume_constant_result does. That would import the whole of torch.compile, which takes seconds.
in_torch_func._dynamo_marked_constant = True


def save_topk(ctx, inputs, output):
    ctx.shape, ctx.dim, ctx.inputs = inputs[0].shape, inputs[2], len(inputs)
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def backward_topk(ctx, grad_values, _):
    (indices,) = ctx.saved_tensors
    grad = None if grad_values is None else scattered(grad_values, indices, ctx.shape, ctx.dim)
    return (grad,) + (None,) * (ctx.inputs - 1)


def save_compact(ctx, inputs, output):
    ctx.shape = inputs[0].shape
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def backward_compact(ctx, grad_values, _):
    (selectors,) = ctx.saved_tensors
    grad = None if grad_values is None else scattered(grad_values, selectors, ctx.shape, -1)
    return grad, None, None, None, None


def save_maxk(ctx, inputs, output):
    # An element that was kept may be zero, so that the output does not tell.
    ctx.inputs = len(inputs)
    ctx.save_for_backward(_OPS.topk_mask(*inputs))


def backward_maxk(ctx, grad):
    (mask,) = ctx.saved_tensors
    return torch.where(mask, grad, 0), *(None,) * (ctx.inputs - 1)


register_autograd("rtopk::topk", backward_topk, setup_context=save_topk)
register_autograd("rtopk::maxk", backward_maxk, setup_context=save_maxk)
register_autograd("rtopk::compact", backward_compact, setup_context=save_compact)


# rtopk.topk calls these only where no gradient is wanted (_functions.py): autograd is skipped.
_without_gradient = torch.library.Library("rtopk", "IMPL")
for _name in ("_plain_topk", "_plain_topk_along"):
    _without_gradient.impl(_name, torch.library.fallthrough_kernel, "Autograd")


# ---- vmap ----
#
# Rows are selected independently of each other, so a batch is more rows: the batch goes first, and dimensions count
# from the second one on.


def _batch_first(input, in_dim, dim):
    """The tensor with the batch first and a dimension for the rows, that dimension, and whether it had to be added."""
    batch = input.movedim(in_dim, 0)
    dim = wrapped_dim(batch[0], dim) + 1
    if batch.dim() == 1:
        return batch.unsqueeze(-1), dim, True
    return batch, dim, False


def _vmap_pairs(op, has_dim):
    def rule(info, in_dims, input, k, *rest):
        dim, rest = (rest[0] if rest else -1, rest[1:]) if has_dim else (-1, rest)
        batch, dim, added = _batch_first(input, in_dims[0], dim)
        # torch.topk selects the one element of a tensor without dimensions even if k is 0.
        first, second = op(batch, max(k, 1) if added else k, *([dim] if has_dim else []), *rest)
        return (first.squeeze(-1), second.squeeze(-1)) if added else (first, second), (0, 0)

    return rule


def _vmap_whole_rows(op):
    def rule(info, in_dims, input, k, dim=-1, *rest):
        batch, dim, added = _batch_first(input, in_dims[0], dim)
        result = op(batch, k, dim, *rest)
        return result.squeeze(-1) if added else result, 0

    return rule


register_vmap("rtopk::topk", _vmap_pairs(_OPS.topk, has_dim=True))
register_vmap("rtopk::compact", _vmap_pairs(_OPS.compact, has_dim=False))
for _name in ("maxk", "topk_mask"):
    register_vmap(f"rtopk::{_name}", _vmap_whole_rows(getattr(_OPS, _name)))
