#!/usr/bin/env python3
"""The page of the model of many GPUs: docs/scaling.md and docs/scaling.svg.

    python bench/scaling_page.py --cut data/coauthor-physics.npz     # measures how METIS cuts a graph, then the page
    python bench/scaling_page.py                                     # the page alone, from bench/results

The page says what is measured, what is fitted and what is assumed.
"""

import argparse
import json
import math
import statistics
from pathlib import Path

import scaling_model as model
from charts import Panel, Point, Series, log_axis, picture, places_axis
from checkout import origin
from whole_file import write_json

ROOT = Path(__file__).resolve().parent.parent
CUT, CPU, GPU, STEPS = (
    ROOT / "bench" / "results" / f"{name}.json" for name in ("parts-cut", "parts-cpu", "parts-h200", "gnn-steps-h200")
)


def measure_cut(path):
    import torch

    from rtopk.gnn import load
    from rtopk.gnn.parts.partition import owners

    graph = load(path).graph
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.row_starts.diff().long())
    columns, found = graph.columns.long(), []
    for parts in model.GPUS:
        owner = owners(graph, parts, "metis")
        reader = owner[rows]
        crossing = reader != owner[columns]
        boundary = len((reader[crossing] * graph.num_nodes + columns[crossing]).unique())
        found.append({"parts": parts, "boundary_rows": boundary, "crossing_edges": int(crossing.sum())})
        print(f"{parts} parts: {boundary} rows travel, {boundary / graph.num_nodes:.2f} a node", flush=True)
    facts = {"graph": path.stem, "nodes": graph.num_nodes, "edges": graph.num_edges, "method": "metis"}
    write_json(CUT, {"environment": origin(), **facts, "parts": found})


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def drawn(rows):
    panels = []
    for wire in model.WIRES:
        of_wire = [row for row in rows if row["wire"] == wire]
        series = [
            Series("dense rows", "torch", [Point(r["gpus"], seconds_of(r["dense"])) for r in of_wire]),
            Series("compact rows", "ours", [Point(r["gpus"], seconds_of(r["compact"])) for r in of_wire]),
            Series("compute alone", "floor", [Point(r["gpus"], r["compact"]["compute"]) for r in of_wire]),
        ]
        every = [point.y for one in series for point in one.points]
        panels.append(Panel(places_axis("GPUs", model.GPUS), log_axis("seconds a step", every), series, title=wire))
    return picture(panels, "A step on a graph of papers100M's size (a model)")


def seconds_of(part):
    return part["compute"] + part["exposed"]


def result_table(rows):
    heads = ["wire", "GPUs", "GB of a GPU", "GB sent a step and GPU: compact, dense"]
    heads += ["step with compact rows, s", "with dense rows, s", "ratio", "compact, owners drawn at random, s"]
    body = []
    for row in rows:
        dense, compact = row["dense"], row["compact"]
        fits = "" if row["memory"] < model.GPU_MEMORY else " (do not fit)"
        body.append([row["wire"], f"{row['gpus']}{fits}", f"{row['memory'] / 1e9:.0f}"])
        body[-1] += [f"{compact['bytes'] / 1e9:.2f}, {dense['bytes'] / 1e9:.2f}"]
        body[-1] += [f"{seconds_of(compact):.2f}", f"{seconds_of(dense):.2f}"]
        body[-1] += [f"{seconds_of(dense) / seconds_of(compact):.2f}", f"{seconds_of(row['random']):.2f}"]
    return table(heads, body)


def assumptions(cut, compute, rows):
    of_node, of_edge, bytes_of_node, _ = compute
    first = min(row["gpus"] for row in rows if row["memory"] < model.GPU_MEMORY)
    there, back = zip(*model.ROW_BYTES.values(), strict=True)
    parts = ", ".join(str(part["parts"]) for part in cut["parts"])
    shares = ", ".join(f"{part['boundary_rows'] / cut['nodes']:.2f}" for part in cut["parts"])
    wires = "; ".join(f"{name}: {speed / 1e9:g} GB/s a GPU" for name, speed in model.WIRES.items())
    body = [
        [
            "compute",
            f"fitted: {1e9 * of_node:.2f} ns a node and {1e12 * of_edge:.1f} ps an edge, for each layer, forward and"
            " backward; from steps of four graphs on one H200, below"
            " ([gnn-steps-h200.json](../bench/results/gnn-steps-h200.json))",
        ],
        ["bytes", f"exact: {there[0]} bytes a row forward and {back[0]} back; dense {there[1]} and {back[1]}"],
        [
            "rows that travel",
            f"assumed: as METIS cuts {cut['graph']}, which has {cut['edges'] / cut['nodes']:.1f} edges a node"
            f" (papers100M {model.EDGES / model.NODES:.1f}): {shares} rows a node with {parts} parts"
            " ([parts-cut.json](../bench/results/parts-cut.json)). The last column has owners drawn at random, the"
            " worst cut",
        ],
        ["balance", "assumed: all parts have the same work"],
        [
            "wire",
            f"assumed: NVLink with {model.NVLINK / 1e9:g} GB/s a GPU up to {model.GPUS_OF_A_MACHINE} GPUs; above, all"
            f" rows go between machines, at 80 % of what a wire is called. {wires}",
        ],
        ["latency", f"assumed: {1e6 * model.LATENCY:g} µs an exchange"],
        ["hidden", "assumed: as much of an exchange as the sums over local neighbours take, half of them forward"],
        [
            "memory",
            f"{bytes_of_node / 1e3:.1f} kB a node and layer, as products-like takes; features; edges and their"
            f" transpose with weights. From {first} GPUs with {model.GPU_MEMORY / 1e9:.0f} GB on it fits; fewer are to"
            " compare",
        ],
    ]
    return table(["part", "where it comes from"], body)


