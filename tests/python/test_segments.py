"""Segments of a flat tensor."""

import pytest
import torch

import rtopk
from oracle import DTYPES, random_tensor, same_bits
from rows_oracle import Expected, expect, numbers

INTEGERS = [torch.int32, torch.int64]
K = 7
ORDERS = [(largest, sorted) for largest in (True, False) for sorted in (True, False)]
OFFSETS = {
    "of any length": [0, 40, 41, 41, 48, 54, 61, 120],
    "empty": [0, 0, 0, 0],
    "one": [0, 120],
    "of the middle": [30, 50, 90],
    "out of range": [-5, 3, 400, 500],
    "that do not ascend": [0, 50, 20, 70, 10],
    "none": [0],
}


@pytest.mark.parametrize("integer", INTEGERS)
@pytest.mark.parametrize("name", OFFSETS)
def test_segments(name, integer, device):
    offsets = numbers(OFFSETS[name], integer, device)
    row_k = torch.arange(len(offsets) - 1, device=device).to(integer)
    for dtype in DTYPES:
        values = random_tensor((120,), dtype, device, ties=True)
        ids = torch.randint(1000, (120,), dtype=integer, device=device)
        for largest, sorted in ORDERS:
            order = {"largest": largest, "sorted": sorted}
            for options in (
                {},
                {"row_k": row_k},
                {"ids": ids},
                {"magnitude": True},
                {"max_length": 9},
                {"max_length": 3},
            ):
                result = rtopk.topk_segments(values, offsets, K, **order, **options, return_threshold=True)
                expect(result, Expected(values, K, offsets=offsets, **order, **options))


def test_segments_fewer_values_than_k(device):
    values = torch.tensor([2.0, 5.0, 1.0], device=device)
    result = rtopk.topk_segments(values, numbers([0, 2, 3], device=device), 6, index_dtype=torch.int32)
    assert result.indices.tolist() == [[1, 0, -1, -1, -1, -1], [2, -1, -1, -1, -1, -1]]
    assert result.indices.dtype == torch.int32
    nothing = rtopk.topk_segments(values[:0], numbers([0, 0, 0], device=device), 2)
    assert nothing.indices.tolist() == [[-1, -1], [-1, -1]] and nothing.values.eq(-float("inf")).all()
    assert rtopk.topk_segments(values, numbers([0, 3], device=device), 0).values.shape == (1, 0)


def test_many_short_segments(device):
    lengths = torch.randint(0, 6, (20000,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(device)
    values = random_tensor((int(offsets[-1]),), device=device, ties=True)
    result = rtopk.topk_segments(values, offsets, 3, max_length=5)
    # One sort by segment, then by value, then by place.
    segment = torch.repeat_interleave(torch.arange(20000), lengths).to(device)
    order = torch.sort(values, descending=True, stable=True).indices
    order = order[torch.sort(segment[order], stable=True).indices]
    place = torch.arange(len(values), device=device) - offsets[segment]
    expected = torch.full((20000, 3), -1, device=device)
    expected[segment[place < 3], place[place < 3]] = order[place < 3]
    assert torch.equal(result.indices, expected)
    assert torch.equal(result.values[expected >= 0], values[expected[expected >= 0]])


def test_a_bound_of_the_length_changes_nothing(device):
    values = random_tensor((5000,), device=device)
    offsets = numbers([0, 3, 1700, 1700, 4000, 5000], device=device)
    plain = rtopk.topk_segments(values, offsets, 40)
    for max_length in (2300, 5000, 10**9):
        bounded = rtopk.topk_segments(values, offsets, 40, max_length=max_length)
        assert torch.equal(bounded.indices, plain.indices) and same_bits(bounded.values, plain.values)


def test_offsets_out_of_range_hide_no_segment(device):
    values = random_tensor((5000,), device=device)
    limits = torch.iinfo(torch.int64)
    wild = torch.tensor([limits.min, limits.max, 10, 4000, -7, 2000], device=device)
    expected = torch.tensor([0, 5000, 10, 4000, 0, 2000], device=device)
    result, tame = rtopk.topk_segments(values, wild, 40), rtopk.topk_segments(values, expected, 40)
    assert torch.equal(result.indices, tame.indices) and same_bits(result.values, tame.values)
    assert torch.equal(result.indices[0], torch.sort(values, descending=True, stable=True).indices[:40])


@pytest.mark.gpu
def test_segments_without_a_bound_can_be_captured():
    values = random_tensor((5000,), device="cuda")
    offsets = numbers([0, 3, 1700, 1700, 4000, 5000], device="cuda")
    graph = torch.cuda.CUDAGraph()
    rtopk.topk_segments(values, offsets, 40)
    with torch.cuda.graph(graph):
        captured = rtopk.topk_segments(values, offsets, 40)
    offsets.copy_(numbers([0, 0, 2500, 2500, 2600, 5000]))
    graph.replay()
    expected = rtopk.topk_segments(values, offsets, 40)
    assert torch.equal(captured.indices, expected.indices) and same_bits(captured.values, expected.values)
