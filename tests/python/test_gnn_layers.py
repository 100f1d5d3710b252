"""Layers and networks against the same written with dense matrices and torch's own autograd."""

import copy
import doctest
import inspect
import pickle
from functools import partial

import pytest
import torch
import torch.nn.functional as F

import rtopk.gnn.product
import rtopk.gnn.rows
from oracle import RULES
from rtopk.gnn import CompactMaxK, Graph, MaxKGCNConv, MaxKGINConv, MaxKGNN, MaxKSAGEConv, SparseFeatures
from rtopk.gnn.layers import MODELS

NODES, COLS, K = 40, 24, 5


@pytest.fixture(params=["plain", "hub", "few edges", "one node"])
def adjacency(request):
    """Dense, with entry (i, j) the number of edges from j to i."""
    nodes = 1 if request.param == "one node" else NODES
    matrix = torch.zeros(nodes, nodes)
    count = {"plain": 200, "hub": 100, "few edges": 3, "one node": 2}[request.param]
    matrix.index_put_((torch.randint(nodes, (count,)), torch.randint(nodes, (count,))), torch.ones(()), accumulate=True)
    if request.param == "hub":
        matrix[3] += 1
        matrix[:, 5] += 1
    return matrix


def to_graph(adjacency):
    target, source = adjacency.nonzero().t()
    return Graph.from_edge_index(
        torch.stack([source, target]).repeat_interleave(adjacency[target, source].long(), dim=1), len(adjacency)
    )


def maxk(x, k=K):
    return torch.zeros_like(x).scatter(1, x.topk(k).indices, 1.0) * x


def mean(adjacency):
    return adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)


def sage(conv, x, adjacency):
    x = maxk(x)
    return F.linear(mean(adjacency) @ x, conv.neighbours.weight, conv.neighbours.bias) + x @ conv.own.weight.t()


def gcn(conv, x, adjacency):
    if conv.add_self_loops:
        adjacency = adjacency.clone().fill_diagonal_(1)
    into = adjacency.sum(1) if conv.normalize else torch.ones(len(adjacency), device=x.device)
    scale = torch.where(into > 0, into.rsqrt(), 0)
    return (scale[:, None] * adjacency * scale) @ maxk(F.linear(x, conv.linear.weight, conv.linear.bias)) + conv.bias


def gin(conv, x, adjacency):
    x = maxk(F.linear(x, conv.linear.weight, conv.linear.bias))
    return adjacency @ x + (1 + conv.epsilon) * x


LAYERS = {
    "sage": (MaxKSAGEConv, sage),
    "gcn": (MaxKGCNConv, gcn),
    "gcn, no self loops": (partial(MaxKGCNConv, add_self_loops=False), gcn),
    "gcn, not normalized": (partial(MaxKGCNConv, normalize=False), gcn),
    "gin": (MaxKGINConv, gin),
}


def test_every_model_is_compared():
    assert MODELS.keys() <= LAYERS.keys()


def results(function, x, parameters):
    """The result, and the gradients of a function of it that treats every element differently."""
    x = x.clone().requires_grad_()
    result = function(x)
    weights = torch.linspace(-1, 1, result.numel(), device=result.device).sin().view_as(result)
    return [result.detach(), *torch.autograd.grad((result * weights).sum(), [x, *parameters])]


