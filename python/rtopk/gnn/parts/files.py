"""A graph in parts on disk: a folder with a file for each part, and parts.json, which says what they are."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import torch

from .._aggregate import index_type
from .._atomic import locked, write_whole
from .._text import printable, short
from ..data import Dataset, GraphError
from ..data._arrays import ArrayFile, check_memory, open_plain
from ..data._checks import MAX_FEATURES, check_numbers, check_starts, read_numbers, read_rows
from ..data.dataset import MAX_CLASSES
from ..features import SparseFeatures
from ..graph import Graph
from .exchange import Exchange
from .fingerprint import fingerprint
from .graph import CsrMatrix, PartGraph
from .group import Ranks
from .partition import MAX_PARTS, default_method, owners
from .split import ROLES, split

FACTS = "parts.json"
_FORMAT = "rtopk graph in parts, 2"
_MAX_FACTS = 1 << 24  # bytes of parts.json
# Bytes of an edge and of a node that cutting takes, without features: bench/partition_memory.py
_CUT_BYTES = {"metis": (122, 466), "ranges": (59, 231)}
_SPARSE = ("x_shape", "x_indptr", "x_indices", "x_data")
_PLAIN = ("ids", "boundary", "send_rows", "send_counts", "receive_counts")
_GRAPH = ("indptr", "indices", "boundary_indptr", "boundary_indices")


@dataclass(frozen=True)
class Facts:
    """What every rank knows of the whole graph."""

    name: str
    method: str  # of the partition
    parts: int
    nodes: int
    edges: int
    features: int
    classes: int
    multilabel: bool
    train: int  # how many nodes
    validation: int
    test: int
    boundary: int  # rows that travel in a layer, over all ranks
    graph_sha256: str  # what `fingerprint` gives of the whole graph
    files: list  # of each part: its name, its SHA-256, its nodes, edges and boundary

    def __str__(self) -> str:
        share = self.boundary / self.nodes
        return (
            f"{self.name}: {self.nodes:,} nodes, {self.edges:,} edges, {self.features} features, {self.classes}"
            f" classes; {self.train:,} nodes to train on, {self.validation:,} to validate, {self.test:,} to test;"
            f" parts by {self.method}: {self.boundary:,} rows travel in a layer, {share:.2f} a node"
        )


def file_name(part: int, parts: int) -> str:
    return f"part-{part:05d}-of-{parts:05d}.npz"


# ---- Writing ----


def write_parts(dataset: Dataset, folder: Path, parts: int, method: str | None = None) -> Facts:
    """Cuts a graph into parts and writes them to a folder. parts.json is written last: it is there only if all is.

    Args:
        dataset: the whole graph.
        folder: where to; it is made if it is missing.
        parts: how many, one for each rank.
        method: "metis" or "ranges"; None: METIS where pymetis is installed.
    """
    dataset = dataset.to("cpu")
    if dataset.graph.weights is not None:
        raise GraphError(f"{dataset.name}: the graph has weights; accepted: a graph without weights")
    method = default_method() if method is None else method
    _check_memory_to_cut(dataset, method)
    owner = owners(dataset.graph, parts, method)
    with locked(folder):
        (folder / FACTS).unlink(missing_ok=True)  # the parts that it names are about to change
        files, boundary = [], 0
        for number, part in enumerate(split(dataset, owner, parts)):
            content = _npz(part.arrays)
            name = file_name(number, parts)
            write_whole(folder / name, content)
            travelling = part.arrays["boundary"].numel()
            own = {"nodes": part.nodes, "edges": part.edges, "boundary": travelling}
            files.append({"name": name, "sha256": hashlib.sha256(content).hexdigest(), **own})
            boundary += travelling
        facts = Facts(
            name=dataset.name,
            method=method,
            parts=parts,
            nodes=dataset.graph.num_nodes,
            edges=dataset.graph.num_edges,
            features=dataset.features.shape[1],
            classes=dataset.classes,
            multilabel=dataset.multilabel,
            **{name: len(getattr(dataset, name)) for name in ROLES.values()},
            boundary=boundary,
            graph_sha256=fingerprint(dataset),
            files=files,
        )
        write_whole(folder / FACTS, (json.dumps({"format": _FORMAT} | asdict(facts), indent=1) + "\n").encode())
    return facts


def _check_memory_to_cut(dataset: Dataset, method: str) -> None:
    """An error now, and not after hours in which METIS works and the memory runs out."""
    of_edge, of_node = _CUT_BYTES.get(method, (0, 0))
    needed = of_edge * dataset.graph.num_edges + of_node * dataset.graph.num_nodes
    less = "a machine with more memory" + (", or `partition --method ranges`" if method == "metis" else "")
    check_memory(f"{dataset.name}: cutting it by {method}", needed, less)


def _npz(arrays: dict[str, torch.Tensor]) -> memoryview:
    file = io.BytesIO()
    np.savez(file, **{name: _narrow(tensor).numpy() for name, tensor in arrays.items()})
    return file.getbuffer()


def _narrow(tensor: torch.Tensor) -> torch.Tensor:
    """Indices as int32 where they fit."""
    if tensor.dtype != torch.int64:
        return tensor
    return tensor.to(index_type(int(tensor.max()) if tensor.numel() else 0))


# ---- Reading ----


def is_folder_of_parts(path: str | Path) -> bool:
    return (Path(path) / FACTS).is_file()


def read_facts(folder: Path) -> Facts:
    """What parts.json says, or a GraphError."""
    path = folder / FACTS
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FACTS + 1)
        if len(text) > _MAX_FACTS:
            raise ValueError(f"it has more than {_MAX_FACTS:,} bytes")
        found = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise GraphError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict) or found.pop("format", None) != _FORMAT:
        raise GraphError(f"{path} is not of the format '{_FORMAT}'; accepted: what `partition` writes")
    kinds = {"str": str, "int": int, "bool": bool, "list": list}
    if set(found) != {field.name for field in fields(Facts)}:
        raise GraphError(f"{path}: it has {short(', '.join(map(str, found)))}; accepted: what `partition` writes")
    for field in fields(Facts):
        value = found[field.name]
        if type(value) is not kinds[field.type] or (field.type == "int" and not 0 <= value < 2**63):
            raise GraphError(f"{path}: {field.name} is {short(value)}; accepted: {field.type}")
    facts = Facts(**found | {"name": printable(found["name"])})
    names = [file.get("name") if isinstance(file, dict) else None for file in facts.files]
    if not 1 <= facts.parts <= MAX_PARTS or names != [file_name(i, facts.parts) for i in range(facts.parts)]:
        raise GraphError(f"{path}: files does not name {facts.parts} parts; accepted: what `partition` writes")
    if not 1 <= facts.features <= MAX_FEATURES or not 1 <= facts.classes <= MAX_CLASSES or facts.train == 0:
        raise GraphError(f"{path}: features, classes or train is out of range; accepted: what `partition` writes")
    return facts


def read_part(folder: Path, facts: Facts, ranks: Ranks, *, dense: bool = False) -> Dataset:
    """The part of a rank, as a Dataset whose graph is a :class:`PartGraph`. No other part is read.

    Args:
        folder: what :func:`write_parts` has written.
        facts: of that folder.
        ranks: those that train, as many as there are parts.
        dense: let the exchange send dense rows.
    """
    if facts.parts != ranks.world:
        raise GraphError(
            f"{folder} has {facts.parts} parts, and there are {ranks.world} ranks; accepted: torchrun --nproc-per-node"
            f" {facts.parts}, or `partition --parts {ranks.world}`"
        )
    entry = facts.files[ranks.rank]
    path = check_file(folder, entry)
    with ArrayFile(path, (*_PLAIN, *_GRAPH, "x", *_SPARSE, "y", *ROLES)) as file:
        sparse = "x" not in file.heads
        file.need(*_PLAIN, *_GRAPH, *(_SPARSE if sparse else ("x",)), "y", *ROLES)
        for name in (*_PLAIN, "y", *ROLES):
            if file.heads[name].dtype.kind not in "ifb" or not file.heads[name].dtype.isnative:
                raise GraphError(f"{path}: {name} is {file.heads[name]}; accepted: what `partition` writes")
        file.check_memory()
        part = {name: torch.from_numpy(file.read(name)) for name in (*_PLAIN, "y", *ROLES)}
        nodes, boundary = part["ids"].numel(), part["boundary"].numel()
        _check_part(path, part, facts, ranks)
        for starts, columns in (_GRAPH[:2], _GRAPH[2:]):
            check_starts(file, starts, columns)
        local = Graph(*read_rows(file, "indptr", "indices", max(nodes, 1)), check=False)
        index = index_type(max(boundary, file.heads["boundary_indices"].shape[0]))
        edges = (tensor.to(index) for tensor in read_rows(file, "boundary_indptr", "boundary_indices", boundary))
        others = CsrMatrix(*edges, None, boundary)
        if sparse:
            check_numbers(file, "x_data", 1)
            columns = read_rows(file, "x_indptr", "x_indices", facts.features)
            features = SparseFeatures(*columns, torch.from_numpy(read_numbers(file, "x_data")), facts.features)
        else:
            check_numbers(file, "x", 2)
            features = torch.from_numpy(read_numbers(file, "x"))
    if (
        local.num_nodes != nodes
        or others.row_starts.numel() - 1 > nodes
        or list(features.shape) != [nodes, facts.features]
    ):
        raise GraphError(f"{path}: its arrays do not fit together; accepted: what `partition` writes")
    counts = part["send_counts"].tolist(), part["receive_counts"].tolist()
    exchange = Exchange(ranks, part["send_rows"].long(), *counts, dense=dense)
    masks = {name: part[mask].nonzero().squeeze(1) for mask, name in ROLES.items()}
    return Dataset(facts.name, PartGraph(local, others, exchange), features, part["y"], facts.classes, **masks)


def check_file(folder: Path, entry: dict) -> Path:
    """The path of a part, or a GraphError unless it is the file that parts.json names."""
    path = folder / entry["name"]
    if (found := _digest(path)) != entry.get("sha256"):
        raise GraphError(f"{path} is not the file that {FACTS} names: its SHA-256 is {found}; `partition` writes both")
    return path


def _digest(path: Path) -> str:
    total = hashlib.sha256()
    try:
        with open_plain(path) as file:
            while block := file.read(1 << 20):
                total.update(block)
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or error}") from error
    return total.hexdigest()


def _check_part(path: Path, part: dict[str, torch.Tensor], facts: Facts, ranks: Ranks) -> None:
    """An error if the plain arrays of a part do not fit together. The SHA-256 says that they are what was written;
    this, that whoever wrote them wrote nothing that reads beyond an array."""
    nodes = part["ids"].numel()
    labels = [nodes, facts.classes] if facts.multilabel else [nodes]
    counts = part["send_counts"], part["receive_counts"]
    own = ranks.rank
    right = (
        all(part[name].dim() == 1 and part[name].dtype in (torch.int32, torch.int64) for name in _PLAIN)
        and all(part[mask].dtype == torch.bool and list(part[mask].shape) == [nodes] for mask in ROLES)
        and list(part["y"].shape) == labels
        and part["y"].dtype == (torch.float32 if facts.multilabel else part["y"].dtype)
        and (facts.multilabel or _within(part["y"], facts.classes))
        and _within(part["send_rows"], nodes)
        and all(_within(count, 2**62) and count.numel() == ranks.world and int(count[own]) == 0 for count in counts)
        and int(counts[0].sum()) == part["send_rows"].numel()
        and int(counts[1].sum()) == part["boundary"].numel()
    )
    if not right:
        raise GraphError(f"{path}: its arrays do not fit together; accepted: what `partition` writes")
    if not facts.multilabel:
        part["y"] = part["y"].long()


def _within(numbers: torch.Tensor, end: int) -> bool:
    integers = numbers.dtype in (torch.int32, torch.int64)
    return integers and (numbers.numel() == 0 or (int(numbers.min()) >= 0 and int(numbers.max()) < end))
