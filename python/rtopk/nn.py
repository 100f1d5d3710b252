"""The selections as modules for networks."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import torch

from ._maxk import maxk
from ._rules import check_rule, check_search
from ._topk import topk

__all__ = ["MaxK", "TopK"]

if TYPE_CHECKING:
    _Pairs = torch.return_types.topk
else:
    _Pairs = tuple[torch.Tensor, torch.Tensor]  # torch.jit.script does not know the named tuple

_MAX_PASSES = 10_000


def _integer(name: str, value: Any, minimum: int | None = None, maximum: int | None = None) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; accepted: an integer")
    number = index(value)
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        limits = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
        raise ValueError(f"{name} is {number}; accepted: {limits}")
    return number


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; accepted: True or False")
    return value


def _early_stopping(max_iter: Any, epsilon: Any) -> tuple[int | None, float]:
    """Both, checked. At most one of them may be given."""
    if max_iter is not None:
        max_iter = _integer("max_iter", max_iter, 1, _MAX_PASSES)
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)):
        raise TypeError(f"epsilon is {epsilon!r}; accepted: a number from 0 (exact) to 1")
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon is {epsilon}; accepted: 0 (exact) to 1")
    if max_iter is not None and epsilon != 0:
        raise ValueError(f"max_iter is {max_iter} and epsilon {epsilon}; accepted: one of them, without the other")
    return max_iter, float(epsilon)


class MaxK(torch.nn.Module):
    """The MaxK activation: keeps the k largest elements along a dimension and sets the rest to zero.

    Args: those of :func:`rtopk.maxk`.

    Shape: the output has the shape of the input.

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
        rule: str = "threshold_first",
        epsilon: float = 0.0,
        search: str = "fast",
        magnitude: bool = False,
    ) -> None:
        super().__init__()
        self.k = _integer("k", k, 0)
        self.dim = _integer("dim", dim)
        self.largest = _boolean("largest", largest)
        self.max_iter, self.epsilon = _early_stopping(max_iter, epsilon)
        self.rule, self.search = check_rule(rule), check_search(search)
        self.magnitude = _boolean("magnitude", magnitude)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_scripting():
            passes = 0 if self.max_iter is None else self.max_iter
            printed, bisection = self.rule == "printed", self.search == "bisection"
            if self.magnitude:
                return torch.ops.rtopk.maxk_rows(
                    input, self.k, self.dim, None, None, None, self.largest, True, passes, self.epsilon, printed,
                    bisection,
                )  # fmt: skip
            return torch.ops.rtopk.maxk(input, self.k, self.dim, self.largest, passes, self.epsilon, printed, bisection)
        else:  # torch.jit.script skips this branch
            return maxk(
                input,
                self.k,
                self.dim,
                self.largest,
                max_iter=self.max_iter,
                rule=self.rule,
                epsilon=self.epsilon,
                search=self.search,
                magnitude=self.magnitude,
            )

    def extra_repr(self) -> str:
        defaults = {"dim": -1, "largest": True, "max_iter": None, "rule": "threshold_first", "epsilon": 0.0}
        return _described(self, k=None, **defaults, search="fast", magnitude=False)


class TopK(torch.nn.Module):
    """The k largest elements along a dimension, as (values, indices).

    Args: those of :func:`rtopk.topk`.

    Shape: values and indices have the shape of the input, with k in the place of the selected dimension.

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
        rule: str = "threshold_first",
        epsilon: float = 0.0,
        search: str = "fast",
        index_dtype: torch.dtype = torch.int64,
        magnitude: bool = False,
    ) -> None:
        super().__init__()
        self.k = _integer("k", k, 0)
        self.dim = _integer("dim", dim)
        self.largest = _boolean("largest", largest)
        self.sorted = _boolean("sorted", sorted)
        self.max_iter, self.epsilon = _early_stopping(max_iter, epsilon)
        self.rule, self.search = check_rule(rule), check_search(search)
        if index_dtype not in (torch.int64, torch.int32):
            raise ValueError(f"index_dtype is {index_dtype!r}; accepted: torch.int64 or torch.int32")
        self.index_dtype = index_dtype
        self.magnitude = _boolean("magnitude", magnitude)

    def forward(self, input: torch.Tensor) -> _Pairs:
        if torch.jit.is_scripting():
            passes = 0 if self.max_iter is None else self.max_iter
            printed, bisection = self.rule == "printed", self.search == "bisection"
            if self.magnitude:
                values, indices, _ = torch.ops.rtopk.topk_rows(
                    input, self.k, self.dim, None, None, None, None, self.largest, self.sorted, True, False, passes,
                    self.epsilon, self.index_dtype, printed, bisection,
                )  # fmt: skip
                return values, indices
            return torch.ops.rtopk.topk(
                input, self.k, self.dim, self.largest, self.sorted, passes, self.epsilon, self.index_dtype, printed,
                bisection,
            )  # fmt: skip
        else:
            return _topk(self, input)

    def extra_repr(self) -> str:
        defaults = {"dim": -1, "largest": True, "sorted": True, "max_iter": None, "rule": "threshold_first"}
        defaults |= {"epsilon": 0.0, "search": "fast", "index_dtype": torch.int64, "magnitude": False}
        return _described(self, k=None, **defaults)


def _topk(module: TopK, input: torch.Tensor) -> torch.return_types.topk:
    """What a module selects. A function of its own, as torch.jit.script does not know **."""
    options = {"max_iter": module.max_iter, "rule": module.rule, "epsilon": module.epsilon, "search": module.search}
    if module.magnitude:
        options["magnitude"] = True
    order = (module.k, module.dim, module.largest, module.sorted)
    return topk(input, *order, **options, index_dtype=module.index_dtype)


def _described(module: torch.nn.Module, **defaults: object) -> str:
    """k, and every argument that differs from its default."""
    shown = {name: getattr(module, name) for name in defaults}
    return ", ".join(f"{name}={value!r}" for name, value in shown.items() if value != defaults[name])
