"""The sizes of a mini-batch, and how they are rounded up, so that few different ones occur."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch

from ..features import SparseFeatures

# Numbers from one power of two to the next that sizes are rounded to. More of them fill up less, and need more
# captures. With four, counts above 256 grow by less than 25 %: on average by 9 % if they are spread evenly over an
# octave, by 10 % if their logarithms are. The sizes of one sampler fall on one or two numbers each.
_NUMBERS_PER_OCTAVE = 4

# Sizes are multiples of this: filling up a tiny mini-batch costs nothing.
_MIN_STEP = 64


def rounded_up(count: int) -> int:
    """The next number, from 64 on, to which sizes are rounded.

    >>> [rounded_up(count) for count in (0, 65, 1024, 1025, 8193)]
    [64, 128, 1024, 1280, 10240]
    """
    step = max(_MIN_STEP, (1 << max(count - 1, 1).bit_length()) // (2 * _NUMBERS_PER_OCTAVE))
    return max(-(-count // step), 1) * step


class BatchSizes(NamedTuple):
    """How many nodes and edges there are up to each hop, and how many entries sparse features have.

    Nodes and edges are ordered by hop. Rounding up the count of a hop takes in nodes of the next hops; behind the last
    hop come places without a node. A layer computes a few rows too many, and no needed row depends on them.
    """

    nodes: tuple[int, ...]  # first the seeds
    edges: tuple[int, ...]
    entries: int

    @classmethod
    def of_batch(
        cls, x: torch.Tensor | SparseFeatures, nodes_per_hop: Sequence[int], edges_per_hop: Sequence[int]
    ) -> BatchSizes:
        """Those of a mini-batch with the rows x."""
        entries = x.matrices[0].values().numel() if isinstance(x, SparseFeatures) else 0
        return cls.of_hops(nodes_per_hop, edges_per_hop, entries)

    @classmethod
    def of_hops(cls, nodes_per_hop: Sequence[int], edges_per_hop: Sequence[int], entries: int) -> BatchSizes:
        nodes, edges = (_checked(name, hops) for name, hops in (("nodes", nodes_per_hop), ("edges", edges_per_hop)))
        if len(nodes) != len(edges) + 1:
            raise ValueError(
                f"num_sampled_nodes_per_hop has {len(nodes)} numbers and num_sampled_edges_per_hop {len(edges)};"
                " accepted: one more, since the seeds come first"
            )
        if nodes[0] == 0:
            raise ValueError("num_sampled_nodes_per_hop begins with 0; accepted: 1 or more seeds")
        return cls(tuple(accumulate(nodes)), tuple(accumulate(edges)), entries)

    def rounded(self) -> BatchSizes:
        """The sizes filled up. Each hop has a node more than the one before, and the last a node that does not exist:
        entries of sparse features are filled up there."""
        nodes = [rounded_up(self.nodes[0])]
        for count in self.nodes[1:]:
            nodes.append(rounded_up(max(count, nodes[-1]) + 1))
        return BatchSizes(tuple(nodes), tuple(map(rounded_up, self.edges)), self.entries and rounded_up(self.entries))


def _checked(name: str, hops: Sequence[int]) -> list[int]:
    try:
        counts = [operator.index(count) for count in hops]
    except TypeError:  # also of what is no sequence
        counts = []
    if not counts or min(counts) < 0:
        raise ValueError(f"num_sampled_{name}_per_hop is {hops!r}; accepted: for each hop an integer, 0 or more")
    return counts
