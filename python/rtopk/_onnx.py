"""What torch.onnx.export records of the functions: ONNX's operator TopK, which settles ties in the same way."""

from __future__ import annotations

import sys

import torch

from ._torch_internals import constant_under_compile


@constant_under_compile
def exports_onnx() -> bool:
    # torch does not import torch.onnx itself, which takes long: without it, nothing is exported.
    return "torch.onnx" in sys.modules and torch.onnx.is_in_onnx_export()


def pairs(input, k, dim, largest, sorted):
    """Values and indices. ONNX leaves the order of unsorted results open; here it is by index."""
    values, indices = torch.topk(input, k, dim, largest, True)
    if sorted:
        return values, indices
    indices = indices.sort(dim).values
    return input.gather(dim, indices), indices


def mask(input, k, dim, largest):
    indices = pairs(input, k, dim, largest, True)[1]
    return torch.zeros_like(input, dtype=torch.bool).scatter(dim, indices, 1)  # not every exporter understands True
