"""rtopk.topk is torch.topk, and more precise about what it leaves open."""

import inspect

import pytest
import torch

import rtopk
from oracle import DTYPES, by_index, random_tensor, same_bits, sorted_topk

SHAPES = [(1,), (7,), (3, 5), (2, 3, 8), (2, 1, 3, 4), (300, 33), (4, 1000), (2, 3000)]


def expect(result, expected):
    assert isinstance(result, torch.return_types.topk)
    assert same_bits(result.values, expected[0])
    assert same_bits(result.indices, expected[1])
    assert result.values.is_contiguous() and result.indices.is_contiguous()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_dimension_and_order(shape, dtype, device):
    for ties in (False, True):
        x = random_tensor(shape, dtype, device, ties)
        for dim in range(-len(shape), len(shape)):
            for k in {0, 1, (shape[dim] + 1) // 2, shape[dim]}:
                for largest in (True, False):
                    expected = sorted_topk(x, k, dim, largest)
                    expect(rtopk.topk(x, k, dim, largest), expected)
                    expect(rtopk.topk(x, k, dim, largest, sorted=False), by_index(*expected, dim))


@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_torch_where_torch_is_unique(dtype, device):
    x = torch.stack([torch.randperm(200) for _ in range(20)]).to(dtype).to(device)
    for k in (1, 5, 200):
        ours, theirs = rtopk.topk(x, k), torch.topk(x, k)
        assert torch.equal(ours.values, theirs.values)
        assert torch.equal(ours.indices, theirs.indices)
        assert ours.values.stride() == theirs.values.stride()


def test_values_equal_torch_with_ties(device):
    x = random_tensor((50, 100), ties=True, device=device)
    assert torch.equal(rtopk.topk(x, 10).values, torch.topk(x, 10).values)
    assert torch.equal(rtopk.topk(x, 10, largest=False).values, torch.topk(x, 10, largest=False).values)


def test_the_signature_begins_as_torchs():
    names = list(inspect.signature(rtopk.topk).parameters)
    assert names == "input k dim largest sorted max_iter epsilon index_dtype out".split()
    x = torch.randn(3, 4)
    expect(rtopk.topk(input=x, k=2, dim=0, largest=False, sorted=True), torch.topk(x, 2, 0, False, True))


@pytest.mark.parametrize("k", [0, 1])
def test_no_dimensions(k, device):
    x = torch.tensor(3.0, device=device)
    for dim in (-1, 0):
        # On a GPU torch.topk leaves its results uninitialised if k is 0; on a CPU it selects the element.
        expect(rtopk.topk(x, k, dim), [result.to(device) for result in torch.topk(x.cpu(), k, dim)])


@pytest.mark.parametrize(
    "shape, dim, k", [((0, 4), -1, 2), ((3, 0), -1, 0), ((0,), 0, 0), ((2, 0, 3), -1, 3), ((2, 0, 3), 0, 1)]
)
def test_empty(shape, dim, k, device):
    x = torch.empty(shape, device=device)
    expect(rtopk.topk(x, k, dim), torch.topk(x, k, dim))


def test_nan_infinities_and_zeros(device):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[0.0, nan, -0.0, inf, -inf, nan, 1.0], [-0.0, 0.0, -0.0, 0.0, -1.0, -2.0, -inf]], device=device)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        for k in range(1, 8):
            for largest in (True, False):
                expect(rtopk.topk(x.to(dtype), k, largest=largest), sorted_topk(x.to(dtype), k, largest=largest))
                assert torch.allclose(
                    rtopk.topk(x.to(dtype), k, largest=largest).values,
                    torch.topk(x.to(dtype), k, largest=largest).values,
                    rtol=0,
                    atol=0,
                    equal_nan=True,
                )


