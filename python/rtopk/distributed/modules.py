"""The selections over shards as modules for networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.distributed import ProcessGroup

from .. import nn
from .shards import maxk


class MaxK(nn.MaxK):
    """The MaxK activation of a layer whose columns are split over the ranks of a group, as in tensor parallelism.

    It keeps the k largest elements of all shards together and sets the rest to zero.

    Args: those of :func:`rtopk.distributed.maxk`.

    Shape: the output has the shape of the input, which is the shard of this rank.
    """

    def __init__(
        self,
        k: int,
        dim: int = -1,
        largest: bool = True,
        *,
        group: ProcessGroup | None = None,
        sizes: Sequence[int] | None = None,
    ) -> None:
        super().__init__(k, dim, largest)
        self.group = group
        self.sizes = sizes

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return maxk(input, self.k, self.dim, self.largest, group=self.group, sizes=self.sizes)
