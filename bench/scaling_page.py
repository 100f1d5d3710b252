#!/usr/bin/env python3
"""The page of the model of many GPUs: docs/scaling.md and docs/scaling.svg.

    python bench/scaling_page.py --cut data/coauthor-physics.npz     # measures how METIS cuts a graph, then the page
    python bench/scaling_page.py                                     # the page alone, from what was measured

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
CUT, CPU, GPU = (ROOT / "bench" / "results" / f"{name}.json" for name in ("parts-cut", "parts-cpu", "parts-h200"))
STEPS = ROOT / "docs" / "paper" / "steps.json"
# What the page changes of what it assumes, one at a time.
CHANGES = {
    "nothing": {},
    "latency of an exchange: 5 µs": {"latency": 5e-6},
    "latency of an exchange: 500 µs": {"latency": 500e-6},
    "latency of an exchange: 5 ms": {"latency": 5e-3},
    "edges in one direction alone, as published": {"edges": model.CITATIONS},
    "twice as many rows travel": {"cut": 2.0},
}
CHANGED_AT = (16, 64)  # GPUs


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
    """Lines are faint where compact rows do not fit."""
    seconds = {
        "dense rows": ("torch", lambda row: model.seconds_of(row["dense"])),
        "compact rows": ("ours", lambda row: model.seconds_of(row["compact"])),
        "compute alone": ("theory", lambda row: row["compact"]["compute"]),
    }
    every = [of(row) for row in rows for _, of in seconds.values()]
    panels = []
    for wire in model.WIRES:
        of_wire = [row for row in rows if row["wire"] == wire]
        fit = [row for row in of_wire if row["compact"]["memory"] < model.GPU_MEMORY]
        series = []
        for label, (style, of) in seconds.items():
            points, there = ([Point(row["gpus"], of(row)) for row in some] for some in (of_wire, fit))
            series += [Series(label, f"{style} faint", points, in_legend=False), Series(label, style, there)]
        gpus = places_axis("GPUs, 8 in a machine; faint: it does not fit", model.GPUS)
        panels.append(Panel(gpus, log_axis("seconds a step", every), series, title=wire))
    return picture(panels, "A step on a graph of papers100M's size (a model)")


def gigabytes(*parts):
    """Of a GPU; in brackets where it has less."""
    each = (f"{part['memory'] / 1e9:.0f}" for part in parts)
    fits = (part["memory"] < model.GPU_MEMORY for part in parts)
    return ", ".join(text if there else f"({text})" for text, there in zip(each, fits, strict=True))


def result_table(rows):
    heads = ["wire", "GPUs", "GB of a GPU: compact, dense, at random", "GB sent a step and GPU: compact, dense"]
    heads += ["step with compact rows, s", "with dense rows, s", "ratio", "compact, owners drawn at random, s"]
    body = []
    for row in rows:
        dense, compact, drawn_at_random = row["dense"], row["compact"], row["random"]
        body.append([row["wire"], str(row["gpus"]), gigabytes(compact, dense, drawn_at_random)])
        body[-1] += [f"{compact['bytes'] / 1e9:.2f}, {dense['bytes'] / 1e9:.2f}", *step_cells(row)]
        body[-1] += [f"{model.seconds_of(drawn_at_random):.2f}"]
    return table(heads, body)


def step_cells(row):
    compact, dense = model.seconds_of(row["compact"]), model.seconds_of(row["dense"])
    return [f"{compact:.2f}", f"{dense:.2f}", f"{dense / compact:.2f}"]


def changes_table(cut, compute):
    """What a step takes if one of the assumptions is another."""
    heads = ["what is changed"]
    heads += [f"{wire.split(',')[0]}, {gpus} GPUs" for wire in model.WIRES for gpus in CHANGED_AT]
    heads += [f"GB of one of {CHANGED_AT[0]} GPUs"]
    body = []
    for name, changes in CHANGES.items():
        rows = [row for row in model.all_rows(cut, compute, model.Assumed(**changes)) if row["gpus"] in CHANGED_AT]
        body.append([name, *(", ".join(step_cells(row)) for row in rows)])
        body[-1].append(gigabytes(rows[0]["compact"], rows[0]["dense"], rows[0]["random"]))
    return table(heads, body)


def assumptions(cut, compute, assumed):
    of_node, of_edge, bytes_of_node, _ = compute
    peak, dense_peak = model.PEAK_BYTES.values()
    kept, dense_kept = model.KEPT_BYTES.values()
    there, back = zip(*model.ROW_BYTES.values(), strict=True)
    parts = ", ".join(str(part["parts"]) for part in cut["parts"])
    shares = ", ".join(f"{part['boundary_rows'] / cut['nodes']:.2f}" for part in cut["parts"])
    wires = "; ".join(f"{name}: {speed / 1e9:g} GB/s a GPU" for name, speed in model.WIRES.items())
    body = [
        [
            "compute",
            f"fitted: {1e9 * of_node:.2f} ns a node and {1e12 * of_edge:.1f} ps an edge, for each layer, forward and"
            " backward; from steps of four graphs on one H200, below ([steps.json](paper/steps.json))",
        ],
        [
            "edges",
            f"assumed: {assumed.edges:,}, both directions of each citation ({model.CITATIONS:,} as published), as the"
            " graphs that MaxK-GNN trains on have them, and the four of the steps. It is the most: two papers that cite"
            " each other have two edges, and are counted with four",
        ],
        ["bytes", f"exact: {there[0]} bytes a row forward and {back[0]} back; dense {there[1]} and {back[1]}"],
        [
            "rows that travel",
            f"assumed: as METIS cuts {cut['graph']}: {shares} rows a node with {parts} parts"
            " ([parts-cut.json](../bench/results/parts-cut.json)). That graph is small, and has"
            f" {cut['edges'] / cut['nodes']:.1f} edges a node, in both directions; papers100M has"
            f" {assumed.edges / model.NODES:.1f}, so more may travel. The last column has owners drawn at random, the"
            " worst cut",
        ],
        ["balance", "assumed: all parts have the same work"],
        [
            "wire",
            f"assumed: NVLink with {model.NVLINK / 1e9:g} GB/s a GPU up to {model.GPUS_OF_A_MACHINE} GPUs; above, all"
            f" rows go between machines, at 80 % of what a wire is called. {wires}",
        ],
        ["latency", f"assumed: {1e6 * assumed.latency:g} µs an exchange, beside its bytes"],
        ["hidden", "assumed: as much of an exchange as the sums over local neighbours take, half of them forward"],
        [
            "memory",
            f"{bytes_of_node / 1e3:.1f} kB a node and layer, as products-like takes; features; edges and their"
            f" transpose with weights; of a boundary row {peak} bytes while a layer exchanges it, dense {dense_peak},"
            f" and {kept} that each other layer keeps, dense {dense_kept}: counted in the code, and added as if both"
            f" peaks came together. In brackets: more than {model.GPU_MEMORY / 1e9:.0f} GB, so that it does not fit;"
            " such rows are to compare",
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
    methods = " and ".join(sorted({step["method"].replace("metis", "METIS") for step in record["steps"]}))
    return f"""
