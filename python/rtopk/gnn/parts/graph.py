"""A part of a graph: the rows of the nodes that one rank has, with neighbours on this and on other ranks.

Layers use it in the place of a :class:`Graph`. A layer sends its boundary rows, sums over the neighbours that are here
while those of the others are under way, and then adds the others'. Backward it is the same way round.
"""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from ..graph import Graph
from .exchange import Exchange

_OPS = torch.ops.rtopk


class CsrMatrix:
    """A sparse matrix by rows, with its transpose made at the first use. Its weights may be None.

    Args:
        row_starts, columns, weights: as in :class:`Graph`, with one type of indices.
        num_columns: the number of columns, which may differ from that of rows.
    """

    def __init__(
        self, row_starts: torch.Tensor, columns: torch.Tensor, weights: torch.Tensor | None, num_columns: int
    ) -> None:
        self.row_starts = row_starts
        self.columns = columns
        self.weights = weights
        self.num_columns = num_columns
        self._transpose = None

    def to(self, device: torch.device | str) -> CsrMatrix:
        weights = None if self.weights is None else self.weights.to(device)
        return CsrMatrix(self.row_starts.to(device), self.columns.to(device), weights, self.num_columns)

    def with_weights(self, weights: torch.Tensor) -> CsrMatrix:
        return CsrMatrix(self.row_starts, self.columns, weights, self.num_columns)

    def row_of_entries(self) -> torch.Tensor:
        lengths = self.row_starts.diff().long()
        return torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)

    @property
    def transpose(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        if self._transpose is None:
            with torch.inference_mode(False):  # training may use it later
                parts = (self.row_starts, self.columns, self.weights)
                self._transpose = _OPS.transpose_graph(*parts, self.num_columns)
        return self._transpose


class PartGraph(Graph):
    """The part of a graph that a rank has. As a :class:`Graph` it is the edges between the rank's own nodes.

    Args:
        local: the edges between own nodes.
        boundary: the edges from nodes of other ranks to the last own nodes; the own nodes before have no such edges. A
            column for each row that the exchange receives.
        exchange: brings the rows of those nodes.
    """

    def __init__(self, local: Graph, boundary: CsrMatrix, exchange: Exchange) -> None:
        super().__init__(local.row_starts, local.columns, local.weights, check=False)
        self.boundary = boundary
        self.exchange = exchange

    @property
    def maps_first(self) -> bool:
        """Rows that are not mapped yet take less of the wire."""
        return False

    def to(self, device: torch.device | str) -> PartGraph:
        if self.columns.to(device) is self.columns:
            return self
        return PartGraph(super().to(device), self.boundary.to(device), self.exchange.to(device))

    def aggregate(self, values: torch.Tensor, selectors: torch.Tensor, cols: int, reduce: str) -> torch.Tensor:
        """As :func:`aggregate` of rtopk.gnn: the sums over all neighbours, wherever they are. Every rank calls it."""
        graph = self._once("mean", self._make_mean) if reduce == "mean" else self
        local = (graph.row_starts, graph.columns, graph.weights)
        transpose = (graph.t_row_starts, graph.t_columns, graph.t_weights)
        return _Sums.apply(values, selectors, cols, local, transpose, graph.boundary, self.exchange)

    def beside_identity(self) -> _BesideIdentity:
        return _BesideIdentity(super().beside_identity(), self.boundary, self.exchange)

    def matrices(self, reduce: str):
        raise ValueError("the network has dense=True, and its graph is in parts; accepted: dense=False")

    def __repr__(self) -> str:
        boundary = f"{self.boundary.num_columns} nodes of others"
        return f"PartGraph(nodes={self.num_nodes}, edges={self.all_edges}, with {boundary})"

    @property
    def all_edges(self) -> int:
        """The edges into own nodes, from here and from other ranks."""
        return self.num_edges + self.boundary.columns.numel()

    def _add_self_loops(self, none_yet: bool) -> PartGraph:
        with_loops = PartGraph(super()._add_self_loops(none_yet), self.boundary, self.exchange)
        with_loops._others_have_loops = True
        return with_loops

    def gcn_with_self_loops(self) -> PartGraph:
        return self.with_self_loops().gcn_normalized()

    def _totals(self, of_local: torch.Tensor, of_boundary: torch.Tensor) -> torch.Tensor:
        """The sums of numbers of edges over the edges into each node. In float64: exact for numbers of edges."""
        totals = torch.zeros(self.num_nodes, dtype=torch.float64, device=self.device)
        totals.index_add_(0, self._rows(), of_local.double())
        totals.index_add_(0, self._boundary_rows(), of_boundary.double())
        return totals

    def _edge_weights(self) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(
            torch.ones(matrix.columns.numel(), device=self.device) if matrix.weights is None else matrix.weights
            for matrix in (self, self.boundary)
        )

    def _boundary_rows(self) -> torch.Tensor:
        """The own node of every edge of the boundary."""
        first = self.num_nodes - (self.boundary.row_starts.numel() - 1)
        return first + self.boundary.row_of_entries()

    def _weighted(self, local: torch.Tensor, boundary: torch.Tensor) -> PartGraph:
        graph = Graph(self.row_starts, self.columns, local, check=False)
        return PartGraph(graph, self.boundary.with_weights(boundary.float()), self.exchange)

    def _make_mean(self) -> PartGraph:
        # Divided weights take 4 bytes an edge. Dividing the sums would read and write all of them again.
        local, boundary = self._edge_weights()
        edges = self._totals(torch.ones_like(local), torch.ones_like(boundary))
        return self._weighted(local / edges[self._rows()], boundary / edges[self._boundary_rows()])

    def _normalize(self) -> PartGraph:
        local, boundary = self._edge_weights()
        totals = self._totals(local, boundary)
        scale = totals.rsqrt().masked_fill_(totals == 0, 0)
        others = self.exchange.of_others(scale)
        return self._weighted(
            local * (scale[self._rows()] * scale[self.columns.long()]),
            boundary * (scale[self._boundary_rows()] * others[self.boundary.columns.long()]),
        )


class _BesideIdentity:
    """[A I] of a part, as :meth:`Graph.beside_identity`: the second half of the rows is local."""

    def __init__(self, local, boundary: CsrMatrix, exchange: Exchange) -> None:
        self.weights = local.weights
        self._matrix = (local.row_starts, local.columns, local.weights)
        self._transpose = (local.t_row_starts, local.t_columns, local.t_weights)
        self._boundary = boundary
        self._exchange = exchange

    def aggregate(self, values: torch.Tensor, selectors: torch.Tensor, cols: int, reduce: str) -> torch.Tensor:
        return _Sums.apply(values, selectors, cols, self._matrix, self._transpose, self._boundary, self._exchange)


class _Sums(torch.autograd.Function):
    """Sums over local neighbours, and over those on other ranks, whose rows travel meanwhile."""

    @staticmethod
    def forward(ctx, values, selectors, cols, local, transpose, boundary, exchange):
        nodes = transpose[0].numel() - 1
        if len(values) != nodes:
            raise ValueError(f"values has {len(values)} rows; accepted: {nodes}, one for each node of this rank")
        deterministic = torch.are_deterministic_algorithms_enabled()
        receive = exchange.start_rows(values, selectors, cols)
        sums = _OPS.aggregate.default(*local, values, selectors, cols, False, deterministic, None, None, None)
        others, other_selectors = receive()
        if boundary.num_columns:
            last = sums[len(sums) - (boundary.row_starts.numel() - 1) :]
            matrix = (boundary.row_starts, boundary.columns, boundary.weights)
            last += _OPS.aggregate.default(
                *matrix, others, other_selectors, cols, False, deterministic, None, None, None
            )
        ctx.save_for_backward(selectors, other_selectors)
        ctx.local, ctx.transpose, ctx.boundary, ctx.exchange = local, transpose, boundary, exchange
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        selectors, other_selectors = ctx.saved_tensors
        deterministic = torch.are_deterministic_algorithms_enabled()
        boundary, grad = ctx.boundary, grad.contiguous()
        of_others = grad.new_zeros(other_selectors.shape)
        if boundary.num_columns:
            last = grad[len(grad) - (boundary.row_starts.numel() - 1) :]
            matrix = (boundary.row_starts, boundary.columns, boundary.weights)
            of_others = _OPS.aggregate_backward.default(
                *matrix, *boundary.transpose, last, other_selectors, False, deterministic
            )
        add_to = ctx.exchange.start_gradients(of_others)
        of_values = _OPS.aggregate_backward.default(*ctx.local, *ctx.transpose, grad, selectors, False, deterministic)
        add_to(of_values, selectors)
        return of_values, *(None,) * 6
