"""Calls every operator of torch.ops.rtopk with arguments that are right, and wrong in many ways.

    python attack.py [--calls N] [--seed S] [--first I] [--device cpu|cuda]

An operator returns or refuses. It never touches memory that it was not given, writes to nothing that its schema does
not name, and to nothing at all if it refuses. On the CPU tensors lie in memory between pages that end the process where
they are touched; with CUDA, run it under compute-sanitizer and with PYTORCH_NO_CUDA_MEMORY_CACHING=1. Ends with 0 and a
count, or with 1 and the call that broke a rule. A call that ends the process is the last one that --verbose shows.
"""

import argparse
import collections
import faulthandler
import os
import sys

if "RTOPK_TEST_SITE" in os.environ:
    sys.path.insert(0, os.environ["RTOPK_TEST_SITE"])

import torch

import rtopk
import rtopk.gnn  # noqa: F401  # the fake kernels of its operators
from attack_calls import CALLS, SLOT_BYTES, TAKE_NO_TENSORS, Maker, runs_on
from attack_changes import REFUSALS, changed, cut_storage
from guarded_memory import Slot

OPS = torch.ops.rtopk
SLOTS = 14


class RuleBroken(Exception):
    pass


def described(arguments):
    def text(argument):
        if not isinstance(argument, torch.Tensor):
            return repr(argument)
        return f"{argument.dtype}{list(argument.shape)} on {argument.device}, {argument.layout}"

    return "; ".join(map(text, arguments))


def version(tensor):
    return None if tensor.is_inference() else tensor._version


def attack(name, seed, device, slots):
    """Returns whether it was meant to be right, and whether it returned."""
    operator = getattr(OPS, name).default
    m = Maker(seed, device, slots)
    arguments = CALLS[name](m)
    changes = m.pick((0, 1, 1, 1, 2, 3))
    for _ in range(changes):
        changed(m, arguments)
    if changes == 3:
        cut_storage(m, arguments)
    writes = [bool(a.alias_info and a.alias_info.is_write) for a in operator._schema.arguments]
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    written = [t for t, is_written in zip(arguments, writes, strict=False) if is_written and t is not None]
    versions = [version(tensor) for tensor in tensors]
    for slot in m.used:
        slot.remember()
    inference = changes > 0 and m.chance(0.1)
    try:
        with torch.inference_mode(inference):
            operator(*arguments)
            if device == "cuda":
                torch.cuda.synchronize()
        returned = True
    except (*REFUSALS, AttributeError) as error:
        returned = False
        # A fake kernel, which meta tensors lead to, is Python, and may stumble over None.
        if isinstance(error, AttributeError) and not any(tensor.is_meta for tensor in tensors):
            raise
        if "CUDA error" in str(error):
            raise RuleBroken(f"the GPU failed: {error}: {described(arguments)}") from error
        if changes == 0 and runs_on(name, device):
            raise RuleBroken(f"a right call was refused: {error}: {described(arguments)}") from error
    finally:
        for slot in m.used:
            slot.open()
    for slot in m.used:
        if not slot.kept_within():
            raise RuleBroken(f"memory beside a tensor was written to: {described(arguments)}")
        if not slot.unchanged() and not (returned and written):
            raise RuleBroken(f"a tensor was written to that is only read, or by a refused call: {described(arguments)}")
    for tensor, before in zip(tensors, versions, strict=True):
        own = any(tensor is each for each in written)
        shared = any(shares_versions(tensor, each) for each in written)
        if version(tensor) != before and not (returned and (own or shared)):
            raise RuleBroken(f"the version of a tensor that was not written to has changed: {described(arguments)}")
        if returned and own and before is not None and tensor.device.type != "meta" and version(tensor) == before:
            raise RuleBroken(f"the version of a tensor that was written to is the same: {described(arguments)}")
    return changes == 0, returned


def shares_versions(one, other):
    return (
        one.layout == other.layout == torch.strided and one.untyped_storage()._cdata == other.untyped_storage()._cdata
    )


def check_all_are_here():
    names = {name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("rtopk::")}
    if names != set(CALLS) | TAKE_NO_TENSORS:
        raise RuleBroken(f"operators that are not attacked, or not there: {names ^ set(CALLS) ^ TAKE_NO_TENSORS}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    faulthandler.enable()
    torch.set_num_threads(1)  # tensors are too small for more
    check_all_are_here()
    slots = [Slot(SLOT_BYTES) for _ in range(SLOTS)]
    names = list(CALLS)
    right, returned = collections.Counter(), collections.Counter()
    for number in range(options.first, options.first + options.calls):
        name = names[number % len(names)]
        if options.verbose:
            print(number, name, file=sys.stderr, flush=True)
        try:
            was_right, did_return = attack(name, options.seed * 10**9 + number, options.device, slots)
        except Exception as error:
            again = f"--device {options.device} --seed {options.seed} --first {number} --calls 1"
            print(f"{name}: {type(error).__name__}: {error}\nagain: python {sys.argv[0]} {again}")
            return 1
        right[name] += was_right
        returned[name] += did_return
    for name in names:
        here = runs_on(name, options.device)
        print(f"{name:<26} {right[name]} right, {returned[name]} returned")
        if (
            options.calls >= 100 * len(names)
            and here
            and not right[name] <= returned[name] < options.calls // len(names)
        ):
            print(f"{name}: never refused, or never right")
            return 1
    print(
        f"{options.calls} calls of {len(names)} operators on {options.device}: {sum(returned.values())} returned",
        end="",
    )
    print(f", {options.calls - sum(returned.values())} refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
