"""A graph for node classification, with features, labels and a split of its nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from .._text import Refusal, printable
from ..features import SparseFeatures
from ..graph import Graph

MASKS = ("train_mask", "val_mask", "test_mask")

# A network has an output column for each class. Labels with more are ids of something else.
MAX_CLASSES = 1 << 16


class GraphError(Refusal):
    """A graph that cannot be loaded: the text says which one, what is wrong, and what would help."""


@dataclass(frozen=True)
class Dataset:
    """A graph with features, labels and a split of its nodes into training, validation and test."""

    name: str
    graph: Graph
    features: torch.Tensor | SparseFeatures
    labels: torch.Tensor  # [nodes], a class each; or [nodes, classes] of zeros and ones, if a node may have several
    classes: int
    train: torch.Tensor  # indices of nodes, as in validation and test
    validation: torch.Tensor
    test: torch.Tensor

    @property
    def multilabel(self) -> bool:
        return self.labels.dim() == 2

    @property
    def split(self) -> dict[str, torch.Tensor]:
        """The nodes of each role, by its name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def metric(self) -> str:
        """The name of the score of a network."""
        return "micro-F1" if self.multilabel else "accuracy"

    def to(self, device: torch.device | str) -> Dataset:
        moved = {
            name: getattr(self, name).to(device)
            for name in ("graph", "features", "labels", "train", "validation", "test")
        }
        return replace(self, **moved)

    def with_graph(self, graph: Graph) -> Dataset:
        return replace(self, graph=graph)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.graph.num_nodes:,} nodes, {self.graph.num_edges:,} edges, {self.features.shape[1]}"
            f" features, {self.classes} classes; {len(self.train):,} nodes to train on, {len(self.validation):,} to"
            f" validate, {len(self.test):,} to test"
        )

    @classmethod
    def from_pyg(cls, data, name: str = "data") -> Dataset:
        """From a torch_geometric.data.Data with edge_index, x, y and, optionally, train_mask, val_mask and
        test_mask."""
        missing = [field for field in ("edge_index", "x", "y") if getattr(data, field, None) is None]
        if missing:
            raise GraphError(f"{name}: the Data object has no {', '.join(missing)}")
        for field in ("edge_index", "x", "y", *MASKS):
            value = getattr(data, field, None)
            if value is not None and (not isinstance(value, torch.Tensor) or value.device.type == "meta"):
                raise GraphError(f"{name}: {field} is {type(value).__name__}; accepted: a tensor with elements")
        masks = [getattr(data, field, None) for field in MASKS]
        labels = data.y.flatten() if data.y.dim() == 2 and data.y.shape[1] == 1 else data.y
        try:
            graph = Graph.from_pyg(data)
        except ValueError as error:
            raise GraphError(f"{name}: {error}") from error
        if data.x.layout != torch.strided or data.x.dim() != 2 or data.x.is_complex():
            raise GraphError(
                f"{name}: x is {list(data.x.shape)} of {data.x.dtype}, {data.x.layout}; accepted: a dense row of"
                " numbers a node"
            )
        features = data.x.float()
        if not bool(features.isfinite().all()):
            raise GraphError(f"{name}: x holds a NaN or an infinity")
        return make_dataset(name, graph, features, labels, masks)


def make_dataset(name: str, graph: Graph, features, labels: torch.Tensor, masks=(None, None, None)) -> Dataset:
    """A Dataset whose parts fit together, or a GraphError. Without masks, a fixed random half of the nodes is for
    training, and a quarter each for validation and test."""
    name = printable(name)  # may be the name of a foreign file, and goes to terminals, pages and names of folders
    nodes = graph.num_nodes
    if nodes == 0:
        raise GraphError(f"{name}: there are no nodes")
    for what, count in (("features", features.shape[0]), ("labels", labels.shape[0] if labels.dim() else 0)):
        if count != nodes:
            raise GraphError(f"{name}: {what} for {count} nodes, and the graph has {nodes}")
    if features.shape[1] == 0:
        raise GraphError(f"{name}: there are no features; accepted: one or more a node")
    if labels.layout != torch.strided or labels.is_complex():
        raise GraphError(f"{name}: the labels are {labels.dtype}, {labels.layout}; accepted: a dense tensor of numbers")
    if labels.dim() == 1:
        lowest, highest = labels.min().item(), labels.max().item()
        if labels.is_floating_point() or labels.dtype == torch.bool or lowest < 0 or highest >= MAX_CLASSES:
            raise GraphError(
                f"{name}: the labels are not classes: {labels.dtype} from {lowest} to {highest}; accepted: integers"
                f" from 0 to {MAX_CLASSES - 1}"
            )
        labels, classes = labels.long(), highest + 1
    elif labels.dim() == 2:
        classes = labels.shape[1]
        other = (labels != 0) & (labels != 1)
        if classes == 0 or bool(other.any()):
            found = f"{float(labels[other][0]):g} is among them" if classes else "they have no columns"
            raise GraphError(f"{name}: the labels are not rows of zeros and ones: {found}")
        labels = labels.float()
    else:
        raise GraphError(f"{name}: the labels have {labels.dim()} dimensions; accepted: 1, or 2 for several a node")
    missing = [field for field, mask in zip(MASKS, masks, strict=True) if mask is None]
    if 0 < len(missing) < len(MASKS):
        raise GraphError(
            f"{name}: there is no {' and no '.join(missing)}; accepted: all of {', '.join(MASKS)}, or none"
        )
    if missing:
        order = torch.randperm(nodes, generator=torch.Generator().manual_seed(0))
        parts = order.split([nodes // 2, nodes // 4, nodes - nodes // 2 - nodes // 4])
    else:
        for field, mask in zip(MASKS, masks, strict=True):
            if mask.dtype != torch.bool or list(mask.shape) != [nodes]:
                raise GraphError(
                    f"{name}: {field} is {list(mask.shape)} of {mask.dtype}; accepted: a bool for each node"
                )
        parts = [mask.nonzero().flatten() for mask in masks]
    for part, purpose in zip(parts, ("train on", "validate with", "test with"), strict=True):
        if len(part) == 0:
            raise GraphError(f"{name}: there are no nodes to {purpose}")
    uses = torch.bincount(torch.cat(list(parts)), minlength=nodes)
    if bool((uses > 1).any()):
        raise GraphError(
            f"{name}: {int((uses > 1).sum())} nodes, of them node {int(uses.argmax())}, are for more than one of"
            " training, validation and test"
        )
    train, validation, test = (part.sort().values for part in parts)
    return Dataset(name, graph, features, labels, classes, train, validation, test)
