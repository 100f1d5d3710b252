"""Calls on a GPU: streams, CUDA graphs, workspaces, several sizes of every family of kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from comparison import FLOATS, assert_same, normal, special_rows
from rtopk.jax import maxk, top_k, top_k_segments

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_gpu():
    with jax.default_device(jax.devices("cuda")[0]):
        yield


def on_cpu(function, x):
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.tree.leaves(function(jax.device_put(np.asarray(x), jax.devices("cpu")[0])))


SHAPES = [
    ((1000, 8), 3),
    ((4096, 256), 32),
    ((4096, 256), 200),
    ((300, 2048), 64),
    ((100, 10000), 500),
    ((1, 1_000_000), 100),
    ((3, 300_000), 20_000),
    ((2000, 5001), 17),
]


@pytest.mark.parametrize("shape, k", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_bits_as_on_the_cpu(shape, k, dtype):
    x = normal(shape, dtype)
    for options in ({}, {"sorted": False, "mode": "smallest"}, {"max_iter": 4}):
        results = top_k(x, k, **options)
        assert all(result.devices() == x.devices() for result in results)
        assert_same(results, on_cpu(lambda x: top_k(x, k, **options), x))  # noqa: B023
    assert_same([maxk(x, k)], on_cpu(lambda x: maxk(x, k), x))


@pytest.mark.parametrize("dtype", [name for name in FLOATS if name != "float64"])
def test_special_values(dtype):
    x = jnp.asarray(special_rows(dtype, rows=500))
    for options in ({}, {"total_order": True}, {"mode": "smallest"}):
        assert_same(top_k(x, 20, **options), on_cpu(lambda x: top_k(x, 20, **options), x))  # noqa: B023


@pytest.mark.parametrize("axis", [0, 1])
def test_other_axes(axis):
    x = normal((400, 70, 33))
    assert_same(top_k(x, 9, axis=axis), on_cpu(lambda x: top_k(x, 9, axis=axis), x))


@pytest.mark.parametrize("shape, k", SHAPES, ids=str)
def test_general_rows(shape, k):
    draw = np.random.default_rng(0)
    lengths, row_k = (draw.integers(-1, most, shape[0]).astype(np.int32) for most in (shape[1] + 2, k + 2))
    ids = jnp.arange(shape[1]) * 2
    for x in (normal(shape), jnp.asarray(special_rows("bfloat16", *shape))):
        for options in ({}, {"mode": "smallest", "sorted": False}, {"magnitude": True}):
            options = options | {"lengths": lengths, "row_k": row_k, "ids": ids, "return_threshold": True}
            assert_same(top_k(x, k, **options), on_cpu(lambda x: top_k(x, k, **options), x))  # noqa: B023
        assert_same([maxk(x, k, lengths=lengths)], on_cpu(lambda x: maxk(x, k, lengths=lengths), x))  # noqa: B023


def test_segments():
    x = normal((100_000,))
    offsets = np.sort(np.random.default_rng(0).integers(0, 100_001, 300)).astype(np.int32)
    for max_length in (None, 3000):
        found = top_k_segments(x, offsets, 20, max_length=max_length)
        assert_same(found, on_cpu(lambda x: top_k_segments(x, offsets, 20, max_length=max_length), x))  # noqa: B023


def capturable(function, x):
    return "rtopk_select_capturable" in jax.jit(function).lower(x).compile().as_text()


def test_calls_can_be_part_of_a_cuda_graph():
    """Also those that need a workspace: it is one of the program's buffers."""
    assert capturable(lambda x: top_k(x, 9), normal((100, 200)))
    assert capturable(lambda x: top_k(x, 20_000), normal((3, 300_000)))
    assert capturable(lambda x: top_k(x, 9, lengths=jnp.arange(100)), normal((100, 200)))


def many_steps(x):
    """A few small kernels and selections, with and without a workspace, as a command buffer would take them."""
    total = jnp.zeros(x.shape[0])
    for step in range(6):
        values, indices = top_k(x + step, 300, axis=1)
        x = x * 1.5 - values[:, :1]
        total = total + values.sum(1) + indices.sum(1)
    return x, total


@pytest.mark.parametrize("rows, cols", [(64, 1000), (2, 200_000)])
def test_results_of_replayed_graphs(rows, cols):
    """Many launches of one program, of which XLA makes a CUDA graph, on other arrays each time."""
    function = jax.jit(many_steps)
    for seed in range(5):
        x = normal((rows, cols), seed=seed)
        indices = top_k(x, 300)[1]
        first = function(x)
        again = function(jnp.array(x))
        assert_same(jax.tree.leaves(again), jax.tree.leaves(first))
        assert_same([indices], on_cpu(lambda x: top_k(x, 300)[1], x))


def test_calls_in_a_row_without_waiting():
    """Workspaces of calls that are queued behind each other do not disturb them."""
    function = jax.jit(lambda x: top_k(x, 20_000))
    inputs = [normal((2, 300_000), seed=seed) for seed in range(6)]
    results = [function(x) for x in inputs]
    for x, result in zip(inputs, results, strict=True):
        assert_same(result, on_cpu(lambda x: top_k(x, 20_000), x))


def test_all_gpus_of_the_machine():
    gpus = jax.devices("cuda")
    if len(gpus) < 2:
        pytest.skip("there is one GPU")
    mesh = jax.sharding.Mesh(np.array(gpus), ("gpus",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("gpus", None))
    x = jax.device_put(normal((64 * len(gpus), 3000)), rows)
    compiled = jax.jit(lambda x: top_k(x, 50)).lower(x).compile()
    assert "all-gather" not in compiled.as_text()
    assert_same(compiled(x), on_cpu(lambda x: top_k(x, 50), x))
