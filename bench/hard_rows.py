"""Data that is hard for a selection, and the count of the rows that a selection with lengths has wrong.

A result is a matrix of columns, k for each row: -1 behind the elements that a row has, OUTSIDE for what is no column of
the row. A row is wrong if its columns are not as many as they should be, or not distinct, or if their values are not
those of the largest elements. Which of equal values are chosen is counted separately.
"""

import math

import torch

OUTSIDE = -2
# Elements that are sorted at a time: for rows beside each other, a sort needs several times their memory.
SORTED_ELEMENTS = 1 << 26


def narrow(normal):
    """Uniform in [1, 1 + 2^-10), so that all elements have the same leading bits. In bfloat16, where that is one value,
    there are eight."""
    return normal.uniform_().mul_(max(2.0**-10, 8 * torch.finfo(normal.dtype).eps)).add_(1)


def infinities(normal):
    """A tenth of the elements is infinite, of either sign."""
    chosen = torch.rand_like(normal, dtype=torch.float32) < 0.1
    return torch.where(chosen, torch.copysign(torch.full_like(normal, math.inf), normal), normal)


# Functions that turn normal numbers into others, and may overwrite their argument. None of them makes NaN or -0, which
# libraries rank in different ways.
DATA = {
    "normal": lambda normal: normal,
    "all_equal": lambda normal: normal.fill_(1.25),
    "narrow": narrow,
    "few_levels": lambda normal: normal.mul_(2).round_().add_(0.0),
    "ascending": lambda normal: normal.sort(dim=1).values,
    "descending": lambda normal: normal.sort(dim=1, descending=True).values,
    "softmax": lambda normal: torch.softmax(normal.mul_(4), dim=1),
    "infinities": infinities,
}


def hard_matrix(data, rows, cols, dtype, lengths):
    """What lies behind a row's length would always be selected."""
    matrix = DATA[data](torch.randn(rows, cols, device=lengths.device).to(dtype)).contiguous()
    return matrix.masked_fill_(behind(matrix, lengths), math.inf)


def hard_lengths(rows, cols, k, device):
    """Random, and those around k and at both ends."""
    lengths = torch.randint(0, cols + 1, (rows,), dtype=torch.int32, device=device)
    ends = torch.tensor([0, 1, k - 1, k, k + 1, cols - 1, cols], dtype=torch.int32, device=device)[:rows]
    lengths[: len(ends)] = ends.clamp(0, cols)
    return lengths


def behind(matrix, lengths):
    return torch.arange(matrix.shape[1], device=matrix.device) >= lengths[:, None]


def columns_of_places(places, table, page_size):
    """The columns that places in a paged cache stand for. No page is in the table twice."""
    rows, pages = table.shape
    places, entries = places.long(), torch.arange(rows * pages, device=table.device)
    entry_of = torch.full((int(table.max()) + 1,), rows * pages, device=table.device)
    entry_of[table.flatten().long()] = entries
    page = places // page_size
    entry = entry_of[page.clamp(0, len(entry_of) - 1)]
    of_row = (entry // pages == torch.arange(rows, device=table.device)[:, None]) & (page < len(entry_of))
    columns = entry % pages * page_size + places % page_size
    return _padded(places, of_row & (places >= 0), columns)


def columns_of_shifted(indices, shifts):
    columns = indices.long() - shifts.long()[:, None]
    return _padded(indices.long(), (columns >= 0) & (indices >= 0), columns)


def _padded(written, good, columns):
    return torch.where(good, columns, torch.where(written == -1, -1, OUTSIDE))


def lowest_first(matrix, lengths, k):
    """The columns of the k largest elements of each row, the lowest ones of equal values; -1 behind them."""
    chunk = max(1, SORTED_ELEMENTS // matrix.shape[1])
    parts = []
    for rows, ends in zip(matrix.split(chunk), lengths.split(chunk), strict=True):
        # The sort is stable, so what lies behind the length comes after all that is in the row.
        inside = rows.masked_fill(behind(rows, ends), -math.inf)
        parts.append(inside.sort(dim=1, descending=True, stable=True).indices[:, :k].clone())
    columns = torch.cat(parts)
    return columns.masked_fill_(behind(columns, lengths), -1)


def counts(matrix, lengths, expected, first, second):
    """What is wrong with a result. `expected` is from lowest_first(). `first` and `second` are the columns of two runs
    of the same call, both of which have to be right."""
    wrong = _wrong(matrix, lengths, expected, first) | _wrong(matrix, lengths, expected, second)
    sets = [x.sort(dim=1).values for x in (first, second, expected)]
    return {
        "wrong": int(wrong.sum()),
        # No errors by themselves: any of the ties may be taken, in any order.
        "other_ties": int(((sets[0] != sets[2]).any(dim=1) & ~wrong).sum()),
        "changed_sets": int((sets[0] != sets[1]).any(dim=1).sum()),
        "changed_order": int((first != second).any(dim=1).sum()),
    }


def _wrong(matrix, lengths, expected, columns):
    wrong = ((columns == -1) != (expected == -1)).any(dim=1)
    wrong |= ((columns < -1) | (columns >= lengths[:, None])).any(dim=1)
    ordered = columns.sort(dim=1).values
    wrong |= ((ordered.diff(dim=1) == 0) & (ordered[:, 1:] >= 0)).any(dim=1)
    return wrong | (_values(matrix, columns) != _values(matrix, expected)).any(dim=1)


def _values(matrix, columns):
    values = matrix.gather(1, columns.clamp(0, matrix.shape[1] - 1))
    return values.masked_fill(columns < 0, -math.inf).sort(dim=1, descending=True).values
