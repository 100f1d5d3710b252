"""The contract of rtopk.top_k in a few lines of NumPy: a stable sort of whole rows."""

import numpy as np


def order(a, axis, mode, nan):
    """Indices along the axis, best first."""
    values = np.moveaxis(a, axis, -1).astype(np.float64)
    is_nan = np.isnan(values)
    numbers = np.where(is_nan, 0.0, values)
    first = mode == "largest" and nan == "first"
    # The last key counts most; equal elements keep their order.
    places = np.lexsort((-numbers if mode == "largest" else numbers, ~is_nan if first else is_nan))
    return np.moveaxis(places, -1, axis)


def indices(a, k, axis=-1, mode="largest", nan="first", sorted=True):
    places = np.take(order(a, axis, mode, nan), range(k), axis=axis)
    return places if sorted else np.sort(places, axis=axis)


def mask(a, k, axis=-1, mode="largest", nan="first"):
    result = np.zeros(a.shape, bool)
    np.put_along_axis(result, indices(a, k, axis, mode, nan), True, axis)
    return result


def bits(a):
    """For comparisons that tell -0 from 0, and one NaN from another."""
    return np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")


def check(top_k, a, k, axis=-1, mode="largest", nan="first", sorted=True, **options):
    """Calls a function like rtopk.top_k, and checks all of its results."""
    values, places = top_k(a, k, axis=axis, mode=mode, nan=nan, sorted=sorted, **options)
    expected = indices(a, k, axis, mode, nan, sorted)
    assert places.dtype == np.dtype(options.get("index_dtype") or np.int64)
    np.testing.assert_array_equal(places, expected)
    assert values.dtype == a.dtype.newbyteorder("=")
    native = a.astype(a.dtype.newbyteorder("="))
    np.testing.assert_array_equal(bits(values), bits(np.take_along_axis(native, expected, axis)))


def rows(kind, shape, dtype, seed=0):
    """Arrays that are easy or hard to select from."""
    random = np.random.default_rng(seed)
    if kind == "ties":
        return random.integers(-2, 3, shape).astype(dtype)
    if kind == "equal":
        return np.full(shape, 3, dtype)
    a = (random.standard_normal(shape) * 100).astype(dtype)
    if np.dtype(dtype).kind == "i" or kind == "normal":
        return a
    if kind == "nan":
        signs = np.where(random.random(shape) < 0.5, -1, 1).astype(dtype)
        return np.where(random.random(shape) < 0.6, np.array(np.nan, dtype) * signs, a)
    if kind == "zeros":
        return np.where(random.random(shape) < 0.5, np.array(-0.0, dtype), np.array(0.0, dtype))
    assert kind == "infinite"
    return random.choice([np.inf, -np.inf, 0.0, np.nan, 1.0], shape).astype(dtype)


KINDS = ("normal", "ties", "equal", "nan", "zeros", "infinite")
