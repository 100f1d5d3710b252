"""Rows with lengths, starts, a k or ids of their own, compared by magnitude, or with a threshold; and segments."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import zero_from_primal

from .._results import TopKThreshold
from .._rules import losing_value
from ._arguments import (
    checked_general_operand,
    checked_k,
    checked_numbers,
    checked_operand,
    checked_options,
    checked_rows,
)
from ._select import pairs


def top_k_of_rows(operand, k, axis, total_order, rows, options):
    """top_k() with arguments for general rows. `rows`: the arrays, by their names."""
    given = [name for name, each in rows.items() if each is not None]
    given += [name for name in ("magnitude", "return_threshold") if options[name]]
    checked_general_operand("top_k", operand, given)
    if total_order:
        raise ValueError(f"total_order is given with {' and '.join(given)}; accepted: one of them")
    ids = rows.pop("ids")
    rows = checked_rows(operand, axis, **rows)
    k = checked_k("top_k", operand, k, axis, any_k=bool(rows))
    if ids is not None:
        ids = checked_numbers("ids", ids, operand.shape, operand.shape[axis : axis + 1])
    return _results(_of_rows(operand, rows, ids, k, axis, _checked(k, options)))


def top_k_segments(
    operand: Any,
    offsets: Any,
    k: int,
    *,
    row_k: Any = None,
    max_length: int | None = None,
    ids: Any = None,
    mode: str = "largest",
    sorted: bool = True,
    magnitude: bool = False,
    return_threshold: bool = False,
) -> list[jax.Array] | TopKThreshold:
    """The k largest (or smallest) elements of every segment of a flat array, with their places in it.

    Segment r is operand[offsets[r] : offsets[r + 1]]. Segments may be empty, and may have fewer than k elements: behind
    these, indices are -1, and values lose against every element, as in :func:`top_k`. Offsets out of range count as the
    nearest one in range.

    Args:
        operand: one dimension; float32, float16, bfloat16, float64 or int32.
        offsets: int32 or int64, one for each segment and one more, ascending. They may be traced.
        k: the width of the results, 0 or more.
        row_k: k of each segment, from 0 to `k`.
        max_length: the length of the longest segment. Of a longer one, only the first `max_length` elements count, or k
            if that is more. None: the size of the operand. On a GPU the kernels are then those for rows of that length,
            which take much longer for short segments: give it where it is known.
        ids: a number beside every element. Results have these in the place of indices.
        mode, sorted, magnitude, return_threshold: those of :func:`top_k`.

    >>> rtopk.jax.top_k_segments(jnp.array([1.0, 3.0, 2.0, 5.0]), jnp.array([0, 3, 3, 4]), 2)[1]
    Array([[ 1,  2],
           [-1, -1],
           [ 3, -1]], dtype=int32)
    """
    operand = checked_operand("top_k_segments", operand)
    checked_general_operand("top_k_segments", operand, ["offsets"])
    if operand.ndim != 1:
        raise ValueError(f"operand has {operand.ndim} dimensions; accepted: 1")
    k = checked_k("top_k_segments", operand, k, 0, any_k=True)
    rows = {"offsets": checked_numbers("offsets", offsets)}
    if rows["offsets"].ndim != 1 or rows["offsets"].size == 0:
        raise ValueError(
            f"offsets has shape {rows['offsets'].shape}; accepted: one dimension, with a number for each segment and"
            " one more"
        )
    if row_k is not None:
        rows["row_k"] = checked_numbers("row_k", row_k, (rows["offsets"].shape[0] - 1,))
    if ids is not None:
        ids = checked_numbers("ids", ids, operand.shape)
    options = {"mode": mode, "sorted": sorted, "magnitude": magnitude, "return_threshold": return_threshold}
    return _results(_of_rows(operand, rows, ids, k, 0, _checked(k, options | {"max_length": max_length})))


def _checked(k, options):
    options = checked_options(**options)
    if options.threshold and k == 0:
        raise ValueError("k is 0; accepted with return_threshold: 1 or more")
    return options


def _results(results):
    return TopKThreshold(*results) if len(results) == 3 else list(results)


@partial(jax.jit, static_argnums=(3, 4, 5), inline=True)
def _of_rows(operand, rows, ids, k, axis, options):
    # General rows are those along the last dimension.
    along = operand.ndim - 1 if rows else axis
    moved = jnp.moveaxis(operand, axis, along)
    is_wider = k > operand.shape[axis] and "offsets" not in rows
    values, places, *threshold = (_beyond_the_columns if is_wider else _selected)(moved, rows, k, along, options)
    if "offsets" not in rows:
        values, places = (jnp.moveaxis(each, along, axis) for each in (values, places))
    if ids is not None:
        places = _looked_up(ids, places, axis)
    return values, places, *threshold


def _beyond_the_columns(operand, rows, k, axis, options):
    """_selected() with k beyond the columns: no row has more elements than there are columns."""
    cols = operand.shape[axis]
    some_have_thresholds = options.threshold and "row_k" in rows and cols > 0
    values, places, *_ = results = _selected(
        operand, rows, cols, axis, options._replace(threshold=some_have_thresholds)
    )
    losing = losing_value(values.dtype == jnp.int32, options.mode == "largest", options.magnitude)
    more = [(0, 0)] * axis + [(0, k - cols)]
    threshold = []
    if some_have_thresholds:
        threshold = [jnp.where(rows["row_k"] > cols, jnp.array(losing, values.dtype), results[2])]
    elif options.threshold:
        threshold = [jnp.full(values.shape[:-1], losing, values.dtype)]
    return jnp.pad(values, more, constant_values=losing), jnp.pad(places, more, constant_values=-1), *threshold


def _looked_up(ids, places, axis):
    """The ids at these places, and -1 where there is none."""
    if ids.size == 0:
        return places.astype(ids.dtype)
    found = jnp.maximum(places, 0)
    if ids.ndim == 1:
        found = ids.at[found].get(mode="promise_in_bounds")
    else:
        found = jnp.take_along_axis(ids, found, axis, mode="promise_in_bounds")
    return jnp.where(places < 0, jnp.array(-1, ids.dtype), found)


# ---- Derivatives ----


@partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
def _selected(operand, rows, k, axis, options):
    return tuple(pairs(operand, rows, k, axis, options))


@_selected.defjvp
def _derivative(k, axis, options, primals, tangents):
    (operand, rows), (tangent, _) = primals, tangents
    results = values, places, *_ = _selected(operand, rows, k, axis, options)
    if tangent.dtype == jax.dtypes.float0 or 0 in (operand.size, places.size):
        moved = zero_from_primal(values)
    elif "offsets" in rows:  # which overlap if offsets do not ascend
        moved = tangent.at[jnp.where(places < 0, operand.size, places)].get(mode="fill", fill_value=0)
    else:
        moved = gathered(tangent, places, axis, lax.GatherScatterMode.FILL_OR_DROP)
    return results, (moved, *map(zero_from_primal, results[1:]))


def gathered(operand, places, axis, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS):
    """The elements at these places along the axis. Each is taken once, so that the transpose is a scatter without
    collisions. With FILL_OR_DROP, a place of -1 has a zero."""
    others = tuple(i for i in range(operand.ndim) if i != axis)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        start_index_map=(axis,),
    )
    return lax.gather(
        operand,
        places[..., None],
        numbers,
        slice_sizes=(1,) * operand.ndim,
        unique_indices=True,
        mode=mode,
        fill_value=0,
    )
