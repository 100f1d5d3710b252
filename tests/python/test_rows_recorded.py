"""Gradients of general rows, and how torch.func, vmap, torch.compile, torch.export and overrides see them."""

import pytest
import torch
from torch.autograd import forward_ad

import rtopk
from oracle import random_tensor, same_bits
from rows_oracle import Expected

ROWS, COLS, K = 6, 20, 4
OPS = torch.ops.rtopk


def arrays(device, *names):
    every = {
        "lengths": torch.tensor([20, 3, 0, 4, 30, -1]),
        "starts": torch.tensor([0, 5, 3, 17, 2, 0]),
        "row_k": torch.tensor([4, 2, 4, 0, 3, 1]),
        "ids": torch.arange(ROWS * COLS).view(ROWS, COLS) * 10,
    }
    return {name: every[name].to(device) for name in names}


CASES = {
    "lengths": lambda device: arrays(device, "lengths"),
    "starts": lambda device: arrays(device, "starts"),
    "row_k": lambda device: arrays(device, "row_k"),
    "ids": lambda device: arrays(device, "ids"),
    "all": lambda device: arrays(device, "lengths", "starts", "row_k", "ids") | {"sorted": False},
    "magnitude": lambda device: {"magnitude": True},
    "magnitude and lengths": lambda device: arrays(device, "lengths") | {"magnitude": True, "largest": False},
}
cases = pytest.mark.parametrize("case", CASES)
OFFSETS = [0, 7, 7, 8, 30, 40]


def weighted(values):
    """A sum in which every place counts differently; places without an element do not count."""
    weights = torch.linspace(1, 2, values.numel(), dtype=values.dtype, device=values.device).view_as(values)
    return (torch.where(values.isfinite(), values, 0) * weights).sum(), weights


def expected_gradient(x, expected, weights):
    grad = torch.zeros(*x.shape[:-1], x.shape[-1] + 1, dtype=x.dtype, device=x.device)
    places = torch.where(expected.places < 0, x.shape[-1], expected.places)
    if x.dim() == 1:
        places, weights = places.flatten(), weights.flatten()
    return grad.scatter_add(-1, places, weights)[..., :-1]


@cases
@pytest.mark.parametrize("threshold", [False, True])
def test_gradient(case, threshold, device):
    options = CASES[case](device)
    x = random_tensor((ROWS, COLS), torch.float64, device).requires_grad_()
    expected = Expected(x, K, **options)
    result = rtopk.topk(x, K, **options, return_threshold=threshold)
    assert same_bits(result.values.detach(), expected.values) and torch.equal(result.indices, expected.indices)
    assert not result.indices.requires_grad
    if threshold:
        assert same_bits(result.threshold, expected.threshold) and not result.threshold.requires_grad
    total, weights = weighted(result.values)
    (grad,) = torch.autograd.grad(total, x)
    assert torch.equal(grad, expected_gradient(x, expected, weights))


@cases
def test_gradients_of_the_operator_itself(case, device):
    """As a saved graph has it: also with ids."""
    options = CASES[case](device)
    x = random_tensor((ROWS, COLS), torch.float64, device).requires_grad_()
    expected = Expected(x, K, **options)
    values, indices, _ = OPS.topk_rows(x, K, **options)
    assert torch.equal(indices, expected.indices)
    total, weights = weighted(values)
    total.backward()
    assert torch.equal(x.grad, expected_gradient(x, expected, weights))


