"""Mini-batches: sources and targets apart, every form of a graph, trimmed layers, and the sampler."""

from types import SimpleNamespace

import pytest
import torch

from rtopk.gnn import Graph, MaxKGCNConv, MaxKGINConv, MaxKGNN, MaxKSAGEConv, NeighborSampler, hops_of
from rtopk.gnn.layers import MODELS

COLS, OUT, K = 24, 16, 5
SOURCES, TARGETS, EDGES = 50, 20, 160


class SparseTensor:
    """What rtopk looks at of a torch_sparse.SparseTensor, which may not be installed: a row for each target."""

    def __init__(self, edge_index, size, values=None):
        self._size = size[::-1]
        order = torch.argsort(edge_index[1], stable=True)
        starts = torch.bincount(edge_index[1], minlength=size[1]).cumsum(0)
        self._csr = torch.cat([starts.new_zeros(1), starts]), edge_index[0, order]
        self._values = None if values is None else values[order]

    def csr(self):
        return *self._csr, self._values

    def sparse_sizes(self):
        return self._size


def coo(edge_index, size, values=None):
    """adj_t as torch has it."""
    values = torch.ones(edge_index.shape[1]) if values is None else values
    return torch.sparse_coo_tensor(edge_index.flip(0), values, size[::-1], check_invariants=True)


def torch_sparse_tensor(edge_index, size):
    torch_sparse = pytest.importorskip("torch_sparse", reason="torch-sparse is not installed")
    return torch_sparse.SparseTensor(row=edge_index[1], col=edge_index[0], sparse_sizes=size[::-1])


def edge_index_of_geometric(edge_index, size):
    geometric = pytest.importorskip("torch_geometric", reason="PyTorch Geometric is not installed")
    if not hasattr(geometric, "EdgeIndex"):
        pytest.skip("this PyTorch Geometric has no EdgeIndex")
    return geometric.EdgeIndex(edge_index.contiguous(), sparse_size=size)


FORMS = {
    "edge_index": lambda edges, size: edges,
    "ascending": lambda edges, size: edges[:, torch.argsort(edges[1], stable=True)],
    "int32": lambda edges, size: edges.int(),
    "not contiguous": lambda edges, size: edges.t().contiguous().t(),
    "EdgeIndex": edge_index_of_geometric,
    "SparseTensor": SparseTensor,
    "torch_sparse.SparseTensor": torch_sparse_tensor,
    "COO": coo,
    "CSR": lambda edges, size: coo(edges, size).to_sparse_csr(),
    "CSC": lambda edges, size: coo(edges, size).to_sparse_csc(),
    "Graph": lambda edges, size: Graph.from_edge_index(edges, size=size),
}


@pytest.fixture(params=["plain", "no edges", "no targets", "no sources", "one of each", "isolated targets"])
def bipartite(request):
    """An edge_index and its size."""
    size = {"no targets": (SOURCES, 0), "no sources": (0, TARGETS), "one of each": (1, 1)}.get(
        request.param, (SOURCES, TARGETS)
    )
    count = EDGES if request.param in ("plain", "isolated targets") else 1 if request.param == "one of each" else 0
    edges = torch.stack([torch.randint(max(n, 1), (count,)) for n in size])
    if request.param == "isolated targets":
        edges[1] = edges[1] // 4 * 4
    return edges.unique(dim=1)[:, torch.randperm(edges.unique(dim=1).shape[1])], size


def mean(edges, size, rows):
    adjacency = torch.zeros(size[::-1]).index_put_((edges[1], edges[0]), torch.ones(()), accumulate=True)
    return adjacency @ rows / adjacency.sum(1, keepdim=True).clamp(min=1)


def total(edges, size, rows):
    return torch.zeros(size[::-1]).index_put_((edges[1], edges[0]), torch.ones(()), accumulate=True) @ rows


def maxk(x, k=K):
    return torch.zeros_like(x).scatter(1, x.topk(k).indices, 1.0) * x


def of_sage(conv, x, own, edges, size):
    y = conv.neighbours(mean(edges, size, maxk(x)))
    return y if own is None else y + conv.own(maxk(own))


def of_gin(conv, x, own, edges, size):
    y = total(edges, size, maxk(conv.linear(x)))
    return y if own is None else y + (1 + conv.epsilon) * maxk(conv.linear(own))


