"""Products of compact rows with a matrix, on the CPU: against dense ones in float64, torch's rules, and refusals."""

import pytest
import torch

import rtopk
from rtopk.gnn import CompactRows

OPS = torch.ops.rtopk


def example(rows=70, cols=40, k=6, width=21):
    generator = torch.Generator().manual_seed(5)
    values, selectors = rtopk.compact(torch.randn(rows, cols, generator=generator), k)
    return (
        values,
        selectors,
        torch.randn(cols, width, generator=generator),
        torch.randn(rows, width, generator=generator),
    )


@pytest.mark.parametrize("rows,cols,k,width", [(70, 40, 6, 21), (600, 256, 32, 256), (5, 300, 7, 64), (0, 8, 2, 3)])
def test_own_rows_and_their_gradients(rows, cols, k, width):
    values, selectors, matrix, grad = example(rows, cols, k, width)
    onto = torch.randn(rows, width)
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


def test_operators_keep_pytorchs_rules():
    values, selectors, matrix, grad = example()
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
