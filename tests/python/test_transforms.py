"""What PyTorch does with operators: opcheck, fake tensors, torch.compile, torch.export, vmap, torch.func."""

import copy

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import rtopk
from oracle import same_bits

OPERATOR_CALLS = {
    "topk": [
        (3,),
        (2, 0, False, False),
        (3, -1, True, True, 2, 0.0, torch.int32),
        (3, -1, True, True, 2, 0.0, torch.int64, True),
        (3, -1, True, True, 2, 0.0, torch.int64, True, True),
    ],
    "maxk": [(3,), (2, 0, False), (3, -1, True, 2, 0.0, True), (3, -1, True, 0, 0.0, False, True)],
    "topk_mask": [(3,), (2, 0, False), (3, -1, True, 2, 0.0, True), (3, -1, True, 0, 0.0, False, True)],
    "compact": [(3,), (3, False), (3, True, 2, 0.0, True), (3, True, 0, 0.0, False, True)],
}


@pytest.mark.parametrize("name", OPERATOR_CALLS)
def test_opcheck(name, device):
    operator = getattr(torch.ops.rtopk, name).default
    for arguments in OPERATOR_CALLS[name]:
        for requires_grad in (False, True):
            for shape in ((5, 8), (2, 5, 8)):
                x = torch.randn(shape, device=device, requires_grad=requires_grad)
                torch.library.opcheck(operator, (x, *arguments))
    torch.library.opcheck(operator, (torch.randn(8, 5, device=device).t(), *OPERATOR_CALLS[name][0]))


def test_fake_tensors():
    with FakeTensorMode():
        x = torch.empty(1 << 20, 1 << 20, dtype=torch.bfloat16)
        values, indices = rtopk.topk(x, 64, index_dtype=torch.int32)
        assert values.shape == indices.shape == (1 << 20, 64)
        assert (values.dtype, indices.dtype) == (torch.bfloat16, torch.int32)
        assert values.device == x.device
        assert rtopk.maxk(x, 5).shape == x.shape
        assert rtopk.topk_mask(x, 5, 0).dtype == torch.bool
        assert rtopk.compact(x[:, :300], 7).selectors.dtype == torch.uint16
    assert rtopk.topk(torch.empty(4, 9, device="meta"), 2, 0).values.shape == (2, 9)


