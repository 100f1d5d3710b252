"""Derivatives: of first and second order, backwards and forwards, and the same as torch.topk's."""

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import rtopk
from test_accelerate import Seen

FUNCTIONS = {
    "topk": lambda x: rtopk.topk(x, 3).values,
    "topk, dim 0": lambda x: rtopk.topk(x, 2, 0).values,
    "topk, smallest, unsorted": lambda x: rtopk.topk(x, 3, -1, False, False).values,
    "topk, int32": lambda x: rtopk.topk(x, 3, index_dtype=torch.int32).values,
    "topk, early stopped": lambda x: rtopk.topk(x, 3, max_iter=2).values,
    "topk, by the printed rule": lambda x: rtopk.topk(x, 3, max_iter=2, rule="printed").values,
    "maxk, by the printed rule": lambda x: rtopk.maxk(x, 3, max_iter=2, rule="printed"),
    "compact, by the printed rule": lambda x: rtopk.compact(x, 3, max_iter=2, rule="printed").values,
    "maxk": lambda x: rtopk.maxk(x, 3),
    "maxk, dim 0": lambda x: rtopk.maxk(x, 2, 0),
    "compact": lambda x: rtopk.compact(x, 3).values,
    "compact and back": lambda x: rtopk.expand(*rtopk.compact(x, 3), 6),
    "the operator topk": lambda x: torch.ops.rtopk.topk(x, 3)[0],
    "the operator compact": lambda x: torch.ops.rtopk.compact(x, 3)[0],
}


def distinct(*shape, device):
    """Far enough apart that a step of a finite difference does not change the order, and irregular enough that no
    midpoint of the paper's search is an element."""
    count = torch.Size(shape).numel()
    x = (
        torch.randperm(count, dtype=torch.float64).view(shape)
        + 0.3 * torch.rand(shape, dtype=torch.float64)
        - count / 2
    )
    return x.to(device).requires_grad_()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name, device):
    # Squared, so that the second derivative is not zero.
    function = FUNCTIONS[name]
    x = distinct(4, 6, device=device)
    assert gradcheck(function, (x,))
    assert gradcheck(lambda x: function(x) ** 2, (x,))
    assert gradgradcheck(lambda x: function(x) ** 2, (x,))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "operator" not in name])
def test_forward_mode(name, device):
    x, direction = distinct(4, 6, device=device).detach(), torch.randn(4, 6, dtype=torch.float64, device=device)
    with forward_ad.dual_level():
        result = forward_ad.unpack_dual(FUNCTIONS[name](forward_ad.make_dual(x, direction)))
    step = 1e-3
    expected = (FUNCTIONS[name](x + step * direction) - FUNCTIONS[name](x - step * direction)) / (2 * step)
    assert torch.equal(result.primal, FUNCTIONS[name](x))
    torch.testing.assert_close(result.tangent, expected)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_the_gradient_is_torchs(dtype, dim, device):
    values = torch.stack([torch.randperm(40) for _ in range(40)], dim=1 - dim if dim >= 0 else 0).to(dtype).to(device)
    ours, theirs = values.clone().requires_grad_(), values.clone().requires_grad_()
    weights = torch.randn(40, 40, device=device).to(dtype).narrow(dim, 0, 7)
    (rtopk.topk(ours, 7, dim).values * weights).sum().backward()
    (torch.topk(theirs, 7, dim).values * weights).sum().backward()
    assert ours.grad.dtype == dtype
    assert torch.equal(ours.grad, theirs.grad)


def test_selected_zeros_get_a_gradient(device):
    x = torch.tensor([[-1.0, 0.0, -2.0, -0.0]], device=device, requires_grad=True)
    rtopk.maxk(x, 2).sum().backward()
    assert torch.equal(x.grad, torch.tensor([[0.0, 1.0, 0.0, 1.0]], device=device))


def test_indices_and_masks_have_no_gradient():
    x = torch.randn(3, 8, requires_grad=True)
    assert not rtopk.topk(x, 2).indices.requires_grad
    assert not rtopk.topk_mask(x, 2).requires_grad
    assert not rtopk.compact(x, 2).selectors.requires_grad
    with torch.no_grad():
        assert not rtopk.topk(x, 2).values.requires_grad
        assert not rtopk.maxk(x, 2).requires_grad
    with torch.inference_mode():
        assert rtopk.topk(x, 2).values.is_inference()


def test_integers_and_scalars():
    assert torch.equal(
        rtopk.maxk(torch.tensor([3, 1, 2], dtype=torch.int32), 2), torch.tensor([3, 0, 2], dtype=torch.int32)
    )
    x = torch.tensor(2.0, requires_grad=True)
    (rtopk.topk(x, 1).values + rtopk.maxk(x, 1) + rtopk.compact(x, 1).values).backward()
    assert x.grad == 3


@pytest.mark.parametrize("k, bytes_of_a_row", [(1, 8), (7, 56), (8, 64), (60, 64)])
def test_maxk_keeps_at_most_a_byte_for_each_element(k, bytes_of_a_row, device):
    saved = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.update({t.data_ptr(): t}), lambda t: t):
        rtopk.maxk(torch.randn(100, 64, device=device, requires_grad=True), k)
    assert sum(tensor.nbytes for tensor in saved.values()) == 100 * bytes_of_a_row


def test_topk_keeps_its_indices_alone(device):
    saved = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.update({t.data_ptr(): t}), lambda t: t):
        results = [rtopk.topk(torch.randn(100, 64, device=device, requires_grad=True), 8) for _ in range(2)]
    assert saved.keys() == {indices.data_ptr() for _, indices in results}


class Marked(torch.Tensor):
    """A subclass that torch's functions give back."""


def test_tensors_that_are_not_plain_have_the_gradient_too(device):
    """Plain ones are differentiated by torch.topk's own node in C++, past everything else that may want the call."""
    x = distinct(4, 6, device=device)
    expected = torch.autograd.grad(torch.topk(x, 3).values.square().sum(), x)[0]
    assert rtopk.topk(x, 3).values.grad_fn.name() == "TopkBackward0"

    with Seen() as seen:
        values = rtopk.topk(x, 3).values
    assert "rtopk.topk.default" in seen.names
    assert torch.equal(torch.autograd.grad(values.square().sum(), x)[0], expected)

    marked = x.as_subclass(Marked)
    values = rtopk.topk(marked, 3).values
    assert isinstance(values, Marked)
    assert torch.equal(torch.autograd.grad(values.square().sum(), x)[0], expected)

    negated = torch.complex(torch.zeros_like(x), -x).conj().imag  # x, with the sign not yet applied
    assert negated.is_neg()
    values = rtopk.topk(negated, 3).values
    assert torch.equal(values, torch.topk(x, 3).values)
    assert torch.equal(torch.autograd.grad(values.square().sum(), x)[0], expected)


def test_a_gradient_of_a_batch_of_gradients():
    x = distinct(4, 6, device="cpu")
    for function in FUNCTIONS.values():
        results = function(x)
        directions = torch.randn(5, *results.shape, dtype=x.dtype)
        (batched,) = torch.autograd.grad(results, x, directions, retain_graph=True, is_grads_batched=True)
        for direction, gradient in zip(directions, batched, strict=True):
            assert torch.equal(torch.autograd.grad(results, x, direction, retain_graph=True)[0], gradient)
