"""Integers that the library does not read: all but int32, and bool. It selects from keys in the same order instead.

Keys are copies of the elements in a type that holds them exactly: int32 for short ones, float64 for uint32; for int64
and uint64 int32 or float64, if it holds all elements of the array, or else their ranks among these, which takes a sort.
"""

_DENSE, _MASK = 1, 2
#: Their dtype.num, in NumPy and in CuPy.
NUMBERS = frozenset((0, 1, 2, 3, 4, 6, 7, 8, 9, 10))
#: float64 holds every integer up to this, of either sign.
_MOST_IN_FLOAT64 = 1 << 53


def select(library, of_keys, a, form, options):
    """One selection from an array of NumPy or CuPy, with a function that selects from keys."""
    dtype = a.dtype.newbyteorder("=")
    keys, ranked = _keys(library, a, options)
    if form == _DENSE and ranked is not None:  # 0 is a rank, too
        return library.where(of_keys(keys, _MASK, options), a, dtype.type(0)).astype(dtype, copy=False)
    result = of_keys(keys, form, options)
    if form == _MASK:
        return result

    def elements(keys):
        return (keys if ranked is None else ranked[keys.astype("int64")]).astype(dtype, copy=False)

    return elements(result) if form == _DENSE else (elements(result[0]), result[1])


def _keys(library, a, options):
    """Keys of all elements; where these are ranks, also the elements in order."""
    if a.dtype.itemsize < 4:
        return a.astype("int32"), None
    if a.dtype.itemsize == 4:
        return a.astype("float64"), None
    least, greatest = (int(a.min()), int(a.max())) if a.size > 0 else (0, 0)
    max_iter, epsilon = options[5:7]
    # What early stopping finds hangs on the type of the keys, and must not hang on the elements of other rows.
    early = max_iter is not None or epsilon != 0
    if -(1 << 31) <= least and greatest < 1 << 31 and not early:
        return a.astype("int32"), None
    if -_MOST_IN_FLOAT64 <= least and greatest <= _MOST_IN_FLOAT64:
        return a.astype("float64"), None
    if early:
        option = f"epsilon is {epsilon!r}" if max_iter is None else f"max_iter is {max_iter!r}"
        raise ValueError(
            f"{option}, and a has elements from {least} to {greatest}; accepted: elements from -2**53 to 2**53, or"
            " exact selection"
        )
    ranked, ranks = library.unique(a, return_inverse=True)
    return ranks.reshape(a.shape).astype("float64"), ranked
