"""Routes torch.topk to rtopk: below the dispatcher, where every way of calling it arrives.

A kernel in C++ (bindings/torch/routing.cpp) takes the place of torch's for a device. It selects where rtopk is faster
and the result is the same, and calls torch's kernel otherwise. So torch's own derivatives, fake tensors, vmap and
graphs stay in place, and errors are torch's own.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator

import torch

from ._library import build

_lock = threading.Lock()
_switched_on = False
_open_contexts = 0
_in_place = False
_on = False  # what the first two come to


def _is_the_only_thread() -> bool:
    """Taking a kernel away while another thread may be calling it is not safe. Threads that are not Python's call
    torch.topk while a Python thread waits for them, as autograd's do."""
    return threading.active_count() == 1


def _keep_quiet_about_kernels() -> None:
    """torch warns once in a process of a kernel that takes the place of another; from C++, on stderr. Of one that comes
    from Python it warns in Python, where that can be ignored."""
    library = torch.library.Library("rtopk", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl("build_text", lambda: "", "CompositeExplicitAutograd", allow_override=True)
    library._destroy()


def _route(in_place: bool, on: bool) -> None:
    global _in_place, _on
    if in_place and not _in_place:
        _keep_quiet_about_kernels()
    # Without Highway rtopk is slower on CPU tensors than torch.
    cpu = in_place and build()["highway"] == "1"
    cuda = in_place and build()["cuda"] == "1" and torch.version.cuda is not None
    torch.ops.rtopk._route_topk(cpu, cuda, on)
    _in_place, _on = in_place, on


def _change(*, contexts: int = 0, switch: bool | None = None) -> None:
    global _open_contexts, _switched_on
    with _lock:
        _open_contexts += contexts
        if switch is not None:
            _switched_on = switch
        on = _switched_on or _open_contexts > 0
        if on != _on or (_in_place and not on):
            _route(on or (_in_place and not _is_the_only_thread()), on)


@contextlib.contextmanager
def accelerate() -> Iterator[None]:
    """While the block runs, torch.topk is done by rtopk wherever that is faster and the result is the same. Also a
    decorator.

    It holds for all threads of the process as long as any block is open: a backward pass that repeats a forward pass
    in torch's own threads selects as that did. It reaches torch.topk and Tensor.topk wherever they are called from,
    also in code compiled by torch.compile. Values are torch's; of equal values the lowest indices are selected, where
    torch leaves the choice open.

    >>> with rtopk.accelerate():
    ...     torch.topk(torch.tensor([1.0, 7.0, 3.0, 7.0]), 3).indices
    tensor([1, 3, 2])
    """
    _change(contexts=1)
    try:
        yield
    finally:
        _change(contexts=-1)


def set_accelerated(enabled: bool) -> None:
    """Switches :func:`accelerate` on or off for the whole process, beside any open blocks.

    Off, torch's kernel is in its place again, unless other threads of Python run: taking ours away while one of them
    calls it would not be safe. Then it stays, calls torch's, and goes with the next switch that finds no other thread.

    >>> rtopk.set_accelerated(True)
    >>> rtopk.is_accelerated()
    True
    >>> rtopk.set_accelerated(False)
    """
    _change(switch=bool(enabled))


def is_accelerated() -> bool:
    """Whether torch.topk is routed to rtopk now.

    >>> rtopk.is_accelerated()
    False
    """
    return _on
