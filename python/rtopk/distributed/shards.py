"""topk, maxk and topk_mask of a tensor that is split over the ranks of a group along the selected dimension.

Every rank selects its k best, all of them come together on every rank (exchange.py), and each selects the k best of
those. The first selection leaves candidates in ascending index, and they are put together in the order of the ranks:
so the lowest of equal candidates is the one with the lowest index in the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from operator import index as operator_index

import torch
import torch.distributed
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.library import register_autograd, register_fake

from .._calls import check_tensor, is_dtensor
from .._operators import DTYPES, OPS, wrapped_dim
from .._torch_internals import constant_under_compile, group_name, group_of_name, is_compiling
from .exchange import Call, Candidates, gather, refuse


def topk(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    group: ProcessGroup | None = None,
    sizes: Sequence[int] | None = None,
) -> torch.return_types.topk:
    """The k largest (or smallest) elements along a dimension that is split over the ranks of a group.

    Each rank has a shard of that dimension, in the order of the ranks. All of them call this function, and all get the
    same result: the bits that :func:`rtopk.topk` gives for the whole tensor on one device, with indices into the
    whole. Among elements equal to the kth value the lowest indices are selected. Each rank sends its k best values and
    where they stand, in one all-gather.

    Args:
        input: the shard of this rank, of a dtype that :func:`rtopk.topk` takes. Shards may differ in size, may be
            shorter than k, and may be empty.
        k: how many elements to select, from 0 to the size of all shards together.
        dim: the dimension to select along, which is the one that is split.
        largest: True for the largest elements, False for the smallest.
        sorted: True for results in order, best first; False for results in ascending index.
        group: the ranks that have the shards. None: all.
        sizes: the size of every rank's shard, if that is known. Then nothing waits for a GPU, as long as the calls of
            the group come in an order that it has seen before.

    Every rank checks what the others were called with. Where that does not fit together, all of them raise an error
    that names the argument. With `sizes` on a GPU a rank whose call was expected may raise it in a later call, once
    the arguments of the others have arrived on the host; until then its results are of no use. At least one rank
    raises the error at once.

    A call unlike the one that the ranks expect after the last ones takes a second all-gather, and waits: the first time
    that it is made, in another order than before, and where sizes change from call to call.

    The gradient of values goes to the elements that were selected, each rank's to its own. As every rank has the
    result, every rank is expected to have the whole gradient of it, as of a replicated tensor in tensor parallelism:
    where each computes another part of a loss from it, add the gradients up with an all-reduce first.

    Returns:
        A named tuple (values, indices) of torch.topk's own type.
    """
    k, dim, sizes, name = _checked("topk", input, k, dim, largest, sorted, group, sizes)
    values, indices, _ = _topk_of_shards(input, k, dim, largest, sorted, sizes, name)
    return torch.return_types.topk((values, indices))


def maxk(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    *,
    group: ProcessGroup | None = None,
    sizes: Sequence[int] | None = None,
) -> Tensor:
    """The shard of this rank with everything but the k largest (or smallest) elements of all shards set to zero.

    It is this rank's part of what :func:`rtopk.maxk` gives for the whole tensor, bit for bit. Only values are sent. The
    gradient goes to the elements that were kept, which needs no other rank. The arguments are those of :func:`topk`.
    """
    k, dim, sizes, name = _checked("maxk", input, k, dim, largest, True, group, sizes)
    return _kept_of_shards(input, k, dim, largest, sizes, name, "maxk")[0]


def topk_mask(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    *,
    group: ProcessGroup | None = None,
    sizes: Sequence[int] | None = None,
) -> Tensor:
    """A boolean tensor for the shard of this rank that is True where :func:`topk` would select.

    The arguments are those of :func:`topk`.
    """
    k, dim, sizes, name = _checked("topk_mask", input, k, dim, largest, True, group, sizes)
    return _kept_of_shards(input.detach(), k, dim, largest, sizes, name, "topk_mask")[0]


# ---- Arguments ----


def _checked(function, input, k, dim, largest, sorted, group, sizes):
    """k, dim counted from 0, sizes as a list, and the name of the group. Where they are wrong on this rank alone the
    others would wait for it, so it tells them first."""
    name = _member(group)
    try:
        check_tensor(function, input)
        if is_dtensor(input):
            raise TypeError(f"input is a DTensor; accepted: the shard of this rank. rtopk.{function} takes DTensors.")
        if input.dtype not in DTYPES:
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            raise TypeError(f"input is {input.dtype}; accepted: {names}")
        if input.layout is not torch.strided:
            raise TypeError(f"input has the layout {input.layout}; accepted: torch.strided")
        if input.dim() == 0:
            raise ValueError("input has no dimensions; accepted: one or more, of which one is split over the ranks")
        k, dim = _integer("k", k), wrapped_dim(input, _integer("dim", dim))
        if not 0 <= k < 2**63:
            raise ValueError(f"k is {k}; accepted: 0 to the size of all shards together")
        for argument, value in (("largest", largest), ("sorted", sorted)):
            if not isinstance(value, bool):
                raise TypeError(f"{argument} is {value!r}; accepted: True or False")
        return k, dim, _checked_sizes(sizes, input.shape[dim], name), name
    except Exception:
        if not is_compiling():
            refuse(input.device if isinstance(input, Tensor) else torch.device("cpu"), group_of_name(name))
        raise


def _integer(name, value):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; accepted: an integer")
    return operator_index(value)


def _checked_sizes(sizes, own, name):
    if sizes is None:
        return None
    sizes, (ranks, rank) = [_integer("sizes", size) for size in sizes], _place(name)
    if len(sizes) != ranks or any(size < 0 for size in sizes) or sizes[rank] != own:
        raise ValueError(f"sizes is {sizes}; accepted: a size for each of {ranks} ranks, {own} for rank {rank}")
    return sizes


@constant_under_compile
def _member(group):
    """The name of the group, which this rank must belong to."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        raise RuntimeError("torch.distributed has no process group; call torch.distributed.init_process_group() first")
    group = torch.distributed.group.WORLD if group is None else group
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"group is {group!r}; accepted: a process group with this rank in it, or None for all ranks")
    return group_name(group)


