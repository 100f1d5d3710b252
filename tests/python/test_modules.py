"""Modules, and where people run them: pickling, autocast, deterministic mode, threads, processes."""

import copy
import io
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import rtopk
from oracle import RULES, mask_of, random_tensor, same_bits, sorted_topk

MODULES = [
    (rtopk.nn.MaxK(4), "MaxK(k=4)"),
    (rtopk.nn.MaxK(4, 0, False, max_iter=3), "MaxK(k=4, dim=0, largest=False, max_iter=3)"),
    (rtopk.nn.MaxK(4, max_iter=1, rule="printed"), "MaxK(k=4, max_iter=1, rule='printed')"),
    (rtopk.nn.MaxK(4, epsilon=0.1), "MaxK(k=4, epsilon=0.1)"),
    (rtopk.nn.MaxK(4, search="bisection"), "MaxK(k=4, search='bisection')"),
    (rtopk.nn.TopK(4, search="bisection"), "TopK(k=4, search='bisection')"),
    (rtopk.nn.MaxK(4, magnitude=True), "MaxK(k=4, magnitude=True)"),
    (rtopk.nn.TopK(4, magnitude=True), "TopK(k=4, magnitude=True)"),
    (rtopk.nn.TopK(4), "TopK(k=4)"),
    (
        rtopk.nn.TopK(4, 0, sorted=False, index_dtype=torch.int32),
        "TopK(k=4, dim=0, sorted=False, index_dtype=torch.int32)",
    ),
    (rtopk.nn.TopK(4, max_iter=1, rule="printed"), "TopK(k=4, max_iter=1, rule='printed')"),
]


