"""Derives summary.json from the measured files: means over shapes, which published numbers agree, and the verdicts on
the paper's claims.

The page shows numbers of these files only and computes nothing.
"""

import statistics

from agreement import agreement
from claims import checklist
from findings import argument, findings
from grids import MAX_ITERS
from iterations import theory
from kernel_means import against_target, data, dimensions, early, early_means, panels, sweep, table3
from peer_times import peers
from provenance import commits, measured
from published import PUBLISHED_SPEEDUPS, PUBLISHED_SWEEP, PUBLISHED_TABLE3, TABLE4
from studies import distributions
from training import NAMES, steps, table4, training


def amdahl():
    """The gain from replacing torch.topk alone, by the published shares and the published speed-ups at M = 256."""
    factors = [numbers[0] for setting, numbers in PUBLISHED_TABLE3.items() if setting in MAX_ITERS]

    def gained(share, factor):
        return 100 * (1 / (1 - share / 100 * (1 - 1 / factor)) - 1)

    published_shares = {graph: [TABLE4[graph][model][1] for model in NAMES] for graph in PUBLISHED_SPEEDUPS}
    return [
        {
            "graph": graph,
            "share_least": min(shares),
            "share_greatest": max(shares),
            "computed_least": gained(statistics.fmean(shares), min(factors)),
            "computed_greatest": gained(statistics.fmean(shares), max(factors)),
            "published_least": published[0],
            "published_greatest": published[1],
        }
        for (graph, shares), published in zip(published_shares.items(), PUBLISHED_SPEEDUPS.values(), strict=True)
    ]


def training_summary(files):
    """What follows from those files about training that are there; None for the others."""
    return {
        name: function(files[name]) if name in files else None
        for name, function in (("training", training), ("steps", steps), ("table4", table4))
    }


def summary_of(files, studies):
    """`files`: the content of the measured files by name, without the suffix. `studies`: the statistics by
    distribution, with normal elements among them."""
    kernels, study = files["kernels"], studies["normal"]
    lines, agreed, trained = early(kernels), agreement(study), training_summary(files)
    return {
        "commits": commits({f"{name}.json": content for name, content in files.items()}),
        "measured": measured(files),
        "findings": findings(study, kernels, agreed, trained["training"], trained["steps"]),
        "argument": argument(study, kernels),
        "checklist": checklist(study, kernels, **trained),
        "agreement": agreed,
        "theory": theory(study),
        "table3": table3(kernels),
        "dimensions": dimensions(kernels),
        "panels": panels(kernels),
        "sweep": sweep(kernels),
        "published_sweep": [
            dict(zip(("from", "to", "least", "greatest"), band, strict=True)) for band in PUBLISHED_SWEEP
        ],
        "peers": peers(kernels),
        "early": lines,
        "early_means": early_means(lines),
        "target": against_target(kernels),
        "data": data(kernels),
        "distributions": distributions(studies),
        "amdahl": amdahl(),
        **trained,
        "failed": [cell for cell in kernels["cells"] if cell["error"]],
    }
