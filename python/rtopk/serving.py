"""Sparse attention in a serving engine: functions that have FlashInfer's names and arguments.

An engine that calls flashinfer.top_k_page_table_transform or flashinfer.top_k_ragged_transform changes one import:

>>> from rtopk.serving import top_k_page_table_transform, top_k_ragged_transform

The selection is exact for rows of any length, and unique: of equal scores at the kth place those with the lowest
indices are selected, on every device and in every batch. Results are int32, in ascending index, with -1 behind those of
rows with fewer than k scores. Nothing waits for the GPU, and a captured graph may be replayed with other contents.
"""

from __future__ import annotations

import torch
from torch.overrides import handle_torch_function

from ._calls import check_tensor
from ._paged import check_out, places, topk_paged
from ._rows import check_arrays, overridden

__all__ = ["top_k_page_table_transform", "top_k_ragged_transform"]

_LARGE = 2
_INTEGERS = (torch.int32, torch.int64)


def top_k_page_table_transform(
    input: torch.Tensor,
    src_page_table: torch.Tensor,
    lengths: torch.Tensor,
    k: int,
    row_to_batch: torch.Tensor | None = None,
    deterministic: bool = False,
    tie_break: int = 0,
    dsa_graph_safe: bool = False,
    row_starts: torch.Tensor | None = None,
    page_table_row_starts: torch.Tensor | None = None,
    *,
    page_size: int = 1,
    out: torch.Tensor | None = None,
    out_raw_indices: torch.Tensor | None = None,
) -> torch.Tensor:
    """The entries of a page table for the k largest scores of every row.

    :func:`rtopk.topk_paged` with FlashInfer's arguments: out[i, j] = table[b, s + p // page_size] * page_size + p %
    page_size, where p is the jth selected index counted from row_starts[i], b is row_to_batch[i] or i, and s is
    page_table_row_starts[i], or without it row_starts[i], or 0. Where the table has no such entry, or a negative one,
    there is -1.

    Args:
        input: scores, (rows, columns).
        src_page_table: int32, (tables, pages).
        lengths: int32 or int64, the number of scores of each row.
        k: how many are selected. It may be more than the columns.
        row_to_batch: the table of each row. None: its own.
        deterministic, dsa_graph_safe: both always hold.
        tie_break: 0 or 1: lower indices. 2, higher ones, is refused.
        row_starts, page_table_row_starts: where the scores and the table of a row begin.
        page_size: scores of an entry.
        out, out_raw_indices: int32 tensors for the results, and for the indices before they are looked up.

    With `row_starts`, `page_table_row_starts` or `out_raw_indices` the selection gives indices, and the table is looked
    up after it: in all 9 operators of torch, up to 24 with every argument. They allocate intermediate results, also
    where `out` is given. All else is one step, as in :func:`rtopk.topk_paged`.

    >>> scores = torch.tensor([[1.0, 5.0, 3.0], [2.0, 1.0, 9.0]])
    >>> table = torch.tensor([[70, 71, 72], [80, 81, 82]], dtype=torch.int32)
    >>> top_k_page_table_transform(scores, table, torch.tensor([3, 1], dtype=torch.int32), 2)
    tensor([[71, 72],
            [80, -1]], dtype=torch.int32)
    """
    tensors = {"lengths": lengths, "row_to_batch": row_to_batch, "row_starts": row_starts}
    tensors["page_table_row_starts"] = page_table_row_starts
    if relevant := overridden(input, src_page_table, out, out_raw_indices, *tensors.values()):
        options = {"deterministic": deterministic, "tie_break": tie_break, "dsa_graph_safe": dsa_graph_safe}
        options |= {"page_size": page_size, "out": out, "out_raw_indices": out_raw_indices}
        del tensors["lengths"]
        return handle_torch_function(
            top_k_page_table_transform, relevant, input, src_page_table, lengths, k, **options, **tensors
        )
    _check_ties(tie_break)
    if row_starts is None and page_table_row_starts is None and out_raw_indices is None:
        return topk_paged(input, k, lengths, src_page_table, page_size, row_to_table=row_to_batch, out=out)
    check_tensor("top_k_page_table_transform", input)
    check_tensor("top_k_page_table_transform", src_page_table, "src_page_table")
    check_arrays("top_k_page_table_transform", **tensors)
    if page_size < 1:
        raise ValueError(f"page_size is {page_size}; accepted: 1 or more")
    if page_table_row_starts is None:
        if row_starts is not None and page_size != 1:
            raise ValueError(
                f"row_starts is given, page_size is {page_size} and page_table_row_starts None; accepted with pages of"
                " more than one score: both starts"
            )
        page_table_row_starts = row_starts
    _check_lookup(input, src_page_table, row_to_batch, page_table_row_starts)
    if out is not None:
        check_out(out, (input.shape[0], k), input, src_page_table)
    selection = (input, k, lengths, row_starts)
    found = _found(selection, page_table_row_starts, page_size, out_raw_indices)
    entries = _looked_up(found, src_page_table, row_to_batch, page_size)
    return entries if out is None else out.copy_(entries)


