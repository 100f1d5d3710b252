#!/usr/bin/env python3
"""Times the sum over neighbours: rtopk on compact rows (CBSR), torch's sparse product on dense rows.

    python bench/compare_gnn.py --json bench/results/gnn-h200.json
    python bench/compare_gnn.py --graphs flickr reddit --dtype f32 bf16 --cols 64 256 512 --k 8 16 32 64 128 --repeats 3
    python bench/compare_gnn.py --device cpu --scale 0.02

The graphs are random, with the sizes and the greatest degrees of four published ones: degrees are log-normal in both
directions, and edges end at random nodes. By default a node has 256 features, of which 32 are kept. The columns:

- forward: Y = A X. torch: a CSR matrix times dense features (cuSPARSE on a GPU). rtopk: aggregate on CBSR.
- backward: A^T dY. torch: the transposed CSR matrix, made beforehand, times the dense gradient. rtopk: at the selectors
  alone, by atomic additions (the default on a GPU) and in a fixed order (deterministic).
- bound: the time of a copy of the bytes that forward has to move on CBSR: column, values and selectors of every edge,
  and the result.

Every combination of --dtype, --cols and --k with k <= cols / 2 is measured. All times are medians in ms; the compared
functions alternate, and caches are overwritten before every repetition. The time of the transposition, which is needed
once for a graph, is printed too. Results are checked first: random rows and the longest one against sums in float64.
"""

import argparse
import json
import platform
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import torch

import rtopk
import rtopk.gnn._aggregate  # noqa: F401  # derivatives and shapes of the operators
from checkout import command_line, commit
from clocks import interleaved

OPS = torch.ops.rtopk
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
CHECKED_ROWS = 48


@dataclass(frozen=True)
class Shape:
    """The size of a published graph. `spread` is the standard deviation of the degrees' logarithm; it is chosen so that
    the greatest degree is about the published one."""

    nodes: int
    edges: int
    spread: float
    forward_target: float
    backward_target: float


SHAPES = {
    "flickr": Shape(89_250, 899_756, 1.9, 2, 2),
    "yelp": Shape(716_847, 13_954_819, 1.35, 3, 2),
    "reddit": Shape(232_965, 114_615_892, 1.0, 3, 2.5),
    "products": Shape(2_449_029, 123_718_280, 1.4, 4, 2.5),
}


# ---- Graphs ----


def make_graph(nodes, edges, spread, device, seed=97):
    """A graph without weights, with int32 indices; its transpose; and how many seconds the transposition took."""
    generator = torch.Generator(device).manual_seed(seed)

    def shares():
        logarithms = torch.randn(nodes, generator=generator, device=device, dtype=torch.float64) * spread
        total = logarithms.exp().cumsum(0)
        return total / total[-1]

    row_starts = torch.zeros(nodes + 1, dtype=torch.int32, device=device)
    row_starts[1:] = (shares() * edges).round().to(torch.int32)
    row_starts[-1] = edges
    popularity = shares()
    columns = torch.empty(edges, dtype=torch.int32, device=device)
    for part in columns.split(1 << 25):
        picked = torch.rand(len(part), generator=generator, device=device, dtype=torch.float64)
        part.copy_(torch.searchsorted(popularity, picked).clamp_(max=nodes - 1))
    transposed, seconds = timed(lambda: OPS.transpose_graph(row_starts, columns, None, nodes), device)
    graph = SimpleNamespace(
        row_starts=row_starts, columns=columns, weights=None,
        t_row_starts=transposed[0], t_columns=transposed[1], t_weights=None,
    )  # fmt: skip
    return graph, seconds


def timed(function, device):
    function()
    synchronize(device)
    start = time.perf_counter()
    result = function()
    synchronize(device)
    return result, time.perf_counter() - start


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


# ---- Checks ----


