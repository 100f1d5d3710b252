"""Integers of every width, and bool: the same elements as a stable sort has, in the caller's type."""

import sys

import numpy as np
import pytest

import rtopk
from rtopk._arrays import integers, mapped
from test_kinds import Producer, Space, Spaced

DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
OTHER_ORDER = ">" if sys.byteorder == "little" else "<"


def draws(dtype, shape, seed=0):
    """Few elements with many ties; the limits of int32, of float64's integers, and of the type among others."""
    random, dtype = np.random.default_rng(seed), np.dtype(dtype)
    yield random.integers(0, 2 if dtype.kind == "b" else 6, shape).astype(dtype)
    if dtype.kind == "b":
        return
    limits = np.iinfo(dtype)
    for most in ((1 << 31) - 1, 1 << 31, 1 << 53, (1 << 53) + 1, limits.max):
        high = min(most, limits.max)
        low = max(-high - (most == limits.max), limits.min)
        a = random.integers(low, high, shape, dtype, endpoint=True)
        edges = np.array([low, low + 1, 0, 1, high - 1, high], dtype)
        yield np.where(random.random(shape) < 0.4, random.choice(edges, shape), a)


def order(a, axis, mode):
    """By a stable sort of integers: their complements are in the reverse order."""
    return np.argsort(~a if mode == "largest" else a, axis=axis, kind="stable")


def same(found, expected):
    assert type(found) is np.ndarray and found.dtype == expected.dtype and found.dtype.isnative
    np.testing.assert_array_equal(found, expected)


def check(a, k, axis, mode, **options):
    """All forms of one selection, of an array or of what the same array is in another place."""
    options |= {"axis": axis, "mode": mode}
    given = options.pop("given", a)
    a = a.astype(a.dtype.newbyteorder("="))
    places = np.take(order(a, axis, mode), range(k), axis=axis)
    values, found = rtopk.top_k(given, k, **options)
    same(found, places)
    same(values, np.take_along_axis(a, places, axis))
    rising = np.sort(places, axis=axis)
    values, found = rtopk.top_k(given, k, sorted=False, index_dtype="int32", **options)
    same(found, rising.astype(np.int32))
    same(values, np.take_along_axis(a, rising, axis))
    selected = np.zeros(a.shape, bool)
    np.put_along_axis(selected, places, True, axis)
    same(rtopk.top_k_mask(given, k, **options), selected)
    same(rtopk.top_k_dense(given, k, **options), np.where(selected, a, np.zeros((), a.dtype)))
    values, selectors = rtopk.top_k_compact(given, k, **options)
    same(selectors, rising.astype(np.uint8 if a.shape[axis] <= 256 else np.uint16))
    same(values, np.take_along_axis(a, rising, axis))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["largest", "smallest"])
