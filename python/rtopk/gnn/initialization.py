"""How the weights of a network are drawn before its training."""

from __future__ import annotations

from torch import nn

from .layers import MaxKGNN

INITIALIZATIONS = ("torch", "xavier")


def draw_xavier(network: MaxKGNN) -> None:
    """Draws the weights of all linear maps from Xavier's uniform distribution, as MaxK-GNN does. The maps of a SAGE
    convolution have the gain of a ReLU, as in DGL's. Biases stay as they are."""
    for convolution in network.convolutions:
        gain = nn.init.calculate_gain("relu") if convolution.selects_input else 1.0
        for module in convolution.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight, gain)
    for module in (network.input, network.output):
        nn.init.xavier_uniform_(module.weight)
