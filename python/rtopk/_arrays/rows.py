"""Rows with lengths, starts, a k or ids of their own, compared by magnitude, or with a threshold; and segments.

What a call says about its rows stands behind the other options. The library reads lengths, starts, k and offsets where
they lie; ids are looked up afterwards.
"""

from collections import namedtuple
from operator import index

from .._rules import losing_value

_PAIRS = 0
#: Segments of so few elements have kernels for short rows anyway.
_SHORT = 1024

#: The arguments for general rows of all functions, with their defaults.
DEFAULTS = {
    "lengths": None, "starts": None, "row_k": None, "ids": None, "magnitude": False, "return_threshold": False,
    "offsets": None, "max_length": None,
}  # fmt: skip
Rows = namedtuple("Rows", DEFAULTS, defaults=DEFAULTS.values())
_OF_WHOLE_ROWS = ("lengths", "starts", "row_k", "magnitude")
#: What each of the forms takes. Offsets are for segments.
OF_FORM = (Rows._fields[:6], _OF_WHOLE_ROWS, _OF_WHOLE_ROWS, ("magnitude",))


def given(rows):
    """The arguments that say something, by their names."""
    return {name: value for name, value in rows._asdict().items() if value is not None and value is not False}


def are_general(options):
    """Whether something about rows stands behind the options of top_k."""
    return len(options) > 11


def checked(name, numbers):
    """An array of NumPy or CuPy that has integers of a type that kernels read."""
    if numbers.dtype.name not in ("int32", "int64"):
        raise TypeError(f"{name} has dtype {numbers.dtype}; accepted: int32 or int64")
    return numbers


def select(library, as_numbers, lend, of_array, a, form, options):
    """One selection from an array of NumPy or CuPy, with a function that selects from it.

    as_numbers: makes an array of the library of an argument with this name. lend: the same array as kernels read it,
    and its address.
    """
    *plain, rows = options
    k, axis, mode = plain[:3]
    arrays = {name: getattr(rows, name) for name in ("lengths", "starts", "row_k", "offsets", "ids")}
    arrays = {name: each if each is None else as_numbers(name, each) for name, each in arrays.items()}
    ids, offsets = arrays.pop("ids"), arrays["offsets"]
    if given(rows).keys() - {"ids"}:
        lent = [None if each is None else lend(each) for each in arrays.values()]  # alive until the call is over
        described = [None if each is None else (each[1], each[0].shape, each[0].dtype.name) for each in lent]
        max_length = rows.max_length
        if offsets is not None and max_length is None:
            max_length = _longest(library, offsets, a)
        plain.append((*described, max_length, rows.magnitude, rows.return_threshold))
    results = of_array(a, form, tuple(plain))
    if form != _PAIRS:
        return results
    along = 1 if offsets is not None else axis
    if results[0].shape[along] < index(k):
        losing = losing_value(a.dtype.kind == "i", mode == "largest", rows.magnitude)
        results = _widened(library, results, k, along, a.dtype.type(losing), arrays["row_k"])
    if ids is not None:
        results = (results[0], _looked_up(library, ids, results[1], a, axis), *results[2:])
    return results


def _longest(library, offsets, a):
    """The length of the longest segment; None where it need not be known."""
    if offsets.ndim != 1 or offsets.shape[0] <= 2 or a.size <= _SHORT:
        return None
    return max(int(library.diff(library.clip(offsets.astype("int64"), 0, a.size)).max()), 1)


def _widened(library, results, k, axis, losing, row_k):
    """Results of rows with fewer columns than k. What stands behind the elements of a row stands there, too."""
    values, places, *thresholds = results
    shape = list(values.shape)
    cols, shape[axis] = shape[axis], k - shape[axis]
    values = library.concatenate([values, library.full(shape, losing, values.dtype)], axis)
    places = library.concatenate([places, library.full(shape, -1, places.dtype)], axis)
    if thresholds:
        (threshold,) = thresholds
        without_elements = cols == 0 or row_k is None
        missing = library.full(threshold.shape, losing, threshold.dtype)
        thresholds = [missing if without_elements else library.where(row_k > cols, missing, threshold)]
    return (values, places, *thresholds)


def _looked_up(library, ids, places, a, axis):
    """The ids at these places, and -1 where there is none."""
    cols = a.shape[axis]
    if ids.shape not in (a.shape, (cols,)):
        more = f", or {(cols,)} for all rows" if a.ndim > 1 else ""
        raise ValueError(f"ids has shape {ids.shape}; accepted: {a.shape}{more}")
    if ids.dtype.itemsize > places.dtype.itemsize:
        raise ValueError(f"index_dtype is {places.dtype}, and ids are {ids.dtype}; accepted for them: int64")
    if a.size == 0:
        return places
    nowhere = places < 0
    found = library.where(nowhere, 0, places)
    found = ids[found] if ids.ndim == 1 else library.take_along_axis(ids, found, axis)
    return library.where(nowhere, -1, found).astype(places.dtype)