def gradients(result, leaves):
    """The result and the gradients of a sum that treats every element differently."""
    weights = torch.linspace(-1, 1, result.numel(), device=result.device).sin().view_as(result)
    found = torch.autograd.grad((result * weights).sum(), leaves, allow_unused=True)
    return [
        result.detach(),
        *(torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)),
    ]


def random_parameters(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()  # a bias or an epsilon of zero would hide a mistake
    return module


def close(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layer, reference", [(MaxKSAGEConv, of_sage), (MaxKGINConv, of_gin)])
@pytest.mark.parametrize("dense", [False, True], ids=["compact", "dense"])
def test_sources_and_targets_apart(layer, reference, dense, form, bipartite):
    edges, size = bipartite
    conv = random_parameters(layer(COLS, OUT, K, dense=dense))
    x, own = torch.randn(size[0], COLS, requires_grad=True), torch.randn(size[1], COLS, requires_grad=True)
    leaves = [x, own, *conv.parameters()]
    ours = conv((x, own), FORMS[form](edges, size))
    assert ours.shape == (size[1], OUT)
    close(gradients(ours, leaves), gradients(reference(conv, x, own, edges, size), leaves))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layer, reference", [(MaxKSAGEConv, of_sage), (MaxKGINConv, of_gin)])
def test_targets_without_rows_of_their_own(layer, reference, form, bipartite):
    edges, size = bipartite
    conv = random_parameters(layer(COLS, OUT, K))
    x = torch.randn(size[0], COLS, requires_grad=True)
    ours = conv((x, None), FORMS[form](edges, size), size=size)
    close(gradients(ours, [x]), gradients(reference(conv, x, None, edges, size), [x]))


def test_targets_of_unknown_number_are_as_many_as_sources():
    """As in PyTorch Geometric."""
    edges, x = torch.tensor([[0, 3], [1, 2]]), torch.randn(4, COLS)
    conv = MaxKSAGEConv(COLS, OUT, K)
    close([conv((x, None), edges)], [of_sage(conv, x, None, edges, (4, 4))])
    assert conv((x, None), edges, size=(None, 3)).shape == (3, OUT)


@pytest.mark.parametrize("layer", MODELS.values())
@pytest.mark.parametrize("dense", [False, True], ids=["compact", "dense"])
@pytest.mark.parametrize("form", FORMS)
def test_one_tensor_whose_first_rows_are_the_targets(layer, dense, form):
    """The first rows of what the square graph gives."""
    edges = torch.stack([torch.randint(SOURCES, (EDGES,)), torch.randint(TARGETS, (EDGES,))]).unique(dim=1)
    conv = random_parameters(layer(COLS, OUT, K, dense=dense))
    x = torch.randn(SOURCES, COLS, requires_grad=True)
    leaves = [x, *conv.parameters()]
    options = {"size": (SOURCES, TARGETS)}
    ours = conv(x, FORMS[form](edges, (SOURCES, TARGETS)), **options)
    close(gradients(ours, leaves), gradients(conv(x, edges)[:TARGETS], leaves))


@pytest.mark.parametrize("layer", MODELS.values())
def test_first_targets_on_a_gpu_need_no_transpose(layer, device):
    edges = torch.stack([torch.randint(SOURCES, (EDGES,)), torch.randint(TARGETS, (EDGES,))])
    conv = random_parameters(layer(COLS, OUT, K)).to(device)
    x = torch.randn(SOURCES, COLS, device=device, requires_grad=True)
    leaves, outcomes = [x, *conv.parameters()], []
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        try:
            graph = Graph.from_edge_index(edges.to(device), size=(SOURCES, TARGETS))
            outcomes.append(gradients(conv(x, graph), leaves))
        finally:
            torch.use_deterministic_algorithms(False)
        if device == "cuda" and layer is MaxKSAGEConv:
            assert (graph._transpose is None) != deterministic
    close(*outcomes)


def test_all_columns_of_pytorch_geometric():
    """k = all columns selects nothing: the layers are PyTorch Geometric's own."""
    nn = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    edges = torch.stack([torch.randint(SOURCES, (EDGES,)), torch.randint(TARGETS, (EDGES,))])
    x, own = torch.randn(SOURCES, COLS, requires_grad=True), torch.randn(TARGETS, COLS, requires_grad=True)

    sage, theirs = MaxKSAGEConv(COLS, OUT, COLS), nn.SAGEConv(COLS, OUT)
    theirs.lin_l, theirs.lin_r = sage.neighbours, sage.own
    leaves = [x, own, *sage.parameters()]
    close(gradients(sage((x, own), edges), leaves), gradients(theirs((x, own), edges), leaves))
    close([sage((x, None), edges, size=(SOURCES, TARGETS))], [theirs((x, None), edges, size=(SOURCES, TARGETS))])

    gin = random_parameters(MaxKGINConv(COLS, OUT, OUT))
    theirs = nn.GINConv(torch.nn.Identity(), eps=float(gin.epsilon))
    leaves = [x, own]
    close(gradients(gin((x, own), edges), leaves), gradients(theirs((gin.linear(x), gin.linear(own)), edges), leaves))

    gcn = random_parameters(MaxKGCNConv(COLS, OUT, OUT))
    theirs, weight = nn.GCNConv(COLS, OUT), torch.rand(EDGES)
    theirs.lin, theirs.bias = gcn.linear, gcn.bias
    leaves = [x, *gcn.parameters()]
    for weights in (None, weight):
        close(gradients(gcn(x, edges, weights), leaves), gradients(theirs(x, edges, weights), leaves))
    for conv in (gcn, theirs):
        with pytest.raises(ValueError, match="tuple"):
            conv((x, own), edges)


def test_values_of_a_sparse_tensor_are_weights_of_gcn_alone():
    """As in PyTorch Geometric, whose SAGEConv and GINConv drop them."""
    edges = torch.randint(TARGETS, (2, EDGES)).unique(dim=1)
    weight, size, x = torch.rand(edges.shape[1]), (TARGETS, TARGETS), torch.randn(TARGETS, COLS)
    for layer in MODELS.values():
        conv = random_parameters(layer(COLS, OUT, K))
        ours = conv(x, SparseTensor(edges, size, weight))
        close([ours], [conv(x, edges, weight) if layer is MaxKGCNConv else conv(x, edges)])


BAD = [
    (lambda conv, x, own, edges: conv((x, own[:-1]), edges), ValueError, "edge_index names targets 0 to 19; accepted"),
    (lambda conv, x, own, edges: conv((x, own, own), edges), TypeError, "x is a tuple of Tensor, Tensor, Tensor"),
    (lambda conv, x, own, edges: conv((None, own), edges), TypeError, "accepted: a tensor, or .x_src, x_dst or None."),
    (lambda conv, x, own, edges: conv((x, own), edges, size=(50, 21)), ValueError, r"x\[1\] has 20 rows; accepted: 21"),
    (lambda conv, x, own, edges: conv((x, own), edges, size=(51, 20)), ValueError, r"x\[0\] has shape \[50, 24\]"),
    (lambda conv, x, own, edges: conv((x, own), edges, size=7), ValueError, "size is 7; accepted: .sources, targets."),
    (lambda conv, x, own, edges: conv((x, own), edges, size=(50, -1)), ValueError, r"size\[1\] is -1; accepted: 0 to"),
    (
        lambda conv, x, own, edges: conv((x, own), Graph.from_edge_index(edges, size=(50, 20)), size=(50, 21)),
        ValueError,
        r"size is \(50, 21\); accepted: \(50, 20\)",
    ),
    (lambda conv, x, own, edges: conv((x, own[:, 1:]), edges), ValueError, r"x\[1\] has shape \[20, 23\]"),
    (lambda conv, x, own, edges: conv((x, own.double()), edges), TypeError, r"x\[1\] is torch.float64"),
    (lambda conv, x, own, edges: conv(own, edges.flip(0), size=(20, 50)), ValueError, "50 targets and 20 sources"),
    (
        lambda conv, x, own, edges: conv((x, own), torch.eye(3).to_sparse_bsr((1, 1))),
        ValueError,
        "sparse matrix of tar",
    ),
    (lambda conv, x, own, edges: conv((x, own), 7), TypeError, "graph is int; accepted: Graph, edge_index, Sp"),
]


@pytest.mark.parametrize("call, kind, text", BAD)
@pytest.mark.parametrize("layer", [MaxKSAGEConv, MaxKGINConv])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_what_does_not_fit_together_is_refused(layer, call, kind, text):
    edges = torch.stack([torch.arange(EDGES) % SOURCES, torch.arange(EDGES) % TARGETS])
    with pytest.raises(kind, match=text):
        call(layer(COLS, OUT, K), torch.randn(SOURCES, COLS), torch.randn(TARGETS, COLS), edges)


def test_weights_are_refused_where_a_graph_has_its_own():
    edges = torch.tensor([[0], [1]])
    with pytest.raises(ValueError, match="edge_weight is given with a Graph; accepted: with an edge_index"):
        MaxKGCNConv(COLS, OUT, K)(torch.randn(2, COLS), Graph.from_edge_index(edges, 2), torch.ones(1))
    with pytest.raises(ValueError, match="num_nodes is 3 with a size; accepted: one of them"):
        Graph.from_edge_index(edges, 3, size=(2, 2))


@pytest.mark.parametrize("weighted", [False, True])
def test_ascending_edges_of_a_mini_batch_keep_their_order_and_others_are_sorted(weighted):
    edges = torch.tensor([[3, 1, 2, 0], [0, 0, 2, 2]])
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0]) if weighted else None
    graph = Graph.from_edge_index(edges, None, weights, (4, 3))
    assert graph.columns.tolist() == [3, 1, 2, 0] and graph.row_starts.tolist() == [0, 2, 2, 4]
    other, order = Graph.from_edge_index(edges, 4, weights), [2, 0, 3, 1]
    mixed = Graph.from_edge_index(edges[:, order], None, weights[order] if weighted else None, (4, 3))
    assert mixed.columns.tolist() == other.columns.tolist() == [1, 3, 0, 2]
    if weighted:
        assert graph.weights.tolist() == [1, 2, 3, 4] and mixed.weights.tolist() == other.weights.tolist() == [
            2,
            1,
            4,
            3,
        ]


