#!/usr/bin/env python3
"""Times rtopk.moe.route beside the floor and the PyTorch code of routers, eager and compiled.

    python bench/compare_routers.py --json bench/results/routers-h200.json      # on the GPU if there is one
    python bench/compare_routers.py --device cpu --quick --no-compile
    python bench/compare_routers.py --only-route --cases DeepSeek-V3 Qwen3-MoE   # seconds: two kernels compared

The floor is a copy that moves the same bytes: logits read once, weights and ids written once. The PyTorch code is what
models have today: scores, bias, groups, torch.topk, gather and division. Times are medians; the compared functions
alternate, and so do several logits. On a GPU the caches are overwritten before every repetition, and the GPU waits
until the host has made a call: times are the GPU's alone. The host's time is that of one call of many in a row.

Before anything is timed, weights and ids are compared with those of the CPU, bit for bit, and the experts with those of
the PyTorch code, for all logits. Where 16-bit logits are equal torch.topk takes any of them, so only a share of its
tokens is the same.
"""

import argparse
import itertools
import platform
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch

import rtopk
from checkout import origin
from clocks import host_time, interleaved
from whole_file import write_json

SCORES = {
    "softmax": lambda x: x.softmax(-1),
    "sigmoid": torch.sigmoid,
    "sqrtsoftplus": lambda x: torch.nn.functional.softplus(x).sqrt(),
}
# Of float32 logits. Scores differ in the last bit, so experts that nearly tie may differ.
LEAST_SHARE = 0.999
# Logits that take turns.
INPUTS = 3
# Calls in a row for the host's time: fewer than a GPU's queue takes, of functions with ten kernels.
HOST_CALLS, HOST_TURNS = 40, 9


@dataclass
class Case:
    name: str
    rows: int
    experts: int
    k: int
    score: str = "softmax"
    biased: bool = False
    groups: int = 1
    group_k: int = 1
    dtype: torch.dtype = torch.float32
    options: dict = field(init=False)

    def __post_init__(self):
        self.options = {"score": self.score, "groups": self.groups, "group_k": self.group_k}

    @property
    def bytes(self):
        return self.rows * (self.experts * self.dtype.itemsize + 8 * self.k)

    @property
    def record(self):
        names = ("name", "rows", "experts", "k", "score", "biased", "groups", "group_k")
        return {name: getattr(self, name) for name in names} | {"dtype": str(self.dtype).removeprefix("torch.")}


def cases(quick):
    deepseek = {"experts": 256, "k": 8, "score": "sigmoid", "biased": True, "groups": 8, "group_k": 4}
    rows = 8192 if quick else 65536
    return [
        Case("DeepSeek-V3", rows, **deepseek),
        Case("DeepSeek-V3, a batch", 128, **deepseek),
        Case("DeepSeek-V3, bfloat16", rows, dtype=torch.bfloat16, **deepseek),
        Case("Kimi K2", rows, 384, 8, "sigmoid", True),
        Case("DeepSeek-V4", rows, 256, 6, "sqrtsoftplus", True),
        Case("Qwen3-MoE", rows, 128, 8),
        Case("Mixtral", rows, 8, 2),
    ]


def plain_route(logits, bias, k, score, groups, group_k):
    """The code of models, written with torch."""
    scores = SCORES[score](logits.float())
    choice = scores if bias is None else scores + bias
    if groups > 1:
        grouped = choice.unflatten(-1, (groups, -1))
        group_scores = grouped.topk(2, dim=-1).values.sum(-1)
        kept = group_scores.topk(group_k, dim=-1, sorted=False).indices
        mask = torch.zeros_like(group_scores).scatter_(-1, kept, 1)
        choice = grouped.masked_fill(~mask.bool().unsqueeze(-1), float("-inf")).flatten(-2)
    ids = choice.topk(k, dim=-1).indices
    weights = scores.gather(-1, ids)
    return weights / (weights.sum(-1, keepdim=True) + 1e-20), ids


