"""maxk, topk_mask, compact and expand are the same selection in other forms."""

import pytest
import torch

import rtopk
from oracle import DTYPES, RULES, by_index, mask_of, random_tensor, same_bits, sorted_topk


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (6,), (5, 40), (3, 4, 300)])
def test_maxk_and_mask(shape, dtype, device):
    x = random_tensor(shape, dtype, device, ties=True)
    for dim in range(-len(shape), len(shape)) or (-1,):
        size = shape[dim] if shape else 1
        for k in {0, 1, size // 2, size}:
            for largest in (True, False):
                mask = mask_of(x, k, dim, largest)
                assert torch.equal(rtopk.topk_mask(x, k, dim, largest), mask)
                dense = rtopk.maxk(x, k, dim, largest)
                assert same_bits(dense, torch.where(mask, x, torch.zeros_like(x)))
                assert dense.is_contiguous()


@pytest.mark.parametrize(
    "cols, dtype", [(1, torch.uint8), (256, torch.uint8), (257, torch.uint16), (65536, torch.uint16)]
)
def test_compact_and_back(cols, dtype, device):
    x = random_tensor((2, 3, cols), device=device)
    k = min(cols, 40)
    made = rtopk.compact(x, k)
    values, indices = by_index(*sorted_topk(x, k))
    assert made.selectors.dtype == dtype
    assert same_bits(made.values, values) and torch.equal(made.selectors.to(torch.int64), indices)
    assert same_bits(rtopk.expand(*made, cols), rtopk.maxk(x, k))
    assert same_bits(rtopk.expand(*rtopk.compact(x, k, largest=False), cols), rtopk.maxk(x, k, largest=False))


def test_compact_of_little(device):
    x = torch.empty(0, 5, device=device)
    assert rtopk.compact(x, 2).values.shape == (0, 2)
    assert rtopk.expand(*rtopk.compact(x, 2), 5).shape == (0, 5)
    one = torch.tensor(2.5, device=device)
    assert torch.equal(rtopk.expand(*rtopk.compact(one, 1), 1), one)
    assert torch.equal(
        rtopk.expand(*rtopk.compact(torch.ones(3, 4, device=device), 0), 4), torch.zeros(3, 4, device=device)
    )


@pytest.mark.parametrize("rule", RULES)
def test_early_stopping_is_the_same_in_every_form(rule, device):
    x = random_tensor((30, 200), device=device)
    options = {"max_iter": 2, "rule": rule}
    mask = rtopk.topk_mask(x, 12, **options)
    assert same_bits(rtopk.maxk(x, 12, **options), torch.where(mask, x, 0.0))
    assert same_bits(rtopk.expand(*rtopk.compact(x, 12, **options), 200), torch.where(mask, x, 0.0))


@pytest.mark.parametrize("function", [rtopk.maxk, rtopk.topk_mask, rtopk.compact])
def test_refusals(function):
    with pytest.raises(RuntimeError, match="accepted: 0 to 4"):
        function(torch.randn(3, 4), 5)
    with pytest.raises(RuntimeError, match="accepted"):
        function(torch.zeros(3, 4, dtype=torch.bool), 1)
    with pytest.raises(TypeError, match="must be Tensor"):
        function([1.0, 2.0], 1)
    with pytest.raises(RuntimeError, match="max_iter"):
        function(torch.randn(3, 4), 1, max_iter=20000)
    if function is not rtopk.compact:
        with pytest.raises(IndexError):
            function(torch.randn(3, 4), 1, dim=2)


def test_compact_refuses_long_rows():
    with pytest.raises(RuntimeError, match="65536"):
        rtopk.compact(torch.zeros(65537), 1)