def test_self_loops_and_degrees_of_first_targets_are_those_of_the_square_graph():
    edges = torch.stack([torch.randint(SOURCES, (EDGES,)), torch.randint(TARGETS, (EDGES,))])
    for weight in (None, torch.rand(EDGES)):
        square = Graph.from_edge_index(edges, SOURCES, weight)
        first = Graph.from_edge_index(edges, None, weight, (SOURCES, TARGETS))
        for make in (Graph.gcn_normalized, lambda graph: graph.with_self_loops().gcn_normalized()):
            ours, theirs = make(first), make(square)
            expected = theirs.matrices("sum")[0].to_dense()[:TARGETS]
            torch.testing.assert_close(ours.matrices("sum")[0].to_dense(), expected)
            torch.testing.assert_close(ours.matrices("sum")[1].to_dense(), expected.t())
    assert repr(first) == f"Graph(sources={SOURCES}, targets={TARGETS}, edges={EDGES}, weighted)"
    wide = Graph.from_edge_index(edges.flip(0), size=(TARGETS, SOURCES))
    with pytest.raises(ValueError, match="50 targets and 20 sources; accepted: targets that are the first of"):
        wide.with_self_loops()


# ---- The sampler ----


def whole_graph(nodes=300, edges=4000, device="cpu"):
    return Graph.from_edge_index(torch.randint(0, nodes, (2, edges)).unique(dim=1), nodes).to(device)


