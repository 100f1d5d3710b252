"""The same networks with the convolutions of PyTorch Geometric, and MaxK as people write it there: torch.topk, then its
values scattered into zeros."""

from __future__ import annotations

import warnings

import torch
from torch import nn

from rtopk.gnn import Graph, MaxKGNN
from rtopk.gnn.rows import DenseMaxK, DenseRows

FORMS = ("edge_index", "csr")


def missing() -> str | None:
    """Why PyTorch Geometric cannot be used, or None."""
    try:
        import torch_geometric.nn  # noqa: F401
    except ImportError as error:
        return f"PyTorch Geometric cannot be used ({error}); accepted: pip install torch_geometric"
    return None


def version() -> str | None:
    if missing():
        return None
    import torch_geometric

    return torch_geometric.__version__


def edges_of(graph: Graph, form: str) -> torch.Tensor:
    """The graph as PyTorch Geometric takes it: an edge_index, or the transposed adjacency as a sparse CSR tensor."""
    from torch_geometric.utils import to_torch_csr_tensor

    nodes = torch.arange(graph.num_nodes, device=graph.device)
    targets = torch.repeat_interleave(nodes, graph.row_starts.diff().long())
    edge_index = torch.stack([graph.columns.long(), targets])
    if form == "edge_index":
        return edge_index
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)", category=UserWarning)
        # Edges are sorted. Those that occur several times are kept.
        return to_torch_csr_tensor(edge_index.flip(0), size=graph.num_nodes, is_coalesced=True)


def use_pyg(network: MaxKGNN, edges: torch.Tensor) -> None:
    """Puts convolutions of PyTorch Geometric into a dense network. They have the same parameters."""
    for i, own in enumerate(network.convolutions):
        network.convolutions[i] = _Convolution(own, network.model, edges)


class ScatteredMaxK(DenseMaxK):
    def forward(self, x: torch.Tensor) -> DenseRows:
        values, indices = self.select(x)
        return DenseRows(torch.zeros_like(x).scatter(1, indices, values))


class _Convolution(nn.Module):
    def __init__(self, own: nn.Module, model: str, edges: torch.Tensor) -> None:
        super().__init__()
        self.activation = ScatteredMaxK(own.k)
        self.linear = getattr(own, "linear", None)  # SAGE has none before its MaxK
        self.dropout = own.dropout
        self.convolution = _MAKERS[model](own)
        self.edges = edges

    def forward(self, x: torch.Tensor | DenseRows, _) -> torch.Tensor:
        rows = x if self.linear is None else self.activation(self.linear(x))
        return self.convolution(rows.dropout(self.dropout, self.training).rows, self.edges)


def _sage(own: nn.Module) -> nn.Module:
    from torch_geometric.nn import SAGEConv

    convolution = SAGEConv(own.in_channels, own.out_channels)
    convolution.lin_l, convolution.lin_r = own.neighbours, own.own
    return convolution


def _gcn(own: nn.Module) -> nn.Module:
    from torch_geometric.nn import GCNConv

    # The recipe decides about self loops. MaxK is between the linear map and the sum, so the map is outside.
    convolution = GCNConv(own.in_channels, own.out_channels, add_self_loops=False, cached=True)
    convolution.lin, convolution.bias = nn.Identity(), own.bias
    return convolution


def _gin(own: nn.Module) -> nn.Module:
    from torch_geometric.nn import GINConv

    convolution = GINConv(nn.Identity(), train_eps=True)
    convolution.eps = own.epsilon
    return convolution


_MAKERS = {"sage": _sage, "gcn": _gcn, "gin": _gin}
