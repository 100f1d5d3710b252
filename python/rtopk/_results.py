"""What the functions return. The types of the arrays in them are the caller's."""

from typing import Any, NamedTuple


class TopK(NamedTuple):
    """The selected values and their places along the axis."""

    values: Any
    indices: Any


class CBSR(NamedTuple):
    """Compact balanced sparse rows: k values of every row, and the columns that they stand in, ascending."""

    values: Any
    selectors: Any  #: uint8 for rows of up to 256 elements, uint16 for up to 65536
