"""GraphSAINT's folders, the form in which Flickr, Yelp and Reddit are published."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from ..graph import Graph
from ._arrays import ArrayFile, open_plain
from ._checks import MAX_FEATURES, check_numbers, check_rows, finite, node_count, read_numbers, read_rows, scipy_form
from .dataset import Dataset, GraphError, make_dataset


def read_graphsaint(folder: Path, *, standardize: bool = True) -> Dataset:
    """Reads adj_full.npz (a SciPy CSR matrix), feats.npy, class_map.json and role.json. With `standardize`, features
    are standardised by the mean and deviation of the training nodes, as GraphSAINT does."""
    adjacency = folder / "adj_full.npz"
    with ArrayFile(adjacency, ("indptr", "indices", "shape", "format")) as file:
        file.need("indptr", "indices")
        nodes = node_count(file)
        form, shape = scipy_form(file)
        if form not in (b"csr", "csr"):
            raise GraphError(f"{adjacency} is not in CSR form, but {form}")
        if shape != [nodes, nodes]:
            raise GraphError(f"{adjacency}: shape is {shape}, and indptr is for {nodes} rows")
        file.check_memory()
        graph = Graph(*read_rows(file, "indptr", "indices", nodes), check=False)

    roles = _json(folder / "role.json", dict)
    masks = []
    for role in ("tr", "va", "te"):
        mask = torch.zeros(nodes, dtype=torch.bool)
        mask[_nodes(folder / "role.json", role, roles.get(role), nodes)] = True
        masks.append(mask)

    features_file = folder / "feats.npy"
    with ArrayFile(features_file) as file:
        check_numbers(file, "", 2)
        check_rows(features_file, "features", file.heads[""].shape, nodes, MAX_FEATURES)
        file.check_memory()
        features = torch.from_numpy(read_numbers(file))
    if standardize and masks[0].any():
        chosen = features[masks[0]].double()
        deviation = chosen.std(0, correction=0)
        deviation[deviation == 0] = 1
        features = (features - chosen.mean(0)) / deviation
        features = torch.from_numpy(finite(features_file, "the array, standardised,", features.numpy()))
    labels = _class_map(folder / "class_map.json", nodes)
    return make_dataset(folder.resolve().name.lower(), graph, features, labels, masks)


def _json(path: Path, kind: type):
    try:
        with open_plain(path) as file:
            content = json.loads(file.read())
    except GraphError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise GraphError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, kind):
        raise GraphError(f"{path} holds no JSON object")
    return content


def _nodes(path, role, nodes, count) -> torch.Tensor:
    if not isinstance(nodes, list) or not all(type(node) is int and 0 <= node < count for node in nodes):
        raise GraphError(f"{path}: '{role}' is not a list of nodes from 0 to {count - 1}")
    return torch.tensor(nodes, dtype=torch.int64)


def _class_map(path: Path, nodes: int) -> torch.Tensor:
    classes = _json(path, dict)
    try:
        rows = [classes[str(node)] for node in range(nodes)]
    except KeyError as error:
        raise GraphError(f"{path} has no class for node {error}") from None
    several = isinstance(rows[0], list) if rows else False
    width = len(rows[0]) if several else 0
    for node, row in enumerate(rows):
        good = (
            isinstance(row, list) and len(row) == width and all(entry in (0, 1) for entry in row)
            if several
            else type(row) is int and 0 <= row < 2**63
        )
        if not good:
            raise GraphError(
                f"{path}: node {node} has {str(row)[:60]}; accepted: a class for all, or a list of 0 and 1 for all"
            )
    return torch.tensor(rows, dtype=torch.float32 if several else torch.int64)
