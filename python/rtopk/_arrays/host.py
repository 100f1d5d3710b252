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

from . import integers, mapped

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


def of_numpy_kind(a, *call):
    """Of an ndarray or a subclass of it. Results are ndarrays, in memory."""
    numpy = sys.modules["numpy"]
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(a, masked):
        raise TypeError(
            "a is a masked array, and no element can be left out; accepted: a.filled(value) with a value that is not"
            " selected"
        )
    of_array = partial(integers.select, numpy, of_numpy) if a.dtype.num in integers.NUMBERS else of_numpy
    if isinstance(a, numpy.memmap) and mapped.is_large(a):
        return mapped.select(of_array, a, *call)
    return of_array(numpy.asarray(a), *call)


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


def of_dlpack_producer(a, *call):
    """Of an array in host memory of any library that lends it."""
    try:
        result = of_dlpack(a, *call)
    except TypeError:
        lent = _other_integers(a)
        if lent is None:
            raise
        result = of_numpy_kind(lent, *call)
    return shared(a, result)


def _other_integers(a):
    """An array of integers that need keys, as one of NumPy. None: it is no such array."""
    if not hasattr(a, "__array_namespace__"):
        return None  # anyone can make a capsule, and NumPy believes what it says
    try:
        lent = _numpy_for(a).from_dlpack(a)
    except (BufferError, RuntimeError, TypeError):
        return None
    return lent if lent.dtype.num in integers.NUMBERS else None
