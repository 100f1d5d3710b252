"""Speed-ups in percent, as the RTop-K paper gives them, and what Amdahl's law expects of them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "page"))

from published import PUBLISHED_SPEEDUPS, TABLE4  # noqa: E402


def speedup_percent(before_ms: float, after_ms: float) -> float:
    """How much faster the second is: 0 if both take equally long, 100 if it takes half the time."""
    return 100 * (before_ms / after_ms - 1)


def amdahl_percent(share_percent: float, factor: float) -> float:
    """The speed-up of a whole of which this share becomes `factor` times as fast."""
    share = share_percent / 100
    return 100 * (1 / (1 - share + share / factor) - 1)


def published(graph: str, model: str) -> dict | None:
    """What the paper has for a graph of this name: top-k's share of the model's training time, and the speed-ups."""
    for name, entry in TABLE4.items():
        if name.lower().removeprefix("ogbn-") in graph.lower():
            return {"topk_share_percent": entry[model][1], "speedup_percent": list(PUBLISHED_SPEEDUPS[name])}
    return None
