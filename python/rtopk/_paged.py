"""topk_paged: the places of selected elements in a paged cache."""

from __future__ import annotations

from math import prod

import torch
from torch.library import register_fake, register_vmap
from torch.overrides import handle_torch_function

from ._calls import check_tensor
from ._operators import check_writable, writing_operator
from ._rows import are_unwatched, batched, check_array, check_arrays, overridden
from ._torch_internals import SELECTION, check, in_torch_func, selection_kernel

_kernel = selection_kernel("rtopk::topk_places_out")


def topk_paged(
    scores: torch.Tensor,
    k: int,
    lengths: torch.Tensor | None,
    page_table: torch.Tensor,
    page_size: int,
    *,
    starts: torch.Tensor | None = None,
    row_k: torch.Tensor | None = None,
    row_to_table: torch.Tensor | None = None,
    largest: bool = True,
    sorted: bool = False,
    magnitude: bool = False,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """The places in a paged cache of the k largest scores of every row, in one step.

    The element at column starts[r] + j of row r is the token at place `page_table[t, j // page_size] * page_size +
    j % page_size` of the cache, where t is row_to_table[r], or r. Places are in ascending j unless `sorted`. Behind
    those of a row with fewer than k elements there is -1, and so there is for a page or a table that does not exist:
    past the end of the table, with a negative entry, or of a number that no table has.

    Args:
        scores: float32, float16, bfloat16, float64 or int32; rows as :func:`topk` takes them with `lengths`.
        k: places of a row. It may be more than the columns.
        lengths: how many scores each row has; None: all columns.
        page_table: int32, with a table in each row; elements of a table side by side. int64 for places of int64.
        page_size: tokens of a page, 1 or more.
        starts, row_k: those of :func:`topk`.
        row_to_table: the table of each row, for rows that share one. None: row r has table r.
        largest, sorted, magnitude: those of :func:`topk`.
        out: a contiguous tensor of the table's dtype for the result. With it nothing is allocated but the workspace,
            from torch's allocator, and for k beyond the columns a copy of the results, which the kernels write as wide
            as the columns.

    All of these tensors are read by the kernels. Nothing waits for the GPU, and a captured graph may be replayed with
    other scores, lengths and tables.

    Shape: scores (..., columns); lengths, starts, row_k and row_to_table (...); page_table (tables, pages); the result
    (..., k).

    >>> scores = torch.tensor([[1.0, 5.0, 3.0, 4.0], [2.0, 1.0, 9.0, 9.0]])
    >>> table = torch.tensor([[7, 2], [4, 5]], dtype=torch.int32)
    >>> rtopk.topk_paged(scores, 3, torch.tensor([4, 2]), table, page_size=2)
    tensor([[15,  4,  5],
            [ 8,  9, -1]], dtype=torch.int32)
    """
    tensors = {"lengths": lengths, "starts": starts, "row_k": row_k, "row_to_table": row_to_table}
    if relevant := overridden(scores, page_table, out, *tensors.values()):
        options = {"starts": starts, "row_k": row_k, "row_to_table": row_to_table, "largest": largest}
        options |= {"sorted": sorted, "magnitude": magnitude, "out": out}
        return handle_torch_function(topk_paged, relevant, scores, k, lengths, page_table, page_size, **options)
    check_tensor("topk_paged", scores, "scores")
    check_tensor("topk_paged", page_table, "page_table")
    check_arrays("topk_paged", **tensors)
    if page_size < 1:
        raise ValueError(f"page_size is {page_size}; accepted: 1 or more")
    return places(
        scores, k, lengths, starts, row_k, page_table, page_size, row_to_table, largest, sorted, magnitude, out
    )


def places(scores, k, lengths, starts, row_k, map, page_size, table_of, largest, sorted, magnitude, out):
    """The operator, with a tensor for its result, and k of any size."""
    scores = scores.detach()
    if scores.dim() == 0:
        raise RuntimeError("scores has 0 dimensions; accepted: 1 or more, scores along the last")
    if k < 0:
        raise RuntimeError(f"k is {k}; accepted: 0 or more")
    if map.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(f"{'page_table' if page_size else 'offsets'} is {map.dtype}; accepted: int32 or int64")
    shape = (*scores.shape[:-1], k)
    given = out is not None
    cols = scores.shape[-1]
    arguments = (lengths, starts, row_k, map, page_size, table_of, largest, sorted, magnitude)
    if given:
        check_out(out, shape, scores, map)
    else:
        out = _like_any_of(scores, *arguments).new_empty(shape, dtype=map.dtype)
    if k <= cols:
        _write(scores, arguments, out, given)
        return out
    # No row has more elements than the matrix has columns.
    fewer = out.new_empty((*shape[:-1], cols))
    _write(scores, arguments, fewer, False)
    out[..., :cols] = fewer
    out[..., cols:] = -1
    return out


def _like_any_of(scores, *arguments):
    """A tensor whose new_empty() has a part for each of those that vmap divides any of these tensors into."""
    tensors = [each for each in (scores, *arguments) if isinstance(each, torch.Tensor)]
    return sum(each.new_zeros(()) for each in tensors) if in_torch_func(*tensors) else scores


def check_out(out, shape, scores, map):
    if not isinstance(out, torch.Tensor):
        raise TypeError(f"argument 'out' is {type(out).__name__}; accepted: a tensor of the table's dtype")
    if out.dtype != map.dtype or tuple(out.shape) != tuple(shape) or out.device != scores.device:
        raise RuntimeError(
            f"out is {out.dtype} of shape {list(out.shape)} on {out.device}; accepted: {map.dtype} of shape"
            f" {list(shape)} on {scores.device}"
        )


def _write(scores, arguments, out, given):
    """Writes into `out`; `given`: a tensor that others may know."""
    if not are_unwatched(scores, out, *arguments):
        _write_places(scores, *arguments, out)
        return
    # Through the dispatcher a kernel in Python would do the same, which takes longer than the selection.
    if given:
        check_writable("rtopk::topk_places_out", (scores, out), (out,))
    _kernel(SELECTION, scores, *arguments, out)
    if given:
        torch.autograd.graph.increment_version(out)


# ---- The operator ----


@register_fake("rtopk::topk_places_out")
def _fake_topk_places_out(
    input, lengths, starts, row_k, map, page_size, table_of, largest, sorted, magnitude, places
):  # fmt: skip
    rows = input.shape[:-1]
    arrays = {"lengths": lengths, "starts": starts, "row_k": row_k, "row_to_table": table_of}
    for name, array in arrays.items():
        check_array(name, array, rows)
    check(places.dim() == input.dim(), lambda: f"out has {places.dim()} dimensions; accepted: {input.dim()}")
    check(places.shape[-1] <= input.shape[-1], lambda: f"k is {places.shape[-1]}; accepted: up to {input.shape[-1]}")
    check(places.dtype in (torch.int32, torch.int64), lambda: f"out is {places.dtype}; accepted: int32 or int64")
    if not isinstance(page_size, int) or page_size != 0:
        check(map.dim() == 2, lambda: f"page_table has {map.dim()} dimensions; accepted: 2")
    else:
        check_array("offsets", map, rows)


_write_places = writing_operator("topk_places_out", written=(10,))


@register_vmap("rtopk::topk_places_out")
def _vmap(
    info, in_dims, scores, lengths, starts, row_k, map, page_size, table_of, largest, sorted, magnitude, places
):  # fmt: skip
    """The vmapped dimension is more rows. Tables of its parts go below each other."""
    if in_dims[10] is None:
        raise RuntimeError("out is the same for all of vmap; accepted: None, or an out with a part for each")
    tensors = {0: scores, 1: lengths, 2: starts, 3: row_k, 6: table_of}
    scores, lengths, starts, row_k, table_of = (
        batched(tensor, in_dims[place], info.batch_size) for place, tensor in tensors.items()
    )
    if page_size == 0:
        map = batched(map, in_dims[4], info.batch_size)
    else:
        map, table_of = _tables_of_all(map, in_dims[4], table_of, scores)
    to = places.movedim(in_dims[10], 0)
    found = torch.empty_like(to, memory_format=torch.contiguous_format)
    _write_places(scores, lengths, starts, row_k, map, page_size, table_of, largest, sorted, magnitude, found)
    to.copy_(found)
    return None, None


def _tables_of_all(map, in_dim, table_of, scores):
    """One page table for all parts of vmap, and the table of each of their rows."""
    size, *rows = scores.shape[:-1]
    count, device = prod(rows), scores.device
    if in_dim is not None:
        map = batched(map, in_dim, size)
    tables = map.shape[0 if in_dim is None else 1]
    if table_of is None:
        if tables < count:
            raise RuntimeError(f"page_table has {tables} tables; accepted without row_to_table: {count} or more")
        table_of = torch.arange(count, device=device).view(rows).expand(size, *rows)
    if in_dim is not None:
        first = (torch.arange(size, device=device) * tables).view(-1, *[1] * len(rows))
        table_of = torch.where((table_of >= 0) & (table_of < tables), table_of + first, -1)
        map = map.flatten(0, 1)
    return map, table_of.contiguous()
