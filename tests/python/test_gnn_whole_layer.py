"""Layers as one step of autograd, and the graphs that they need, against the same by single steps."""

import pytest
import torch

from rtopk.gnn import Graph, MaxKGNN, NeighborSampler, whole_layer
from rtopk.gnn.layers import MODELS

NODES, COLS = 120, 12


def mini_batch(device="cpu"):
    graph = Graph.from_edge_index(torch.randint(0, NODES, (2, 900)), NODES).to(device)
    batch = NeighborSampler(graph, [4, 3]).sample(torch.arange(10, device=device))
    return torch.randn(len(batch.nodes), COLS, device=device), batch.graphs()


def network_of(model, device="cpu", dropout=0.0):
    network = MaxKGNN(model, COLS, 32, 5, num_layers=2, k=4, dropout=dropout).to(device)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)  # a bias of zero would hide a mistake
    return network


@pytest.fixture
def layers_computed(monkeypatch):
    """Every call of computed() leaves its result here."""
    found, usual = [], whole_layer.computed

    def computed(x, layer):
        found.append(usual(x, layer))
        return found[-1]

    monkeypatch.setattr(whole_layer, "computed", computed)
    return found


def gradients(network, x, graphs, create_graph=False):
    result = network(x, graphs)
    weights = torch.linspace(-1, 1, result.numel(), device=result.device).sin().view_as(result)
    leaves = [x, *network.parameters()]
    return [result, *torch.autograd.grad((result * weights).sum(), leaves, create_graph=create_graph)]


def close(ours, theirs, tolerance=1e-5):
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("model", MODELS)
def test_one_step_is_the_single_steps(model, device, monkeypatch, layers_computed):
    network, (x, graphs) = network_of(model, device), mini_batch(device)
    x.requires_grad_()
    ours = gradients(network, x, graphs)
    assert len(layers_computed) == 2
    monkeypatch.setattr(whole_layer, "takes", lambda *_: False)
    close(ours, gradients(network, x, graphs))
    assert len(layers_computed) == 2


