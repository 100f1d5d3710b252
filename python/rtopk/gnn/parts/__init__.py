"""Graphs in parts: each rank of a training has its part of the nodes, and boundary rows travel as CBSR."""

from .exchange import EXCHANGES
from .files import is_folder_of_parts, write_parts
from .group import Ranks
from .joining import joined, world_size
from .loading import load_part
from .partition import METHODS
from .trainer import PartTrainer

__all__ = [
    "EXCHANGES",
    "METHODS",
    "PartTrainer",
    "Ranks",
    "is_folder_of_parts",
    "joined",
    "load_part",
    "world_size",
    "write_parts",
]
