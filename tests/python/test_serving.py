"""Places in paged and flat caches: topk_paged, and the functions with FlashInfer's names."""

import inspect

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import rtopk
from oracle import random_tensor
from rows_oracle import Expected
from rtopk.serving import top_k_page_table_transform, top_k_ragged_transform

ROWS, COLS, K = 6, 50, 9
LENGTHS = [50, 9, 8, 0, 60, -3]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def lengths_on(device, dtype=torch.int32):
    return torch.tensor(LENGTHS, dtype=dtype, device=device)


def paged(expected, table, page_size, row_to_table=None):
    """The places of expected elements by loops."""
    result = torch.full_like(expected.in_row, -1)
    for r, row in enumerate(expected.in_row.tolist()):
        t = r if row_to_table is None else int(row_to_table[r])
        for j, place in enumerate(row):
            page = place // page_size
            if place >= 0 and 0 <= t < len(table) and page < table.shape[1]:
                result[r, j] = int(table[t, page]) * page_size + place % page_size
    return result.to(table.dtype)


@pytest.mark.parametrize("page_size", [1, 4, 16, 64])
@pytest.mark.parametrize("dtype", FLOATS)
def test_pages(dtype, page_size, device):
    x = random_tensor((ROWS, COLS), dtype, device, ties=True)
    pages = -(-COLS // page_size)
    for integer in (torch.int32, torch.int64):
        table = torch.randperm(1000)[: ROWS * pages].view(ROWS, pages).to(integer).to(device)
        for lengths in (lengths_on(device), lengths_on(device, torch.int64), None):
            for options in ({}, {"sorted": True}, {"largest": False}, {"magnitude": True}):
                result = rtopk.topk_paged(x, K, lengths, table, page_size, **options)
                assert result.dtype == integer
                expected = Expected(x, K, lengths, **({"sorted": False} | options))
                assert torch.equal(result, paged(expected, table, page_size))


def test_rows_that_share_tables(device):
    x = random_tensor((ROWS, COLS), device=device)
    table = torch.randint(500, (3, 13), dtype=torch.int32, device=device)
    lengths = lengths_on(device)
    for integer in (torch.int32, torch.int64):
        row_to_table = torch.tensor([2, 0, 0, 1, 1, 2], dtype=integer, device=device)
        result = rtopk.topk_paged(x, K, lengths, table, 4, row_to_table=row_to_table)
        assert torch.equal(result, paged(Expected(x, K, lengths, sorted=False), table, 4, row_to_table))
    wrong = torch.tensor([3, -1, 2**31 - 1, 0, 1, 2], dtype=torch.int32, device=device)
    result = rtopk.topk_paged(x, K, lengths, table, 4, row_to_table=wrong)
    assert torch.equal(result, paged(Expected(x, K, lengths, sorted=False), table, 4, wrong))


def test_tables_that_end_early_or_are_wider(device):
    x = random_tensor((ROWS, COLS), device=device)
    wide = torch.randint(500, (ROWS + 2, 40), dtype=torch.int32, device=device)
    lengths = lengths_on(device)
    for table in (wide[:, 3:6], wide[:, 1:14], wide[1:, :20]):
        assert torch.equal(
            rtopk.topk_paged(x, K, lengths, table, 4), paged(Expected(x, K, lengths, sorted=False), table, 4)
        )


def test_negative_entries_are_pages_that_are_not_there(device):
    x = random_tensor((ROWS, COLS), device=device)
    lengths = lengths_on(device)
    table = torch.randint(-200, 200, (ROWS, 13), dtype=torch.int32, device=device)
    expected = paged(Expected(x, K, lengths, sorted=False), table, 4)
    expected[expected < 0] = -1
    assert torch.equal(rtopk.topk_paged(x, K, lengths, table, 4), expected)
    raw = torch.empty_like(expected)  # looked up by other kernels if the indices are wanted too
    result = top_k_page_table_transform(x, table, lengths.int(), K, page_size=4, out_raw_indices=raw)
    assert torch.equal(result, expected)


def test_starts_and_row_k(device):
    x = random_tensor((ROWS, COLS), device=device)
    lengths, starts = lengths_on(device), torch.tensor([3, 0, 49, 5, 20, 1], dtype=torch.int32, device=device)
    row_k = torch.tensor([9, 2, 9, 9, 0, 30], dtype=torch.int32, device=device)
    table = torch.randint(500, (ROWS, 13), dtype=torch.int32, device=device)
    expected = Expected(x, K, lengths, starts, row_k=row_k, sorted=False)
    assert torch.equal(rtopk.topk_paged(x, K, lengths, table, 4, starts=starts, row_k=row_k), paged(expected, table, 4))


def test_k_beyond_the_columns(device):
    x = random_tensor((ROWS, COLS), device=device)
    lengths = lengths_on(device)
    table = torch.randint(500, (ROWS, 13), dtype=torch.int32, device=device)
    expected = paged(Expected(x, COLS, lengths, sorted=False), table, 4)
    expected = torch.nn.functional.pad(expected, (0, 14), value=-1)
    assert torch.equal(rtopk.topk_paged(x, COLS + 14, lengths, table, 4), expected)
    out = torch.empty_like(expected)
    assert rtopk.topk_paged(x, COLS + 14, lengths, table, 4, out=out) is out
    assert torch.equal(out, expected)
    no_columns = rtopk.topk_paged(x[:, :0], 3, lengths, table, 4)
    assert torch.equal(no_columns, torch.full((ROWS, 3), -1, dtype=torch.int32, device=device))


def test_more_dimensions_and_no_rows(device):
    x = random_tensor((2, 3, COLS), device=device)
    lengths, table = lengths_on(device), torch.randint(500, (ROWS, 13), dtype=torch.int32, device=device)
    result = rtopk.topk_paged(x, K, lengths.view(2, 3), table, 4)
    assert torch.equal(result.view(ROWS, K), rtopk.topk_paged(x.view(ROWS, COLS), K, lengths, table, 4))
    assert rtopk.topk_paged(x[0, :0], K, lengths[:0], table[:0], 4).shape == (0, K)


def test_out(device):
    x = random_tensor((ROWS, COLS), device=device)
    lengths, table = lengths_on(device), torch.randint(500, (ROWS, 13), dtype=torch.int32, device=device)
    out = torch.full((ROWS, K), 7, dtype=torch.int32, device=device)
    version = out._version
    assert rtopk.topk_paged(x.requires_grad_(), K, lengths, table, 4, out=out) is out
    assert out._version > version and torch.equal(out, rtopk.topk_paged(x, K, lengths, table, 4))


def test_only_the_workspace_is_allocated():
    x, lengths = torch.randn(64, 512), torch.full((64,), 100, dtype=torch.int32)
    table, out = torch.zeros(64, 8, dtype=torch.int32), torch.empty(64, 300, dtype=torch.int32)
    with torch.profiler.profile(profile_memory=True) as profile:
        rtopk.topk_paged(x, 300, lengths, table, 64, out=out)
    assert not sum(event.self_cpu_memory_usage for event in profile.events() if event.self_cpu_memory_usage > 0)


X = torch.randn(3, 8)
TWO = torch.tensor([2, 2, 2])
TABLE = torch.zeros(3, 4, dtype=torch.int32)
ERRORS = {
    "table of float": (
        lambda: rtopk.topk_paged(X, 2, TWO, TABLE.float(), 2),
        "page_table is torch.float32; accepted: int32",
    ),
    "table of one dimension": (lambda: rtopk.topk_paged(X, 2, TWO, TABLE[0], 2), "page_table has 1 dimensions"),
    "too few tables": (lambda: rtopk.topk_paged(X, 2, TWO, TABLE[:2], 2), "page_table has 2 tables; accepted .* 3 or"),
    "no pages": (lambda: rtopk.topk_paged(X, 2, TWO, TABLE[:, :0], 2), "page_table has no elements; accepted"),
    "table with gaps": (lambda: rtopk.topk_paged(X, 2, TWO, TABLE.t().contiguous().t(), 2), "page_table has rows"),
    "page_size": (lambda: rtopk.topk_paged(X, 2, TWO, TABLE, 0), "page_size is 0.*accepted: 1 or more"),
    "k": (lambda: rtopk.topk_paged(X, -1, TWO, TABLE, 2), "k is -1; accepted: 0 or more"),
    "no dimensions": (lambda: rtopk.topk_paged(X[0, 0], 1, None, TABLE, 2), "0 dimensions; accepted: 1 or more"),
    "lengths": (lambda: rtopk.topk_paged(X, 2, TWO[:2], TABLE, 2), "lengths has size 2 .* accepted: 3"),
    "row_to_table": (lambda: rtopk.topk_paged(X, 2, TWO, TABLE, 2, row_to_table=TWO[:1]), "row_to_table has size 1"),
    "out of int64": (lambda: rtopk.topk_paged(X, 2, TWO, TABLE, 2, out=torch.zeros(3, 2).long()), "out is torch.int64"),
    "out of another k": (
        lambda: rtopk.topk_paged(X, 2, TWO, TABLE, 2, out=torch.zeros(3, 3).int()),
        r"out .* shape \[3, 3\].* accepted: .* shape \[3, 2\]",
    ),
    "out with gaps": (
        lambda: rtopk.topk_paged(X, 2, TWO, TABLE, 2, out=torch.zeros(3, 4).int()[:, ::2]),
        "out is not contiguous",
    ),
    "offsets": (lambda: top_k_ragged_transform(X, TABLE[0, :2], TWO, 2), "offsets has size 2 .* accepted: 3"),
    "ties": (lambda: top_k_ragged_transform(X, TABLE[:, 0], TWO, 2, tie_break=2), "tie_break is 2; accepted: 0 or 1"),
    "ties of pages": (lambda: top_k_page_table_transform(X, TABLE, TWO, 2, tie_break=2), "tie_break is 2; accepted"),
    "out beside starts": (
        lambda: top_k_page_table_transform(X, TABLE, TWO, 2, row_starts=TWO, out=torch.zeros(3, 3).int()),
        r"out .* shape \[3, 3\].* accepted: .* shape \[3, 2\]",
    ),
    "page_size beside starts": (
        lambda: top_k_page_table_transform(X, TABLE, TWO, 2, page_table_row_starts=TWO, page_size=0),
        "page_size is 0; accepted: 1 or more",
    ),
    "too few tables beside starts": (
        lambda: top_k_page_table_transform(X, TABLE[:2], TWO, 2, row_starts=TWO),
        "src_page_table has 2 tables; accepted without row_to_batch: 3 or more",
    ),
    "no pages beside starts": (
        lambda: top_k_page_table_transform(X, TABLE[:, :0], TWO, 2, row_starts=TWO),
        "src_page_table has no elements; accepted",
    ),
    "table of float beside starts": (
        lambda: top_k_page_table_transform(X, TABLE.float(), TWO, 2, row_starts=TWO),
        "src_page_table is torch.float32 with 2 dimensions; accepted: int32 or int64 with 2",
    ),
    "table starts": (
        lambda: top_k_page_table_transform(X, TABLE, TWO, 2, page_table_row_starts=TWO[:2]),
        r"page_table_row_starts is torch.int64 of shape \[2\]; accepted: int32 or int64 of shape \[3\]",
    ),
    "row_to_batch beside starts": (
        lambda: top_k_page_table_transform(X, TABLE, TWO, 2, TWO.float(), row_starts=TWO),
        r"row_to_batch is torch.float32 of shape \[3\]; accepted: int32 or int64 of shape \[3\]",
    ),
    "scores of one dimension": (
        lambda: top_k_page_table_transform(X[0], TABLE, TWO[0], 2, row_starts=TWO[0]),
        "input has 1 dimensions; accepted with row_starts, .*: 2",
    ),
    "starts of pages": (
        lambda: top_k_page_table_transform(X, TABLE, TWO, 2, row_starts=TWO, page_size=4),
        "row_starts is given, page_size is 4 and page_table_row_starts None; accepted",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_argument_and_what_would_be_accepted(name):
    call, text = ERRORS[name]
    with pytest.raises((RuntimeError, ValueError), match=text):
        call()


# ---- vmap ----

PARTS = 4
VMAPPED = {
    "pages": lambda x, n, t: rtopk.topk_paged(x, K, n, t, 4),
    "k beyond the columns": lambda x, n, t: rtopk.topk_paged(x, COLS + 3, n, t, 4),
    "shared tables": lambda x, n, t: rtopk.topk_paged(x, K, n, t[:3].contiguous(), 4, row_to_table=n.clamp(-1, 3)),
    "starts": lambda x, n, t: rtopk.topk_paged(x, K, None, t, 4, starts=n, row_k=n),
    "one row": lambda x, n, t: rtopk.topk_paged(x[0], K, n[0], t, 4),
    "FlashInfer's pages": lambda x, n, t: top_k_page_table_transform(x, t, n, K, page_size=4),
    "FlashInfer's starts": lambda x, n, t: top_k_page_table_transform(x, t, n, K, row_starts=n),
    "FlashInfer's starts and batches": lambda x, n, t: top_k_page_table_transform(
        x, t, n, K, n.clamp(-1, ROWS), page_table_row_starts=n, page_size=4
    ),
    "FlashInfer's ragged rows": lambda x, n, t: top_k_ragged_transform(x, t[:, 0].contiguous(), n, K),
}


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (1, 1, 1), (0, None, None), (None, 0, None), (None, None, 0)], ids=str)
@pytest.mark.parametrize("name", VMAPPED)
def test_vmap(name, in_dims, device):
    """Parts of scores, lengths and tables, or of some of them alone; a table is no other part's."""
    x = random_tensor((PARTS, ROWS, COLS), device=device, ties=True)
    lengths = torch.randint(-1, COLS + 2, (PARTS, ROWS), dtype=torch.int32, device=device)
    tables = torch.randint(500, (PARTS, ROWS, 13), dtype=torch.int32, device=device)
    every = (x, lengths, tables)
    arguments = [each[0] if dim is None else each.movedim(0, dim) for each, dim in zip(every, in_dims, strict=True)]
    result = torch.vmap(VMAPPED[name], in_dims)(*arguments)
    for i in range(PARTS):
        own = [each[0 if dim is None else i] for each, dim in zip(every, in_dims, strict=True)]
        assert torch.equal(result[i], VMAPPED[name](*own))


def test_vmap_within_vmap_and_under_compile(device):
    x = random_tensor((PARTS, ROWS, COLS), device=device)
    lengths = torch.randint(COLS, (PARTS, ROWS), device=device)
    table = torch.randint(500, (ROWS, 13), dtype=torch.int32, device=device)
    expected = torch.stack([rtopk.topk_paged(part, K, own, table, 4) for part, own in zip(x, lengths, strict=True)])
    by_row = torch.vmap(lambda x, n, t: rtopk.topk_paged(x, K, n, t[None], 4))
    assert torch.equal(torch.vmap(by_row, (0, 0, None))(x, lengths, table), expected)
    # Neither scores nor lengths have parts of both.
    crossed = torch.vmap(torch.vmap(lambda x, n: rtopk.topk_paged(x, K, n, table, 4), (None, 0)), (0, None))
    assert torch.equal(crossed(x, lengths)[torch.arange(PARTS), torch.arange(PARTS)], expected)
    torch.compiler.reset()
    call = torch.vmap(lambda x, n: rtopk.topk_paged(x, K, n, table, 4))
    assert torch.equal(torch.compile(call, backend="aot_eager", fullgraph=True)(x, lengths), expected)


def test_vmap_into_a_given_tensor(device):
    x = random_tensor((PARTS, ROWS, COLS), device=device)
    table = torch.randint(500, (ROWS, 13), dtype=torch.int32, device=device)
    out = torch.empty(PARTS, ROWS, K, dtype=torch.int32, device=device)
    torch.vmap(lambda x, out: rtopk.topk_paged(x, K, None, table, 4, out=out))(x, out)
    assert torch.equal(out, torch.vmap(lambda x: rtopk.topk_paged(x, K, None, table, 4))(x))
    with pytest.raises(RuntimeError, match="out is the same for all of vmap; accepted: None, or an out with a part"):
        torch.vmap(lambda x: rtopk.topk_paged(x, K, None, table, 4, out=out[0]))(x)
    with pytest.raises(RuntimeError, match="page_table has 3 tables; accepted without row_to_table: 6 or more"):
        torch.vmap(lambda x: rtopk.topk_paged(x, K, None, table[:3], 4))(x)


# ---- FlashInfer's functions ----


def test_the_arguments_are_flashinfers():
    """In the order of its documentation: engines pass some of them by position."""
    names = list(inspect.signature(top_k_page_table_transform).parameters)
    first = "input src_page_table lengths k row_to_batch deterministic tie_break dsa_graph_safe row_starts"
    assert names == f"{first} page_table_row_starts page_size out out_raw_indices".split()
    names = list(inspect.signature(top_k_ragged_transform).parameters)
    assert names == "input offsets lengths k deterministic tie_break dsa_graph_safe row_starts".split()


@pytest.mark.parametrize("dtype", FLOATS)
def test_page_table_transform(dtype, device):
    x = random_tensor((ROWS, COLS), dtype, device, ties=True)
    lengths = lengths_on(device)
    table = torch.randint(5000, (ROWS, COLS), dtype=torch.int32, device=device)
    row_to_batch = torch.tensor([2, 0, 0, 1, 1, 2], dtype=torch.int32, device=device)
    expected = Expected(x, K, lengths, sorted=False)
    assert torch.equal(top_k_page_table_transform(x, table, lengths, K), paged(expected, table, 1))
    shared = top_k_page_table_transform(x, table[:3], lengths, K, row_to_batch, True, 1, True)
    assert torch.equal(shared, paged(expected, table[:3], 1, row_to_batch))
    out = torch.empty(ROWS, K, dtype=torch.int32, device=device)
    assert top_k_page_table_transform(x, table[:, :13], lengths, K, page_size=4, out=out) is out
    assert torch.equal(out, paged(expected, table[:, :13], 4))
    # A row with no more than k scores has all of them, in their order.
    assert torch.equal(out[1], table[1, torch.arange(9, device=device) // 4] * 4 + torch.arange(9, device=device) % 4)


@pytest.mark.parametrize("page_size", [1, 4])
def test_page_table_transform_with_starts_and_raw_indices(page_size, device):
    x = random_tensor((ROWS, COLS), device=device)
    lengths = torch.tensor([20, 9, 8, 0, 30, -3], dtype=torch.int32, device=device)
    starts = torch.tensor([3, 0, 12, 5, 20, 1], dtype=torch.int32, device=device)
    table_starts = torch.tensor([1, 0, 4, 2, 3, 1], dtype=torch.int32, device=device)
    table = torch.randint(5000, (3, COLS), dtype=torch.int32, device=device)
    row_to_batch = torch.tensor([2, 0, 0, 1, 1, 2], dtype=torch.int32, device=device)
    expected = Expected(x, K, lengths, starts, sorted=False)
    raw, out = (torch.empty(ROWS, K, dtype=torch.int32, device=device) for _ in range(2))
    for own_starts in (table_starts, None) if page_size == 1 else (table_starts,):
        result = top_k_page_table_transform(
            x, table, lengths, K, row_to_batch, row_starts=starts, page_table_row_starts=own_starts,
            page_size=page_size, out=out, out_raw_indices=raw,
        )  # fmt: skip
        assert result is out
        assert torch.equal(raw.long(), expected.in_row)
        begin = starts if own_starts is None else own_starts
        for r in range(ROWS):
            own = table[row_to_batch[r], begin[r] :]
            places = [-1 if p < 0 else int(own[p // page_size]) * page_size + p % page_size for p in raw[r].tolist()]
            assert out[r].tolist() == places


MOST, LEAST = 2**31 - 1, -(2**31)


@pytest.mark.parametrize("integer", [torch.int32, torch.int64])
@pytest.mark.parametrize("page_size", [1, 4])
def test_page_table_transform_of_any_numbers(page_size, integer, device):
    """Starts, tables and entries that do not exist give -1, whatever they are."""
    x = random_tensor((ROWS, COLS), device=device, ties=True)
    lengths = lengths_on(device)
    starts = torch.tensor([-3, MOST, LEAST, 2, COLS - 2, 0], dtype=integer, device=device)
    entries = torch.tensor([7, -1, LEAST, 0, LEAST + 1, 80, -3], device=device)
    table = entries[torch.randint(7, (ROWS, COLS), device=device)].to(integer)
    row_to_batch = torch.tensor([1, 0, 2, ROWS, 3, -1], dtype=integer, device=device)
    in_row = Expected(x, K, lengths, sorted=False).in_row.tolist()

    def place(r, p, begin, batch):
        page = begin[r] + p // page_size
        exists = p >= 0 and 0 <= batch[r] < ROWS and 0 <= page < COLS and table[batch[r], page] >= 0
        return int(table[batch[r], page]) * page_size + p % page_size if exists else -1

    out = torch.empty(ROWS, K, dtype=integer, device=device)
    for own_starts in (starts, None):
        begin = [0] * ROWS if own_starts is None else starts.tolist()
        for batches in (row_to_batch, None):
            batch = list(range(ROWS)) if batches is None else batches.tolist()
            expected = [[place(r, p, begin, batch) for p in row] for r, row in enumerate(in_row)]
            for raw in (torch.empty(ROWS, K, dtype=torch.int32, device=device), None):
                options = {"page_table_row_starts": own_starts, "page_size": page_size, "out_raw_indices": raw}
                result = top_k_page_table_transform(x, table, lengths, K, batches, **options)
                assert result.dtype == integer and result.tolist() == expected
                assert top_k_page_table_transform(x, table, lengths, K, batches, **options, out=out) is out
                assert torch.equal(out, result) and (raw is None or raw.tolist() == in_row)


class Counted(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **kwargs or {})


STARTS = {name: torch.ones(ROWS, dtype=torch.int32) for name in ("row_starts", "page_table_row_starts")}
RAW = {"out_raw_indices": torch.empty(ROWS, K, dtype=torch.int32)}
BATCHES = {"row_to_batch": torch.arange(ROWS, dtype=torch.int32)}
OUT = {"out": torch.empty(ROWS, K, dtype=torch.int32)}


@pytest.mark.parametrize(
    "options, count",
    [
        (OUT, 2),
        (STARTS, 9),
        (STARTS | OUT, 10),
        (RAW, 9),
        (STARTS | RAW, 13),
        (STARTS | BATCHES, 14),
        (STARTS | {"page_size": 4}, 14),
        (STARTS | RAW | BATCHES | OUT | {"page_size": 4}, 24),
    ],
)
def test_how_many_operators_a_call_takes(options, count):
    """Each is a kernel to launch. The docs have these numbers."""
    x, table, lengths = torch.randn(ROWS, COLS), torch.zeros(ROWS, COLS, dtype=torch.int32), lengths_on("cpu")
    with Counted() as operators:
        top_k_page_table_transform(x, table, lengths, K, **options)
    assert operators.count <= count


@pytest.mark.parametrize("dtype", FLOATS)
def test_ragged_transform(dtype, device):
    x = random_tensor((ROWS, COLS), dtype, device, ties=True)
    lengths = lengths_on(device)
    offsets = torch.arange(0, ROWS * 1000, 1000, dtype=torch.int32, device=device)
    starts = torch.tensor([3, 0, 12, 5, 20, 1], dtype=torch.int32, device=device)
    for row_starts in (None, starts):
        in_row = Expected(x, K, lengths, row_starts, sorted=False).in_row
        expected = torch.where(in_row < 0, -1, in_row + offsets[:, None]).int()
        assert torch.equal(top_k_ragged_transform(x, offsets, lengths, K, row_starts=row_starts), expected)
    wider = top_k_ragged_transform(x, offsets, lengths, COLS + 5)
    assert wider.shape == (ROWS, COLS + 5) and wider.dtype == torch.int32
    assert torch.equal((wider >= 0).sum(1), lengths.clamp(0, COLS))


def test_the_same_in_every_batch(device):
    """A row gives the same places alone and among others, with ties or without."""
    x = random_tensor((ROWS, 3000), device=device, ties=True)
    table = torch.arange(ROWS * 3000, dtype=torch.int32, device=device).view(ROWS, 3000)
    lengths = torch.tensor([3000, 70, 2000, 1, 2999, 64], dtype=torch.int32, device=device)
    together = top_k_page_table_transform(x, table, lengths, 64)
    for r in range(ROWS):
        alone = top_k_page_table_transform(x[r : r + 1], table[r : r + 1], lengths[r : r + 1], 64)
        assert torch.equal(alone[0], together[r])


# ---- On a GPU ----


@pytest.mark.gpu
def test_nothing_waits_for_the_gpu():
    x, lengths = torch.randn(ROWS, COLS, device="cuda"), lengths_on("cuda")
    table = torch.zeros(ROWS, COLS, dtype=torch.int32, device="cuda")
    out = torch.empty(ROWS, K, dtype=torch.int32, device="cuda")

    def calls():
        rtopk.topk_paged(x, K, lengths, table, 4, out=out)
        rtopk.topk_paged(x, COLS + 5, lengths, table, 4)
        top_k_page_table_transform(x, table, lengths, K, lengths)
        top_k_page_table_transform(x, table, lengths, K, row_starts=lengths, out_raw_indices=out)
        top_k_ragged_transform(x, lengths, lengths, K, row_starts=lengths)

    calls()  # loads kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        calls()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.parametrize("cols, k", [(500, 64), (20000, 2048), (131072, 2048)])
def test_a_captured_graph_serves_other_lengths_and_tables(cols, k):
    x = torch.randn(4, cols, device="cuda")
    lengths = torch.full((4,), cols, dtype=torch.int32, device="cuda")
    pages = -(-cols // 64)
    table = torch.zeros(4, pages, dtype=torch.int32, device="cuda")
    out = torch.empty(4, k, dtype=torch.int32, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        rtopk.topk_paged(x, k, lengths, table, 64, out=out)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rtopk.topk_paged(x, k, lengths, table, 64, out=out)
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        lengths.copy_(torch.randint(-3, cols + 3, (4,), generator=generator))
        table.copy_(torch.randint(0, 10000, (4, pages), generator=generator))
        x.normal_()
        out.fill_(-7)
        graph.replay()
        assert torch.equal(out, paged(Expected(x, k, lengths, sorted=False), table.cpu(), 64).cuda())
