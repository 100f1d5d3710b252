"""Rows with lengths, starts, a k or ids of their own, by magnitude, with thresholds, and segments."""

import inspect
import sys

import numpy as np
import pytest

import rtopk
from oracle import KINDS, bits, rows
from rows_oracle import Expected, expect
from test_top_k import DTYPES, TYPES, layouts

INTEGERS = pytest.mark.parametrize("integer", [np.int32, np.int64], ids=["i32", "i64"])
ROWS, COLS, K = 12, 40, 7
ORDERS = [{"mode": mode, "sorted": sorted} for mode in ("largest", "smallest") for sorted in (True, False)]
# Every length that is a limit of something, and some between.
LENGTHS = [K, K - 1, K + 1, 0, 1, -1, -(2**31), COLS, COLS - 1, COLS + 1, 2**31 - 1, 20]
STARTS = [0, 1, -1, 39, 40, 41, 17, 33, 34, 2**31 - 1, -(2**31), 5]
ROW_K = [0, 1, 2, 3, 6, 7, 8, 100, -1, -(2**31), 5, 7]


def arrays(integer, *names):
    numbers = {"lengths": LENGTHS, "starts": STARTS, "row_k": ROW_K}
    return {name: np.array(numbers[name], integer) for name in names}


@INTEGERS
@TYPES
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_type(dtype, integer, kind):
    a = rows(kind, (ROWS, COLS), dtype)
    for names in (["lengths"], ["starts"], ["row_k"], ["lengths", "starts", "row_k"]):
        given = arrays(integer, *names)
        for options in ORDERS:
            expected = Expected(a, K, **given, **options)
            expect(rtopk.top_k(a, K, return_threshold=True, **given, **options), expected)
            expect(rtopk.top_k(a, K, index_dtype="int32", **given, **options), expected, np.int32)
            if options["sorted"]:
                mode = options["mode"]
                np.testing.assert_array_equal(rtopk.top_k_mask(a, K, mode=mode, **given), expected.mask)
                dense = rtopk.top_k_dense(a, K, mode=mode, **given)
                np.testing.assert_array_equal(bits(dense), np.where(expected.mask, bits(a), 0))


@TYPES
@pytest.mark.parametrize("kind", KINDS)
def test_magnitudes_and_thresholds(dtype, kind):
    a = rows(kind, (ROWS, COLS), dtype)
    for options in ORDERS:
        for magnitude in (False, True):
            options = options | {"magnitude": magnitude}
            for given in ({}, arrays(np.int32, "lengths")):
                expected = Expected(a, K, **given, **options)
                expect(rtopk.top_k(a, K, return_threshold=True, **given, **options), expected)
        mode = options["mode"]
        mask = rtopk.top_k_mask(a, K, magnitude=True, mode=mode)
        np.testing.assert_array_equal(mask, Expected(a, K, magnitude=True, mode=mode).mask)
        values, selectors = rtopk.top_k_compact(a, K, magnitude=True, mode=mode)
        places = np.nonzero(mask)[1].reshape(ROWS, K)
        np.testing.assert_array_equal(selectors, places)
        np.testing.assert_array_equal(bits(values), bits(np.take_along_axis(a, places, 1)))


@TYPES
def test_k_beyond_the_columns(dtype):
    """Rows have fewer elements than that, and what stands behind them is the same as within the columns."""
    a, k = rows("ties", (ROWS, COLS), dtype), COLS + 3
    row_k = {"row_k": np.array([0, 1, 7, 39, 40, 41, 42, 43, 44, 99, -1, 2**31 - 1])}
    given = arrays(np.int64, "lengths", "starts")
    ids = np.arange(a.size, dtype=np.int64).reshape(a.shape) * 3
    for each in (arrays(np.int32, "lengths"), given, row_k, given | row_k, given | row_k | {"ids": ids}):
        for options in ORDERS:
            for magnitude in (False, True):
                options = options | {"magnitude": magnitude}
                result = rtopk.top_k(a, k, return_threshold=True, **each, **options)
                expect(result, Expected(a, k, **each, **options))
        if "ids" not in each:
            np.testing.assert_array_equal(rtopk.top_k_mask(a, k, **each), Expected(a, k, **each).mask)
            columns = {name: numbers[:9] for name, numbers in each.items()}
            turned = rtopk.top_k(a.T[:, :9], k, axis=0, return_threshold=True, **columns)
            expect(turned, Expected(a.T[:, :9], k, axis=0, **columns))
    for shape in ((ROWS, 0), (0, COLS), (0, 0)):
        empty = np.empty(shape, dtype)
        few = {name: numbers[: shape[0]] for name, numbers in (given | row_k).items()}
        for some in (few, {"lengths": few["lengths"]}):
            some = some | {"ids": np.empty(shape, np.int32)}
            expect(rtopk.top_k(empty, k, return_threshold=True, **some), Expected(empty, k, **some))
        assert rtopk.top_k_mask(empty, k, **few).shape == shape