def _check_lookup(input, table, row_to_batch, starts):
    """What the kernel checks where it looks up."""
    if input.dim() != 2:
        raise RuntimeError(
            f"input has {input.dim()} dimensions; accepted with row_starts, page_table_row_starts or out_raw_indices: 2"
        )
    if table.dtype not in _INTEGERS or table.dim() != 2:
        raise RuntimeError(
            f"src_page_table is {table.dtype} with {table.dim()} dimensions; accepted: int32 or int64 with 2"
        )
    rows = input.shape[0]
    if table.numel() == 0 and rows > 0:
        raise RuntimeError("src_page_table has no elements; accepted: tables of 1 page or more")
    if row_to_batch is None and table.shape[0] < rows:
        raise RuntimeError(
            f"src_page_table has {table.shape[0]} tables; accepted without row_to_batch: {rows} or more, one for each"
            " row"
        )
    for name, array in (("row_to_batch", row_to_batch), ("page_table_row_starts", starts)):
        if array is not None and (array.dtype not in _INTEGERS or array.dim() != 1 or array.shape[0] != rows):
            raise RuntimeError(
                f"{name} is {array.dtype} of shape {list(array.shape)}; accepted: int32 or int64 of shape [{rows}]"
            )


# Each operator is a kernel to launch, which takes longer than what it does: tests/python/test_serving.py counts them.


def _found(selection, starts, page_size, raw):
    """Selected indices that count from the beginning of the table, int64, negative where there is none. Into `raw`, if
    it is given: as they count from the beginning of the row."""

    def selected(first, out):
        return places(*selection, None, first, 0, None, True, False, False, out)

    if starts is not None:
        starts = starts.to(torch.int64).contiguous()
        starts = starts if page_size == 1 else starts * page_size
    if raw is None:
        return selected(starts, None)
    input = selection[0]
    raw = selected(torch.zeros(input.shape[0], dtype=torch.int32, device=input.device), raw)
    return raw.to(torch.int64) if starts is None else (raw + starts[:, None]).masked_fill_(raw < 0, -1)


def _looked_up(found, table, row_to_batch, page_size):
    """Places in the cache; -1 where the table has no entry or a negative one."""
    pages = found if page_size == 1 else found.div(page_size, rounding_mode="floor")
    columns = pages.clamp(0, table.shape[1] - 1)
    outside = pages != columns
    if row_to_batch is None:
        entries = table.gather(1, columns)
    else:
        tables = row_to_batch.clamp(0, table.shape[0] - 1)
        outside = outside | (row_to_batch != tables)[:, None]
        entries = table[tables[:, None], columns]
    entries.masked_fill_(outside, -1)
    if page_size != 1:  # in int64, where no entry is too small to be multiplied
        entries = found.remainder(page_size).add(entries, alpha=page_size)
    return entries.clamp(min=-1).to(table.dtype)


def top_k_ragged_transform(
    input: torch.Tensor,
    offsets: torch.Tensor,
    lengths: torch.Tensor,
    k: int,
    deterministic: bool = False,
    tie_break: int = 0,
    dsa_graph_safe: bool = False,
    row_starts: torch.Tensor | None = None,
) -> torch.Tensor:
    """The k largest scores of every row, as places in a flat cache: offsets[i] + the index in the row.

    Args:
        input: scores, (rows, columns).
        offsets: int32, the place of each row's first score.
        lengths: int32 or int64, the number of scores of each row.
        k: how many are selected. It may be more than the columns.
        deterministic, dsa_graph_safe: both always hold.
        tie_break: 0 or 1: lower indices. 2, higher ones, is refused.
        row_starts: where the scores of a row begin; indices count from there.

    >>> offsets, lengths = torch.tensor([100, 200], dtype=torch.int32), torch.tensor([3, 1], dtype=torch.int32)
    >>> top_k_ragged_transform(torch.tensor([[1.0, 5.0, 3.0], [2.0, 1.0, 9.0]]), offsets, lengths, 2)
    tensor([[101, 102],
            [200,  -1]], dtype=torch.int32)
    """
    if relevant := overridden(input, offsets, lengths, row_starts):
        options = {"deterministic": deterministic, "tie_break": tie_break, "dsa_graph_safe": dsa_graph_safe}
        return handle_torch_function(
            top_k_ragged_transform, relevant, input, offsets, lengths, k, **options, row_starts=row_starts
        )
    check_tensor("top_k_ragged_transform", input)
    check_tensor("top_k_ragged_transform", offsets, "offsets")
    check_arrays("top_k_ragged_transform", lengths=lengths, row_starts=row_starts)
    _check_ties(tie_break)
    return places(input, k, lengths, row_starts, None, offsets, 0, None, True, False, False, None)


def _check_ties(tie_break):
    if int(tie_break) == _LARGE:
        raise ValueError("tie_break is 2; accepted: 0 or 1, since lower indices are selected among equal scores")
