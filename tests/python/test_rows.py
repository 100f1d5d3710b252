"""Rows with lengths, starts, k and ids of their own, by magnitude, with thresholds."""

import pytest
import torch

import rtopk
from oracle import DTYPES, OTHER_INTEGERS, bits, random_tensor, same_bits
from rows_oracle import Expected, expect, numbers

INTEGERS = [torch.int32, torch.int64]
ROWS, COLS, K = 12, 40, 7
ORDERS = [(largest, sorted) for largest in (True, False) for sorted in (True, False)]
# Every length that is a limit of something, and some between.
LENGTHS = [K, K - 1, K + 1, 0, 1, -1, -(2**31), COLS, COLS - 1, COLS + 1, 2**31 - 1, 20]


@pytest.mark.parametrize("integer", INTEGERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_lengths(dtype, integer, device):
    lengths = numbers(LENGTHS, integer, device)
    for ties in (False, True):
        x = random_tensor((ROWS, COLS), dtype, device, ties)
        for largest, sorted in ORDERS:
            expected = Expected(x, K, lengths, largest=largest, sorted=sorted)
            expect(rtopk.topk(x, K, -1, largest, sorted, lengths=lengths), expected)
            assert torch.equal(rtopk.topk_mask(x, K, -1, largest, lengths=lengths), expected.mask(x))
            kept = torch.where(expected.mask(x), x, 0)
            assert same_bits(rtopk.maxk(x, K, -1, largest, lengths=lengths), kept)


@pytest.mark.parametrize("k", [1, 2, 7, 39, 40])
def test_every_k(k, device):
    x = random_tensor((COLS + 3, COLS), device=device, ties=True)
    lengths = torch.arange(-1, COLS + 2, device=device)
    for largest, sorted in ORDERS:
        expect(
            rtopk.topk(x, k, -1, largest, sorted, lengths=lengths, return_threshold=True),
            Expected(x, k, lengths, largest=largest, sorted=sorted),
        )


@pytest.mark.parametrize("cols, k", [(1, 1), (33, 5), (300, 300), (3000, 64), (5000, 600), (70000, 100)])
def test_sizes(cols, k, device):
    x = random_tensor((6, cols), device=device)
    lengths = numbers([cols, k, k - 1, 0, cols // 2, cols - 1], torch.int32, device)
    starts = numbers([0, 1, cols // 3, cols, cols // 2, 1], torch.int32, device)
    for sorted in (True, False):
        expect(
            rtopk.topk(x, k, sorted=sorted, lengths=lengths, starts=starts, return_threshold=True),
            Expected(x, k, lengths, starts, sorted=sorted),
        )


@pytest.mark.parametrize("integer", INTEGERS)
def test_starts(integer, device):
    x = random_tensor((ROWS, COLS), device=device, ties=True)
    starts = numbers([0, 1, -1, 39, 40, 41, 17, 33, 34, 2**31 - 1, -(2**31), 5], integer, device)
    for lengths in (None, numbers(LENGTHS, integer, device)):
        for largest, sorted in ORDERS:
            expected = Expected(x, K, lengths, starts, largest=largest, sorted=sorted)
            expect(rtopk.topk(x, K, -1, largest, sorted, lengths=lengths, starts=starts), expected)
        expected = Expected(x, K, lengths, starts)
        assert torch.equal(rtopk.topk_mask(x, K, lengths=lengths, starts=starts), expected.mask(x))
        kept = torch.where(expected.mask(x), x, 0)
        assert same_bits(rtopk.maxk(x, K, lengths=lengths, starts=starts), kept)


@pytest.mark.parametrize("integer", INTEGERS)
def test_k_of_each_row(integer, device):
    x = random_tensor((ROWS, COLS), device=device)
    row_k = numbers([0, 1, 2, 3, 6, 7, 8, 100, -1, -(2**31), 5, 7], integer, device)
    for lengths in (None, numbers(LENGTHS, torch.int64, device)):
        for largest, sorted in ORDERS:
            expected = Expected(x, K, lengths, row_k=row_k, largest=largest, sorted=sorted)
            result = rtopk.topk(x, K, -1, largest, sorted, lengths=lengths, row_k=row_k, return_threshold=True)
            expect(result, expected)
            assert torch.equal(rtopk.topk_mask(x, K, -1, largest, lengths=lengths, row_k=row_k), expected.mask(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_k_beyond_the_columns(dtype, device):
    """Rows have fewer elements than that, and what stands behind them is the same as within the columns."""
    x = random_tensor((ROWS, COLS), dtype, device, ties=True)
    lengths = numbers(LENGTHS, device=device)
    arrays = {"lengths": lengths, "starts": torch.arange(ROWS, device=device)}
    row_k = numbers([0, 1, 7, 39, 40, 41, 42, 43, 44, 99, -1, 2**31 - 1], device=device)
    ids = torch.randint(1000, (ROWS, COLS), device=device)
    k = COLS + 3
    for rows in ({"lengths": lengths}, arrays, {"row_k": row_k}, arrays | {"row_k": row_k}, arrays | {"ids": ids}):
        for largest, sorted in ORDERS:
            for magnitude in (False, True):
                order = {"largest": largest, "sorted": sorted, "magnitude": magnitude}
                result = rtopk.topk(x, k, **order, **rows, return_threshold=True)
                expect(result, Expected(x, k, **order, **rows))
        if "ids" not in rows:
            mask = Expected(x, k, **rows).mask(x)
            assert torch.equal(rtopk.topk_mask(x, k, **rows), mask)
            assert same_bits(rtopk.maxk(x, k, **rows), torch.where(mask, x, 0))
    nothing = rtopk.topk(x[:, :0], 2, lengths=lengths, row_k=row_k, return_threshold=True)
    expect(nothing, Expected(x[:, :0], 2, lengths, row_k=row_k))


def test_gradient_of_k_beyond_the_columns(device):
    x = torch.randn(3, 5, device=device, requires_grad=True)
    lengths = numbers([5, 2, 0], device=device)
    factors = torch.rand(3, 8, device=device)
    values, indices = rtopk.topk(x, 8, lengths=lengths)
    (grad,) = torch.autograd.grad(values, x, factors)
    expected = torch.zeros(3, 8, device=device).scatter_add(1, indices.clamp(min=0), factors * (indices >= 0))
    assert torch.equal(grad, expected[:, :5])


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.is_floating_point])
def test_what_lies_behind_a_row_is_never_selected(dtype, device):
    x = random_tensor((ROWS, COLS), dtype, device)
    lengths = numbers(LENGTHS, device=device)
    outside = torch.arange(COLS, device=device) >= lengths[:, None]
    for filler in (float("nan"), float("inf"), -float("inf")):
        dirty = x.masked_fill(outside, filler)
        for largest, sorted in ORDERS:
            for magnitude in (False, True):
                expected = Expected(x, K, lengths, largest=largest, sorted=sorted, magnitude=magnitude)
                result = rtopk.topk(dirty, K, -1, largest, sorted, lengths=lengths, magnitude=magnitude)
                expect(result, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_one_value(dtype, device):
    lengths = numbers(LENGTHS, device=device)
    for value in (0, 1, -1):
        x = torch.full((ROWS, COLS), value, dtype=dtype, device=device)
        for largest, sorted in ORDERS:
            expect(
                rtopk.topk(x, K, -1, largest, sorted, lengths=lengths, return_threshold=True),
                Expected(x, K, lengths, largest=largest, sorted=sorted),
            )


def test_elements_that_equal_the_losing_value_are_selected(device):
    """Only the index tells -infinity in a row from what stands behind the row."""
    x = torch.full((3, 5), -float("inf"), device=device)
    result = rtopk.topk(x, 3, lengths=numbers([5, 2, 0], device=device))
    assert result.indices.tolist() == [[0, 1, 2], [0, 1, -1], [-1, -1, -1]]
    x = torch.full((1, 5), float("nan"), device=device)
    assert rtopk.topk(x, 3, largest=False, lengths=numbers([2], device=device)).indices.tolist() == [[0, 1, -1]]


# ---- Ids ----


@pytest.mark.parametrize("integer", INTEGERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_ids(dtype, integer, device):
    x = random_tensor((ROWS, COLS), dtype, device, ties=True)
    if dtype.is_floating_point:
        x[:, ::5], x[:, 1::7], x[0] = float("inf"), -float("inf"), float("nan")
    ids = torch.randint(-(2**31), 2**31 - 1, (ROWS, COLS)).to(integer).to(device)
    for lengths, starts in ((None, None), (numbers(LENGTHS, device=device), torch.arange(ROWS, device=device))):
        for largest, sorted in ORDERS:
            expect(
                rtopk.topk(x, K, -1, largest, sorted, ids=ids, lengths=lengths, starts=starts),
                Expected(x, K, lengths, starts, ids=ids, largest=largest, sorted=sorted),
            )


def test_dtypes_of_ids_and_indices(device):
    x = random_tensor((4, 9), device=device)
    ids = torch.arange(36, device=device).view(4, 9)
    large = ids + 2**40
    assert torch.equal(rtopk.topk(x, 2, ids=large).indices, rtopk.topk(x, 2, ids=ids).indices + 2**40)
    narrow = rtopk.topk(x, 2, ids=ids.int(), index_dtype=torch.int32)
    expect(narrow, Expected(x, 2, ids=ids), torch.int32)
    with pytest.raises(RuntimeError, match="index_dtype .* ids are int64; accepted for them: torch.int64"):
        rtopk.topk(x, 2, ids=ids, index_dtype=torch.int32)
    with pytest.raises(RuntimeError, match="index_dtype .* ids are int64; accepted for them: torch.int64"):
        rtopk.topk(x.requires_grad_(), 2, ids=ids, index_dtype=torch.int32)


def test_ids_at_a_stride_of_their_own(device):
    x = random_tensor((5, 9), device=device)
    ids = torch.randint(1000, (5, 12), device=device)[:, 2:11]
    expect(rtopk.topk(x, 3, ids=ids), Expected(x, 3, ids=ids))


def test_ids_of_all_rows(device):
    """One for each column: a tensor of one dimension, or an expanded one."""
    x = random_tensor((2, 3, COLS), device=device)
    lengths = numbers([COLS, 3, 0, 9, 1, 20], device=device)
    for integer in INTEGERS:
        ids = torch.randint(1000, (COLS,), dtype=integer, device=device)
        expected = Expected(x.view(6, COLS), K, lengths, ids=ids.expand(6, -1))
        for shared in (ids, ids.expand(2, 3, -1), ids.expand(2, 1, COLS).expand(2, 3, COLS)):
            for index_dtype in (torch.int64, integer):
                result = rtopk.topk(x, K, ids=shared, lengths=lengths.view(2, 3), index_dtype=index_dtype)
                assert same_bits(result.values.view(6, K), expected.values) and result.indices.dtype == index_dtype
                assert torch.equal(result.indices.view(6, K).long(), expected.indices)
    one = rtopk.topk(x[0, 0], K, ids=ids)
    assert torch.equal(one.indices, ids[rtopk.topk(x[0, 0], K).indices].long())
    mapped = torch.vmap(lambda x, n: tuple(rtopk.topk(x, K, ids=ids, lengths=n)))(x, lengths.view(2, 3))
    assert torch.equal(mapped[1].view(6, K), expected.indices)
    torch.compiler.reset()
    compiled = torch.compile(lambda x: rtopk.topk(x, K, ids=ids).indices, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x), rtopk.topk(x, K, ids=ids).indices)


# ---- Magnitude and thresholds ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_magnitude(dtype, device):
    for ties in (False, True):
        x = random_tensor((ROWS, COLS), dtype, device, ties)
        if dtype == torch.int32:
            x[0, 3], x[1, 2] = -(2**31), 2**31 - 1
        elif not ties:
            x[0, 3:6] = numbers([float("nan"), -float("inf"), float("inf")], dtype)
            x[1, 2:4] = numbers([-0.0, 0.0], dtype)
        for largest, sorted in ORDERS:
            for lengths in (None, numbers(LENGTHS, device=device)):
                options = {"largest": largest, "magnitude": True}
                expected = Expected(x, K, lengths, sorted=sorted, **options)
                result = rtopk.topk(x, K, sorted=sorted, lengths=lengths, return_threshold=True, **options)
                expect(result, expected)
                assert torch.equal(rtopk.topk_mask(x, K, lengths=lengths, **options), expected.mask(x))
                kept = torch.where(expected.mask(x), x, 0)
                assert same_bits(rtopk.maxk(x, K, lengths=lengths, **options), kept)
            expected = Expected(x, K, sorted=False, **options)
            values, selectors = rtopk.compact(x, K, **options)
            assert same_bits(values, expected.values) and torch.equal(selectors.long(), expected.indices)
            assert selectors.dtype == torch.uint8


def test_magnitude_and_thresholds_along_any_dimension(device):
    x = random_tensor((6, 20, 5), device=device)
    rows = x.movedim(1, -1).reshape(30, 20)
    expected = Expected(rows, 4, magnitude=True)
    result = rtopk.topk(x, 4, 1, magnitude=True, return_threshold=True)
    assert same_bits(result.values, expected.values.view(6, 5, 4).movedim(-1, 1).contiguous())
    assert torch.equal(result.indices, expected.indices.view(6, 5, 4).movedim(-1, 1))
    assert same_bits(result.threshold, expected.threshold.view(6, 5))
    mask = expected.mask(rows).view(6, 5, 20).movedim(-1, 1)
    assert torch.equal(rtopk.topk_mask(x, 4, 1, magnitude=True), mask)
    assert torch.equal(rtopk.maxk(x, 4, 1, magnitude=True), torch.where(mask, x, 0))


def test_magnitude_of_an_element_alone(device):
    x = torch.tensor(-3.0, device=device)
    assert rtopk.topk(x, 1, magnitude=True).values == -3
    assert rtopk.topk(x, 1, return_threshold=True).threshold == -3
    values, selectors = rtopk.compact(x, 1, magnitude=True)
    assert values == -3 and selectors == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_thresholds(dtype, device):
    x = random_tensor((20, 100), dtype, device, ties=True)
    for k in (1, 9, 100):
        for largest, sorted in ORDERS:
            result = rtopk.topk(x, k, -1, largest, sorted, return_threshold=True)
            plain = rtopk.topk(x, k, -1, largest)
            assert same_bits(result.threshold, plain.values[:, -1].contiguous())
            assert torch.equal(result.indices.sort().values, plain.indices.sort().values)


def test_early_stopping(device):
    """With lengths it stops where the row alone would, for all rows in one call."""
    x = random_tensor((ROWS, 300), device=device)
    lengths = torch.arange(20, 20 + 23 * ROWS, 23, device=device)
    for early in ({"max_iter": 3}, {"max_iter": 2, "rule": "printed"}, {"epsilon": 0.05}):
        result = rtopk.topk(x, 9, sorted=False, lengths=lengths, **early)
        mask = rtopk.topk_mask(x, 9, lengths=lengths, **early)
        for row, length in enumerate(lengths.tolist()):
            alone = rtopk.topk(x[row, :length], 9, sorted=False, **early)
            assert torch.equal(result.indices[row], alone.indices) and same_bits(result.values[row], alone.values)
            assert mask[row].nonzero().flatten().tolist() == alone.indices.tolist()


# ---- Memory ----


def test_memory_as_it_lies(device):
    lengths = numbers([30, 3, 0, 40, 12, 5], torch.int32, device)
    whole = random_tensor((6, 70), device=device)
    for first in range(5):  # addresses that are no multiples of vectors
        x = whole[:, first : first + 41]
        expect(rtopk.topk(x, K, lengths=lengths), Expected(x.contiguous(), K, lengths))
    for dtype in (torch.float16, torch.float64):
        x = whole.to(dtype)[:, 1:]
        expect(rtopk.topk(x, K, lengths=lengths), Expected(x.contiguous(), K, lengths))
    x = whole[::2]
    expect(rtopk.topk(x, K, lengths=lengths[:3]), Expected(x.contiguous(), K, lengths[:3]))
    x = whole[:, 3:].view(2, 3, 67)
    blocks = rtopk.topk(x, K, lengths=lengths.view(2, 3), return_threshold=True)
    expected = Expected(x.reshape(6, 67), K, lengths)
    assert same_bits(blocks.values, expected.values.view(2, 3, K)) and blocks.threshold.shape == (2, 3)
    assert torch.equal(blocks.indices, expected.indices.view(2, 3, K))


def test_one_row(device):
    x = random_tensor((COLS,), device=device)
    result = rtopk.topk(x, K, lengths=numbers(5, device=device), return_threshold=True)
    expected = Expected(x[None], K, numbers([5]))
    assert same_bits(result.values, expected.values[0]) and torch.equal(result.indices, expected.indices[0])
    assert result.threshold.shape == ()


def test_arrays_are_not_copied():
    x, lengths = torch.randn(64, 512), torch.full((64,), 100)
    with torch.profiler.profile(profile_memory=True) as profile:
        rtopk.topk(x[:, 1:], 2, lengths=lengths)
    allocated = sum(event.self_cpu_memory_usage for event in profile.events() if event.self_cpu_memory_usage > 0)
    assert allocated <= 64 * 2 * 12 + 1024


def test_other_contents_of_the_same_tensors(device):
    """Long after short after long rows: nothing is left of the call before."""
    x = random_tensor((ROWS, 2000), device=device)
    lengths = torch.zeros(ROWS, dtype=torch.int32, device=device)
    for each in (2000, 3, 1999, 0, 64, 2000):
        lengths.fill_(each)
        lengths[::3] = 2000 - each
        for sorted in (True, False):
            expect(rtopk.topk(x, 50, sorted=sorted, lengths=lengths), Expected(x, 50, lengths, sorted=sorted))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 0, 4)])
def test_no_elements(shape, device):
    x = torch.empty(shape, device=device)
    lengths = torch.zeros(shape[:-1], dtype=torch.int64, device=device)
    result = rtopk.topk(x, 0, lengths=lengths)
    assert result.values.shape == result.indices.shape == (*shape[:-1], 0)
    assert rtopk.maxk(x, 0, lengths=lengths).shape == shape
    if shape[-1]:
        result = rtopk.topk(x, 2, lengths=lengths, return_threshold=True)
        assert result.values.shape == (*shape[:-1], 2) and result.threshold.shape == shape[:-1]


def test_k_of_zero(device):
    x, lengths = torch.randn(3, 5, device=device), numbers([5, 2, 0], device=device)
    assert rtopk.topk(x, 0, lengths=lengths).values.shape == (3, 0)
    assert not rtopk.maxk(x, 0, lengths=lengths).any()
    with pytest.raises(RuntimeError, match="k is 0; accepted with a threshold: 1 or more"):
        rtopk.topk(x, 0, lengths=lengths, return_threshold=True)


def test_no_option_is_the_plain_call(device):
    x = random_tensor((3, 8), device=device, ties=True)
    plain = rtopk.topk(x, 2, 0, False)
    nothing = {"lengths": None, "starts": None, "row_k": None, "ids": None, "magnitude": False}
    result = rtopk.topk(x, 2, 0, False, **nothing, return_threshold=False)
    assert same_bits(result.values, plain.values) and torch.equal(result.indices, plain.indices)


# ---- Errors ----

X = torch.randn(3, 8)
TWO = numbers([2, 2, 2])
ERRORS = {
    "lengths of another dtype": (lambda: rtopk.topk(X, 2, lengths=TWO.float()), "lengths .* accepted: one of them"),
    "lengths of int16": (lambda: rtopk.topk(X, 2, lengths=TWO.short()), "lengths .*int32 nor int64"),
    "too few lengths": (lambda: rtopk.topk(X, 2, lengths=TWO[:2]), "lengths has size 2 .*; accepted: 3"),
    "lengths of two dimensions": (lambda: rtopk.topk(X, 2, lengths=TWO[:, None]), "lengths has 2 dimens.*accepted: 1"),
    "lengths with gaps": (lambda: rtopk.topk(X, 2, lengths=numbers([2] * 6)[::2]), "lengths is not contiguous"),
    "lengths of one number": (lambda: rtopk.topk(X, 2, lengths=numbers([2]).expand(3)), "lengths is not contiguous"),
    "too many starts": (lambda: rtopk.topk(X, 2, starts=numbers([2] * 4)), "starts has size 4"),
    "row_k of another dtype": (lambda: rtopk.topk(X, 2, row_k=TWO.bool()), "row_k .* accepted: one of them"),
    "ids of another shape": (lambda: rtopk.topk(X, 2, ids=torch.arange(3)), "ids has 1 dimensions; accepted: 2"),
    "ids of another width": (lambda: rtopk.topk(X, 2, ids=torch.arange(21).view(3, 7)), "ids has size 7.*accepted: 8"),
    "ids of too few rows": (
        lambda: rtopk.topk(X, 2, ids=torch.arange(8).expand(2, 8)),
        r"ids is torch.int64 of shape \[2, 8\] .* of shape \[3, 8\] on cpu, or of shape \[8\] for all rows",
    ),
    "ids of all rows, of int16": (
        lambda: rtopk.topk(X, 2, ids=torch.arange(8, dtype=torch.int16)),
        "ids is torch.int16 .* accepted: int32 or int64",
    ),
    "ids with gaps": (lambda: rtopk.topk(X, 2, ids=torch.arange(24).view(8, 3).t()), "ids has rows that cannot be"),
    "another dimension": (
        lambda: rtopk.topk(X, 2, 0, lengths=TWO),
        r"dim is 0 .* accepted .* the last dimension, as of input.movedim\(0, -1\).contiguous\(\)",
    ),
    "another dimension of maxk": (lambda: rtopk.maxk(X, 2, 0, lengths=TWO), "dim is 0 .* the last dimension, as of"),
    "ids along another dimension": (
        lambda: rtopk.topk(X.clone().requires_grad_(), 2, 0, ids=torch.arange(24).view(3, 8)),
        "dim is 0 .* the last dimension, as of",
    ),
    "elements apart": (lambda: rtopk.topk(X.t().contiguous().t(), 2, lengths=TWO), "input has rows .* contiguous"),
    "expanded rows": (lambda: rtopk.topk(X[:1].expand(3, 8), 2, lengths=TWO), "input has rows .* contiguous"),
    "k too large": (lambda: rtopk.topk(X, 9, ids=torch.arange(8), magnitude=True), "k is 9; accepted: 0 to 8"),
    "k too small": (lambda: rtopk.topk(X, -1, lengths=TWO), "k is -1; accepted: 0 to 8"),
    "an element alone": (lambda: rtopk.topk(X[0, 0], 1, lengths=TWO[0]), "dim is 0 of a tensor with 0 dimensions"),
    "int64": (lambda: rtopk.topk(X.long(), 2, lengths=TWO), "dtype is not supported; accepted: float32"),
    "int8 by magnitude": (lambda: rtopk.maxk(X.char(), 2, magnitude=True), "dtype is not supported; accepted: float32"),
    "a mask": (lambda: rtopk.topk_mask(X, 2, lengths=TWO[:1]), "lengths has size 1"),
    "values of segments": (lambda: rtopk.topk_segments(X, TWO, 2), "values has 2 dimensions; accepted: 1"),
    "values with gaps": (lambda: rtopk.topk_segments(X[:, 0], TWO, 2), "values is not contiguous"),
    "offsets of float": (lambda: rtopk.topk_segments(X[0], TWO.float(), 2), "offsets is neither int32 nor int64"),
    "no offsets": (lambda: rtopk.topk_segments(X[0], TWO[:0], 2), "offsets has no elements; accepted: one for each"),
    "k of segments": (lambda: rtopk.topk_segments(X[0], TWO, -1), "k is -1; accepted: 0 or more"),
    "row_k of segments": (lambda: rtopk.topk_segments(X[0], TWO, 2, row_k=TWO), "row_k has size 3 .*accepted: 2"),
    "ids of segments": (lambda: rtopk.topk_segments(X[0], TWO, 2, ids=TWO), "ids has size 3 .*accepted: 8"),
}
REFUSED_BY_KIND = {
    "a list": (lambda: rtopk.topk(X, 2, lengths=[2, 2, 2]), TypeError, "'lengths' is list; accepted: a tensor"),
    "a list of ids": (lambda: rtopk.topk_segments(X[0], TWO, 2, ids=[1]), TypeError, "'ids' is list; accepted: a"),
    "magnitude": (lambda: rtopk.topk(X, 2, magnitude=1), TypeError, "'magnitude' must be bool"),
    "magnitude of maxk": (lambda: rtopk.maxk(X, 2, magnitude=1), TypeError, "'magnitude' must be bool"),
    "a name": (lambda: rtopk.topk(X, 2, length=TWO), TypeError, "unexpected keyword argument 'length'"),
    "a name of ours": (lambda: rtopk.topk(X, 2, options={}), TypeError, "unexpected keyword argument 'options'"),
    "out": (
        lambda: rtopk.topk(X, 2, lengths=TWO, magnitude=True, out=(X, TWO)),
        ValueError,
        "out is given beside lengths and magnitude; accepted: without out",
    ),
    "max_length": (lambda: rtopk.topk_segments(X[0], TWO, 2, max_length=0), ValueError, "max_length is 0; accepted"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_argument_and_what_would_be_accepted(name):
    call, text = ERRORS[name]
    with pytest.raises(RuntimeError, match=text):
        call()


@pytest.mark.parametrize("name", REFUSED_BY_KIND)
def test_errors_of_other_kinds(name):
    call, kind, text = REFUSED_BY_KIND[name]
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("dtype", OTHER_INTEGERS)
def test_other_integers_are_refused(dtype):
    with pytest.raises(RuntimeError, match="accepted: float32, float16, bfloat16, float64, int32$"):
        rtopk.topk(torch.zeros(3, 8, dtype=dtype), 2, lengths=TWO)


@pytest.mark.gpu
def test_arrays_on_another_device_are_refused():
    for name in ("lengths", "starts", "row_k"):
        with pytest.raises(RuntimeError, match=f"{name} is on another device than input"):
            rtopk.topk(X.cuda(), 2, **{name: TWO})
    with pytest.raises(RuntimeError, match="offsets is on another device"):
        rtopk.topk_segments(X[0].cuda(), TWO, 2)


# ---- On a GPU ----


@pytest.mark.gpu
def test_both_devices_give_the_same_bits():
    for rows, cols, k in ((300, 100, 10), (40, 3000, 700), (5, 200000, 1500)):
        x = random_tensor((rows, cols), torch.bfloat16, ties=True)
        arrays = {"lengths": torch.randint(-5, cols + 5, (rows,)), "starts": torch.randint(-5, cols + 5, (rows,))}
        arrays["row_k"] = torch.randint(-1, k + 2, (rows,))
        for options in ({"sorted": False}, {"magnitude": True}, {"largest": False}):
            here = rtopk.topk(x, k, **arrays, **options, return_threshold=True)
            arrays_there = {name: array.cuda() for name, array in arrays.items()}
            there = rtopk.topk(x.cuda(), k, **arrays_there, **options, return_threshold=True)
            for one, other in zip(here, there, strict=True):
                assert torch.equal(bits(one), bits(other.cpu()))


CALLS_ON_GPU = {
    "lengths": lambda x, n: rtopk.topk(x, 5, lengths=n),
    "all arrays": lambda x, n: rtopk.topk(x, 5, lengths=n, starts=n // 2, row_k=n, return_threshold=True),
    "ids": lambda x, n: rtopk.topk(x, 5, lengths=n, ids=torch.zeros_like(x, dtype=torch.int64)),
    "magnitude": lambda x, n: rtopk.topk(x, 5, magnitude=True),
    "maxk": lambda x, n: rtopk.maxk(x, 5, lengths=n),
    "topk_mask": lambda x, n: rtopk.topk_mask(x, 5, lengths=n),
    "segments": lambda x, n: rtopk.topk_segments(x.view(-1), n.cumsum(0), 5),
    "a gradient": lambda x, n: rtopk.topk(x.clone().requires_grad_(), 5, lengths=n).values.sum().backward(),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", CALLS_ON_GPU)
def test_nothing_waits_for_the_gpu(name):
    x, lengths = torch.randn(8, 100, device="cuda"), torch.arange(8, device="cuda")
    CALLS_ON_GPU[name](x, lengths)  # loads kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        CALLS_ON_GPU[name](x, lengths)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.parametrize("cols, k", [(100, 5), (3000, 64), (100000, 300)])
def test_a_captured_graph_serves_other_lengths(cols, k):
    x = torch.randn(8, cols, device="cuda")
    lengths = torch.full((8,), cols, dtype=torch.int32, device="cuda")
    starts = torch.zeros_like(lengths)
    values, offsets = torch.randn(8 * cols, device="cuda"), torch.arange(0, 8 * cols + 1, cols, device="cuda")

    def call():
        return (
            rtopk.topk(x, k, lengths=lengths, starts=starts, return_threshold=True),
            rtopk.topk_segments(values, offsets, k, max_length=cols),
        )

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rows, segments = call()
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        lengths.copy_(torch.randint(-3, cols + 3, (8,), generator=generator))
        starts.copy_(torch.randint(-3, cols // 2, (8,), generator=generator))
        offsets.copy_(torch.randint(0, 8 * cols + 1, (9,), generator=generator).sort().values)
        x.normal_()
        values.normal_()
        graph.replay()
        expect(rows, Expected(x, k, lengths, starts))
        expect(segments, Expected(values, k, offsets=offsets, max_length=cols))
