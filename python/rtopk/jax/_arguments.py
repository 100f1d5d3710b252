"""The arguments that the functions share, checked as jax.lax.top_k checks its own."""

from __future__ import annotations

from functools import lru_cache
from operator import index
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._rules import check_rule, check_search, one_of
from ._select import MODES, Options

_MAX_INT32 = np.iinfo(np.int32).max


def checked_operand(function: str, operand: Any) -> jax.Array:
    if isinstance(operand, jax.Array):
        return operand
    if isinstance(operand, (np.ndarray, np.generic, int, float, complex)) or hasattr(operand, "__jax_array__"):
        return jnp.asarray(operand)
    raise TypeError(f"{function} requires an array as its operand, got {type(operand)}")


def checked_axis(operand: jax.Array, axis: Any) -> int:
    axis = index(axis)
    if not -operand.ndim <= axis < operand.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {operand.ndim}")
    return axis % operand.ndim


def checked_k(function: str, operand: jax.Array, k: Any, axis: int) -> int:
    try:
        k = index(k)
    except TypeError as error:
        raise TypeError(f"k argument to {function} must be an integer, got {k!r}: {error}") from None
    size = operand.shape[axis]
    if k < 0:
        raise ValueError(f"k argument to {function} must be nonnegative, got {k}")
    if not isinstance(size, int):
        raise ValueError(
            f"{function} selects along axis {axis}, whose size is symbolic: {size}; accepted: any other axis symbolic"
        )
    if k > size:
        raise ValueError(
            f"k argument to {function} must be no larger than size along axis; got k={k} with"
            f" shape={list(operand.shape)} and axis={axis}"
        )
    if size > _MAX_INT32 + 1:
        raise ValueError(
            f"{function} returns int32 indices, which will overflow for array dimensions larger than the maximum int32"
            f" ({_MAX_INT32}). Got operand.shape={operand.shape}"
        )
    return k


@lru_cache(typed=True)  # an eager call on a small array takes little longer than these checks
def checked_options(*, mode, sorted=True, max_iter, rule, epsilon, search) -> Options:
    if max_iter is not None:
        max_iter = index(max_iter)
        if not 1 <= max_iter <= 10000:
            raise ValueError(f"max_iter is {max_iter}; accepted: None, or 1 to 10000")
    epsilon = float(epsilon)
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon is {epsilon}; accepted: 0 to 1")
    if max_iter is not None and epsilon != 0.0:
        raise ValueError(f"max_iter is {max_iter} and epsilon is {epsilon}; accepted: one of them")
    if not isinstance(sorted, (bool, np.bool_)):
        raise TypeError(f"sorted is {sorted!r}; accepted: True or False")
    return Options(
        mode=one_of("mode", mode, MODES),
        sorted=bool(sorted),
        max_iter=max_iter or 0,
        rule=check_rule(rule),
        epsilon=epsilon,
        search=check_search(search),
    )
