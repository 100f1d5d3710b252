#!/usr/bin/env python3
"""The accuracy of a graph in parts beside that of one rank, after as many epochs, over seeds.

    python bench/parts_accuracy.py data/coauthor-physics.npz --json bench/results/parts-accuracy-cpu.json

Every number of ranks is a group of real processes on CPUs, each with one thread, as in bench/compare_parts.py. With a
seed all of them begin with the same parameters; dropout draws other numbers for other numbers of ranks. The accuracy is
that of the test nodes after the last epoch. Differences from one rank are means over seeds, with their standard error.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

import rtopk
from checkout import cpu_model, origin
from rank_processes import HOST_SECONDS, run_ranks
from rtopk.gnn import load
from rtopk.gnn.parts import METHODS, PartTrainer, joined, load_part, write_parts
from rtopk.gnn.recipe import Recipe
from whole_file import write_json

SETTINGS = ("model", "hidden", "k", "layers", "dropout", "lr", "epochs")  # of the recipe

# ---- In a rank ----


def train_rank(arguments):
    torch.set_num_threads(1)
    with joined("cpu", HOST_SECONDS) as ranks:
        part, facts = load_part(str(arguments.folder), None, None, ranks)
        found = []
        for seed in range(arguments.seeds):
            start = time.monotonic()
            recipe = Recipe(**{name: getattr(arguments, name) for name in SETTINGS}, seed=seed)
            trainer = PartTrainer(part, facts, recipe, ranks)
            for _ in range(recipe.epochs):
                loss = trainer.step()
            entry = trainer.evaluate(loss)
            found.append({"seed": seed, "loss": entry["loss"], "test": entry["test"]})
            if ranks.rank == 0:
                seconds = time.monotonic() - start
                print(f"ranks: {ranks.world}, seed {seed}: {entry['test']:.4f}, {seconds:.0f} s", flush=True)
        if ranks.rank == 0:
            arguments.result.write_text(json.dumps(found))


# ---- The groups ----


def trained_by(world, dataset, arguments):
    """The loss and the accuracy of every seed, and what is known of the parts."""
    with tempfile.TemporaryDirectory() as folder:
        facts = write_parts(dataset, Path(folder), world, arguments.method)
        result = Path(folder) / "result.json"
        line = [sys.executable, __file__, arguments.graph, "--seeds", arguments.seeds]
        line += ["--folder", folder, "--result", result]
        for name in SETTINGS:
            line += [f"--{name}", getattr(arguments, name)]
        run_ranks(line, world)
        return {"ranks": world, "method": facts.method, "seeds": json.loads(result.read_text())}


def beside_one_rank(found, one):
    """The mean difference of accuracies, by seed, and its standard error."""
    pairs = zip(found["seeds"], one["seeds"], strict=True)
    differences = [ours["test"] - theirs["test"] for ours, theirs in pairs]
    return {
        "mean_difference": statistics.mean(differences),
        "standard_error": statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else None,
    }


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="its name or path")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], help="how many, each beside one rank")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--method", choices=METHODS, help="how graphs are cut; default: metis if it is installed")
    parser.add_argument("--model", default="sage", help="sage, gcn or gin")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # of a rank: where the parts are
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)  # of a rank: what rank 0 writes
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.folder is not None:
        return train_rank(arguments)
    dataset = load(arguments.graph)
    print(dataset, flush=True)
    environment = {
        **origin(),
        "device": cpu_model(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "rtopk": rtopk.info(),
        **{name: getattr(arguments, name) for name in SETTINGS},
    }
    groups = [trained_by(1, dataset, arguments)]
    for world in arguments.ranks:
        found = trained_by(world, dataset, arguments)
        groups.append(found | beside_one_rank(found, groups[0]))
    for found in groups:
        tests = " ".join(f"{entry['test']:.4f}" for entry in found["seeds"])
        print(f"ranks: {found['ranks']}: {tests}", end="")
        if found.get("standard_error") is not None:
            print(f"; from one rank: {found['mean_difference']:+.4f} ± {found['standard_error']:.4f}", end="")
        print(flush=True)
    if arguments.json:
        write_json(arguments.json, {"environment": environment, "graph": dataset.name, "accuracy": groups})


if __name__ == "__main__":
    main()