@cases
def test_gradcheck(case):
    options = CASES[case]("cpu")
    x = random_tensor((ROWS, COLS), torch.float64).requires_grad_()

    def values(x):
        values = rtopk.topk(x, K, **options).values
        return torch.where(values.isfinite(), values, 0)

    assert torch.autograd.gradcheck(values, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(values, (x,))


@cases
def test_the_other_forms(case, device):
    options = CASES[case](device)
    options.pop("ids", None)
    options.pop("sorted", None)
    x = random_tensor((ROWS, COLS), torch.float64, device).requires_grad_()
    mask = Expected(x, K, **options).mask(x)
    for maxk in (rtopk.maxk, OPS.maxk_rows):
        kept = maxk(x, K, **options)
        assert torch.equal(kept, torch.where(mask, x, 0))
        (grad,) = torch.autograd.grad((kept * 3).sum(), x)
        assert torch.equal(grad, mask.double() * 3)
    assert torch.equal(rtopk.topk_mask(x, K, **options), mask)
    if set(options) == {"magnitude"}:
        values, selectors = rtopk.compact(x, K, **options)
        (grad,) = torch.autograd.grad(values.sum(), x)
        assert torch.equal(grad, mask.double())
        assert torch.autograd.gradcheck(lambda x: rtopk.compact(x, K, magnitude=True).values, (x,))


@pytest.mark.parametrize("options", [{}, {"ids": torch.arange(40) * 3}, {"magnitude": True}], ids=str)
@pytest.mark.parametrize("offsets", [OFFSETS, [0, 30, 10, 40], [0, 0]], ids=str)
def test_segments(offsets, options, device):
    options = {name: each.to(device) if isinstance(each, torch.Tensor) else each for name, each in options.items()}
    offsets = torch.tensor(offsets, device=device)
    x = random_tensor((40,), torch.float64, device).requires_grad_()
    expected = Expected(x, K, offsets=offsets, **options)
    for call in (rtopk.topk_segments, OPS.topk_segments):
        values, indices, *_ = call(x, offsets, K, **options)
        assert torch.equal(indices, expected.indices) and same_bits(values.detach(), expected.values)
        total, weights = weighted(values)
        (grad,) = torch.autograd.grad(total, x)
        assert torch.equal(grad, expected_gradient(x, expected, weights))

    def selected(x):
        values = rtopk.topk_segments(x, offsets, K, **options).values
        return torch.where(values.isfinite(), values, 0)

    assert torch.autograd.gradcheck(selected, (x,), check_forward_ad=True)
    assert torch.equal(torch.func.grad(lambda x: weighted(selected(x))[0])(x.detach()), grad)


def test_no_values_at_all():
    x = torch.empty(0, requires_grad=True)
    result = rtopk.topk_segments(x, torch.tensor([0, 0, 0]), 2, ids=torch.empty(0, dtype=torch.int64))
    assert result.indices.tolist() == [[-1, -1], [-1, -1]]
    result.values.sum().backward()
    assert x.grad.shape == (0,)
    assert torch.func.grad(lambda x: rtopk.topk_segments(x, torch.tensor([0, 0]), 2).values.sum())(x).shape == (0,)


@cases
def test_torch_func(case, device):
    options = CASES[case](device)
    x = random_tensor((ROWS, COLS), torch.float64, device)
    expected = Expected(x, K, **options)

    def total(x):
        return weighted(rtopk.topk(x, K, **options).values)[0]

    weights = weighted(expected.values)[1]
    assert torch.equal(torch.func.grad(total)(x), expected_gradient(x, expected, weights))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        values, indices = rtopk.topk(dual, K, **options)
        assert torch.equal(indices, expected.indices)
        tangent = forward_ad.unpack_dual(values).tangent
        assert torch.equal(tangent, (expected.places >= 0).double())


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (1, 0)], ids=str)
@pytest.mark.parametrize("names", [("lengths",), ("lengths", "starts", "row_k", "ids")], ids=str)
def test_vmap(names, in_dims, device):
    batch, lengths_dim = in_dims
    rows = random_tensor((5, ROWS, COLS), device=device)
    lengths = torch.randint(-1, COLS + 2, (5, ROWS), device=device)
    others = arrays(device, *names[1:])

    def call(x, lengths):
        return rtopk.topk(x, K, lengths=lengths, return_threshold=True, **others)

    x = rows[0] if batch is None else rows.movedim(0, batch)
    n = lengths[0] if lengths_dim is None else lengths
    results = torch.vmap(call, in_dims)(x, n)
    mask = torch.vmap(lambda x, n: rtopk.topk_mask(x, K, lengths=n), in_dims)(x, n)
    for i in range(5):
        own, own_lengths = rows[0 if batch is None else i], lengths[0 if lengths_dim is None else i]
        expected = Expected(own, K, own_lengths, **others)
        assert torch.equal(results[1][i], expected.indices)
        assert same_bits(results[0][i].contiguous(), expected.values)
        assert same_bits(results[2][i].contiguous(), expected.threshold)
        assert torch.equal(mask[i], Expected(own, K, own_lengths).mask(own))


