"""Generated graphs with the sizes of the four that the paper trains on, for machines without those.

They have the published numbers of nodes, edges, features and classes. Degrees are skewed: a few hubs, many nodes with
few edges. Classes are planted: most edges join nodes of one class, and the features of a node are the centre of its
class with much noise, so that a graph network can learn them. Accuracies on them say nothing about the real graphs. An
edge may occur several times.
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
GROUPS = 16  # groups of nodes, if a node has several labels; else each class is a group
SAME_GROUP = 0.7  # the share of edges within a group, at least
SIGNAL = 1.5  # the distance of a group's centre from zero, in standard deviations of the noise along one direction


def generate(name: str, scale: float = 1.0, seed: int = 0, device: torch.device | str = "cpu") -> Dataset:
    """Generates one of SHAPES with `scale` times its nodes and edges, on the device: a CPU takes long to sort a hundred
    million edges. The same seed gives different graphs on a CPU and on a GPU."""
    shape = SHAPES[name]
    minimum = 2 * shape.classes / shape.nodes
    if not minimum <= scale <= 1:
        raise GraphError(f"{name}: the scale is {scale}; accepted: {minimum:.2g} to 1")
    nodes, pairs = round(shape.nodes * scale), round(shape.edges * scale) // 2
    generator = torch.Generator(device).manual_seed(seed)

    def random(*size):
        return torch.rand(size, generator=generator, device=device)

    # First, the nodes of a group are numbered in a row, hubs first. Random ids replace these numbers at the end.
    groups = GROUPS if shape.multilabel else shape.classes
    size = nodes // groups
    source = _ranked(random(pairs), groups * size)
    source_group = source % groups
    source = source_group * size + source // groups
    same = random(pairs) < SAME_GROUP
    target_group = torch.where(same, source_group, (random(pairs) * groups).long().clamp_(max=groups - 1))
    target = _ranked(random(pairs), size)
    # An edge from a node to itself goes to the next node of the group instead.
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
        # The nodes of a group share a set of labels, about a tenth of all.
        labels = (random(groups, shape.classes) < 0.1)[labels].float()
    display = name if scale == 1 else f"{name} x {scale:g}"
    return make_dataset(display, graph, features, labels)


def _ranked(uniform: torch.Tensor, count: int) -> torch.Tensor:
    """Random ranks from 0 to count - 1, with probabilities proportional to rank^-SKEW."""
    return (uniform.double() ** (1 / (1 - SKEW)) * count).long().clamp_(max=count - 1)
