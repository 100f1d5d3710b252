"""Aggregations over a graph against dense matrices, and their gradients against autograd."""

from types import SimpleNamespace

import pytest
import torch

import rtopk
from rtopk._compact import selector_dtype
from rtopk.gnn._aggregate import aggregate

OPS = torch.ops.rtopk
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def graph_of(degrees, nodes, *, index_dtype=torch.int32, weighted=False, device="cpu"):
    """Rows with these numbers of edges to nodes picked at random, several times where it so happens."""
    degrees = torch.tensor(degrees, dtype=torch.int64)
    row_starts = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
    columns = torch.randint(max(nodes, 1), (int(degrees.sum()),))
    weights = torch.rand(len(columns)) + 0.5 if weighted else None
    return with_transpose(row_starts.to(index_dtype), columns.to(index_dtype), weights, nodes, device)


def with_transpose(row_starts, columns, weights, nodes, device="cpu"):
    row_starts, columns = row_starts.to(device), columns.to(device)
    weights = None if weights is None else weights.to(device)
    transposed = OPS.transpose_graph(row_starts, columns, weights, nodes)
    names = ("t_row_starts", "t_columns", "t_weights")
    return SimpleNamespace(
        row_starts=row_starts,
        columns=columns,
        weights=weights,
        nodes=nodes,
        **dict(zip(names, transposed, strict=True)),
    )


def dense_of(graph, reduce="sum"):
    """A as a dense matrix in float64."""
    starts = graph.row_starts.cpu().to(torch.int64)
    degrees = starts.diff()
    rows = torch.repeat_interleave(torch.arange(len(degrees)), degrees)
    weights = torch.ones(len(rows)) if graph.weights is None else graph.weights.cpu()
    if reduce == "mean":
        weights = weights.double() / degrees[rows]
    matrix = torch.zeros(len(degrees), graph.nodes, dtype=torch.float64)
    return matrix.index_put_((rows, graph.columns.cpu().to(torch.int64)), weights.double(), accumulate=True)


def features(nodes, cols, k, dtype=torch.float32, device="cpu"):
    return rtopk.compact(torch.randn(nodes, cols).to(dtype).to(device), k)


def assert_close(ours, expected, magnitude, terms, dtype):
    """Within what that many float32 additions, and one rounding to the result's type, may lose."""
    unit = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}[dtype]
    bound = (terms + 3) * 2.0**-24 * magnitude + unit * expected.abs() + 2.0**-24
    excess = (ours.cpu().double() - expected).abs() - bound
    assert excess.numel() == 0 or excess.max() <= 0, f"{excess.max().item()} beyond the bound"


HUB = [3000, 0, 1, 2, 40, 33, 700, 0]
SHAPES = [
    # degrees, nodes, cols, k
    ([], 3, 8, 2),
    ([0, 0, 0], 5, 16, 4),
    ([1], 1, 4, 4),
    ([5], 1, 256, 32),
    (HUB, 50, 256, 32),
    (HUB, 50, 256, 7),
    (HUB, 300, 384, 32),
    ([17, 3, 0, 64, 31, 32, 33], 40, 100, 1),
    ([17, 3, 0, 64, 31, 32, 33], 40, 64, 64),
    ([12] * 100, 100, 512, 96),
    ([9] * 20, 30, 5000, 130),
]


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_forward_and_backward_against_dense(shape, dtype, weighted, reduce, device):
    degrees, nodes, cols, k = SHAPES[shape]
    for index_dtype in (torch.int32, torch.int64):
        graph = graph_of(degrees, nodes, index_dtype=index_dtype, weighted=weighted, device=device)
        values, selectors = features(nodes, cols, k, dtype, device)
        values = values.detach().requires_grad_()
        matrix = dense_of(graph, reduce)
        most = max([*degrees, 1])

        y = aggregate(graph, values, selectors, cols, reduce)
        assert y.dtype == dtype and y.shape == (len(degrees), cols)
        x = rtopk.expand(values.detach(), selectors, cols).cpu().double()
        assert_close(y.detach(), matrix @ x, matrix.abs() @ x.abs(), most, dtype)

        grad = torch.randn(y.shape).to(dtype)
        expected = matrix.T @ grad.double()
        magnitude = matrix.abs().T @ grad.double().abs()
        at = selectors.cpu().to(torch.int64)
        for deterministic in (False, True):
            torch.use_deterministic_algorithms(deterministic)
            try:
                (dx,) = torch.autograd.grad(aggregate(graph, values, selectors, cols, reduce), values, grad.to(device))
            finally:
                torch.use_deterministic_algorithms(False)
            terms = graph.t_row_starts.diff().max().item()
            assert dx.dtype == dtype
            assert_close(dx, expected.gather(1, at), magnitude.gather(1, at), terms, dtype)


