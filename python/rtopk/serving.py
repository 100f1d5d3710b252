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
from ._paged import places, topk_paged
from ._rows import check_arrays, overridden

__all__ = ["top_k_page_table_transform", "top_k_ragged_transform"]

_LARGE = 2


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
    up by several operators of torch after it. These allocate their results, also where `out` is given. All else is one
    step, as in :func:`rtopk.topk_paged`.

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
    if page_table_row_starts is None:
        if row_starts is not None and page_size != 1:
            raise ValueError(
                f"row_starts is given, page_size is {page_size} and page_table_row_starts None; accepted with pages of"
                " more than one score: both starts"
            )
        page_table_row_starts = row_starts
    zeros = torch.zeros(input.shape[:-1], dtype=torch.int32, device=input.device)
    raw = places(input, k, lengths, row_starts, None, zeros, 0, None, True, False, False, out_raw_indices)
    entries = _looked_up(raw, src_page_table, row_to_batch, page_table_row_starts, page_size)
    return entries if out is None else out.copy_(entries)


def _looked_up(raw, table, row_to_batch, starts, page_size):
    """Entries for indices; -1 for -1, and where the table has none or a negative one."""
    rows = torch.arange(raw.shape[0], device=raw.device) if row_to_batch is None else row_to_batch.to(torch.int64)
    pages = raw.to(torch.int64).div(page_size, rounding_mode="floor")
    if starts is not None:
        pages = pages + starts.to(torch.int64)[:, None]
    rows = rows[:, None]
    exists = (raw >= 0) & (pages >= 0) & (pages < table.shape[1]) & (rows >= 0) & (rows < table.shape[0])
    entries = table[rows.clamp(0, table.shape[0] - 1), pages.clamp(0, table.shape[1] - 1)]
    return torch.where(exists & (entries >= 0), entries * page_size + raw % page_size, -1)


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
