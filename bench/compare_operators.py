#!/usr/bin/env python3
"""Times rtopk's PyTorch operators beside torch.topk: small calls, operator and kernel, columns, models.

    python bench/compare_operators.py --json bench/results/torch-h200.json      # on the GPU if there is one
    python bench/compare_operators.py --device cpu --quick

- Small calls: the host's time of a call on a tiny tensor. On a GPU the host does not wait for the work.
- The operator: rtopk.topk beside the library's C function with the same outputs, on a GPU (--library).
- Columns: selections along a dimension other than the last, whose elements are not contiguous.
- Models: forward and backward of networks that select with torch.topk; with rtopk.topk, sorted and unsorted; with
  rtopk.maxk where they need a dense result; and with torch.topk under rtopk.accelerate(), the model unchanged.

All times are medians; the compared functions alternate. On a GPU the caches are overwritten before every repetition,
and the host calls everything before the GPU begins, so that times are the GPU's alone; the host's times have their own
table. A step takes as long as the longer of the two. accelerate() comes last: after its first use torch.topk goes
through a wrapper, which must not slow down the others.
"""

import argparse
import platform
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

import librtopk
import rtopk
from checkout import origin
from clocks import host_time, interleaved
from whole_file import write_json

# ---- Small calls ----


def small_calls(device, quick):
    x = torch.randn(4, 16, device=device)
    leaf = x.clone().requires_grad_()

    def both(topk, tensor):
        topk(tensor, 4).values.sum().backward()

    pairs = {
        "forward": (lambda: torch.topk(x, 4), lambda: rtopk.topk(x, 4)),
        "forward, unsorted": (
            lambda: torch.topk(x, 4, sorted=False),
            lambda: rtopk.topk(x, 4, sorted=False),
        ),
        "forward with a gradient": (lambda: torch.topk(leaf, 4), lambda: rtopk.topk(leaf, 4)),
        "forward and backward": (lambda: both(torch.topk, leaf), lambda: both(rtopk.topk, leaf)),
    }
    calls, turns = (200, 15) if quick else (500, 41)
    results = []
    for name, functions in pairs.items():
        samples = ([], [])
        for turn in range(turns + 1):
            for function, times in zip(functions, samples, strict=True):
                elapsed = host_time(function, calls, device)
                if turn > 0:
                    times.append(elapsed)
        theirs, ours = (statistics.median(times) for times in samples)
        results.append({"call": name, "torch_us": theirs, "rtopk_us": ours, "ratio": ours / theirs})
    return results


# ---- The operator and the kernel ----


def operator_and_kernel(path, repeats, quick):
    """Times the operator and the library's C function, both with int64 indices, for many rows."""
    library = librtopk.Library(path)
    results = []
    for rows, cols, k in [(65536, 256, 32), (65536, 1024, 64)] + (
        [] if quick else [(1 << 20, 256, 32), (65536, 4096, 64)]
    ):
        x = torch.randn(rows, cols, device="cuda")
        values = torch.empty(rows, k, device="cuda")
        indices = torch.empty(rows, k, dtype=torch.int64, device="cuda")
        selection = library.topk_cuda(rows, cols, k, "f32", index_type="i64")
        workspace = torch.empty(max(selection.workspace_bytes, 1), dtype=torch.uint8, device="cuda")
        kernel = selection.bound(
            x.data_ptr(),
            values=values.data_ptr(),
            indices=indices.data_ptr(),
            workspace=workspace.data_ptr(),
            stream=torch.cuda.current_stream().cuda_stream,
        )

        def operator(x=x, k=k):
            rtopk.topk(x, k, sorted=False)

        functions = {"kernel": lambda kernel=kernel: [kernel], "operator": lambda operator=operator: [operator]}
        times, _ = interleaved("cuda", functions, repeats)
        results.append({
            "rows": rows, "cols": cols, "k": k,
            "kernel_us": times["kernel"][0], "operator_us": times["operator"][0],
            "ratio": times["operator"][0] / times["kernel"][0],
        })  # fmt: skip
    return results


# ---- Columns ----


