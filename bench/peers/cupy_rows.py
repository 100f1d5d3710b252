"""CuPy has no top-k: argpartition is what its users call, and it sorts whole rows."""

from .peer import Missing, Peer


class CupyRows(Peer):
    name = "cupy"
    install = "pip install cupy-cuda13x"
    promises = "exact; argpartition, which sorts whole rows; ascending; highest indices of ties"
    dtypes = ("f32", "f16", "f64", "i32")

    def find(self, dtypes):
        try:
            import cupy
        except ImportError:
            raise Missing("cupy is not installed") from None
        if not cupy.cuda.is_available():
            raise Missing(f"cupy {cupy.__version__} finds no GPU")
        self._cupy = cupy
        return cupy.__version__

    def bound(self, matrix, k, max_iter=0):
        import torch

        cupy, device, first = self._cupy, matrix.device, matrix.shape[1] - k
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

        def run():
            with cupy.cuda.Device(device.index or 0), stream:
                rows = cupy.asarray(matrix)  # the same memory
                indices = cupy.argpartition(rows, first, axis=1)[:, first:]
                values = cupy.take_along_axis(rows, indices, axis=1)
                return torch.as_tensor(values, device=device), torch.as_tensor(indices, device=device)

        return run

    def release(self):
        self._cupy.get_default_memory_pool().free_all_blocks()
