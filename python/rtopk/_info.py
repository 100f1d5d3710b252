"""What this installation of rtopk consists of, and which hardware it can use."""

import warnings
from typing import TypedDict

import torch

from ._library import build
from ._version import __version__

_BUILD = build()
_SCALAR = (
    "rtopk was built without Highway: on CPU tensors it is slower than torch.topk, and accelerate() leaves them to"
    " torch; to change that, install Highway (Debian, Ubuntu: libhwy-dev), then rtopk again"
)

if _BUILD["highway"] != "1":
    warnings.warn(_SCALAR, stacklevel=3)  # points to the import of rtopk


class Info(TypedDict):
    """What :func:`info` returns."""

    version: str
    torch: str
    torch_cuda: str | None  # the CUDA that torch was built for
    cuda_built: bool
    cuda: str  # "usable", or the reason why it is not
    gpus: list[str]
    highway: bool
    cpu: str  # what runs on CPU tensors; for a slow build, also why it is slow
    cpu_target: str  # the instruction set used on this machine
    cpu_targets: list[str]


def _cuda_state(built: bool) -> str:
    if built and torch.version.cuda is None:
        return "rtopk was built with CUDA, and this torch has none: CPU tensors only"
    if not built and torch.version.cuda is not None:
        return (
            "this torch has CUDA, and rtopk was built without: CPU tensors only; install rtopk again on a machine with"
            " nvcc"
        )
    if not built:
        return "neither rtopk nor this torch has CUDA: CPU tensors only"
    return "usable" if torch.cuda.is_available() else "rtopk and this torch have CUDA, and there is no usable GPU"


def info() -> Info:
    """What this installation of rtopk consists of, and which hardware it can use. :class:`Info` lists the fields.

    >>> import rtopk
    >>> sorted(rtopk.info())
    ['cpu', 'cpu_target', 'cpu_targets', 'cuda', 'cuda_built', 'gpus', 'highway', 'torch', 'torch_cuda', 'version']
    """
    built = _BUILD["cuda"] == "1"
    usable = built and torch.cuda.is_available()
    highway = _BUILD["highway"] == "1"
    return {
        "version": __version__,
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "cuda_built": built,
        "cuda": _cuda_state(built),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if usable else [],
        "highway": highway,
        "cpu": f"{_BUILD['cpu_target']}, with Highway" if highway else f"scalar: {_SCALAR}",
        "cpu_target": _BUILD["cpu_target"],
        "cpu_targets": _BUILD["cpu_targets"].split(),
    }
