"""CUB through cub_rows.cu, which nvcc compiles when the benchmark starts: DeviceBatchedTopK where the toolkit has it
(CUDA 13.5 and later), else DeviceSegmentedSort of whole rows. RTOPK_CCCL names a clone of github.com/NVIDIA/cccl to use
instead of the toolkit's headers."""

import ctypes
import os
from pathlib import Path

from . import compiled
from .peer import Missing, Peer

VARIABLE = "RTOPK_CCCL"
ELEMENTS = {"f32": "float", "f16": "__half", "bf16": "__nv_bfloat16"}
# Compiled without DeviceBatchedTopK, which is young: its interface may change.
SORT = "-DRTOPK_PEER_SORT"


class CubRows(Peer):
    name = "cub"
    install = f"a CUDA toolkit with nvcc; 13.5 or later, or a clone of NVIDIA/cccl named by {VARIABLE}, for its top-k"
    promises = "exact; DeviceSegmentedSort: whole rows, descending; DeviceBatchedTopK: no order, any of the ties"
    dtypes = tuple(ELEMENTS)

    def find(self, dtypes):
        dtypes = tuple(dict.fromkeys(("f32", *dtypes)))
        folders = self._folders()
        try:
            self._load(dtypes, folders)
        except RuntimeError:
            self._load(dtypes, [*folders, SORT])
        library = next(iter(self._libraries.values()))
        number = library.rtopk_peer_cub_version()
        name = "DeviceSegmentedSort" if library.rtopk_peer_cub_sorts() else "DeviceBatchedTopK"
        return f"{number // 100_000}.{number // 100 % 1000}.{number % 100}, {name}"

    @staticmethod
    def _folders():
        clone = os.environ.get(VARIABLE)
        if not clone:
            return []
        folders = [Path(clone) / part for part in ("cub", "thrust", "libcudacxx/include")]
        if not all(folder.is_dir() for folder in folders):
            raise Missing(f"{VARIABLE} names a folder without cub, thrust and libcudacxx")
        return [option for folder in folders for option in ("-I", str(folder))]

    def _load(self, dtypes, options):
        variants = [[f"-DRTOPK_PEER_ELEMENT={ELEMENTS[dtype]}", *options] for dtype in dtypes]
        self._libraries = dict(zip(dtypes, compiled.libraries("cub_rows.cu", variants), strict=True))
        for library in self._libraries.values():
            declare(library)

    def fits(self, rows, cols, k):
        return cols <= next(iter(self._libraries.values())).rtopk_peer_cub_max_cols()

    def bound(self, matrix, k, max_iter=0):
        import torch

        names = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
        library = self._libraries[names[matrix.dtype]]
        (rows, cols), device = matrix.shape, matrix.device
        # A sort moves the columns' numbers with the elements, and reads them from memory; they are made beforehand.
        sorts = bool(library.rtopk_peer_cub_sorts())
        columns = torch.arange(cols, dtype=torch.int32, device=device).repeat(rows) if sorts else None
        width = cols if sorts else k
        values = torch.empty(rows, width, dtype=matrix.dtype, device=device)
        indices = torch.empty(rows, width, dtype=torch.int32, device=device)
        stream = torch.cuda.current_stream().cuda_stream

        def call(temporary, size):
            status = library.rtopk_peer_cub(
                temporary,
                ctypes.byref(size),
                matrix.data_ptr(),
                values.data_ptr(),
                None if columns is None else columns.data_ptr(),
                indices.data_ptr(),
                rows,
                cols,
                k,
                stream,
            )
            if status != 0:
                raise RuntimeError(f"CUDA error {status}")

        size = ctypes.c_size_t(0)
        call(None, size)
        temporary = torch.empty(max(size.value, 1), dtype=torch.uint8, device=device)

        def run():
            call(temporary.data_ptr(), size)
            return values[:, :k], indices[:, :k]

        return run


def declare(library):
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.rtopk_peer_cub.argtypes = (
        [pointer, ctypes.POINTER(ctypes.c_size_t)] + [pointer] * 4 + [number] * 3 + [pointer]
    )
    library.rtopk_peer_cub_max_cols.restype = number
