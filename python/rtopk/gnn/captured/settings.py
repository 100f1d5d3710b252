"""What a captured step depends on beside its mini-batch. Steps are captured again when it changes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from ..linear import rounds_factors


def settings_of(network: nn.Module, optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter]) -> tuple:
    """Values that are equal if replays do what the step would do. They hold addresses, not tensors or id(): a replay
    uses addresses, whichever tensor is there now."""
    states = (state for state in optimizer.state.values() if isinstance(state, dict))
    groups = optimizer.param_groups
    return (
        network.training,
        torch.are_deterministic_algorithms_enabled(),
        rounds_factors(parameters[0].device),
        [(parameter.data_ptr(), parameter.requires_grad) for parameter in parameters],
        [value.data_ptr() for state in states for value in state.values() if isinstance(value, torch.Tensor)],
        [(name, _option(value)) for group in groups for name, value in group.items() if name != "params"],
    )


def _option(value):
    """What a capture holds of an option: torch reads a tensor on the CPU when it launches kernels, so its value."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_option, value))
    if not isinstance(value, torch.Tensor):
        return value
    return value.tolist() if value.is_cpu else (value.data_ptr(), value.dtype)
