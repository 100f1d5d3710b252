"""Graphs that are recorded and kept: the rows of the table in docs/python.md. Each gives what the eager call gives, for
another input than it was recorded with, and has its gradient, though it was recorded without."""

import re
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import rtopk
from recorded import compiled, results

ROOT = Path(__file__).resolve().parents[2]


class Expanded(torch.nn.Module):
    def forward(self, x):
        compact = rtopk.compact(x, 3)
        return rtopk.expand(compact.values, compact.selectors, 12)


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class FirstOf(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[0]


def of_rows(x):
    numbers = x.detach().gt(0).sum(-1).clamp(min=3)  # another length for each row
    return rtopk.topk(x, 3, lengths=numbers, ids=x.detach().long()).values


MODULES = {
    "topk": Function(lambda x: rtopk.topk(x, 3).values),
    "topk, all arguments": Function(
        lambda x: rtopk.topk(x, 2, 0, False, False, max_iter=3, rule="printed", search="bisection").values
    ),
    "topk, int32": Function(lambda x: rtopk.topk(x, 3, index_dtype=torch.int32).values),
    "maxk": Function(lambda x: rtopk.maxk(x, 5)),
    "maxk, few": Function(lambda x: rtopk.maxk(x, 1)),
    "topk_mask": Function(lambda x: rtopk.topk_mask(x, 3) * x),
    "compact": Expanded(),
    "topk, rows": Function(of_rows),
    "topk, magnitude": Function(lambda x: rtopk.topk(x, 3, 0, magnitude=True).values),
    "maxk, magnitude": Function(lambda x: rtopk.maxk(x, 3, magnitude=True)),
    "topk_mask, magnitude": Function(lambda x: rtopk.topk_mask(x, 3, magnitude=True) * x),
    "compact, magnitude": Function(lambda x: rtopk.compact(x, 3, magnitude=True).values),
    "topk_segments": Function(lambda x: rtopk.topk_segments(x.flatten(), torch.tensor([0, 4, 9, 20]), 3).values),
    "nn.MaxK": rtopk.nn.MaxK(3, max_iter=4),
    "nn.MaxK, printed": rtopk.nn.MaxK(3, max_iter=2, rule="printed", search="bisection"),
    "nn.TopK": FirstOf(rtopk.nn.TopK(3)),
}


def of_no_grad(record):
    def recorded(module, x):
        with torch.no_grad():
            return record(module, x)

    return recorded


WAYS = {
    "`torch.compile(fullgraph=True)`": compiled,
    "`torch.export`": lambda module, x: torch.export.export(module, (x,)).module(),
    "`torch.export`, strict": lambda module, x: torch.export.export(module, (x,), strict=True).module(),
    "`torch.export`, decomposed": lambda module, x: torch.export.export(module, (x,)).run_decompositions().module(),
    "`make_fx`": lambda module, x: make_fx(module)(x),
    "`make_fx(pre_dispatch=True)`": lambda module, x: make_fx(module, pre_dispatch=True)(x),
    "`make_fx(tracing_mode='symbolic')`": lambda module, x: make_fx(module, tracing_mode="symbolic")(x),
    "`torch.jit.trace`": lambda module, x: torch.jit.trace(module, (x,)),
    "`torch.fx.symbolic_trace`": lambda module, x: torch.fx.symbolic_trace(module),
}
SCRIPTED = "`torch.jit.script`"
EXPORTED_TO_ONNX = "`torch.onnx.export`"


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("way", WAYS)
def test_recorded_without_a_gradient(way, name):
    module = MODULES[name]
    recorded = of_no_grad(WAYS[way])(module, torch.randn(4, 12))
    x = torch.randn(4, 12)
    for ours, eager in zip(results(recorded, x), results(module, x), strict=True):
        assert torch.equal(ours, eager)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", ["topk", "maxk", "compact", "nn.MaxK"])
@pytest.mark.parametrize("way", WAYS)
def test_recorded_with_a_gradient(way, name):
    module = MODULES[name]
    recorded = WAYS[way](module, torch.randn(4, 12, requires_grad=True))
    x = torch.randn(4, 12)
    for ours, eager in zip(results(recorded, x), results(module, x), strict=True):
        assert torch.equal(ours, eager)


def test_saved_graphs_hold_operators_that_have_derivatives():
    """By what torch has for each of them at autograd: a kernel of ours, not the fallback."""
    exported = torch.export.export(
        torch.nn.Sequential(*(MODULES[name] for name in ("nn.MaxK", "topk"))), (torch.randn(4, 12),)
    )
    names = {str(node.target) for node in exported.graph.nodes if "rtopk" in str(node.target)}
    assert names == {"rtopk.maxk.default", "rtopk.topk.default"}
    for name in names:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"rtopk::{name.split('.')[1]}", "Autograd")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    "module",
    [
        rtopk.nn.MaxK(3),
        rtopk.nn.MaxK(2, 0, False, max_iter=3),
        rtopk.nn.MaxK(4, max_iter=2, rule="printed"),
        rtopk.nn.TopK(4, max_iter=2, rule="printed"),
        rtopk.nn.MaxK(3, 0, search="bisection"),
        rtopk.nn.TopK(3, magnitude=True, search="bisection"),
        rtopk.nn.MaxK(3, 0, magnitude=True),
        rtopk.nn.TopK(4, largest=False, max_iter=2, magnitude=True, index_dtype=torch.int32),
        rtopk.nn.TopK(3),
        rtopk.nn.TopK(2, 0, False, False, epsilon=0.1, index_dtype=torch.int32),
    ],
    ids=str,
)
def test_scripted_modules(module):
    scripted = torch.jit.script(torch.nn.Sequential(module))
    x, y = torch.randn(4, 12).requires_grad_(), None
    y = x.detach().clone().requires_grad_()
    ours, eager = scripted(x), module(y)
    if isinstance(eager, tuple):
        assert torch.equal(ours[1], eager[1])
        ours, eager = ours[0], eager[0]
    assert torch.equal(ours, eager)
    ours.square().sum().backward()
    eager.square().sum().backward()
    assert torch.equal(x.grad, y.grad)


