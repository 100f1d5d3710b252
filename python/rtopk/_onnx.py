"""What torch.onnx.export records of the functions: the operator TopK of ONNX, which promises the same about ties."""

from __future__ import annotations

import sys

import torch


def exports_onnx() -> bool:
    # It is not imported with torch, and takes long: who has not done so exports nothing.
    return "torch.onnx" in sys.modules and torch.onnx.is_in_onnx_export()


exports_onnx._dynamo_marked_constant = True  # as in _registrations.py


def pairs(input, k, dim, largest, sorted):
    """Values and indices. ONNX leaves the order of unsorted ones open; here it is by index."""
    values, indices = torch.topk(input, k, dim, largest, True)
    if sorted:
        return values, indices
    indices = indices.sort(dim).values
    return input.gather(dim, indices), indices


def mask(input, k, dim, largest):
    indices = pairs(input, k, dim, largest, True)[1]
    return torch.zeros_like(input, dtype=torch.bool).scatter(
        dim, indices, 1
    )  # True is not understood by every exporter
