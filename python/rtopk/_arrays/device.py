"""Arrays on a GPU: those of CuPy, and those that CuPy can take over by DLPack.

Results and workspace come from CuPy's memory pool, which reuses memory in the order of the stream; kernels are queued
on CuPy's current stream of the array's device. Nothing waits for the GPU, but to see how large integers of 64 bits are,
and how long segments are at most.
"""

import sys

from .._native import of_address
from . import host, integers, rows

_DENSE, _MASK = 1, 2
#: CUDA, and CUDA's managed memory.
DLPACK_DEVICES = (2, 13)


def of_cupy(form, a, options):
    if isinstance(options[-1], rows.Rows):
        return _of_rows(form, a, options)
    if rows.are_general(options):  # described as the library reads them
        return _selected(a, form, options)
    k, axis, mode, sorted, nan, *others = options
    if a.dtype.num in integers.NUMBERS:
        with a.device:
            return integers.select(sys.modules["cupy"], _selected, a, form, options)
    if nan == "last" and mode == "largest" and a.dtype.kind != "i":
        return _with_nan_last(form, a, (k, axis, "smallest", sorted, "first", *others))
    return _selected(a, form, options)


def _of_rows(form, a, options):
    cupy = sys.modules["cupy"]

    def as_numbers(name, numbers):
        if not isinstance(numbers, cupy.ndarray):
            if not hasattr(numbers, "__dlpack_device__") or numbers.__dlpack_device__()[0] not in DLPACK_DEVICES:
                raise TypeError(f"{name} is of type {type(numbers).__name__}; accepted: an array on the GPU of a")
            numbers = cupy.from_dlpack(numbers)
        if numbers.device.id != a.device.id:
            raise ValueError(f"{name} is on GPU {numbers.device.id}; accepted: on that of a, {a.device.id}")
        return rows.checked(name, numbers)

    def lend(numbers):
        numbers = cupy.asarray(numbers, order="C")
        return numbers, numbers.data.ptr

    def of_array(a, form, options):
        return of_cupy(form, a, options)

    with a.device:
        return rows.select(cupy, as_numbers, lend, of_array, a, form, options)


def _selected(a, form, options):
    cupy = sys.modules["cupy"]

    def allocate(shape, dtype, zero):
        array = (cupy.zeros if zero else cupy.empty)(shape, a.dtype if dtype is None else dtype)
        return array, array.data.ptr

    def call(array):
        where = (array.data.ptr, array.shape, array.strides, array.dtype.name, "cuda", array.device.id)
        return of_address(*where, cupy.cuda.get_current_stream().ptr, allocate, form, options)

    with a.device:
        result = call(a)
        return call(_with_adjacent_elements(cupy, a, options[1])) if result is None else result


def _with_adjacent_elements(cupy, a, axis):
    """A copy whose elements lie side by side along the axis."""
    return cupy.moveaxis(cupy.ascontiguousarray(cupy.moveaxis(a, axis, -1)), -1, axis)


def _with_nan_last(form, a, smallest):
    """The smallest of the array with all signs changed, where NaN comes last: to see which rows have a NaN, the host
    would have to wait for the GPU."""
    cupy = sys.modules["cupy"]
    with a.device:
        if form == _DENSE:  # zeros would get a sign
            return cupy.where(_selected(-a, _MASK, smallest), a, a.dtype.type(0))
        result = _selected(-a, form, smallest)
        if form == _MASK:
            return result
        values, places = result
        return -values, places


def of_dlpack_producer(form, a, kind, options):
    """Of an array of another library. CuPy takes it over, with the streams' order that DLPack asks for."""
    if kind not in DLPACK_DEVICES:
        raise TypeError(f"a is on a device of DLPack's type {kind}; accepted: host memory and GPUs of NVIDIA")
    try:
        import cupy
    except ImportError:
        raise TypeError(
            f"a is of type {type(a).__name__} and on a GPU, where results need a library that holds them; accepted: an"
            " array of CuPy, PyTorch or JAX, or any other where CuPy is installed"
        ) from None
    result = of_cupy(form, cupy.from_dlpack(a), options)
    return host.shared(a, result) if hasattr(a, "__array_namespace__") else result
