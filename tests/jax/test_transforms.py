"""Transformations of JAX: jit, vmap, derivatives, loops, donation."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from comparison import assert_same, lax_top_k, normal
from rtopk.jax import top_k


def calls_in(compiled):
    """How many calls of the library a compiled function has."""
    return len(re.findall(r'custom_call_target="rtopk_select', compiled.as_text()))


def loss(top_k, **options):
    """Every result has a weight of its own, so that a gradient tells which one it came from."""

    def function(x):
        values, indices = top_k(x, 5, **options)
        weights = jnp.arange(1, 1 + values.size).reshape(values.shape)
        return jnp.sum(jnp.sin(values) * weights * (1 + indices))

    return function


# ---- jit and vmap ----


def test_a_call_in_a_compiled_function(device):
    x = normal((6, 40))
    function = jax.jit(lambda x: top_k(x * 2, 5))
    assert_same(function(x), lax_top_k(x * 2, 5))
    assert calls_in(function.lower(x).compile()) == 1


@pytest.mark.parametrize("in_axes, axis", [(0, -1), (1, 0), (2, 1), (-1, -2)])
def test_vmap_is_one_call(device, in_axes, axis):
    x = normal((4, 7, 30))
    function = jax.jit(jax.vmap(lambda row: top_k(row, 2, axis=axis), in_axes=in_axes))
    expected = jax.vmap(lambda row: jax.lax.top_k(jnp.moveaxis(row, axis, -1), 2), in_axes=in_axes)(x)
    assert_same(function(x), [jnp.moveaxis(result, -1, axis if axis < 0 else axis + 1) for result in expected])
    assert calls_in(function.lower(x).compile()) == 1


def test_nested_vmap_and_other_types(device):
    x = normal((3, 4, 50), scale=20).astype(jnp.int16)
    function = jax.jit(jax.vmap(jax.vmap(lambda row: top_k(row, 6, mode="smallest"))))
    assert_same(function(x), top_k(x, 6, mode="smallest"))
    assert calls_in(function.lower(x).compile()) == 1


def test_vmap_of_what_is_not_batched(device):
    x = normal((30,))
    function = jax.vmap(lambda weight: top_k(x, 3)[0] * weight)
    np.testing.assert_array_equal(function(jnp.ones(2)), np.stack([lax_top_k(x, 3)[0]] * 2))


def test_eval_shape_makes_no_array():
    big = jax.ShapeDtypeStruct((1 << 20, 1 << 20), jnp.bfloat16)
    values, indices = jax.eval_shape(lambda x: top_k(x, 9, axis=0), big)
    assert (values.shape, values.dtype) == ((9, 1 << 20), jnp.bfloat16)
    assert (indices.shape, indices.dtype) == ((9, 1 << 20), jnp.int32)


# ---- Derivatives ----


@pytest.mark.parametrize(
    "dtype, options",
    [
        ("bfloat16", {}),
        ("float32", {"total_order": True}),
        ("float32", {"sorted": False, "mode": "smallest"}),
        ("float32", {"axis": 0}),
    ],
)
def test_gradients_go_to_what_was_selected(device, dtype, options):
    x = normal((12, 11), dtype)

    def gathered(x, k, **options):
        indices = top_k(jax.lax.stop_gradient(x), k, **options)[1]
        return jnp.take_along_axis(x, indices, options.get("axis", -1)), indices

    assert_same([jax.grad(loss(top_k, **options))(x)], [jax.grad(loss(gathered, **options))(x)])


def test_gradients_of_lax(device):
    x = normal((8, 40))
    assert_same([jax.jit(jax.grad(loss(top_k)))(x)], [jax.jit(jax.grad(loss(jax.lax.top_k)))(x)])


def test_forward_mode(device):
    x, tangent = normal((8, 40)), normal((8, 40), seed=1)
    found, expected = (jax.jvp(lambda x: f(x, 5)[0], (x,), (tangent,)) for f in (top_k, jax.lax.top_k))  # noqa: B023
    assert_same(found, expected)


def test_second_order(device):
    x = normal((9,))

    def cubes(top_k):
        return lambda x: jnp.sum(top_k(x, 3)[0] ** 3)

    for derivative in (jax.hessian, lambda f: jax.jacrev(jax.jacrev(f))):
        assert_same([derivative(cubes(top_k))(x)], [derivative(cubes(jax.lax.top_k))(x)])


def test_gradients_under_vmap(device):
    x = normal((3, 4, 20))
    assert_same([jax.vmap(jax.grad(loss(top_k)))(x)], [jax.vmap(jax.grad(loss(jax.lax.top_k)))(x)])


def test_integers_have_no_gradient(device):
    x = jnp.arange(10, dtype=jnp.int32)
    found = jax.grad(lambda scale: (top_k(x, 3)[0] * scale).sum())(1.0)
    assert found == 9 + 8 + 7
    assert jax.grad(lambda x: top_k(x, 3)[0].sum().astype(float), allow_int=True)(x).dtype == jax.dtypes.float0


def test_the_transpose_is_a_scatter_without_a_sort(device):
    """Indices of a row are distinct, and JAX knows it."""
    text = jax.jit(jax.grad(loss(top_k))).lower(normal((8, 40))).as_text()
    assert "unique_indices = true" in text


# ---- Loops and memory ----


def test_checkpoint(device):
    x = normal((6, 30))
    assert_same([jax.grad(jax.checkpoint(loss(top_k)))(x)], [jax.grad(loss(jax.lax.top_k))(x)])


def test_scan(device):
    x = normal((5, 6, 30))

    def step(top_k):
        def one(carry, rows):
            values, indices = top_k(rows + carry[:, None], 4)
            return values[:, -1], (values, indices)

        return one

    found, expected = (jax.lax.scan(step(f), jnp.zeros(6), x) for f in (top_k, jax.lax.top_k))
    assert_same(jax.tree.leaves(found), jax.tree.leaves(expected))
    total = [jax.grad(lambda x: jax.lax.scan(step(f), jnp.zeros(6), x)[0].sum())(x) for f in (top_k, jax.lax.top_k)]  # noqa: B023
    assert_same(total[:1], total[1:])


def test_cond_and_while(device):
    x = normal((6, 30))
    branch = jax.jit(lambda flag, x: jax.lax.cond(flag, lambda x: top_k(x, 3)[0], lambda x: x[:, :3], x))
    assert_same([branch(True, x), branch(False, x)], [lax_top_k(x, 3)[0], x[:, :3]])
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, x: x.at[:, :4].set(-top_k(x, 4)[0]), x))
    expected = x
    for _ in range(3):
        expected = expected.at[:, :4].set(-lax_top_k(expected, 4)[0])
    assert_same([loop(x)], [expected])


def test_donated_buffers(device):
    """A result as large as the operand may take its memory, but not before it was read."""
    x = normal((64, 32))
    expected = lax_top_k(x, 32)
    assert_same(jax.jit(lambda x: top_k(x, 32), donate_argnums=0)(x), expected)
    y = normal((64, 32))
    sums = np.asarray(y) + lax_top_k(y, 32)[0]
    np.testing.assert_array_equal(jax.jit(lambda y: y + top_k(y, 32)[0], donate_argnums=0)(y), sums)


def test_calls_from_many_threads(device):
    from concurrent.futures import ThreadPoolExecutor

    function = jax.jit(lambda x: top_k(x, 9))
    inputs = [normal((50, 200), seed=seed) for seed in range(16)]
    with ThreadPoolExecutor(8) as pool:
        for x, found in zip(inputs, pool.map(function, inputs), strict=True):
            assert_same(found, lax_top_k(x, 9))
