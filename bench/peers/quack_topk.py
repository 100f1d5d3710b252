"""quack's topk, a kernel in CuTe DSL. Columns go into the low bits of values, so in float32 it is not exact."""

import importlib.metadata

from .peer import Missing, Peer


def power_of_two(number):
    return number & (number - 1) == 0


class QuackTopK(Peer):
    name = "quack"
    install = "pip install quack-kernels"
    promises = "exact in 16 bits; in float32 values lose as many low bits as a column has; descending; lowest indices"
    dtypes = ("f32", "f16", "bf16")

    def find(self, dtypes):
        try:
            from quack.topk import topk
        except ImportError:
            raise Missing("quack is not installed") from None
        self._topk = topk
        return importlib.metadata.version("quack-kernels")

    def fits(self, rows, cols, k):
        return power_of_two(cols) and power_of_two(k) and cols <= 4096 and k <= 128

    def bound(self, matrix, k, max_iter=0):
        topk = self._topk
        return lambda: topk(matrix, k)
