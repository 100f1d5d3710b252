"""maxk: the operand with everything but the k best elements set to zero."""

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
    x = checked_operand("maxk", x)
    if x.dtype not in DTYPES:
        raise TypeError(f"maxk does not take {x.dtype}; accepted: {', '.join(map(str, DTYPES))}")
    axis = checked_axis(x, axis)
    k = checked_k("maxk", x, k, axis)
    if k == 0:
        return jnp.zeros_like(x)
    return _maxk(x, k, axis, checked_options(mode=mode, max_iter=max_iter, rule=rule, epsilon=epsilon, search=search))


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