@constant_under_compile
def _place(name):
    """How many ranks the group has, and which of them this one is."""
    group = group_of_name(name)
    return group.size(), group.rank()


# ---- The operators ----
#
# To torch.compile each is one step of a graph, whatever it sends. torch.library.custom_op would import all of
# torch.compile at the first call.

_library = torch.library.Library("rtopk", "FRAGMENT")


def _operator(schema):
    """Makes an operator of the function, for every device."""
    name = schema.split("(")[0]

    def define(function):
        _library.define(schema)
        _library.impl(name, function, "CompositeExplicitAutograd")
        return getattr(OPS, name).default

    return define


@_operator(
    "topk_of_shards(Tensor input, int k, int dim, bool largest, bool sorted, int[]? sizes, str group)"
    " -> (Tensor, Tensor, Tensor)"
)
def _topk_of_shards(input, k, dim, largest, sorted, sizes, group):
    """Values, their indices in the whole, and the index that the shard of this rank begins at."""
    _, _, candidates = _gathered("topk", input, k, dim, largest, sorted, sizes, group)
    values, places = _best(candidates, k, largest, sorted)
    starts = [0, *accumulate(candidates.sizes)]
    indices = _picked(candidates, places).add_(_starts_at(places, candidates, starts))
    first = torch.full((), starts[group_of_name(group).rank()], dtype=torch.int64, device=input.device)
    return _along(values, input, dim), _along(indices, input, dim), first


def _picked(candidates, places):
    """The indices in their shards of the candidates at `places`, int64."""
    indices = candidates.indices
    dtype = indices.dtype
    indices = indices.view(torch.int16) if dtype is torch.uint16 else indices  # torch cannot gather uint16
    return _side_by_side(indices, candidates.counts).gather(1, places).view(dtype).to(torch.int64)


def _starts_at(places, candidates, starts):
    """The index in the whole at which the shard begins that each of the candidates at `places` is from."""
    counts, sizes = candidates.counts, candidates.sizes
    if len(set(sizes)) == 1:
        return places // max(counts[0], 1) * sizes[0]
    shards = zip(counts, starts, strict=False)
    return torch.cat([places.new_full((count,), start) for count, start in shards]).take(places)


@register_fake("rtopk::topk_of_shards")
def _fake_topk(input, k, dim, largest, sorted, sizes, group):
    shape = list(input.shape)
    shape[dim] = k
    index = input.new_empty(shape, dtype=torch.int64)
    return input.new_empty(shape), index, input.new_empty((), dtype=torch.int64)