@pytest.mark.parametrize("filler", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [each for each in DTYPES if each != np.int32], ids=lambda each: np.dtype(each).name)
def test_what_lies_behind_a_row_is_never_selected(dtype, filler):
    a = rows("normal", (ROWS, COLS), dtype)
    given = arrays(np.int64, "lengths")
    dirty = np.where(np.arange(COLS) >= given["lengths"][:, None], np.array(filler, dtype), a)
    for options in ORDERS:
        for magnitude in (False, True):
            result = rtopk.top_k(dirty, K, magnitude=magnitude, **given, **options)
            expect(result, Expected(a, K, magnitude=magnitude, **given, **options))
            assert not np.isin(result.indices[:, :1] >= given["lengths"][:, None].clip(0), True).any()


@pytest.mark.parametrize("cols, k", [(1, 1), (33, 5), (300, 300), (5000, 600), (70000, 100)])
def test_sizes(cols, k):
    a = rows("normal", (6, cols), np.float32)
    given = {
        "lengths": np.array([cols, k, k - 1, 0, cols // 2, cols - 1]),
        "starts": np.array([0, 1, cols // 3, cols, cols // 2, 1], np.int32),
    }
    for threads in (1, 2, None):
        expect(rtopk.top_k(a, k, return_threshold=True, threads=threads, **given), Expected(a, k, **given))


@pytest.mark.parametrize("name, a", list(layouts()), ids=lambda each: each if isinstance(each, str) else "")
def test_layouts_and_axes(name, a):
    draw = np.random.default_rng(0)
    for axis in range(-a.ndim, a.ndim):
        size = a.shape[axis]
        others = np.delete(a.shape, axis)
        lengths, starts = draw.integers(-1, size + 2, others), draw.integers(-1, size + 2, others, np.int32)
        ids = draw.integers(1 << 40, size=a.shape)
        k = (size + 1) // 2
        for given in ({"lengths": lengths}, {"starts": starts, "ids": ids}, {"lengths": lengths, "ids": range(size)}):
            for magnitude in (False, True):
                options = {"axis": axis, "magnitude": magnitude}
                result = rtopk.top_k(a, k, return_threshold=True, **given, **options)
                given = {name: np.asarray(each) for name, each in given.items()}
                expect(result, Expected(a, k, **given, **options))
        np.testing.assert_array_equal(
            rtopk.top_k_mask(a, k, axis=axis, lengths=lengths), Expected(a, k, lengths, axis=axis).mask
        )


def test_layouts_of_what_describes_rows():
    """Other strides, byte orders, addresses and types than kernels read."""
    a = rows("ties", (6, 9), np.float32)
    lengths = np.array([3, 0, 9, 1, 5, 2])
    expected = Expected(a, 4, lengths)
    unaligned = np.frombuffer(b"x" + lengths.tobytes(), np.int64, offset=1)
    assert not unaligned.flags.aligned
    table = np.zeros(6, [("flag", "u1"), ("length", "<i4"), ("more", "f8")])
    table["length"] = lengths
    for each in (
        lengths.tolist(), tuple(lengths), np.repeat(lengths, 3)[::3], lengths[::-1].copy()[::-1], unaligned,
        lengths.astype(">i8"), lengths.astype(">i4"), table["length"], np.stack([lengths, lengths], 1)[:, 1],
    ):  # fmt: skip
        expect(rtopk.top_k(a, 4, lengths=each), expected)
    cube = rows("ties", (2, 3, 9), np.float32)
    turned = np.asfortranarray(lengths.reshape(2, 3))
    expect(rtopk.top_k(cube, 4, lengths=turned), Expected(cube, 4, turned))
    read_only = lengths.copy()
    read_only.flags.writeable = False
    expect(rtopk.top_k(a, 4, lengths=read_only), expected)


def test_rows_of_one_dimension():
    a = np.array([1.0, -7.0, 3.0, np.nan])
    result = rtopk.top_k(a, 2, lengths=3, starts=np.int64(1), ids=[5, 6, 7, 8], return_threshold=True)
    assert result.indices.tolist() == [8, 7] and result.threshold.shape == () and result.threshold == 3
    assert rtopk.top_k(a, 2, lengths=np.array(3), magnitude=True).values.tolist() == [-7, 3]


@INTEGERS
def test_ids(integer):
    a = rows("ties", (ROWS, COLS), np.float32)
    draw = np.random.default_rng(1)
    own = draw.integers(1000, size=(ROWS, COLS)).astype(integer)
    shared = draw.integers(1000, size=COLS).astype(integer)
    wide = draw.integers(1000, size=(ROWS, 2 * COLS)).astype(integer)
    for ids in (own, shared, np.broadcast_to(shared, own.shape), wide[:, ::2], own.astype(own.dtype.newbyteorder(">"))):
        for given in ({}, arrays(integer, "lengths")):
            for options in ORDERS:
                expect(rtopk.top_k(a, K, ids=ids, **given, **options), Expected(a, K, ids=ids, **given, **options))
    if integer == np.int32:
        expect(rtopk.top_k(a, K, ids=own, index_dtype=np.int32), Expected(a, K, ids=own), np.int32)
    # Ids alone go with everything that a call without them takes.
    large = np.arange(12).reshape(3, 4) << 60
    assert rtopk.top_k(large, 1, ids=[4, 5, 6, 7]).indices.tolist() == [[7], [7], [7]]
    nan = rtopk.top_k(np.array([np.nan, 1.0, 2.0]), 1, nan="last", ids=[7, 8, 9])
    assert nan.indices.tolist() == [9]


def test_early_stopping():
    a = rows("normal", (50, 256), np.float32)
    lengths = np.random.default_rng(0).integers(0, 257, 50)
    exact = rtopk.top_k(a, 32, lengths=lengths)
    np.testing.assert_array_equal(rtopk.top_k(a, 32, lengths=lengths, max_iter=100).indices, exact.indices)
    stopped = rtopk.top_k(a, 32, lengths=lengths, max_iter=2, sorted=False).indices
    assert not np.array_equal(stopped, exact.indices) and (stopped < lengths[:, None]).all()
    np.testing.assert_array_equal((stopped >= 0).sum(1), lengths.clip(max=32))


def test_arguments_that_say_nothing():
    """The plain call, with its own types."""
    a = np.arange(12).reshape(3, 4)
    result = rtopk.top_k(a, 2, lengths=None, ids=None, magnitude=False, return_threshold=False)
    assert type(result) is rtopk.TopK and result.values.dtype == np.int64
    assert type(rtopk.top_k(a * 1.0, 2, return_threshold=True)) is rtopk.TopKThreshold
    with pytest.raises(ValueError, match="k is 5; accepted: 0 to 4, the length of axis -1"):
        rtopk.top_k(a, 5, lengths=None)


# ---- Segments ----

OFFSETS = {
    "of any length": [0, 40, 41, 41, 48, 54, 61, 120],
    "empty": [0, 0, 0, 0],
    "one": [0, 120],
    "of the middle": [30, 50, 90],
    "out of range": [-5, 3, 400, 500],
    "that do not ascend": [0, 50, 20, 70, 10],
    "none": [0],
}


@INTEGERS
@pytest.mark.parametrize("name", OFFSETS)
def test_segments(name, integer):
    offsets = np.array(OFFSETS[name], integer)
    row_k = np.arange(len(offsets) - 1).astype(integer)
    draw = np.random.default_rng(0)
    for dtype in DTYPES:
        a = rows("nan" if dtype != np.int32 else "ties", (120,), dtype)
        ids = draw.integers(1000, size=120).astype(integer)
        for options in ORDERS:
            for more in ({}, {"row_k": row_k}, {"ids": ids}, {"magnitude": True}, {"max_length": 9}, {"max_length": 3}):
                result = rtopk.top_k_segments(a, offsets, K, return_threshold=True, **options, **more)
                expect(result, Expected(a, K, offsets=offsets, **options, **more))


def test_segments_of_few_values_and_of_none():
    a = np.array([2.0, 5.0, 1.0])
    result = rtopk.top_k_segments(a, [0, 2, 3], 6, index_dtype="int32")
    assert result.indices.tolist() == [[1, 0, -1, -1, -1, -1], [2, -1, -1, -1, -1, -1]]
    assert result.indices.dtype == np.int32 and type(result) is rtopk.TopK
    nothing = rtopk.top_k_segments(a[:0], [0, 0, 0], 2, ids=np.empty(0, np.int64), return_threshold=True)
    assert nothing.indices.tolist() == [[-1, -1], [-1, -1]] and (nothing.values == -np.inf).all()
    assert nothing.threshold.tolist() == [-np.inf, -np.inf]
    assert rtopk.top_k_segments(a, [0, 3], 0).values.shape == (1, 0)
    assert rtopk.top_k_segments(a, [0], 2).values.shape == (0, 2)


def test_segments_of_long_arrays():
    a = rows("normal", (5000,), np.float32)
    limits = np.iinfo(np.int64)
    for offsets in ([0, 3, 1700, 1700, 4000, 5000], [limits.min, limits.max, 10, 4000, -7, 2000]):
        expected = Expected(a, 40, offsets=offsets)
        for max_length in (None, 5000, 10**9):
            expect(rtopk.top_k_segments(a, offsets, 40, max_length=max_length), expected)
    for view in (a[::2], a[::-1], a.astype(">f4"), np.broadcast_to(a[:1], 3000), a[3:3000]):
        expect(rtopk.top_k_segments(view, [0, 700, 2400], 9), Expected(view, 9, offsets=[0, 700, 2400]))


# ---- Other kinds of arrays ----


def test_tensors():
    torch = pytest.importorskip("torch")
    pytest.importorskip("rtopk._library", exc_type=ImportError)
    a = rows("ties", (ROWS, COLS), np.float32)
    given = arrays(np.int64, "lengths", "row_k")
    tensors = {name: torch.from_numpy(each) for name, each in given.items()}
    x = torch.from_numpy(a).requires_grad_()
    result = rtopk.top_k(x, K, mode="smallest", return_threshold=True, **tensors)
    assert type(result) is rtopk.TopKThreshold
    expect([each.detach() for each in result], Expected(a, K, mode="smallest", **given))
    torch.where(result.indices >= 0, result.values, 0).sum().backward()
    mask = rtopk.top_k_mask(x, K, mode="smallest", **tensors)
    np.testing.assert_array_equal(x.grad.bool(), mask)
    np.testing.assert_array_equal(rtopk.top_k_dense(x.detach(), K, magnitude=True).numpy() != 0,
                                  Expected(a, K, magnitude=True).mask & (a != 0))  # fmt: skip
    assert (rtopk.top_k_compact(x.detach(), K, magnitude=True).selectors.shape) == (ROWS, K)
    offsets = torch.tensor([0, 7, 7, 40])
    segments = rtopk.top_k_segments(x.detach()[0], offsets, 3, ids=torch.arange(40) + 5)
    assert type(segments) is rtopk.TopK
    expect(segments, Expected(a[0], 3, offsets=offsets.numpy(), ids=np.arange(40) + 5))
    with pytest.raises(TypeError, match="'lengths' is ndarray; accepted: a tensor of int32 or int64"):
        rtopk.top_k(x, K, lengths=given["lengths"])


def test_arrays_of_jax():
    jnp = pytest.importorskip("jax.numpy")
    pytest.importorskip("rtopk.jax", exc_type=ImportError)
    a = rows("ties", (ROWS, COLS), np.float32)
    given = arrays(np.int32, "lengths", "row_k")
    x = jnp.asarray(a)
    result = rtopk.top_k(x, K, mode="smallest", return_threshold=True, ids=range(COLS), **given)
    assert type(result) is rtopk.TopKThreshold
    expect(result, Expected(a, K, mode="smallest", **given), np.int32)
    mask = rtopk.top_k_mask(x, K, **given)
    np.testing.assert_array_equal(mask, Expected(a, K, **given).mask)
    assert rtopk.top_k_compact(x, K, magnitude=True).selectors.dtype == jnp.uint8
    segments = rtopk.top_k_segments(x[0], jnp.array([0, 7, 7, 40]), 3)
    assert type(segments) is rtopk.TopK
    expect(segments, Expected(a[0], 3, offsets=[0, 7, 7, 40]), np.int32)


def test_other_libraries():
    xp = pytest.importorskip("array_api_strict")
    a = rows("ties", (ROWS, COLS), np.float32)
    given = arrays(np.int64, "lengths")
    result = rtopk.top_k(xp.asarray(a), K, axis=1, return_threshold=True, **given)
    assert all(type(each) is type(xp.asarray(a)) for each in result)
    expect([np.from_dlpack(each) for each in result], Expected(a, K, **given))

    class Producer:
        def __dlpack__(self, **options):
            return a.__dlpack__(**options)

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(TypeError, match="a is of type Producer; accepted with lengths and magnitude: an array of a"):
        rtopk.top_k(Producer(), K, magnitude=True, **given)


# ---- Errors ----

A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "arguments, options, kind, text",
    [
        ((A, -1), {"lengths": [1, 2, 3]}, ValueError, "k is -1; accepted: 0 or more"),
        ((A, 5), {"magnitude": True}, ValueError, "k is 5; accepted: 0 to 4, the length of axis -1"),
        ((A, 1.5), {"lengths": [1, 2, 3]}, TypeError, "k is 1.5; accepted: an integer"),
        (
            (A, 1),
            {"lengths": [1, 2]},
            ValueError,
            r"lengths has shape \(2,\); accepted: \(3,\), one number for each row",
        ),
        ((A, 1), {"lengths": 3}, ValueError, r"lengths has shape \(\); accepted: \(3,\)"),
        ((A, 1), {"lengths": [[1], [2], [3]]}, ValueError, r"lengths has shape \(3, 1\); accepted: \(3,\)"),
        ((A, 1), {"starts": [0, 0, 0, 0]}, ValueError, r"starts has shape \(4,\); accepted: \(3,\)"),
        ((A, 1), {"row_k": [0, 0], "axis": 0}, ValueError, r"row_k has shape \(2,\); accepted: \(4,\)"),
        ((A, 1), {"lengths": [1.0, 2.0, 3.0]}, TypeError, "lengths has dtype float64; accepted: int32 or int64"),
        ((A, 1), {"starts": np.zeros(3, np.int16)}, TypeError, "starts has dtype int16; accepted: int32 or int64"),
        ((A, 1), {"row_k": np.zeros(3, bool)}, TypeError, "row_k has dtype bool"),
        ((A, 1), {"lengths": "all"}, TypeError, "lengths has dtype <U3"),
        ((A, 1), {"lengths": [1 << 70] * 3}, TypeError, "lengths has dtype object"),
        ((A, 1), {"ids": np.zeros((3, 4))}, TypeError, "ids has dtype float64; accepted: int32 or int64"),
        ((A, 1), {"ids": [1, 2, 3]}, ValueError, r"ids has shape \(3,\); accepted: \(3, 4\), or \(4,\) for all rows"),
        ((A[0], 1), {"ids": [1, 2]}, ValueError, r"ids has shape \(2,\); accepted: \(4,\)$"),
        (
            (A, 1),
            {"ids": np.arange(4), "index_dtype": "int32"},
            ValueError,
            "index_dtype is int32, and ids are int64; accepted for them: int64",
        ),
        ((A, 1), {"magnitude": 1}, TypeError, "magnitude is 1; accepted: True or False"),
        ((A, 1), {"return_threshold": "yes"}, TypeError, "return_threshold is 'yes'; accepted: True or False"),
        ((A, 0), {"return_threshold": True}, ValueError, "k is 0; accepted with return_threshold: 1 or more"),
        (
            (A, 1),
            {"lengths": [1, 2, 3], "nan": "last"},
            ValueError,
            "nan is 'last'; accepted with lengths: 'first', or mode 'smallest'",
        ),
        ((A.astype(int), 1), {"magnitude": True}, TypeError, "a has dtype int64; accepted: float32, float16"),
        ((A.astype(bool), 1), {"lengths": [1, 2, 3]}, TypeError, "a has dtype bool; accepted: float32"),
        ((np.float32(1), 1), {"lengths": 1}, ValueError, "a has 0 dimensions; accepted: 1 or more"),
        ((A, 1), {"lengths": [1, 2, 3], "axis": 2}, ValueError, "axis is 2; accepted: -2 to 1"),
        ((A, 1), {"length": 3}, TypeError, r"top_k\(\) got an unexpected keyword argument 'length'"),
        ((A, 1), {"offsets": [0, 3]}, TypeError, r"top_k\(\) got an unexpected keyword argument 'offsets'"),
    ],
    ids=lambda each: "" if isinstance(each, tuple | dict) else None,
)
def test_refused(arguments, options, kind, text):
    with pytest.raises(kind, match=text):
        rtopk.top_k(*arguments, **options)


@pytest.mark.parametrize(
    "arguments, options, kind, text",
    [
        ((A, [0, 3], 1), {}, ValueError, "a has 2 dimensions; accepted with offsets: 1"),
        ((A[0], 3, 1), {}, ValueError, r"offsets has shape \(\); accepted: one dimension"),
        ((A[0], np.empty(0, int), 1), {}, ValueError, r"offsets has shape \(0,\); accepted: one dimension"),
        ((A[0], [[0, 3]], 1), {}, ValueError, r"offsets has shape \(1, 2\)"),
        ((A[0], [0.0, 3.0], 1), {}, TypeError, "offsets has dtype float64; accepted: int32 or int64"),
        ((A[0], [0, 3], 1), {"row_k": [1, 2]}, ValueError, r"row_k has shape \(2,\); accepted: \(1,\)"),
        ((A[0], [0, 3], 1), {"ids": [1, 2]}, ValueError, r"ids has shape \(2,\); accepted: \(4,\)"),
        ((A[0], [0, 3], 1), {"max_length": 0}, ValueError, "max_length is 0; accepted: None, or 1 or more"),
        ((A[0], [0, 3], 1), {"max_length": 1.5}, TypeError, "max_length is 1.5; accepted: None, or 1 or more"),
        ((A[0], [0, 3], -1), {}, ValueError, "k is -1; accepted: 0 or more"),
        ((A[0], [0, 3], 0), {"return_threshold": True}, ValueError, "k is 0; accepted with return_threshold"),
        ((A[0].astype(int), [0, 3], 1), {}, TypeError, "a has dtype int64; accepted: float32"),
    ],
    ids=lambda each: "" if isinstance(each, tuple | dict) else None,
)
def test_segments_that_are_refused(arguments, options, kind, text):
    with pytest.raises(kind, match=text):
        rtopk.top_k_segments(*arguments, **options)


def test_results_that_no_memory_holds():
    with pytest.raises((MemoryError, ValueError)):
        rtopk.top_k(A, 1 << 60, lengths=[1, 2, 3])


def test_each_form_says_what_it_takes():
    for function, some in (
        (rtopk.top_k, ["lengths", "starts", "row_k", "ids", "magnitude", "return_threshold"]),
        (rtopk.top_k_mask, ["lengths", "starts", "row_k", "magnitude"]),
        (rtopk.top_k_dense, ["lengths", "starts", "row_k", "magnitude"]),
        (rtopk.top_k_compact, ["magnitude"]),
    ):
        shown = list(inspect.signature(function).parameters)
        assert [name for name in shown if name not in ("a", "k")][-len(some) :] == some
        assert "rows" not in shown
        with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected keyword argument 'offsets'"):
            function(A, 1, offsets=[0])
    with pytest.raises(TypeError, match=r"top_k_compact\(\) got an unexpected keyword argument 'lengths'"):
        rtopk.top_k_compact(A, 1, lengths=[1, 2, 3])


def test_nothing_is_kept():
    lengths = np.array([1, 2, 3])
    rtopk.top_k(A, 2, lengths=lengths, ids=np.arange(4), return_threshold=True)
    before = [sys.getrefcount(each) for each in (A, lengths)]
    for _ in range(100):
        rtopk.top_k(A, 2, lengths=lengths, ids=np.arange(4), return_threshold=True)
        with pytest.raises(ValueError):
            rtopk.top_k(A, 2, lengths=lengths[:2])
    assert [sys.getrefcount(each) for each in (A, lengths)] == before
