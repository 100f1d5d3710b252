"""torchvision without its binary.

PyPI's torchvision is built for CUDA, and beside a torch for CPUs not even `import torchvision` works: it wants the
operator torchvision::nms. What else detection needs has a way of its own in Python.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch

_library: torch.library.Library | None = None


def _nms(boxes, scores, iou_threshold):
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order = scores.argsort(descending=True, stable=True)
    kept = []
    while order.numel() > 0:
        best, order = order[0], order[1:]
        kept.append(best)
        sides = torch.minimum(boxes[best, 2:], boxes[order, 2:]) - torch.maximum(boxes[best, :2], boxes[order, :2])
        common = sides.clamp(min=0).prod(dim=1)
        order = order[common <= iou_threshold * (areas[best] + areas[order] - common)]
    return torch.stack(kept) if kept else torch.empty(0, dtype=torch.int64)


def _has_ops() -> None:  # a function of its own, for torch.jit.script
    return None


def provide() -> bool:
    """Whether torchvision needed it."""
    global _library
    package = importlib.util.find_spec("torchvision")
    if package is None:
        return False
    binaries = list(Path(package.origin).parent.glob("_C*.so"))
    try:
        torch.ops.load_library(str(binaries[0]))
        return False
    except (OSError, IndexError):
        _library = torch.library.Library("torchvision", "FRAGMENT")
        _library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _library.impl("nms", _nms, "CPU")
        _library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # it only has to be there
    import torchvision.ops  # noqa: F401  # for its modules, whose names are hidden by its functions

    sys.modules["torchvision.ops.boxes"]._assert_has_ops = _has_ops
    # Its way in Python is to be compiled, which takes minutes.
    roi_align = sys.modules["torchvision.ops.roi_align"]
    roi_align._roi_align = roi_align._roi_align.__wrapped__
    return True