def seeded(number, device="cpu"):
    return torch.Generator(device).manual_seed(number)


@pytest.mark.parametrize("fanouts", [[15, 10, 5], [1], [3, -1], [-1, -1], [1024]], ids=str)
def test_sampled_edges_are_edges_of_the_graph(fanouts, device):
    graph = whole_graph(device=device)
    seeds = torch.randperm(300)[:40].to(device)
    batch = NeighborSampler(graph, fanouts).sample(seeds, seeded(3, device))
    assert batch.nodes[:40].equal(seeds) and batch.nodes.unique().numel() == len(batch.nodes)
    source, target = batch.edge_index
    assert bool((target[1:] >= target[:-1]).all())
    edges = {(s, t) for s, t in zip(graph.columns.tolist(), graph._rows().tolist(), strict=True)}
    named = list(zip(batch.nodes[source].tolist(), batch.nodes[target].tolist(), strict=True))
    assert set(named) <= edges and len(set(named)) == len(named)  # without replacement
    # Every node but those of the last hop has as many edges as it may have, and leads to nodes of its hop or the next.
    hop = torch.repeat_interleave(torch.arange(len(fanouts) + 1), torch.tensor(batch.num_sampled_nodes)).tolist()
    degrees = graph.row_starts.diff()[batch.nodes].tolist()
    found = torch.bincount(target, minlength=len(batch.nodes)).tolist()
    for own, degree, count in zip(hop, degrees, found, strict=True):
        wanted = 0 if own == len(fanouts) else degree if fanouts[own] < 0 else min(degree, fanouts[own])
        assert count == wanted
    assert all(hop[s] <= hop[t] + 1 for s, t in zip(source.tolist(), target.tolist(), strict=True))
    by_hop = torch.bincount(torch.tensor([hop[t] for t in target.tolist()]), minlength=len(fanouts)).tolist()
    assert by_hop == batch.num_sampled_edges and sum(batch.num_sampled_nodes) == len(batch.nodes)


