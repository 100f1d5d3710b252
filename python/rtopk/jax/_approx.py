"""approx_max_k and approx_min_k: jax.lax's signatures, with exact results."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ._arguments import checked_axis, checked_operand
from ._topk import top_k


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[jax.Array]:
    """The k largest elements along a dimension, with their indices, where ``jax.lax.approx_max_k`` is called.

    The result is exact, so that its recall is 1, whatever `recall_target` says: a selection that stops early takes
    longer than an exact one here, and how much it finds hangs on the distribution of the elements.

    Args:
        operand: an array of floating-point numbers, with at least one dimension.
        k: how many elements to select, from 1 to the size of the dimension.
        reduction_dimension: the dimension to select along.
        recall_target: above 0, at most 1. Any recall is reached.
        reduction_input_size_override: of no effect: it is for the estimate of a recall.
        aggregate_to_topk: True for results in order, best first. False: in ascending order of index, also k of them.

    Returns:
        ``[values, indices]``, as from ``jax.lax.approx_max_k``.

    >>> rtopk.jax.approx_max_k(jnp.array([9.0, 3.0, 6.0, 4.0, 10.0]), 3)[1]
    Array([4, 0, 2], dtype=int32)
    """
    return _exact("largest", operand, k, reduction_dimension, recall_target, aggregate_to_topk)


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[jax.Array]:
    """The k smallest elements along a dimension, with their indices, where ``jax.lax.approx_min_k`` is called.

    Arguments and promises are those of :func:`approx_max_k`.
    """
    return _exact("smallest", operand, k, reduction_dimension, recall_target, aggregate_to_topk)


def _exact(mode, operand, k, reduction_dimension, recall_target, aggregate_to_topk):
    operand = checked_operand("approx_top_k", operand)
    if k <= 0:
        raise ValueError(f"k must be positive, got {k}")
    if operand.ndim == 0:
        raise TypeError(f"approx_top_k operand must have >= 1 dimension, got {operand.shape}")
    axis = checked_axis(operand, reduction_dimension)
    size = operand.shape[axis]
    if isinstance(size, int) and size < k:
        raise ValueError(f"k must be smaller than the size of reduction_dim {size}, got {k}")
    if not jnp.issubdtype(operand.dtype, jnp.floating):
        raise ValueError("operand must be a floating type")
    if not 0.0 < recall_target <= 1.0:
        raise ValueError(f"recall_target is {recall_target}; accepted: above 0, at most 1")
    return top_k(operand, k, axis=axis, mode=mode, sorted=bool(aggregate_to_topk))
