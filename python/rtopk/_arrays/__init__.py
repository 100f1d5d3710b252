"""Selection from any array, along any of its axes: top_k, and the same selection in other forms."""

from __future__ import annotations

import sys
from typing import Any, Literal

from .._results import CBSR, TopK
from .host import of_numpy
from .integers import NUMBERS as _OTHER_INTEGERS
from .kinds import COMPACT, DENSE, MASK, PAIRS, select

# The usual call first, and past everything that other arrays need.
_ndarray = getattr(sys.modules.get("numpy"), "ndarray", None)
_new = tuple.__new__


def _other(form, a, options):
    """Of arrays that are not NumPy's, of integers that need keys, or the first of NumPy's."""
    global _ndarray
    if _ndarray is None:
        _ndarray = getattr(sys.modules.get("numpy"), "ndarray", None)
    return select(form, a, options)


def top_k(
    a: Any,
    k: int,
    /,
    *,
    axis: int = -1,
    mode: Literal["largest", "smallest"] = "largest",
    sorted: bool = True,
    nan: Literal["first", "last"] = "first",
    max_iter: int | None = None,
    epsilon: float = 0.0,
    rule: Literal["threshold_first", "printed"] = "threshold_first",
    search: Literal["fast", "bisection"] = "fast",
    threads: int | None = None,
    index_dtype: Any = None,
) -> TopK:
    """The k largest (or smallest) elements along an axis, with their indices.

    Among equal elements the lowest indices are selected, so the result is unique: the same on every machine, CPU or
    GPU, and for any number of threads. Values are bit copies of the input.

    Args:
        a: an array of NumPy or CuPy, one with ``__dlpack__`` in host memory, or anything that numpy.asarray takes.
            float32, float16, bfloat16, float64, bool or integers, with any strides; integers other than int32 are
            copied first. A tensor of PyTorch goes to :func:`topk`, and keeps its gradient; an array of JAX goes to
            ``rtopk.jax.top_k``.
        k: how many elements to select, from 0 to the length of the axis.
        axis: the axis to select along.
        mode: "largest" or "smallest".
        sorted: True for results in order, best first; equal ones by index. False: in host memory by index, on a GPU in
            an order that is the same in every run.
        nan: "first": NaN is greater than every number, as in torch.topk; with "smallest" it is selected last. "last":
            NaN is selected after all numbers in both modes, as numpy.top_k does.
        max_iter: stop the search after this many passes (Algorithm 2 of the RTop-K paper). The result has k elements,
            not always the best. None: exact.
        epsilon: stop when the search interval is this narrow, relative to the best value (the paper's Algorithm 1).
            0: exact.
        rule: what a search that max_iter stops selects; :func:`topk` describes both.
        search: "fast", or "bisection": the paper's own search, for studies. Results are the same.
        threads: how many threads select, in host memory. None: as many as there are CPUs for this process.
        index_dtype: "int64" or "int32", or a dtype of one of these names. None: int64.

    Returns:
        A named tuple (values, indices) of arrays of the caller's kind, on its device. Their shape is that of `a` with
        k in the place of the axis.

    >>> import numpy
    >>> a = numpy.array([[1.0, 7.0, 3.0, 7.0], [2.0, 0.0, numpy.nan, 5.0]], dtype=numpy.float32)
    >>> rtopk.top_k(a, 2)
    TopK(values=array([[ 7.,  7.],
           [nan,  5.]], dtype=float32), indices=array([[1, 3],
           [2, 3]]))
    >>> rtopk.top_k(a, 2, nan="last").values
    array([[7., 7.],
           [5., 2.]], dtype=float32)
    >>> rtopk.top_k(a, 1, axis=0, mode="smallest").indices
    array([[0, 1, 0, 1]])
    """
    if type(a) is _ndarray and a.dtype.num not in _OTHER_INTEGERS:
        return _new(
            TopK,
            of_numpy(a, PAIRS, (k, axis, mode, sorted, nan, max_iter, epsilon, rule, search, threads, index_dtype)),
        )
    return _other(PAIRS, a, (k, axis, mode, sorted, nan, max_iter, epsilon, rule, search, threads, index_dtype))


def top_k_mask(
    a: Any,
    k: int,
    /,
    *,
    axis: int = -1,
    mode: Literal["largest", "smallest"] = "largest",
    nan: Literal["first", "last"] = "first",
    max_iter: int | None = None,
    epsilon: float = 0.0,
    rule: Literal["threshold_first", "printed"] = "threshold_first",
    search: Literal["fast", "bisection"] = "fast",
    threads: int | None = None,
) -> Any:
    """An array of the shape of `a`: True where :func:`top_k` selects.

    >>> import numpy
    >>> rtopk.top_k_mask(numpy.array([3.0, 1.0, 2.0]), 2)
    array([ True, False,  True])
    """
    if type(a) is _ndarray and a.dtype.num not in _OTHER_INTEGERS:
        return of_numpy(a, MASK, (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None))
    return _other(MASK, a, (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None))


def top_k_dense(
    a: Any,
    k: int,
    /,
    *,
    axis: int = -1,
    mode: Literal["largest", "smallest"] = "largest",
    nan: Literal["first", "last"] = "first",
    max_iter: int | None = None,
    epsilon: float = 0.0,
    rule: Literal["threshold_first", "printed"] = "threshold_first",
    search: Literal["fast", "bisection"] = "fast",
    threads: int | None = None,
) -> Any:
    """The elements that :func:`top_k` selects in their places, and 0 in all others.

    >>> import numpy
    >>> rtopk.top_k_dense(numpy.array([3.0, 1.0, 2.0]), 2)
    array([3., 0., 2.])
    """
    if type(a) is _ndarray and a.dtype.num not in _OTHER_INTEGERS:
        return of_numpy(a, DENSE, (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None))
    return _other(DENSE, a, (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None))


def top_k_compact(
    a: Any,
    k: int,
    /,
    *,
    axis: int = -1,
    mode: Literal["largest", "smallest"] = "largest",
    nan: Literal["first", "last"] = "first",
    max_iter: int | None = None,
    epsilon: float = 0.0,
    rule: Literal["threshold_first", "printed"] = "threshold_first",
    search: Literal["fast", "bisection"] = "fast",
    threads: int | None = None,
) -> CBSR:
    """What :func:`top_k` selects, by ascending index, with indices of 8 or 16 bits: at most 65536 elements a row.

    >>> import numpy
    >>> rtopk.top_k_compact(numpy.array([3.0, 1.0, 2.0]), 2)
    CBSR(values=array([3., 2.]), selectors=array([0, 2], dtype=uint8))
    """
    if type(a) is _ndarray and a.dtype.num not in _OTHER_INTEGERS:
        return _new(
            CBSR, of_numpy(a, COMPACT, (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None))
        )
    return _other(COMPACT, a, (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None))