@pytest.mark.parametrize("layer, reference", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("dense", [False, True], ids=["compact", "dense"])
@pytest.mark.parametrize("block", [7, 1 << 15])
def test_layers(layer, reference, dense, block, adjacency, device, monkeypatch):
    monkeypatch.setattr(rtopk.gnn.product, "_BLOCK_ROWS", block)
    conv = layer(COLS, COLS, K, dense=dense).to(device)
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.normal_()  # a bias and an epsilon of zero would hide a mistake
    graph, adjacency = to_graph(adjacency).to(device), adjacency.to(device)
    x = torch.randn(len(adjacency), COLS, device=device)
    parameters = list(conv.parameters())
    ours = results(lambda x: conv(x, graph), x, parameters)
    theirs = results(lambda x: reference(conv, x, adjacency), x, parameters)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


def test_more_columns_than_8_bits_tell_apart(device):
    conv = MaxKSAGEConv(300, 8, 40).to(device)
    adjacency = (torch.rand(NODES, NODES) < 0.2).float()
    x = torch.randn(NODES, 300, device=device)
    reference = F.linear(mean(adjacency.to(device)) @ maxk(x, 40), conv.neighbours.weight, conv.neighbours.bias)
    reference = reference + maxk(x, 40) @ conv.own.weight.t()
    torch.testing.assert_close(conv(x, to_graph(adjacency).to(device)), reference, rtol=1e-4, atol=1e-4)


def test_early_stopping_selects_as_maxk_does():
    x = torch.randn(50, 64)
    made = []
    for rule in RULES:
        rows = CompactMaxK(8, max_iter=2, rule=rule)(x)
        made.append(rtopk.expand(rows.values, rows.selectors, 64))
        assert torch.equal(made[-1], rtopk.maxk(x, 8, max_iter=2, rule=rule))
        assert not torch.equal(made[-1], rtopk.maxk(x, 8))
    assert not torch.equal(*made)


@pytest.mark.parametrize("model", MODELS)
def test_networks_select_by_their_rule(model):
    networks = [MaxKGNN(model, 9, 32, 4, num_layers=2, k=8, max_iter=2, rule=rule) for rule in RULES]
    networks[1].load_state_dict(networks[0].state_dict())
    for network, rule in zip(networks, RULES, strict=True):
        assert {convolution.activation.rule for convolution in network.convolutions} == {rule}
    x, edges = torch.randn(20, 9), torch.randint(20, (2, 60))
    assert not torch.equal(networks[0](x, edges), networks[1](x, edges))


def test_dropout_drops_kept_elements_and_only_in_training():
    rows = CompactMaxK(16)(torch.rand(200, 64) + 1)
    assert rows.dropout(0.5, False).values.equal(rows.values)
    dropped = rows.dropout(0.5, True).values
    assert 0.4 < (dropped == 0).float().mean() < 0.6
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * rows.values[kept])


@pytest.mark.parametrize("dense", [False, True], ids=["compact", "dense"])
@pytest.mark.parametrize("layer", MODELS.values())
def test_layers_drop_what_they_aggregate(layer, dense):
    """With everything dropped, the last bias is left."""
    conv, x = layer(16, 16, 4, dropout=1.0, dense=dense), torch.randn(9, 16)
    kept = layer(16, 16, 4, dense=dense)
    kept.load_state_dict(conv.state_dict())
    graph = Graph.from_edge_index(torch.randint(0, 9, (2, 30)), 9)
    bias = torch.zeros(16) if conv.last_bias is None else conv.last_bias
    assert torch.equal(conv(x, graph), bias.expand(9, 16))
    assert torch.equal(conv.eval()(x, graph), kept(x, graph))


