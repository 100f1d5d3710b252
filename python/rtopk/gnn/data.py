"""Graphs for node classification: what one consists of, and how a name or a path becomes one."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ._text import Refusal, printable
from .graph import Graph
from .layers import SparseFeatures

DATA_VARIABLE = "RTOPK_DATA"

MASKS = ("train_mask", "val_mask", "test_mask")

# A network has an output for each class; larger numbers are ids of something else.
MOST_CLASSES = 1 << 16


class GraphError(Refusal):
    """A graph that cannot be had: the text says which one, what is wrong, and what would help."""


@dataclass(frozen=True)
class Dataset:
    """A graph with features, labels and a split of its nodes."""

    name: str
    graph: Graph
    features: torch.Tensor | SparseFeatures
    labels: torch.Tensor  # a class a node; or, where a node may have several, a row of zeros and ones a node
    classes: int
    train: torch.Tensor  # node indices
    validation: torch.Tensor
    test: torch.Tensor

    @property
    def multilabel(self) -> bool:
        return self.labels.dim() == 2

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
        """From a torch_geometric.data.Data with x, y and, if it has them, train_mask, val_mask and test_mask."""
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
    """A Dataset whose parts fit together, or a GraphError. Without masks half of the nodes, drawn once for all, are for
    training and a quarter each for validation and test."""
    name = printable(name)  # of a file, whoever named it; it goes to terminals, pages and names of folders
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
        least, most = labels.min().item(), labels.max().item()
        if labels.is_floating_point() or labels.dtype == torch.bool or least < 0 or most >= MOST_CLASSES:
            raise GraphError(
                f"{name}: the labels are not classes: {labels.dtype} from {least} to {most}; accepted: integers from 0"
                f" to {MOST_CLASSES - 1}"
            )
        labels, classes = labels.long(), most + 1
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


def load(
    graph: str | os.PathLike,
    data: str | os.PathLike | None = None,
    *,
    scale: float = 1.0,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Dataset:
    """The graph of a name or a path.

    Args:
        graph: `wordnet`; a generated graph, `flickr-like`, `yelp-like`, `reddit-like` or `products-like`; the path of
            an .npz file of plain arrays, of a GraphSAINT folder or of a folder with ogbn-products; or the name of one
            of these in the folder `data`. docs/gnn.md describes the formats.
        data: the folder to look for names in; without it the environment variable RTOPK_DATA, or the current folder.
        scale: how many of the published nodes and edges a generated graph has.
        seed: of a generated graph.
        device: where everything lies afterwards.
    """
    from . import _files, _generated, _wordnet

    name = os.fspath(graph)
    folder = Path(data or os.environ.get(DATA_VARIABLE) or ".")
    if name in _generated.SHAPES:
        return _generated.generate(name, scale, seed, device).to(device)
    if scale != 1.0:
        raise GraphError(f"{name}: a scale is for generated graphs; accepted: {', '.join(_generated.SHAPES)}")
    for path in (Path(name), folder / name, folder / f"{name}.npz"):
        if path.is_dir() or path.is_file():
            return _files.read(path).to(device)
    if name == "wordnet":
        return _wordnet.build().to(device)
    if name == "ogbn-products":
        return _files.read_ogb_package(name, folder).to(device)
    known = ", ".join(["wordnet", "ogbn-products", *_generated.SHAPES])
    found = ", ".join(sorted(path.stem for path in folder.glob("*.npz"))) or "none"
    raise GraphError(
        f"there is no graph '{name}'. Known by name: {known}; in the folder {folder}: {found}. A path of an .npz"
        " file, of a GraphSAINT folder or of ogbn-products' files is taken too, and --data names another folder."
    )