@pytest.mark.parametrize("cols", [1, 3, 16, 100, 256, 300, 600])
def test_rows_of_which_everything_is_selected_on_a_cpu(cols):
    """A CPU takes these as dense rows if their selectors ascend. The bits are the same as with any other order."""
    for index_dtype in (torch.int32, torch.int64):
        for weighted in (False, True):
            graph = graph_of(HUB, 50, index_dtype=index_dtype, weighted=weighted)
            graph.columns[::7] = -1  # empty places
            values = torch.randn(50, cols)
            selectors, backwards = (torch.arange(cols).repeat(50, 1) for _ in range(2))
            backwards[49] = backwards[49].flip(0)  # one row suffices
            selectors, backwards = (part.to(selector_dtype(cols)) for part in (selectors, backwards))
            others = torch.cat([values[:49], values[49:].flip(1)])
            for mean in (False, True):
                parts = (graph.row_starts, graph.columns, graph.weights)
                options = (cols, mean, True, None, None, None)
                found = OPS.aggregate(*parts, values, selectors, *options)
                assert torch.equal(found, OPS.aggregate(*parts, others, backwards, *options))
                assert found[0].abs().sum() > 0 and not found[1].any()


def test_transpose_is_stable(device):
    for index_dtype in (torch.int32, torch.int64):
        for weighted in (False, True):
            graph = graph_of(HUB * 30, 1000, index_dtype=index_dtype, weighted=weighted, device=device)
            rows = torch.repeat_interleave(torch.arange(len(HUB) * 30), graph.row_starts.diff().cpu())
            order = torch.sort(graph.columns.cpu(), stable=True)
            assert torch.equal(graph.t_columns.cpu().to(torch.int64), rows[order.indices])
            counts = torch.bincount(graph.columns.cpu(), minlength=1000)
            assert torch.equal(graph.t_row_starts.diff().cpu().to(torch.int64), counts)
            assert graph.t_columns.dtype == graph.t_row_starts.dtype == index_dtype
            if weighted:
                assert torch.equal(graph.t_weights.cpu(), graph.weights.cpu()[order.indices])
            else:
                assert graph.t_weights is None


def test_results_repeat_bit_for_bit(device):
    graph = graph_of(HUB * 20, 2000, weighted=True, device=device)
    values, selectors = features(2000, 256, 32, device=device)
    values = values.detach().requires_grad_()
    grad = torch.randn(len(HUB) * 20, 256, device=device)
    torch.use_deterministic_algorithms(True)
    try:
        runs = []
        for _ in range(3):
            y = aggregate(graph, values, selectors, 256, "mean")
            runs.append((y, *torch.autograd.grad(y, values, grad)))
    finally:
        torch.use_deterministic_algorithms(False)
    for run in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(run, runs[0], strict=True))


