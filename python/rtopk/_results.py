"""What the functions return. The types of the arrays in them are the caller's."""

from typing import Any, NamedTuple


class TopK(NamedTuple):
    """The selected values and their places along the axis."""

    values: Any
    indices: Any


class TopKThreshold(NamedTuple):
    """What :func:`topk` and :func:`top_k` give with `return_threshold`, and the functions for segments.

    >>> import numpy
    >>> rtopk.top_k(numpy.array([1.0, 7.0, 3.0]), 2, return_threshold=True).threshold
    array(3.)
    """

    values: Any
    indices: Any
    threshold: Any  #: the kth value of each row, without a gradient


class CBSR(NamedTuple):
    """Compact balanced sparse rows: k values of every row, and the columns that they stand in, ascending."""

    values: Any
    selectors: Any  #: uint8 for rows of up to 256 elements, uint16 for up to 65536