LAYOUTS = {
    "columns of a wider matrix": lambda: torch.randn(40, 100)[:, 10:60],
    "every other row": lambda: torch.randn(40, 50)[::2],
    "rows of a block": lambda: torch.randn(6, 5, 40)[:, :, 3:30],
    "a block that has no single stride": lambda: torch.randn(6, 5, 40)[:, :3, :30],
    "transposed": lambda: torch.randn(40, 30).t(),
    "every other column": lambda: torch.randn(10, 64)[:, ::2],
    "expanded": lambda: torch.randn(1, 40).expand(5, 40),
    "overlapping": lambda: torch.randn(60).unfold(0, 20, 3),
    "channels last": lambda: torch.randn(3, 8, 5, 6).to(memory_format=torch.channels_last),
    "offset": lambda: torch.randn(101)[1:],
    "conjugated imaginary part": lambda: torch.randn(4, 8, dtype=torch.complex64).conj().imag,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides(layout, device):
    x = LAYOUTS[layout]()
    # Moved to the device as it lies: its whole storage, then the same view of it.
    if device == "cuda" and not x.is_neg():
        storage = torch.empty(0).set_(x.untyped_storage()).to(device)
        x = storage.as_strided(x.size(), x.stride(), x.storage_offset())
    for dim in range(x.dim()):
        expect(rtopk.topk(x, 3, dim), sorted_topk(x, 3, dim))
        assert torch.equal(rtopk.maxk(x, 3, dim), rtopk.maxk(x.clone(memory_format=torch.contiguous_format), 3, dim))


def bytes_allocated(function):
    """What torch's allocator gave out while a function ran."""
    with torch.profiler.profile(profile_memory=True) as profile:
        function()
    return sum(event.self_cpu_memory_usage for event in profile.events() if event.self_cpu_memory_usage > 0)


@pytest.mark.parametrize("layout", ["columns of a wider matrix", "every other row", "rows of a block", "transposed"])
def test_strided_rows_are_not_copied(layout):
    x = LAYOUTS[layout]()
    dim = 0 if layout == "transposed" else -1
    k = 2
    results = x.numel() // x.size(dim) * k
    # The results of another dimension than the last are brought into order by a copy: twice what they are.
    copies = 2 if layout == "transposed" else 1
    assert bytes_allocated(lambda: rtopk.topk(x, k, dim)) <= copies * results * 12 + 1024 < x.numel() * 4


def test_int32_indices(device):
    x = random_tensor((20, 300), device=device)
    wide, narrow = rtopk.topk(x, 9), rtopk.topk(x, 9, index_dtype=torch.int32)
    assert narrow.indices.dtype == torch.int32
    assert torch.equal(narrow.indices.long(), wide.indices) and same_bits(narrow.values, wide.values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_early_stopping(dtype, device):
    x = random_tensor((50, 200), dtype, device)
    exact = sorted_topk(x, 20)
    for options in ({"max_iter": 3}, {"epsilon": 0.05}):
        values, indices = rtopk.topk(x, 20, sorted=False, **options)
        assert (indices.diff(dim=1) > 0).all()
        assert same_bits(values, x.gather(1, indices))
        assert torch.equal(
            rtopk.topk_mask(x, 20, **options), torch.zeros_like(x, dtype=torch.bool).scatter(1, indices, True)
        )
        best_first = rtopk.topk(x, 20, **options)
        assert same_bits(best_first.values, x.gather(1, best_first.indices))
        assert torch.equal(best_first.indices.sort(dim=1).values, indices)
    if dtype not in (torch.float16, torch.bfloat16):  # which have ties, and those no threshold parts
        assert same_bits(rtopk.topk(x, 20, max_iter=1000).values, exact[0])


def early_stopped_row(row, k, max_iter):
    """Algorithm 2 of the paper in f32: bisection between minimum and maximum, then the first k at or above."""
    low, high = row.min(), row.max()
    for _ in range(max_iter):
        middle = 0.5 * low + 0.5 * high
        count = int((row >= middle).sum())
        if count == k:
            low = middle
            break
        low, high = (middle, high) if count > k else (low, middle)
    return (row >= low).nonzero().flatten()[:k]


def test_early_stopping_is_the_papers_algorithm():
    x = torch.randn(30, 256)
    for max_iter in (1, 2, 4, 8):
        indices = rtopk.topk(x, 16, sorted=False, max_iter=max_iter).indices
        assert torch.equal(indices, torch.stack([early_stopped_row(row, 16, max_iter) for row in x]))


# ---- out= ----


def test_out(device):
    x = random_tensor((6, 50), device=device)
    values, indices = torch.empty(6, 4, device=device), torch.empty(6, 4, dtype=torch.int64, device=device)
    result = rtopk.topk(x, 4, out=(values, indices))
    assert isinstance(result, torch.return_types.topk_out)
    assert result.values is values and result.indices is indices
    assert same_bits(values, torch.topk(x, 4).values) and torch.equal(indices, torch.topk(x, 4).indices)


def test_out_that_is_not_contiguous_or_not_last(device):
    x = random_tensor((6, 50, 3), device=device)
    values, indices = (
        torch.empty(3, 4, 6, device=device).permute(2, 1, 0),
        torch.empty(6, 4, 3, dtype=torch.int64, device=device),
    )
    rtopk.topk(x, 4, 1, out=(values, indices))
    expected = sorted_topk(x, 4, 1)
    assert torch.equal(values, expected[0]) and torch.equal(indices, expected[1])


def test_out_is_resized_as_torch_does():
    x = torch.randn(3, 8)
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    rtopk.topk(x, 2, out=(values, indices))
    assert values.shape == indices.shape == (3, 2)
    with pytest.warns(UserWarning, match="resized"):
        rtopk.topk(x, 3, out=(values, indices))
    assert torch.equal(values, torch.topk(x, 3).values)


def test_out_that_overlaps_the_input_is_refused():
    x = torch.randn(64)
    with pytest.raises(RuntimeError, match="overlap"):
        rtopk.topk(x, 4, out=(x[:4], torch.empty(4, dtype=torch.int64)))


# ---- Errors ----

BAD_CALLS = {
    "k too large": lambda topk: topk(torch.randn(3, 4), 5),
    "k negative": lambda topk: topk(torch.randn(3, 4), -1),
    "k too large for no dimensions": lambda topk: topk(torch.tensor(1.0), 2),
    "k too large for nothing": lambda topk: topk(torch.randn(3, 0), 1),
    "k too large without rows": lambda topk: topk(torch.randn(0, 3), 5),
    "dim too large": lambda topk: topk(torch.randn(3, 4), 1, dim=2),
    "dim too small": lambda topk: topk(torch.randn(3, 4), 1, dim=-3),
    "dim of no dimensions": lambda topk: topk(torch.tensor(1.0), 1, dim=1),
    "k is a float": lambda topk: topk(torch.randn(3), 1.5),
    "k is text": lambda topk: topk(torch.randn(3), "2"),
    "k is None": lambda topk: topk(torch.randn(3), None),
    "dim is a float": lambda topk: topk(torch.randn(3), 1, dim=0.5),
    "dim is None": lambda topk: topk(torch.randn(3), 1, dim=None),
    "largest is text": lambda topk: topk(torch.randn(3), 1, largest="yes"),
    "input is a list": lambda topk: topk([1.0, 2.0], 1),
    "complex": lambda topk: topk(torch.randn(3, dtype=torch.complex64), 1),
    "bool": lambda topk: topk(torch.tensor([True, False]), 1),
    "sparse": lambda topk: topk(torch.randn(3).to_sparse(), 1),
    "meta, k too large": lambda topk: topk(torch.randn(3, device="meta"), 4),
    "out of another dtype": lambda topk: topk(torch.randn(3), 1, out=(torch.empty(1).double(), torch.empty(1).long())),
    "out of a small index": lambda topk: topk(torch.randn(3), 1, out=(torch.empty(1), torch.empty(1).int())),
    "out and a gradient": lambda topk: topk(
        torch.randn(3, requires_grad=True), 1, out=(torch.empty(1), torch.empty(1).long())
    ),
}


@pytest.mark.parametrize("call", BAD_CALLS)
def test_errors_are_of_torchs_kinds(call):
    with pytest.raises(Exception) as theirs:
        BAD_CALLS[call](torch.topk)
    with pytest.raises(theirs.type):
        BAD_CALLS[call](rtopk.topk)


def test_errors_say_what_would_be_accepted():
    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match=r"k is 5; accepted: 0 to 4"):
        rtopk.topk(x, 5)
    with pytest.raises(RuntimeError, match=r"float32, float16, bfloat16, float64, int32"):
        rtopk.topk(x.to(torch.int64), 1)
    with pytest.raises(RuntimeError, match=r"max_iter"):
        rtopk.topk(x, 1, max_iter=-1)
    with pytest.raises(RuntimeError, match=r"epsilon"):
        rtopk.topk(x, 1, epsilon=2.0)
    with pytest.raises(RuntimeError, match=r"max_iter"):
        rtopk.topk(x, 1, max_iter=3, epsilon=0.1)
    with pytest.raises(RuntimeError, match=r"index_dtype"):
        rtopk.topk(x, 1, index_dtype=torch.int16)
