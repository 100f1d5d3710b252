"""What a captured step refuses, before it computes anything."""

from __future__ import annotations

import torch
from torch import nn

from .._inputs import check_rows
from ..features import SparseFeatures
from ..graph import check_edge_index
from ..layers import MaxKGNN
from .inputs import ACCEPTED_LOSS
from .sizes import BatchSizes

# Norms over the rows: what is filled up would reach the rows of a mini-batch.
_NORMS_OVER_ROWS = (nn.BatchNorm1d, nn.LazyBatchNorm1d, nn.SyncBatchNorm)


def check_arguments(network, optimizer, loss, max_captures, transform) -> None:
    _check_network(network)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer is {type(optimizer).__name__}; accepted: a torch.optim.Optimizer")
    if not callable(loss):
        raise TypeError(f"loss is {type(loss).__name__}; accepted: {ACCEPTED_LOSS}")
    if type(max_captures) is not int or max_captures < 0:
        raise ValueError(f"max_captures is {max_captures!r}; accepted: 0 or more")
    if transform is not None and not callable(transform):
        raise TypeError(f"transform is {type(transform).__name__}; accepted: a function of a Graph, or None")


def _check_network(network) -> None:
    if not isinstance(network, MaxKGNN):
        raise TypeError(f"network is {type(network).__name__}; accepted: MaxKGNN, on one rank")
    if network.dense:
        raise ValueError("network has dense=True; accepted: dense=False")
    for name, module in network.named_modules():
        unknown = module in network.norms and not isinstance(module, (nn.LayerNorm, nn.Identity))
        if unknown or isinstance(module, _NORMS_OVER_ROWS):
            raise TypeError(
                f"network.{name} is {type(module).__name__}; accepted: LayerNorm or Identity, whose rows do not depend"
                " on each other"
            )


def check_capturable(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Whether steps of the optimizer can be captured on a GPU."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.device != device:
                raise ValueError(
                    f"optimizer has a parameter on {parameter.device}; accepted: {device}, as the parameters of the"
                    " network"
                )
    if type(optimizer) is torch.optim.SGD:
        _check_sgd(optimizer)
    elif not all(group.get("capturable") for group in optimizer.param_groups):
        raise ValueError(
            f"optimizer is {type(optimizer).__name__} without capturable=True, whose steps cannot be captured;"
            " accepted: capturable=True, as Adam, AdamW, RMSprop and others have it, or SGD"
        )


def _check_sgd(optimizer: torch.optim.SGD) -> None:
    """SGD reads tensors among its options on the host, for which a capture cannot wait; only fused steps read lr on the
    GPU."""
    for group in optimizer.param_groups:
        for name in optimizer.defaults:
            of_gpu = isinstance(group[name], torch.Tensor) and not group[name].is_cpu
            if of_gpu and not (name == "lr" and group["fused"]):
                raise ValueError(
                    f"optimizer is SGD with fused={group['fused']} and {name} in a tensor on {group[name].device},"
                    " whose steps cannot be captured; accepted: numbers, or fused=True for such an lr"
                )


def check_batch(network: MaxKGNN, device: torch.device, x, y, edge_index, true: BatchSizes) -> None:
    """What can be said about a mini-batch without reading it."""
    if len(true.edges) != network.num_layers:
        raise ValueError(
            f"num_sampled_edges_per_hop has {len(true.edges)} numbers; accepted: {network.num_layers}, one for each"
            " layer"
        )
    if not isinstance(x, (torch.Tensor, SparseFeatures)):
        raise TypeError(f"x is {type(x).__name__}; accepted: a tensor, or SparseFeatures")
    if not isinstance(y, torch.Tensor) or y.dim() == 0 or len(y) != true.nodes[0]:
        given = f"has shape {list(y.shape)}" if isinstance(y, torch.Tensor) else f"is {type(y).__name__}"
        raise ValueError(f"y {given}; accepted: {true.nodes[0]} rows, one for each seed")
    check_edge_index(edge_index)
    for name, tensor in (("x", x), ("y", y), ("edge_index", edge_index)):
        if tensor.device != device:
            raise ValueError(f"{name} is on {tensor.device}; accepted: {device}, as the parameters of the network")
    check_rows(x, true.nodes[-1], network.in_channels)
    sparse = isinstance(x, SparseFeatures)
    for name, tensors, accepted in (
        ("x", x.matrices if sparse else [x], "SparseFeatures of values.detach()" if sparse else "x.detach()"),
        ("y", [y], "y.detach()"),
    ):
        if any(tensor.requires_grad for tensor in tensors):
            raise ValueError(f"{name} requires a gradient; accepted: {accepted}, since a step has none for it")
    if edge_index.shape[1] != true.edges[-1]:
        raise ValueError(
            f"num_sampled_edges_per_hop adds up to {true.edges[-1]}; accepted: {edge_index.shape[1]}, the edges of"
            " edge_index"
        )
