"""What follows from the files about training: accuracy and steps of a study (training.json), steps beside others
(steps.json), and the paper's Table 4 on the real graphs (table4.json). Each may be missing.

The files are read as they are, without the Python package, so that the page can be drawn where it is not installed.
"""

import math
import re
import statistics

import bench_folder  # noqa: F401
from gpu_report import geometric_mean

NAMES = {"sage": "GraphSAGE", "gcn": "GCN", "gin": "GIN"}
GENERATED = "-like"  # how the names of generated graphs end
KERNEL_RULE = "threshold_first"

# Settings that files from before there was a choice do not have.
_DEFAULTS = {"precision": "highest", "initialization": "torch", "rule": "printed"}
# Settings that differ between the networks of one cell.
_VARIED = ("max_iter", "baseline", "seed", "rule")


def training(results):
    """Cells of one graph, model and recipe, with times and scores of each selection; then what follows for all."""
    cells = _cells(results)
    return {
        "cells": cells,
        "conclusion": _conclusion(cells),
        "max_iters": _max_iters(cells),
        "scored": any("score" in one for cell in cells for one in cell["selections"]),
        "timed": any("step_ms" in one for cell in cells for one in cell["selections"]),
    }


# ---- Cells ----


def _recipe(entry):
    return _DEFAULTS | entry["recipe"]


def _shared(entry):
    return {name: value for name, value in _recipe(entry).items() if name not in _VARIED}


def _selection(entry):
    """(name, max_iter, rule): the rule is one of early stopping alone."""
    recipe = _recipe(entry)
    if recipe.get("baseline"):
        return recipe["baseline"], None, None
    if recipe.get("max_iter") is None:
        return "exact", None, None
    return f"max_iter {recipe['max_iter']}", recipe["max_iter"], recipe["rule"]


def _cells(results):
    """In the order of the results. If a graph and a model have several recipes, titles say what differs."""
    groups = {}
    for kind in ("timings", "runs"):
        for entry in results[kind]:
            recipe = _shared(entry)
            key = (entry["graph"], tuple(sorted(recipe.items())))
            groups.setdefault(key, (recipe, {"timings": [], "runs": []}))[1][kind].append(entry)
    recipes = {}
    for (graph, _), (recipe, _) in groups.items():
        recipes.setdefault((graph, recipe["model"]), []).append(recipe)
    cells = []
    for (graph, _), (recipe, entries) in groups.items():
        known = recipes[graph, recipe["model"]]
        differing = [name for name in known[0] if any(other.get(name) != known[0][name] for other in known)]
        words = "".join(f", {name.replace('_', ' ')} {recipe.get(name)}" for name in differing)
        cells.append(
            {
                "graph": graph,
                "model": recipe["model"],
                "title": f"{graph}, {NAMES[recipe['model']]}{words}",
                "metric": results["graphs"][graph]["metric"],
                "generated": graph.split()[0].endswith(GENERATED),
                "recipe": recipe,
                "selections": (selections := _selections(entries)),
                "rules": [*dict.fromkeys(one["rule"] for one in selections if one["rule"])] or [None],
            }
        )
    return cells


def _selections(entries):
    times, scores = {}, {}
    for entry in entries["timings"]:
        times.setdefault(_selection(entry), entry)
    for entry in entries["runs"]:
        # A study of both rules trains dense and exact networks twice; they count once.
        scores.setdefault(_selection(entry), {}).setdefault(_recipe(entry).get("seed"), 100 * entry["best"]["test"])

    def order(key):
        name, max_iter, rule = key
        return (name != "dense", name != "exact", rule != KERNEL_RULE, max_iter or 0)

    found = []
    for key in sorted({*times, *scores}, key=order):
        name, max_iter, rule = key
        one = {"selection": name, "max_iter": max_iter, "rule": rule}
        if key in times:
            step, topk = times[key]["step_ms"], times[key]["topk_ms"]
            one |= {"step_ms": step, "topk_ms": topk, "share_percent": 100 * topk / step}
            one |= {"step_mib": times[key].get("step_mib")}
        if key in scores:
            one["score"] = mean_spread(list(scores[key].values()))
        found.append(one)
    dense, exact = (next((one for one in found if one["selection"] == name), {}) for name in ("dense", "exact"))
    for one in found:
        if "step_ms" in one and "step_ms" in dense:
            one["speedup"] = dense["step_ms"] / one["step_ms"]
        if "step_ms" in one and "step_ms" in exact:
            one["of_exact"] = one["step_ms"] / exact["step_ms"]
        other = dense if one is exact else exact if one is not dense else {}
        if "score" in one and "score" in other:
            one["difference"] = difference(one["score"], other["score"])
    return found


def mean_spread(values):
    """Mean and standard deviation; a single value has no spread."""
    spread = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "spread": spread, "seeds": len(values)}


