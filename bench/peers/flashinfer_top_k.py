"""FlashInfer's top_k, with its own choice among its algorithms."""

from .peer import Missing, Peer


class FlashInferTopK(Peer):
    name = "flashinfer"
    install = "pip install flashinfer-python"
    promises = "exact; no order; any of the ties"
    dtypes = ("f32", "f16", "bf16")

    def find(self, dtypes):
        try:
            import flashinfer
        except ImportError:
            raise Missing("flashinfer is not installed") from None
        if not hasattr(flashinfer, "top_k"):
            raise Missing(f"flashinfer {flashinfer.__version__} has no top_k")
        self._top_k = flashinfer.top_k
        return flashinfer.__version__

    def bound(self, matrix, k, max_iter=0):
        top_k = self._top_k
        return lambda: top_k(matrix, k)
