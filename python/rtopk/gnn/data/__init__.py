"""Graphs for node classification, from files and generators. One module reads or makes each kind."""

from .dataset import Dataset, GraphError, make_dataset
from .loading import DATA_VARIABLE, load

__all__ = ["DATA_VARIABLE", "Dataset", "GraphError", "load", "make_dataset"]
