"""The arguments that the functions share, checked as jax.lax.top_k checks its own."""

from __future__ import annotations

from functools import lru_cache
from operator import index
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._rules import RULES, SEARCHES, check_rule, check_search, one_of
from ._select import DTYPES, INTEGERS, MODES, Options

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


def checked_k(function: str, operand: jax.Array, k: Any, axis: int, any_k: bool = False) -> int:
    """`any_k`: rows may have fewer elements than k."""
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
    if k > size and not any_k:
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
def checked_options(
    *, mode, sorted=True, max_iter=None, rule=RULES[0], epsilon=0.0, search=SEARCHES[0], magnitude=False,
    return_threshold=False, max_length=None,
) -> Options:  # fmt: skip
    if max_iter is not None:
        max_iter = index(max_iter)
        if not 1 <= max_iter <= 10000:
            raise ValueError(f"max_iter is {max_iter}; accepted: None, or 1 to 10000")
    epsilon = float(epsilon)
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon is {epsilon}; accepted: 0 to 1")
    if max_iter is not None and epsilon != 0.0:
        raise ValueError(f"max_iter is {max_iter} and epsilon is {epsilon}; accepted: one of them")
    for name, value in (("sorted", sorted), ("magnitude", magnitude), ("return_threshold", return_threshold)):
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} is {value!r}; accepted: True or False")
    if max_length is not None and index(max_length) < 1:
        raise ValueError(f"max_length is {max_length}; accepted: None, or 1 or more")
    return Options(
        mode=one_of("mode", mode, MODES),
        sorted=bool(sorted),
        max_iter=max_iter or 0,
        rule=check_rule(rule),
        epsilon=epsilon,
        search=check_search(search),
        magnitude=bool(magnitude),
        threshold=bool(return_threshold),
        max_length=index(max_length or 0),
    )


def checked_general_operand(function: str, operand: jax.Array, given: list[str]) -> None:
    """Fewer types than for plain rows: a value that loses against all others exists in the library's own alone."""
    if operand.dtype not in DTYPES:
        raise TypeError(
            f"{function} does not take {operand.dtype} with {' and '.join(given)}; accepted:"
            f" {', '.join(map(str, DTYPES))}"
        )


def checked_numbers(name: str, numbers: Any, *shapes: tuple) -> jax.Array:
    """An array of integers, of one of these shapes if there are any."""
    if not isinstance(numbers, jax.Array):
        numbers = jnp.asarray(numbers)
    if numbers.dtype not in INTEGERS[1:]:
        raise TypeError(f"{name} has dtype {numbers.dtype}; accepted: int32 or int64")
    if shapes and numbers.shape not in shapes:
        accepted = ", or ".join(map(str, shapes))
        raise ValueError(f"{name} has shape {numbers.shape}; accepted: {accepted}")
    return numbers


def checked_rows(operand: jax.Array, axis: int, **arrays: Any) -> dict:
    """The arrays with a number for each row that are given, by their names."""
    shape = (*operand.shape[:axis], *operand.shape[axis + 1 :])
    return {name: checked_numbers(name, each, shape) for name, each in arrays.items() if each is not None}
