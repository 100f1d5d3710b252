"""The memory from which a captured step reads a mini-batch, filled up to rounded sizes.

A call copies the mini-batch there. What depends on its true sizes follows in the step itself, from a tensor that has
them: nothing here reads a GPU's memory on the host.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .._csr import csr_tensor
from ..features import SparseFeatures
from ..graph import Graph, starts_of
from .sizes import BatchSizes

ACCEPTED_LOSS = "a function of results, labels and reduction='none', as torch.nn.functional has them"


class BatchInputs:
    """The inputs of mini-batches up to some sizes.

    Args:
        x: rows of a mini-batch, for their type and columns.
        y: labels of its seeds, likewise.
        sizes: of the memory.
    """

    def __init__(self, x: torch.Tensor | SparseFeatures, y: torch.Tensor, sizes: BatchSizes) -> None:
        self.sizes = sizes
        self._places = torch.arange(max(*sizes.nodes, *sizes.edges, sizes.entries) + 1, device=y.device)
        self._rows = (_SparseRows if isinstance(x, SparseFeatures) else _DenseRows)(x, sizes, self._places)
        self._y = y.new_zeros(sizes.nodes[0], *y.shape[1:])
        self._edge_index = self._places.new_zeros(2, sizes.edges[-1])
        self._true = self._places.new_zeros(len(sizes.nodes) + len(sizes.edges) + 1)
        counts = [len(sizes.nodes), len(sizes.edges), 1]
        self._true_nodes, self._true_edges, (self._true_entries,) = self._true.split(counts)

    # ---- Before a step ----

    @torch.no_grad()
    def fill(
        self, x: torch.Tensor | SparseFeatures, y: torch.Tensor, edge_index: torch.Tensor, true: BatchSizes
    ) -> None:
        """Copies a mini-batch, whose own sizes are `true`. Does not wait for a GPU."""
        # Not from memory that the host may move: that copy would wait. torch keeps pinned memory until it is copied.
        gpu = y.device.type == "cuda"
        numbers = torch.tensor([*true.nodes, *true.edges, true.entries], device="cpu", pin_memory=gpu)
        self._true.copy_(numbers, non_blocking=True)
        self._rows.fill(x, true)
        self._y[: true.nodes[0]].copy_(y)
        self._edge_index[:, : true.edges[-1]].copy_(edge_index)

    # ---- In a step ----

    def x(self) -> torch.Tensor | SparseFeatures:
        return self._rows.filled(self._true_nodes[-1], self._true_entries)

    def graphs(self) -> tuple[list[Graph], torch.Tensor]:
        """The graph of each layer; and whether edges are not those of a mini-batch, as :func:`graphs_of_layers` checks
        it. Padding targets have no edges; padding edges belong to no row."""
        nodes, edges = self.sizes.nodes, self.sizes.edges
        hops, places = len(edges), self._places[: edges[-1]]
        absent = places >= self._true_edges[-1]
        # Absent ones, where an earlier mini-batch may have been, lead to a node behind all.
        source, target = self._edge_index[0], self._edge_index[1].masked_fill(absent, nodes[-1])
        starts = starts_of(target, nodes[-2])
        columns, ends = source.to(starts.dtype), self._true_edges.to(starts.dtype)
        graphs = [
            Graph(
                torch.minimum(starts[: nodes[hop] + 1], ends[hop]),
                columns[: edges[hop]],
                num_sources=nodes[hop + 1],
                check=False,
            )
            for hop in reversed(range(hops))
        ]
        # The hop of an edge's target, and the nodes up to the next hop, from which the edge may come.
        hop_of = torch.searchsorted(self._true_edges[:-1], places, right=True)
        outside = ((source < 0) | (source >= self._true_nodes[1 + hop_of])) & ~absent
        falls = (target[1:] < target[:-1]).any() | (target < 0).any()
        wrong = outside.any() | falls | (starts[self._true_nodes[:-1]] != ends).any()
        return graphs, wrong

    def mean_loss(self, loss: Callable, result: torch.Tensor) -> torch.Tensor:
        """The mean over the seeds that exist."""
        seeds = self._true_nodes[0]
        absent = self._places[: len(result)] >= seeds
        # Absent rows get the first seed's label and result. Their loss has a weight of 0, but 0 times a derivative that
        # is not finite, as of an earlier mini-batch's label, would be a NaN in gradients.
        y, result = _first_row_where(absent, self._y), _first_row_where(absent, result)
        try:
            losses = loss(result, y, reduction="none")
        except TypeError as error:
            if "unexpected keyword argument 'reduction'" not in str(error):
                raise
            raise TypeError(f"loss does not take reduction ({error}); accepted: {ACCEPTED_LOSS}") from error
        if losses.shape[:1] != result.shape[:1]:
            raise ValueError(
                f"loss gives shape {list(losses.shape)}; accepted: with reduction='none' a row for each of"
                f" {len(result)} rows of results"
            )
        if losses.dim() > 1:
            losses = losses.flatten(1).mean(1)
        return losses.masked_fill(absent, 0).sum() / seeds


def _first_row_where(absent: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The rows, and the first one in the place of those that are absent, without their gradient."""
    return torch.where(absent.view(-1, *[1] * (rows.dim() - 1)), rows[:1].detach(), rows)


