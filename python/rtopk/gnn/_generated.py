"""Generated graphs with the sizes of the four that the paper trains on, which cannot be had everywhere.

They have the published numbers of nodes, edges, features and classes, a skewed distribution of degrees (a few hubs,
many nodes with few edges) and planted classes: most edges join nodes of one class, and the features of a node are its
class's centre under much noise. So a graph network learns something on them. Accuracies on them say nothing about the
real ones. An edge may occur several times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from .data import Dataset, GraphError, make_dataset
from .graph import Graph


@dataclass(frozen=True)
class Shape:
    nodes: int
    edges: int  # directed
    features: int
    classes: int
    multilabel: bool = False


SHAPES = {
    "flickr-like": Shape(89_250, 899_756, 500, 7),
    "yelp-like": Shape(716_847, 13_954_819, 300, 100, multilabel=True),
    "reddit-like": Shape(232_965, 114_615_892, 602, 41),
    "products-like": Shape(2_449_029, 123_718_280, 100, 47),
}

# The share of a node's edges is its rank to the power of -SKEW: at 0.5 the largest of n hubs has about sqrt(n)/2 times
# the mean degree, as Reddit's and Flickr's have.
SKEW = 0.5
SAME_CLASS = 0.7  # of the edges
SIGNAL = 1.5  # how far a class's centre is from zero, in standard deviations of a node's noise in one direction


def generate(name: str, scale: float = 1.0, seed: int = 0, device: torch.device | str = "cpu") -> Dataset:
    """One of SHAPES with `scale` times its nodes and edges."""
    shape = SHAPES[name]
    nodes, pairs = round(shape.nodes * scale), round(shape.edges * scale) // 2
    if not (math.isfinite(scale) and 0 < scale <= 1 and nodes >= 2 * shape.classes):
        least = 2 * shape.classes / shape.nodes
        raise GraphError(f"{name}: the scale is {scale}; accepted: {least:.2g} to 1")
    generator = torch.Generator(device).manual_seed(seed)

    def random(*size):
        return torch.rand(size, generator=generator, device=device)

    # Nodes of a class lie together, hubs first; the ids that users see are drawn afterwards.
    size = nodes // shape.classes
    source = _ranked(random(pairs), shape.classes * size)
    source_class = source % shape.classes
    source = source_class * size + source // shape.classes
    same = random(pairs) < SAME_CLASS
    target_class = torch.where(same, source_class, (random(pairs) * shape.classes).long().clamp_(max=shape.classes - 1))
    target = target_class * size + _ranked(random(pairs), size)
    # An edge to itself moves to the next node of the class.
    target = torch.where(source == target, target_class * size + (target - target_class * size + 1) % size, target)
    ids = torch.randperm(nodes, generator=generator, device=device)
    source, target = ids[source], ids[target]
    graph = Graph.from_edge_index(torch.stack([torch.cat([source, target]), torch.cat([target, source])]), nodes)

    node_class = torch.empty(nodes, dtype=torch.int64, device=device)
    node_class[ids] = (torch.arange(nodes, device=device) // size).clamp_(max=shape.classes - 1)
    centres = torch.randn(shape.classes, shape.features, generator=generator, device=device)
    centres *= SIGNAL / math.sqrt(shape.features)
    features = torch.randn(nodes, shape.features, generator=generator, device=device) + centres[node_class]
    labels = node_class
    if shape.multilabel:
        # Each class stands for a set of labels, about a tenth of them.
        labels = (random(shape.classes, shape.classes) < 0.1)[node_class].float()
    display = name if scale == 1 else f"{name} x {scale:g}"
    return make_dataset(display, graph.to("cpu"), features.cpu(), labels.cpu())


def _ranked(uniform: torch.Tensor, count: int) -> torch.Tensor:
    """Ranks from 0 to count - 1, drawn with probabilities that fall as rank^-SKEW."""
    return (uniform.double() ** (1 / (1 - SKEW)) * count).long().clamp_(max=count - 1)
