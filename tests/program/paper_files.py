"""Made-up files about training, in the forms of paper/gnn/study.py, paper/gnn/baselines.py and rtopk.gnn.paper."""

RECIPE = {"hidden": 256, "k": 32, "layers": 3, "dropout": 0.5, "lr": 0.01, "epochs": 80, "self_loops": True}
FACTS = {"device": "a GPU", "torch": "2.0", "rtopk": "0.1.0", "date": "2026-01-01"}
# Test accuracies of the seeds, by selection.
SCORES = {"dense": (0.81, 0.82, 0.83), "exact": (0.815, 0.82, 0.825), 2: (0.70, 0.71, 0.72), 8: (0.81, 0.82, 0.825)}
# As PyTorch says it.
FRAGMENTED = (
    "CUDA out of memory. Tried to allocate 109.53 GiB. GPU 0 has a total capacity of 139.80 GiB of which 20.82 GiB is"
    " free. Of the allocated memory 7.15 GiB is allocated by PyTorch, and 111.03 GiB is reserved by PyTorch but"
    " unallocated."
)
STEPS_MS = {"dense": (10.0, 3.0), "exact": (4.0, 0.4), 2: (3.9, 0.3), 8: (4.1, 0.5)}


def recipe(model, selection, rule, seed):
    own = {"model": model, "rule": rule, "seed": seed, "baseline": None, "max_iter": None}
    own |= {"baseline": "dense"} if selection == "dense" else {} if selection == "exact" else {"max_iter": selection}
    return RECIPE | own


def name_of(selection):
    return selection if isinstance(selection, str) else f"max_iter {selection}"


def training(scores=SCORES, rule="threshold_first"):
    """results.json of a study: one graph, three models."""
    timings, runs = [], []
    for model in ("sage", "gcn", "gin"):
        for selection, (step, topk) in STEPS_MS.items():
            own = {"graph": "cora", "selection": name_of(selection), "recipe": recipe(model, selection, rule, 0)}
            timings.append(own | {"step_ms": step, "topk_ms": topk, "step_mib": 100.0})
        for selection, values in scores.items():
            for seed, value in enumerate(values):
                own = {"graph": "cora", "selection": name_of(selection)}
                runs.append(own | {"recipe": recipe(model, selection, rule, seed), "best": {"test": value}})
    graphs = {"cora": {"nodes": 2708, "edges": 10556, "metric": "accuracy"}}
    environment = FACTS | {"commits": ["c" * 40], "commands": ["python paper/gnn/study.py"]}
    return {"environment": environment, "graphs": graphs, "timings": timings, "runs": runs}


def steps(exact_percent=33.0, share_percent=26.0):
    """baselines.json: one graph, three models; PyTorch Geometric's edge_index does not fit, once for fragmentation."""
    cells = []
    for model in ("sage", "gcn", "gin"):
        variants = [{"name": "torch.topk", "kind": "torch", "max_iter": None, "rule": None, "step_ms": 10.0}]
        variants += [replaced("exact", None, None, exact_percent)]
        for rule in ("threshold_first", "printed"):
            variants += [replaced(f"max_iter {n}, {rule}", n, rule, exact_percent - n / 10) for n in (2, 8)]
        variants += [{"name": "compact", "kind": "compact", "step_ms": 4.0, "speedup_percent": 150.0, "step_mib": 10.0}]
        error = f"out of memory: {FRAGMENTED if model == 'sage' else 'too much'}"
        variants += [{"name": "pyg edge_index", "kind": "pyg", "error": error}]
        variants += [{"name": "pyg csr", "kind": "pyg", "step_ms": 20.0, "speedup_percent": -50.0, "step_mib": 90.0}]
        published = {"topk_share_percent": 26.8, "speedup_percent": [32.48, 33.29]}
        cell = {"graph": "flickr-like", "model": model, "published": published, "topk_share_percent": share_percent}
        cells.append(cell | {"variants": variants})
    environment = FACTS | {"commit": "d" * 40, "command": "python paper/gnn/baselines.py", "torch_geometric": "2.6"}
    return {"environment": environment, "graphs": {"flickr-like": {}}, "cells": cells}


def replaced(name, max_iter, rule, percent):
    times = {"step_ms": 10 / (1 + percent / 100), "speedup_percent": percent, "amdahl_percent": percent + 1}
    return {"name": name, "kind": "replaced", "max_iter": max_iter, "rule": rule} | times


def table4(early=(53.0, 53.1)):
    scores = {"dense": [53.2, 53.4], "exact": [53.3, 53.4], "max_iter 2": list(early)}
    rows = [{"graph": "flickr", "model": "sage", "metric": "accuracy", "published": 53.44, "scores": scores}]
    return {"environment": FACTS, "rows": rows}


ALL = {"training.json": training(), "steps.json": steps(), "table4.json": table4()}
