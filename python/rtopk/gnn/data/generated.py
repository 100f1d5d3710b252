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

from ..graph import Graph
from .dataset import Dataset, GraphError, make_dataset


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

# A node's share of the edges is its rank to the power of -SKEW: at 0.5 the largest hub of flickr-like has 200 times the
# mean degree.
SKEW = 0.5
GROUPS = 16  # of nodes where a node has several labels; else a class is a group
SAME_GROUP = 0.7  # of the edges, at least
SIGNAL = 1.5  # how far a group's centre is from zero, in standard deviations of a node's noise in one direction


def generate(name: str, scale: float = 1.0, seed: int = 0, device: torch.device | str = "cpu") -> Dataset:
    """One of SHAPES with `scale` times its nodes and edges. Made on the device, since a CPU takes long to sort a
    hundred million edges. A seed gives one graph on a CPU and another on a GPU."""
    shape = SHAPES[name]
    least = 2 * shape.classes / shape.nodes
    if not least <= scale <= 1:
        raise GraphError(f"{name}: the scale is {scale}; accepted: {least:.2g} to 1")
    nodes, pairs = round(shape.nodes * scale), round(shape.edges * scale) // 2
    generator = torch.Generator(device).manual_seed(seed)

    def random(*size):
        return torch.rand(size, generator=generator, device=device)

    # Nodes of a group lie together, hubs first; the ids that users see are drawn afterwards.
    groups = GROUPS if shape.multilabel else shape.classes
    size = nodes // groups
    source = _ranked(random(pairs), groups * size)
    source_group = source % groups
    source = source_group * size + source // groups
    same = random(pairs) < SAME_GROUP
    target_group = torch.where(same, source_group, (random(pairs) * groups).long().clamp_(max=groups - 1))
    target = _ranked(random(pairs), size)
    # An edge to itself goes to the next node of the group.
    target = torch.where(source == target_group * size + target, (target + 1) % size, target)
    target += target_group * size
    ids = torch.randperm(nodes, generator=generator, device=device)
    source, target = ids[source], ids[target]
    graph = Graph.from_edge_index(torch.stack([torch.cat([source, target]), torch.cat([target, source])]), nodes)

    labels = torch.empty(nodes, dtype=torch.int64, device=device)
    labels[ids] = (torch.arange(nodes, device=device) // size).clamp_(max=groups - 1)
    centres = torch.randn(groups, shape.features, generator=generator, device=device)
    centres *= SIGNAL / math.sqrt(shape.features)
    features = torch.randn(nodes, shape.features, generator=generator, device=device) + centres[labels]
    if shape.multilabel:
        # A group stands for a set of labels, about a tenth of them.
        labels = (random(groups, shape.classes) < 0.1)[labels].float()
    display = name if scale == 1 else f"{name} x {scale:g}"
    return make_dataset(display, graph, features, labels)


def _ranked(uniform: torch.Tensor, count: int) -> torch.Tensor:
    """Ranks from 0 to count - 1, drawn with probabilities that fall as rank^-SKEW."""
    return (uniform.double() ** (1 / (1 - SKEW)) * count).long().clamp_(max=count - 1)
