"""Runs a piece of someone's code with accelerate() off and on, from the same seed, and compares all that came out."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import rtopk
from watch import Watch


@dataclass
class Total:
    """What all comparisons of this process came to."""

    results: int = 0
    same_bits: int = 0  # with accelerate() on and off
    by_ties: int = 0  # different since of equal values others were selected
    calls: int = 0  # with accelerate() on
    routed: int = 0


total = Total()


def seed_everything(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(seed)


def gradients(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.grad for name, value in module.named_parameters() if value.grad is not None}


def leaves(tree: Any, path: str = "result") -> Iterator[tuple[str, Any]]:
    """The tensors and numbers of nested containers, each with the way to it."""
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        tree = vars(tree)
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, f"{path}[{key!r}]")
    elif isinstance(tree, (list, tuple)):
        for place, value in enumerate(tree):
            yield from leaves(value, f"{path}[{place}]")
    elif isinstance(tree, torch.Tensor):
        yield path, tree.detach().clone()
    elif isinstance(tree, (int, float, str)):
        yield path, tree


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, torch.Tensor):
        return ours.shape == theirs.shape and bool(((ours == theirs) | ((ours != ours) & (theirs != theirs))).all())
    return ours == theirs or (ours != ours and theirs != theirs)


def run(function: Callable[[], Any], seed: int, replay: list[bool] | None = None) -> tuple[dict[str, Any], Watch]:
    seed_everything(seed)
    with Watch(replay) as watch:
        result = dict(leaves(function()))
    assert watch.mistakes == []
    assert result, "nothing to compare"
    return result, watch


# How far results may be apart whose sums were made in another order, as a part of the largest element.
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 3e-2}


def close(ours: Any, theirs: Any) -> bool:
    if not isinstance(theirs, torch.Tensor) or theirs.dtype not in TOLERANCES or ours.shape != theirs.shape:
        return same(ours, theirs)
    largest = theirs[theirs.isfinite()].abs().max() if theirs.isfinite().any() else 0
    # Some gradients are zero but for rounding, such as those of the bias of keys.
    atol = TOLERANCES[theirs.dtype] * max(float(largest), 0.01)
    return torch.allclose(ours, theirs, rtol=0, atol=atol, equal_nan=True)


def same_both_ways(function: Callable[[], Any], *, called: bool = True, seed: int = 0) -> None:
    """Fails unless function() returns the same with accelerate() on as with it off.

    Every call of torch.topk is checked by itself. Results agree to the last bit, or nearly so: rtopk has another order
    where sorted=False leaves it open, which may become another order of sums. Where values are equal in the kth place
    (ties), torch and rtopk may select different ones, and results may differ. All results are, to the last bit, what a
    stable sort in place of rtopk leads to.

    called says whether torch.topk is expected to be called. Which calls are worth routing is accelerate()'s to decide,
    so those are only counted.
    """
    theirs, _ = run(function, seed)
    with rtopk.accelerate():
        ours, watch = run(function, seed)
    expected, _ = run(function, seed, replay=watch.by_rtopk)
    assert list(ours) == list(theirs) == list(expected)
    different = [path for path in ours if not same(ours[path], expected[path])]
    assert different == [], "not what a stable sort leads to"

    different = [path for path in ours if not close(ours[path], theirs[path])]
    assert different == [] or watch.ties > 0, "not what torch's selection leads to, and no ties"
    assert (watch.calls > 0) == called, f"torch.topk was called {watch.calls} times"
    total.results += len(ours)
    total.same_bits += sum(same(ours[path], theirs[path]) for path in ours)
    total.by_ties += len(different)
    total.calls += watch.calls
    total.routed += watch.routed
