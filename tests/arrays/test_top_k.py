"""rtopk.top_k and its forms on arrays of NumPy, against a stable sort."""

import gc
import inspect
import sys
import threading
import time

import numpy as np
import pytest

import rtopk
from oracle import KINDS, bits, check, indices, mask, rows

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None

DTYPES = [np.float32, np.float16, np.float64, np.int32]
if bfloat16 is not None:
    DTYPES.append(bfloat16)
TYPES = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)


@TYPES
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["largest", "smallest"])
def test_values_and_indices(dtype, kind, mode):
    for shape, k in [((7, 40), 5), ((3, 1000), 40), ((200, 9), 9), ((33,), 1)]:
        a = rows(kind, shape, dtype)
        for nan in ("first", "last"):
            check(rtopk.top_k, a, k, mode=mode, nan=nan)
            check(rtopk.top_k, a, k, mode=mode, nan=nan, sorted=False, index_dtype="int32")


@TYPES
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["largest", "smallest"])
@pytest.mark.parametrize("nan", ["first", "last"])
def test_other_forms(dtype, kind, mode, nan):
    for shape, k, axis in [((7, 40), 5, -1), ((3, 300, 2), 40, 1), ((5,), 5, 0)]:
        a = rows(kind, shape, dtype)
        options = {"axis": axis, "mode": mode, "nan": nan}
        selected = mask(a, k, **options)
        found = rtopk.top_k_mask(a, k, **options)
        assert found.dtype == bool
        np.testing.assert_array_equal(found, selected)
        dense = rtopk.top_k_dense(a, k, **options)
        assert dense.dtype == a.dtype
        np.testing.assert_array_equal(bits(dense), np.where(selected, bits(a), 0))
        compact = rtopk.top_k_compact(a, k, **options)
        places = indices(a, k, sorted=False, **options)
        assert compact.selectors.dtype == (np.uint8 if a.shape[axis] <= 256 else np.uint16)
        np.testing.assert_array_equal(compact.selectors, places)
        np.testing.assert_array_equal(bits(compact.values), bits(np.take_along_axis(a, places, axis)))


@pytest.mark.skipif(not hasattr(np, "top_k"), reason="NumPy has its own top_k from 2.6 on")
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("mode", ["largest", "smallest"])
def test_numpys_own(dtype, mode):
    """Its arguments, and with nan="last" its values; its indices, where it leaves no choice."""
    ours = inspect.signature(rtopk.top_k).parameters
    for name, parameter in inspect.signature(np.top_k).parameters.items():
        assert (ours[name].kind, ours[name].default) == (parameter.kind, parameter.default), name
    for axis in (0, 1):
        for kind in ("nan", "ties", "normal"):
            a = rows(kind, (20, 30), dtype)
            expected, _ = np.top_k(a, 9, axis=axis, mode=mode)
            np.testing.assert_array_equal(rtopk.top_k(a, 9, axis=axis, mode=mode, nan="last").values, expected)
        a = np.random.default_rng(0).permutation(600).reshape(20, 30).astype(dtype)
        if len(np.unique(a)) == a.size:
            expected = np.top_k(a, 9, axis=axis, mode=mode)
            np.testing.assert_array_equal(rtopk.top_k(a, 9, axis=axis, mode=mode, nan="last").indices, expected[1])


def test_the_result_is_a_named_tuple_of_arrays():
    result = rtopk.top_k(np.array([3.0, 1.0, 2.0]), 2)
    assert type(result) is rtopk.TopK and result._fields == ("values", "indices")
    assert type(result.values) is type(result.indices) is np.ndarray
    assert type(rtopk.top_k_compact(np.zeros(3), 2)) is rtopk.CBSR


def layouts():
    base = rows("nan", (6, 8, 10), np.float32)
    yield "C", base
    yield "Fortran", np.asfortranarray(base)
    yield "transposed", base.transpose(2, 0, 1)
    yield "slice", base[1:5, ::2, 3:]
    yield "steps", base[::2, ::3, ::2]
    yield "reversed rows", base[::-1]
    yield "reversed elements", base[..., ::-1]
    yield "expanded", np.broadcast_to(base[:, :1], base.shape)
    yield "one element", np.broadcast_to(np.float32(2), (3, 4, 5))
    yield "windows", np.lib.stride_tricks.sliding_window_view(base[0, 0], 4)
    yield "four strides", rows("ties", (5, 6, 7, 8), np.float32)[::2, ::2, ::2, ::2]
    yield "field", _field()
    yield "unaligned", _unaligned(base)
    yield "swapped", base.astype(">f4" if sys.byteorder == "little" else "<f4")
    yield "swapped halves", base.astype(np.float16).astype(">f2" if sys.byteorder == "little" else "<f2")
    yield "swapped doubles", base.astype(np.float64).byteswap().view(np.dtype(np.float64).newbyteorder())


def _field():
    """A field of records of 5 bytes: neither strides nor addresses fit a float."""
    records = np.zeros((4, 6), [("c", "u1"), ("x", "=f4")])
    records["x"] = rows("ties", (4, 6), np.float32)
    return records["x"]


