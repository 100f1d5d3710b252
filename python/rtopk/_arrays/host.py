"""Arrays in host memory: of NumPy, of any library with __dlpack__, and what numpy.asarray takes."""

import sys
from functools import partial

from .._build import warn_of_slow_build

try:
    from .._native import build_text, of_dlpack, of_numpy
except ModuleNotFoundError as error:
    if error.name == "nanobind_backend":
        raise ModuleNotFoundError(
            "rtopk.top_k needs nanobind-backend, which is not installed: pip install nanobind-backend", name=error.name
        ) from None
    raise ImportError(
        "rtopk.top_k needs the module rtopk._native, which was left out when rtopk was built; with nanobind in the"
        " environment, install rtopk again from its sources: pip install --force-reinstall --no-deps ."
    ) from error

from . import integers, mapped, rows

__all__ = ["DLPACK_DEVICES", "as_array", "of_dlpack_producer", "of_numpy", "of_numpy_kind", "shared"]

#: Host memory, and host memory that CUDA keeps in place.
DLPACK_DEVICES = (1, 3)

warn_of_slow_build(build_text())


def _numpy_for(a):
    try:
        import numpy
    except ImportError:
        raise TypeError(
            f"a is of type {type(a).__name__}; accepted: an array, or what numpy.asarray takes, but numpy is not"
            " installed"
        ) from None
    return numpy


def as_array(a):
    """Lists, scalars, and other things that NumPy makes an array of."""
    return _numpy_for(a).asarray(a)


def _as_numbers(name, numbers):
    return rows.checked(name, sys.modules["numpy"].asarray(numbers))


def _lend(numbers):
    numpy = sys.modules["numpy"]
    numbers = numpy.require(numbers, numbers.dtype.newbyteorder("="), "CA")
    return numbers, numbers.__array_interface__["data"][0]


def of_numpy_kind(a, form, options):
    """Of an ndarray or a subclass of it. Results are ndarrays, in memory."""
    numpy = sys.modules["numpy"]
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(a, masked):
        raise TypeError(
            "a is a masked array, and no element can be left out; accepted: a.filled(value) with a value that is not"
            " selected"
        )
    if isinstance(options[-1], rows.Rows):
        return rows.select(numpy, _as_numbers, _lend, of_numpy_kind, a, form, options)
    if rows.are_general(options):  # described as the library reads them
        return of_numpy(numpy.asarray(a), form, options)
    of_array = partial(integers.select, numpy, of_numpy) if a.dtype.num in integers.NUMBERS else of_numpy
    if isinstance(a, numpy.memmap) and mapped.is_large(a):
        return mapped.select(of_array, a, form, options)
    return of_array(numpy.asarray(a), form, options)


def shared(a, result):
    """Results, each of which has __dlpack__, as arrays of the library of `a`; of NumPy, if that does not tell."""
    if isinstance(result, tuple):
        return tuple(shared(a, each) for each in result)
    if hasattr(a, "__array_namespace__"):
        return a.__array_namespace__().from_dlpack(result)
    try:
        return _numpy_for(a).from_dlpack(result)
    except (RuntimeError, BufferError) as error:
        raise TypeError(
            f"a is of type {type(a).__name__}, whose library does not tell how to make an array (it has no"
            f" __array_namespace__), and NumPy cannot hold the results: {error}"
        ) from None


def of_dlpack_producer(a, form, options):
    """Of an array in host memory of any library that lends it."""
    if rows.are_general(options):
        lent = _lent_to_numpy(a)
        if lent is None:
            raise TypeError(
                f"a is of type {type(a).__name__}; accepted with {' and '.join(rows.given(options[-1]))}: an array of a"
                " library with __array_namespace__, of a type that NumPy has"
            )
        return shared(a, of_numpy_kind(lent, form, options))
    try:
        result = of_dlpack(a, form, options)
    except TypeError:
        lent = _lent_to_numpy(a)
        if lent is None or lent.dtype.num not in integers.NUMBERS:
            raise
        result = of_numpy_kind(lent, form, options)
    return shared(a, result)


def _lent_to_numpy(a):
    """The array as one of NumPy. None: it is no such array."""
    if not hasattr(a, "__array_namespace__"):
        return None  # anyone can make a capsule, and NumPy believes what it says
    try:
        return _numpy_for(a).from_dlpack(a)
    except (BufferError, RuntimeError, TypeError):
        return None
