"""The dense network with another top-k in the place of torch.topk, and nothing else changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch

import rtopk
from rtopk.gnn import MaxKGNN
from rtopk.gnn.rows import DenseMaxK


@dataclass(frozen=True)
class Selection:
    """A top-k: called with rows and k, it returns values and indices."""

    name: str
    select: Callable
    max_iter: int | None = None
    rule: str | None = None  # of max_iter
    kind: str = "replaced"  # or "torch": torch.topk itself


TORCH = Selection("torch.topk", torch.topk, kind="torch")
# MaxK needs no order by value, which torch.topk makes unless told otherwise.
UNSORTED = Selection("torch.topk unsorted", partial(torch.topk, sorted=False), kind="torch")
EXACT = Selection("exact", partial(rtopk.topk, sorted=False))


def selections(max_iters: Iterable[int], rules: Iterable[str]) -> list[Selection]:
    """All that are compared, torch.topk first."""
    stopped = [
        Selection(
            f"max_iter {max_iter}, {rule}",
            partial(rtopk.topk, sorted=False, max_iter=max_iter, rule=rule),
            max_iter,
            rule,
        )
        for rule in rules
        for max_iter in max_iters
    ]
    return [TORCH, UNSORTED, EXACT, *stopped]


class _ReplacedMaxK(DenseMaxK):
    def __init__(self, k: int, selection: Selection) -> None:
        super().__init__(k)
        self.selection = selection

    def select(self, x: torch.Tensor) -> object:
        return self.selection.select(x, self.k)


def replace_topk(network: MaxKGNN, selection: Selection) -> None:
    """Makes a dense network select by this. The mask, its product and the sums over neighbours stay as they are."""
    for convolution in network.convolutions:
        convolution.activation = _ReplacedMaxK(convolution.k, selection)
