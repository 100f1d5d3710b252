"""What was published: table 4 of the RTop-K paper (ICLR 2025), measured by its authors on an RTX A6000."""

from __future__ import annotations

SOURCE = "table 4 of the RTop-K paper (ICLR 2025), RTX A6000, M = 256, k = 32, torch.topk"

# By graph: its nodes; by model the test score in %, and top-k's share of the training time in %.
PUBLISHED = {
    "ogbn-products": {"nodes": 2_449_029, "sage": (80.08, 19.81), "gcn": (76.6, 19.61), "gin": (77.77, 19.67)},
    "Yelp": {"nodes": 716_847, "sage": (61.09, 26.09), "gcn": (48.26, 25.84), "gin": (43.16, 25.92)},
    "Reddit": {"nodes": 232_965, "sage": (96.74, 11.66), "gcn": (95.18, 11.61), "gin": (94.96, 11.62)},
    "Flickr": {"nodes": 89_250, "sage": (53.44, 26.86), "gcn": (50.42, 26.78), "gin": (51.73, 26.73)},
}


def published_score(graph: str, model: str) -> float:
    """The published test score in %, of a graph by its name in any case."""
    return next(entry[model][0] for name, entry in PUBLISHED.items() if name.lower() == graph.lower())