def test_vmap_of_what_has_no_arrays(device):
    x = random_tensor((5, ROWS, COLS), device=device)
    for dim in (0, -1):
        result = torch.vmap(lambda x, dim=dim: rtopk.topk(x, 3, dim, magnitude=True))(x)
        plain = rtopk.topk(x, 3, dim % 2 + 1, magnitude=True)
        assert torch.equal(result[0], plain.values) and torch.equal(result[1], plain.indices)
    alone = torch.vmap(lambda x: rtopk.topk(x, 1, magnitude=True).values)(x[0, 0])
    assert torch.equal(alone, x[0, 0])
    kept = torch.vmap(lambda x: rtopk.maxk(x, 3, magnitude=True))(x)
    assert torch.equal(kept, rtopk.maxk(x, 3, magnitude=True))
    one = torch.vmap(lambda x, n: rtopk.topk(x, 3, lengths=n).indices)(x[0], torch.arange(ROWS, device=device))
    assert torch.equal(one, rtopk.topk(x[0], 3, lengths=torch.arange(ROWS, device=device)).indices)


def test_vmap_of_segments(device):
    x = random_tensor((3, 40), device=device)
    offsets = torch.tensor(OFFSETS, device=device)
    values, indices = torch.vmap(lambda x: rtopk.topk_segments(x, offsets, K))(x)
    for i in range(3):
        expected = Expected(x[i], K, offsets=offsets)
        assert torch.equal(indices[i], expected.indices) and same_bits(values[i], expected.values)
    shifted = torch.stack([offsets, offsets + 1])
    indices = torch.vmap(lambda n: rtopk.topk_segments(x[0], n, K).indices)(shifted)
    assert torch.equal(indices[1], Expected(x[0], K, offsets=offsets + 1).indices)


def test_vmap_of_k_beyond_the_columns(device):
    x, lengths = random_tensor((5, ROWS, COLS), device=device), torch.randint(-1, COLS + 2, (5, ROWS), device=device)
    call = lambda x, n: rtopk.topk(x, COLS + 2, lengths=n, row_k=n, return_threshold=True)  # noqa: E731
    results = torch.vmap(call)(x, lengths)
    for i in range(5):
        expected = Expected(x[i], COLS + 2, lengths[i], row_k=lengths[i])
        assert same_bits(results[0][i].contiguous(), expected.values)
        assert torch.equal(results[1][i], expected.indices)
        assert same_bits(results[2][i].contiguous(), expected.threshold)


def test_jacobians(device):
    """Reverse mode over vmap, which per-sample gradients are made of."""
    lengths = torch.tensor([20, 3, 0, 4, 30, 1], device=device)
    x = random_tensor((ROWS, COLS), device=device)

    def total(row, length):
        values = rtopk.topk(row, K, lengths=length).values
        return torch.where(values.isfinite(), values, 0).sum()

    per_row = torch.vmap(torch.func.grad(total))(x, lengths)
    assert torch.equal(per_row, Expected(x, K, lengths).mask(x).float())


# ---- Recorded ----


@pytest.fixture
def compiled():
    torch.compiler.reset()
    yield lambda function, **options: torch.compile(function, backend="aot_eager", fullgraph=True, **options)
    torch.compiler.reset()


@cases
@pytest.mark.parametrize("with_gradient", [False, True])
def test_compile(case, with_gradient, compiled, device):
    options = CASES[case](device)
    x = random_tensor((ROWS, COLS), torch.float64, device).requires_grad_(with_gradient)
    expected = Expected(x, K, **options)
    result = compiled(lambda x: rtopk.topk(x, K, **options, return_threshold=True))(x)
    assert torch.equal(result.indices, expected.indices) and same_bits(result.values.detach(), expected.values)
    assert same_bits(result.threshold, expected.threshold)
    if with_gradient:
        total, weights = weighted(result.values)
        total.backward()
        assert torch.equal(x.grad, expected_gradient(x, expected, weights))


