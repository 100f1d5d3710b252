"""Calls on arrays that are split over four devices, run by test_sharding.py in a process with that many."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from comparison import assert_same, lax_top_k, normal
from rtopk.jax import maxk, top_k, top_k_segments

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
LINE = Mesh(np.array(jax.devices()), ("a",))
SQUARE = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
MATRIX, CUBE = normal((16, 40)), normal((4, 12, 40))


def check(name, function, x, expected, spec, mesh, result_spec, gathers=False):
    """The compiled function gives these results, split like this, without a word between devices."""
    split = jax.device_put(x, NamedSharding(mesh, spec))
    compiled = jax.jit(function).lower(split).compile()
    results = compiled(split)
    assert_same(results, expected)
    text = compiled.as_text()
    found = [word for word in COLLECTIVES if word in text]
    assert bool(found) == gathers, (name, found)
    for result in results:
        wanted = NamedSharding(mesh, result_spec)
        assert result.sharding.is_equivalent_to(wanted, result.ndim), (name, result.sharding)
    print(name)


def gradient(x):
    return [jax.grad(lambda x: (top_k(x, 5)[0] ** 2).sum())(x)]


def main():
    rows, columns = P("a", None), P(None, "a")
    pairs = lax_top_k(MATRIX, 5)
    check("rows", lambda x: top_k(x, 5), MATRIX, pairs, rows, LINE, rows)
    check("total order", lambda x: top_k(x, 5, total_order=True), MATRIX, pairs, rows, LINE, rows)
    check("columns", lambda x: top_k(x, 5, axis=0), MATRIX, lax_top_k(MATRIX, 5, 0), columns, LINE, columns)
    both = P("a", "b", None)
    check("two dimensions", lambda x: top_k(x, 5), CUBE, lax_top_k(CUBE, 5), both, SQUARE, both)
    check("vmap", jax.vmap(lambda x: top_k(x, 5)), CUBE, lax_top_k(CUBE, 5), both, SQUARE, both)
    check("maxk", lambda x: [maxk(x, 5)], MATRIX, [maxk(MATRIX, 5)], rows, LINE, rows)
    check("gradient", gradient, MATRIX, gradient(MATRIX), rows, LINE, rows)
    general_rows(rows, columns)
    # The elements of a row have to come together.
    check("along the axis", lambda x: top_k(x, 5), MATRIX, pairs, columns, LINE, P(), gathers=True)

    some = shard_map(
        lambda x, n: tuple(top_k(x, 5, lengths=n, return_threshold=True)),
        mesh=LINE, in_specs=(rows, P("a")), out_specs=(rows, rows, P("a")),
    )  # fmt: skip
    lengths = jnp.arange(16)
    assert_same(some(MATRIX, lengths), top_k(MATRIX, 5, lengths=lengths, return_threshold=True))
    mapped = jax.jit(shard_map(lambda x: tuple(top_k(x, 5)), mesh=LINE, in_specs=rows, out_specs=rows))
    assert_same(mapped(MATRIX), pairs)
    assert not any(word in mapped.lower(MATRIX).compile().as_text() for word in COLLECTIVES)
    inside = shard_map(lambda x: maxk(x, 5) ** 2, mesh=LINE, in_specs=rows, out_specs=rows)
    expected = jax.grad(lambda x: (maxk(x, 5) ** 2).sum())(MATRIX)
    assert_same([jax.grad(lambda x: inside(x).sum())(MATRIX)], [expected])
    print("shard_map")

    if hasattr(jax, "set_mesh"):
        explicit(rows, columns, pairs)


def general_rows(rows, columns):
    """Numbers of rows, which are whole on every device, are cut as the rows are."""
    lengths = np.random.default_rng(0).integers(-1, 42, 16).astype(np.int32)
    ids = np.arange(MATRIX.size, dtype=np.int32).reshape(MATRIX.shape)
    options = {"lengths": lengths, "row_k": lengths % 7, "return_threshold": True}
    split, (one,) = NamedSharding(LINE, rows), jax.devices()[:1]
    compiled = jax.jit(lambda x, ids: top_k(x, 5, ids=ids, **options))
    compiled = compiled.lower(jax.device_put(MATRIX, split), jax.device_put(ids, split)).compile()
    results = compiled(jax.device_put(MATRIX, split), jax.device_put(ids, split))
    assert not any(word in compiled.as_text() for word in COLLECTIVES)
    assert_same(results, top_k(jax.device_put(MATRIX, one), 5, ids=ids, **options))
    for result in results:
        wanted = NamedSharding(LINE, P("a", *(None for _ in result.shape[1:])))
        assert result.sharding.is_equivalent_to(wanted, result.ndim), result.sharding
    offsets = np.array([0, 9, 9, 500, 640], np.int32)
    expected = top_k_segments(MATRIX.reshape(-1), offsets, 5)
    flat = jax.device_put(MATRIX.reshape(-1), NamedSharding(LINE, P("a")))
    assert_same(jax.jit(lambda x: top_k_segments(x, offsets, 5))(flat), expected)
    turned = {"lengths": np.resize(lengths, 40), "return_threshold": True}
    expected = top_k(jax.device_put(MATRIX, one), 5, axis=0, **turned)
    check("general rows", lambda x: top_k(x, 5, axis=0, **turned)[:2], MATRIX, expected[:2], columns, LINE, columns)


def explicit(rows, columns, pairs):
    """Shardings as a part of types."""
    mesh = jax.make_mesh((4,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        split = jax.device_put(MATRIX, NamedSharding(mesh, rows))
        results = top_k(split, 5)
        assert_same(results, pairs)
        assert all(jax.typeof(result).sharding.spec == rows for result in results)
        lengths = jax.device_put(jnp.arange(16), NamedSharding(mesh, P("a")))
        *_, threshold = top_k(split, 5, lengths=lengths, return_threshold=True)
        assert jax.typeof(threshold).sharding.spec == P("a")
        other = jax.device_put(MATRIX, NamedSharding(mesh, columns))
        assert jax.typeof(jax.jit(lambda x: top_k(x, 5, axis=0)[0])(other)).sharding.spec == columns
        try:
            top_k(other, 5)
        except ValueError as error:
            assert "split over devices along axis 1" in str(error)
        else:
            sys.exit("a row that is split was not refused")
    print("explicit")


if __name__ == "__main__":
    assert len(jax.devices()) == 4 and jnp.asarray(0).devices()
    main()
