"""Linear maps of dense rows: against torch's own in float64, derivatives of derivatives, and what is left to torch.

Where there is no GPU that has them, the operators are written here with torch: what is tested then is everything around
them.
"""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

import rtopk.gnn.linear
from rtopk.gnn import MaxKGNN
from rtopk.gnn.layers import MODELS
from rtopk.gnn.linear import Linear, linear, takes_apart

OPS = torch.ops.rtopk


def _linear(x, weight, bias):
    return F.linear(x, weight, bias)


def _linear_input_gradient(grad, weight):
    return grad @ weight


def _linear_weight_gradient(grad, x):
    return grad.t() @ x


def begins_aligned(function):
    """The same, for what the operators accept alone."""

    def checked(*tensors):
        assert all(t is None or t.data_ptr() % 16 == 0 for t in tensors)
        return function(*tensors)

    return checked


def has_operators(device):
    return device == "cuda" and torch.cuda.get_device_capability() == (9, 0)


@pytest.fixture
def operators(device, monkeypatch):
    """The device, with operators that take rows of any number and width."""
    if not has_operators(device):
        written = {
            f.__name__: SimpleNamespace(default=begins_aligned(f))
            for f in (_linear, _linear_input_gradient, _linear_weight_gradient)
        }
        monkeypatch.setattr(rtopk.gnn.linear, "_OPS", SimpleNamespace(**written))
    monkeypatch.setattr(rtopk.gnn.linear, "takes_apart", lambda x, weight: True)
    return device


def example(rows, inputs, outputs, biased, device):
    x = torch.randn(rows, inputs, device=device, requires_grad=True)
    weight = torch.randn(outputs, inputs, device=device, requires_grad=True)
    bias = torch.randn(outputs, device=device, requires_grad=True) if biased else None
    return [x, weight] + ([bias] if biased else [])


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("rows,inputs,outputs", [(70, 24, 40), (0, 8, 4), (1, 4, 4), (300, 256, 132), (513, 500, 64)])
def test_rows_and_gradients(rows, inputs, outputs, biased, operators):
    leaves = example(rows, inputs, outputs, biased, operators)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    results = []
    for of, arguments in ((linear, leaves), (F.linear, exact)):
        y = of(*arguments)
        grad = torch.ones_like(y).cumsum(0).cumsum(1).sin()
        results.append([y, *torch.autograd.grad(y, arguments, grad)])
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine.double(), other, rtol=1e-5, atol=2e-6 * (1 + rows + inputs + outputs) ** 0.5)


def test_derivatives_of_derivatives(operators):
    leaves = example(20, 12, 8, True, operators)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    second = []
    for of, arguments in ((linear, leaves), (F.linear, exact)):
        first = torch.autograd.grad(of(*arguments).sin().sum(), arguments, create_graph=True)
        second.append(torch.autograd.grad(sum(g.square().sum() for g in first), arguments))
    for mine, other in zip(*second, strict=True):
        torch.testing.assert_close(mine.double(), other, rtol=1e-3, atol=1e-3)


def test_what_needs_no_gradient_gets_none(operators):
    for frozen in range(3):
        leaves = example(20, 12, 8, True, operators)
        leaves[frozen].requires_grad_(False)
        linear(*leaves).sum().backward()
        assert [leaf.grad is None for leaf in leaves] == [i == frozen for i in range(3)]


def test_columns_of_a_larger_matrix(operators):
    x, weight, bias = example(20, 24, 8, True, operators)
    ours = linear(x[:, 8:20], weight.t()[8:20].t(), bias)
    torch.testing.assert_close(ours, F.linear(x[:, 8:20], weight[:, 8:20], bias), rtol=1e-5, atol=1e-5)