def check(name, ours, starts, ends, expected_of):
    """Compares random rows and the longest one with `expected_of(row, its ends)`, relative to the sum of magnitudes."""
    degrees = starts.diff()
    picked = torch.randint(len(degrees), (CHECKED_ROWS,), device=degrees.device)
    unit = torch.finfo(ours.dtype).eps / 2
    for row in [int(degrees.argmax()), *picked.tolist()]:
        terms = ends[starts[row] : starts[row + 1]].long()
        expected, magnitude = expected_of(row, terms)
        bound = (len(terms) + 3) * 2.0**-24 * magnitude + unit * expected.abs() + 1e-30
        if not ((ours[row].double() - expected).abs() <= bound).all():
            sys.exit(f"{name}: row {row} with {len(terms)} edges is wrong")


def check_all(graph, values, selectors, grad, forward, backwards):
    cols = grad.shape[1]

    def of_row(_, nodes):
        # Bytes, because torch does not index 16-bit selectors on a GPU.
        selectors_of = selectors.view(torch.uint8)[nodes].view(selectors.dtype)
        x = rtopk.expand(values[nodes], selectors_of, cols).double()
        return x.sum(0), x.abs().sum(0)

    def of_node(node, rows):
        dy = grad[rows][:, selectors[node].long()].double()
        return dy.sum(0), dy.abs().sum(0)

    check("forward", forward(), graph.row_starts, graph.columns, of_row)
    for name, backward in backwards.items():
        check(name, backward(), graph.t_row_starts, graph.t_columns, of_node)


# ---- Measurements ----


def copy_bandwidth(device):
    """Bytes per second, read plus written, of a copy of 1 GiB (a tenth of that on a CPU)."""
    source = torch.empty((1 << 30) if device == "cuda" else (1 << 27), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times, _ = interleaved(device, {"copy": lambda: [lambda: target.copy_(source)]}, 5)
    return 2 * source.numel() / times["copy"][0] * 1e6


def measure(graph, device, dtype, cols, k, repeats, bandwidth):
    nodes, edges = len(graph.row_starts) - 1, len(graph.columns)
    x = torch.randn(nodes, cols, device=device, dtype=dtype)
    values, selectors = rtopk.compact(x, k)
    dense = rtopk.expand(values, selectors, cols)
    del x
    grad = torch.randn(nodes, cols, device=device, dtype=dtype)
    a = (graph.row_starts, graph.columns, None)
    t = (graph.t_row_starts, graph.t_columns, None)

    def forward():
        return OPS.aggregate(*a, values, selectors, cols, False, False)

    def backward(deterministic):
        return OPS.aggregate_backward(*a, *t, grad, selectors, False, deterministic)

    backwards = {"backward": lambda: backward(False), "backward, deterministic": lambda: backward(True)}
    check_all(graph, values, selectors, grad, forward, backwards)

    ones = torch.ones(edges, dtype=dtype, device=device)
    matrix = torch.sparse_csr_tensor(graph.row_starts, graph.columns, ones, (nodes, nodes))
    transposed = torch.sparse_csr_tensor(graph.t_row_starts, graph.t_columns, ones, (nodes, nodes))
    functions = {
        "forward, torch": lambda: [lambda: matrix @ dense],
        "forward": lambda: [forward],
        "backward, torch": lambda: [lambda: transposed @ grad],
        **{name: lambda function=function: [function] for name, function in backwards.items()},
    }
    medians, _ = interleaved(device, functions, repeats)
    times = {name: parts[0] / 1e3 for name, parts in medians.items()}
    element = values.element_size()
    bytes_moved = edges * (4 + k * (element + selectors.element_size())) + nodes * cols * element
    return {
        "ms": times,
        "bound_ms": bytes_moved / bandwidth * 1e3,
        "forward_ratio": times["forward, torch"] / times["forward"],
        "backward_ratio": times["backward, torch"] / times["backward"],
        "deterministic_ratio": times["backward, torch"] / times["backward, deterministic"],
    }


HEADING = (
    f"{'graph':9}{'type':5}{'cols':>5}{'k':>5}{'torch':>9}{'rtopk':>9}{'bound':>8}{'ratio':>8} |"
    f"{'torch':>9}{'rtopk':>9}{'ratio':>8}{'fixed':>9}{'ratio':>8}"
)


def line(shape, cell):
    times = cell["ms"]
    forward, backward = cell["forward_ratio"], cell["backward_ratio"]
    has_targets = (cell["dtype"], cell["cols"], cell["k"]) == ("f32", 256, 32)
    marks = ["-" if has_targets and ratio < target else " " for ratio, target in
             ((forward, shape.forward_target), (backward, shape.backward_target))]  # fmt: skip
    return (
        f"{cell['graph']:9}{cell['dtype']:5}{cell['cols']:5}{cell['k']:5}"
        f"{times['forward, torch']:9.3f}{times['forward']:9.3f}{cell['bound_ms']:8.3f}{forward:7.2f}x{marks[0]}|"
        f"{times['backward, torch']:9.3f}{times['backward']:9.3f}{backward:7.2f}x{marks[1]}"
        f"{times['backward, deterministic']:8.3f}{cell['deterministic_ratio']:7.2f}x"
    )


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", choices=SHAPES, default=list(SHAPES), help="default: all of them")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=["f32"], help="element types of the features")
    parser.add_argument("--cols", nargs="+", type=int, default=[256], help="features per node")
    parser.add_argument("--k", nargs="+", type=int, default=[32], help="features that are kept per node, at most half")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="size of the graphs: 0.01 is a hundredth of the nodes and edges"
    )
    parser.add_argument("--repeats", type=int, default=15, help="repetitions of every measurement")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    if arguments.device == "cpu" and arguments.dtype != ["f32"]:
        parser.error("--dtype: torch's sparse product on a CPU takes f32 alone")
    if min(arguments.k) < 1 or max(arguments.cols) > 65536 or 2 * min(arguments.k) > max(arguments.cols):
        parser.error("--cols, --k: accepted: 1 <= k <= cols / 2, and cols up to 65536")
    return arguments


