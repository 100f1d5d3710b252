"""General rows by plain loops: where a row begins and ends, what is selected from it, and what stands behind that."""

import torch

import rtopk
from oracle import looked_up, same_bits, sorted_topk

_GREATEST = torch.iinfo(torch.int32)


def losing_value(dtype, largest, magnitude):
    """What loses against every element."""
    if dtype == torch.int32:
        if magnitude:
            return 0 if largest else _GREATEST.min
        return _GREATEST.min if largest else _GREATEST.max
    if not largest:
        return float("nan")
    return 0.0 if magnitude else -float("inf")


def _at(array, row, otherwise):
    return otherwise if array is None else int(array[row])


def _clamped(number, least, most):
    return max(least, min(number, most))


def select_row(row, k, largest, sorted, magnitude):
    """Places in a row, in the order of the results, and the place of the worst."""
    key = row
    if magnitude:
        key = row.to(torch.int64).abs() if row.dtype == torch.int32 else row.abs()
    best_first = sorted_topk(key, k, -1, largest)[1]
    return best_first if sorted else best_first.sort().values, best_first[-1:]


class Expected:
    """values, indices and threshold of rows of x, which has two dimensions, or one with offsets."""

    def __init__(
        self, x, k, lengths=None, starts=None, offsets=None, row_k=None, ids=None, largest=True, sorted=True,
        magnitude=False, max_length=None,
    ):  # fmt: skip
        device, x = x.device, x.detach().cpu()
        rows = len(x) if offsets is None else len(offsets) - 1
        losing = torch.tensor(losing_value(x.dtype, largest, magnitude), dtype=x.dtype)
        self.values = losing.expand(rows, k).clone()
        self.indices = torch.full((rows, k), -1, dtype=torch.int64)
        self.threshold = losing.expand(rows).clone()
        self.places = self.indices.clone()  # columns, or places in the flat input, whatever the ids
        self.in_row = self.indices.clone()  # counted from the beginning of the row
        for r in range(rows):
            row = x[r] if offsets is None else x
            end = len(row)
            if offsets is None:
                start = _clamped(_at(starts, r, 0), 0, end)
                length = _clamped(_at(lengths, r, end), 0, end - start)
            else:
                start = _clamped(int(offsets[r]), 0, end)
                length = _clamped(int(offsets[r + 1]), start, end) - start
                length = length if max_length is None else min(length, max(max_length, k))
            wanted = _clamped(_at(row_k, r, k), 0, k)
            count = min(wanted, length)
            if count == 0:
                continue
            part = row[start : start + length]
            chosen, worst = select_row(part, count, largest, sorted, magnitude)
            self.values[r, :count] = looked_up(part, 0, chosen)
            self.in_row[r, :count] = chosen
            self.places[r, :count] = chosen + start
            own_ids = None if ids is None else (ids[r] if offsets is None else ids).cpu()
            self.indices[r, :count] = chosen + start if ids is None else own_ids[chosen + start].to(torch.int64)
            if length >= wanted:
                self.threshold[r] = looked_up(part, 0, worst)[0]
        for name in ("values", "indices", "threshold", "places", "in_row"):
            setattr(self, name, getattr(self, name).to(device))

    def mask(self, x):
        places = torch.where(self.places < 0, x.shape[-1], self.places)
        wider = torch.zeros(len(x), x.shape[-1] + 1, dtype=torch.bool, device=x.device)
        return wider.scatter(1, places, True)[:, :-1]


def expect(result, expected, index_dtype=torch.int64):
    assert same_bits(result.values, expected.values)
    assert result.indices.dtype == index_dtype and torch.equal(result.indices.long(), expected.indices)
    if isinstance(result, rtopk.TopKThreshold):
        assert same_bits(result.threshold, expected.threshold)


def numbers(values, dtype=torch.int64, device="cpu"):
    return torch.tensor(values, dtype=dtype, device=device)
