"""General rows by plain loops over a stable sort: where a row begins and ends, what is selected, what is behind it."""

import numpy as np

from oracle import bits, order


def losing_value(dtype, mode, magnitude):
    """What loses against every element."""
    largest = mode == "largest"
    if dtype == np.int32:
        limits = np.iinfo(np.int32)
        return (0 if magnitude else limits.min) if largest else (limits.min if magnitude else limits.max)
    return (0.0 if magnitude else -np.inf) if largest else np.nan


def _at(array, row, otherwise):
    return otherwise if array is None else int(np.asarray(array).reshape(-1)[row])


def _clamped(number, least, most):
    return max(least, min(number, most))


class Expected:
    """values, indices, threshold and the mask of rows along the axis of `a`, or with offsets of segments of it."""

    def __init__(
        self, a, k, lengths=None, starts=None, row_k=None, ids=None, offsets=None, max_length=None, axis=-1,
        mode="largest", sorted=True, magnitude=False,
    ):  # fmt: skip
        a = np.asarray(a)
        a = a.astype(a.dtype.newbyteorder("="))
        whole = np.moveaxis(a, axis, -1)
        flat = whole.reshape(int(np.prod(whole.shape[:-1])), whole.shape[-1])
        if ids is not None:
            ids = np.moveaxis(ids if np.ndim(ids) == a.ndim else _beside(ids, a, axis), axis, -1).reshape(flat.shape)
        rows = len(flat) if offsets is None else len(offsets) - 1
        losing = np.array(losing_value(a.dtype, mode, magnitude)).astype(a.dtype)
        values = np.full((rows, k), losing)
        indices = np.full((rows, k), -1, np.int64)
        threshold = np.full(rows, losing)
        mask = np.zeros(flat.shape, bool)
        for r in range(rows):
            row = flat[r] if offsets is None else flat[0]
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
            best_first = order(np.abs(part.astype(np.float64)) if magnitude else part, -1, mode, "first")[:count]
            places = best_first if sorted else np.sort(best_first)
            values[r, :count] = part[places]
            indices[r, :count] = places + start
            mask[0 if offsets is not None else r, places + start] = True
            if ids is not None:
                indices[r, :count] = ids[0 if offsets is not None else r][places + start]
            if length >= wanted:
                threshold[r] = part[best_first[-1]]
        self.values, self.indices, self.threshold, self.mask = values, indices, threshold, mask
        if offsets is None:
            others = whole.shape[:-1]
            self.threshold = threshold.reshape(others)
            self.values = np.moveaxis(values.reshape(*others, k), -1, axis)
            self.indices = np.moveaxis(indices.reshape(*others, k), -1, axis)
            self.mask = np.moveaxis(mask.reshape(whole.shape), -1, axis)


def _beside(ids, a, axis):
    """One for each place along the axis, beside every element."""
    shape = [1] * a.ndim
    shape[axis] = a.shape[axis]
    return np.broadcast_to(np.reshape(ids, shape), a.shape)


def expect(result, expected, index_dtype=np.int64):
    """Compares all results with those of the oracle, bit by bit."""
    values, indices, *threshold = map(np.asarray, result)
    assert values.dtype == expected.values.dtype and indices.dtype == np.dtype(index_dtype)
    np.testing.assert_array_equal(indices, expected.indices)
    np.testing.assert_array_equal(bits(values), bits(expected.values))
    for each in threshold:
        assert each.shape == expected.threshold.shape
        np.testing.assert_array_equal(bits(each), bits(expected.threshold))