Two ranks on one {record["environment"]["device"]} ([parts-h200.json](../bench/results/parts-h200.json)), with parts by
{methods}. NCCL takes one rank a GPU, so rows go through the memory of the host, and both ranks share the GPU: this
shows bytes and waiting, and not what two GPUs would do.

{table(["graph", "ranks", "exchange", "MB a step", "step, ms", "waiting for rows, ms"], rows)}
"""


def measured():
    """What page() takes."""
    return [json.loads(path.read_text()) if path.exists() else None for path in (CUT, CPU, GPU, STEPS)]


def page(cut, cpu, gpu, steps):
    compute = model.gpu_compute(steps)
    assumed = model.Assumed()
    rows = list(model.all_rows(cut, compute, assumed))
    fits = [[name, f"{1e9 * measured:.1f}", f"{1e9 * fitted:.1f}"] for name, measured, fitted in compute[3]]
    text = f"""\
# Past the GPUs that were measured: a model

`python bench/scaling_page.py` writes this page from files in bench/results and docs/paper. **Nothing here beyond one
GPU was measured on GPUs.** It is a model, to see where the exchange of boundary rows matters: a graph of the size of
ogbn-papers100M ({model.NODES:,} nodes, {model.CITATIONS:,} citations, {model.FEATURES} features; Hu et al., Open
Graph Benchmark, 2020), SAGE with {model.LAYERS} layers of {model.HIDDEN} and k = {model.K}, full batch,
[in parts](distributed.md).

![Seconds a step by the number of GPUs, for two wires](scaling.svg)

{result_table(rows)}

## What it is made of

A step takes compute, what of the exchanges is not hidden, and the sum of the gradients.

{assumptions(cut, compute, assumed)}

Nanoseconds a node and layer, on one H200:

{table(["graph", "measured", "fitted"], fits)}

The fit has the least relative errors.

## What depends on what is assumed

One assumption at a time is another. Seconds of a step with compact rows, with dense rows, and their ratio; GB as above:

{changes_table(cut, compute)}

A node costs as much as {compute[0] / compute[1]:.0f} edges, and what is not hidden of an exchange is nearly all bytes.
So neither edges nor latency change much; how the graph is cut does.

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
    text, svg = page(*measured())
    for name, content in (("scaling.md", text), ("scaling.svg", svg)):
        (ROOT / "docs" / name).write_text(content)
        print(f"written: docs/{name}")


if __name__ == "__main__":
    main()