def columns(device, repeats, quick):
    """Times selections along columns, with results sorted by value as torch.topk returns them."""
    shapes = [((8, 4096, 64), 8, 1), ((8, 4096, 64), 64, 1), ((64, 128, 256), 16, 1), ((4096, 256), 4, 0)]
    if device == "cuda":
        shapes += [((64, 4096, 64), 8, 1), ((4, 19, 512, 512), 1, 1)]
        shapes += [] if quick else [((64, 4096, 512), 64, 1), ((131072, 1024), 64, 0)]
    results = []
    for shape, k, dim in shapes:
        x = torch.randn(shape, device=device)
        if not torch.equal(rtopk.topk(x, k, dim).values, torch.topk(x, k, dim).values):
            sys.exit(f"{shape}, dim {dim}: values differ from torch.topk")

        def call(topk, x=x, k=k, dim=dim):
            return [lambda: topk(x, k, dim)]

        functions = {"torch": lambda call=call: call(torch.topk), "rtopk": lambda call=call: call(rtopk.topk)}
        times, _ = interleaved(device, functions, repeats)
        theirs, ours = times["torch"][0], times["rtopk"][0]
        results.append({
            "shape": shape, "k": k, "dim": dim, "torch_us": theirs, "rtopk_us": ours, "ratio": theirs / ours,
        })  # fmt: skip
    return results


# ---- Models ----


def scattered(topk, scores, k, **options):
    values, indices = topk(scores, k, dim=-1, **options)
    return torch.zeros_like(scores).scatter(-1, indices, values)


DENSE = {
    "torch.topk": lambda scores, k: scattered(torch.topk, scores, k),
    "rtopk sorted": lambda scores, k: scattered(rtopk.topk, scores, k),
    "rtopk unsorted": lambda scores, k: scattered(rtopk.topk, scores, k, sorted=False),
    "rtopk.maxk": rtopk.maxk,
}
ROUTED = {
    "torch.topk": lambda scores, k: torch.topk(scores, k),
    "rtopk sorted": lambda scores, k: rtopk.topk(scores, k),
    "rtopk unsorted": lambda scores, k: rtopk.topk(scores, k, sorted=False),
}


class Mlp(torch.nn.Module):
    """Two hidden layers with the MaxK activation."""

    def __init__(self, width, hidden, k, select):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(width, hidden), torch.nn.Linear(hidden, hidden)])
        self.last = torch.nn.Linear(hidden, width)
        self.k, self.select = k, select

    def forward(self, x):
        for layer in self.layers:
            x = self.select(layer(x), self.k)
        return self.last(x)


class Autoencoder(torch.nn.Module):
    """A TopK sparse autoencoder."""

    def __init__(self, width, latents, k, select):
        super().__init__()
        self.encoder, self.decoder = torch.nn.Linear(width, latents), torch.nn.Linear(latents, width)
        self.k, self.select = k, select

    def forward(self, x):
        return self.decoder(self.select(self.encoder(x), self.k))


class Router(torch.nn.Module):
    """An expert router: returns the weights of the chosen experts."""

    def __init__(self, width, experts, k, select):
        super().__init__()
        self.score = torch.nn.Linear(width, experts)
        self.k, self.select = k, select

    def forward(self, x):
        values, _ = self.select(self.score(x), self.k)
        return values.softmax(dim=-1)


@dataclass
class Case:
    name: str
    model: type
    selections: dict
    rows: int
    width: int
    hidden: int
    k: int
    dtype: torch.dtype

    def build(self, selection, device):
        torch.manual_seed(0)
        model = self.model(self.width, self.hidden, self.k, selection)
        return model.to(device, self.dtype)

    @property
    def record(self):
        names = ("name", "rows", "width", "hidden", "k")
        return {name: getattr(self, name) for name in names} | {"dtype": str(self.dtype).removeprefix("torch.")}


