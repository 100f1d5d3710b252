"""Files that are mapped into memory (numpy.memmap): some rows at a time, so that a file may be larger than memory."""

import mmap
import sys
from operator import index

#: Read at one time. Long enough that a call's own cost does not count.
CHUNK_BYTES = 64 << 20


def is_large(a):
    return a.nbytes > CHUNK_BYTES and a.ndim > 1


def select(of_array, a, form, options):
    """Selects from an array of at least two dimensions, and gives its pages back as it goes.

    Rows along the first axis lie all over the file: they are read in one call, and the system drops pages as it needs
    to.
    """
    numpy = sys.modules["numpy"]
    shape = a.shape
    try:
        axis = index(options[1])
    except TypeError:
        raise TypeError(f"axis is {options[1]!r}; accepted: an integer") from None
    along = axis + a.ndim if axis < 0 else axis
    if along == a.ndim - 1 and a.flags.c_contiguous:
        a, along = a.reshape(-1, shape[-1]), 1
    if not 0 < along < a.ndim:
        return of_array(numpy.asarray(a), form, options)
    pages = _Pages(a)
    rows = max(1, CHUNK_BYTES // (a.nbytes // a.shape[0]))
    whole = None
    for start in range(0, a.shape[0], rows):
        chunk = numpy.asarray(a[start : start + rows])
        part = of_array(chunk, form, (options[0], along, *options[2:]))
        parts = part if isinstance(part, tuple) else (part,)
        if whole is None:
            whole = [numpy.empty((a.shape[0], *each.shape[1:]), each.dtype) for each in parts]
        for each, to in zip(parts, whole, strict=True):
            to[start : start + rows] = each
        pages.give_back(chunk)
    if a.shape != shape:
        whole = [each.reshape(*shape[:-1], each.shape[-1]) for each in whole]
    return whole[0] if len(whole) == 1 else tuple(whole)


class _Pages:
    """The pages of a mapped file, which the process need not keep once they were read."""

    def __init__(self, a):
        self._mapping = getattr(a, "_mmap", None)
        # Changes to a copy-on-write mapping are in its pages and nowhere else.
        if self._mapping is None or a.mode == "c" or not hasattr(mmap, "MADV_DONTNEED"):
            self._mapping = None
            return
        numpy = sys.modules["numpy"]
        self._start = numpy.frombuffer(self._mapping, numpy.uint8).__array_interface__["data"][0]

    def give_back(self, chunk):
        if self._mapping is None:
            return
        first = chunk.__array_interface__["data"][0] - self._start
        steps = [(size - 1) * stride for size, stride in zip(chunk.shape, chunk.strides, strict=True)]
        last = first + sum(step for step in steps if step > 0) + chunk.itemsize
        first += sum(step for step in steps if step < 0)
        first -= first % mmap.PAGESIZE
        last -= last % mmap.PAGESIZE  # the next chunk may begin on the same page
        if last > first:
            self._mapping.madvise(mmap.MADV_DONTNEED, first, last - first)
