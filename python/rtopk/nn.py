"""The selections as modules."""

from __future__ import annotations

import torch

from . import _functions


class MaxK(torch.nn.Module):
    """The MaxK activation: keeps the k largest elements along a dimension and sets the rest to zero.

    >>> layer = torch.nn.Sequential(torch.nn.Linear(16, 64), rtopk.nn.MaxK(8))
    >>> (layer(torch.randn(4, 16)) != 0).sum(dim=1)
    tensor([8, 8, 8, 8])
    """

    def __init__(
        self,
        k: int,
        dim: int = -1,
        largest: bool = True,
        *,
        max_iter: int | None = None,
        epsilon: float = 0.0,
    ) -> None:
        super().__init__()
        self.k = k
        self.dim = dim
        self.largest = largest
        self.max_iter = max_iter
        self.epsilon = epsilon

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return _functions.maxk(input, self.k, self.dim, self.largest, max_iter=self.max_iter, epsilon=self.epsilon)

    def extra_repr(self) -> str:
        return _described(self, k=None, dim=-1, largest=True, max_iter=None, epsilon=0.0)


class TopK(torch.nn.Module):
    """The k largest elements along a dimension, as (values, indices).

    >>> rtopk.nn.TopK(2)(torch.tensor([3.0, 1.0, 2.0])).values
    tensor([3., 2.])
    >>> rtopk.nn.TopK(2, sorted=False)
    TopK(k=2, sorted=False)
    """

    def __init__(
        self,
        k: int,
        dim: int = -1,
        largest: bool = True,
        sorted: bool = True,
        *,
        max_iter: int | None = None,
        epsilon: float = 0.0,
        index_dtype: torch.dtype = torch.int64,
    ) -> None:
        super().__init__()
        self.k = k
        self.dim = dim
        self.largest = largest
        self.sorted = sorted
        self.max_iter = max_iter
        self.epsilon = epsilon
        self.index_dtype = index_dtype

    def forward(self, input: torch.Tensor) -> torch.return_types.topk:
        return _functions.topk(
            input,
            self.k,
            self.dim,
            self.largest,
            self.sorted,
            max_iter=self.max_iter,
            epsilon=self.epsilon,
            index_dtype=self.index_dtype,
        )

    def extra_repr(self) -> str:
        defaults = {"dim": -1, "largest": True, "sorted": True, "max_iter": None, "epsilon": 0.0}
        return _described(self, k=None, **defaults, index_dtype=torch.int64)


def _described(module: torch.nn.Module, **defaults: object) -> str:
    """k, and what differs from its default."""
    shown = {name: getattr(module, name) for name in defaults}
    return ", ".join(f"{name}={value}" for name, value in shown.items() if value != defaults[name])