def cases(device, quick):
    bf16, f32 = torch.bfloat16, torch.float32
    if device == "cuda":
        few = 4 if quick else 1
        return [
            Case("MaxK MLP", Mlp, DENSE, 65536 // few, 256, 256, 32, f32),
            Case("SAE, 16384 latents", Autoencoder, DENSE, 8192 // few, 768, 16384, 64, bf16),
            Case("SAE, 65536 latents", Autoencoder, DENSE, 4096 // few, 768, 65536, 64, bf16),
            Case("router, 256 experts", Router, ROUTED, 65536 // few, 1024, 256, 8, bf16),
        ]
    # f32, because on many CPUs bf16 products take a hundred times longer and would hide all other times.
    few = 8 if quick else 1
    return [
        Case("MaxK MLP", Mlp, DENSE, 8192 // few, 256, 256, 32, f32),
        Case("SAE, 16384 latents", Autoencoder, DENSE, 256 // few, 64, 16384, 64, f32),
        Case("SAE, 65536 latents", Autoencoder, DENSE, 128 // few, 64, 65536, 64, f32),
        Case("router, 256 experts", Router, ROUTED, 8192 // few, 256, 256, 8, f32),
    ]


def steps_of(model, x):
    """One training step, as two parts to time."""
    state = {}

    def forward():
        model.zero_grad(set_to_none=True)
        state["loss"] = model(x).float().square().mean()

    def backward():
        state.pop("loss").backward()

    return lambda: (forward, backward)


def check(case, x, device):
    """Exits unless the selected values are torch's."""
    model = case.build(lambda scores, k: scores, device)
    with torch.no_grad():
        scores = (
            model.encoder if case.model is Autoencoder else model.score if case.model is Router else model.layers[0]
        )(x)
        if not torch.equal(rtopk.topk(scores, case.k).values, torch.topk(scores, case.k).values):
            sys.exit(f"{case.name}: values differ from torch.topk")


def inputs(case, device):
    torch.manual_seed(1)
    return torch.randn(case.rows, case.width, device=device).to(case.dtype)


def models(device, repeats, quick):
    results = []
    for case in cases(device, quick):
        x = inputs(case, device)
        check(case, x, device)
        functions = {name: steps_of(case.build(s, device), x) for name, s in case.selections.items()}
        times, _ = interleaved(device, functions, repeats)
        results.append(case.record | {"microseconds": times})
    for case, result in zip(cases(device, quick), results, strict=True):
        functions = {"accelerate()": steps_of(case.build(case.selections["torch.topk"], device), inputs(case, device))}
        with rtopk.accelerate():
            times, _ = interleaved(device, functions, repeats)
        result["microseconds"] |= times
    return results


# ---- The report ----

SELECTIONS = ["torch.topk", "rtopk sorted", "rtopk unsorted", "rtopk.maxk", "accelerate()"]


def print_small_calls(results):
    print(f"\n{'small call':<26} {'torch us':>9} {'rtopk us':>9} {'ratio':>6}")
    for line in results:
        print(f"{line['call']:<26} {line['torch_us']:9.2f} {line['rtopk_us']:9.2f} {line['ratio']:6.2f}")


def print_operator(results):
    print(f"\n{'rows x cols, k':<26} {'kernel us':>9} {'operator':>9} {'ratio':>6}")
    for line in results:
        shape = f"{line['rows']} x {line['cols']}, {line['k']}"
        print(f"{shape:<26} {line['kernel_us']:9.1f} {line['operator_us']:9.1f} {line['ratio']:6.3f}")


def print_columns(results):
    print(f"\n{'shape, k, dim':<26} {'torch us':>9} {'rtopk us':>9} {'times':>6}")
    for line in results:
        case = f"{' x '.join(map(str, line['shape']))}, {line['k']}, {line['dim']}"
        print(f"{case:<26} {line['torch_us']:9.1f} {line['rtopk_us']:9.1f} {line['ratio']:6.2f}")


def print_models(results):
    print(f"\n{'forward + backward, us':<22}" + "".join(f"{name:>19}" for name in SELECTIONS))
    for line in results:
        cells = ""
        for name in SELECTIONS:
            times = line["microseconds"].get(name)
            cells += f"{times[0]:>9.0f} +{times[1]:>8.0f}" if times else f"{'-':>19}"
        print(f"{line['name']:<22}{cells}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if rtopk.info()["gpus"] else "cpu")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repetitions")
    parser.add_argument("--repeats", type=int, help="default 15, with --quick 5")
    parser.add_argument(
        "--library", type=Path, default=librtopk.DEFAULT_PATH, help="librtopk.so, to time its C function"
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    device = arguments.device
    repeats = arguments.repeats or (5 if arguments.quick else 15)
    facts = {
        **origin(),
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rtopk": rtopk.info(),
        "repeats": repeats,
    }
    print(f"rtopk {rtopk.__version__} beside torch {facts['torch']} on {facts['device']}")
    record = {"environment": facts, "small_calls": small_calls(device, arguments.quick)}
    print_small_calls(record["small_calls"])
    if device == "cuda" and arguments.library.exists():
        record["operator"] = operator_and_kernel(arguments.library, repeats, arguments.quick)
        print_operator(record["operator"])
    record["columns"] = columns(device, repeats, arguments.quick)
    print_columns(record["columns"])
    record["models"] = models(device, repeats, arguments.quick)
    print_models(record["models"])
    if arguments.json:
        write_json(arguments.json, record)


if __name__ == "__main__":
    main()