class _DenseRows:
    def __init__(self, x: torch.Tensor, sizes: BatchSizes, places: torch.Tensor) -> None:
        self._x = x.new_zeros(sizes.nodes[-1], x.shape[1])

    def fill(self, x: torch.Tensor, true: BatchSizes) -> None:
        self._x[: len(x)].copy_(x)
        # No row of an earlier mini-batch stays: a NaN there would reach the gradients.
        self._x[len(x) :].zero_()

    def filled(self, nodes: torch.Tensor, entries: torch.Tensor) -> torch.Tensor:
        return self._x


class _SparseRows:
    """A sparse matrix and its transpose. Entries that are filled up have the value 0. They are in the rows that are
    filled up, as many in each, since products of a GPU take long for one long row; and in the last column."""

    def __init__(self, x: SparseFeatures, sizes: BatchSizes, places: torch.Tensor) -> None:
        self._nodes, self._entries, self._columns = sizes.nodes[-1], sizes.entries, x.shape[1]
        self._places = places
        matrix = x.matrices[0]
        starts, columns, values = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        self._starts = starts.new_zeros(self._nodes + 1)
        self._t_starts = starts.new_full((self._columns + 1,), self._entries)
        self._of_entries = [columns.new_zeros(self._entries) for _ in range(2)]
        self._values = [values.new_zeros(self._entries) for _ in range(2)]

    def fill(self, x: SparseFeatures, true: BatchSizes) -> None:
        matrix, transpose = x.matrices
        self._starts[: true.nodes[-1] + 1].copy_(matrix.crow_indices())
        self._t_starts[: self._columns].copy_(transpose.crow_indices()[:-1])
        for part, columns, values in zip(x.matrices, self._of_entries, self._values, strict=True):
            columns[: true.entries].copy_(part.col_indices())
            values[: true.entries].copy_(part.values())

    def filled(self, nodes: torch.Tensor, entries: torch.Tensor) -> SparseFeatures:
        rows = self._places[: self._nodes + 1]
        # At least one row is filled up, if entries are.
        behind = entries + (self._entries - entries) * (rows - nodes) // (self._nodes - nodes).clamp(min=1)
        starts = torch.where(rows <= nodes, self._starts, behind.to(self._starts.dtype))
        absent = self._places[: self._entries] >= entries
        last_column, last_row = self._columns - 1, self._nodes - 1
        columns, t_columns = (
            part.masked_fill(absent, last) for part, last in zip(self._of_entries, (last_column, last_row), strict=True)
        )
        values, t_values = (part.masked_fill(absent, 0) for part in self._values)
        return SparseFeatures.of_matrices(
            csr_tensor(starts, columns, values, self._columns),
            csr_tensor(self._t_starts, t_columns, t_values, self._nodes),
        )
