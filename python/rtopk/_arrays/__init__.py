"""Selection from any array, along any of its axes: top_k, and the same selection in other forms."""

from __future__ import annotations

import sys
from inspect import Parameter, signature
from typing import Any, Literal

from .._results import CBSR, TopK, TopKThreshold
from .host import of_numpy
from .integers import NUMBERS as _OTHER_INTEGERS
from .kinds import COMPACT, DENSE, MASK, PAIRS, select, select_general, select_rows
from .rows import DEFAULTS, OF_FORM, Rows

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
    **rows: Any,
) -> TopK | TopKThreshold:
    """The k largest (or smallest) elements along an axis, with their indices.

    Among equal elements the lowest indices are selected, so the result is unique: the same on every machine, CPU or
    GPU, and for any number of threads. Values are bit copies of the input.

    Args:
        a: an array of NumPy or CuPy, one with ``__dlpack__`` in host memory, or anything that numpy.asarray takes.
            float32, float16, bfloat16, float64, bool or integers, with any strides; integers other than int32 are
            copied first. A tensor of PyTorch goes to :func:`topk`, and keeps its gradient; an array of JAX goes to
            ``rtopk.jax.top_k``.
        k: how many elements to select, from 0 to the length of the axis; with `lengths`, `starts` or `row_k` it may be
            more.
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
        lengths: how many elements each row has. Below 0 counts as 0, beyond the end as to the end.
        starts: the place along the axis that each row begins at. None: 0.
        row_k: k of each row, from 0 to `k`, which is the width of the results.
        ids: a number beside every element, or beside every place along the axis for all rows. Results have these in
            the place of indices.
        magnitude: True to compare absolute values. Results keep their sign.
        return_threshold: True for the kth value of each row as a third result.

    `lengths`, `starts` and `row_k` have the shape of `a` without the axis, `ids` that of `a`, or one dimension. All are
    int32 or int64, on the device of `a`; in host memory they are whatever numpy.asarray takes. No content of theirs is
    an error. Where a row has fewer than k elements, indices end with -1, and values with the value that loses against
    every element: -infinity for the largest, NaN for the smallest, 0 for the largest by magnitude. Its threshold is
    that value too. What lies outside of a row is never selected. With any of the six but `ids`, `a` is float32,
    float16, bfloat16, float64 or int32, and NaN comes first among the largest.

    Returns:
        A named tuple (values, indices) of arrays of the caller's kind, on its device. Their shape is that of `a` with
        k in the place of the axis. With `return_threshold` a named tuple (values, indices, threshold).

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
    >>> rtopk.top_k(a, 2, lengths=[3, 1])
    TopK(values=array([[  7.,   3.],
           [  2., -inf]], dtype=float32), indices=array([[ 1,  2],
           [ 0, -1]]))
    """
    if rows:
        options = (k, axis, mode, sorted, nan, max_iter, epsilon, rule, search, threads, index_dtype)
        return select_rows(PAIRS, a, options, rows)
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
    **rows: Any,
) -> Any:
    """An array of the shape of `a`: True where :func:`top_k` selects.

    `lengths`, `starts`, `row_k` and `magnitude` are those of :func:`top_k`.

    >>> import numpy
    >>> rtopk.top_k_mask(numpy.array([3.0, 1.0, 2.0]), 2)
    array([ True, False,  True])
    """
    if rows:
        options = (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None)
        return select_rows(MASK, a, options, rows)
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
    **rows: Any,
) -> Any:
    """The elements that :func:`top_k` selects in their places, and 0 in all others.

    `lengths`, `starts`, `row_k` and `magnitude` are those of :func:`top_k`.

    >>> import numpy
    >>> rtopk.top_k_dense(numpy.array([3.0, 1.0, 2.0]), 2)
    array([3., 0., 2.])
    """
    if rows:
        options = (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None)
        return select_rows(DENSE, a, options, rows)
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
    **rows: Any,
) -> CBSR:
    """What :func:`top_k` selects, by ascending index, with indices of 8 or 16 bits: at most 65536 elements a row.

    Of the arguments for general rows there is `magnitude`: rows with lengths of their own have no compact form.

    >>> import numpy
    >>> rtopk.top_k_compact(numpy.array([3.0, 1.0, 2.0]), 2)
    CBSR(values=array([3., 2.]), selectors=array([0, 2], dtype=uint8))
    """
    if rows:
        options = (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None)
        return select_rows(COMPACT, a, options, rows)
    if type(a) is _ndarray and a.dtype.num not in _OTHER_INTEGERS:
        return _new(
            CBSR, of_numpy(a, COMPACT, (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None))
        )
    return _other(COMPACT, a, (k, axis, mode, False, nan, max_iter, epsilon, rule, search, threads, None))


def top_k_segments(
    a: Any,
    offsets: Any,
    k: int,
    /,
    *,
    row_k: Any = None,
    max_length: int | None = None,
    ids: Any = None,
    mode: Literal["largest", "smallest"] = "largest",
    sorted: bool = True,
    magnitude: bool = False,
    return_threshold: bool = False,
    threads: int | None = None,
    index_dtype: Any = None,
) -> TopK | TopKThreshold:
    """The k largest (or smallest) elements of every segment of a flat array, with their places in it.

    Segment r is a[offsets[r] : offsets[r + 1]]. Segments may be empty, and may have fewer than k elements: behind
    these, indices are -1, and values lose against every element, as in :func:`top_k`. Offsets out of range count as the
    nearest one in range.

    Args:
        a: one dimension; float32, float16, bfloat16, float64 or int32.
        offsets: int32 or int64, one for each segment and one more, ascending.
        k: the width of the results, 0 or more.
        row_k: k of each segment, from 0 to `k`.
        max_length: the length of the longest segment. Of a longer one, only the first `max_length` elements count, or k
            if that is more. None: it is read from the offsets, and on a GPU the call waits for it.
        ids: a number beside every element. Results have these in the place of indices.
        mode, sorted, magnitude, return_threshold, threads, index_dtype: those of :func:`top_k`.

    >>> import numpy
    >>> values, indices = rtopk.top_k_segments(numpy.array([1.0, 3.0, 2.0, 5.0]), [0, 3, 3, 4], 2)
    >>> indices
    array([[ 1,  2],
           [-1, -1],
           [ 3, -1]])
    """
    options = (k, -1, mode, sorted, "first", None, 0.0, "threshold_first", "fast", threads, index_dtype)
    rows = Rows(None, None, row_k, ids, magnitude, return_threshold, offsets, max_length)
    return select_general(PAIRS, a, options, rows)


# The arguments for general rows are one, with these names: each with a name of its own would take some 0.3 % of a small
# call. help() and the reference have them by their names.
for _form, _function in enumerate((top_k, top_k_dense, top_k_mask, top_k_compact)):
    _shown = signature(_function)
    _plain = [each for each in _shown.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    _rows = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=DEFAULTS[name], annotation="Any") for name in OF_FORM[_form]
    ]
    _function.__signature__ = _shown.replace(parameters=[*_plain, *_rows])