@pytest.mark.parametrize("dropout", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("model", MODELS)
def test_gradients_of_second_order(model, dropout, device, monkeypatch, layers_computed):
    """The gradients of first order that have a derivative are those that have none: with dropout, of the same mask. And
    their derivative is that of the single steps."""
    network, (x, graphs) = network_of(model, device, dropout), mini_batch(device)
    x.requires_grad_()
    found = []
    for create_graph in (False, True):
        torch.manual_seed(5)
        found.append(gradients(network, x, graphs, create_graph))
    close(*found)
    assert len(layers_computed) == 4
    if dropout:
        return

    def penalty():
        of_x = gradients(network, x, graphs, create_graph=True)[1]
        return torch.autograd.grad(of_x.square().sum(), [x, *network.parameters()], allow_unused=True)

    ours = penalty()
    monkeypatch.setattr(whole_layer, "takes", lambda *_: False)
    for mine, other in zip(ours, penalty(), strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_layers_that_are_not_plain_are_computed_by_single_steps(model, layers_computed):
    x, graphs = mini_batch()
    called = []
    hooked = network_of(model)
    hooked.norms[1].register_forward_hook(lambda *_: called.append("norm"))
    hooked.convolutions[0].register_forward_hook(lambda *_: called.append("convolution"))
    expected = hooked(x, graphs)
    assert called == ["convolution", "norm"]
    plain = network_of(model)
    plain.load_state_dict(hooked.state_dict())
    with torch.autocast("cpu", torch.bfloat16):
        plain(x, graphs)
    plain.norms[1] = torch.nn.Identity()
    plain(x, graphs)
    assert not layers_computed
    plain.norms[1] = hooked.norms[1]
    hooked.norms[1]._forward_hooks.clear()
    torch.testing.assert_close(plain(x, graphs), expected)
    assert len(layers_computed) == 2


def dense(graph, sources):
    """The matrix of a graph, from its edges: empty places have column -1."""
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.row_starts.diff().long().cpu())
    kept = graph.columns.cpu() >= 0
    weights = torch.ones(len(rows)) if graph.weights is None else graph.weights.cpu()
    matrix = torch.zeros(graph.num_nodes, sources)
    return matrix.index_put_((rows[kept], graph.columns.cpu().long()[kept]), weights[kept], accumulate=True)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sources, targets, edges", [(40, 40, 200), (50, 20, 90), (3, 2, 0), (1, 1, 4), (0, 0, 0)])
def test_gcn_with_self_loops_in_one_step(sources, targets, edges, weighted, index, device, monkeypatch):
    monkeypatch.setattr("rtopk.gnn.graph.index_type", lambda most: index)
    edge_index = torch.stack([torch.randint(max(n, 1), (edges,)) for n in (sources, targets)])
    weights = torch.rand(edges) if weighted else None
    graph = Graph.from_edge_index(edge_index, None, weights, (sources, targets)).to(device)
    made = graph.gcn_with_self_loops()
    assert made.columns.dtype == index and made.num_edges == edges + targets
    assert int((made.columns < 0).sum()) == int((edge_index[0] == edge_index[1]).sum())

    # add_remaining_self_loops, and degrees, written down plainly
    matrix = torch.zeros(sources, sources, dtype=torch.float64)
    loops = torch.ones(sources, dtype=torch.float64)
    order = torch.argsort(edge_index[1] * sources + edge_index[0], stable=True) if edges else torch.arange(0)
    ascends = bool((edge_index[1].diff() >= 0).all())
    for edge in range(edges) if ascends else order.tolist():
        source, target = edge_index[:, edge].tolist()
        weight = 1.0 if weights is None else float(weights[edge])
        if source == target:
            loops[source] = weight
        else:
            matrix[target, source] += weight
    matrix += torch.diag(loops)
    scale = matrix.sum(1).rsqrt().nan_to_num(posinf=0.0)
    expected = (matrix * scale[:, None] * scale)[:targets].float()
    torch.testing.assert_close(dense(made, sources), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(dense(graph.with_self_loops().gcn_normalized(), sources), expected, rtol=1e-6, atol=0)


def test_row_starts_that_make_no_sense_stay_in_memory(device):
    for _ in range(50):
        starts = torch.randint(-5, 40, (9,), dtype=torch.int32, device=device)
        columns = torch.randint(-3, 12, (30,), dtype=torch.int32, device=device)
        for edge, normalized in ((0, True), (1, False), (1, True), (2, False)):
            made = torch.ops.rtopk._own_edges(starts, columns, None, 10, edge, normalized, False)
            assert made[1] is None or made[1].numel() == 38


def test_what_own_edges_refuse():
    starts, columns = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
    for arguments, text in [
        ((2, 3, False, False), "edge is 3; accepted: 0 to 2"),
        ((1, 1, False, False), "rows is 2 and nodes 1; accepted: rows that are the first nodes"),
        ((2, 2, True, False), "normalized is 1; accepted: false with identity"),
        ((2, 0, False, False), "edge is 0; accepted: another than none, or normalized"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            torch.ops.rtopk._own_edges(starts, columns, None, *arguments)


def test_a_mini_batch_is_read_once():
    edge_index = torch.tensor([[1, 2, 3, 3], [0, 0, 1, 2]])
    graph = Graph.from_mini_batch(edge_index, (4, 4), [1, 3])
    graph.row_starts.zero_()  # what is known is not read again
    assert graph.starts_at([1, 3]) == [2, 4]
    assert Graph.from_mini_batch(edge_index.flip(1), (4, 4), [1, 3]).starts_at([1, 3]) == [2, 4]
    assert Graph.from_edge_index(edge_index, 4).starts_at([0, 1, 3]) == [0, 2, 4]
