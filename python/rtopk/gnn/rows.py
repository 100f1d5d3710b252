"""Feature rows after MaxK: compact (CBSR, what rtopk trains on) or dense with zeros (the baseline).

Both kinds have the same methods, so a layer is written once for both. While a call is recorded (torch.compile,
torch.export, tracers), only operators with a registered derivative are used: a saved graph keeps neither Python's
autograd.Functions nor sparse matrices.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .._compact import compact, compact_without_gradient
from .._rules import check_rule, is_printed
from .._torch_internals import is_unwatched
from ._aggregate import expanded
from ._csr import csr_product
from .features import SparseFeatures
from .graph import Graph
from .linear import is_plain, linear, rounds_factors
from .product import add_linear, linear_at, multiplies_compact, sparse_linear_at

# Edges a node up to which a CPU maps rows before it sums them. With 256 columns and k = 32 that saves 8 us of a core
# (Neoverse N1) a node, forward and backward, and costs 0.15 us an edge.
_MAX_DEGREE = 32


class CompactRows:
    """The k selected elements of every row. They are never all made dense at once.

    Args:
        values: [rows, k].
        selectors: [rows, k], uint8 or uint16: the columns of the values, ascending.
        cols: the number of columns of the dense rows.
    """

    def __init__(self, values: torch.Tensor, selectors: torch.Tensor, cols: int) -> None:
        self.values = values
        self.selectors = selectors
        self.cols = cols

    def __len__(self) -> int:
        return len(self.values)

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """What the rows consist of, with a row of each for every row."""
        return self.values, self.selectors

    def of_tensors(self, values: torch.Tensor, selectors: torch.Tensor) -> CompactRows:
        """Other rows with as many columns."""
        return CompactRows(values, selectors, self.cols)

    def first(self, count: int) -> CompactRows:
        """The first rows."""
        if count == len(self):
            return self
        return CompactRows(self.values[:count], self.selectors[:count], self.cols)

    def dropout(self, p: float, training: bool) -> CompactRows:
        return CompactRows(F.dropout(self.values, p, training), self.selectors, self.cols)

    def aggregate(self, graph: Graph, reduce: str) -> torch.Tensor:
        """The "sum" or "mean" of the neighbours' rows: [nodes, cols], dense."""
        return graph.aggregate(self.values, self.selectors, self.cols, reduce)

    def aggregate_linear(
        self, graph: Graph, reduce: str, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """aggregate(rows) @ weight.T + bias, the cheaper of sum and product first. Sums of compact rows are cheaper
        than sums of dense ones. Products of compact rows skip zeros, which the sums no longer have."""
        maps_first = (
            self.values.device.type == "cpu"
            and self.values.dtype == torch.float32
            and is_unwatched(self.values)
            and graph.maps_first
        )
        if not maps_first or graph.num_edges > _MAX_DEGREE * graph.num_nodes:
            return linear(self.aggregate(graph, reduce), weight, bias)
        mapped = self.add_linear(self.values.new_zeros(len(self.values), len(weight)), weight)
        sums = csr_product(graph.matrices(reduce), mapped)
        return sums if bias is None else sums.add_(bias)

    def add_linear(self, onto: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """onto + rows @ weight.T, in the memory of `onto`."""
        if not is_unwatched(self.values):
            return onto + F.linear(expanded(self.values, self.selectors, self.cols), weight)
        # Under autocast `onto` has the dtype of a product, and the others may have another.
        return add_linear(onto, self.values.to(onto.dtype), self.selectors, weight.to(onto.dtype))

    def aggregate_with_own(self, graph: Graph, own: CompactRows, scale: torch.Tensor) -> torch.Tensor:
        """aggregate(rows) + scale * own. A node gathers its own scaled row together with its neighbours': adding it to
        finished sums would read and write all of them again."""
        values = torch.cat([self.values, own.values * scale])
        selectors = torch.cat([self.selectors, own.selectors])
        return graph.beside_identity().aggregate(values, selectors, self.cols, "sum")


class DenseRows:
    """The same rows, dense with zeros, and their operations as torch has them."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return (self.rows,)

    def of_tensors(self, rows: torch.Tensor) -> DenseRows:
        return DenseRows(rows)

    def first(self, count: int) -> DenseRows:
        return DenseRows(self.rows[:count])

    def dropout(self, p: float, training: bool) -> DenseRows:
        return DenseRows(F.dropout(self.rows, p, training))

    def aggregate(self, graph: Graph, reduce: str) -> torch.Tensor:
        return csr_product(graph.matrices(reduce), self.rows, baseline=True)

    def aggregate_linear(
        self, graph: Graph, reduce: str, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        return F.linear(self.aggregate(graph, reduce), weight, bias)

    def add_linear(self, onto: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return onto + F.linear(self.rows, weight)

    def aggregate_with_own(self, graph: Graph, own: DenseRows, scale: torch.Tensor) -> torch.Tensor:
        return self.aggregate(graph, "sum") + scale * own.rows


class CompactMaxK(torch.nn.Module):
    """The MaxK activation, straight to :class:`CompactRows`.

    Args:
        k: how many elements of a row to keep.
        max_iter: stop the search after this many passes; None: exact.
        rule: what a search that max_iter stops selects: "threshold_first" or "printed", as in :func:`rtopk.topk`.

    Shape: rows [rows, cols] to CompactRows with k values a row.

    >>> rows = rtopk.gnn.CompactMaxK(2)(torch.tensor([[3.0, 1.0, 2.0]]))
    >>> rows.values, rows.selectors
    (tensor([[3., 2.]]), tensor([[0, 2]], dtype=torch.uint8))
    """

    def __init__(self, k: int, max_iter: int | None = None, *, rule: str = "threshold_first") -> None:
        super().__init__()
        self.k = k
        self.max_iter = max_iter
        self.rule = check_rule(rule)

    def forward(self, x: torch.Tensor) -> CompactRows:
        if not is_unwatched(x):
            return CompactRows(*compact(x, self.k, max_iter=self.max_iter, rule=self.rule), x.shape[-1])
        return CompactRows(*_Compact.apply(x, self.k, self.max_iter or 0, is_printed(self.rule)), x.shape[-1])

    def of_linear(self, x: torch.Tensor | SparseFeatures, layer: torch.nn.Linear) -> CompactRows:
        """MaxK of layer(x). The gradient that goes back to the layer has k elements a row; its products skip the
        zeros."""
        if isinstance(x, SparseFeatures):
            return self._of_sparse(x, layer)
        if not is_plain(layer) or torch.is_autocast_enabled(x.device.type) or not is_unwatched(x):
            return self(layer(x))
        # If a GPU may round factors to TF32, dense products are faster.
        if not multiplies_compact(x, self.k, layer.out_features) or rounds_factors(x.device):
            return self(layer(x))
        with torch.no_grad():
            rows = self(layer(x))
        values = linear_at(rows.values, rows.selectors, x, layer.weight, layer.bias)
        return CompactRows(values, rows.selectors, rows.cols)

    def _of_sparse(self, x: SparseFeatures, layer: torch.nn.Linear) -> CompactRows:
        skips = x.matrices[0].dtype == torch.float32 and multiplies_compact(layer.weight, self.k, layer.out_features)
        if (
            not is_plain(layer)
            or torch.is_autocast_enabled(x.device.type)
            or not is_unwatched(layer.weight)
            or not skips
        ):
            return self(layer(x))
        with torch.no_grad():
            rows = self(layer(x))
        values = sparse_linear_at(rows.values, rows.selectors, x.matrices, layer.weight, layer.bias)
        return CompactRows(values, rows.selectors, rows.cols)

    def select(self, x: torch.Tensor) -> object:
        """The selection alone, for timing."""
        return compact(x, self.k, max_iter=self.max_iter, rule=self.rule)


class DenseMaxK(torch.nn.Module):
    """MaxK without rtopk: torch.topk and a mask."""

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


class _Compact(torch.autograd.Function):
    """rtopk.compact with a derivative that allocates nothing but its result, which is as large as all rows."""

    @staticmethod
    def forward(ctx, x, k, max_iter, printed):
        values, selectors = compact_without_gradient(x, k, True, max_iter, 0.0, printed)
        ctx.cols = x.shape[1]
        ctx.save_for_backward(selectors)
        ctx.mark_non_differentiable(selectors)
        return values, selectors

    @staticmethod
    def backward(ctx, grad, _):
        (selectors,) = ctx.saved_tensors
        return expanded(grad, selectors, ctx.cols), None, None, None