def test_compile_the_other_functions(compiled, device):
    x = random_tensor((ROWS, COLS), device=device)
    lengths = arrays(device, "lengths")["lengths"]
    table = torch.arange(ROWS * 5, dtype=torch.int32, device=device).view(ROWS, 5)
    offsets = torch.tensor(OFFSETS, device=device)
    out = torch.empty(ROWS, K, dtype=torch.int32, device=device)

    def functions(x, lengths):
        return (
            rtopk.maxk(x, K, lengths=lengths),
            rtopk.topk_mask(x, K, lengths=lengths, magnitude=True),
            rtopk.topk(x, COLS + 3, lengths=lengths, row_k=lengths, return_threshold=True),
            rtopk.maxk(x, COLS + 3, lengths=lengths),
            rtopk.compact(x, K, magnitude=True),
            rtopk.topk_segments(x.view(-1), offsets, K, row_k=lengths[:5]),
            rtopk.topk_paged(x, K, lengths, table, 4),
            rtopk.topk_paged(x, K, lengths, table, 4, out=out),
            rtopk.topk_paged(x, COLS + 3, lengths, table, 4),
            rtopk.serving.top_k_ragged_transform(x, table[:, 0].contiguous(), lengths, K),
            rtopk.serving.top_k_page_table_transform(x, table, lengths, K, row_starts=lengths),
            rtopk.serving.top_k_page_table_transform(
                x, table, lengths, K, page_table_row_starts=lengths, page_size=4, out=out.clone(), out_raw_indices=out
            ),
        )

    expected = functions(x, lengths)
    for dynamic in (False, True):
        torch.compiler.reset()
        results = compiled(functions, dynamic=dynamic)(x, lengths)
        flat = torch.utils._pytree.tree_leaves
        for one, other in zip(flat(results), flat(expected), strict=True):
            assert same_bits(one, other)


def test_compile_with_sizes_that_change(compiled):
    function = compiled(lambda x, n: rtopk.topk(x, 3, lengths=n).indices, dynamic=True)
    for rows, cols in ((4, 9), (5, 30), (17, 11)):
        x, lengths = torch.randn(rows, cols), torch.randint(-1, cols + 2, (rows,))
        assert torch.equal(function(x, lengths), Expected(x, 3, lengths).indices)


def test_compile_by_inductor(device):
    """Which allocates and reuses memory itself, also what operators write into."""
    x, lengths = random_tensor((ROWS, COLS), device=device), arrays(device, "lengths")["lengths"]
    table = torch.arange(ROWS * COLS, dtype=torch.int32, device=device).view(ROWS, COLS)

    def indexer(x, lengths, out):
        found = rtopk.topk(x * 2, K, lengths=lengths)
        kept = rtopk.maxk(x, K, lengths=lengths) + 1
        rtopk.topk_paged(x, K, lengths, table[:, :5], 4, out=out)
        started = rtopk.serving.top_k_page_table_transform(x, table, lengths, K, row_starts=lengths)
        return found.values, found.indices, kept, out + 1, started + 1

    outs = [torch.empty(ROWS, K, dtype=torch.int32, device=device) for _ in range(2)]
    torch.compiler.reset()
    results = torch.compile(indexer, backend="inductor", fullgraph=True)(x, lengths, outs[0])
    assert all(map(same_bits, results, indexer(x, lengths, outs[1]))) and torch.equal(*outs)


