"""Sees every call of torch.topk on the CPU, whoever makes it, and checks what came back."""

from __future__ import annotations

import threading
import warnings

import torch

import rtopk


def mistake(x, k, dim, largest, is_sorted, values, indices) -> str | None:
    """What is wrong with a selection, or None. Of equal values any may be taken, each of them once."""
    selected = x.gather(dim, indices)
    if not torch.equal(selected.contiguous().view(torch.uint8), values.contiguous().view(torch.uint8)):
        return "values are not what stands at the indices"
    by_index = indices.sort(dim).values
    if k > 1 and (by_index.narrow(dim, 1, k - 1) == by_index.narrow(dim, 0, k - 1)).any():
        return "an index was selected twice"
    best = x.sort(dim, descending=largest).values.narrow(dim, 0, k)
    ours = values if is_sorted else values.sort(dim, descending=largest).values
    # Equal as numbers: zeros of either sign are ties. NaN is the largest, for torch.sort as well.
    if not ((ours == best) | ((ours != ours) & (best != best))).all():
        return "values are not the best, or not in order"
    return None


def stable_topk(x, k, dim, largest, is_sorted):
    """What rtopk promises: of equal values the lowest indices; in ascending index where no order is asked for."""
    values, indices = (part.narrow(dim, 0, k) for part in x.sort(dim=dim, descending=largest, stable=True))
    if not is_sorted:
        indices = indices.sort(dim).values
        values = x.gather(dim, indices)
    return values.contiguous(), indices.contiguous()


def tied(x, k, dim, largest) -> bool:
    """Whether any row has equal values in its kth place and behind it, so that it is open which of them is selected."""
    if k == x.size(dim):
        return False
    last, next_one = x.sort(dim, descending=largest).values.narrow(dim, k - 1, 2).unbind(dim)
    return bool(((last == next_one) | ((last != last) & (next_one != next_one))).any())


class Watch:
    """While it is open: the calls of torch.topk, those of them that rtopk did, those with ties, and those gone wrong.

    Enter it after accelerate(): it stands on top of whatever does torch.topk at that moment, and below autograd, vmap
    and torch.compile. With the calls of an earlier run in replay, those that rtopk did then are done by a stable sort.
    """

    def __init__(self, replay: list[bool] | None = None):
        self.by_rtopk: list[bool] = []  # for each call
        self.ties = 0
        self.mistakes: list[str] = []
        self._replay = replay
        self._lock = threading.Lock()
        self._library: torch.library.Library | None = None

    @property
    def calls(self) -> int:
        return len(self.by_rtopk)

    @property
    def routed(self) -> int:
        return sum(self.by_rtopk)

    def __enter__(self) -> Watch:
        torch_or_rtopk = torch.library.get_kernel("aten::topk", "CPU")

        def topk(keyset, x, k, dim=-1, largest=True, sorted=True):
            before = torch.ops.rtopk._routed_calls()
            if self._replay and self._replay[len(self.by_rtopk)]:
                result = stable_topk(x, k, dim, largest, sorted)
            else:
                result = torch_or_rtopk.call_boxed(keyset, x, k, dim, largest, sorted)
            by_rtopk = torch.ops.rtopk._routed_calls() > before
            looked_at = k > 0 and x.dim() > 0
            found = mistake(x, k, dim, largest, sorted, *result) if looked_at else None
            ties = looked_at and tied(x, k, dim, largest)
            with self._lock:
                self.ties += ties
                self.by_rtopk.append(by_rtopk)
                if found:
                    self.mistakes.append(f"{found}: {tuple(x.shape)}, {x.dtype}, {k=}, {dim=}, {largest=}, {sorted=}")
            return result

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Overriding a previously registered kernel")
            warnings.filterwarnings("ignore", message="(?s)Warning only once for all operators.*")
            self._library = torch.library.Library("aten", "IMPL")
            self._library.impl("topk", topk, "CPU", with_keyset=True, allow_override=True)
        return self

    def __exit__(self, *_) -> None:
        self._library._destroy()


def assert_that_watches_see() -> None:
    """Raises where rtopk is not seen at work: a table that says 0 calls must mean it."""
    for accelerated in (False, True):
        with rtopk.accelerate() if accelerated else torch.no_grad(), Watch() as watch:
            torch.topk(torch.randn(64, 4096), 100)
        if watch.by_rtopk != [accelerated]:
            raise RuntimeError(
                f"a call of torch.topk with accelerate() {'on' if accelerated else 'off'} was seen as {watch.by_rtopk}"
                " (whether rtopk did it)"
            )
