"""What the page opens with: five findings, and the one chart that carries them."""

import statistics

from grids import BISECTION, EXACT, MAX_ITERS
from kernel_means import by_bisection, measured, speedups
from studies import part

COLS, K, MAX_ITER = 256, 32, 2  # the paper's training has this M and this k; max_iter 2 is its fastest setting


def finding(text, **numbers):
    return {"text": text, "numbers": numbers}


def findings(study, kernels, agreement, training, steps):
    return [
        of_the_search(agreement),
        of_early_stopping(study),
        of_the_kernels(kernels),
        of_steps(steps),
        of_accuracy(training),
    ]


def of_the_search(agreement):
    lines = [line for line in agreement if line["name"].startswith(("Table 1: shares", "Table 5"))]
    numbers, agree = (sum(line[member] for line in lines) for member in ("numbers", "agree"))
    verdict = "The search is as published" if agree >= 0.9 * numbers else "The search is not as published"
    return finding(
        f"{verdict}: of {{numbers:.0f}} numbers about its exits in Tables 1 and 5, {{agree:.0f}} agree with ours"
        f" within chance.",
        numbers=numbers,
        agree=agree,
    )


def of_early_stopping(study):
    cell, released = (
        next(cell for cell in part(study, "table2")["cells"] if (cell["k"], cell["max_iter"]) == (K, n))
        for n in (MAX_ITER, MAX_ITER + 1)
    )
    printed = cell["hit_percent"]
    if "threshold_first" not in cell:
        return finding(
            f"Stopped after {MAX_ITER} iterations, Algorithm 2 as printed holds {{printed:.1f}} % of the true top k"
            f" (M = {COLS}, k = {K}).",
            printed=printed["value"],
        )
    kernel = cell["threshold_first"]["hit_percent"]["value"]
    verdict = (
        "holds more than its Table 2 says" if kernel > printed["published"] else "holds no more than its Table 2 says"
    )
    return finding(
        f"Stopped early, the paper's kernel {verdict}: after {MAX_ITER} iterations {{kernel:.1f}} % of the true top k"
        f" (M = {COLS}, k = {K}), and {{released:.1f}} % by the authors' released code, whose max_iter {MAX_ITER} makes"
        f" {MAX_ITER + 1}. Algorithm 2 as printed holds {{printed:.1f}} %, and the table has {{published:.1f}} %.",
        kernel=kernel,
        released=released["threshold_first"]["hit_percent"]["value"],
        printed=printed["value"],
        published=printed["published"],
    )


def of_the_kernels(kernels):
    cells = measured(kernels, "grid")
    means = {s: statistics.fmean(found) for s in (EXACT, BISECTION, *MAX_ITERS) if (found := speedups(cells, s))}
    early, best = max(((means[s], s) for s in MAX_ITERS if s in means), default=(None, None))
    here = "Without" if kernels["environment"]["device"] == "gpu" else "On this CPU, without"
    text = (
        f"{here} early stopping the paper's search is {{bisection:.1f}} times as fast as torch.topk on the paper's"
        " grid. An exact search that is no bisection is {exact:.1f} times as fast"
    )
    if early is None:
        return finding(text + ".", bisection=means[BISECTION], exact=means[EXACT])
    return finding(
        text + f", {saved(early / means[EXACT])}: {best.replace('=', ' ')} has {{early:.1f}}.",
        bisection=means[BISECTION],
        exact=means[EXACT],
        early=early,
    )


def saved(times):
    """In words, what early stopping saves that is so many times as fast as exact selection."""
    if times <= 1:
        return "so stopping early saves nothing"
    if times < 1.1:
        return f"so stopping early saves {'next to nothing' if times < 1.03 else 'little'}"
    return "and stopping early saves more"


def of_steps(steps):
    graphs = [graph for graph in steps["graphs"] if graph["published_percent"]] if steps and steps["gpu"] else []
    if not graphs:
        return finding("The steps of training were not timed on a GPU with graphs of the published sizes.")
    gains = sorted((graph["exact_percent"], graph["graph"]) for graph in graphs)
    compact = [
        graph["compact_times"][end] for graph in graphs if graph["compact_times"] for end in ("least", "greatest")
    ]
    text = (
        f"With only torch.topk replaced, a training step is {{least:.1f}} % ({gains[0][1]}) to {{greatest:.1f}} %"
        f" ({gains[-1][1]})"
        " faster; the paper has {published_least:.1f} to {published_greatest:.1f} %."
    )
    numbers = {
        "least": gains[0][0],
        "greatest": gains[-1][0],
        "published_least": min(graph["published_percent"]["least"] for graph in graphs),
        "published_greatest": max(graph["published_percent"]["greatest"] for graph in graphs),
    }
    if compact:
        text += " Rows that stay compact make it {compact_least:.1f} to {compact_greatest:.1f} times as fast."
        numbers |= {"compact_least": min(compact), "compact_greatest": max(compact)}
    return finding(text, **numbers)


# In the words of the page.
RULES = {"threshold_first": "with the selection of the paper's kernel", "printed": "as Algorithm 2 is printed"}


def of_accuracy(training):
    exact = training["conclusion"]["exact"] if training else None
    if not exact:
        return finding("No network was trained here: training.json is not there.")
    equal = exact["within_chance"] >= 0.9 * exact["cells"]
    text = (
        f"Exact selection {'trains as well as' if equal else 'does not train as well as'} torch.topk (of {{cells:.0f}}"
        f" pairs of"
        " graph and model {within:.0f} are within chance; the mean differs by {mean:.2f} points)"
    )
    numbers = {"within": exact["within_chance"], "cells": exact["cells"], "mean": abs(exact["mean"])}
    costs = []
    for rule, words in RULES.items():
        early = [line for line in training["conclusion"]["early"] if line["cells"] and line["rule"] == rule]
        if early:
            worst = min(early, key=lambda line: line["worst"])
            costs.append(
                f"up to {{worst_{rule}:.1f}} points {words} (max_iter {worst['max_iter']}, {worst['worst_of']})"
            )
            numbers[f"worst_{rule}"] = -worst["worst"]
    return finding(text + (f"; stopping early costs {' and '.join(costs)}." if costs else "."), **numbers)


def argument(study, kernels):
    """Speed against exactness at M = 256: the mean over N and k of the speed-up, and over k of the hit rate, by the
    selection of the paper's kernel and by Algorithm 2 as printed."""
    cells = measured(kernels, "grid", cols=COLS)
    ks = {cell["k"] for cell in cells}
    hits = [cell for cell in part(study, "table2")["cells"] if cell["k"] in ks]

    def mean(setting):
        found = speedups(cells, setting)
        return statistics.fmean(found) if found else None

    points = []
    for setting, options in MAX_ITERS.items():
        found = [cell for cell in hits if cell["max_iter"] == options["max_iter"]]
        if mean(setting) is None or not found or "threshold_first" not in found[0]:
            continue
        passes = by_bisection(kernels, setting)
        points.append(
            {
                "max_iter": options["max_iter"],
                "rtopk": mean(setting) if passes != setting else None,
                "bisection": mean(passes) if passes else None,
                "kernel_hit_percent": statistics.fmean(c["threshold_first"]["hit_percent"]["value"] for c in found),
                "printed_hit_percent": statistics.fmean(c["hit_percent"]["value"] for c in found),
            }
        )
    return {"cols": COLS, "ks": sorted(ks), "points": points, "exact": mean(EXACT), "bisection": mean(BISECTION)}
