"""rtopk.topk is torch.topk, and more precise about what it leaves open."""

import functools
import inspect

import pytest
import torch

import rtopk
from oracle import (
    DTYPES,
    OTHER_INTEGERS,
    RULES,
    by_index,
    early_stopped_row,
    mask_of,
    random_tensor,
    same_bits,
    sorted_topk,
)

SHAPES = [(1,), (7,), (3, 5), (2, 3, 8), (2, 1, 3, 4), (300, 33), (4, 1000), (2, 3000)]


def expect(result, expected):
    assert isinstance(result, torch.return_types.topk)
    assert same_bits(result.values, expected[0])
    assert same_bits(result.indices, expected[1])
    assert result.values.is_contiguous() and result.indices.is_contiguous()


@pytest.mark.parametrize("dtype", DTYPES + OTHER_INTEGERS)
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


@pytest.mark.parametrize("dtype", DTYPES + OTHER_INTEGERS)
def test_equals_torch_where_torch_is_unique(dtype, device):
    x = torch.stack([torch.randperm(100) for _ in range(20)]).to(dtype).to(device)
    for k in (1, 5, 100):
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
    rows = "lengths starts row_k ids magnitude return_threshold"
    assert names == f"input k dim largest sorted max_iter rule epsilon search index_dtype out {rows}".split()
    x = torch.randn(3, 4)
    expect(rtopk.topk(input=x, k=2, dim=0, largest=False, sorted=True), torch.topk(x, 2, 0, False, True))


@pytest.mark.parametrize("dtype", OTHER_INTEGERS)
@pytest.mark.parametrize("function", [rtopk.topk_mask, rtopk.maxk, rtopk.compact])
def test_other_integers_in_every_form(function, dtype, device):
    x = random_tensor((40, 300), dtype, device, ties=dtype == torch.int64)
    for k in (1, 7, 300):
        for largest in (True, False):
            mask = mask_of(x, k, -1, largest)
            if function is rtopk.compact:
                values, selectors = function(x, k, largest)
                assert selectors.dtype == torch.uint16 and values.dtype == dtype
                assert torch.equal(selectors.long(), mask.nonzero()[:, 1].view(40, k))
                assert torch.equal(values, x[mask].view(40, k))
            else:
                expected = mask if function is rtopk.topk_mask else torch.where(mask, x, 0)
                assert same_bits(function(x, k, largest=largest), expected)


@pytest.mark.parametrize("dtype", OTHER_INTEGERS)
def test_other_integers_everywhere(dtype, device):
    x = random_tensor((3, 6, 50), dtype, device)
    expected = sorted_topk(x, 4)
    expect(torch.vmap(lambda rows: rtopk.topk(rows, 4))(x), expected)
    torch.compiler.reset()
    expect(torch.compile(lambda x: rtopk.topk(x, 4), backend="aot_eager", fullgraph=True)(x), expected)
    out = torch.empty(0, dtype=dtype, device=device), torch.empty(0, dtype=torch.int64, device=device)
    rtopk.topk(x, 4, out=out)
    assert same_bits(out[0], expected[0]) and same_bits(out[1], expected[1])
    narrow = rtopk.topk(x, 4, index_dtype=torch.int32)
    assert narrow.indices.dtype == torch.int32 and torch.equal(narrow.indices.long(), expected[1])
    with rtopk.accelerate():  # torch keeps them
        assert same_bits(torch.topk(x, 4).values, expected[0])
    if dtype == torch.int64:
        with pytest.raises(RuntimeError, match="max_iter and epsilon .* accepted: neither"):
            rtopk.topk(x, 4, max_iter=3)
    else:
        early = rtopk.topk(x, 4, max_iter=3)
        assert same_bits(early.values.int(), rtopk.topk(x.int(), 4, max_iter=3).values)