class Network(torch.nn.Module):
    """Every form, and results of one feeding another."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 64)
        self.down = torch.nn.Linear(64, 16)
        self.maxk = rtopk.nn.MaxK(8)
        self.topk = rtopk.nn.TopK(4)

    def forward(self, x):
        hidden = self.maxk(self.up(x))
        values, indices = self.topk(self.down(hidden))
        compact = rtopk.compact(hidden, 3)
        dense = rtopk.expand(*compact, 64)
        early = rtopk.topk(hidden, 4, 0, max_iter=3, index_dtype=torch.int32)
        printed = rtopk.maxk(hidden, 4, max_iter=3, rule="printed")
        sums = dense.sum() + printed.sum() + early.values.sum() * rtopk.topk_mask(x, 2).sum()
        return values * indices + sums


def gradients(network, run, x):
    network.zero_grad()
    x = x.clone().requires_grad_()
    output = run(x)
    output.sum().backward()
    return [output.detach(), x.grad, *(parameter.grad.clone() for parameter in network.parameters())]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(backend, dynamic, device):
    torch.compiler.reset()
    network = Network().to(device)
    compiled = torch.compile(network, backend=backend, fullgraph=True, dynamic=dynamic)
    # Inductor takes seconds for a graph: one, where aot_eager makes those of every size, with and without a gradient.
    thorough = backend == "aot_eager"
    for rows in (8, 12, 17) if thorough or dynamic else (8,):
        x = torch.randn(rows, 16, device=device)
        if thorough:
            with torch.no_grad():
                torch.testing.assert_close(compiled(x), network(x))
        for ours, eager in zip(gradients(network, compiled, x), gradients(network, network, x), strict=True):
            torch.testing.assert_close(ours, eager)


def test_compiled_with_every_argument_dynamic():
    torch.compiler.reset()
    function = torch.compile(lambda x, k: rtopk.topk(x, k), backend="aot_eager", fullgraph=True, dynamic=True)
    for rows, cols, k in ((4, 10, 3), (5, 20, 7), (6, 30, 2)):
        x = torch.randn(rows, cols)
        ours = function(x, k)
        assert isinstance(ours, torch.return_types.topk)
        assert same_bits(ours.values, torch.topk(x, k).values) and torch.equal(ours.indices, torch.topk(x, k).indices)


def test_compiled_functions_go_into_one_graph():
    torch.compiler.reset()
    names = []

    def backend(graph, _):
        names.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    x = torch.randn(4, 16)
    torch.compile(lambda x: rtopk.topk(x, 2).values + 1, backend=backend, fullgraph=True)(x)
    torch.compile(lambda x: rtopk.topk(x, 2).values + 1, backend=backend, fullgraph=True)(x.requires_grad_())
    assert [name for name in names if "rtopk" in name] == ["rtopk.topk.default"] * 2


def test_compiled_out():
    torch.compiler.reset()

    @torch.compile(backend="aot_eager", fullgraph=True)
    def function(x, values, indices):
        rtopk.topk(x, 3, out=(values, indices))
        return values + 1

    x, values, indices = torch.randn(4, 9), torch.empty(4, 3), torch.empty(4, 3, dtype=torch.int64)
    assert torch.equal(function(x, values, indices), torch.topk(x, 3).values + 1)
    assert torch.equal(indices, torch.topk(x, 3).indices)


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict, tmp_path):
    network = Network().eval()
    x = torch.randn(8, 16)
    rows = torch.export.Dim("rows", min=4, max=1000)
    exported = torch.export.export(network, (x,), dynamic_shapes=({0: rows},), strict=strict)
    torch.export.save(exported, tmp_path / "network.pt2")
    loaded = torch.export.load(tmp_path / "network.pt2").module()
    for rows in (8, 20):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(loaded(x), network(x))


def by_expert(x):
    routes = rtopk.moe.route(x, 2)
    return *routes, *rtopk.moe.group_by_expert(routes.ids, 5)


VMAPPED = {
    "topk": lambda x: rtopk.topk(x, 2),
    "topk, dim 0": lambda x: rtopk.topk(x, 2, 0),
    "topk, int32": lambda x: rtopk.topk(x, 2, index_dtype=torch.int32, largest=False),
    "mask": lambda x: (rtopk.topk_mask(x, 2, 0),),
    "maxk": lambda x: (rtopk.maxk(x, 2, -2),),
    "compact": lambda x: (rtopk.compact(x, 2).values, rtopk.compact(x, 2).selectors),
    "expand": lambda x: (rtopk.expand(*rtopk.compact(x, 2), x.shape[-1]),),
    "moe": by_expert,
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", VMAPPED)
def test_vmap(name, requires_grad, device):
    x = torch.randn(3, 4, 5, device=device, requires_grad=requires_grad)
    for in_dim in (0, 1, 2, -1):
        mapped = torch.vmap(VMAPPED[name], in_dims=in_dim)(x)
        looped = [VMAPPED[name](part) for part in x.unbind(in_dim)]
        for i, result in enumerate(mapped):
            assert same_bits(result.detach(), torch.stack([parts[i] for parts in looped]).detach())
    nested = torch.vmap(torch.vmap(lambda row: rtopk.topk(row, 2).values))(x)
    assert torch.equal(nested, rtopk.topk(x, 2).values)


def test_vmap_of_numbers():
    x = torch.randn(5)
    values, indices = torch.vmap(lambda number: rtopk.topk(number, 1))(x)
    assert torch.equal(values, x) and torch.equal(indices, torch.zeros(5, dtype=torch.int64))
    assert torch.equal(torch.vmap(lambda number: rtopk.maxk(number, 1))(x), x)


def test_functional_transforms():
    x = torch.randn(4, 9, dtype=torch.float64)

    def loss(row):
        return (rtopk.topk(row, 3).values ** 2).sum() + (rtopk.maxk(row, 2) ** 3).sum()

    def torch_loss(row):
        return (torch.topk(row, 3).values ** 2).sum() + (torch.topk(row, 2).values ** 3).sum()

    for transform in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
        torch.testing.assert_close(torch.vmap(transform(loss))(x), torch.vmap(transform(torch_loss))(x))
        torch.testing.assert_close(transform(loss)(x[0]), transform(torch_loss)(x[0]))


FOR_TORCH_FUNC = {
    "topk": lambda x: rtopk.topk(x, 3).values,
    "topk, all arguments": lambda x: rtopk.topk(x, 3, 0, False, False, index_dtype=torch.int32).values,
    "maxk": lambda x: rtopk.maxk(x, 3),
    "compact": lambda x: rtopk.compact(x, 3).values,
}


@pytest.mark.parametrize("name", FOR_TORCH_FUNC)
def test_compiled_functional_transforms(name):
    torch.compiler.reset()
    gradient = torch.func.grad(lambda x: (FOR_TORCH_FUNC[name](x) ** 2).sum())
    x = torch.randn(9, dtype=torch.float64)
    compiled = torch.compile(gradient, backend="aot_eager", fullgraph=True)(x)
    assert compiled.count_nonzero() == 3
    assert torch.equal(compiled, gradient(x))
    mapped = torch.compile(torch.vmap(gradient), backend="aot_eager", fullgraph=True)
    rows = torch.randn(4, 9, dtype=torch.float64)
    assert torch.equal(mapped(rows), torch.vmap(gradient)(rows))


def test_deep_copies_of_compiled_modules_work():
    network = copy.deepcopy(Network())
    assert network(torch.randn(8, 16)).shape == (8, 4)