def test_every_form(dtype, mode):
    for shape, k, axis in [((7, 40), 5, -1), ((3, 300, 5), 40, 1), ((33,), 33, 0), ((6, 20), 2, 0), ((2, 3000), 1, 1)]:
        for a in draws(dtype, shape):
            check(a, k, axis, mode, nan="last")


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype):
    for a in draws(dtype, (6, 8, 10)):
        swapped = a.astype(a.dtype.newbyteorder(OTHER_ORDER))
        for view in (a[1:, ::2, ::-1], a.transpose(2, 0, 1), np.broadcast_to(a[:, :1], a.shape), swapped):
            view.flags.writeable = False
            for axis in range(3):
                check(view, 3, axis, "largest", threads=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_to_select(dtype):
    for shape, k, axis in [((0, 5), 3, 1), ((5, 0), 0, 1), ((3, 4), 0, 1), ((0,), 0, 0)]:
        for mode in ("largest", "smallest"):
            check(np.ones(shape, dtype), k, axis, mode)


def test_integers_of_python():
    values, places = rtopk.top_k([3, 1, 2], 2)
    assert values.dtype == np.array([1]).dtype and values.tolist() == [3, 2] and places.tolist() == [0, 2]
    assert rtopk.top_k(np.arange(9), 2).indices.tolist() == [8, 7]
    assert rtopk.top_k([True, False, True], 2).indices.tolist() == [0, 2]
    assert rtopk.top_k([1 << 63, 0], 1, mode="smallest").values.tolist() == [0]


def test_what_the_library_reads_is_not_copied(monkeypatch):
    monkeypatch.setattr(integers, "select", None)
    for dtype in (np.float32, np.float16, np.float64, np.int32):
        a = np.arange(12).astype(dtype).reshape(3, 4)
        assert rtopk.top_k(a, 1).indices.tolist() == rtopk.top_k(Producer(a), 1).indices.tolist() == [[3]] * 3


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("option", [{"max_iter": 2}, {"epsilon": 0.3}])
def test_early_stopping(dtype, option):
    """What is found in a row does not hang on other rows, also where these make other keys necessary."""
    a = np.random.default_rng(0).integers(0, 1 << 31, (50, 256)).astype(dtype)
    found = rtopk.top_k(a, 32, **option)
    np.testing.assert_array_equal(found.values, np.take_along_axis(a, found.indices, 1))
    assert not np.array_equal(found.indices, rtopk.top_k(a, 32).indices)
    a[0, 0] = 1 << 53
    np.testing.assert_array_equal(rtopk.top_k(a, 32, **option).indices[1:], found.indices[1:])
    a[0, 0] = (1 << 53) + 1
    text = r" is .*, and a has elements from \d+ to 9007199254740993; accepted: elements from -2\*\*53 to 2\*\*53, or"
    with pytest.raises(ValueError, match=text):
        rtopk.top_k(a, 32, **option)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "uint64"])
def test_mapped_files(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(mapped, "CHUNK_BYTES", 500)
    for number, a in enumerate(draws(dtype, (30, 7, 40))):
        np.save(tmp_path / f"{number}.npy", a)
        file = np.load(tmp_path / f"{number}.npy", mmap_mode="r")
        assert mapped.is_large(file)
        for axis in range(3):
            check(a, 3, axis, "largest", given=file)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_other_libraries(dtype):
    space = Space("space")
    for a in draws(dtype, (6, 30)):
        for mode in ("largest", "smallest"):
            values, places = rtopk.top_k(Spaced(a, space), 4, mode=mode)
            assert type(values) is type(places) is Spaced
            expected = order(a, -1, mode)[:, :4]
            same(np.asarray(places.array), expected)
            same(np.asarray(values.array), np.take_along_axis(a, expected, -1))
            same(rtopk.top_k_mask(Spaced(a, space), 4, mode=mode).array, rtopk.top_k_mask(a, 4, mode=mode))


def test_capsules_of_unknown_origin():
    """NumPy believes what a capsule says, so it is not asked."""
    with pytest.raises(TypeError, match="code 0 with 64 bits and 1 lanes; accepted: float32"):
        rtopk.top_k(Producer(np.arange(5)), 1)


def test_wrong_arguments_are_named_all_the_same():
    a = np.arange(12).reshape(3, 4)
    with pytest.raises(ValueError, match="k is 5; accepted: 0 to 4, the length of axis -1"):
        rtopk.top_k(a, 5)
    with pytest.raises(TypeError, match="axis is None; accepted: an integer"):
        rtopk.top_k(a, 1, axis=None)
    with pytest.raises(ValueError, match="axis is 2; accepted: -2 to 1"):
        rtopk.top_k_mask(a.astype(bool), 1, axis=2)
    with pytest.raises(TypeError, match="epsilon is 'small'; accepted: a number"):
        rtopk.top_k(a, 1, epsilon="small")
    with pytest.raises(ValueError, match="a has 0 dimensions"):
        rtopk.top_k(7, 1)
    with pytest.raises(ValueError, match="k is 2; accepted: 0 to 1"):
        rtopk.top_k(Spaced(np.arange(1), Space("space")), 2)
