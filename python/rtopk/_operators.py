"""What the registrations of the operators share: shapes, gradients by scatter, vmap, and writing into given tensors.

Each operator is registered beside the function that calls it: _topk.py, _maxk.py, _compact.py, and gnn. An operator
whose results depend smoothly on its input has a derivative, since it may stand in a saved graph that is used with a
gradient later.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd import forward_ad

from . import _library  # noqa: F401  # defines the operators
from ._torch_internals import check, in_forward_mode, in_torch_func, is_compiling, redispatch_below_writes

OPS = torch.ops.rtopk

#: What topk(), maxk() and topk_mask() take.
DTYPES = tuple(getattr(torch, name) for name in "float32 float16 bfloat16 float64 int32 int64 int16 int8 uint8".split())


# ---- Shapes ----


def wrapped_dim(tensor, dim):
    """`dim` counted from 0. As everywhere in torch, a tensor without dimensions counts as one with one dimension."""
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


def checked_shape(tensor, k, dim):
    """The shape of k results along `dim`, for fake tensors: an error if k is out of range."""
    wrapped_dim(tensor, dim)
    shape, size = result_shape(tensor, k, dim)
    check(k >= 0, lambda: out_of_range(k, size))
    check(k <= size, lambda: out_of_range(k, size))
    return shape


# ---- Gradients ----
#
# Ordinary torch operators on saved indices, so that gradients of second and higher order follow from theirs. The
# indices of a row are distinct: a scatter adds nothing up, so it is exact and deterministic.


def scattered(values, indices, shape, dim):
    """Zeros with `values` at `indices` along `dim`."""
    zeros = values.new_zeros(shape)
    if indices.dtype is not torch.int64:
        indices = indices.to(torch.int64)
    # In place saves writing the zeros twice. vmap refuses that if the indices are batched and the zeros are not.
    return (zeros.scatter if in_torch_func(values, indices) else zeros.scatter_)(dim, indices, values)


# ---- vmap ----
#
# Rows are selected independently of each other, so a vmapped dimension is just more rows: it goes first, and `dim`
# counts from the second dimension on.


def batch_first(input, in_dim, dim):
    """The tensor with the vmapped dimension first and at least one more, `dim` in it, and whether the last one had to
    be added."""
    batch = input.movedim(in_dim, 0)
    dim = wrapped_dim(batch[0], dim) + 1
    if batch.dim() == 1:
        return batch.unsqueeze(-1), dim, True
    return batch, dim, False


def vmap_pairs(op, has_dim):
    """The vmap rule of an operator that gives two tensors with k elements a row."""

    def rule(info, in_dims, input, k, *rest):
        dim, rest = (rest[0] if rest else -1, rest[1:]) if has_dim else (-1, rest)
        batch, dim, added = batch_first(input, in_dims[0], dim)
        # torch.topk selects the one element of a tensor without dimensions even if k is 0.
        first, second = op(batch, max(k, 1) if added else k, *([dim] if has_dim else []), *rest)
        return (first.squeeze(-1), second.squeeze(-1)) if added else (first, second), (0, 0)

    return rule


def vmap_whole_rows(op):
    """The vmap rule of an operator whose result is as large as its input."""

    def rule(info, in_dims, input, k, dim=-1, *rest):
        batch, dim, added = batch_first(input, in_dims[0], dim)
        result = op(batch, k, dim, *rest)
        return result.squeeze(-1) if added else result, 0

    return rule


# ---- Writing into given tensors ----
#
# torch's operators that write into a given tensor raise its version, by which autograd notices that a saved tensor was
# overwritten. They refuse inference tensors outside of inference mode, and arguments that want a derivative. A kernel
# of the key ADInplaceOrView does the same for ours. It runs before the kernels of devices, modes and fake tensors.


def check_writable(name, arguments, written):
    """Raises an error if torch would not let an operator write into these tensors."""
    if not torch.is_inference_mode_enabled() and any(tensor.is_inference() for tensor in written):
        raise RuntimeError(
            f"{name}: Inplace update to inference tensor outside InferenceMode is not allowed; accepted: its clone()"
        )
    if any(tensor.is_neg() for tensor in written):
        raise RuntimeError(f"{name}: a lazily negated view cannot be written to; accepted: its resolve_neg()")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in arguments):
        raise RuntimeError(
            f"{name}: an operator that writes into a given tensor, as with out=..., has no derivative, but one of the"
            " arguments requires grad; accepted: its detach(), or a call under torch.no_grad()"
        )
    if any(in_forward_mode(tensor) and forward_ad.unpack_dual(tensor).tangent is not None for tensor in arguments):
        raise NotImplementedError(
            f"{name}: forward AD is not supported for an operator that writes into a given tensor"
        )


_library_for_writing = torch.library.Library("rtopk", "IMPL")


def writing_operator(name: str, written: tuple[int, ...]) -> Callable:
    """Registers the kernel of an operator that writes into the arguments at these places. Returns what to call: the
    operator; in a torch without the keys for such a kernel, a function that does the same around the operator."""
    operator = getattr(OPS, name).default
    redispatch = redispatch_below_writes(operator)

    def write(call, arguments):
        tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
        # None in a tensor's place gets this far; the kernels below refuse it.
        targets = [arguments[place] for place in written if arguments[place] is not None]
        check_writable(f"rtopk::{name}", tensors, targets)
        call()
        torch.autograd.graph.increment_version(targets)

    if redispatch is None:
        # torch.compile knows from the schema what is written, and cannot record a change of a version.
        return lambda *arguments: (
            operator(*arguments) if is_compiling() else write(lambda: operator(*arguments), arguments)
        )

    def kernel(keys, *arguments):
        write(lambda: redispatch(keys, *arguments), arguments)

    _library_for_writing.impl(name, kernel, "ADInplaceOrView", with_keyset=True)
    return operator
