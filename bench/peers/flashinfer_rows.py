"""FlashInfer's top_k_page_table_transform and top_k_ragged_transform: rows with lengths, for sparse attention.

RTOPK_FLASHINFER_INCLUDE names the folder that has flashinfer/topk.cuh: `include` of a clone of
github.com/flashinfer-ai/flashinfer, or flashinfer/data/include of an installed package. The kernels are compiled from
there with nvcc, through flashinfer_rows.cu; the package itself need not be installed.

Its Python functions choose CUB for some shapes, which is no part of these headers. There, the kernels measured here are
not those that its users get: takes_cub() says which shapes these are.
"""

import ctypes
import hashlib
import math
import os
import re
from pathlib import Path

from . import compiled
from .peer import Missing, Peer

VARIABLE = "RTOPK_FLASHINFER_INCLUDE"
HEADERS = ("topk.cuh", "topk_common.cuh", "math.cuh", "utils.cuh", "vec_dtypes.cuh", "exception.h")
ELEMENTS = {"f32": "float", "bf16": "__nv_bfloat16"}
# As FlashInfer compiles them.
FLAGS = ["-use_fast_math", "-DNDEBUG", "-DFLASHINFER_ENABLE_F16", "-DFLASHINFER_ENABLE_BF16"]
FLAGS += ["-DFLASHINFER_ENABLE_FP8_E4M3", "-DFLASHINFER_ENABLE_FP8_E5M2"]
# Zeros that its kernels count in, and leave as zeros: as many as its own functions keep.
STATE_BYTES = 1 << 20
# Its functions choose CUB for at most so many rows of at least so many columns, on GPUs like the H200 and in version
# 0.7.2. For rows below 4096 columns, which are not in these benchmarks, there are further rules.
CUB_FROM = {
    ("pages", "f32", False): ((1, 32768), (32, 65536)),
    ("pages", "f32", True): ((32, 16384),),
    ("pages", "bf16", False): ((32, 32768), (64, 262144)),
    ("pages", "bf16", True): ((32, 32768), (64, 65536), (128, 524288)),
    ("ragged", "f32", False): ((32, 32768), (64, 65536)),
    ("ragged", "f32", True): ((32, 16384), (64, 32768)),
    ("ragged", "bf16", False): ((64, 32768), (math.inf, 131072)),
    ("ragged", "bf16", True): ((64, 16384), (math.inf, 262144)),
}


class FlashInferRows(Peer):
    name = "flashinfer_rows"
    install = f"set {VARIABLE} to the folder of FlashInfer's headers, and have nvcc"
    promises = "exact; no order; any of the ties, or with `lowest` the lowest indices of ties; its own kernels, not CUB"
    dtypes = tuple(ELEMENTS)

    def find(self, dtypes):
        folder = os.environ.get(VARIABLE)
        if not folder:
            raise Missing(f"{VARIABLE} is not set")
        folder = Path(folder).resolve()
        if not (folder / "flashinfer" / "topk.cuh").exists():
            raise Missing(f"{VARIABLE} names a folder without flashinfer/topk.cuh")
        dtypes = tuple(dict.fromkeys(("f32", *dtypes)))  # a first call is in float32
        # The text of the headers is part of the name of what is kept, so changed ones are compiled again.
        options = [*FLAGS, "-I", str(folder), f"-DRTOPK_FLASHINFER_HEADERS={_digest(folder)}"]
        variants = [[f"-DRTOPK_PEER_ELEMENT={ELEMENTS[dtype]}", *options] for dtype in dtypes]
        self._libraries = dict(zip(dtypes, compiled.libraries("flashinfer_rows.cu", variants), strict=True))
        for library in self._libraries.values():
            declare(library)
        self._states = None
        return _version(folder)

    @staticmethod
    def takes_cub(form, rows, cols, dtype, lowest=False):
        """Whether FlashInfer's own function of the form "pages" or "ragged" would take CUB's kernel instead."""
        return any(rows <= most and cols >= least for most, least in CUB_FROM[form, dtype, lowest])

    def pages(self, matrix, table, lengths, k, page_size, lowest=False):
        """A function that selects among the first lengths[i] elements of each row and returns the places: those of
        table[i] for pages of `page_size` elements. -1 fills rows that have fewer than k."""
        if page_size & (page_size - 1):
            raise ValueError("a page has a power of two of elements")
        return self._bound(matrix, table, lengths, k, (table.shape[1], page_size.bit_length() - 1), lowest, "pages")

    def ragged(self, matrix, shifts, lengths, k, lowest=False):
        """The same with columns + shifts[i] instead of places."""
        return self._bound(matrix, shifts, lengths, k, (), lowest, "ragged")

    def bound(self, matrix, k, max_iter=0):
        """Whole rows, for a first call."""
        import torch

        rows, cols = matrix.shape
        zeros = torch.zeros(rows, dtype=torch.int32, device=matrix.device)
        run = self.ragged(matrix, zeros, torch.full_like(zeros, cols), k)

        def values_too():
            indices = run()
            return matrix.gather(1, indices.long().clamp(0, cols - 1)), indices

        return values_too

    def release(self):
        self._states = None

    def _bound(self, matrix, mapped, lengths, k, numbers, lowest, form):
        import torch

        (rows, cols), device = matrix.shape, matrix.device
        if not all(x.is_contiguous() for x in (matrix, mapped, lengths)):
            raise ValueError("its arguments are contiguous")
        if not all(x.dtype == torch.int32 for x in (mapped, lengths)):
            raise ValueError("its lengths, tables and shifts are int32")
        if self._states is None:
            self._states = torch.zeros(STATE_BYTES, dtype=torch.uint8, device=device)
        library = self._libraries[{torch.float32: "f32", torch.bfloat16: "bf16"}[matrix.dtype]]
        call = getattr(library, f"rtopk_peer_flashinfer_{form}")
        states = self._states
        indices = torch.empty(rows, k, dtype=torch.int32, device=device)
        pointers = [x.data_ptr() for x in (matrix, mapped, lengths, indices, states)]
        stream = torch.cuda.current_stream().cuda_stream
        kept = (matrix, mapped, lengths, states)  # as long as the function is

        def run(kept=kept):
            status = call(*pointers, rows, cols, k, *numbers, lowest, stream)
            if status != 0:
                raise RuntimeError(f"CUDA error {status}")
            return indices

        return run


def declare(library):
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.rtopk_peer_flashinfer_pages.argtypes = [pointer] * 5 + [number] * 6 + [pointer]
    library.rtopk_peer_flashinfer_ragged.argtypes = [pointer] * 5 + [number] * 4 + [pointer]


def _digest(folder):
    texts = [(folder / "flashinfer" / name) for name in HEADERS]
    whole = b"".join(text.read_bytes() for text in texts if text.exists())
    return "0x" + hashlib.sha256(whole).hexdigest()[:8]


def _version(folder):
    """From where a clone and a package have it, with the digest of the headers."""
    for file in (folder.parent / "version.txt", folder.parents[1] / "_build_meta.py"):
        if file.exists() and (found := re.search(r"\d+\.\d+[\w.]*", file.read_text())):
            return f"{found[0]}, headers {_digest(folder)}"
    return f"of an unknown version, headers {_digest(folder)}"
