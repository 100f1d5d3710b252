"""Exact comparison with jax.lax, and rows that are hard to order."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def bits(array):
    """The bytes of an array, whatever its elements are."""
    return np.ascontiguousarray(np.asarray(array)).reshape(-1).view(np.uint8)


def assert_same(found, expected):
    """The same types, shapes and bits."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(bits(one), bits(other))


def lax_top_k(operand, k, axis=-1):
    """jax.lax.top_k along any axis, on the CPU: it has had an axis only for a while, and on GPUs its order of NaN and
    zeros hangs on the kernel that XLA picks."""
    moved = np.ascontiguousarray(np.moveaxis(np.asarray(operand), axis, -1))
    with jax.default_device(jax.devices("cpu")[0]):
        results = lax.top_k(jnp.asarray(moved), k)
    return [np.moveaxis(np.asarray(result), -1, axis) for result in results]


def normal(shape, dtype="float32", seed=0, scale=1.0):
    """Made by NumPy: JAX compiles for each shape."""
    numbers = np.random.default_rng(seed).standard_normal(shape) * scale
    return jnp.asarray(numbers.astype(np.float32).astype(jnp.dtype(dtype)))


FLOATS = ("float32", "float16", "bfloat16", "float64")
_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def special_rows(dtype, rows=40, cols=70, seed=0):
    """Rows of NaN of both signs, of several payloads, infinities, zeros of both signs, and few distinct numbers."""
    dtype = jnp.dtype(dtype)
    unsigned = _BITS[dtype.itemsize]
    top = 8 * dtype.itemsize - 1
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan], np.float64).astype(dtype)
    # NumPy's NaN is positive; beside it: negative, and with another payload. lax.top_k changes payloads of bfloat16.
    nan = values[-1:].view(unsigned)
    sign, low = unsigned(1 << top), unsigned(dtype != jnp.bfloat16)
    choices = np.concatenate([values.view(unsigned), nan | sign, nan | low, nan | low | sign])
    draw = np.random.default_rng(seed)
    chosen = draw.choice(choices, (rows, cols))
    # Some rows with one kind alone beside numbers.
    ordinary = draw.standard_normal((rows, cols)).astype(dtype).view(unsigned)
    rare = draw.random((rows, cols)) < 0.05
    mixed = np.where(rare, chosen, ordinary)
    chosen[rows // 2 :] = mixed[rows // 2 :]
    return chosen.view(dtype)


def ordered_by_value(row, smallest=False):
    """Indices in rtopk's order: NaN of any sign is the greatest value, -0 equals +0, ties by ascending index."""
    wide = np.asarray(row).astype(np.float64)
    key = np.where(np.isnan(wide), np.inf, wide)
    nan = np.isnan(wide)
    # lexsort sorts by its last key first.
    keys = (key, nan) if smallest else (-key, ~nan)
    return np.lexsort(keys)
