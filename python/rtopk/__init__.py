"""Exact, deterministic and fast top-k for PyTorch tensors.

>>> import torch, rtopk
>>> x = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
>>> rtopk.topk(x, 2).indices
tensor([[0, 2],
        [1, 2]])

:func:`topk` has torch.topk's signature, return type and semantics; :func:`maxk`, :func:`topk_mask` and :func:`compact`
give the same selection in other forms; :func:`topk_segments` and :func:`topk_paged` select from segments of a flat
tensor and for a paged cache, :mod:`rtopk.serving` with FlashInfer's arguments; :mod:`rtopk.moe` routes tokens to
experts; :mod:`rtopk.distributed` selects over the ranks of torch.distributed; :func:`accelerate` brings the selection
to code that calls torch.topk.
"""

import importlib

from . import moe, nn, serving
from ._accelerate import accelerate, is_accelerated, set_accelerated
from ._compact import CBSR, compact, expand
from ._info import __version__, info
from ._maxk import maxk, topk_mask
from ._paged import topk_paged
from ._rows import TopKThreshold
from ._segments import topk_segments
from ._topk import topk

__all__ = [
    "CBSR",
    "TopKThreshold",
    "__version__",
    "accelerate",
    "compact",
    "expand",
    "info",
    "is_accelerated",
    "maxk",
    "moe",
    "nn",
    "serving",
    "set_accelerated",
    "topk",
    "topk_mask",
    "topk_paged",
    "topk_segments",
]


def __getattr__(name: str):
    # Loaded when it is used: few processes have ranks.
    if name == "distributed":
        return importlib.import_module(".distributed", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
