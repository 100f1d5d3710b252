"""Layers beside the modules of PyTorch Geometric whose names they have, with MaxK in front of the sum."""

import pytest
import torch

import rtopk
from rtopk.gnn import Graph, MaxKGCNConv, MaxKGINConv, MaxKSAGEConv

torch_geometric = pytest.importorskip("torch_geometric", reason="PyTorch Geometric is not installed")
from torch_geometric.nn import GCNConv, GINConv, SAGEConv  # noqa: E402

NODES, COLS, OUT, K = 60, 24, 16, 5


@pytest.fixture(params=["directed", "symmetric", "self loops", "edges twice", "nodes without edges"])
def edge_index(request):
    edges = torch.randint(0, NODES, (2, 240))
    if request.param != "self loops":
        edges = edges[:, edges[0] != edges[1]]
    if request.param == "symmetric":
        edges = torch.cat([edges, edges.flip(0)], dim=1)
    if request.param == "edges twice":
        edges = torch.cat([edges, edges[:, :40]], dim=1)
    if request.param == "nodes without edges":
        edges = edges[:, (edges[0] < 30) & (edges[1] >= 20) & (edges[1] < 45)]
    if request.param == "self loops":  # several of one node have no order there
        loops = torch.arange(0, NODES, 3)
        edges = torch.cat([edges[:, edges[0] != edges[1]], torch.stack([loops, loops])], dim=1)
    return edges


def compare(ours, theirs, x):
    """Results, and gradients of the rows, of a sum that treats every element differently."""
    outcomes = []
    for module in (ours, theirs):
        leaf = x.clone().requires_grad_()
        result = module(leaf)
        (result * torch.linspace(-1, 1, result.numel()).sin().view_as(result)).sum().backward()
        outcomes.append((result, leaf.grad))
    for mine, other in zip(*outcomes, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options", [{}, {"add_self_loops": False}, {"add_self_loops": True}, {"normalize": False}], ids=str
)
@pytest.mark.parametrize("weighted", [False, True])
def test_gcn(edge_index, weighted, options):
    conv = MaxKGCNConv(COLS, OUT, K, **options)
    torch.nn.init.normal_(conv.bias)
    theirs = GCNConv(COLS, OUT, **options)
    theirs.lin, theirs.bias = torch.nn.Sequential(conv.linear, rtopk.nn.MaxK(K)), conv.bias
    weight = torch.rand(edge_index.shape[1]) if weighted else None
    graph = Graph.from_edge_index(edge_index, NODES, weight)
    compare(lambda x: conv(x, graph), lambda x: theirs(x, edge_index, weight), torch.randn(NODES, COLS))


def test_sage(edge_index):
    conv = MaxKSAGEConv(COLS, OUT, K)
    theirs = SAGEConv(COLS, OUT)
    theirs.lin_l, theirs.lin_r = conv.neighbours, conv.own
    graph = Graph.from_edge_index(edge_index, NODES)
    compare(lambda x: conv(x, graph), lambda x: theirs(rtopk.maxk(x, K), edge_index), torch.randn(NODES, COLS))


def test_gin(edge_index):
    conv = MaxKGINConv(COLS, OUT, K)
    torch.nn.init.constant_(conv.epsilon, 0.3)
    theirs = GINConv(torch.nn.Identity(), eps=0.3)
    graph = Graph.from_edge_index(edge_index, NODES)
    compare(
        lambda x: conv(x, graph),
        lambda x: theirs(rtopk.maxk(conv.linear(x), K), edge_index),
        torch.randn(NODES, COLS),
    )
