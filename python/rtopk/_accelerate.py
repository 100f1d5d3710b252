"""Routes torch.topk to rtopk: below the dispatcher, where every way of calling it arrives.

The kernel of aten::topk for a device is wrapped once. The wrapper hands a call to rtopk while acceleration is on and
the result is the same, and to torch's own kernel otherwise. So torch's own derivatives, fake tensors, vmap and graphs
stay in place, and errors are torch's own.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator

import torch

from ._library import build

_ROUTED_DTYPES = frozenset((torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32))

_lock = threading.Lock()
_library: torch.library.Library | None = None
_switched_on = False
_open_contexts = 0
_on = False  # what the two above come to


def _wrapped(torch_kernel, select):
    def topk(keyset, self, k, dim=-1, largest=True, sorted=True):
        if _on and self.dtype in _ROUTED_DTYPES:
            dims = self.dim()
            if -dims <= dim < dims and 0 < k <= self.size(dim):
                return select(self, k, dim, largest, sorted)
        return torch_kernel.call_boxed(keyset, self, k, dim, largest, sorted)

    return topk


def _install() -> None:
    global _library
    if _library is not None:
        return
    # It stays until the process ends: taking a kernel away while another thread calls it is not safe.
    library = torch.library.Library("aten", "IMPL")
    # Without Highway rtopk is slower on CPU tensors than torch.
    keys = ["CPU"] if build()["highway"] == "1" else []
    if build()["cuda"] == "1" and torch.version.cuda is not None:
        keys.append("CUDA")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Overriding a previously registered kernel", category=UserWarning)
        warnings.filterwarnings("ignore", message="(?s)Warning only once for all operators.*", category=UserWarning)
        for key in keys:
            kernel = _wrapped(torch.library.get_kernel("aten::topk", key), torch.ops.rtopk._topk_exact.default._op)
            library.impl("topk", kernel, key, with_keyset=True, allow_override=True)
    _library = library


def _change(*, contexts: int = 0, switch: bool | None = None) -> None:
    global _open_contexts, _switched_on, _on
    with _lock:
        if contexts > 0 or switch:
            _install()
        _open_contexts += contexts
        if switch is not None:
            _switched_on = switch
        _on = _switched_on or _open_contexts > 0


@contextlib.contextmanager
def accelerate() -> Iterator[None]:
    """While the block runs, torch.topk is done by rtopk wherever the result is the same. Also a decorator.

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
