"""Rows with lengths, starts, a k or ids of their own, by magnitude, with thresholds, and segments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtopk
from comparison import FLOATS, assert_same, normal, special_rows
from rows_oracle import Expected, expect
from rtopk.jax import maxk, top_k, top_k_mask, top_k_segments
from test_transforms import calls_in

ROWS, COLS, K = 12, 40, 7
ORDERS = [{"mode": mode, "sorted": sorted} for mode in ("largest", "smallest") for sorted in (True, False)]
LENGTHS = np.array([K, K - 1, K + 1, 0, 1, -1, -(2**31), COLS, COLS - 1, COLS + 1, 2**31 - 1, 20], np.int32)
STARTS = np.array([0, 1, -1, 39, 40, 41, 17, 33, 34, 2**31 - 1, -(2**31), 5], np.int32)
ROW_K = np.array([0, 1, 2, 3, 6, 7, 8, 100, -1, -(2**31), 5, 7], np.int32)
NUMBERS = {"lengths": LENGTHS, "starts": STARTS, "row_k": ROW_K}
NAMES = [("lengths",), ("starts",), ("row_k",), ("lengths", "starts", "row_k")]


def arrays(*names):
    return {name: jnp.asarray(NUMBERS[name]) for name in names}


def rows_of(dtype):
    return special_rows(dtype, ROWS, COLS) if dtype != "int32" else np.asarray(normal((ROWS, COLS), dtype, scale=3))


def on_host(arrays):
    return {name: np.asarray(each) for name, each in arrays.items()}


def with_x64():
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


# ---- Results ----


@pytest.mark.parametrize("names", NAMES, ids=" ".join)
@pytest.mark.parametrize("dtype", [*(name for name in FLOATS if name != "float64"), "int32"])
def test_rows_of_every_type(device, dtype, names):
    a, given = rows_of(dtype), arrays(*names)
    x = jnp.asarray(a)
    for options in ORDERS:
        expected = Expected(a, K, **on_host(given), **options)
        expect(jax.jit(lambda x, given: top_k(x, K, **given, **options))(x, given), expected, np.int32)  # noqa: B023
    mode = options["mode"]
    result = top_k(x, K, mode=mode, return_threshold=True, **given)
    assert type(result) is rtopk.TopKThreshold
    expected = Expected(a, K, mode=mode, **on_host(given))
    expect(result, expected, np.int32)
    assert_same([top_k_mask(x, K, mode=mode, **given)], [expected.mask])
    assert_same([maxk(x, K, mode=mode, **given)], [np.where(expected.mask, a, np.zeros((), a.dtype))])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_magnitudes_and_thresholds(device, dtype):
    a = rows_of(dtype)
    for options in ORDERS:
        for magnitude in (False, True):
            options = options | {"magnitude": magnitude}
            result = top_k(jnp.asarray(a), K, return_threshold=True, **options)
            expect(result, Expected(a, K, **options), np.int32)
    assert_same([top_k_mask(jnp.asarray(a), K, magnitude=True)], [Expected(a, K, magnitude=True).mask])


def test_types_of_64_bits(device):
    with with_x64():
        a = special_rows("float64", ROWS, COLS)
        given = {name: jnp.asarray(each.astype(np.int64) << 8) for name, each in NUMBERS.items()}
        ids = jnp.arange(a.size).reshape(a.shape) << 40
        result = top_k(jnp.asarray(a), K, ids=ids, return_threshold=True, **given)
        expect(result, Expected(a, K, ids=np.asarray(ids), **on_host(given)))
        offsets = jnp.array([-(1 << 40), 3, 9, 1 << 40])
        assert offsets.dtype == jnp.int64
        segments = top_k_segments(jnp.asarray(a[0]), offsets, K)
        expect(segments, Expected(a[0], K, offsets=np.asarray(offsets)), np.int32)


def test_k_beyond_the_columns(device):
    a, k = rows_of("float32"), COLS + 3
    ids = np.arange(a.size, dtype=np.int32).reshape(a.shape) * 3
    row_k = {"row_k": jnp.array([0, 1, 7, 39, 40, 41, 42, 43, 44, 99, -1, 2**31 - 1])}
    some = arrays("lengths", "starts")
    for given in (arrays("lengths"), row_k, some | row_k, some | row_k | {"ids": jnp.asarray(ids)}):
        for options in ({}, {"mode": "smallest"}, {"magnitude": True, "sorted": False}):
            result = top_k(jnp.asarray(a), k, return_threshold=True, **given, **options)
            expect(result, Expected(a, k, **on_host(given), **options), np.int32)
        if "ids" not in given:
            turned = top_k(jnp.asarray(a.T), k, axis=0, return_threshold=True, **given)
            expect(turned, Expected(a.T, k, axis=0, **on_host(given)), np.int32)
            assert_same([top_k_mask(jnp.asarray(a), k, **given)], [Expected(a, k, **on_host(given)).mask])
    for shape in ((ROWS, 0), (0, COLS), (0, 0)):
        empty = np.empty(shape, np.float32)
        few = {name: each[: shape[0]] for name, each in (some | row_k).items()}
        for given in (few, {"lengths": few["lengths"]}):
            given = given | {"ids": jnp.empty(shape, jnp.int32)}
            result = top_k(jnp.asarray(empty), k, return_threshold=True, **given)
            expect(result, Expected(empty, k, **on_host(given)), np.int32)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes(device, axis):
    draw = np.random.default_rng(0)
    a = np.asarray(normal((5, 6, 30)))
    size, others = a.shape[axis], np.delete(a.shape, axis)
    given = {name: draw.integers(-1, size + 2, others).astype(np.int32) for name in NUMBERS}
    ids = draw.integers(1000, size=a.shape).astype(np.int32)
    shared = draw.integers(1000, size=size).astype(np.int32)
    for each in (ids, shared):
        for rows in ({}, given):
            result = top_k(jnp.asarray(a), 4, axis=axis, ids=each, return_threshold=True, **rows)
            expect(result, Expected(a, 4, axis=axis, ids=each, **rows), np.int32)
    expected = Expected(a, 4, axis=axis, **given)
    assert_same([top_k_mask(jnp.asarray(a), 4, axis=axis, **given)], [expected.mask])


@pytest.mark.parametrize("filler", [np.nan, np.inf, -np.inf])
def test_what_lies_behind_a_row_is_never_selected(device, filler):
    a = np.asarray(normal((ROWS, COLS)))
    dirty = jnp.where(np.arange(COLS) >= LENGTHS[:, None], filler, a)
    for options in ({}, {"mode": "smallest"}, {"magnitude": True}):
        result = top_k(dirty, K, lengths=jnp.asarray(LENGTHS), **options)
        expect(result, Expected(a, K, LENGTHS, **options), np.int32)


def test_rows_of_one_dimension(device):
    result = top_k(jnp.array([1.0, -7.0, 3.0, 9.0]), 2, lengths=3, magnitude=True, return_threshold=True)
    assert result.indices.tolist() == [1, 2] and result.threshold.shape == () and result.threshold == 3


def test_early_stopping(device):
    x, lengths = normal((50, 256)), jnp.asarray(np.random.default_rng(0).integers(0, 257, 50))
    exact = top_k(x, 32, lengths=lengths)[1]
    assert_same([top_k(x, 32, lengths=lengths, max_iter=100)[1]], [exact])
    stopped = np.asarray(top_k(x, 32, lengths=lengths, max_iter=2)[1])
    assert not np.array_equal(stopped, exact) and (stopped < lengths[:, None]).all()


# ---- Segments ----


@pytest.mark.parametrize(
    "offsets", [[0, 40, 41, 41, 120], [0, 0, 0], [30, 90], [-5, 3, 400, 500], [0, 50, 20, 70, 10], [0]], ids=str
)
def test_segments(device, offsets):
    offsets = np.array(offsets, np.int32)
    row_k = np.arange(len(offsets) - 1, dtype=np.int32)
    ids = np.random.default_rng(0).integers(1000, size=120).astype(np.int32)
    for dtype in ("float32", "bfloat16", "int32"):
        a = special_rows(dtype, 1, 120)[0] if dtype != "int32" else np.asarray(normal((120,), dtype, scale=3))
        for options in ORDERS:
            for more in ({}, {"row_k": row_k}, {"ids": ids}, {"magnitude": True}, {"max_length": 9}, {"max_length": 3}):
                result = top_k_segments(
                    jnp.asarray(a), jnp.asarray(offsets), K, return_threshold=True, **options, **more
                )
                expect(result, Expected(a, K, offsets=offsets, **options, **more), np.int32)


def test_segments_of_few_values_and_of_none(device):
    x = jnp.array([2.0, 5.0, 1.0])
    assert top_k_segments(x, [0, 2, 3], 4)[1].tolist() == [[1, 0, -1, -1], [2, -1, -1, -1]]
    values, indices, threshold = top_k_segments(x[:0], [0, 0, 0], 2, return_threshold=True, ids=jnp.array([], int))
    assert indices.tolist() == [[-1, -1], [-1, -1]] and (values == -jnp.inf).all() and (threshold == -jnp.inf).all()
    assert top_k_segments(x, [0, 3], 0)[0].shape == (1, 0)
    assert top_k_segments(x, [0], 2)[0].shape == (0, 2)


# ---- Transformations ----


def test_lengths_are_traced(device):
    """Other numbers need no other program."""
    traced = 0

    def count(x, lengths):
        nonlocal traced
        traced += 1
        return top_k(x, K, lengths=lengths)

    function = jax.jit(count)
    a = np.asarray(normal((ROWS, COLS)))
    for seed in range(4):
        lengths = np.random.default_rng(seed).integers(-1, COLS + 2, ROWS).astype(np.int32)
        expect(function(jnp.asarray(a), jnp.asarray(lengths)), Expected(a, K, lengths), np.int32)
    assert traced == 1


@pytest.mark.parametrize("in_axes", [(0, 0, 0), (1, None, 0), (None, 0, None), (2, 1, 1), (0, None, None)])
def test_vmap_is_one_call(device, in_axes):
    draw = np.random.default_rng(0)
    shapes = {0: (3, 5, 30), 1: (5, 3, 30), 2: (5, 30, 3), None: (5, 30)}
    rows = {0: (3, 5), 1: (5, 3), None: (5,)}
    a = np.asarray(normal(shapes[in_axes[0]]))
    lengths, row_k = (draw.integers(-1, 32, rows[at]).astype(np.int32) for at in in_axes[1:])

    def select(x, lengths, row_k):
        return top_k(x, 4, lengths=lengths, row_k=row_k, return_threshold=True)

    function = jax.jit(jax.vmap(select, in_axes=in_axes))
    found = function(a, lengths, row_k)
    pairs = list(zip((a, lengths, row_k), in_axes, strict=True))
    for i in range(3):
        x, *numbers = (each if at is None else np.take(each, i, at) for each, at in pairs)
        expect([each[i] for each in found], Expected(x, 4, numbers[0], row_k=numbers[1]), np.int32)
    assert calls_in(function.lower(a, lengths, row_k).compile()) == 1


@pytest.mark.parametrize("axis, in_axis", [(0, 0), (-1, 1), (1, 2), (0, 2)])
def test_vmap_of_magnitudes_and_thresholds(device, axis, in_axis):
    x = normal((4, 5, 6))
    options = {"axis": axis, "magnitude": True, "return_threshold": True}
    found = jax.vmap(lambda x: top_k(x, 3, **options), in_axes=in_axis)(x)
    for i in range(x.shape[in_axis]):
        part = np.take(np.asarray(x), i, in_axis)
        expect([each[i] for each in found], Expected(part, 3, axis=axis, magnitude=True), np.int32)


def test_vmap_of_segments(device):
    a = np.asarray(normal((3, 20)))
    offsets = np.array([[0, 5, 5, 20], [0, 1, 2, 3], [7, 9, 18, 99]], np.int32)
    for values, own in ((a, offsets), (a, offsets[0]), (a[0], offsets)):
        in_axes = (0 if values.ndim == 2 else None, 0 if own.ndim == 2 else None)
        found = jax.jit(jax.vmap(lambda x, offsets: top_k_segments(x, offsets, 4), in_axes))(values, own)
        for i in range(3):
            part = values[i] if values.ndim == 2 else values
            expected = Expected(part, 4, offsets=own[i] if own.ndim == 2 else own)
            expect([each[i] for each in found], expected, np.int32)


def weights_of(places):
    return np.where(places < 0, 0, 1 + np.arange(places.size).reshape(places.shape)).astype(np.float32)


@pytest.mark.parametrize("k", [4, 33])
@pytest.mark.parametrize("axis", [0, 1])
def test_gradients_go_to_what_was_selected(device, k, axis):
    x = normal((9, 30))
    lengths = jnp.asarray(np.random.default_rng(0).integers(-1, 32, x.shape[1 - axis]), jnp.int32)
    ids = jnp.arange(x.shape[axis])
    places = np.asarray(top_k(x, k, axis=axis, lengths=lengths)[1])
    weights = weights_of(places)
    expected = np.zeros(x.shape, np.float32)
    moved, sources = np.moveaxis(places, axis, -1), np.moveaxis(weights, axis, -1)
    for row, (at, some) in enumerate(zip(moved, sources, strict=True)):
        np.add.at(np.moveaxis(expected, axis, -1)[row], at[at >= 0], some[at >= 0])

    def loss(x, **options):
        values, *_ = top_k(x, k, axis=axis, lengths=lengths, **options)
        return jnp.where(weights > 0, values * weights, 0).sum()

    for options in ({}, {"ids": ids}, {"return_threshold": True}):
        assert_same([jax.jit(jax.grad(lambda x: loss(x, **options)))(x)], [expected])  # noqa: B023
    tangent = normal(x.shape, seed=1)
    moved = jax.jvp(lambda x: top_k(x, k, axis=axis, lengths=lengths)[0], (x,), (tangent,))[1]
    whole = np.take_along_axis(np.asarray(tangent), places.clip(0), axis)
    assert_same([moved], [np.where(places < 0, np.float32(0), whole)])


def test_gradients_of_segments(device):
    """Also of such that overlap: they add up."""
    x = normal((20,))
    offsets = jnp.array([0, 8, 4, 20, 20])
    places = np.asarray(top_k_segments(x, offsets, 5)[1])
    weights = weights_of(places)
    expected = np.zeros(20, np.float32)
    np.add.at(expected, places[places >= 0], weights[places >= 0])
    loss = lambda x: jnp.where(weights > 0, top_k_segments(x, offsets, 5)[0] * weights, 0).sum()  # noqa: E731
    assert_same([jax.grad(loss)(x)], [expected])
    nothing = jax.grad(lambda x: jnp.where(False, top_k_segments(x, jnp.array([0, 0]), 2)[0], 0).sum())(x[:0])
    assert nothing.shape == (0,)


def test_gradients_of_other_forms(device):
    x, weights = normal((ROWS, COLS)), normal((ROWS, COLS), seed=1)
    lengths = jnp.asarray(LENGTHS)
    kept = np.asarray(top_k_mask(x, K, lengths=lengths))
    expected = np.where(kept, weights, np.float32(0))
    assert_same([jax.grad(lambda x: (maxk(x, K, lengths=lengths) * weights).sum())(x)], [expected])
    signed = np.asarray(top_k_mask(x, K, magnitude=True))
    found = jax.grad(lambda x: (maxk(x, K, magnitude=True) * weights).sum())(x)
    assert_same([found], [np.where(signed, weights, np.float32(0))])
    batched = jax.vmap(lambda x, n, w: jax.grad(lambda x: (maxk(x, K, lengths=n) * w).sum())(x))
    assert_same([batched(x, lengths, weights)], [expected])


def test_second_order_and_integers(device):
    x, lengths = normal((9,)), jnp.int32(6)
    places = np.asarray(top_k(x, 4, lengths=lengths)[1])
    hessian = jax.hessian(lambda x: (top_k(x, 4, lengths=lengths)[0] ** 3).sum())(x)
    diagonal = np.zeros(9, np.float32)
    diagonal[places] = 6 * np.asarray(x)[places]
    np.testing.assert_allclose(hessian, np.diag(diagonal), rtol=1e-6)
    numbers = jnp.arange(10, dtype=jnp.int32)
    gradient = jax.grad(lambda x: top_k(x, 3, lengths=lengths)[0].sum().astype(float), allow_int=True)(numbers)
    assert gradient.dtype == jax.dtypes.float0


def test_the_threshold_has_no_gradient(device):
    x = normal((5, 20))
    gradient = jax.grad(lambda x: top_k(x, 4, return_threshold=True).threshold.sum())(x)
    assert not gradient.any()


def test_scan(device):
    a, lengths = np.asarray(normal((4, 6, 30))), np.random.default_rng(0).integers(0, 31, (4, 6)).astype(np.int32)
    found = jax.lax.scan(lambda carry, each: (carry, top_k(each[0], 5, lengths=each[1])), 0, (a, lengths))[1]
    for i in range(4):
        expect([each[i] for each in found], Expected(a[i], 5, lengths[i]), np.int32)


# ---- Errors ----

X = normal((3, 4))


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda: top_k(X, -1, lengths=[1, 2, 3]), ValueError, "k argument to top_k must be nonnegative, got -1"),
        (lambda: top_k(X, 5, magnitude=True), ValueError, "k argument to top_k must be no larger than size along axis"),
        (lambda: top_k(X, 1, lengths=[1, 2]), ValueError, r"lengths has shape \(2,\); accepted: \(3,\)"),
        (lambda: top_k(X, 1, axis=0, starts=[1, 2, 3]), ValueError, r"starts has shape \(3,\); accepted: \(4,\)"),
        (lambda: top_k(X, 1, row_k=jnp.ones(3)), TypeError, "row_k has dtype float32; accepted: int32 or int64"),
        (lambda: top_k(X, 1, lengths=jnp.ones(3, jnp.int8)), TypeError, "lengths has dtype int8; accepted"),
        (lambda: top_k(X, 1, ids=[1, 2, 3]), ValueError, r"ids has shape \(3,\); accepted: \(3, 4\), or \(4,\)"),
        (lambda: top_k(X, 1, ids=X), TypeError, "ids has dtype float32; accepted: int32 or int64"),
        (lambda: top_k(X, 1, magnitude=1), TypeError, "magnitude is 1; accepted: True or False"),
        (lambda: top_k(X, 1, return_threshold="yes"), TypeError, "return_threshold is 'yes'; accepted: True or False"),
        (lambda: top_k(X, 0, return_threshold=True), ValueError, "k is 0; accepted with return_threshold: 1 or more"),
        (
            lambda: top_k(X, 1, lengths=[1, 2, 3], total_order=True),
            ValueError,
            "total_order is given with lengths; accepted: one of them",
        ),
        (
            lambda: top_k(X.astype(jnp.int8), 1, lengths=[1, 2, 3], magnitude=True),
            TypeError,
            "top_k does not take int8 with lengths and magnitude; accepted: float32, float16",
        ),
        (lambda: maxk(X, 1, lengths=[1, 2]), ValueError, r"lengths has shape \(2,\); accepted: \(3,\)"),
        (lambda: maxk(X, 5, magnitude=True), ValueError, "k argument to maxk must be no larger than size along axis"),
        (lambda: top_k_segments(X, [0, 3], 1), ValueError, "operand has 2 dimensions; accepted: 1"),
        (lambda: top_k_segments(X[0], 3, 1), ValueError, r"offsets has shape \(\); accepted: one dimension"),
        (lambda: top_k_segments(X[0], jnp.array([], int), 1), ValueError, r"offsets has shape \(0,\)"),
        (lambda: top_k_segments(X[0], X[0], 1), TypeError, "offsets has dtype float32; accepted: int32 or int64"),
        (
            lambda: top_k_segments(X[0], [0, 3], 1, row_k=[1, 2]),
            ValueError,
            r"row_k has shape \(2,\); accepted: \(1,\)",
        ),
        (lambda: top_k_segments(X[0], [0, 3], 1, ids=[1]), ValueError, r"ids has shape \(1,\); accepted: \(4,\)"),
        (lambda: top_k_segments(X[0], [0, 3], 1, max_length=0), ValueError, "max_length is 0; accepted: None, or 1"),
        (lambda: top_k_segments(X[0], [0, 3], 1, max_length=1.5), TypeError, "integer"),
        (
            lambda: top_k_segments(X[0].astype(jnp.int16), [0, 3], 1),
            TypeError,
            "top_k_segments does not take int16 with offsets; accepted: float32",
        ),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