class Indexer(torch.nn.Module):
    def forward(self, x, lengths, ids, offsets):
        rows = rtopk.topk(x, K, lengths=lengths, ids=ids)
        segments = rtopk.topk_segments(x.flatten(), offsets, K)
        table = ids.int()
        places = (
            rtopk.topk_paged(x, K, lengths, table, 4),
            rtopk.serving.top_k_page_table_transform(x, table, lengths, K),
            rtopk.serving.top_k_page_table_transform(x, table, lengths, K, row_starts=lengths),
            rtopk.serving.top_k_ragged_transform(x, offsets, lengths, K),
        )
        return rows.values, rows.indices, segments.indices, rtopk.maxk(x, K, lengths=lengths), *places


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    x = random_tensor((ROWS, COLS))
    lengths, ids = arrays("cpu", "lengths", "ids").values()
    inputs = (x, lengths, ids, torch.tensor(OFFSETS))
    program = torch.export.export(Indexer(), inputs, strict=strict)
    for one, other in zip(program.module()(*inputs), Indexer()(*inputs), strict=True):
        assert same_bits(one, other)
    # The exported graph has a gradient, though none was wanted when it was recorded.
    leaf = x.clone().requires_grad_()
    values = program.module()(leaf, *inputs[1:])[0]
    total, weights = weighted(values)
    total.backward()
    assert torch.equal(leaf.grad, expected_gradient(x, Expected(x, K, lengths), weights))


def test_modes_and_subclasses_see_the_function(device):
    seen = []

    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **kwargs or {})

    x, lengths = torch.randn(3, 8, device=device), torch.tensor([1, 2, 3], device=device)
    table = torch.zeros(3, 8, dtype=torch.int32, device=device)
    functions = {
        rtopk.topk: lambda: rtopk.topk(x, 2, lengths=lengths).indices,
        rtopk.maxk: lambda: rtopk.maxk(x, 2, lengths=lengths),
        rtopk.topk_mask: lambda: rtopk.topk_mask(x, 2, lengths=lengths),
        rtopk.topk_segments: lambda: rtopk.topk_segments(x[0], lengths, 2).indices,
        rtopk.topk_paged: lambda: rtopk.topk_paged(x, 2, lengths, table, 1),
        rtopk.serving.top_k_ragged_transform: lambda: rtopk.serving.top_k_ragged_transform(
            x, table[:, 0].contiguous(), lengths, 2
        ),
        rtopk.serving.top_k_page_table_transform: lambda: rtopk.serving.top_k_page_table_transform(
            x, table, lengths, 2, row_starts=lengths
        ),
    }
    for function, call in functions.items():
        expected = call()
        with Seen():
            assert torch.equal(call(), expected)
        assert function in seen

    class Own(torch.Tensor):
        pass

    own = rtopk.topk(x, 2, lengths=lengths.as_subclass(Own))
    assert torch.equal(own.indices, rtopk.topk(x, 2, lengths=lengths).indices)


def test_fake_tensors_are_refused_like_others():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(3, 8)
        assert rtopk.topk(x, 2, lengths=torch.empty(3, dtype=torch.int32)).values.shape == (3, 2)
        for lengths in (torch.empty(2, dtype=torch.int32), torch.empty(3), torch.empty(3, 1, dtype=torch.int64)):
            with pytest.raises(RuntimeError, match="lengths .*; accepted"):
                rtopk.topk(x, 2, lengths=lengths)
        with pytest.raises(RuntimeError, match="dim is 0 .*; accepted"):
            rtopk.topk(x, 2, 0, lengths=torch.empty(8, dtype=torch.int32))
        with pytest.raises(RuntimeError, match="k is 9; accepted"):
            OPS.topk_rows(x, 9, lengths=torch.empty(3, dtype=torch.int32))
        assert rtopk.topk(x, 9, lengths=torch.empty(3, dtype=torch.int32)).values.shape == (3, 9)


def test_inference_mode(device):
    with torch.inference_mode():
        x, lengths = torch.randn(3, 8, device=device), torch.tensor([1, 2, 3], device=device)
        expected = Expected(x, 2, lengths)
        assert torch.equal(rtopk.topk(x, 2, lengths=lengths).indices, expected.indices)
        table = torch.arange(24, dtype=torch.int32, device=device).view(3, 8)
        out = torch.empty(3, 2, dtype=torch.int32, device=device)
        assert rtopk.topk_paged(x, 2, lengths, table, 1, out=out) is out
