"""topk, maxk and topk_mask of a DTensor: each rank selects from its part, and over ranks where rows are split.

Local parts go through the functions of the package as plain tensors, so gradients are theirs, too.

There is no sharding rule (torch.distributed.tensor.experimental.register_sharding). A rule lists the placements that
the inputs of an operator are moved to, and those of its outputs; between them the same operator runs on the part of
each rank, which learns neither that its rows are a part nor of what group. Where rows are split that leaves one way:
to gather all columns. The candidates of the ranks come together after the first selection, which no rule can say.

For rows that are whole on a rank a rule of a dozen lines does, and can refuse split rows in words. With PyTorch 2.13 it
places the results of topk, maxk, topk_mask and compact as here. It is left out since it would be a second way with
less: scatter makes the gradients of topk and compact, and by PyTorch's own rule for it every rank gets the whole. And a
rule has to be registered before the first call of an operator; to import what does that takes a second, in every
process that imports rtopk. It would add that torch.ops.rtopk itself takes DTensors.
"""

from __future__ import annotations

from math import prod

import torch

from ._operators import wrapped_dim
from ._rules import SEARCHES
from ._torch_internals import is_compiling

# What these functions take for plain tensors alone, and what for whole rows alone.
_NEVER = ("out", "lengths", "starts", "row_k", "ids", "return_threshold")
_FOR_WHOLE_ROWS = ("max_iter", "epsilon", "search", "magnitude")


def of_dtensor(function, input, k, dim, *order, **options):
    """The result of topk(), maxk() or topk_mask(), whose arguments these are, for a DTensor: DTensors of the same mesh.

    If no rank has but a part of the selected dimension, results are placed as the input is. If it is split over ranks,
    the selection is exact over all of them: values and indices are then replicated there, and results as large as the
    input stay split. What is partial is summed up first. A dimension that is split over several dimensions of the mesh
    is gathered over all but the first of them.
    """
    dim = wrapped_dim(input, dim)
    input, axis = _selectable(input, dim)
    mesh, placements = input.device_mesh, list(input.placements)
    if axis is None:
        _refuse(_NEVER, options, "for a DTensor")
        results = function(input.to_local(), k, dim, *order, **options)
    else:
        results = _over_shards(function, input, axis, k, dim, order, options)
    shape = list(input.shape)
    if not isinstance(results, tuple):
        return _placed(results, mesh, placements, shape)
    shape[dim] = k
    if axis is not None:
        from torch.distributed.tensor import Replicate

        placements[axis] = Replicate()
        results = (results[0], results[1].to(options["index_dtype"]))
    return torch.return_types.topk([_placed(each, mesh, placements, shape) for each in results])


def _refuse(names, options, where):
    for name in names:
        value = options.get(name)
        if isinstance(value, torch.Tensor) or (value and value != SEARCHES[0]):
            raise ValueError(f"{name} is given {where}; accepted: without it")


def _selectable(input, dim):
    """The tensor with a shard or a copy on every rank, and the dimension of its mesh that splits `dim`, if one does."""
    from torch.distributed.tensor import Replicate, Shard

    placements, axis = [], None
    for place, placement in enumerate(input.placements):
        # There are subclasses of Shard, whose parts are not in the order of the ranks.
        kept = type(placement) is Shard
        if kept and placement.dim == dim:
            kept = axis is None
            axis = place if kept else axis
        placements.append(placement if kept else Replicate())
    return (input if placements == list(input.placements) else input.redistribute(placements=placements)), axis


def _over_shards(function, input, axis, k, dim, order, options):
    from .distributed import exchange, shards

    group = input.device_mesh.get_group(axis)
    try:
        _refuse(_NEVER, options, "for a DTensor")
        _refuse(_FOR_WHOLE_ROWS, options, f"for a DTensor that is split along dimension {dim}, the selected one")
    except ValueError:
        if not is_compiling():
            exchange.refuse(input.device, group)
        raise
    # As torch.chunk divides it.
    size, ranks = input.shape[dim], input.device_mesh.size(axis)
    longest = -(-size // ranks)
    sizes = [max(min(longest, size - rank * longest), 0) for rank in range(ranks)]
    over_shards = getattr(shards, function.__name__)
    return over_shards(input.to_local(), k, dim, *order, group=group, sizes=sizes)


def _placed(local, mesh, placements, shape):
    """The DTensor of this shape of which `local` is the part of this rank."""
    from torch.distributed.tensor import DTensor

    strides = [prod(shape[place + 1 :]) for place in range(len(shape))]
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=torch.Size(shape), stride=tuple(strides))
