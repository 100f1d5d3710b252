"""top_k: values and indices, as jax.lax.top_k gives them."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import zero_from_primal

from .._results import TopKThreshold
from ._arguments import checked_axis, checked_k, checked_operand, checked_options
from ._rows import gathered, top_k_of_rows
from ._select import DTYPES, Options, pairs


def top_k(
    operand: Any,
    k: int,
    *,
    axis: int = -1,
    is_stable: bool = True,
    mode: str = "largest",
    sorted: bool = True,
    max_iter: int | None = None,
    rule: str = "threshold_first",
    epsilon: float = 0.0,
    search: str = "fast",
    total_order: bool = False,
    lengths: Any = None,
    starts: Any = None,
    row_k: Any = None,
    ids: Any = None,
    magnitude: bool = False,
    return_threshold: bool = False,
) -> list[jax.Array] | TopKThreshold:
    """The k largest (or smallest) elements along an axis, with their int32 indices, as ``jax.lax.top_k`` gives them.

    Among equal elements the lowest indices are selected, and come first. It can be compiled, batched, differentiated
    and split over devices: see the page on JAX.

    Args:
        operand: an array with at least one dimension. float32, float16, bfloat16, float64 and int32 are selected from
            as they are; shorter integers, bool, uint32 and float8 are brought to one of these types first. int64 and
            uint64 are left to ``jax.lax.top_k``.
        k: how many elements to select, from 0 to the size along the axis; with `lengths`, `starts` or `row_k` it may be
            more.
        axis: the axis to select along.
        is_stable: as from ``jax.lax.top_k``, False leaves the order of equal elements open. It is the same here.
        mode: "largest" or "smallest".
        sorted: True for results in order, best first. False: in ascending order of index.
        max_iter: stop the search after this many passes (Algorithm 2 of the RTop-K paper). The result has k elements,
            not always the best. None: exact.
        rule: what a search that max_iter stops selects: "threshold_first", as the paper's kernel does, or "printed", as
            the paper prints it.
        epsilon: stop when the search interval is this narrow, relative to the best value (the paper's Algorithm 1).
            0: exact.
        search: "fast", or "bisection" for the passes of the paper. The result is the same.
        total_order: how NaN and zeros compare. False: NaN of either sign is greater than every number, and -0 equals
            +0, as in torch.topk. True: as in ``jax.lax.top_k`` on a CPU, negative NaN is the least, positive NaN the
            greatest (by their bits), and -0 is less than +0. This takes one more pass over the operand.
        lengths: how many elements each row has. Below 0 counts as 0, beyond the end as to the end.
        starts: the place along the axis that each row begins at. None: 0.
        row_k: k of each row, from 0 to `k`, which is the width of the results.
        ids: a number beside every element, or beside every place along the axis for all rows. Results have these in
            the place of indices.
        magnitude: True to compare absolute values. Results keep their sign.
        return_threshold: True for the kth value of each row as a third result.

    `lengths`, `starts` and `row_k` have the shape of the operand without the axis, `ids` that of the operand, or one
    dimension. All are int32 or int64, and may be traced. Where a row has fewer than k elements, indices end with -1,
    and values with the value that loses against every element: -infinity for the largest, NaN for the smallest, 0 for
    the largest by magnitude. Its threshold is that value too, and has no gradient. What lies outside of a row is never
    selected. With any of the six, the operand is float32, float16, bfloat16, float64 or int32.

    Returns:
        ``[values, indices]``: a list, as from ``jax.lax.top_k``. With `return_threshold` a named tuple (values,
        indices, threshold).

    >>> values, indices = rtopk.jax.top_k(jnp.array([1.0, 7.0, 3.0, 7.0]), 3)
    >>> values, indices
    (Array([7., 7., 3.], dtype=float32), Array([1, 3, 2], dtype=int32))
    >>> rtopk.jax.top_k(jnp.array([1.0, 7.0, 3.0, 7.0]), 2, mode="smallest")[1]
    Array([0, 2], dtype=int32)
    >>> rtopk.jax.top_k(jnp.array([[1.0, 3.0, 9.0], [5.0, 9.0, 9.0]]), 2, lengths=jnp.array([2, 1]))[1]
    Array([[ 1,  0],
           [ 0, -1]], dtype=int32)
    """
    operand = checked_operand("top_k", operand)
    axis = checked_axis(operand, axis)
    if not isinstance(is_stable, (bool, np.bool_)):
        raise TypeError(f"is_stable is {is_stable!r}; accepted: True or False")
    if not (lengths is starts is row_k is ids is None and magnitude is return_threshold is False):
        rows = {"lengths": lengths, "starts": starts, "row_k": row_k, "ids": ids}
        options = {"mode": mode, "sorted": sorted, "max_iter": max_iter, "rule": rule, "epsilon": epsilon}
        options |= {"search": search, "magnitude": magnitude, "return_threshold": return_threshold}
        return top_k_of_rows(operand, k, axis, total_order, rows, options)
    k = checked_k("top_k", operand, k, axis)
    options = checked_options(mode=mode, sorted=sorted, max_iter=max_iter, rule=rule, epsilon=epsilon, search=search)
    if options.max_iter or options.epsilon:
        _check_early(operand, options, total_order)
    return list(_top_k(operand, k, axis, options, bool(total_order)))


def _check_early(operand, options, total_order):
    name = f"max_iter={options.max_iter}" if options.max_iter else f"epsilon={options.epsilon}"
    if total_order:
        raise ValueError(f"{name} is given with total_order; accepted: one of them")
    if operand.dtype in _LEFT_TO_LAX:
        raise ValueError(f"{name} is given for {operand.dtype}; accepted: every other type, or exact selection")


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3, 4))
def _selected(operand, k, axis, options, total_order):
    dtype = operand.dtype
    is_float, is_integer = jnp.issubdtype(dtype, jnp.floating), jnp.issubdtype(dtype, jnp.integer)
    if dtype in _LEFT_TO_LAX or (total_order and dtype.itemsize == 8):
        return _by_lax(operand, k, axis, options)
    if total_order and is_float:
        return _by_keys(operand, k, axis, options)
    if dtype in DTYPES:
        return tuple(pairs(operand, {}, k, axis, options))
    if dtype == jnp.uint32:
        keys, indices = pairs(_shifted_to_int32(operand), {}, k, axis, options)
        return _shifted_to_uint32(keys), indices
    if is_integer or dtype == jnp.bool_:
        values, indices = pairs(operand.astype(jnp.int32), {}, k, axis, options)
        return values.astype(dtype), indices
    if is_float:  # of 8 bits or fewer
        indices = pairs(operand.astype(jnp.float32), {}, k, axis, options)[1]
        return gathered(operand, indices, axis), indices
    return _by_lax(operand, k, axis, options)  # which says what it does not take


# ---- Other types and orders ----

# The library selects from no integers of 64 bits.
_LEFT_TO_LAX = (jnp.dtype("int64"), jnp.dtype("uint64"))


def _by_lax(operand, k, axis, options: Options):
    """Exact selection by JAX. For the smallest, integers are inverted, which reverses their order."""
    keys = jnp.moveaxis(operand, axis, -1)  # before JAX 0.8, lax.top_k has no axis
    if options.mode == "smallest":
        keys = ~keys if jnp.issubdtype(operand.dtype, jnp.integer) else -keys
    indices = lax.top_k(keys, k)[1]
    if not options.sorted:
        indices = jnp.sort(indices)
    indices = jnp.moveaxis(indices, -1, axis)
    return gathered(operand, indices, axis), indices


def _by_keys(operand, k, axis, options):
    """Selection by int32 keys with the total order of the operand's bits."""
    bits = lax.bitcast_convert_type(operand, _signed(operand.dtype.itemsize))
    keys, indices = pairs(_reversed_below_zero(bits).astype(jnp.int32), {}, k, axis, options)
    values = _reversed_below_zero(keys.astype(bits.dtype))
    return lax.bitcast_convert_type(values, operand.dtype), indices


def _signed(size):
    return jnp.dtype(f"int{8 * size}")


def _reversed_below_zero(bits):
    """From the bits of a float to an integer with its order, and back."""
    top = 8 * bits.dtype.itemsize - 1
    magnitude = jnp.array((1 << top) - 1, bits.dtype)
    return bits ^ ((bits >> jnp.array(top, bits.dtype)) & magnitude)


def _shifted_to_int32(operand):
    return lax.bitcast_convert_type(operand ^ jnp.uint32(1 << 31), jnp.int32)


def _shifted_to_uint32(keys):
    return lax.bitcast_convert_type(keys, jnp.uint32) ^ jnp.uint32(1 << 31)


# ---- Derivatives ----


@_selected.defjvp
def _derivative(k, axis, options, total_order, primals, tangents):
    (operand,), (tangent,) = primals, tangents
    values, indices = _selected(operand, k, axis, options, total_order)
    moved = zero_from_primal(values) if tangent.dtype == jax.dtypes.float0 else gathered(tangent, indices, axis)
    return (values, indices), (moved, zero_from_primal(indices))


_top_k = partial(jax.jit, static_argnums=(1, 2, 3, 4), inline=True)(_selected)