def test_a_seed_gives_the_same_mini_batch_and_another_seed_another(device):
    graph = whole_graph(device=device)
    sampler, seeds = NeighborSampler(graph, [4, 3]), torch.arange(30, device=device)
    first, second, other = (sampler.sample(seeds, seeded(number, device)) for number in (5, 5, 6))
    assert first.nodes.equal(second.nodes) and first.edge_index.equal(second.edge_index)
    assert not (first.nodes.numel() == other.nodes.numel() and first.nodes.equal(other.nodes))


def test_every_subset_of_neighbours_is_as_likely_as_another():
    """Nodes with the same 6 neighbours, of which 3 are picked: 20 subsets. A chi-square test at 1 in 10,000, with a
    fixed seed."""
    nodes = 20_000
    edges = torch.stack([nodes + torch.arange(6).repeat(nodes), torch.arange(nodes).repeat_interleave(6)])
    sampler = NeighborSampler(Graph.from_edge_index(edges, nodes + 6), [3])
    batch = sampler.sample(torch.arange(nodes), seeded(11))
    picked = batch.nodes[batch.columns].view(nodes, 3) - nodes
    subsets, counts = (1 << picked).sum(1).unique(return_counts=True)
    assert len(subsets) == 20 and batch.row_starts.diff().unique().tolist() == [3]
    assert ((counts - nodes / 20) ** 2 / (nodes / 20)).sum() < 53  # 19 degrees of freedom


def test_nothing_to_sample(device):
    graph = whole_graph(device=device)
    batch = NeighborSampler(graph, [3, 2]).sample(torch.empty(0, dtype=torch.int64, device=device))
    assert batch.num_sampled_nodes == [0, 0, 0] and batch.num_sampled_edges == [0, 0]
    alone = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64, device=device), 4)
    batch = NeighborSampler(alone, [3, 2]).sample(torch.tensor([2], device=device))
    assert batch.num_sampled_nodes == [1, 0, 0] and batch.nodes.tolist() == [2]
    network = MaxKGNN("sage", 6, 8, 3, num_layers=2, k=2).to(device)
    assert network(torch.randn(1, 6, device=device), batch.graphs()).shape == (1, 3)


@pytest.mark.parametrize("model", MODELS)
def test_an_empty_mini_batch_has_gradients_of_zero(model, device):
    """A rank may have no nodes in a step, and its gradients are averaged with the others'."""
    graph = whole_graph(device=device)
    batch = NeighborSampler(graph, [3, 2]).sample(torch.empty(0, dtype=torch.int64, device=device))
    network = MaxKGNN(model, 6, 32, 3, num_layers=2, k=8, dropout=0.5).to(device)
    graphs = [graph.with_self_loops() for graph in batch.graphs()]
    network(torch.empty(0, 6, device=device), graphs).sum().backward()
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in network.parameters())


def test_what_a_sampler_refuses():
    graph = whole_graph()
    for fanouts, text in (
        ([], "fanouts is empty"),
        ([0], "fanouts has 0"),
        ([2, 1025], "has 1025"),
        ([1.5], "has 1.5"),
    ):
        with pytest.raises(ValueError, match=text):
            NeighborSampler(graph, fanouts)
    with pytest.raises(ValueError, match="accepted: a square one"):
        NeighborSampler(graph.first_targets(2, 300, int(graph.row_starts[2])), [2])
    sampler = NeighborSampler(graph, [2])
    for seeds, text in (
        (torch.tensor([300]), "seeds go from 300 to 300; accepted: 0 to 299"),
        (torch.tensor([-1, 2]), "seeds go from -1 to 2"),
        (torch.tensor([4, 5, 4]), "seeds has 1 nodes more than once"),
        (torch.tensor([4.0]), "seeds is .*float32 on cpu; accepted: one dimension of int64 on cpu"),
        ([1, 2], "seeds is list; accepted"),
    ):
        with pytest.raises(ValueError, match=text):
            sampler.sample(seeds)
    assert bool((sampler._numbers == -1).all())


