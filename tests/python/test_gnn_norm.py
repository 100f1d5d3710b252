"""Bias, LayerNorm and MaxK in one go: against torch's own in float64, derivatives of derivatives, and whole networks.

Where there is no GPU, the operators are written here with torch: what is tested then is everything around them.
"""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rtopk
import rtopk.gnn.layers
import rtopk.gnn.norm
from rtopk.gnn import CompactMaxK, Graph, MaxKGNN
from rtopk.gnn.layers import MODELS
from rtopk.gnn.norm import fuses, normalized

OPS = torch.ops.rtopk


def _norm(x, bias, gamma, beta, epsilon):
    return F.layer_norm(x if bias is None else x + bias, x.shape[1:], gamma, beta, epsilon)


def _norm_backward(x, bias, gamma, epsilon, grad):
    leaves = [t.detach().clone().requires_grad_() for t in (x, gamma, torch.zeros_like(gamma))]
    offset = torch.zeros_like(gamma) if bias is None else bias.detach().clone()
    offset.requires_grad_()
    with torch.enable_grad():
        y = _norm(leaves[0], offset, leaves[1], leaves[2], epsilon)
    *gradients, of_bias = torch.autograd.grad(y, [*leaves, offset], grad)
    return *gradients, None if bias is None else of_bias


def _norm_compact_backward(x, bias, gamma, epsilon, values, selectors):
    return _norm_backward(x, bias, gamma, epsilon, rtopk.expand(values, selectors, x.shape[1]))


@pytest.fixture
def operators(device, monkeypatch):
    """The device, with operators."""
    if device == "cpu":
        written = {f.__name__: SimpleNamespace(default=f) for f in (_norm, _norm_backward, _norm_compact_backward)}
        monkeypatch.setattr(rtopk.gnn.norm, "_OPS", SimpleNamespace(**written))
        monkeypatch.setattr(rtopk.gnn.layers, "fuses", lambda norm: True)
    return device


def example(rows, cols, biased, device):
    norm = nn.LayerNorm(cols).to(device)
    nn.init.normal_(norm.weight, 1.0)
    nn.init.normal_(norm.bias)
    x = (3 * torch.randn(rows, cols, device=device) + 1).requires_grad_()
    bias = torch.randn(cols, device=device).requires_grad_() if biased else None
    return x, bias, norm


def in_double(tensor):
    return None if tensor is None else tensor.detach().double().requires_grad_()


def leaves_of(x, bias, gamma, beta):
    return [x, *([] if bias is None else [bias]), gamma, beta]


def assert_close(ours, exact, scale=1.0):
    for mine, other in zip(ours, exact, strict=True):
        torch.testing.assert_close(mine.double(), other, rtol=2e-4, atol=2e-5 * scale)


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("rows,cols", [(70, 24), (0, 24), (1, 7), (300, 256), (50, 257), (33, 1024), (5, 3)])
@pytest.mark.parametrize("k", [None, 5])
def test_rows_and_gradients(rows, cols, k, biased, operators):
    k = k and min(k, cols)
    activation = None if k is None else CompactMaxK(k)
    x, bias, norm = example(rows, cols, biased, operators)
    ours = normalized(x, bias, norm, activation)
    exact = [in_double(t) for t in (x, bias, norm.weight, norm.bias)]
    y = _norm(*exact, norm.eps)
    if activation is not None:
        y = y.gather(1, ours.selectors.long())
        ours = ours.values
    grad = torch.randn(ours.shape, device=operators)
    gradients = torch.autograd.grad(ours, leaves_of(x, bias, norm.weight, norm.bias), grad)
    expected = torch.autograd.grad(y, leaves_of(*exact), grad.double())
    assert_close([ours, *gradients], [y, *expected], scale=1 + rows**0.5)


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("k", [None, 4])
def test_derivatives_of_derivatives(k, biased, operators):
    x, bias, norm = example(20, 12, biased, operators)
    result = normalized(x, bias, norm, None if k is None else CompactMaxK(k))
    exact = [in_double(t) for t in (x, bias, norm.weight, norm.bias)]
    y = _norm(*exact, norm.eps)
    if k is not None:
        y = y.gather(1, result.selectors.long())
        result = result.values
    second = []
    for values, leaves in ((result, leaves_of(x, bias, norm.weight, norm.bias)), (y, leaves_of(*exact))):
        first = torch.autograd.grad(values.sin().sum(), leaves, create_graph=True)
        second.append(torch.autograd.grad(sum(g.square().sum() for g in first), leaves))
    assert_close(*second, scale=100.0)


@pytest.mark.parametrize("frozen", ["x", "norm"])
def test_what_needs_no_gradient_gets_none(frozen, operators):
    x, bias, norm = example(20, 12, True, operators)
    if frozen == "x":
        x.requires_grad_(False)
    else:
        norm.requires_grad_(False)
    normalized(x, bias, norm, CompactMaxK(3)).values.sum().backward()
    assert bias.grad is not None
    assert (x.grad is None) == (frozen == "x")
    assert (norm.weight.grad is None) == (norm.bias.grad is None) == (frozen == "norm")


