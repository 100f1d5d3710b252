"""maxk: the operand with everything but the k best elements set to zero; top_k_mask: which these are."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ._arguments import checked_axis, checked_k, checked_operand, checked_options, checked_rows
from ._select import DTYPES, dense, mask


def maxk(
    x: Any,
    k: int,
    *,
    axis: int = -1,
    mode: str = "largest",
    max_iter: int | None = None,
    rule: str = "threshold_first",
    epsilon: float = 0.0,
    search: str = "fast",
    lengths: Any = None,
    starts: Any = None,
    row_k: Any = None,
    magnitude: bool = False,
) -> jax.Array:
    """The array with everything but the k largest (or smallest) elements along an axis set to zero.

    The gradient goes to the elements that were kept. The other arguments are those of :func:`top_k`.

    Args:
        x: float32, float16, bfloat16, float64 or int32, with at least one dimension.
        k: how many elements to keep, from 0 to the size along the axis, or more with `lengths`, `starts` or `row_k`.
        axis: the axis to select along.

    >>> rtopk.jax.maxk(jnp.array([[3.0, 1.0, 2.0], [0.0, -1.0, -2.0]]), 2)
    Array([[ 3.,  0.,  2.],
           [ 0., -1.,  0.]], dtype=float32)
    """
    x, rows, k, axis = _checked("maxk", x, lengths, starts, row_k, k, axis)
    if k == 0:
        return jnp.zeros_like(x)
    options = checked_options(
        mode=mode, max_iter=max_iter, rule=rule, epsilon=epsilon, search=search, magnitude=magnitude
    )
    return _along_last(_maxk, x, rows, k, axis, options) if rows else _maxk(x, rows, k, axis, options)


def top_k_mask(
    x: Any,
    k: int,
    *,
    axis: int = -1,
    mode: str = "largest",
    max_iter: int | None = None,
    rule: str = "threshold_first",
    epsilon: float = 0.0,
    search: str = "fast",
    lengths: Any = None,
    starts: Any = None,
    row_k: Any = None,
    magnitude: bool = False,
) -> jax.Array:
    """True where :func:`top_k` selects. The arguments are those of :func:`maxk`.

    >>> rtopk.jax.top_k_mask(jnp.array([3.0, 1.0, 2.0]), 2)
    Array([ True, False,  True], dtype=bool)
    """
    x, rows, k, axis = _checked("top_k_mask", x, lengths, starts, row_k, k, axis)
    if k == 0:
        return jnp.zeros_like(x, dtype=bool)
    options = checked_options(
        mode=mode, max_iter=max_iter, rule=rule, epsilon=epsilon, search=search, magnitude=magnitude
    )
    x = jax.lax.stop_gradient(x)
    return _along_last(_mask, x, rows, k, axis, options) if rows else _mask(x, rows, k, axis, options)


def _checked(function, x, lengths, starts, row_k, k, axis):
    x = checked_operand(function, x)
    if x.dtype not in DTYPES:
        raise TypeError(f"{function} does not take {x.dtype}; accepted: {', '.join(map(str, DTYPES))}")
    axis = checked_axis(x, axis)
    if lengths is starts is row_k is None:
        return x, {}, checked_k(function, x, k, axis), axis
    k = checked_k(function, x, k, axis, any_k=True)
    return x, checked_rows(x, axis, lengths=lengths, starts=starts, row_k=row_k), min(k, x.shape[axis]), axis


def _along_last(function, x, rows, k, axis, options):
    """General rows are those along the last dimension."""
    return jnp.moveaxis(function(jnp.moveaxis(x, axis, -1), rows, k, x.ndim - 1, options), -1, axis)


_mask = partial(jax.jit, static_argnums=(2, 3, 4), inline=True)(mask)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
def _kept(x, rows, k, axis, options):
    return dense(x, rows, k, axis, options)


@_kept.defjvp
def _derivative(k, axis, options, primals, tangents):
    # The result does not tell what was kept: a kept element may be zero.
    (x, rows), (tangent, _) = primals, tangents
    if tangent.dtype == jax.dtypes.float0:
        return _kept(x, rows, k, axis, options), tangent
    kept = mask(jax.lax.stop_gradient(x), rows, k, axis, options)
    return jnp.where(kept, x, jnp.zeros((), x.dtype)), jnp.where(kept, tangent, jnp.zeros((), tangent.dtype))


_maxk = partial(jax.jit, static_argnums=(2, 3, 4), inline=True)(_kept)