def test_parts_of_a_larger_tensor_begin_anywhere(operators):
    def behind_one(*size):
        flat = torch.randn(1 + torch.Size(size).numel(), device=operators)
        return flat[1:].view(size).requires_grad_()

    leaves = [behind_one(20, 12), behind_one(8, 12), behind_one(8)]
    grad = behind_one(20, 8).detach()
    results = [torch.autograd.grad(of(*leaves), leaves, grad) for of in (linear, F.linear)]
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_the_baseline_is_torchs(model, operators, monkeypatch):
    called = []
    counted = SimpleNamespace(apply=lambda x, weight, bias: called.append(weight) or F.linear(x, weight, bias))
    monkeypatch.setattr(rtopk.gnn.linear, "_Linear", counted)
    x, edges = torch.randn(30, 20, device=operators), torch.randint(30, (2, 90), device=operators)
    for dense in (False, True):
        network = MaxKGNN(model, 20, 24, 8, num_layers=2, k=5, dense=dense).to(operators)
        called.clear()
        network(x, edges).sum().backward()
        assert bool(called) != dense


def test_small_and_odd_ones_are_torchs(device):
    def taken(rows, inputs, outputs, **options):
        return takes_apart(
            *(torch.empty(*size, device=device, **options) for size in ((rows, inputs), (outputs, inputs)))
        )

    assert taken(1 << 14, 128, 256) == has_operators(device)
    others = [(100, 128, 256), (1 << 14, 126, 256), (1 << 14, 128, 254), (1 << 20, 256, 8), (0, 128, 256)]
    assert not any(taken(*sizes) for sizes in others)
    assert not taken(1 << 14, 128, 256, dtype=torch.float16)
    assert not takes_apart(torch.empty(4, 1 << 12, 128, device=device), torch.empty(256, 128, device=device))
    with torch.autocast(device):
        assert not taken(1 << 14, 128, 256)


@pytest.mark.gpu
def test_rounded_factors_are_torchs():
    x, weight = torch.empty(1 << 14, 128, device="cuda"), torch.empty(256, 128, device="cuda")
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        assert not takes_apart(x, weight)
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.gpu
def test_closer_to_the_exact_product_than_torchs():
    if not has_operators("cuda"):
        pytest.skip("a GPU of compute capability 9.0")
    x, weight = torch.rand(1 << 14, 256, device="cuda"), torch.rand(256, 256, device="cuda")
    assert takes_apart(x, weight)
    exact = x.double() @ weight.double().t()
    ours, torchs = ((y.double() - exact).square().mean() for y in (linear(x, weight), F.linear(x, weight)))
    assert ours < torchs


@pytest.mark.gpu
def test_operators_keep_pytorchs_rules():
    if not has_operators("cuda"):
        pytest.skip("a GPU of compute capability 9.0")
    tests = ("test_schema", "test_faketensor")
    x, weight, bias = (leaf.detach() for leaf in example(30, 24, 8, True, "cuda"))
    grad = torch.randn(30, 8, device="cuda")
    torch.library.opcheck(OPS._linear.default, (x, weight, bias), test_utils=tests)
    torch.library.opcheck(OPS._linear.default, (x, weight, None), test_utils=tests)
    torch.library.opcheck(OPS._linear_input_gradient.default, (grad, weight), test_utils=tests)
    torch.library.opcheck(OPS._linear_weight_gradient.default, (grad, x), test_utils=tests)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "change,message",
    [
        ({"x": torch.ones(3, 2, 8)}, "x has 3 dimensions"),
        ({"x": torch.ones(3, 8).double()}, "x is not float32"),
        ({"weight": torch.ones(4, 12)}, "weight has size 12"),
        ({"bias": torch.ones(7)}, "bias has size 7"),
        ({"x": torch.ones(3, 6), "weight": torch.ones(4, 6)}, "inputs is 6; accepted: a multiple of 4"),
    ],
)
def test_refusals_name_the_argument(change, message):
    arguments = {"x": torch.ones(3, 8), "weight": torch.ones(4, 8), "bias": torch.ones(4), **change}
    with pytest.raises(RuntimeError, match=message):
        OPS._linear.default(**{name: a.cuda() for name, a in arguments.items()})


def test_modules_keep_their_parameters():
    assert set(Linear(8, 4).state_dict()) == {"weight", "bias"}
