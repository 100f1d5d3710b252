"""What is installed here, and what it can use."""

import torch

from ._library import build

_BUILD = build()

__version__ = _BUILD["version"]


def _cuda_state(built: bool) -> str:
    if built and torch.version.cuda is None:
        return "rtopk was built with CUDA, and this torch has none: CPU tensors only"
    if not built and torch.version.cuda is not None:
        return (
            "this torch has CUDA, and rtopk was built without: CPU tensors only; install it again where nvcc is found"
        )
    if not built:
        return "neither rtopk nor this torch has CUDA: CPU tensors only"
    return "usable" if torch.cuda.is_available() else "rtopk and this torch have CUDA, and there is no usable GPU"


def info() -> dict[str, object]:
    """What is installed here, and what it can use.

    >>> import rtopk
    >>> sorted(rtopk.info())
    ['cpu_target', 'cpu_targets', 'cuda', 'cuda_built', 'gpus', 'highway', 'torch', 'torch_cuda', 'version']
    """
    built = _BUILD["cuda"] == "1"
    usable = built and torch.cuda.is_available()
    return {
        "version": __version__,
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "cuda_built": built,
        "cuda": _cuda_state(built),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if usable else [],
        "highway": _BUILD["highway"] == "1",
        "cpu_target": _BUILD["cpu_target"],
        "cpu_targets": _BUILD["cpu_targets"].split(),
    }
