"""From a name or a path to a graph."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from .dataset import Dataset, GraphError
from .generated import SHAPES, generate
from .graphsaint import read_graphsaint
from .npz import read_npz
from .ogb import read_ogb_files, read_ogb_package
from .reddit import GRAPH_FILE, read_reddit
from .wordnet import build as build_wordnet

DATA_VARIABLE = "RTOPK_DATA"


def load(
    graph: str | os.PathLike,
    data: str | os.PathLike | None = None,
    *,
    scale: float = 1.0,
    seed: int = 0,
    device: torch.device | str = "cpu",
    standardize: bool = True,
) -> Dataset:
    """Loads the graph of a name or a path.

    Args:
        graph: `wordnet`; a generated graph, `flickr-like`, `yelp-like`, `reddit-like` or `products-like`; the path of
            an .npz file of plain arrays, of a GraphSAINT folder, of a folder with DGL's Reddit or with ogbn-products;
            or the name of one of these in the folder `data`. docs/gnn.md describes the formats.
        data: the folder to look for names in; without it the environment variable RTOPK_DATA, or the current folder.
        scale: the share of the published nodes and edges that a generated graph has.
        seed: the seed of a generated graph.
        device: the device of the result.
        standardize: standardise the features of a GraphSAINT folder by its training nodes, as GraphSAINT does. False
            leaves them as they are in the file, as DGL and PyTorch Geometric do. Other formats are never standardised.
    """
    name = os.fspath(graph)
    folder = Path(data or os.environ.get(DATA_VARIABLE) or ".")
    if name in SHAPES:
        return generate(name, scale, seed, device).to(device)
    if scale != 1.0:
        raise GraphError(f"{name}: a scale is for generated graphs; accepted: {', '.join(SHAPES)}")
    for path in (Path(name), folder / name, folder / f"{name}.npz"):
        if path.is_dir() or path.is_file():
            return read(path, standardize=standardize).to(device)
    if name == "wordnet":
        return build_wordnet().to(device)
    if name == "ogbn-products":
        return read_ogb_package(name, folder).to(device)
    known = ", ".join(["wordnet", "ogbn-products", *SHAPES])
    found = ", ".join(sorted(path.stem for path in folder.glob("*.npz"))) or "none"
    raise GraphError(
        f"there is no graph '{name}'. Known by name: {known}; in the folder {folder}: {found}. A path of an .npz"
        " file, of a GraphSAINT folder, of DGL's Reddit or of ogbn-products' files is taken too, and --data names"
        " another folder."
    )


def read(path: Path, *, standardize: bool = True) -> Dataset:
    """Reads a file or folder of any known format."""
    if path.is_file():
        if path.suffix != ".npz":
            raise GraphError(f"{path} is not an .npz file")
        return read_npz(path)
    if (path / "adj_full.npz").exists():
        return read_graphsaint(path, standardize=standardize)
    if (path / GRAPH_FILE).exists():
        return read_reddit(path)
    for folder in (path, path / "products", path / "ogbn_products"):
        if (folder / "raw" / "edge.csv.gz").exists():
            return read_ogb_files(folder)
    raise GraphError(
        f"{path} is a folder of no known format; accepted: GraphSAINT's files (adj_full.npz, feats.npy, class_map.json,"
        " role.json), DGL's Reddit (reddit_data.npz, reddit_graph.npz) or ogbn-products' (raw/edge.csv.gz,"
        " raw/node-feat.csv.gz, raw/node-label.csv.gz, split/)"
    )
