"""Results of top_k: the same bits as jax.lax.top_k gives, or as the order of values asks for."""

import contextlib
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtopk.jax
from comparison import FLOATS, assert_same, lax_top_k, normal, ordered_by_value, special_rows
from rtopk.jax import top_k

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def wide_types(dtype):
    """float64 and 64-bit integers need a switch of JAX."""
    needs = jnp.dtype(dtype).itemsize == 8
    try:
        from jax import enable_x64
    except ImportError:
        from jax.experimental import enable_x64
    return enable_x64(True) if needs else contextlib.nullcontext()


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS, "int64", "uint64", "bool", "float8_e4m3fn", "float8_e5m2"))
@pytest.mark.parametrize("shape, k", [((33, 200), 7), ((5, 3000), 300)])
def test_bits_of_lax(device, dtype, shape, k):
    """Numbers with many ties; no zeros, and no NaN."""
    with wide_types(dtype):
        numbers = np.round(np.random.default_rng(k).standard_normal(shape) * 30)
        x = jnp.asarray(np.where(numbers == 0, 1, numbers).astype(np.float32).astype(np.int32).astype(jnp.dtype(dtype)))
        assert_same(top_k(x, k), lax_top_k(x, k))


def test_the_arguments_of_lax(device):
    """All that this lax.top_k has, with its defaults."""
    ours = inspect.signature(top_k).parameters
    for name, parameter in inspect.signature(jax.lax.top_k).parameters.items():
        assert (ours[name].kind, ours[name].default) == (parameter.kind, parameter.default), name


def test_equal_elements_keep_their_order(device):
    """is_stable=False allows any order of theirs, and changes nothing."""
    x = jnp.asarray(np.random.default_rng(0).integers(0, 3, (20, 50)).astype(np.float32))
    for is_stable in (True, False):
        assert_same(top_k(x, 30, is_stable=is_stable), lax_top_k(x, 30))


def test_a_list_as_from_lax(device):
    assert type(top_k(normal((4, 8)), 2)) is type(jax.lax.top_k(normal((4, 8)), 2)) is list


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("k", [5, 70])
def test_total_order_has_the_bits_of_lax(dtype, k):
    """NaN of both signs and any payload, infinities, zeros of both signs."""
    with wide_types(dtype), jax.default_device(jax.devices("cpu")[0]):
        x = jnp.asarray(special_rows(dtype))
        assert_same(top_k(x, k, total_order=True), lax_top_k(x, k))
        reverse = top_k(x, k, total_order=True, mode="smallest")
        values, indices = lax_top_k(-np.asarray(x), k)  # which reverses the order of bits
        assert_same(reverse, (-values, indices))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["largest", "smallest"])
@pytest.mark.parametrize("k", [1, 33])
def test_the_order_of_values(device, dtype, mode, k):
    """The library's order: NaN of any sign is the greatest, -0 equals +0, ties by index. Values are bit copies."""
    with wide_types(dtype):
        x = special_rows(dtype)
        order = np.stack([ordered_by_value(row, mode == "smallest")[:k] for row in x])
        values, indices = top_k(jnp.asarray(x), k, mode=mode)
        assert_same([indices, values], [order.astype(np.int32), np.take_along_axis(x, order, 1)])
        rising = np.sort(order)
        values, indices = top_k(jnp.asarray(x), k, mode=mode, sorted=False)
        assert_same([indices, values], [rising.astype(np.int32), np.take_along_axis(x, rising, 1)])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_where_the_two_orders_agree(dtype):
    """Rows with positive NaN of one payload, and zeros of one sign, have the bits of lax without total_order."""
    x = np.array(normal((50, 90), dtype))
    x[:, ::7], x[:, 1::5], x[:, 2::9], x[:, 3::9] = np.nan, 0.0, np.inf, -np.inf
    assert_same(top_k(jnp.asarray(x), 60), lax_top_k(x, 60))


@pytest.mark.parametrize("dtype", [*INTEGERS, "int64", "uint64"])
def test_extremes_of_integers(device, dtype):
    with wide_types(dtype):
        limits = np.iinfo(dtype)
        row = np.array([3, limits.max, limits.min, 5, limits.max - 1, limits.min + 1, limits.max, limits.min], dtype)
        assert_same(top_k(jnp.asarray(row), 8), lax_top_k(jnp.asarray(row), 8))
        order = np.argsort(row, kind="stable")
        values, indices = top_k(jnp.asarray(row), 8, mode="smallest")
        assert_same([values, indices], [row[order], order.astype(np.int32)])
        unsorted = top_k(jnp.asarray(row), 3, sorted=False)
        np.testing.assert_array_equal(unsorted[1], [1, 4, 6])


@pytest.mark.parametrize("axis", [-1, -2, 1, 0])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_any_axis(device, axis, dtype):
    x = normal((3, 8, 5, 6), dtype, scale=20)
    assert_same(top_k(x, 3, axis=axis), lax_top_k(x, 3, axis))


@pytest.mark.parametrize("shape, k, axis", [((7, 300), 0, -1), ((0, 4), 2, -1), ((4, 0), 0, 1), ((4, 3, 0), 2, 1)])
def test_empty(device, shape, k, axis):
    x = jnp.ones(shape)
    assert_same(top_k(x, k, axis=axis), lax_top_k(x, k, axis))


EARLY = ({"max_iter": 3}, {"max_iter": 5, "rule": "printed"}, {"epsilon": 0.05}, {"max_iter": 2, "search": "bisection"})


@pytest.mark.parametrize("cols", [31, 3000])
def test_early_stopping_is_the_librarys(cols):
    """The same bits as from the library's C interface."""
    import librtopk

    (path,) = rtopk.jax._library.PATH.parent.glob("librtopk.so*")
    library = librtopk.Library(path)
    x = np.asarray(normal((9, cols)))
    k = max(1, cols // 20)
    for options in EARLY:
        values, indices = np.empty((9, k), np.float32), np.empty((9, k), np.int32)
        selection = library.topk_cpu(9, cols, k, "f32", order="by_value", **options)
        selection.run(x.ctypes.data, values.ctypes.data, indices.ctypes.data)
        with jax.default_device(jax.devices("cpu")[0]):
            assert_same(top_k(jnp.asarray(x), k, **options), [values, indices])


def test_numpy_arrays_and_scalars_of_numpy(device):
    x = np.random.default_rng(0).standard_normal((5, 9))
    assert_same(top_k(x, 3), jax.lax.top_k(x, 3))  # float64 becomes float32, as everywhere in JAX


def test_without_compilation(device):
    x = normal((6, 50))
    with jax.disable_jit():
        assert_same(top_k(x, 5), lax_top_k(x, 5))