def _save_topk(ctx, inputs, output):
    ctx.shape, ctx.dim = inputs[0].shape, inputs[2]
    ctx.save_for_backward(*output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _backward_topk(ctx, grad, *_):
    indices, first = ctx.saved_tensors
    grad = None if grad is None else _scattered(grad, indices - first, ctx.shape, ctx.dim)
    return grad, *(None,) * 6


register_autograd("rtopk::topk_of_shards", _backward_topk, setup_context=_save_topk)


@_operator(
    "kept_of_shards(Tensor input, int k, int dim, bool largest, int[]? sizes, str group, str function)"
    " -> (Tensor, Tensor, Tensor)"
)
def _kept_of_shards(input, k, dim, largest, sizes, group, function):
    """What maxk() or topk_mask() gives for the shard of this rank, the indices of its candidates, and which of them are
    among the best of all."""
    values, indices, candidates = _gathered(function, input, k, dim, largest, True, sizes, group)
    _, places = _best(candidates, k, largest, sorted=False)
    selected = torch.zeros(len(places), sum(candidates.counts), dtype=torch.bool, device=places.device)
    # The candidates of this rank lie side by side among all.
    before = sum(candidates.counts[: group_of_name(group).rank()])
    kept = selected.scatter_(1, places, True).narrow(1, before, indices.shape[1]).contiguous()
    # As bits, since torch may make all NaN the same one.
    bits = values.view(_BITS[values.element_size()])
    written = bits * kept if function == "maxk" else kept
    result = written.new_zeros(len(written), input.shape[dim]).scatter_(1, indices, written)
    result = result.view(input.dtype) if function == "maxk" else result
    return tuple(_along(each, input, dim) for each in (result, indices, kept))


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@register_fake("rtopk::kept_of_shards")
def _fake_kept(input, k, dim, largest, sizes, group, function):
    shape = list(input.shape)
    shape[dim] = min(k, shape[dim])
    dtype = input.dtype if function == "maxk" else torch.bool
    indices, kept = (input.new_empty(shape, dtype=each) for each in (torch.int64, torch.bool))
    return torch.empty(input.shape, dtype=dtype, device=input.device), indices, kept


def _save_kept(ctx, inputs, output):
    ctx.shape, ctx.dim = inputs[0].shape, inputs[2]
    ctx.save_for_backward(*output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _backward_kept(ctx, grad, *_):
    if grad is not None:
        indices, kept = ctx.saved_tensors
        grad = grad.new_zeros(ctx.shape).scatter(ctx.dim, indices, torch.where(kept, grad.gather(ctx.dim, indices), 0))
    return grad, *(None,) * 6


register_autograd("rtopk::kept_of_shards", _backward_kept, setup_context=_save_kept)


def _gathered(function, input, k, dim, largest, sorted, sizes, group) -> tuple[Tensor, Tensor, Candidates]:
    """Values and indices of this rank's candidates, (rows, up to k) each, and the candidates of all ranks."""
    size, shape = input.shape[dim], (*input.shape[:dim], *input.shape[dim + 1 :])
    ranks = group_of_name(group)
    try:
        best = OPS.topk.default(input, min(k, size), dim, largest, False)  # in ascending index
    except Exception:  # no memory, say
        refuse(input.device, ranks)
        raise
    values, indices = (_as_rows(each, dim) for each in best)
    call = Call(function, input.dtype, shape, dim, k, largest, sorted)
    return values, indices, gather(call, size, values, indices, ranks, sizes)


def _best(candidates, k, largest, sorted):
    """Values and places of the k best among the candidates of all ranks, (rows, k) each."""
    return OPS.topk.default(_side_by_side(candidates.values, candidates.counts), k, 1, largest, sorted)


def _side_by_side(parts, counts):
    """(rows, all of them) from (ranks, rows, the highest count): without the places that are empty."""
    if min(counts) == max(counts):
        return parts.transpose(0, 1).reshape(parts.shape[1], sum(counts))
    return torch.cat([part[:, :count] for part, count in zip(parts, counts, strict=True)], dim=1)


def _as_rows(tensor, dim):
    """(rows, size of the dimension)."""
    last = tensor if dim == tensor.dim() - 1 else tensor.movedim(dim, -1)
    return last if last.dim() == 2 else last.reshape(prod(last.shape[:-1]), last.shape[-1])


def _along(results, input, dim):
    """Results of rows, (rows, any number), with the dimensions of the input."""
    results = results.view(*input.shape[:dim], *input.shape[dim + 1 :], results.shape[1])
    return results if dim == input.dim() - 1 else results.movedim(-1, dim).contiguous()


def _scattered(values, places, shape, dim):
    """Zeros of this shape with `values` at `places` along a dimension, without those whose place is outside."""
    # All that are outside go to an element behind the last one, which is cut off.
    size = shape[dim]
    longer = list(shape)
    longer[dim] = size + 1
    outside = (places < 0) | (places >= size)
    return values.new_zeros(longer).scatter(dim, torch.where(outside, size, places), values).narrow(dim, 0, size)
