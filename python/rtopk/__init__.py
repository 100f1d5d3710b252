"""Exact, deterministic and fast top-k for arrays and tensors.

>>> import numpy, rtopk
>>> a = numpy.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
>>> rtopk.top_k(a, 2).indices
array([[0, 2],
       [1, 2]])

:func:`top_k` takes any array: of NumPy, CuPy, JAX, or with ``__dlpack__``; :func:`top_k_mask`, :func:`top_k_dense` and
:func:`top_k_compact` give the same selection in other forms, :func:`top_k_segments` selects from segments of a flat
array. :mod:`rtopk.jax` works inside of ``jax.jit``.

For PyTorch, :func:`topk` has torch.topk's signature, return type and semantics; :func:`maxk`, :func:`topk_mask` and
:func:`compact` give the same selection in other forms; :func:`topk_segments` and :func:`topk_paged` select from
segments of a flat tensor and for a paged cache, :mod:`rtopk.serving` with FlashInfer's arguments; :mod:`rtopk.moe`
routes tokens to experts; :mod:`rtopk.distributed` selects over the ranks of torch.distributed; :func:`accelerate`
brings the selection to code that calls torch.topk.

``import rtopk`` loads no framework: each name is loaded when it is first used. Where torch is there already, the
operators (torch.ops.rtopk) are registered at once, so that saved graphs find them.
"""

import importlib
import sys

from ._version import __version__

TYPE_CHECKING = False  # type checkers know this name; typing would bring 20 modules more
if TYPE_CHECKING:
    from . import distributed, jax, moe, nn, serving
    from ._accelerate import accelerate, is_accelerated, set_accelerated
    from ._arrays import top_k, top_k_compact, top_k_dense, top_k_mask, top_k_segments
    from ._compact import compact, expand
    from ._info import info
    from ._maxk import maxk, topk_mask
    from ._paged import topk_paged
    from ._results import CBSR, TopK, TopKThreshold
    from ._segments import topk_segments
    from ._topk import topk

# Where each name comes from; a module is its own.
_MODULES = ("distributed", "jax", "moe", "nn", "serving")
_NAMES = {
    "CBSR": "_results",
    "TopK": "_results",
    "TopKThreshold": "_results",
    "accelerate": "_accelerate",
    "compact": "_compact",
    "expand": "_compact",
    "info": "_info",
    "is_accelerated": "_accelerate",
    "maxk": "_maxk",
    "set_accelerated": "_accelerate",
    "top_k": "_arrays",
    "top_k_compact": "_arrays",
    "top_k_dense": "_arrays",
    "top_k_mask": "_arrays",
    "top_k_segments": "_arrays",
    "topk": "_topk",
    "topk_mask": "_maxk",
    "topk_paged": "_paged",
    "topk_segments": "_segments",
}

__all__ = [
    "CBSR",
    "TopK",
    "TopKThreshold",
    "__version__",
    "accelerate",
    "compact",
    "distributed",
    "expand",
    "info",
    "is_accelerated",
    "jax",
    "maxk",
    "moe",
    "nn",
    "serving",
    "set_accelerated",
    "top_k",
    "top_k_compact",
    "top_k_dense",
    "top_k_mask",
    "top_k_segments",
    "topk",
    "topk_mask",
    "topk_paged",
    "topk_segments",
]


def _part(module: str, name: str):
    """A module of the package. Where it needs a package that is not installed, the error says how to get it."""
    try:
        return importlib.import_module(module, __name__)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "jax"):
            raise
        raise ModuleNotFoundError(
            f"rtopk.{name} needs {error.name}, which is not installed: pip install {error.name}", name=error.name
        ) from None


def __getattr__(name: str):
    if name in _MODULES:
        return _part(f".{name}", name)  # which makes it an attribute
    if name in _NAMES:
        value = getattr(_part(f".{_NAMES[name]}", name), name)
        globals()[name] = value  # the next use does not come here
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))


def _register_operators() -> None:
    try:
        for name in ("_topk", "_maxk", "_compact", "_rows", "_segments", "_paged", "moe"):
            importlib.import_module(f".{name}", __name__)
    except ImportError:
        pass  # whoever uses a name of theirs is told; arrays do not need them


if "torch" in sys.modules:
    _register_operators()