def outputs(module, x):
    result = module(x)
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("module, text", MODULES)
def test_modules_copy_pickle_and_describe_themselves(module, text, device):
    assert str(module) == text
    x = random_tensor((9, 12), device=device)
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), torch.load(buffer, weights_only=False)):
        assert str(other) == text
        for ours, theirs in zip(outputs(other, x), outputs(module, x), strict=True):
            assert same_bits(ours, theirs)
    assert module.state_dict() == {}


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: rtopk.nn.MaxK("a"), TypeError, "k is 'a'; accepted: an integer"),
        (lambda: rtopk.nn.MaxK(True), TypeError, "k is True; accepted: an integer"),
        (lambda: rtopk.nn.MaxK(2.0), TypeError, "k is 2.0; accepted: an integer"),
        (lambda: rtopk.nn.MaxK(-1), ValueError, "k is -1; accepted: 0 or more"),
        (lambda: rtopk.nn.MaxK(2, "last"), TypeError, "dim is 'last'; accepted: an integer"),
        (lambda: rtopk.nn.MaxK(2, -1, "no"), TypeError, "largest is 'no'; accepted: True or False"),
        (lambda: rtopk.nn.MaxK(2, max_iter=0), ValueError, "max_iter is 0; accepted: 1 to 10000"),
        (lambda: rtopk.nn.MaxK(2, max_iter="3"), TypeError, "max_iter is '3'; accepted: an integer"),
        (lambda: rtopk.nn.MaxK(2, epsilon=2), ValueError, r"epsilon is 2; accepted: 0 \(exact\) to 1"),
        (lambda: rtopk.nn.MaxK(2, epsilon=float("nan")), ValueError, "epsilon is nan"),
        (lambda: rtopk.nn.MaxK(2, epsilon=None), TypeError, "epsilon is None; accepted: a number"),
        (lambda: rtopk.nn.MaxK(2, max_iter=3, epsilon=0.1), ValueError, "max_iter is 3 and epsilon 0.1; accepted: one"),
        (
            lambda: rtopk.nn.MaxK(2, rule="first"),
            ValueError,
            "rule is 'first'; accepted: 'threshold_first' or 'printed'",
        ),
        (lambda: rtopk.nn.TopK(2, rule=None), TypeError, "rule is None; accepted: 'threshold_first' or 'printed'"),
        (lambda: rtopk.nn.MaxK(2, search="exact"), ValueError, "search is 'exact'; accepted: 'fast' or 'bisection'"),
        (lambda: rtopk.nn.TopK(2, search=0), TypeError, "search is 0; accepted: 'fast' or 'bisection'"),
        (lambda: rtopk.nn.TopK([2]), TypeError, r"k is \[2\]; accepted: an integer"),
        (lambda: rtopk.nn.MaxK(2, magnitude=1), TypeError, "magnitude is 1; accepted: True or False"),
        (lambda: rtopk.nn.TopK(2, sorted=1), TypeError, "sorted is 1; accepted: True or False"),
        (lambda: rtopk.nn.TopK(2, index_dtype=torch.float32), ValueError, "index_dtype is torch.float32; accepted"),
    ],
)
def test_wrong_arguments_are_refused_when_a_module_is_made(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_integers_of_any_kind_are_taken():
    assert str(rtopk.nn.MaxK(torch.tensor(3), max_iter=torch.tensor(2))) == "MaxK(k=3, max_iter=2)"


def test_modules_are_the_functions():
    x = random_tensor((90, 12))
    assert same_bits(rtopk.nn.MaxK(3, 0)(x), torch.where(mask_of(x, 3, 0), x, 0.0))
    values, indices = rtopk.nn.TopK(3, largest=False)(x)
    assert same_bits(values, sorted_topk(x, 3, largest=False)[0])
    assert torch.equal(rtopk.nn.TopK(3, index_dtype=torch.int32)(x).indices, sorted_topk(x, 3)[1].int())
    early = [{"max_iter": 2, "rule": rule} for rule in RULES]
    for options in early:
        assert same_bits(rtopk.nn.MaxK(3, **options)(x), rtopk.maxk(x, 3, **options))
        assert torch.equal(rtopk.nn.TopK(3, **options)(x).indices, rtopk.topk(x, 3, **options).indices)
    assert not same_bits(*(rtopk.nn.MaxK(3, **options)(x) for options in early))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_autocast_does_as_with_torch(dtype, device):
    x = random_tensor((9, 12), dtype, device).requires_grad_()
    with torch.autocast(device, torch.bfloat16):
        assert rtopk.topk(x, 3).values.dtype == torch.topk(x, 3).values.dtype == dtype
        assert rtopk.maxk(x, 3).dtype == dtype
        assert rtopk.compact(x, 3).values.dtype == dtype
        layer = torch.nn.Sequential(torch.nn.Linear(12, 24), rtopk.nn.MaxK(3)).to(device)
        assert layer(x.float()).dtype == torch.bfloat16
        layer(x.float()).sum().backward()
    assert layer[0].weight.grad.dtype == torch.float32


def test_deterministic_algorithms(device):
    torch.use_deterministic_algorithms(True)
    try:
        results = []
        for _ in range(3):
            x = torch.arange(3000.0, device=device).remainder(7).view(10, 300).requires_grad_()
            loss = rtopk.topk(x, 40).values.sum() + rtopk.maxk(x, 30).sum() + rtopk.compact(x, 20).values.sum()
            loss.backward()
            results.append(x.grad)
        assert all(torch.equal(results[0], result) for result in results)
        assert results[0].sum() == 10 * (40 + 30 + 20)
    finally:
        torch.use_deterministic_algorithms(False)


def test_results_do_not_depend_on_the_number_of_threads():
    x = random_tensor((3000, 300), ties=True)
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            results.append((*rtopk.topk(x, 17), rtopk.maxk(x, 9)))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(same_bits(first, second) for first, second in zip(results[0], other, strict=True))


def test_many_callers_at_once(device):
    x = [random_tensor((500, 200 + i), device=device) for i in range(8)]
    expected = [sorted_topk(tensor, 7) for tensor in x]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for (values, indices), found in zip(expected, pool.map(lambda t: rtopk.topk(t, 7), x), strict=True):
                assert same_bits(found.values, values) and torch.equal(found.indices, indices)


def test_data_loader_workers():
    """Forked after the parent has used its threads."""
    code = """
import sys
sys.path[:0] = sys.argv[1:]
import torch, rtopk
rtopk.topk(torch.randn(4000, 200), 5)
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return rtopk.topk(torch.arange(400000.0).view(2000, 200), 3).indices
for batch in torch.utils.data.DataLoader(Rows(), num_workers=2):
    assert batch[0, 0].tolist() == [199, 198, 197]
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, Path(rtopk.__file__).parents[1]], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "done\n", done.stderr


TRACED = {
    "MaxK, few of many": rtopk.nn.MaxK(2),
    "MaxK, half": rtopk.nn.MaxK(32),
    "TopK": rtopk.nn.TopK(4),
    "MaxK, printed": rtopk.nn.MaxK(32, max_iter=3, rule="printed"),
    "MaxK, magnitude": rtopk.nn.MaxK(5, magnitude=True),
    "TopK, magnitude": rtopk.nn.TopK(5, magnitude=True),
    "TopK, unsorted and early": rtopk.nn.TopK(4, sorted=False, max_iter=3, index_dtype=torch.int32),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", [*TRACED, "compact"])
@pytest.mark.parametrize("trained", [False, True])
def test_traced_by_torch_jit(name, trained):
    """Its check traces again without gradients, and wants the same graph."""
    up = torch.nn.Linear(16, 64).requires_grad_(trained)
    if name == "compact":
        model = torch.nn.Sequential(up, Values())
    else:
        model = torch.nn.Sequential(up, TRACED[name])
    traced = torch.jit.trace(model, (torch.randn(4, 16),))

    def results(run, x):
        x = x.clone().requires_grad_()
        output = run(x)
        parts = [output] if isinstance(output, torch.Tensor) else list(output)
        parts[0].square().sum().backward()
        return [*(part.detach() for part in parts), x.grad]

    x = torch.randn(9, 16)
    for ours, eager in zip(results(traced, x), results(model, x), strict=True):
        assert torch.equal(ours, eager)


class Values(torch.nn.Module):
    def forward(self, x):
        return rtopk.compact(x, 5).values
