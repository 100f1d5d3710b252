"""Graph networks recorded by torch.compile, torch.export and tracers; what users of PyTorch Geometric bring along."""

import inspect
from types import SimpleNamespace

import pytest
import torch

import rtopk.gnn
from recorded import compiled, results
from rtopk.gnn import Graph, MaxKGCNConv, MaxKGNN, MaxKSAGEConv
from rtopk.gnn.layers import MODELS

NODES, COLS = 30, 20


def random_graph():
    return Graph.from_edge_index(torch.randint(0, NODES, (2, 100)), NODES).with_self_loops()


class WithGraph(torch.nn.Module):
    """torch.export takes tensors and modules alone: the graph is a part of the module."""

    def __init__(self, network, graph):
        super().__init__()
        self.network, self.graph = network, graph

    def forward(self, x):
        return self.network(x, self.graph)


WAYS = {
    "compile": compiled,
    "export": lambda module, x: torch.export.export(module, (x,)).module(),
    "export, strict": lambda module, x: torch.export.export(module, (x,), strict=True).module(),
    "jit.trace": lambda module, x: torch.jit.trace(module, (x,)),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_recorded_networks_are_the_eager_ones(way, model, one_thread):
    network = WithGraph(MaxKGNN(model, COLS, 32, 5, num_layers=2, k=8), random_graph().prepared())
    with torch.no_grad():
        recorded = WAYS[way](network, torch.randn(NODES, COLS))
    x = torch.randn(NODES, COLS)
    for ours, eager in zip(results(recorded, x), results(network, x), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_a_graph_that_is_not_ready_is_named(model):
    graph = random_graph()
    network = WithGraph(MaxKGNN(model, COLS, 32, 5, num_layers=1, k=8), graph)
    with pytest.raises(RuntimeError, match=r"accepted: graph\.prepared\(\)"):
        torch.export.export(network, (torch.randn(NODES, COLS),))
    graph.prepared()
    torch.export.export(network, (torch.randn(NODES, COLS),))


def test_graphs_that_no_gcn_can_have_are_made_ready_for_others():
    graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2, torch.tensor([-1.0, -2.0]))
    assert graph.prepared() is graph
    with pytest.raises(ValueError):
        graph.gcn_normalized()


@pytest.mark.parametrize("conv", [*MODELS.values(), MaxKGNN])
def test_arguments_have_names_that_type_checkers_know(conv):
    kinds = {parameter.kind for parameter in inspect.signature(conv).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    assert {"max_iter", "rule", "dropout", "dense"} <= set(inspect.signature(conv).parameters)


def test_other_graphs_and_types_are_answered_with_what_would_do():
    conv, x = MaxKGCNConv(COLS, 8, k=4), torch.randn(3, COLS)
    several = SimpleNamespace(edge_types=[("a", "to", "b")], num_nodes=3)
    with pytest.raises(TypeError, match=r"nodes and edges of several types; accepted: .*data\.to_homogeneous\(\)"):
        conv(x, several)
    rows = torch.eye(3).to_sparse_csr()
    with pytest.raises(TypeError, match=r"has adj_t and no edge_index; accepted: .*adj_t\.csr\(\)"):
        conv(x, SimpleNamespace(adj_t=rows, num_nodes=3))
    graph = Graph(rows.crow_indices(), rows.col_indices(), rows.values())  # as that error says
    with pytest.raises(TypeError, match=r"x is torch\.float64; accepted: .*x\.float\(\)"):
        conv(x.double(), graph)
    with pytest.raises(TypeError, match=r"x is torch\.float64; accepted: .*x\.float\(\)"):
        MaxKGNN("sage", COLS, 8, 2, k=4).double()(x.double(), graph)
    assert conv(x, graph).shape == (3, 8)


def test_graphs_of_pytorch_geometric_that_are_not_taken():
    data = pytest.importorskip("torch_geometric.data", reason="PyTorch Geometric is not installed")
    from torch_geometric.transforms import ToSparseTensor

    hetero = data.HeteroData()
    hetero["a"].x = torch.randn(3, COLS)
    hetero["a", "to", "a"].edge_index = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(TypeError, match=r"HeteroData has nodes and edges of several types"):
        Graph.from_pyg(hetero)
    assert Graph.from_pyg(hetero.to_homogeneous()).num_edges == 2  # as that error says

    plain = data.Data(x=torch.randn(3, COLS), edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]))
    sparse = ToSparseTensor(layout=torch.sparse_csr)(plain.clone())
    with pytest.raises(TypeError, match=r"Data has adj_t and no edge_index"):
        MaxKSAGEConv(COLS, 8, k=4)(sparse.x, sparse)
    same = Graph(sparse.adj_t.crow_indices(), sparse.adj_t.col_indices())
    for ours, theirs in zip(same._parts(), Graph.from_pyg(plain)._parts(), strict=True):
        assert ours is theirs is None or torch.equal(ours, theirs)


def test_the_package_exports_what_it_says():
    assert all(hasattr(rtopk.gnn, name) for name in rtopk.gnn.__all__)