def difference(one, other):
    """Of two means, and how large it is by chance in 19 of 20 cases; one seed tells nothing of chance."""
    value = one["mean"] - other["mean"]
    if one["spread"] is None or other["spread"] is None:
        return {"value": value, "chance": None, "beyond_chance": False}
    freedom = one["seeds"] + other["seeds"] - 2
    error = math.sqrt(one["spread"] ** 2 / one["seeds"] + other["spread"] ** 2 / other["seeds"])
    chance = students_t(freedom) * error
    return {"value": value, "chance": chance, "beyond_chance": abs(value) > chance}


def students_t(freedom):
    """The 97.5th percentile of Student's t, by the series around the normal distribution's; within 1 % from 4 on."""
    z = statistics.NormalDist().inv_cdf(0.975)
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return sum(term / freedom**power for power, term in enumerate(terms))


# ---- What follows ----


def _max_iters(cells):
    return sorted({one["max_iter"] for cell in cells for one in cell["selections"] if one["max_iter"]})


def extremes(values):
    return {"least": min(values), "greatest": max(values)} if values else None


def _conclusion(cells):
    exact, early, dense_shares, exact_shares, speedups = [], {}, [], [], []
    for cell in cells:
        for one in cell["selections"]:
            if one["selection"] == "dense" and "share_percent" in one:
                dense_shares.append(one["share_percent"])
            elif one["selection"] == "exact":
                exact += [(cell["title"], one["difference"])] if "difference" in one else []
                exact_shares += [one["share_percent"]] if "share_percent" in one else []
                speedups += [one["speedup"]] if "speedup" in one else []
            elif one["max_iter"]:
                early.setdefault((one["rule"], one["max_iter"]), []).append((cell["title"], one))
    return {
        "exact": _agreement(exact),
        "early": [
            {"rule": rule, "max_iter": n} | _cost(found) for (rule, n), found in sorted(early.items(), key=_order)
        ],
        "dense_share_percent": extremes(dense_shares),
        "exact_share_percent": extremes(exact_shares),
        "exact_speedup": extremes(speedups),
    }


def _order(item):
    (rule, max_iter), _ = item
    return rule != KERNEL_RULE, max_iter


def _agreement(found):
    """How the exact networks differ from the dense ones."""
    if not found:
        return None
    title, largest = max(found, key=lambda one: abs(one[1]["value"]))
    return {
        "cells": len(found),
        "within_chance": sum(not difference["beyond_chance"] for _, difference in found),
        "mean": statistics.fmean(difference["value"] for _, difference in found),
        "largest": largest["value"],
        "largest_of": title,
    }


def _cost(found):
    """What one kind of early stopping loses in accuracy and saves in time, beside exact selection."""
    scored = [(title, one["difference"]) for title, one in found if "difference" in one]
    times = [one["of_exact"] for _, one in found if "of_exact" in one]
    cost = {"of_exact": geometric_mean(times) if times else None, "fastest": min(times, default=None)}
    if not scored:
        return cost | {"cells": 0}
    title, worst = min(scored, key=lambda one: one[1]["value"])
    return cost | {
        "cells": len(scored),
        "mean": statistics.fmean(difference["value"] for _, difference in scored),
        "worst": worst["value"],
        "worst_of": title,
        "lower": sum(d["beyond_chance"] and d["value"] < 0 for _, d in scored),
        "higher": sum(d["beyond_chance"] and d["value"] > 0 for _, d in scored),
    }


# ---- Steps beside others ----


def steps(content):
    """By graph: what replacing torch.topk alone gains, as the paper gives it (the mean of the models, and its range
    over max_iter), and top-k's share. Then the extremes over all graphs."""
    graphs = [_graph_steps(graph, content["cells"]) for graph in content["graphs"]]
    gains = [
        (variant["speedup_percent"], f"{cell['graph']}, {NAMES[cell['model']]}, {variant['name']}")
        for cell in content["cells"]
        for variant in cell["variants"]
        if variant["kind"] == "replaced" and "speedup_percent" in variant
    ]
    shares = [
        (abs(cell["topk_share_percent"] - cell["published"]["topk_share_percent"]), cell)
        for cell in content["cells"]
        if _published(cell) and "topk_share_percent" in cell
    ]
    far = max(shares, key=lambda one: one[0], default=None)
    early, compact = _early_points(content["cells"]), _gains(content["cells"], kind="compact")
    return {
        "graphs": [graph for graph in graphs if graph],
        "exact_percent": extremes(_gains(content["cells"], kind="replaced", name="exact")),
        "early_points": max(early, key=lambda one: one["points"], default=None),
        "compact_times": extremes([1 + gain / 100 for gain in compact]),
        "max_iters": sorted({n for cell in content["cells"] for v in cell["variants"] if (n := v.get("max_iter"))}),
        # Only on a GPU is the memory of a step known.
        "gpu": any("step_mib" in variant for cell in content["cells"] for variant in cell["variants"]),
        "variants": len(gains),
        "faster": sum(gain > 0 for gain, _ in gains),
        "least": dict(zip(("percent", "of"), min(gains), strict=True)) if gains else None,
        "share_percent": extremes([c["topk_share_percent"] for c in content["cells"] if "topk_share_percent" in c]),
        "furthest_share": None if far is None else _far_share(*far),
        "without_memory": [
            {"of": f"{cell['graph']}, {NAMES[cell['model']]}, {variant['name']}"} | memory
            for cell in content["cells"]
            for variant in cell["variants"]
            if (memory := _memory(variant.get("error", "")))
        ],
    }


