"""Products of compact rows with a matrix: against dense ones in float64, torch's rules, and refusals."""

import pytest
import torch

import rtopk
from rtopk.gnn import CompactRows

OPS = torch.ops.rtopk
# With k = 20 of 40 a GPU makes rows dense.
SHAPES = [(70, 40, 6, 21), (70, 40, 20, 21), (600, 256, 32, 256), (5, 300, 7, 64), (0, 8, 2, 3)]


def example(rows=70, cols=40, k=6, width=21, device="cpu"):
    generator = torch.Generator().manual_seed(5)
    x, matrix, grad = (
        torch.randn(*shape, generator=generator) for shape in ((rows, cols), (cols, width), (rows, width))
    )
    return (*rtopk.compact(x.to(device), k), matrix.to(device), grad.to(device))


@pytest.mark.parametrize("rows,cols,k,width", SHAPES)
def test_own_rows_and_their_gradients(rows, cols, k, width, device):
    values, selectors, matrix, grad = example(rows, cols, k, width, device)
    onto = torch.randn(rows, width, device=device)
    weight = matrix.t().contiguous().requires_grad_()
    values.requires_grad_()
    y = CompactRows(values, selectors, cols).add_linear(onto.clone(), weight)
    y.backward(grad)

    x = rtopk.expand(values.detach(), selectors, cols).double()
    expected = {
        "y": (y, onto.double() + x @ matrix.double()),
        "values": (values.grad, (grad.double() @ matrix.double().t()).gather(1, selectors.long())),
        "weight": (weight.grad, grad.double().t() @ x),
    }
    for name, (ours, exact) in expected.items():
        torch.testing.assert_close(
            ours.double(), exact, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("rows,cols,k,width", [*SHAPES, (3000, 256, 32, 16)])
def test_operators(rows, cols, k, width, device):
    values, selectors, matrix, grad = example(rows, cols, k, width, device)

    def results():
        onto = grad.clone()
        OPS._add_product.default(onto, values, selectors, matrix)
        return {
            "product": onto,
            "values": OPS._product_values_gradient.default(grad, selectors, matrix),
            "matrix": OPS._product_matrix_gradient.default(grad, values, selectors, cols),
            "sums": OPS._product_matrix_gradient.default(torch.ones_like(grad[:, :1]), values, selectors, cols),
        }

    x = rtopk.expand(values, selectors, cols).double()
    expected = {
        "product": grad.double() + x @ matrix.double(),
        "values": (grad.double() @ matrix.double().t()).gather(1, selectors.long()),
        "matrix": x.t() @ grad.double(),
        "sums": x.sum(0).unsqueeze(1),
    }
    first, second = results(), results()
    for name, ours in first.items():
        torch.testing.assert_close(
            ours.double(), expected[name], rtol=1e-4, atol=1e-3, msg=lambda text, name=name: f"{name}: {text}"
        )
        assert torch.equal(ours, second[name]), f"{name} does not repeat"


def test_derivative_of_a_linear_map_before_maxk(device):
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(300, 48, generator=generator).to(device)
    linear = torch.nn.Linear(48, 64).to(device)
    grad = torch.randn(300, 8, generator=generator).to(device)

    def gradients(of):
        inputs = [x.clone().requires_grad_(), *linear.parameters()]
        return torch.autograd.grad(of(inputs[0]), inputs, grad)

    maxk = rtopk.gnn.CompactMaxK(8)
    selectors = maxk(linear(x)).selectors
    ours = gradients(lambda leaf: maxk.of_linear(leaf, linear).values)
    dense = gradients(lambda leaf: linear(leaf).gather(1, selectors.long()))
    for name, one, other in zip(("x", "weight", "bias"), ours, dense, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


def test_autocast_makes_no_compact_products(device):
    linear = torch.nn.Linear(48, 64).to(device)
    with torch.autocast(device, torch.bfloat16):
        rows = rtopk.gnn.CompactMaxK(8).of_linear(torch.randn(30, 48, device=device), linear)
    assert rows.values.dtype == torch.bfloat16
    rows.values.sum().backward()
    assert linear.bias.grad.sum() == 30 * 8


def test_second_derivatives(device):
    values, selectors, matrix, grad = example(9, 12, 3, 5, device)
    leaves = [values.requires_grad_(), matrix.t().contiguous().requires_grad_()]
    dense = rtopk.expand(values, selectors, 12) @ leaves[1].t()
    compact = CompactRows(values, selectors, 12).add_linear(torch.zeros_like(grad), leaves[1])
    seconds = []
    for y in (compact, dense):
        firsts = torch.autograd.grad((y**2 * grad).sum(), leaves, create_graph=True)
        seconds.append(torch.autograd.grad(sum((first**2).sum() for first in firsts), leaves))
    for ours, theirs in zip(*seconds, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def test_operators_keep_pytorchs_rules(device):
    values, selectors, matrix, grad = example(device=device)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(OPS._add_product.default, (grad.clone(), values, selectors, matrix), test_utils=tests)
    torch.library.opcheck(OPS._product_values_gradient.default, (grad, selectors, matrix), test_utils=tests)
    torch.library.opcheck(OPS._product_matrix_gradient.default, (grad, values, selectors, 40), test_utils=tests)


@pytest.mark.parametrize(
    "change,message",
    [
        (lambda a: a.update(values=a["values"][:, :-1]), "values has size 5"),
        (lambda a: a.update(values=a["values"].double()), "values is not float32"),
        (lambda a: a.update(matrix=a["matrix"][:, :-1]), "matrix has size 20"),
        (lambda a: a.update(matrix=a["matrix"][0]), "matrix has 1 dimensions"),
        (lambda a: a.update(selectors=a["selectors"].long()), "selectors is neither"),
        (lambda a: a.update(onto=a["onto"].t().contiguous().t()), "onto is not contiguous"),
        (lambda a: a.update(onto=a["onto"][:-1]), "onto has size 69"),
    ],
)
def test_refusals_name_the_argument(change, message):
    values, selectors, matrix, grad = example()
    arguments = {"onto": grad, "values": values, "selectors": selectors, "matrix": matrix}
    change(arguments)
    with pytest.raises(RuntimeError, match=message):
        OPS._add_product.default(**arguments)