@pytest.mark.parametrize("model", MODELS)
def test_networks_give_the_same_with_and_without_the_zeros(model, device):
    adjacency = (torch.rand(NODES, NODES) < 0.1).float()
    graph = to_graph(adjacency).with_self_loops().to(device)
    features = torch.rand(NODES, 30, device=device) * (torch.rand(NODES, 30, device=device) < 0.2)
    csr = features.cpu().to_sparse_csr()
    sparse = SparseFeatures(csr.crow_indices(), csr.col_indices(), csr.values(), 30).to(device)
    compact = MaxKGNN(model, 30, COLS, 4, num_layers=2, k=K).to(device)
    dense = MaxKGNN(model, 30, COLS, 4, num_layers=2, k=K, dense=True).to(device)
    dense.load_state_dict(compact.state_dict())
    outcomes = []
    for network, x in ((compact, features), (compact, sparse), (dense, features)):
        network.zero_grad()
        result = network(x, graph)
        F.cross_entropy(result, torch.arange(NODES, device=device) % 4).backward()
        outcomes.append([result.detach(), *(parameter.grad.clone() for parameter in network.parameters())])
    for other in outcomes[1:]:
        for mine, theirs in zip(outcomes[0], other, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_networks_are_their_layers_one_after_the_other(model, device):
    network = MaxKGNN(model, 30, COLS, 4, num_layers=2, k=K).to(device)
    graph = to_graph((torch.rand(NODES, NODES) < 0.1).float()).to(device)
    features = torch.randn(NODES, 30, device=device)
    x = network.input(features)
    x = x if MODELS[model].selects_input else x.relu()
    for convolution, norm in zip(network.convolutions, network.norms, strict=True):
        x = norm(convolution(x, graph))
    torch.testing.assert_close(network(features, graph), network.output(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("edges,kept_matrices", [(4000, 0), (40000, 1)])
def test_no_dense_copy_of_the_rows_is_made(edges, kept_matrices):
    """Of what a convolution keeps for its derivative, nothing but a sum over many neighbours has the size of the dense
    rows: it is what their linear map needs. Few neighbours are summed after it."""
    nodes, cols = 1000, 64
    conv = MaxKSAGEConv(cols, cols, 4)
    graph = Graph.from_edge_index(torch.randint(nodes, (2, edges)), nodes)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        conv(torch.randn(nodes, cols, requires_grad=True), graph)
    assert sum(size >= nodes * cols for size in kept) == kept_matrices


def test_sums_and_their_map_in_either_order(monkeypatch):
    nodes, cols, out = 300, 96, 40
    conv = MaxKSAGEConv(cols, out, 8)
    graph = Graph.from_edge_index(torch.randint(nodes, (2, 900)), nodes)
    x = torch.randn(nodes, cols)
    grad = torch.randn(nodes, out)
    results = []
    for degree in (0, 32):
        monkeypatch.setattr("rtopk.gnn.rows._MAX_DEGREE", degree)
        conv.zero_grad()
        leaf = x.clone().requires_grad_()
        y = conv(leaf, graph)
        y.backward(grad)
        results.append([y.detach(), leaf.grad, *(p.grad.clone() for p in conv.parameters())])
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("rows,cols,k", [(700, 40, 6), (60, 40, 40), (1, 40, 6), (0, 40, 6), (60, 300, 8)])
def test_maxk_of_a_linear_map_is_one_after_the_other(rows, cols, k, bias):
    activation, linear = CompactMaxK(k), torch.nn.Linear(30, cols, bias=bias)
    x = torch.randn(30, rows).t().requires_grad_()  # not contiguous
    leaves = [x, *linear.parameters()]
    ours, theirs = activation.of_linear(x, linear), activation(linear(x))
    assert torch.equal(ours.values, theirs.values) and torch.equal(ours.selectors, theirs.selectors)
    first, second = [], []
    for result in (ours, theirs):
        first.append(torch.autograd.grad(result.values.sin().sum(), leaves, retain_graph=True))
        gradients = torch.autograd.grad(result.values.sin().sum(), leaves, create_graph=True)
        second.append(torch.autograd.grad(sum(g.square().sum() for g in gradients), leaves))
    for mine, other in zip(first[0] + second[0], first[1] + second[1], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-3)


def test_a_linear_map_before_maxk_may_be_frozen():
    activation, linear = CompactMaxK(K), torch.nn.Linear(COLS, COLS)
    linear.weight.requires_grad_(False)
    x = torch.randn(NODES, COLS)
    activation.of_linear(x, linear).values.sum().backward()
    selectors = activation(linear(x)).selectors
    torch.testing.assert_close(linear.bias.grad, torch.bincount(selectors.flatten(), minlength=COLS).float())
    assert linear.weight.grad is None and x.grad is None


def test_edge_index_in_a_graphs_place():
    conv = MaxKGCNConv(COLS, COLS, K)
    edges, x = torch.randint(NODES, (2, 100)), torch.randn(NODES, COLS)
    assert torch.equal(conv(x, edges), conv(x, Graph.from_edge_index(edges, NODES)))
    with pytest.raises(TypeError, match="graph is list; accepted: Graph"):
        conv(x, [[0], [1]])


# ---- As in PyTorch Geometric ----


@pytest.mark.parametrize("conv", MODELS.values())
def test_cached_layers_keep_the_graph_of_the_first_edge_index(conv, monkeypatch):
    made = []
    real = Graph.from_edge_index.__func__
    monkeypatch.setattr(Graph, "from_edge_index", classmethod(lambda *args: made.append(args) or real(*args)))
    edges, x = torch.randint(NODES, (2, 100)), torch.randn(NODES, COLS)
    plain, cached = conv(COLS, COLS, K), conv(COLS, COLS, K, cached=True)
    cached.load_state_dict(plain.state_dict())
    expected = plain(x, edges)
    for _ in range(3):
        assert torch.equal(cached(x, edges), expected)
    assert sum(args[1] is edges for args in made) == 2
    assert torch.equal(cached(x, edges.flip(0)), expected)  # as documented
    other = Graph.from_edge_index(edges.flip(0), NODES)
    assert torch.equal(cached(x, other), plain(x, other))  # a Graph is used as given
    assert torch.equal(pickle.loads(pickle.dumps(cached))(x, edges), expected)
    cached.reset_parameters()
    cached.load_state_dict(plain.state_dict())
    assert torch.equal(cached(x, edges.flip(0)), plain(x, edges.flip(0)))


@pytest.mark.parametrize("model", MODELS)
def test_cached_networks(model):
    edges, x = torch.randint(NODES, (2, 100)), torch.randn(NODES, 30)
    network = MaxKGNN(model, 30, COLS, 4, num_layers=2, k=K, cached=True)
    expected = network(x, Graph.from_edge_index(edges, NODES))
    assert torch.equal(network(x, edges), expected) and torch.equal(network(x, edges.flip(0)), expected)
    assert not any(convolution.cached for convolution in network.convolutions)


@pytest.mark.parametrize(
    "make",
    [*(partial(conv, COLS, COLS, K) for conv in MODELS.values())]
    + [partial(MaxKGNN, model, 30, COLS, 4, num_layers=2, k=K) for model in MODELS],
)
def test_reset_parameters_draws_what_the_constructor_draws(make):
    torch.manual_seed(5)
    module = make()
    drawn = {name: value.clone() for name, value in module.state_dict().items()}
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(7)
    torch.manual_seed(5)
    module.reset_parameters()
    for name, value in module.state_dict().items():
        assert torch.equal(value, drawn[name]), name


def test_networks_with_replaced_norms_are_reset_too():
    network = MaxKGNN("gin", 3, 8, 2, num_layers=1, k=2)
    network.norms[0] = torch.nn.Identity()
    network.reset_parameters()


@pytest.mark.parametrize(
    "module, text",
    [
        (MaxKSAGEConv(8, 4, 2), "MaxKSAGEConv(8, 4, k=2)"),
        (MaxKGCNConv(8, 4, k=2), "MaxKGCNConv(8, 4, k=2)"),
        (MaxKGCNConv(8, 4, 2, add_self_loops=False), "MaxKGCNConv(8, 4, k=2, add_self_loops=False)"),
        (MaxKGCNConv(8, 4, 2, normalize=False, cached=True), "MaxKGCNConv(8, 4, k=2, normalize=False, cached=True)"),
        (MaxKGINConv(8, 4, 2, max_iter=3, dropout=0.5), "MaxKGINConv(8, 4, k=2, max_iter=3, dropout=0.5)"),
        (MaxKGCNConv(8, 4, 2, max_iter=3, rule="printed"), "MaxKGCNConv(8, 4, k=2, max_iter=3, rule='printed')"),
        (MaxKGINConv(8, 4, 2, dense=True), "MaxKGINConv(8, 4, k=2, dense=True)"),
        (
            MaxKGNN("gin", 9, 8, 4, k=2, max_iter=3, rule="printed"),
            "MaxKGNN('gin', 9, 8, 4, num_layers=3, k=2, max_iter=3, rule='printed')",
        ),
        (MaxKGNN("sage", 9, 8, 4, k=2), "MaxKGNN('sage', 9, 8, 4, num_layers=3, k=2)"),
        (
            MaxKGNN("gcn", 9, 8, 4, num_layers=1, k=2, add_self_loops=False),
            "MaxKGNN('gcn', 9, 8, 4, num_layers=1, k=2, add_self_loops=False)",
        ),
    ],
)
def test_descriptions(module, text):
    assert repr(module) == text
    assert repr(eval(text, {name: getattr(rtopk.gnn, name) for name in rtopk.gnn.__all__})) == text


def test_self_loops_of_gcn():
    edges, x = torch.randint(NODES, (2, 100)), torch.randn(NODES, COLS)
    graph = Graph.from_edge_index(edges, NODES)
    conv, without = MaxKGCNConv(COLS, COLS, K), MaxKGCNConv(COLS, COLS, K, add_self_loops=False)
    without.load_state_dict(conv.state_dict())
    assert torch.equal(conv(x, graph), without(x, graph.with_self_loops()))
    network = MaxKGNN("gcn", 30, COLS, 4, num_layers=2, k=K)
    plain = MaxKGNN("gcn", 30, COLS, 4, num_layers=2, k=K, add_self_loops=False)
    plain.load_state_dict(network.state_dict())
    x = torch.randn(NODES, 30)
    assert torch.equal(network(x, graph), plain(x, graph.with_self_loops()))
    with pytest.raises(ValueError, match="add_self_loops is True and normalize is False; accepted"):
        MaxKGCNConv(8, 8, 2, add_self_loops=True, normalize=False)
    with pytest.raises(ValueError, match="add_self_loops is for gcn, not 'sage'; accepted"):
        MaxKGNN("sage", 8, 8, 2, k=2, add_self_loops=False)


def test_old_names_of_arguments_work_with_a_warning():
    torch.manual_seed(3)
    with pytest.warns(FutureWarning, match="is called .* now; the old name will be removed") as caught:
        old = MaxKGNN("sage", in_features=9, hidden=8, classes=4, layers=2, k=2)
    assert len(caught) == 4 and all(warning.filename == __file__ for warning in caught)
    torch.manual_seed(3)
    new = MaxKGNN("sage", in_channels=9, hidden_channels=8, out_channels=4, num_layers=2, k=2)
    assert repr(old) == repr(new)
    x, edges = torch.randn(5, 9), torch.randint(5, (2, 9))
    assert torch.equal(old(x, edges), new(x, edges))
    with pytest.raises(TypeError, match="layers and num_layers are one argument; accepted: num_layers"):
        MaxKGNN("sage", 9, 8, 4, layers=2, num_layers=2, k=2)
    assert {"in_channels", "hidden_channels", "out_channels", "num_layers"} <= set(
        inspect.signature(MaxKGNN).parameters
    )


@pytest.mark.parametrize("module", ["graph", "layers", "rows"])
def test_examples_in_the_documentation(module):
    outcome = doctest.testmod(getattr(rtopk.gnn, module), extraglobs={"torch": torch, "rtopk": rtopk})
    assert outcome.attempted and not outcome.failed


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="k is 25; accepted: 1 to 24"):
        MaxKSAGEConv(24, 64, 25)
    with pytest.raises(ValueError, match="k is 0"):
        MaxKGCNConv(24, 64, 0)
    with pytest.raises(ValueError, match="max_iter is 3 with dense=True"):
        MaxKGINConv(24, 24, 4, max_iter=3, dense=True)
    with pytest.raises(ValueError, match="rule is 'first'; accepted: 'threshold_first' or 'printed'"):
        MaxKGINConv(24, 24, 4, rule="first")
    with pytest.raises(TypeError, match="rule is None; accepted: 'threshold_first' or 'printed'"):
        CompactMaxK(4, rule=None)
    with pytest.raises(ValueError, match="dropout is 1.5; accepted: 0 to 1"):
        MaxKGINConv(24, 24, 4, dropout=1.5)
    with pytest.raises(ValueError, match="model is 'none'; accepted: sage, gcn, gin"):
        MaxKGNN("none", 3, 8, 2, k=2)
    with pytest.raises(ValueError, match="num_layers is 0; accepted: 1 or more"):
        MaxKGNN("sage", 3, 8, 2, k=2, num_layers=0)


@pytest.mark.parametrize("shape", [(9, 15), (9, 17), (9, 300), (8, 16), (12, 16), (16,), (2, 9, 16)])
@pytest.mark.parametrize("layer", MODELS.values())
def test_rows_that_are_not_those_of_the_graph_are_refused(layer, shape):
    graph = Graph.from_edge_index(torch.randint(0, 9, (2, 30)), 9)
    with pytest.raises(ValueError, match=r"x has shape .*; accepted: \[9, 16\], a row for each node of the graph"):
        layer(16, 12, 4)(torch.randn(shape), graph)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dense", [False, True], ids=["compact", "dense"])
def test_features_that_are_not_those_of_the_graph_are_refused(model, dense):
    graph = Graph.from_edge_index(torch.randint(0, 9, (2, 30)), 9)
    network = MaxKGNN(model, 5, 16, 3, k=4, dense=dense)
    sparse = SparseFeatures(torch.arange(11), torch.zeros(10, dtype=torch.int64), torch.ones(10), 5)
    for x in (torch.randn(10, 5), torch.randn(9, 6), sparse):
        with pytest.raises(ValueError, match=r"x has shape .*; accepted: \[9, 5\]"):
            network(x, graph)


@pytest.mark.parametrize("dense", [False, True], ids=["compact", "dense"])
@pytest.mark.parametrize("layer", MODELS.values())
def test_a_gradient_of_weights_is_refused_and_not_left_out(layer, dense):
    graph = Graph.from_edge_index(torch.randint(0, 9, (2, 30)), 9, torch.rand(30, requires_grad=True))
    with pytest.raises(ValueError, match="weights requires a gradient"):
        layer(16, 16, 4, dense=dense)(torch.randn(9, 16), graph)


@pytest.mark.parametrize("layer", [MaxKGCNConv, MaxKGINConv])
def test_what_is_done_to_a_linear_map_has_its_derivative(layer):
    """Also where the derivative of MaxK goes into it compact."""
    x, graph = torch.randn(9, 16), Graph.from_edge_index(torch.randint(0, 9, (2, 30)), 9)
    conv, seen = layer(16, 12, 4), []
    with torch.no_grad():
        plain = conv(x, graph)
        doubled = copy.deepcopy(conv)
        doubled.linear.weight.mul_(2), doubled.linear.bias.mul_(2)
    expected = torch.autograd.grad(doubled(x, graph).square().sum(), doubled.linear.parameters())
    conv.linear.register_forward_hook(lambda module, x, y: 2 * y)
    conv.linear.register_full_backward_hook(lambda *_: seen.append(True))
    result = conv(x, graph)
    for mine, other in zip(torch.autograd.grad(result.square().sum(), conv.linear.parameters()), expected, strict=True):
        torch.testing.assert_close(mine, 2 * other, rtol=1e-4, atol=1e-4)  # it is not about rounding
    assert seen and not torch.equal(result, plain)
    conv.linear = torch.nn.Sequential(torch.nn.Linear(16, 12), torch.nn.Tanh())
    conv(x, graph).sum().backward()
    assert conv.linear[0].weight.grad is not None


def test_copies_of_sparse_features():
    features = SparseFeatures(torch.arange(4), torch.tensor([0, 2, 1]), torch.rand(3), 5)
    copied = copy.deepcopy(features)
    assert torch.equal(copied.to_dense(), features.to_dense()) and copied.shape == features.shape


@pytest.mark.parametrize("model", MODELS)
def test_hooks_and_replaced_norms(model, device):
    network = MaxKGNN(model, 12, 16, 3, num_layers=2, k=4).to(device)
    x, graph = torch.randn(9, 12, device=device), Graph.from_edge_index(torch.randint(0, 9, (2, 30), device=device), 9)
    seen = []
    for module in (*network.convolutions, *network.norms):
        module.register_forward_hook(lambda module, *_: seen.append(module))
    hooked = network(x, graph)
    assert seen == [m for pair in zip(network.convolutions, network.norms, strict=True) for m in pair]
    for module in network.norms:
        module._forward_hooks.clear()
    torch.testing.assert_close(network(x, graph), hooked)
    network.norms[0], network.norms[1] = torch.nn.Identity(), torch.nn.BatchNorm1d(16).to(device)
    network(x, graph).sum().backward()
    assert network.norms[1].weight.grad is not None


@pytest.mark.parametrize("k", [2, 8])
@pytest.mark.parametrize("model", MODELS)
def test_networks_under_autocast(model, k, device):
    network = MaxKGNN(model, 12, 16, 3, num_layers=2, k=k).to(device)
    x, graph = torch.randn(9, 12, device=device), Graph.from_edge_index(torch.randint(0, 9, (2, 30), device=device), 9)
    csr = x.cpu().to_sparse_csr()
    sparse = SparseFeatures(csr.crow_indices(), csr.col_indices(), csr.values(), 12).to(device)
    expected = network(x, graph)
    for features in (x, sparse):
        network.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            result = network(features, graph)
        result.float().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
        assert F.cosine_similarity(result.float(), expected).mean() > 0.9


@pytest.mark.parametrize("dense", [False, True], ids=["compact", "dense"])
@pytest.mark.parametrize("layer", MODELS.values())
def test_layers_under_autocast(layer, dense):
    conv, x = layer(16, 16, 4, dense=dense), torch.randn(9, 16)
    graph = Graph.from_edge_index(torch.randint(0, 9, (2, 30)), 9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = conv(x, graph)
    result.float().sum().backward()
    assert F.cosine_similarity(result.float(), conv(x, graph)).mean() > 0.95


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["highest", "high"])
def test_maxk_of_a_linear_map_follows_the_precision(precision):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        linear = torch.nn.Linear(64, 64).cuda()
        rows = CompactMaxK(4).of_linear(torch.randn(9, 64, device="cuda"), linear)
        assert (type(rows.values.grad_fn).__name__ == "_LinearAtBackward") == (precision == "highest")
    finally:
        torch.set_float32_matmul_precision(before)