def copy_of(total_bytes, device):
    """A copy that reads half of the bytes and writes the other half."""
    source = torch.zeros(total_bytes // 2, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def check(case, logits, bias, arguments):
    """The share of tokens that have the same experts in the PyTorch code. Ends the program if a result is wrong."""
    ours = rtopk.moe.route(logits, case.k, bias=bias, **case.options)
    on_cpu = rtopk.moe.route(logits.cpu(), case.k, bias=None if bias is None else bias.cpu(), **case.options)
    if not torch.equal(ours.ids.cpu(), on_cpu.ids) or not torch.equal(ours.weights.cpu(), on_cpu.weights):
        sys.exit(f"{case.name}: weights or ids are not those of the CPU")
    theirs = plain_route(logits, bias, *arguments)[1].sort(-1).values
    share = (ours.ids.long().sort(-1).values == theirs).all(-1).float().mean().item()
    if case.dtype == torch.float32 and share < LEAST_SHARE:
        sys.exit(f"{case.name}: {share:.2%} of the tokens have the experts of the PyTorch code")
    return share


def host_medians(functions, device):
    """The host's median microseconds for a call of each function."""
    times = {name: [] for name in functions}
    for _ in range(HOST_TURNS):
        for name, function in functions.items():
            times[name].append(host_time(function, HOST_CALLS, device))
    return {name: statistics.median(samples) for name, samples in times.items()}


def measured(case, device, repeats, compiles, only_route):
    torch.manual_seed(0)
    inputs = [torch.randn(case.rows, case.experts, device=device).to(case.dtype) for _ in range(INPUTS)]
    bias = 0.1 * torch.randn(case.experts, device=device) if case.biased else None
    arguments = (case.k, case.score, case.groups, case.group_k)
    shares = [check(case, logits, bias, arguments) for logits in inputs]
    copy = copy_of(case.bytes, device)
    functions = {
        "floor": lambda _: copy(),
        "route": lambda logits: rtopk.moe.route(logits, case.k, bias=bias, **case.options),
    }
    if not only_route:
        functions["eager"] = lambda logits: plain_route(logits, bias, *arguments)
    if compiles:
        torch.compiler.reset()
        compiled = torch.compile(plain_route, dynamic=False)
        functions["compiled"] = lambda logits: compiled(logits, bias, *arguments)

    def in_turn(function):
        turns = itertools.cycle(inputs)

        def parts():
            logits = next(turns)
            return [lambda: function(logits)]

        return parts

    times, _ = interleaved(device, {name: in_turn(function) for name, function in functions.items()}, repeats)
    record = case.record | {"bytes": case.bytes, "same_experts": min(shares)}
    record |= {f"{name}_us": times[name][0] for name in functions}
    if device == "cuda":
        calls = {name: lambda f=function: f(inputs[0]) for name, function in functions.items()}
        record |= {f"{name}_host_us": time for name, time in host_medians(calls, device).items()}
    return record | {"to_floor": record["route_us"] / record["floor_us"]}


def print_header(compiles):
    compiled = f" {'compiled us':>12} {'ratio':>6}" if compiles else ""
    head = f"{'router':<24} {'floor us':>9} {'route us':>9} {'to floor':>9} {'host us':>8}"
    print(f"\n{head} {'eager us':>9} {'ratio':>6}{compiled}")


def print_row(row):
    text = f"{row['name']:<24} {row['floor_us']:9.1f} {row['route_us']:9.1f} {row['to_floor']:9.2f}"
    text += f" {row['route_host_us']:8.1f}" if "route_host_us" in row else f" {'-':>8}"
    for name, width in (("eager", 9), ("compiled", 12)):
        if f"{name}_us" in row:
            text += f" {row[f'{name}_us']:{width}.1f} {row[f'{name}_us'] / row['route_us']:6.1f}"
    print(text, flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if rtopk.info()["gpus"] else "cpu")
    parser.add_argument("--quick", action="store_true", help="fewer rows and repetitions")
    parser.add_argument("--repeats", type=int, help="repetitions; 31 by default, 7 with --quick")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    parser.add_argument("--only-route", action="store_true", help="leave out the PyTorch code, compiled and eager")
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="routers by name; all by default")
    parser.add_argument("--json", type=Path, help="write all times to this file")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    device, compiles = arguments.device, not (arguments.no_compile or arguments.only_route)
    chosen = [case for case in cases(arguments.quick) if case.name in (arguments.cases or [case.name])]
    if len(chosen) < len(arguments.cases or []):
        sys.exit(f"--cases: known are {', '.join(repr(case.name) for case in cases(arguments.quick))}")
    repeats = arguments.repeats or (7 if arguments.quick else 31)
    facts = {
        **origin(),
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rtopk": rtopk.info(),
        "repeats": repeats,
    }
    print(f"rtopk {rtopk.__version__} beside torch {facts['torch']} on {facts['device']}")
    record = {"environment": facts, "routers": []}
    print_header(compiles)
    with torch.no_grad():
        for case in chosen:
            record["routers"].append(measured(case, device, repeats, compiles, arguments.only_route))
            print_row(record["routers"][-1])
    if arguments.json:
        write_json(arguments.json, record)


if __name__ == "__main__":
    main()
