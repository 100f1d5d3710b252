"""The operators behind small calls of rtopk.topk select nothing wherever anything else would want to see the call."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import rtopk

OPS = torch.ops.rtopk
CALLS = {
    "_plain_topk": lambda x: OPS._plain_topk(x, 2),
    "_plain_topk_along": lambda x: OPS._plain_topk_along(x, 2, 0, False, True),
}


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def in_mode(call, x):
    with Mode():
        call(x)


def of_fake_tensor(call, x):
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
    call(fake)


# Each calls what it is given with a tensor, once or more.
WATCHERS = {
    "a mode": in_mode,
    "a fake tensor": of_fake_tensor,
    "make_fx": lambda call, x: make_fx(call)(x),
    "make_fx before dispatch": lambda call, x: make_fx(call, pre_dispatch=True)(x),
    "torch.jit.trace": lambda call, x: torch.jit.trace(call, x, check_trace=False),
    "vmap": lambda call, x: torch.vmap(call)(x),
    "the old vmap": lambda call, x: torch._vmap_internals._vmap(call)(x),
    "torch.func.grad": lambda call, x: torch.func.grad(lambda x: call(x).sum())(x),
    "torch.func.jvp": lambda call, x: torch.func.jvp(call, (x,), (x,)),
    "functionalize": lambda call, x: torch.func.functionalize(call)(x),
    "a functional tensor": lambda call, x: call(torch._to_functional_tensor(x)),
    "a lazily negated tensor": lambda call, x: call(torch._neg_view(x)),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("watcher", WATCHERS)
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_selected(name, watcher):
    seen = []

    def call(x):
        seen.append(CALLS[name](x))
        return x * 2

    WATCHERS[watcher](call, torch.randn(3, 4))
    assert seen and all(tuple(each) == (None, None) for each in seen)


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_topk(name, device):
    x = torch.randn(3, 4, device=device)
    expected = rtopk.topk(x, 2) if name == "_plain_topk" else rtopk.topk(x, 2, 0, False)
    for ours, other in zip(CALLS[name](x), expected, strict=True):
        assert torch.equal(ours, other)