def _unaligned(base):
    memory = np.empty(base.nbytes + 1, np.uint8)
    memory[1:] = base.reshape(-1).view(np.uint8)
    return memory[1:].view(base.dtype).reshape(base.shape)


@pytest.mark.parametrize("name, a", list(layouts()), ids=lambda each: each if isinstance(each, str) else "")
def test_layouts_and_axes(name, a):
    before = a.copy()
    a.flags.writeable = False
    for axis in range(-a.ndim, a.ndim):
        k = (a.shape[axis] + 1) // 2
        check(rtopk.top_k, a, k, axis=axis)
        check(rtopk.top_k, a, k, axis=axis, mode="smallest", nan="last", sorted=False)
        check(rtopk.top_k, a, k, axis=axis, nan="last")
    np.testing.assert_array_equal(
        bits(before.astype(a.dtype.newbyteorder("="))), bits(a.astype(a.dtype.newbyteorder("=")))
    )


@pytest.mark.parametrize(
    "shape, axis, k", [((0, 5), 1, 3), ((5, 0), 0, 2), ((0,), 0, 0), ((4, 0), 1, 0), ((3, 4), 1, 0)]
)
def test_nothing_to_select(shape, axis, k):
    a = np.ones(shape, np.float32)
    expected = list(shape)
    expected[axis] = k
    values, places = rtopk.top_k(a, k, axis=axis)
    assert values.shape == places.shape == tuple(expected)
    assert values.dtype == a.dtype and places.dtype == np.int64
    assert not rtopk.top_k_mask(a, k, axis=axis).any() and rtopk.top_k_mask(a, k, axis=axis).shape == shape
    assert not rtopk.top_k_dense(a, k, axis=axis).any()
    assert rtopk.top_k_compact(a, k, axis=axis).values.shape == tuple(expected)


def test_many_threads_give_the_same():
    a = rows("nan", (3000, 50), np.float32)
    for nan in ("first", "last"):
        for threads in (1, 2, 7, None):
            check(rtopk.top_k, a, 6, nan=nan, threads=threads)
    long = rows("ties", (2, 1 << 20), np.float32)
    for threads in (1, 3):
        check(rtopk.top_k, long, 100, threads=threads)


def test_calls_at_the_same_time():
    a = rows("nan", (400, 300), np.float32)
    expected = indices(a, 9, nan="last")
    wrong = []

    def call():
        for _ in range(10):
            if not np.array_equal(rtopk.top_k(a, 9, nan="last", threads=2).indices, expected):
                wrong.append(threading.current_thread().name)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_other_threads_run_meanwhile():
    """A thread counts while another one selects, which it could not do if the lock of the interpreter were held."""
    a = rows("normal", (2000, 4000), np.float32)
    stop, count = threading.Event(), [0]

    def counting():
        while not stop.is_set():
            count[0] += 1
            time.sleep(1e-4)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(60)  # nobody is asked to let go of the lock
    counter = threading.Thread(target=counting)
    try:
        counter.start()
        before = count[0]
        rtopk.top_k(a, 100, threads=1)
        assert count[0] > before
    finally:
        stop.set()
        sys.setswitchinterval(switch)
        counter.join()


def test_early_stopping():
    a = rows("normal", (50, 256), np.float32)
    exact = rtopk.top_k(a, 32)
    np.testing.assert_array_equal(rtopk.top_k(a, 32, max_iter=100).indices, exact.indices)
    np.testing.assert_array_equal(rtopk.top_k(a, 32, search="bisection").indices, exact.indices)
    np.testing.assert_array_equal(rtopk.top_k(a, 32, epsilon=1e-7).indices, exact.indices)
    stopped = {}
    for rule in ("threshold_first", "printed"):
        values, places = rtopk.top_k(a, 32, max_iter=2, rule=rule)
        np.testing.assert_array_equal(np.take_along_axis(a, places, -1), values)
        assert all(len(set(row)) == 32 for row in places.tolist())
        stopped[rule] = places
    assert not np.array_equal(stopped["threshold_first"], exact.indices)
    assert not np.array_equal(stopped["threshold_first"], stopped["printed"])
    assert not np.array_equal(rtopk.top_k(a, 32, epsilon=0.5).indices, exact.indices)


def test_nothing_is_kept():
    """No reference to the input, and no result that stays: whatever a call takes, it gives back."""
    a = rows("nan", (20, 30), np.float32)
    functions = (rtopk.top_k, rtopk.top_k_mask, rtopk.top_k_dense, rtopk.top_k_compact)

    def call():
        for function in functions:
            function(a, 3, nan="last")
            function(a[:, ::-1], 3, axis=0)
            with pytest.raises(ValueError):
                function(a, 31)

    call()
    gc.collect()
    counts = [sys.getrefcount(each) for each in (a, a.dtype, np.dtype(np.int64), rtopk.TopK, None)]
    for _ in range(200):
        call()
    gc.collect()
    now = [sys.getrefcount(each) for each in (a, a.dtype, np.dtype(np.int64), rtopk.TopK, None)]
    assert all(abs(after - before) < 100 for before, after in zip(counts, now, strict=True)), (counts, now)
    values, places = rtopk.top_k(a, 3)
    assert sys.getrefcount(values) == sys.getrefcount(places) == 2
    assert values.base is None and places.base is None