def main():
    arguments = parsed()
    warnings.filterwarnings("ignore", "Sparse")  # torch's, on its CSR tensors
    device = arguments.device
    facts = {
        "command": command_line(),
        "commit": commit(),
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine(),
        "threads": None if device == "cuda" else torch.get_num_threads(),
        "torch": torch.__version__,
    }
    bandwidth = copy_bandwidth(device)
    facts["copy_bytes_per_second"] = bandwidth
    print(f"{facts['device']}, torch {torch.__version__}")
    print(f"ms; -: below the target; a copy moves {bandwidth / 1e12:.2f} TB/s")
    print(f"{'':19}{'forward':>34} |{'backward':>43}")
    print(HEADING, flush=True)
    graphs, cells = {}, []
    shapes = [(dtype, cols, k) for dtype in arguments.dtype for cols in arguments.cols for k in arguments.k
              if 2 * k <= cols]  # fmt: skip
    for name in arguments.graphs:
        shape = SHAPES[name]
        nodes, edges = int(shape.nodes * arguments.scale), int(shape.edges * arguments.scale)
        graph, seconds = make_graph(nodes, edges, shape.spread, device)
        greatest = int(graph.row_starts.diff().max())
        graphs[name] = {"nodes": nodes, "edges": edges, "greatest_degree": greatest, "transpose_ms": seconds * 1e3}
        for dtype, cols, k in shapes:
            cell = {"graph": name, "dtype": dtype, "cols": cols, "k": k}
            cell |= measure(graph, device, DTYPES[dtype], cols, k, arguments.repeats, bandwidth)
            print(line(shape, cell), flush=True)
            cells.append(cell)
            if device == "cuda":
                torch.cuda.empty_cache()
        print(f"{name:9}{edges:,} edges transposed in {seconds * 1e3:.2f} ms, once", flush=True)
    if arguments.json is not None:
        temporary = arguments.json.with_suffix(".tmp")
        temporary.write_text(json.dumps({**facts, "graphs": graphs, "cells": cells}, indent=1) + "\n")
        temporary.replace(arguments.json)


if __name__ == "__main__":
    main()
