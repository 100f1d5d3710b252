"""search="bisection": the passes of the paper, which select the same bits as the search that may do without them."""

import io

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import rtopk
from oracle import DTYPES, random_tensor, same_bits
from recorded import compiled

OPS = torch.ops.rtopk
ROWS, COLS, K = 20, 150, 9
EARLY = [{}, {"max_iter": 1}, {"max_iter": 4, "rule": "printed"}, {"max_iter": 40}, {"epsilon": 0.05}]
LENGTHS = torch.arange(0, 8 * ROWS, 8)
FUNCTIONS = {
    "topk": lambda x, **options: rtopk.topk(x, K, **options),
    "topk, unsorted": lambda x, **options: rtopk.topk(x, K, 0, False, False, **options),
    "maxk": lambda x, **options: rtopk.maxk(x, K, **options),
    "topk_mask": lambda x, **options: rtopk.topk_mask(x, K, 0, **options),
    "compact": lambda x, **options: rtopk.compact(x, K, **options),
    "nn.MaxK": lambda x, **options: rtopk.nn.MaxK(K, **options)(x),
    "nn.TopK": lambda x, **options: rtopk.nn.TopK(K, **options)(x),
    "nn.TopK, magnitude": lambda x, **options: rtopk.nn.TopK(K, magnitude=True, **options)(x),
    "topk, lengths": lambda x, **options: rtopk.topk(x, K, lengths=LENGTHS.to(x.device), **options),
    "topk, k beyond the columns": lambda x, **options: rtopk.topk(
        x, COLS + 1, row_k=LENGTHS.to(x.device), return_threshold=True, **options
    ),
    "maxk, lengths": lambda x, **options: rtopk.maxk(x, K, lengths=LENGTHS.to(x.device), **options),
    "topk_mask, magnitude": lambda x, **options: rtopk.topk_mask(x, K, magnitude=True, **options),
    "compact, magnitude": lambda x, **options: rtopk.compact(x, K, magnitude=True, **options),
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


def parts(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("dtype", DTYPES)
@functions
def test_the_same_bits(name, dtype, device):
    x = random_tensor((ROWS, COLS), dtype, device, ties=dtype is torch.int32)
    for early in EARLY:
        results = (parts(FUNCTIONS[name](x, search=search, **early)) for search in ("fast", "bisection"))
        assert all(map(same_bits, *results))


@pytest.mark.parametrize("early", EARLY, ids=str)
def test_out(early, device):
    x = random_tensor((ROWS, COLS), device=device)
    out = (torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device))
    rtopk.topk(x, K, **early, search="bisection", out=out)
    assert all(map(same_bits, out, rtopk.topk(x, K, **early)))


class LastArguments(TorchDispatchMode):
    """The last arguments of calls of our operators that are not their defaults, by name."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "rtopk":
            self.seen.append(function._schema.arguments[len(args) - 1].name)
        return function(*args, **kwargs or {})


@functions
def test_the_operator_is_told(name):
    with LastArguments() as fast:
        FUNCTIONS[name](torch.randn(ROWS, COLS), search="fast")
    with LastArguments() as bisection:
        FUNCTIONS[name](torch.randn(ROWS, COLS), search="bisection")
    assert len(fast.seen) == 1 and fast.seen != ["bisection"] and bisection.seen == ["bisection"]


@functions
def test_vmap(name, device):
    """The parts are whole matrices. Lengths have no parts."""

    def call(x):
        return tuple(parts(FUNCTIONS[name](x, max_iter=3, search="bisection")))

    x = random_tensor((2, ROWS, COLS), device=device)
    results = torch.vmap(call)(x)
    for i in range(2):
        assert all(map(same_bits, (each[i].contiguous() for each in results), call(x[i])))


RECORDED = ("topk", "maxk", "compact", "topk, lengths", "maxk, lengths", "compact, magnitude")


@pytest.mark.parametrize("name", RECORDED)
def test_compile(name, device):
    def call(x):
        return parts(FUNCTIONS[name](x, max_iter=3, search="bisection"))

    x = random_tensor((ROWS, COLS), device=device)
    assert all(map(same_bits, compiled(call, -x)(x), call(x)))


@pytest.mark.parametrize("name", RECORDED)
def test_gradients(name, device):
    """Exact and early-stopped, by autograd and by torch.func."""
    x = random_tensor((ROWS, COLS), torch.float64, device).requires_grad_()
    for early in EARLY[:3]:

        def total(x, search, early=early):
            values = parts(FUNCTIONS[name](x, search=search, **early))[0]
            return torch.where(values.isfinite(), values, 0).square().sum()

        expected = torch.autograd.grad(total(x, "fast"), x)[0]
        assert torch.equal(torch.autograd.grad(total(x, "bisection"), x)[0], expected)
        assert torch.equal(torch.func.grad(total)(x.detach(), "bisection"), expected)


class Selections(torch.nn.Module):
    def forward(self, x):
        early = {"max_iter": 3, "search": "bisection"}
        by_length = rtopk.topk(x, K, lengths=x.gt(0).sum(-1), **early)
        return rtopk.topk(x, K, **early).values, rtopk.maxk(x, K, **early), by_length.indices


def saved_and_loaded(module, x):
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, (x,)), file)
    file.seek(0)
    return torch.export.load(file).module()


def test_exported_saved_and_loaded():
    program = saved_and_loaded(Selections(), torch.randn(ROWS, COLS))
    x = torch.randn(ROWS, COLS)
    assert all(map(same_bits, program(x), Selections()(x)))
    operators = [node for node in program.graph.nodes if "rtopk" in str(node.target)]
    assert len(operators) == 3 and all(node.args[-1] is True for node in operators)


class BeforeThereWereSearches(torch.nn.Module):
    """The calls that graphs have which were saved then: the rule is their last argument."""

    def forward(self, x):
        rows = (x.gt(0).sum(-1), None, None)
        values, indices = OPS.topk(x, K, -1, True, False, 3, 0.0, torch.int64, True)
        kept = OPS.maxk(x, K, -1, True, 3, 0.0, True)
        mask = OPS.topk_mask(x, K, -1, True, 3, 0.0, True)
        compact, _ = OPS.compact(x, K, True, 3, 0.0, True)
        own = OPS.topk_rows(x, K, -1, *rows, None, True, True, False, False, 3, 0.0, torch.int64, True)[0]
        return values, indices, kept, mask, compact, OPS.maxk_rows(x, K, -1, *rows, True, False, 3, 0.0, True), own


def test_graphs_from_before_there_were_searches():
    program = saved_and_loaded(BeforeThereWereSearches(), torch.randn(ROWS, COLS))
    x = torch.randn(ROWS, COLS, requires_grad=True)
    early = {"max_iter": 3, "rule": "printed"}
    rows = early | {"lengths": x.gt(0).sum(-1)}
    pairs = rtopk.topk(x, K, sorted=False, **early)
    expected = [*pairs, rtopk.maxk(x, K, **early), rtopk.topk_mask(x, K, **early), rtopk.compact(x, K, **early).values]
    expected += [rtopk.maxk(x, K, **rows), rtopk.topk(x, K, **rows).values]
    for run in (program, torch.vmap(BeforeThereWereSearches())):
        results = run(x) if run is program else [each[0] for each in run(x.detach()[None])]
        assert all(same_bits(one.detach(), other.detach()) for one, other in zip(results, expected, strict=True))
    for place in (0, 2, 4, 5):
        one, other = (torch.autograd.grad(each[place].sum(), x)[0] for each in (program(x), expected))
        assert torch.equal(one, other)


# ---- Errors ----


@functions
def test_a_search_that_is_none_is_refused(name):
    x = torch.randn(ROWS, COLS)
    for max_iter in (None, 3):
        with pytest.raises(ValueError, match="search is 'exact'; accepted: 'fast' or 'bisection'"):
            FUNCTIONS[name](x, max_iter=max_iter, search="exact")
        for other in (1, None, True, ["fast"]):
            with pytest.raises(TypeError, match="search is .*; accepted: 'fast' or 'bisection'"):
                FUNCTIONS[name](x, max_iter=max_iter, search=other)


@pytest.mark.parametrize("name", list(FUNCTIONS)[:7])
def test_int64_is_sorted(name):
    x = torch.randint(9, (ROWS, COLS))
    FUNCTIONS[name](x, search="fast")
    FUNCTIONS[name](x.short(), search="bisection")
    with pytest.raises(RuntimeError, match="search is 'bisection', .* int64.* accepted: 'fast'"):
        FUNCTIONS[name](x, search="bisection")
