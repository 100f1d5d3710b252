#!/usr/bin/env python3
"""How much memory it takes to cut a graph into parts, and to have one of them.

    python bench/partition_memory.py --json bench/results/partition-memory.json

Random graphs with edges in both directions and few features are written to files. `python -m rtopk.gnn partition` cuts
each of them in a process of its own, whose greatest size the system tells (ru_maxrss); so is that of a process that
reads one part as a rank of a training does, and of one that reads the whole graph. What a process takes that only
imports all of it is subtracted. Bytes of an edge and of a node are fitted to graphs with few and with many edges a
node; the fit has the least relative errors.

Graphs are made in another process: the system counts what a process had before it became another program.
"""

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import rtopk
from checkout import cpu_model, origin
from rtopk.gnn.parts.files import file_name
from rtopk.gnn.parts.partition import METHODS, default_method
from whole_file import write_json

SIZES = [(400_000, 4_000_000), (800_000, 8_000_000), (100_000, 8_000_000)]  # nodes, edges
FEATURES = 8
IMPORTS = "import rtopk.gnn.cli, numpy; import rtopk.gnn.parts"
READ = f"{IMPORTS}; rtopk.gnn.load({{0!r}})"
READ_PART = f"""{IMPORTS}, pathlib
from rtopk.gnn.parts.files import read_facts, read_part
folder = pathlib.Path({{0!r}})
read_part(folder, read_facts(folder), rtopk.gnn.parts.Ranks(rank=0, world={{1}}))"""


def write_graph(path, nodes, edges):
    """A random graph as an .npz file."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(nodes, (2, edges // 2), generator=generator)
    graph = rtopk.gnn.Graph.from_edge_index(torch.cat([ends, ends.flip(0)], 1), nodes)
    np.savez(
        path,
        indptr=graph.row_starts.numpy(),
        indices=graph.columns.numpy(),
        x=np.ones((nodes, FEATURES), np.float32),
        y=np.arange(nodes) % 2,
    )


def greatest_size(*arguments):
    """Bytes that a process of Python takes at most."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(rtopk.__file__).parents[1])}
    process = subprocess.Popen([sys.executable, *map(str, arguments)], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{arguments} ended with status {process.returncode}")
    return usage.ru_maxrss * 1024


def fitted(cells, name):
    """Bytes of an edge and of a node."""
    sizes = np.array([[cell["edges"], cell["nodes"]] for cell in cells], float)
    taken = np.array([cell["bytes"][name] for cell in cells], float)
    return [float(each) for each in np.linalg.lstsq(sizes / taken[:, None], np.ones(len(cells)), rcond=None)[0]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    methods = [name for name in METHODS if name != "metis" or default_method() == "metis"]
    nothing = greatest_size("-c", IMPORTS)
    cells = []
    for nodes, edges in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            graph, parts = Path(folder, "graph.npz"), Path(folder, "parts")
            writer = multiprocessing.get_context("spawn").Process(target=write_graph, args=(graph, nodes, edges))
            writer.start()
            writer.join()
            found = {"read": greatest_size("-c", READ.format(str(graph)))}
            for method in methods:
                command = ("--graph", graph, "--parts", options.parts, "--out", parts, "--method", method)
                found[method] = greatest_size("-m", "rtopk.gnn", "partition", *command)
            found["part"] = greatest_size("-c", READ_PART.format(str(parts), options.parts))
            own = json.loads((parts / "parts.json").read_text())["files"][0]
            file_bytes = (parts / file_name(0, options.parts)).stat().st_size
            cell = {"nodes": nodes, "edges": edges, "first_part": own | {"file_bytes": file_bytes}}
            cells.append(cell | {"bytes": {name: taken - nothing for name, taken in found.items()}})
            texts = (f"{name} {taken / 1e6:,.0f} MB" for name, taken in cells[-1]["bytes"].items())
            print(f"{nodes:,} nodes, {edges:,} edges: {', '.join(texts)}", flush=True)
    fits = {name: fitted(cells, name) for name in ("read", *methods)}
    for name, (of_edge, of_node) in fits.items():
        print(f"{name}: {of_edge:.0f} bytes an edge, {of_node:.0f} a node")
    if options.json:
        environment = {**origin(), "cpu": cpu_model(), "system": platform.system(), "torch": torch.__version__}
        record = {"environment": environment, "parts": options.parts, "features": FEATURES, "imports": nothing}
        write_json(options.json, record | {"cells": cells, "bytes_of_edge_and_node": fits})


if __name__ == "__main__":
    main()
