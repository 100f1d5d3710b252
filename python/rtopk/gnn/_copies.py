"""Copies of what is on the host to the device that computes: from pinned memory to a GPU, so that the host goes on
meanwhile. Where both are the same, nothing is copied."""

from __future__ import annotations

import torch

from .features import SparseFeatures


def copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on a device."""
    if _crosses(tensor, device):
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def rows_on(
    rows: torch.Tensor | SparseFeatures, nodes: torch.Tensor, device: torch.device
) -> torch.Tensor | SparseFeatures:
    """Some of the rows on a device. `nodes` is where the rows are."""
    if isinstance(rows, SparseFeatures) or not _crosses(rows, device):
        return rows[nodes].to(device)
    # Gathered into pinned memory, which torch does not give to anyone else before the copy has ended.
    gathered = torch.empty((len(nodes), *rows.shape[1:]), dtype=rows.dtype, pin_memory=True)
    torch.index_select(rows, 0, nodes, out=gathered)
    return gathered.to(device, non_blocking=True)


def _crosses(tensor: torch.Tensor, device: torch.device) -> bool:
    return tensor.device.type == "cpu" and device.type == "cuda"
