"""maxk: the operand with everything but the k best elements set to zero; top_k_mask: which these are."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ._arguments import checked_axis, checked_k, checked_operand, checked_options
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
) -> jax.Array:
    """The array with everything but the k largest (or smallest) elements along an axis set to zero.

    The gradient goes to the elements that were kept. The other arguments are those of :func:`top_k`.

    Args:
        x: float32, float16, bfloat16, float64 or int32, with at least one dimension.
        k: how many elements to keep, from 0 to the size along the axis.
        axis: the axis to select along.

    >>> rtopk.jax.maxk(jnp.array([[3.0, 1.0, 2.0], [0.0, -1.0, -2.0]]), 2)
    Array([[ 3.,  0.,  2.],
           [ 0., -1.,  0.]], dtype=float32)
    """
    x, k, axis = _checked("maxk", x, k, axis)
    if k == 0:
        return jnp.zeros_like(x)
    return _maxk(x, k, axis, checked_options(mode=mode, max_iter=max_iter, rule=rule, epsilon=epsilon, search=search))


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
) -> jax.Array:
    """True where :func:`top_k` selects. The arguments are those of :func:`maxk`.

    >>> rtopk.jax.top_k_mask(jnp.array([3.0, 1.0, 2.0]), 2)
    Array([ True, False,  True], dtype=bool)
    """
    x, k, axis = _checked("top_k_mask", x, k, axis)
    if k == 0:
        return jnp.zeros_like(x, dtype=bool)
    options = checked_options(mode=mode, max_iter=max_iter, rule=rule, epsilon=epsilon, search=search)
    return _mask(jax.lax.stop_gradient(x), k, axis, options)


def _checked(function, x, k, axis):
    x = checked_operand(function, x)
    if x.dtype not in DTYPES:
        raise TypeError(f"{function} does not take {x.dtype}; accepted: {', '.join(map(str, DTYPES))}")
    axis = checked_axis(x, axis)
    return x, checked_k(function, x, k, axis), axis


_mask = partial(jax.jit, static_argnums=(1, 2, 3), inline=True)(mask)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def _kept(x, k, axis, options):
    return dense(x, k, axis, options)


@_kept.defjvp
def _derivative(k, axis, options, primals, tangents):
    # The result does not tell what was kept: a kept element may be zero.
    (x,), (tangent,) = primals, tangents
    if tangent.dtype == jax.dtypes.float0:
        return _kept(x, k, axis, options), tangent
    kept = mask(jax.lax.stop_gradient(x), k, axis, options)
    return jnp.where(kept, x, jnp.zeros((), x.dtype)), jnp.where(kept, tangent, jnp.zeros((), tangent.dtype))


_maxk = partial(jax.jit, static_argnums=(1, 2, 3), inline=True)(_kept)