REFUSED = [torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", REFUSED)
def test_types_that_torch_refuses(dtype, device):
    x = torch.zeros(4, dtype=dtype, device=device)
    with pytest.raises(RuntimeError) as theirs:
        torch.topk(x, 2)
    for arguments in ((2,), (2, 0, True, False)):
        with pytest.raises(RuntimeError, match=f"{dtype}; accepted: bfloat16, .* uint8") as ours:
            rtopk.topk(x, *arguments)
        assert ours.type is theirs.type


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
    for options in ({"max_iter": 3}, {"max_iter": 3, "rule": "printed"}, {"epsilon": 0.05}):
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
        for rule in RULES:
            assert same_bits(rtopk.topk(x, 20, max_iter=1000, rule=rule).values, exact[0])


@pytest.mark.parametrize("rule", RULES)
def test_early_stopping_is_the_papers_algorithm(rule, device):
    x = torch.randn(30, 256)
    for max_iter in (1, 2, 4, 8):
        indices = rtopk.topk(x.to(device), 16, sorted=False, max_iter=max_iter, rule=rule).indices
        assert torch.equal(indices.cpu(), torch.stack([early_stopped_row(row, 16, max_iter, rule) for row in x]))


@pytest.mark.parametrize("rule, chosen", [("threshold_first", [2, 4, 6]), ("printed", [2, 4, 5])])
def test_rules_by_hand(rule, chosen, device):
    """Four elements reach the first threshold, 4, and two the second, 6: an interval from 4 to 6, and k is 3."""
    row = torch.tensor([1.0, 3.0, 8.0, 2.0, 4.0, 5.0, 7.0, 0.0], device=device)
    early = {"max_iter": 2, "rule": rule}
    for x, largest in ((row, True), (-row, False)):
        assert rtopk.topk(x, 3, -1, largest, False, **early).indices.tolist() == chosen
        assert rtopk.topk_mask(x, 3, -1, largest, **early).nonzero().flatten().tolist() == chosen
        assert rtopk.maxk(x, 3, -1, largest, **early).nonzero().flatten().tolist() == chosen
        assert rtopk.compact(x, 3, largest, **early).selectors.tolist() == chosen
        out = (torch.empty(3, device=device), torch.empty(3, dtype=torch.int64, device=device))
        rtopk.topk(x, 3, -1, largest, False, **early, out=out)
        assert out[1].tolist() == chosen
        leaf = x.clone().requires_grad_()
        rtopk.maxk(leaf, 3, -1, largest, **early).sum().backward()
        assert leaf.grad.nonzero().flatten().tolist() == chosen
        in_vmap = torch.vmap(functools.partial(rtopk.topk_mask, k=3, largest=largest, **early))
        assert in_vmap(x.expand(2, -1))[1].nonzero().flatten().tolist() == chosen
        # Without max_iter a rule has no effect.
        for exact in ({}, {"epsilon": 1e-3}):
            assert rtopk.topk(x, 3, -1, largest, False, rule=rule, **exact).indices.tolist() == [2, 5, 6]


def test_the_default_rule():
    x = torch.randn(30, 256)
    for function in (rtopk.maxk, rtopk.topk_mask):
        assert torch.equal(function(x, 16, max_iter=2), function(x, 16, max_iter=2, rule="threshold_first"))
        assert not torch.equal(function(x, 16, max_iter=2), function(x, 16, max_iter=2, rule="printed"))


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
    with pytest.raises(RuntimeError, match=r"float32, float16, bfloat16, float64, int32, int64"):
        rtopk.maxk(x.to(torch.bool), 1)
    with pytest.raises(RuntimeError, match=r"max_iter"):
        rtopk.topk(x, 1, max_iter=-1)
    with pytest.raises(RuntimeError, match=r"epsilon"):
        rtopk.topk(x, 1, epsilon=2.0)
    with pytest.raises(RuntimeError, match=r"max_iter"):
        rtopk.topk(x, 1, max_iter=3, epsilon=0.1)
    with pytest.raises(RuntimeError, match=r"index_dtype"):
        rtopk.topk(x, 1, index_dtype=torch.int16)


@pytest.mark.parametrize("function", [rtopk.topk, rtopk.maxk, rtopk.topk_mask, rtopk.compact])
@pytest.mark.parametrize("max_iter", [None, 3])
def test_a_rule_that_is_none_is_refused(function, max_iter):
    with pytest.raises(ValueError, match=r"rule is 'first'; accepted: 'threshold_first' or 'printed'"):
        function(torch.randn(3, 4), 1, max_iter=max_iter, rule="first")
    for other in (1, None, True, ["printed"]):
        with pytest.raises(TypeError, match=r"rule is .*; accepted: 'threshold_first' or 'printed'"):
            function(torch.randn(3, 4), 1, max_iter=max_iter, rule=other)