def test_second_derivatives(device):
    graph = graph_of([3, 0, 9], 5, weighted=True, device=device)
    values, selectors = features(5, 12, 4, device=device)
    values = values.detach().requires_grad_()
    weight = torch.randn(3, 12, device=device, requires_grad=True)
    (dx,) = torch.autograd.grad((aggregate(graph, values, selectors, 12) * weight).sum(), values, create_graph=True)
    direction = torch.randn_like(dx)
    (dweight,) = torch.autograd.grad((dx * direction).sum(), weight)
    expected = dense_of(graph) @ rtopk.expand(direction, selectors, 12).cpu().double()
    torch.testing.assert_close(dweight.cpu().double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_operators_keep_pytorchs_rules(weighted, device):
    graph = graph_of(HUB, 50, weighted=weighted, device=device)
    values, selectors = features(50, 64, 8, device=device)
    values = values.detach().requires_grad_()
    grad = torch.randn(len(HUB), 64, device=device, requires_grad=True)
    a = (graph.row_starts, graph.columns, graph.weights)
    t = (graph.t_row_starts, graph.t_columns, graph.t_weights)
    torch.library.opcheck(OPS.aggregate.default, (*a, values, selectors, 64, True, True, *t))
    torch.library.opcheck(OPS.aggregate.default, (*a, values, selectors, 64, False, True))
    torch.library.opcheck(OPS.aggregate_backward.default, (*a, *t, grad, selectors, True, True))
    torch.library.opcheck(OPS.transpose_graph.default, (*a, 50))


def test_under_compile(device):
    graph = graph_of(HUB, 50, device=device)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def layer(x):
        values, selectors = rtopk.compact(x, 8)
        return aggregate(graph, values, selectors, 64, "mean")

    x = torch.randn(50, 64, device=device, requires_grad=True)
    y = layer(x)
    torch.testing.assert_close(y, aggregate(graph, *rtopk.compact(x, 8), 64, "mean"))
    y.sum().backward()
    assert (x.grad != 0).sum() <= 50 * 8


def test_gradient_without_a_transpose():
    graph = graph_of(HUB, 50, weighted=True)
    values, selectors = features(50, 64, 8)
    values = values.detach().requires_grad_()
    grad = torch.randn(len(HUB), 64)
    (expected,) = torch.autograd.grad(aggregate(graph, values, selectors, 64), values, grad)
    y = OPS.aggregate(graph.row_starts, graph.columns, graph.weights, values, selectors, 64, False, False)
    assert torch.equal(torch.autograd.grad(y, values, grad)[0], expected)


def test_columns_and_selectors_that_do_not_exist_are_safe(device):
    """Edges to nowhere add nothing, and nothing outside of the tensors is read or written."""
    columns = torch.tensor([0, -1, 7, 2, 1 << 30], dtype=torch.int32)
    row_starts = torch.tensor([0, 2, 5], dtype=torch.int32)
    graph = with_transpose(row_starts, columns, None, 3, device)
    values, selectors = features(3, 16, 4, device=device)
    kept = with_transpose(
        torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([0, 2], dtype=torch.int32), None, 3, device
    )
    assert torch.equal(aggregate(graph, values, selectors, 16), aggregate(kept, values, selectors, 16))
    assert graph.t_columns.tolist() == [0, 1, -1, -1, -1]
    for starts in ([0, 1 << 30, 5], [-5, 100, -100], [5, 3, 1]):
        wild = with_transpose(torch.tensor(starts, dtype=torch.int32), columns, None, 3, device)
        aggregate(wild, values, selectors, 16)
        OPS.aggregate_backward(
            wild.row_starts, wild.columns, None, wild.t_row_starts, wild.t_columns, None,
            torch.randn(2, 16, device=device), selectors, True, True,
        )  # fmt: skip
    aggregate(kept, values, torch.full_like(selectors, 255), 16)
    wide = torch.full(selectors.shape, 65535, dtype=torch.int32).to(torch.uint16).to(device)
    aggregate(kept, values, wide, 300)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"reduce": "max"}, "reduce is 'max'"),
        ({"cols": 300}, "cols is 300"),
        ({"values": torch.randn(50, 8, dtype=torch.float64)}, "values has another dtype"),
        ({"values": torch.randn(49, 8)}, "values has 49 rows; accepted: 50, one for each node"),
        ({"selectors": torch.zeros(49, 8, dtype=torch.uint8)}, "selectors has size 49"),
        ({"selectors": torch.zeros(50, 8, dtype=torch.int64)}, "selectors is neither"),
        ({"columns": torch.zeros(3776, dtype=torch.int64)}, "both int32 or both int64"),
        ({"weights": torch.ones(3)}, "weights has size 3"),
        ({"weights": torch.ones(3776, requires_grad=True)}, "weights requires a gradient"),
    ],
)
def test_refusals_name_the_argument(change, message):
    graph = graph_of(HUB, 50)
    values, selectors = features(50, 64, 8)
    arguments = {"values": values, "selectors": selectors, "cols": 64, "reduce": "sum"}
    for name, value in change.items():
        if name in arguments:
            arguments[name] = value
        else:
            setattr(graph, name, value)
    with pytest.raises((RuntimeError, ValueError), match=message):
        aggregate(graph, **arguments)


def test_weights_that_want_a_gradient_are_refused_by_the_operators_too():
    graph = graph_of([2, 3], 4, weighted=True)
    values, selectors = features(4, 8, 2)
    weights = graph.weights.clone().requires_grad_()
    with pytest.raises(ValueError, match="weights requires a gradient"):
        OPS.aggregate(graph.row_starts, graph.columns, weights, values, selectors, 8, False, True)
    transposed = graph.t_row_starts, graph.t_columns, graph.t_weights
    with pytest.raises(ValueError, match="weights requires a gradient"):
        OPS.aggregate_backward(
            graph.row_starts, graph.columns, weights, *transposed, torch.randn(2, 8), selectors, False, True
        )