def _gains(cells, **wanted):
    """Of the variants with these settings that were timed."""
    return [
        one["speedup_percent"]
        for cell in cells
        for one in cell["variants"]
        if "speedup_percent" in one and all(one.get(name) == value for name, value in wanted.items())
    ]


def _early_points(cells):
    """How far each early-stopped variant's gain is from that of the exact one, in points."""
    found = []
    for cell in cells:
        for exact in _gains([cell], kind="replaced", name="exact"):
            for one in cell["variants"]:
                if one["kind"] == "replaced" and one.get("max_iter") and "speedup_percent" in one:
                    title = f"{cell['graph']}, {NAMES[cell['model']]}, {one['name']}"
                    found.append({"points": abs(one["speedup_percent"] - exact), "of": title})
    return found


def _memory(error):
    """The numbers in PyTorch's error, in GiB; None if they are not all there. Fragmented: what was asked for would have
    fit beside what was in use, and more lay reserved in pieces than was in use. A device that is nearly full of data
    is not called that."""
    places = {
        "asked": r"Tried to allocate ([\d.]+) GiB",
        "capacity": r"total capacity of ([\d.]+) GiB",
        "used": r"([\d.]+) GiB is allocated by PyTorch",
        "reserved": r"([\d.]+) GiB is reserved by PyTorch but unallocated",
    }
    found = {name: re.search(place, error) for name, place in places.items()}
    if None in found.values():
        return None
    memory = {name: float(match[1]) for name, match in found.items()}
    fits = memory["asked"] + memory["used"] <= memory["capacity"]
    return memory | {"fragmented": fits and memory["used"] < memory["reserved"]}


def _published(cell):
    """A graph that is scaled down, as its name says, has no published numbers."""
    return None if " x " in cell["graph"] else cell.get("published")


def _range(least, greatest):
    return {"least": least, "greatest": greatest, "middle": (least + greatest) / 2, "half": (greatest - least) / 2}


def _far_share(points, cell):
    return {
        "points": points,
        "percent": cell["topk_share_percent"],
        "published": cell["published"]["topk_share_percent"],
        "of": f"{cell['graph']}, {NAMES[cell['model']]}",
    }


def _graph_steps(graph, cells):
    cells = [cell for cell in cells if cell["graph"] == graph and "topk_share_percent" in cell]
    if not cells:
        return None

    early = {}
    for rule in (KERNEL_RULE, "printed"):
        numbers = sorted({one["max_iter"] for cell in cells for one in cell["variants"] if one.get("rule") == rule})
        found = [_gains(cells, kind="replaced", max_iter=n, rule=rule) for n in numbers]
        means = [statistics.fmean(gains) for gains in found if gains]
        if means:
            early[rule] = extremes(means)
    exact, compact = _gains(cells, kind="replaced", name="exact"), _gains(cells, kind="compact")
    known = [published for cell in cells if (published := _published(cell))]
    return {
        "graph": graph,
        "models": len(cells),
        "exact_percent": statistics.fmean(exact) if exact else None,
        "early_percent": early,
        "compact_times": extremes([1 + gain / 100 for gain in compact]),
        "share_percent": extremes([cell["topk_share_percent"] for cell in cells]),
        "published_percent": _range(*known[0]["speedup_percent"]) if known else None,
        "published_share_percent": extremes([one["topk_share_percent"] for one in known]),
    }


# ---- The paper's Table 4 on the real graphs ----


def table4(content):
    rows = []
    for row in content["rows"]:
        scores = {top_k: mean_spread(values) for top_k, values in row["scores"].items() if values}
        differences = {
            top_k: difference(score, scores["exact"])
            for top_k, score in scores.items()
            if top_k.startswith("max_iter") and "exact" in scores
        }
        named = {name: row[name] for name in ("graph", "model", "metric", "published")}
        from_published = scores["exact"]["mean"] - row["published"] if "exact" in scores else None
        rows.append(
            named
            | {"title": f"{row['graph']}, {NAMES[row['model']]}", "scores": scores, "differences": differences}
            | {"from_published": from_published}
        )
    top_ks = list(dict.fromkeys(top_k for row in rows for top_k in row["scores"]))
    return {"rows": rows, "top_ks": top_ks}
