"""Feature rows after MaxK: compact (CBSR, what rtopk trains on) or dense with zeros (the baseline).

Both kinds answer the same calls, so that a layer is written once. Where a call is recorded (torch.compile,
torch.export, tracers), it is made of operators that have derivatives, and no others: a saved graph has no derivatives
of its own, and no sparse matrices.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .._functions import compact, compact_without_gradient, is_unwatched
from ._aggregate import aggregate
from .graph import Graph, csr_product, index_type
from .linear import is_plain, linear, rounds_factors

_OPS = torch.ops.rtopk

# Rows that are made dense at a time where a product needs them so: 32 MB at 256 columns of float32, which an H200's
# second-level cache holds. It bounds the memory; the products are large enough for full speed.
_BLOCK_ROWS = 1 << 15

# Edges of a node up to which a CPU maps rows before it sums them. With 256 columns and k = 32 that saves 8 us of a core
# (Neoverse N1) for a node, forward and backward, and costs 0.15 us for an edge.
_MOST_DEGREE = 32

# Columns for each kept element from which a GPU multiplies compact rows. On an H200 (89,250 rows, 256 x 256, float32) a
# product and its two derivatives take 0.31 ms with 16 elements a row, 0.47 with 32, and so some 0.8 with 64; dense they
# take 0.82, and 0.1 to make rows dense.
_LEAST_SPARSITY = 4


class CompactRows:
    """The k selected elements of every row. No dense copy of all rows is ever made of them."""

    def __init__(self, values: torch.Tensor, selectors: torch.Tensor, cols: int) -> None:
        self.values = values
        self.selectors = selectors
        self.cols = cols

    def dropout(self, p: float, training: bool) -> CompactRows:
        return CompactRows(F.dropout(self.values, p, training), self.selectors, self.cols)

    def aggregate(self, graph: Graph, reduce: str) -> torch.Tensor:
        return aggregate(graph, self.values, self.selectors, self.cols, reduce)

    def aggregate_linear(
        self, graph: Graph, reduce: str, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """aggregate(rows) @ weight.T + bias. Either may come first: sums of compact rows are cheaper than of dense
        ones, but products of compact rows leave out zeros that their sums no longer have."""
        maps_first = (
            self.values.device.type == "cpu" and self.values.dtype == torch.float32 and is_unwatched(self.values)
        )
        if not maps_first or graph.num_edges > _MOST_DEGREE * graph.num_nodes:
            return linear(self.aggregate(graph, reduce), weight, bias)
        mapped = self.add_linear(self.values.new_zeros(len(self.values), len(weight)), weight)
        sums = csr_product(graph.matrices(reduce), mapped)
        return sums if bias is None else sums.add_(bias)

    def add_linear(self, onto: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """onto + rows @ weight.T, in the memory of `onto`."""
        if not is_unwatched(self.values):
            return onto + F.linear(expanded(self.values, self.selectors, self.cols), weight)
        # Under autocast `onto` has the type of a product, and the others need not.
        return _AddLinear.apply(onto, self.values.to(onto.dtype), self.selectors, weight.to(onto.dtype))

    def aggregate_with_own(self, graph: Graph, scale: torch.Tensor) -> torch.Tensor:
        """aggregate(rows) + scale * rows. A node's own row, scaled, is one more that it gathers: added to sums that are
        already there, it would take another two passes over all of them."""
        values = torch.cat([self.values, self.values * scale])
        selectors = torch.cat([self.selectors, self.selectors])
        return aggregate(graph.beside_identity(), values, selectors, self.cols, "sum")


class DenseRows:
    """The same as a user of torch alone has it."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    def dropout(self, p: float, training: bool) -> DenseRows:
        return DenseRows(F.dropout(self.rows, p, training))

    def aggregate(self, graph: Graph, reduce: str) -> torch.Tensor:
        return csr_product(graph.matrices(reduce), self.rows)

    def aggregate_linear(
        self, graph: Graph, reduce: str, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        return F.linear(self.aggregate(graph, reduce), weight, bias)

    def add_linear(self, onto: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return onto + F.linear(self.rows, weight)

    def aggregate_with_own(self, graph: Graph, scale: torch.Tensor) -> torch.Tensor:
        return self.aggregate(graph, "sum") + scale * self.rows


class CompactMaxK(torch.nn.Module):
    """MaxK straight to compact rows.

    >>> rows = rtopk.gnn.CompactMaxK(2)(torch.tensor([[3.0, 1.0, 2.0]]))
    >>> rows.values, rows.selectors
    (tensor([[3., 2.]]), tensor([[0, 2]], dtype=torch.uint8))
    """

    def __init__(self, k: int, max_iter: int | None = None) -> None:
        super().__init__()
        self.k = k
        self.max_iter = max_iter

    def forward(self, x: torch.Tensor) -> CompactRows:
        if not is_unwatched(x):
            return CompactRows(*compact(x, self.k, max_iter=self.max_iter), x.shape[-1])
        return CompactRows(*_Compact.apply(x, self.k, self.max_iter or 0), x.shape[-1])

    def of_linear(self, x: torch.Tensor, layer: torch.nn.Linear) -> CompactRows:
        """MaxK of layer(x). Its derivative has k elements in a row: the products with it leave out the zeros."""
        if not is_plain(layer) or torch.is_autocast_enabled(x.device.type) or not is_unwatched(x):
            return self(layer(x))
        # Where a GPU may round factors to TF32, it is faster with the zeros.
        if not _multiplies_compact(x, self.k, layer.out_features) or rounds_factors(x.device):
            return self(layer(x))
        with torch.no_grad():
            rows = self(layer(x))
        values = _LinearAt.apply(rows.values, rows.selectors, x, layer.weight, layer.bias)
        return CompactRows(values, rows.selectors, rows.cols)

    def select(self, x: torch.Tensor) -> object:
        """The selection alone, for timing."""
        return compact(x, self.k, max_iter=self.max_iter)


class DenseMaxK(torch.nn.Module):
    """MaxK as it is written without rtopk: torch.topk and a mask."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: torch.Tensor) -> DenseRows:
        mask = torch.zeros_like(x, dtype=torch.bool).scatter_(1, self.select(x.detach()).indices, True)
        return DenseRows(x * mask)

    def of_linear(self, x: torch.Tensor, layer: torch.nn.Linear) -> DenseRows:
        return self(layer(x))

    def select(self, x: torch.Tensor) -> object:
        """The selection alone, for timing."""
        return torch.topk(x, self.k)


def _identity(rows: int, device: torch.device):
    """The graph in which every node gathers from itself alone, with its transpose."""
    starts = torch.arange(rows + 1, dtype=index_type(rows), device=device)
    return starts, starts[:-1], None


def expanded(values: torch.Tensor, selectors: torch.Tensor, cols: int) -> torch.Tensor:
    """The dense rows. An aggregation writes every element once; a scatter needs zeros and 64-bit indices first."""
    identity = _identity(len(values), values.device)
    return _OPS.aggregate.default(*identity, values, selectors, cols, False, True, None, None, None)


def at_selectors(rows: torch.Tensor, selectors: torch.Tensor) -> torch.Tensor:
    """The elements of dense rows that the selectors name."""
    identity = _identity(len(rows), rows.device)
    return _OPS.aggregate_backward.default(*identity, *identity, rows, selectors, False, True)


class _Compact(torch.autograd.Function):
    """rtopk.compact with a derivative that needs no memory beside its result: it is as large as all rows."""

    @staticmethod
    def forward(ctx, x, k, max_iter):
        values, selectors = compact_without_gradient(x, k, True, max_iter, 0.0)
        ctx.cols = x.shape[1]
        ctx.save_for_backward(selectors)
        ctx.mark_non_differentiable(selectors)
        return values, selectors

    @staticmethod
    def backward(ctx, grad, _):
        (selectors,) = ctx.saved_tensors
        return expanded(grad, selectors, ctx.cols), None, None


def _blocks(count: int):
    for first in range(0, count, _BLOCK_ROWS):
        yield slice(first, min(first + _BLOCK_ROWS, count))


def _multiplies_compact(like: torch.Tensor, k: int, cols: int) -> bool:
    """Whether products of rows with k of `cols` elements leave out the zeros: always on the CPU; on a GPU, which
    multiplies dense matrices much faster, where most are zeros."""
    if like.dtype != torch.float32:
        return False
    return like.device.type == "cpu" or (like.device.type == "cuda" and _LEAST_SPARSITY * k <= cols)


class _AddLinear(torch.autograd.Function):
    """Where the zeros are not left out of the products, rows are made dense block by block, in bounded memory."""

    @staticmethod
    def forward(ctx, onto, values, selectors, weight):
        ctx.mark_dirty(onto)
        ctx.save_for_backward(values, selectors, weight)
        if _multiplies_compact(values, values.shape[1], weight.shape[1]) and onto.is_contiguous():
            _OPS._add_product.default(onto, values, selectors, weight.t())
            return onto
        for block in _blocks(len(values)):
            onto[block].addmm_(expanded(values[block], selectors[block], weight.shape[1]), weight.t())
        return onto

    @staticmethod
    def backward(ctx, grad):
        values, selectors, weight = ctx.saved_tensors
        # A derivative that is to have one itself is made of dense products.
        if _multiplies_compact(values, values.shape[1], weight.shape[1]) and not torch.is_grad_enabled():
            grad_values = _OPS._product_values_gradient.default(grad, selectors, weight.t())
            grad_matrix = _OPS._product_matrix_gradient.default(grad, values, selectors, weight.shape[1])
            return grad, grad_values, None, grad_matrix.t()
        grad_values, grad_weight = torch.empty_like(values), torch.zeros_like(weight)
        for block in _blocks(len(values)):
            grad_weight.addmm_(grad[block].t(), expanded(values[block], selectors[block], weight.shape[1]))
            grad_values[block] = at_selectors(grad[block] @ weight, selectors[block])
        return grad, grad_values, None, grad_weight


class _LinearAt(torch.autograd.Function):
    """The elements of linear(x) that selectors name, given as `values`, with their derivative in x, weight and bias."""

    @staticmethod
    def forward(ctx, values, selectors, x, weight, bias):
        ctx.mark_dirty(values)
        ctx.save_for_backward(selectors, x, weight)
        return values

    @staticmethod
    def backward(ctx, grad):
        selectors, x, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # this derivative is to have one itself, as products of dense rows do
            rows = expanded(grad, selectors, len(weight))
            return None, None, rows @ weight, rows.t() @ x, rows.sum(0) if ctx.needs_input_grad[4] else None
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[2]:
            grad_x = x.new_zeros(x.shape)
            _OPS._add_product.default(grad_x, grad, selectors, weight)
        if ctx.needs_input_grad[3]:
            grad_weight = _OPS._product_matrix_gradient.default(x, grad, selectors, len(weight))
        if ctx.needs_input_grad[4]:
            ones = x.new_ones(len(x), 1)
            grad_bias = _OPS._product_matrix_gradient.default(ones, grad, selectors, len(weight)).squeeze(1)
        return None, None, grad_x, grad_weight, grad_bias