def cpu_section(record):
    wires = []
    for megabits in sorted({step["megabits"] or 0 for step in record["steps"]}):
        latency, bandwidth = model.cpu_wire(record, megabits or None)
        name = f"a wire of {megabits} Mb/s" if megabits else "the loopback"
        wires.append(f"{1e3 * latency:.1f} ms and {bandwidth / 1e6:.0f} MB/s a rank for {name}")
    rows, errors = [], {"processor": [], "layer": [], "step": []}
    for step, *predicted in model.cpu_predictions(record):
        row = [step["graph"], str(step["ranks"]), str(step["megabits"] or "-"), step["exchange"]]
        measured = (step["cpu_ms"], step["layer_alone_ms"], step["step_ms"])
        for name, found, expected in zip(errors, measured, predicted, strict=True):
            errors[name].append(abs(math.log(expected / found)))
            row.append(f"{found:.0f}, {expected:.0f}")
        rows.append(row)
    within = {name: f"{math.expm1(statistics.median(those)):.0%}" for name, those in errors.items()}
    heads = ["graph", "ranks", "Mb/s", "exchange", "processor's time of a rank", "messages of a layer alone", "step"]
    facts = record["environment"]
    return f"""\
## Held against what was measured

On {facts["device"]} with gloo ([parts-cpu.json](../bench/results/parts-cpu.json)), the messages of a layer alone fit
{" and ".join(wires)}. The processor's time of a rank is that of one rank
by the largest part's share of the work. A step is both, with nothing hidden, and the sum of the gradients; ranks that
share a core take turns. Half of the predictions are within {within["processor"]} for the processor's time,
{within["layer"]} for messages and {within["step"]} for steps.

Milliseconds, measured and from the model:

{table(heads, rows)}
"""


def gpu_section(record):
    if record is None:
        return ""
    rows = []
    for step in record["steps"]:
        times = [f"{step['step_ms']:.1f}", f"{step['waiting_for_rows_ms']:.1f}"]
        rows.append([step["graph"], str(step["ranks"]), step["exchange"], f"{step['step_bytes'] / 1e6:.0f}", *times])
    methods = " and ".join(sorted({step["method"] for step in record["steps"]}))
    return f"""
Two ranks on one {record["environment"]["device"]} ([parts-h200.json](../bench/results/parts-h200.json)), with parts by
{methods}. NCCL takes one rank a GPU, so rows go through the memory of the host, and both ranks share the GPU: this
shows bytes and waiting, and not what two GPUs would do.

{table(["graph", "ranks", "exchange", "MB a step", "step, ms", "waiting for rows, ms"], rows)}
"""


def page(cut, cpu, gpu, steps):
    compute = model.gpu_compute(steps)
    rows = list(model.all_rows(cut, compute))
    fits = [[name, f"{1e9 * measured:.1f}", f"{1e9 * fitted:.1f}"] for name, measured, fitted in compute[3]]
    text = f"""\
# Past the GPUs that were measured: a model

`python bench/scaling_page.py` writes this page from files in bench/results. **Nothing here beyond one GPU was measured
on GPUs.** It is a model, to see where the exchange of boundary rows matters: a graph of the size of ogbn-papers100M
({model.NODES:,} nodes, {model.EDGES:,} edges, {model.FEATURES} features; Hu et al., Open Graph Benchmark, 2020),
SAGE with {model.LAYERS} layers of {model.HIDDEN} and k = {model.K}, full batch, [in parts](distributed.md).

![Seconds a step by the number of GPUs, for two wires](scaling.svg)

{result_table(rows)}

## What it is made of

A step takes compute, what of the exchanges is not hidden, and the sum of the gradients.

{assumptions(cut, compute, rows)}

Nanoseconds a node and layer, on one H200:

{table(["graph", "measured", "fitted"], fits)}

The fit has the least relative errors.

{cpu_section(cpu)}{gpu_section(gpu)}
## What it cannot say

- How METIS cuts papers100M. Between the two kinds of parts in the table lies a wide range.
- How NCCL's all-to-all behaves on a certain network, with uneven messages and many machines.
"""
    return text, drawn(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cut", type=Path, metavar="GRAPH", help="measure first how METIS cuts this graph")
    arguments = parser.parse_args()
    if arguments.cut:
        measure_cut(arguments.cut)
    text, svg = page(*(json.loads(path.read_text()) if path.exists() else None for path in (CUT, CPU, GPU, STEPS)))
    for name, content in (("scaling.md", text), ("scaling.svg", svg)):
        (ROOT / "docs" / name).write_text(content)
        print(f"written: docs/{name}")


if __name__ == "__main__":
    main()