def network_and_rows(model, device, **options):
    graph = Graph.from_edge_index(torch.randint(60, (2, 400)), 60).with_self_loops().to(device)
    network = MaxKGNN(model, 30, 24, 4, num_layers=3, k=5, **options).to(device)
    with torch.no_grad():
        for parameter in network.parameters():  # zeros and ones would hide a mistake
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return network, graph, torch.rand(60, 30, device=device)


@pytest.mark.parametrize("model", MODELS)
def test_networks_are_the_same_in_one_go_and_one_by_one(model, operators, monkeypatch):
    network, graph, x = network_and_rows(model, operators)
    outcomes = []
    for fused in (True, False):
        if not fused:
            monkeypatch.setattr(rtopk.gnn.layers, "fuses", lambda norm: False)
        network.zero_grad()
        result = network(x, graph)
        result.sin().sum().backward()
        outcomes.append([result.detach(), *(parameter.grad for parameter in network.parameters())])
    for mine, other in zip(*outcomes, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_activations_are_called_on_what_they_select_from(model, operators):
    network, graph, x = network_and_rows(model, operators)
    seen = []
    for convolution in network.convolutions:
        convolution.activation.register_forward_hook(lambda module, x, rows: seen.append((module, x[0], rows)))
    network(x, graph).sum().backward()
    assert [module for module, _, _ in seen] == [convolution.activation for convolution in network.convolutions]
    for _, selected_from, rows in seen:
        assert selected_from.shape == (60, 24)
        assert torch.equal(rows.values, selected_from.gather(1, rows.selectors.long()))


def test_normalized_rows_are_not_kept(operators):
    x, bias, norm = example(200, 64, True, operators)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        normalized(x, bias, norm, CompactMaxK(4))
    assert [t.data_ptr() for t in kept if t.numel() >= x.numel()] == [x.data_ptr()]


@pytest.mark.parametrize("model", MODELS)
def test_the_baseline_is_torchs(model, operators, monkeypatch):
    network, graph, x = network_and_rows(model, operators, dense=True)
    monkeypatch.setattr(rtopk.gnn.layers, "normalized", None)
    network(x, graph).sum().backward()


def test_checkpoints_keep_their_names():
    layer = {
        "sage": ["neighbours.weight", "neighbours.bias", "own.weight"],
        "gcn": ["bias", "linear.weight", "linear.bias"],
        "gin": ["epsilon", "linear.weight", "linear.bias"],
    }
    for model in MODELS:
        names = set(MaxKGNN(model, 30, 24, 4, num_layers=1, k=5).state_dict())
        assert names == {
            *(f"{part}.{name}" for part in ("input", "norms.0", "output") for name in ("weight", "bias")),
            *(f"convolutions.0.{name}" for name in layer[model]),
        }


def test_what_is_taken(device):
    assert fuses(nn.LayerNorm(8).to(device)) == (device == "cuda")
    others = [nn.LayerNorm(8).double(), nn.LayerNorm(8, elementwise_affine=False), nn.LayerNorm((2, 8))]
    others += [nn.LayerNorm(cols) for cols in (513, 1028)]
    assert not any(fuses(norm.to(device)) for norm in others)
    with torch.autocast(device):
        assert device == "cpu" or not fuses(nn.LayerNorm(8).to(device))


@pytest.mark.gpu
def test_operators_keep_pytorchs_rules():
    tests = ("test_schema", "test_faketensor")
    for bias in (torch.randn(24, device="cuda"), None):
        x, gamma = torch.randn(30, 24, device="cuda"), torch.randn(24, device="cuda")
        values, selectors = rtopk.compact(torch.randn(30, 24, device="cuda"), 5)
        torch.library.opcheck(OPS._norm.default, (x, bias, gamma, gamma, 1e-5), test_utils=tests)
        torch.library.opcheck(OPS._norm_backward.default, (x, bias, gamma, 1e-5, x.clone()), test_utils=tests)
        torch.library.opcheck(
            OPS._norm_compact_backward.default, (x, bias, gamma, 1e-5, values, selectors), test_utils=tests
        )


@pytest.mark.gpu
@pytest.mark.parametrize(
    "change,message",
    [
        ({"x": torch.ones(3, 2, 8)}, "x has 3 dimensions"),
        ({"x": torch.ones(3, 8).double()}, "x is not float32"),
        ({"x": torch.ones(3, 1025), "bias": None}, "gamma has size 8"),
        ({"bias": torch.ones(7)}, "bias has size 7"),
        ({"gamma": torch.ones(9)}, "gamma has size 9"),
        ({"beta": torch.ones(2, 8)}, "beta has 2 dimensions"),
        ({"epsilon": -1.0}, "epsilon is -1; accepted: 0 or more"),
    ],
)
def test_refusals_name_the_argument(change, message):
    arguments = {"x": torch.ones(3, 8), "bias": torch.ones(8), "gamma": torch.ones(8), "beta": torch.ones(8)}
    arguments = {"epsilon": 1e-5, **arguments, **change}
    arguments = {name: a.cuda() if isinstance(a, torch.Tensor) else a for name, a in arguments.items()}
    with pytest.raises(RuntimeError, match=message):
        OPS._norm.default(**arguments)