def test_scripted_functions_call_the_operators():
    @torch.jit.script
    def function(x: torch.Tensor):
        return torch.ops.rtopk.topk(x, 2)[0]

    x = torch.randn(4, 12)
    assert torch.equal(function(x), rtopk.topk(x, 2).values)


# ---- ONNX ----


def pairs_of_ties(x):
    return tuple(rtopk.topk(x, 4)) + tuple(rtopk.topk(x, 4, 0, False, False, index_dtype=torch.int32))


FOR_ONNX = {
    "topk": Function(pairs_of_ties),
    "maxk": Function(lambda x: rtopk.maxk(x, 4)),
    "topk_mask": Function(lambda x: rtopk.topk_mask(x, 4, 0)),
    "compact": Function(lambda x: tuple(rtopk.compact(x, 4))),
    "nn.MaxK": rtopk.nn.MaxK(3),
}


def parts(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", FOR_ONNX)
def test_onnx_is_given_topk_alone(name, monkeypatch):
    """What torch.onnx.export would translate, without the packages that it needs to do so."""
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    module = FOR_ONNX[name]
    exported = torch.export.export(module, (torch.randn(6, 12),))
    targets = [str(node.target) for node in exported.graph.nodes]
    assert "aten.topk.default" in targets
    assert not [target for target in targets if "rtopk" in target]


LENGTHS = torch.tensor([12, 3, 0, 5, 1, 4])
NOT_FOR_ONNX = {
    "max_iter": lambda x: rtopk.topk(x, 3, max_iter=2).values,
    "epsilon": lambda x: rtopk.maxk(x, 3, epsilon=0.1),
    "lengths": lambda x: rtopk.topk(x, 3, lengths=LENGTHS).values,
    "starts": lambda x: rtopk.maxk(x, 3, starts=LENGTHS),
    "row_k": lambda x: rtopk.topk_mask(x, 3, row_k=LENGTHS),
    "ids": lambda x: rtopk.topk(x, 3, ids=torch.arange(12)).indices,
    "magnitude": lambda x: rtopk.compact(x, 3, magnitude=True).values,
    "return_threshold": lambda x: rtopk.topk(x, 3, return_threshold=True).threshold,
    "topk_segments": lambda x: rtopk.topk_segments(x.flatten(), LENGTHS.cumsum(0), 3).indices,
    "topk_paged": lambda x: rtopk.topk_paged(x, 3, LENGTHS, LENGTHS.int()[:, None], 12),
    "moe.route": lambda x: rtopk.moe.route(x, 3).weights,
}


@pytest.mark.parametrize("name", NOT_FOR_ONNX)
def test_onnx_is_given_an_operator_of_ours_for_the_rest(name, monkeypatch):
    """It does not know them and says so, where TopK would select others."""
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    exported = torch.export.export(Function(NOT_FOR_ONNX[name]), (torch.randn(6, 12),))
    targets = [str(node.target) for node in exported.graph.nodes]
    assert [target for target in targets if "rtopk" in target] and "aten.topk.default" not in targets
    (row,) = re.findall(r"^\| `torch.onnx.export` .*$", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE)
    assert f"`{name}`" in row.split("With ")[1]


@pytest.mark.parametrize("name", FOR_ONNX)
def test_onnx(name, tmp_path):
    onnx = pytest.importorskip("onnx", reason="the packages onnx and onnxscript are not installed")
    pytest.importorskip("onnxscript", reason="the packages onnx and onnxscript are not installed")
    from onnx.reference import ReferenceEvaluator

    x = torch.randint(0, 4, (6, 12)).float()  # with ties, of which the lowest indices are selected there too
    path = str(tmp_path / "model.onnx")
    torch.onnx.export(FOR_ONNX[name].eval(), (x,), path, dynamo=True, verbose=False)
    model = onnx.load(path)
    assert "TopK" in {node.op_type for node in model.graph.node}
    found = ReferenceEvaluator(model).run(None, {model.graph.input[0].name: x.numpy()})
    for ours, expected in zip(found, parts(FOR_ONNX[name](x)), strict=True):
        assert torch.equal(torch.from_numpy(ours), expected)


# ---- The table ----


def test_the_table_in_the_docs_has_these_rows():
    text = (ROOT / "docs" / "python.md").read_text()
    rows = set(re.findall(r"^\| (`.*?)\s*\|", text.split("## Recorded graphs")[1].split("\n## ")[0], re.MULTILINE))
    assert rows == {*WAYS, SCRIPTED, EXPORTED_TO_ONNX}
