"""JAX's lax.top_k, compiled by XLA, on the same memory through DLPack.

JAX has streams of its own. A call imports the matrix, which makes JAX wait for torch's stream on the GPU, and exports
the results, which makes torch's stream wait for JAX. So events on torch's stream enclose JAX's work, and its time
includes the hand-over in both directions: some tens of microseconds.
"""

import os

from .peer import Missing, Peer


class JaxTopK(Peer):
    name = "jax"
    install = 'pip install "jax[cuda13]"'
    promises = "exact; descending; lowest indices of ties; the time includes the hand-over between two streams"
    dtypes = ("f32", "f16", "bf16", "i32")

    def find(self, dtypes):
        # Else it takes three quarters of the GPU's memory at its first call.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        try:
            import jax
            import jax.dlpack
        except ImportError:
            raise Missing("jax is not installed") from None
        if not any(device.platform in ("gpu", "cuda") for device in jax.devices()):
            raise Missing(f"jax {jax.__version__} is installed without CUDA")
        self._import = jax.dlpack.from_dlpack
        self._top_k = jax.jit(lambda matrix, k: jax.lax.top_k(matrix, k), static_argnums=1)
        return jax.__version__

    def bound(self, matrix, k, max_iter=0):
        import torch

        import_, top_k, export = self._import, self._top_k, torch.from_dlpack

        def run():
            values, indices = top_k(import_(matrix), k)
            return export(values), export(indices)

        return run
