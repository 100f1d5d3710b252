"""maxk, and the functions that stand for jax.lax.approx_max_k and approx_min_k."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from comparison import assert_same, lax_top_k, normal, special_rows
from rtopk.jax import approx_max_k, approx_min_k, maxk, top_k


def scattered(x, k, axis=-1, **options):
    """What maxk gives, from the indices of top_k."""
    indices = np.asarray(top_k(x, k, axis=axis, **options)[1])
    kept = np.zeros(x.shape, bool)
    np.put_along_axis(kept, indices, True, axis)
    return np.where(kept, np.asarray(x), np.zeros((), x.dtype)), kept


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("axis", [-1, 0])
def test_values(device, dtype, axis):
    x = jnp.asarray(special_rows(dtype)) if dtype != "int32" else normal((40, 70), dtype, scale=9)
    assert_same([maxk(x, 6, axis=axis)], [scattered(x, 6, axis)[0]])


@pytest.mark.parametrize("options", [{"mode": "smallest"}, {"max_iter": 3}, {"epsilon": 0.1}])
def test_options(device, options):
    x = normal((9, 100))
    assert_same([maxk(x, 10, **options)], [scattered(x, 10, **options)[0]])


def test_nothing_and_everything(device):
    x = normal((4, 9))
    assert_same([maxk(x, 0), maxk(x, 9), maxk(x[:0], 2)], [jnp.zeros_like(x), x, x[:0]])


def test_gradients_go_to_what_was_kept(device):
    """Also where a kept element is zero."""
    x = normal((5, 30)).at[:, :20].set(-1.0).at[:, 3].set(0.0)
    weights = normal((5, 30), seed=1)
    kept = scattered(x, 12)[1]
    assert kept[:, 3].all()
    expected = np.where(kept, weights, np.float32(0))
    assert_same([jax.grad(lambda x: (maxk(x, 12) * weights).sum())(x)], [expected])
    assert_same([jax.jvp(lambda x: maxk(x, 12), (x,), (weights,))[1]], [expected])
    batched = jax.jit(jax.vmap(lambda x, w: jax.grad(lambda x: (maxk(x, 12) * w).sum())(x)))
    assert_same([batched(x, weights)], [expected])


def test_second_order(device):
    x = normal((9,))
    kept = scattered(x, 4)[1]
    expected = np.diag(np.where(kept, 6 * np.asarray(x), np.float32(0)))
    np.testing.assert_array_equal(jax.hessian(lambda x: (maxk(x, 4) ** 3).sum())(x), expected)


# ---- approx_max_k and approx_min_k ----


def test_recall_is_one(device):
    x = normal((20, 3000))
    for recall in (0.5, 0.95, 1.0):
        assert_same(approx_max_k(x, 40, recall_target=recall), lax_top_k(x, 40))
    assert_same(approx_min_k(x, 40), top_k(x, 40, mode="smallest"))


def test_arguments_of_lax(device):
    x = normal((3000, 5))
    found = approx_max_k(x, 7, 0, 0.9, 6000, True)
    assert_same(found, lax_top_k(x, 7, 0))
    assert type(found) is type(jax.lax.approx_max_k(x, 7, 0, 0.9, 6000, True))
    values, indices = approx_max_k(x, 7, 0, aggregate_to_topk=False)
    assert_same([indices], [jnp.sort(found[1], axis=0)])
    assert_same([values], [jnp.take_along_axis(x, indices, 0)])


def test_gradients_of_lax(device):
    x = normal((4, 300))
    found, expected = (
        jax.grad(lambda x: (f(x, 5)[0] * jnp.arange(5)).sum())(x)  # noqa: B023
        for f in (approx_max_k, jax.lax.top_k)
    )
    assert_same([found], [expected])


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: f(x, 0),
        lambda f, x: f(x, 301),
        lambda f, x: f(x.astype(jnp.int32), 3),
        lambda f, x: f(jnp.float32(3), 1),
    ],
)
@pytest.mark.parametrize("ours, theirs", [(approx_max_k, jax.lax.approx_max_k), (approx_min_k, jax.lax.approx_min_k)])
def test_errors_of_lax(call, ours, theirs):
    x = normal((4, 300))
    with pytest.raises((ValueError, TypeError)) as expected:
        call(theirs, x)
    with pytest.raises((ValueError, TypeError)) as found:
        call(ours, x)
    assert (type(found.value), str(found.value)) == (type(expected.value), str(expected.value))


def test_a_recall_out_of_range():
    with pytest.raises(ValueError, match="recall_target is 1.5; accepted: above 0, at most 1"):
        approx_max_k(normal((3, 9)), 2, recall_target=1.5)
