"""Operators called directly, with anything. attack.py makes the calls; here it runs, and is itself looked at."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rtopk.gnn  # noqa: F401  # registers what its operators need
from attack_calls import CALLS, NEVER_RECORDED, Maker, runs_on
from guarded_memory import Slot

ATTACK = Path(__file__).with_name("attack.py")
CALLS_MADE = {"cpu": 6000, "cuda": 4000}


def test_no_call_breaks_a_rule(device, capsys):
    calls = max(2000, int(CALLS_MADE[device] * float(os.environ.get("RTOPK_TEST_SCALE", "1"))))
    seed = os.environ.get("RTOPK_TEST_SEED", "1")
    command = [sys.executable, "-W", "ignore", ATTACK, "--device", device, "--calls", str(calls), "--seed", seed]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}\nexit code {done.returncode}: {command}"
    with capsys.disabled():
        print(f"\n{done.stdout.splitlines()[-1]}")


def test_memory_beside_a_tensor_is_watched():
    for at_end in (False, True):
        slot = Slot(5000)
        tensor = slot.flat(3, torch.float32, at_end)
        slot.open()
        slot.remember()
        assert slot.kept_within() and slot.unchanged()
        tensor.zero_()
        assert slot.kept_within() and not slot.unchanged()
        ctypes.memset(tensor.data_ptr() + (-1 if at_end else tensor.nbytes), 0, 1)
        assert not slot.kept_within()


@pytest.mark.parametrize("place", ["slot.address - 1", "slot.address + slot.size"])
def test_pages_around_it_end_the_process(place):
    lines = ["import ctypes", "from guarded_memory import Slot", "slot = Slot(5000)", f"ctypes.string_at({place}, 1)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=ATTACK.parent)
    assert done.returncode == -signal.SIGSEGV


def right_call(name, device):
    """One with elements in every tensor."""
    for seed in range(1000):
        arguments = CALLS[name](Maker(seed, device, []))
        if all(argument.numel() > 0 for argument in arguments if isinstance(argument, torch.Tensor)):
            return arguments
    raise AssertionError(name)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in NEVER_RECORDED])
def test_every_operator_keeps_pytorchs_rules(name, device):
    if not runs_on(name, device):
        pytest.skip(f"{name} is not for {device}")
    torch.library.opcheck(getattr(torch.ops.rtopk, name).default, tuple(right_call(name, device)))


@pytest.mark.parametrize("name", CALLS)
def test_every_operator_in_inference_mode(name, device):
    if not runs_on(name, device):
        pytest.skip(f"{name} is not for {device}")
    operator = getattr(torch.ops.rtopk, name).default
    outside, inside = right_call(name, device), right_call(name, device)
    expected = operator(*outside)
    with torch.inference_mode():
        inside = [argument.clone() if isinstance(argument, torch.Tensor) else argument for argument in inside]
        results = operator(*inside)
    for ours, other in zip([results, inside], [expected, outside], strict=True):
        ours, other = ([each] if isinstance(each, torch.Tensor) else each or [] for each in (ours, other))
        for one, two in zip(ours, other, strict=True):
            if isinstance(one, torch.Tensor):
                torch.testing.assert_close(one, two, equal_nan=True)
                assert one.is_inference()
