"""The network of bench/compare_batches.py with PyTorch Geometric's convolutions, beside rtopk's."""

import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GCNConv, GINConv, SAGEConv
from torch_geometric.utils import trim_to_layer

from rtopk.gnn import MaxKGNN
from rtopk.gnn.layers import InputLinear
from rtopk.gnn.rows import DenseMaxK, DenseRows

K_SHARE = 8  # one in so many elements of a row is kept


class GeometricNetwork(nn.Module):
    """MaxKGNN of dense rows and PyTorch Geometric's convolutions. Shares the parameters of the other."""

    def __init__(self, ours: MaxKGNN, pairs: bool) -> None:
        super().__init__()
        self.pairs, self.model, self.dropout = pairs, ours.model, ours.dropout
        self.input = InputLinear(ours.in_channels, ours.hidden_channels, dense=True)
        self.input.weight, self.input.bias = ours.input.weight, ours.input.bias
        self.maxk, self.norms, self.output = DenseMaxK(ours.k), ours.norms, nn.Linear(1, 1)
        self.output.weight, self.output.bias = ours.output.weight, ours.output.bias
        self.convolutions = nn.ModuleList(map(self._convolution, ours.convolutions))
        self.linears = nn.ModuleList(getattr(conv, "linear", nn.Identity()) for conv in ours.convolutions)

    def _convolution(self, ours) -> nn.Module:
        columns = ours.in_channels
        if self.model == "sage":
            conv = SAGEConv(columns, columns)
            conv.lin_l, conv.lin_r = ours.neighbours, ours.own
            return conv
        if self.model == "gcn":
            conv = GCNConv(columns, columns)
            conv.lin, conv.bias = nn.Identity(), ours.bias
            return conv
        conv = GINConv(nn.Identity(), train_eps=True)
        conv.eps = ours.epsilon
        return conv

    def forward(self, x, edge_index, nodes: list[int], edges: list[int]):
        x = self.input(x)
        if self.model != "sage":
            x = x.relu()
        for i, (conv, linear, norm) in enumerate(zip(self.convolutions, self.linears, self.norms, strict=True)):
            x, edge_index, _ = trim_to_layer(i, nodes, edges, x, edge_index)
            rows = F.dropout(self.maxk(linear(x)).rows, self.dropout, self.training)
            if self.pairs:
                x = norm(conv((rows, rows[: sum(nodes[: len(nodes) - 1 - i])]), edge_index))
                nodes = [*nodes[: len(nodes) - 1 - i], *[0] * (i + 1)]  # those rows are gone already
            else:
                x = norm(conv(rows, edge_index))
        return self.output(x)[: nodes[0]]


class GivenMaxK(nn.Module):
    """MaxK with selections that are given: a mask for each call."""

    def __init__(self, masks) -> None:
        super().__init__()
        self.masks = iter(masks)

    def forward(self, x):
        return DenseRows(x * next(self.masks))


def networks_of(model: str, dataset, hidden: int, layers: int, dropout: float, device) -> dict:
    """Networks by name, each a function of a mini-batch; and their common parameters."""
    ours = MaxKGNN(
        model, dataset.features.shape[1], hidden, dataset.classes, num_layers=layers, k=hidden // K_SHARE,
        dropout=dropout,
    ).to(device)  # fmt: skip
    trimmed, paired = (GeometricNetwork(ours, pairs).to(device) for pairs in (False, True))

    def of_ours(batch):
        hops = {"num_sampled_nodes_per_hop": batch.nodes_per_hop, "num_sampled_edges_per_hop": batch.edges_per_hop}
        return ours(batch.x, batch.edge_index, **hops)

    def of_theirs(network):
        return lambda batch: network(batch.x, batch.edge_index, batch.nodes_per_hop, batch.edges_per_hop)

    calls = {"PyG, trim_to_layer": of_theirs(trimmed)}
    if model != "gcn":
        calls["PyG, pairs"] = of_theirs(paired)
    calls |= {"rtopk": of_ours, "rtopk, graphs given": lambda batch: ours(batch.x, batch.sampled.graphs())}
    return {"ours": ours, "trimmed": trimmed, "paired": paired, "calls": calls}