# ---- Networks on mini-batches ----


def sampled(hops=3, seeds=12):
    graph = whole_graph()
    return graph, NeighborSampler(graph, [5, 4, 3][:hops]).sample(torch.randperm(300)[:seeds], seeded(1))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dense", [False, True], ids=["compact", "dense"])
def test_trimmed_networks_give_the_rows_of_whole_ones(model, dense):
    """What is left out does not reach the seeds."""
    _, batch = sampled()
    network = random_parameters(MaxKGNN(model, 9, COLS, 4, num_layers=3, k=K, dense=dense))
    x = torch.randn(len(batch.nodes), 9)
    leaves = list(network.parameters())
    hops = {
        "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
        "num_sampled_edges_per_hop": batch.num_sampled_edges,
    }
    trimmed = gradients(network(x, batch.edge_index, **hops), leaves)
    assert trimmed[0].shape == (12, 4)
    for mine, same in zip(trimmed, gradients(network(x, batch.graphs()), leaves), strict=True):
        assert torch.equal(mine, same)
    if model != "gcn":  # layer by layer GCN's degrees are those of the trimmed graph, as with trim_to_layer
        close(trimmed, gradients(network(x, batch.edge_index)[:12], leaves))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", ["edge_index", "EdgeIndex"])
def test_trim_to_layer(model, form):
    utils = pytest.importorskip("torch_geometric.utils", reason="PyTorch Geometric is not installed")
    _, batch = sampled()
    convolutions = [random_parameters(MODELS[model](COLS, COLS, K)) for _ in range(3)]
    first = torch.randn(len(batch.nodes), COLS, requires_grad=True)
    x, edges = first, FORMS[form](batch.edge_index, (len(batch.nodes), len(batch.nodes)))
    for i, conv in enumerate(convolutions):
        x, edges, _ = utils.trim_to_layer(i, batch.num_sampled_nodes, batch.num_sampled_edges, x, edges)
        x = conv(x, edges)
    theirs = gradients(x[:12], [first])
    x = first
    for conv, graph in zip(convolutions, batch.graphs(), strict=True):
        x = conv(x, graph)
    close(gradients(x, [first]), theirs)


def test_numbers_of_hops_that_are_not_those_of_the_graph_are_refused():
    _, batch = sampled()
    network, x = MaxKGNN("sage", 9, COLS, 4, num_layers=3, k=K), torch.randn(len(batch.nodes), 9)
    nodes, edges = batch.num_sampled_nodes, batch.num_sampled_edges
    for given, text in (
        ((nodes, None), "num_sampled_edges_per_hop is None; accepted: both of them, or none"),
        ((nodes[:-1], edges[:-1]), "has 3 numbers and num_sampled_edges_per_hop 2; accepted: 3 or more hops"),
        ((nodes[:-1] + [nodes[-1] - 1], edges), "adds up to"),
        (
            (nodes, [edges[0] + 1, edges[1] - 1, edges[2]]),
            "accepted: .*each hop's edges lead to the nodes of the hop be",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            network(x, batch.edge_index, num_sampled_nodes_per_hop=given[0], num_sampled_edges_per_hop=given[1])
    with pytest.raises(ValueError, match="graph is a list of 2; accepted: 3"):
        network(x, batch.graphs()[1:])
    with pytest.raises(ValueError, match=r"graph\[1\] has \d+ sources; accepted: \d+, the targets"):
        network(x, batch.graphs()[:1] * 3)
    with pytest.raises(TypeError, match=r"graph\[0\] is Tensor; accepted: Graph"):
        network(x, [batch.edge_index] * 3)


def test_hops_are_counted_as_the_sampler_counts_them():
    _, batch = sampled()
    plain = SimpleNamespace(edge_index=batch.edge_index, batch_size=12)
    counted = hops_of(plain, 3)
    assert counted == hops_of(batch, 3)
    assert counted["num_sampled_nodes_per_hop"] == batch.num_sampled_nodes
    assert counted["num_sampled_edges_per_hop"] == batch.num_sampled_edges
    alone = hops_of(SimpleNamespace(edge_index=batch.edge_index[:, :0], batch_size=12), 2)
    assert list(alone.values()) == [[12, 0, 0], [0, 0]]
    plain.edge_index = batch.edge_index.flip(1)
    with pytest.raises(ValueError, match="targets that do not ascend; accepted: NeighborLoader's order"):
        hops_of(plain, 3)
