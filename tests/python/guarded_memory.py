"""Tensors in memory of which every byte outside is watched: by pages that may not be touched, by a pattern, and under
AddressSanitizer by poison."""

import ctypes
import mmap

import torch

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_PROT_NONE = 0
_PATTERN = b"\xa5"
# There where the runtime of AddressSanitizer is in the process.
_poison = getattr(_LIBC, "__asan_poison_memory_region", None)
_unpoison = getattr(_LIBC, "__asan_unpoison_memory_region", None)
for _function in (_poison, _unpoison):
    if _function is not None:
        _function.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class Slot:
    """Pages between two that may not be touched. It holds one tensor at a time, at its beginning or at its end."""

    def __init__(self, size):
        page = mmap.PAGESIZE
        self.size = -(-size // page) * page
        self._map = mmap.mmap(-1, self.size + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for guard in (start, start + page + self.size):
            if _LIBC.mprotect(guard, page, _PROT_NONE) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")
        self.address = start + page
        self._pattern = _PATTERN * self.size
        self._tensor = (0, 0)  # its offset and size
        self._before = b""

    def flat(self, count, dtype, at_end):
        """A tensor with one dimension and exactly this memory."""
        size = count * dtype.itemsize
        offset = self.size - size if at_end else 0
        ctypes.memset(self.address, _PATTERN[0], self.size)
        if _poison is not None:
            _poison(self.address, self.size)
            _unpoison(self.address + offset, size)
        self._tensor = (offset, size)
        return torch.frombuffer((ctypes.c_char * size).from_address(self.address + offset), dtype=dtype, count=count)

    def open(self):
        """What is beside the tensor may be looked at."""
        if _unpoison is not None:
            _unpoison(self.address, self.size)

    def remember(self):
        self._before = self._bytes(*self._tensor)

    def unchanged(self):
        return self._bytes(*self._tensor) == self._before

    def kept_within(self):
        """Whether nothing but the tensor was written to."""
        offset, size = self._tensor
        outside = self._bytes(0, offset) + self._bytes(offset + size, self.size - offset - size)
        return outside == self._pattern[: len(outside)]

    def _bytes(self, offset, size):
        return ctypes.string_at(self.address + offset, size)
