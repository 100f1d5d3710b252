"""Selections along a dimension whose elements do not lie side by side: no copy of the tensor, the same results."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import rtopk
from oracle import DTYPES, mask_of, random_tensor, same_bits, sorted_topk


def base(device, dtype=torch.float32):
    return random_tensor((6, 40, 20, 12), dtype, device)


# A tensor, and the dimensions along which its rows have no more than two strides between them.
LAYOUTS = {
    "contiguous": (lambda x: x, (0, 1, 2, 3)),
    "matrix": (lambda x: x.flatten(1), (0, 1)),
    "transposed": (lambda x: x.flatten(1).T, (0, 1)),
    "channels last": (lambda x: x.contiguous(memory_format=torch.channels_last), (0, 1)),
    "slice": (lambda x: x[:, 3:33], (0, 1, 3)),
    "every third": (lambda x: x.flatten(1)[:, ::3], (0, 1)),
    "expanded first": (lambda x: x[0].expand(5, 40, 20, 12), (1, 3)),
    "expanded rows": (lambda x: x.flatten()[:300].expand(9, 300), (1,)),
    "windows": (lambda x: x.flatten()[:3000].unfold(0, 100, 7), (0, 1)),
    "one column": (lambda x: x.flatten(1)[:, :1], (0, 1)),
}


def copied_elements(function):
    """The most elements that a call brought from one tensor to another."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        function()
    copies = [event for event in seen.events() if event.name == "aten::copy_"]
    return max((torch.Size(event.input_shapes[0]).numel() for event in copies), default=0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_nothing_but_results_is_copied(name, device):
    layout, dims = LAYOUTS[name]
    x = layout(base(device))
    for dim in dims:
        k = min(2, x.shape[dim])
        results = x.numel() // x.shape[dim] * k
        assert copied_elements(lambda dim=dim, k=k: rtopk.topk(x, k, dim)) <= results, dim
        if device == "cpu":  # so little on a GPU is left to torch, which copies
            with rtopk.accelerate():
                assert copied_elements(lambda dim=dim, k=k: torch.topk(x, k, dim)) <= results, dim


def test_copies_are_seen(device):
    x = base(device)[::2, ::2, ::2]  # three strides between rows
    assert copied_elements(lambda: rtopk.topk(x, 2, 3)) == x.numel()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_results(name, dtype, device):
    x = LAYOUTS[name][0](base(device, dtype))
    for dim in range(x.dim()):
        for k in {1, (x.shape[dim] + 1) // 2}:
            values, indices = sorted_topk(x, k, dim)
            ours = rtopk.topk(x, k, dim)
            assert same_bits(ours.values, values) and torch.equal(ours.indices, indices)
            assert ours.values.is_contiguous() and ours.indices.is_contiguous()
            assert torch.equal(rtopk.topk_mask(x, k, dim), mask_of(x, k, dim))


def test_long_columns(device):
    x = torch.randn(3, 5000, 37, device=device)
    for k in (1, 100, 3000):
        values, indices = sorted_topk(x, k, 1)
        ours = rtopk.topk(x, k, 1)
        assert torch.equal(ours.values, values) and torch.equal(ours.indices, indices)
