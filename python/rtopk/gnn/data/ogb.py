"""ogbn-products: from its files, or through the package ogb, which downloads them."""

from __future__ import annotations

import gzip
import io
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from .._text import printable
from ..graph import Graph
from ._arrays import check_memory, open_plain
from ._checks import finite
from .dataset import Dataset, GraphError, make_dataset


def read_ogb_files(folder: Path) -> Dataset:
    """Reads the files as they are downloaded: raw/*.csv.gz and split/*/{train,valid,test}.csv.gz. Edges count in both
    directions."""
    features_file = folder / "raw" / "node-feat.csv.gz"
    features = torch.from_numpy(finite(features_file, "the table", _csv(features_file, np.float32)))
    nodes = len(features)
    labels = torch.from_numpy(_csv(folder / "raw" / "node-label.csv.gz", np.int64, nodes)).flatten()
    edges = torch.from_numpy(_csv(folder / "raw" / "edge.csv.gz", np.int64))
    if edges.shape[1] != 2:
        raise GraphError(f"{folder / 'raw' / 'edge.csv.gz'} has {edges.shape[1]} columns; accepted: source, target")
    splits = sorted((folder / "split").glob("*/train.csv.gz"))
    if not splits:
        raise GraphError(f"{folder / 'split'} has no folder with train.csv.gz, valid.csv.gz and test.csv.gz")
    masks = []
    for name in ("train", "valid", "test"):
        path = splits[0].with_name(f"{name}.csv.gz")
        part = torch.from_numpy(_csv(path, np.int64, nodes)).flatten()
        if len(part) and not 0 <= int(part.min()) <= int(part.max()) < nodes:
            raise GraphError(f"{path} names nodes {int(part.min())} to {int(part.max())}; accepted: 0 to {nodes - 1}")
        mask = torch.zeros(nodes, dtype=torch.bool)
        mask[part] = True
        masks.append(mask)
    return _ogb_dataset("ogbn-products", edges.t(), features, labels, masks)


def _ogb_dataset(name, edges, features, labels, masks):
    try:
        graph = Graph.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1), len(features))
    except ValueError as error:
        raise GraphError(f"{name}: {error}") from error
    return make_dataset(name, graph, features, labels, masks)


# Characters of a text file that are parsed at a time; characters of a line, at most; lines between two messages about
# progress.
_BLOCK = 1 << 26
_MAX_LINE = 1 << 22
_REPORT_LINES = 2_000_000


def _csv(path: Path, kind, max_lines: int | None = None) -> np.ndarray:
    """Reads a table of numbers, of `max_lines` lines at most."""
    parts, done, bytes_done, reported = [], 0, 0, 0
    try:
        with open_plain(path) as raw, gzip.open(raw, "rt", encoding="ascii") as file:
            for text in _whole_lines(file):
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
                    part = np.loadtxt(io.StringIO(text), dtype=kind, delimiter=",", ndmin=2)
                parts.append(part)
                done += len(part)
                bytes_done += part.nbytes
                if max_lines is not None and done > max_lines:
                    raise GraphError(f"{path} has more than {max_lines} lines, and the graph has {max_lines} nodes")
                check_memory(path, 2 * bytes_done)  # concatenating the parts takes as much again
                if done - reported >= _REPORT_LINES:
                    print(f"{printable(path.name)}: {done:,} lines", file=sys.stderr, flush=True)
                    reported = done
    except GraphError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise GraphError(f"{path} cannot be read: {error}") from error
    if done == 0:
        raise GraphError(f"{path} is empty")
    try:
        return np.concatenate([part for part in parts if len(part)])
    except ValueError as error:
        raise GraphError(f"{path}: lines of different lengths ({error})") from error


def _whole_lines(file) -> Iterator[str]:
    """The text in blocks of whole lines."""
    rest = ""
    while block := file.read(_BLOCK):
        text, newline, after = (rest + block).rpartition("\n")
        if newline:
            yield text + newline
        rest = after
        if len(rest) > _MAX_LINE:
            raise ValueError(f"a line has more than {_MAX_LINE} characters")
    if rest:
        yield rest


def read_ogb_package(name: str, folder: Path) -> Dataset:
    """Reads through the package ogb, which downloads missing files."""
    try:
        from ogb.nodeproppred import NodePropPredDataset
    except ImportError as error:
        raise GraphError(
            f"{name} is not in the folder {folder}, and the package that downloads it is not installed: pip install"
            " ogb, or give the path of its unpacked files"
        ) from error
    dataset = NodePropPredDataset(name, root=str(folder))
    graph, labels = dataset[0]
    features = torch.from_numpy(graph["node_feat"])
    masks = []
    for part in dataset.get_idx_split().values():
        mask = torch.zeros(len(features), dtype=torch.bool)
        mask[torch.as_tensor(part)] = True
        masks.append(mask)
    # The package gives both directions already.
    edges = torch.from_numpy(graph["edge_index"])
    return make_dataset(
        name, Graph.from_edge_index(edges, len(features)), features, torch.from_numpy(labels).flatten(), masks
    )
