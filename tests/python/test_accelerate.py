"""accelerate(): torch.topk by rtopk in code that does not know of it, and everything else left alone."""

import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import topk as topk_imported_by_name
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import rtopk
from oracle import DTYPES, by_index, random_tensor, same_bits, sorted_topk
from rtopk import _accelerate
from test_topk import BAD_CALLS, LAYOUTS


@pytest.fixture(autouse=True)
def routed_device(request):
    """Without Highway CPU tensors are left to torch (test_scalar_build.py): then GPU tensors alone are tested."""
    on_gpu = "device" in request.fixturenames and request.getfixturevalue("device") == "cuda"
    if not on_gpu and not rtopk.info()["highway"]:
        pytest.skip(rtopk.info()["cpu"])


CALLS = {
    "torch.topk": lambda x, *rest, **options: torch.topk(x, *rest, **options),
    "Tensor.topk": lambda x, *rest, **options: x.topk(*rest, **options),
    "imported by name": lambda x, *rest, **options: topk_imported_by_name(x, *rest, **options),
    "torch.ops.aten.topk": lambda x, *rest, **options: torch.ops.aten.topk(x, *rest, **options),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_calls_are_routed(call, dtype, device):
    # On a GPU short columns gain nothing and are torch's.
    x = random_tensor((300, 50) if device == "cpu" else (6000, 100), dtype, device, ties=True)
    with rtopk.accelerate():
        for dim in (0, 1, -1):
            for largest in (True, False):
                ours = CALLS[call](x, 20, dim, largest)
                expected = sorted_topk(x, 20, dim, largest)
                assert same_bits(ours[0], expected[0]) and torch.equal(ours[1], expected[1])
                unsorted = CALLS[call](x, 20, dim, largest, sorted=False)
                assert torch.equal(unsorted[1], by_index(*expected, dim)[1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    x = LAYOUTS[layout]()
    with rtopk.accelerate():
        for dim in range(x.dim()):
            values, indices = torch.topk(x, 3, dim)
            assert torch.equal(values, sorted_topk(x, 3, dim)[0])
            assert torch.equal(values, x.gather(dim, indices))


def routed():
    """Whether torch.topk goes to rtopk, told by which of equal elements it takes."""
    x = torch.zeros(4096)
    return torch.equal(torch.topk(x, 100).indices, torch.arange(100))


def test_ties_tell_who_selected():
    assert not routed()
    with rtopk.accelerate():
        assert routed()
    assert not routed()


LEFT_ALONE = {
    "int64": lambda: torch.topk(torch.randperm(50), 5),
    "int64, long": lambda: torch.topk(torch.zeros(4096, dtype=torch.int64), 100),
    "few elements along another dimension": lambda: torch.topk(torch.zeros(100, 20), 30, 0),
    "few elements, not contiguous": lambda: torch.topk(torch.zeros(20, 200)[:, :100], 30),
    "short rows along another dimension": lambda: torch.topk(torch.zeros(7, 5000), 3, 0),
    "few rows along another dimension": lambda: torch.topk(torch.zeros(5000, 15), 30, 0),
    "whole rows of float64 in order": lambda: torch.topk(torch.zeros(2, 5000, dtype=torch.float64), 4900),
    "whole rows of int32 in order": lambda: torch.topk(torch.zeros(2, 5000, dtype=torch.int32), 5000, largest=False),
    "uint8": lambda: torch.topk(torch.arange(50, dtype=torch.uint8), 5),
    "k is 0": lambda: torch.topk(torch.randn(3, 4), 0),
    "no dimensions": lambda: torch.topk(torch.tensor(1.0), 1),
    "no elements": lambda: torch.topk(torch.empty(3, 0), 0),
    "no rows": lambda: torch.topk(torch.empty(0, 3), 2),
    "out": lambda: torch.topk(torch.arange(9.0), 2, out=(torch.empty(2), torch.empty(2, dtype=torch.int64))),
    "quantized": lambda: torch.topk(torch.quantize_per_tensor(torch.arange(9.0), 0.1, 0, torch.quint8), 2)[
        0
    ].dequantize(),
    "meta": lambda: torch.topk(torch.empty(3, 4, device="meta"), 2)[0].shape,
}


@pytest.mark.parametrize("call", LEFT_ALONE)
def test_what_rtopk_does_not_do_is_torchs(call):
    torch.manual_seed(1)
    expected = LEFT_ALONE[call]()
    torch.manual_seed(1)
    before = torch.ops.rtopk._routed_calls()
    with rtopk.accelerate():
        result = LEFT_ALONE[call]()
    assert torch.ops.rtopk._routed_calls() == before
    if isinstance(expected, tuple) and not isinstance(expected, torch.Size):
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(result, expected, strict=True))
    else:
        assert (result == expected) if not isinstance(expected, torch.Tensor) else torch.equal(result, expected)


ROUTED = {
    "along another dimension": lambda: torch.topk(torch.zeros(100, 200), 30, 0),
    "half of a row of float64 in order": lambda: torch.topk(torch.zeros(2, 5000, dtype=torch.float64), 2500),
    "whole rows of float64 in any order": lambda: torch.topk(
        torch.zeros(5000, dtype=torch.float64), 5000, sorted=False
    ),
    "whole rows of float32 in order": lambda: torch.topk(torch.zeros(5000), 5000),
    "one long row along another dimension": lambda: torch.topk(torch.zeros(10000, 1), 30, 0),
    "many elements, not contiguous": lambda: torch.topk(torch.zeros(200, 200)[:, :100], 30),
    "one row": lambda: torch.topk(torch.zeros(1, 128), 8),
}


@pytest.mark.parametrize("call", ROUTED)
def test_what_gains_is_routed(call):
    before = torch.ops.rtopk._routed_calls()
    ROUTED[call]()
    assert torch.ops.rtopk._routed_calls() == before
    with rtopk.accelerate():
        values, indices = ROUTED[call]()
    assert torch.ops.rtopk._routed_calls() == before + 1
    dim = 0 if "another dimension" in call else -1
    assert torch.equal(indices, torch.arange(indices.size(dim)).view([-1, 1] if dim == 0 else [-1]).expand_as(indices))


@pytest.mark.parametrize("call", BAD_CALLS)
def test_errors_are_torchs_own(call):
    with pytest.raises(Exception) as theirs:
        BAD_CALLS[call](torch.topk)
    with rtopk.accelerate(), pytest.raises(Exception) as ours:
        BAD_CALLS[call](torch.topk)
    assert ours.type is theirs.type
    assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]


def kernel_of_topk():
    """Where torch's dispatcher says that the kernel for CPU tensors was registered."""
    (line,) = re.findall(r"^CPU: (registered at \S+)", torch._C._dispatch_dump("aten::topk"), re.MULTILINE)
    return line


@pytest.fixture
def older_threads_are_nobody(monkeypatch):
    """torch.compile, which other tests use, has threads that stay."""
    before = threading.active_count()
    monkeypatch.setattr(_accelerate, "_is_the_only_thread", lambda: threading.active_count() == before)
    rtopk.set_accelerated(False)


@pytest.mark.usefixtures("older_threads_are_nobody")
def test_switched_off_torchs_kernel_is_back():
    assert "routing.cpp" not in kernel_of_topk()
    with rtopk.accelerate():
        assert "routing.cpp" in kernel_of_topk()
    assert "routing.cpp" not in kernel_of_topk()


@pytest.mark.usefixtures("older_threads_are_nobody")
def test_where_other_threads_run_the_kernel_stays_and_calls_torchs():
    x = torch.zeros(4096)
    expected = torch.topk(x, 100).indices
    ends = threading.Event()
    other = threading.Thread(target=ends.wait)
    other.start()
    try:
        with rtopk.accelerate():
            assert routed()
        assert "routing.cpp" in kernel_of_topk()
        assert not rtopk.is_accelerated() and not routed()
        assert torch.equal(torch.topk(x, 100).indices, expected)
        with pytest.raises(IndexError, match="Dimension out of range"):
            torch.topk(x, 1, 3)
    finally:
        ends.set()
        other.join()
    rtopk.set_accelerated(False)
    assert "routing.cpp" not in kernel_of_topk()


def test_blocks_nest_and_end_with_exceptions():
    with rtopk.accelerate():
        with rtopk.accelerate():
            pass
        assert rtopk.is_accelerated() and routed()
    assert not rtopk.is_accelerated()
    with pytest.raises(ZeroDivisionError), rtopk.accelerate():
        raise ZeroDivisionError
    assert not rtopk.is_accelerated()


def test_decorator():
    @rtopk.accelerate()
    def function():
        return routed()

    assert function() and function() and not routed()


def test_process_wide_switch():
    rtopk.set_accelerated(True)
    try:
        with rtopk.accelerate():
            pass
        assert rtopk.is_accelerated() and routed()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(routed).result()
    finally:
        rtopk.set_accelerated(False)
    assert not routed()


def test_nothing_is_printed_or_warned(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rtopk.accelerate():
            torch.topk(torch.randn(9), 3)
    assert capfd.readouterr() == ("", "")


def test_many_threads_switch_and_call():
    x = random_tensor((20, 60), ties=True)
    expected = torch.topk(x, 9).values
    failures = []

    def work():
        for _ in range(100):
            with rtopk.accelerate():
                if not torch.equal(torch.topk(x, 9).indices, sorted_topk(x, 9)[1]):
                    failures.append("wrong indices")
            if not torch.equal(torch.topk(x, 9).values, expected):
                failures.append("wrong values")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert not rtopk.is_accelerated()


class Model(torch.nn.Module):
    """Calls torch.topk in both ways, and does not know of rtopk."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 64)

    def forward(self, x):
        values, indices = self.layer(x).topk(8)
        return torch.zeros(x.shape[0], 64, device=x.device).scatter(1, indices, values) * torch.topk(x, 2).values.sum()


def trained(model, run, x):
    model.zero_grad()
    x = x.clone().requires_grad_()
    output = run(x)
    output.square().sum().backward()
    return [output.detach(), x.grad, *(parameter.grad.clone() for parameter in model.parameters())]


@pytest.mark.parametrize("how", ["eager", "checkpointed", "compiled", "compiled before"])
def test_an_unchanged_model_trains_to_the_same_numbers(how, device):
    torch.compiler.reset()
    model, x = Model().to(device), torch.randn(16, 32, device=device)
    expected = trained(model, model, x)
    run = model
    if how == "checkpointed":
        run = lambda x: checkpoint(model, x, use_reentrant=False)  # noqa: E731
    elif how.startswith("compiled"):
        run = torch.compile(model, backend="aot_eager", fullgraph=True)
        if how == "compiled before":
            run(x)
    with rtopk.accelerate():
        results = trained(model, run, x)
    for ours, theirs in zip(results, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_vmap_gradients_and_transforms_stay_torchs():
    x = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    with rtopk.accelerate():
        assert torch.autograd.gradcheck(lambda x: torch.topk(x, 3).values, (x,), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(lambda x: torch.topk(x, 3).values ** 2, (x,))
        assert torch.equal(torch.vmap(lambda row: row.topk(2).values)(x), x.topk(2).values)
        with Seen() as seen:
            torch.topk(x, 3)
    assert "aten.topk.default" in seen.names


def test_autocast_leaves_the_type_alone():
    x = torch.randn(4, 16)
    with rtopk.accelerate(), torch.autocast("cpu", torch.bfloat16):
        assert torch.topk(x, 2).values.dtype == torch.float32
