"""Routes torch.topk to rtopk, below the dispatcher, where every way of calling it arrives.

A C++ kernel (bindings/torch/routing.cpp) replaces torch's kernel for a device. It selects with rtopk if that is faster
and the result is the same, and calls torch's kernel otherwise. Derivatives, fake tensors, vmap, graphs and errors stay
torch's own.
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
_on = False  # switched on, or a context is open


def _is_the_only_thread() -> bool:
    """Whether no other thread may be calling the kernel, so that it is safe to remove. Threads that Python does not
    count, such as autograd's, call torch.topk only while a Python thread waits for them."""
    return threading.active_count() == 1


def _keep_quiet_about_kernels() -> None:
    """Uses up torch's warning about a replaced kernel, which comes once in a process. For a kernel from C++ torch
    prints it on stderr; for one from Python it is a Python warning, which can be ignored. So one from Python goes
    first."""
    library = torch.library.Library("rtopk", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl("build_text", lambda: "", "CompositeExplicitAutograd", allow_override=True)
    del library  # and its kernel with it


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
    """A context manager, and a decorator: while the block runs, rtopk does torch.topk's work wherever that is faster
    and the result is the same.

    It holds for all threads of the process as long as any block is open. So when checkpointing repeats a forward
    computation in one of autograd's threads, the repetition selects the same elements. It reaches torch.topk and
    Tensor.topk wherever they are called from, also in code compiled by torch.compile. Values are torch's. Among equal
    values, where torch leaves the choice open, the lowest indices are selected.

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
    """Switches :func:`accelerate` on or off for the whole process, independently of open blocks.

    Switching off puts torch's kernel back, unless other Python threads run: removing ours while one of them calls it
    would not be safe. Then ours stays, passes every call on to torch's, and goes with the next switch that finds no
    other thread.

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
