"""Graph convolutions on rows sparsified by MaxK, and networks of them.

Every layer takes dense rows and a graph: a :class:`Graph`, or whatever :func:`as_graph` takes. Make the Graph once: it
keeps what is computed from it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .graph import Graph, check_csr, check_weights, csr_matrices, csr_product, index_type
from .linear import Linear
from .norm import fuses, normalized
from .rows import CompactMaxK, DenseMaxK


def as_graph(graph, num_nodes: int) -> Graph:
    """A Graph from itself, an edge_index, or a PyTorch Geometric Data."""
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, torch.Tensor):
        return Graph.from_edge_index(graph, num_nodes)
    if hasattr(graph, "edge_types") or hasattr(graph, "edge_index") or hasattr(graph, "adj_t"):
        return Graph.from_pyg(graph)
    raise TypeError(f"graph is {type(graph).__name__}; accepted: Graph, edge_index, or an object that has edge_index")


_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _check_rows(x: torch.Tensor | SparseFeatures, graph: Graph, columns: int) -> None:
    if tuple(x.shape) != (graph.num_nodes, columns):
        raise ValueError(
            f"x has shape {list(x.shape)}; accepted: [{graph.num_nodes}, {columns}], a row for each node of the graph"
        )
    if isinstance(x, torch.Tensor) and x.dtype not in _FLOATS:
        raise TypeError(
            f"x is {x.dtype}; accepted: float32, float16 and bfloat16, which compact rows have: x.float(), and the"
            " network's float()"
        )


class _MaxKConv(nn.Module):
    """What the three convolutions share: the activation, and a last bias that whoever normalizes the rows may add.

    Args:
        in_channels, out_channels: columns of the rows that go in and come out.
        k: how many elements of a row MaxK keeps.
        max_iter: stop its search after this many passes; None: exact.
        dropout: the probability with which a kept element is dropped in training.
        dense: aggregate dense rows, selected by torch.topk: the baseline that rtopk is compared with.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        k: int,
        *,
        max_iter: int | None = None,
        dropout: float = 0.0,
        dense: bool = False,
    ) -> None:
        super().__init__()
        columns = in_channels if self.selects_input else out_channels
        if not 1 <= k <= columns:
            raise ValueError(f"k is {k}; accepted: 1 to {columns}, the columns that MaxK selects from")
        if dense and max_iter is not None:
            raise ValueError(f"max_iter is {max_iter} with dense=True; torch.topk is exact: accepted is None")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout is {dropout}; accepted: 0 to 1")
        self.in_channels = in_channels
        self.p = dropout
        self.dense = dense
        self.activation = DenseMaxK(k) if dense else CompactMaxK(k, max_iter)

    # Whether MaxK comes before the linear map, and so selects from the columns that go in.
    selects_input = False

    def forward(self, x: torch.Tensor, graph, *, adds_bias: bool = True) -> torch.Tensor:
        if not isinstance(graph, Graph):
            graph = as_graph(graph, len(x))
        if isinstance(x, torch.Tensor):  # else it was selected where it was normalized
            _check_rows(x, graph, self.in_channels)
            x = self.activation(x) if self.selects_input else x
        return self.convolved(x, graph, self.last_bias if adds_bias else None)

    @property
    def last_bias(self) -> torch.Tensor | None:
        """What is added at the end."""
        return None

    def selected_of_linear(self, x: torch.Tensor):
        return self.activation.of_linear(x, self.linear).dropout(self.p, self.training)


class MaxKSAGEConv(_MaxKConv):
    """GraphSAGE: MaxK, then one linear map of the mean of the neighbours' rows and one of the node's own row.

    >>> conv = rtopk.gnn.MaxKSAGEConv(64, 16, k=8)
    >>> conv(torch.randn(3, 64), torch.tensor([[0, 1, 1], [1, 0, 2]])).shape
    torch.Size([3, 16])
    """

    selects_input = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        k: int,
        *,
        max_iter: int | None = None,
        dropout: float = 0.0,
        dense: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, k, max_iter=max_iter, dropout=dropout, dense=dense)
        self.neighbours = nn.Linear(in_channels, out_channels)
        self.own = nn.Linear(in_channels, out_channels, bias=False)

    @property
    def last_bias(self) -> torch.Tensor:
        return self.neighbours.bias

    def convolved(self, rows, graph: Graph, bias: torch.Tensor | None) -> torch.Tensor:
        rows = rows.dropout(self.p, self.training)
        neighbours = rows.aggregate_linear(graph, "mean", self.neighbours.weight, bias)
        return rows.add_linear(neighbours, self.own.weight)


class MaxKGCNConv(_MaxKConv):
    """Graph convolution: a linear map, MaxK, the sum with the weights of :meth:`Graph.gcn_normalized`, a bias.

    Self loops are the graph's own affair: :meth:`Graph.with_self_loops`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        k: int,
        *,
        max_iter: int | None = None,
        dropout: float = 0.0,
        dense: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, k, max_iter=max_iter, dropout=dropout, dense=dense)
        self.linear = Linear(in_channels, out_channels, dense=self.dense)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    @property
    def last_bias(self) -> torch.Tensor:
        return self.bias

    def convolved(self, x: torch.Tensor, graph: Graph, bias: torch.Tensor | None) -> torch.Tensor:
        sums = self.selected_of_linear(x).aggregate(graph.gcn_normalized(), "sum")
        return sums if bias is None else sums.add_(bias)


class MaxKGINConv(_MaxKConv):
    """Graph isomorphism network: a linear map, MaxK, the sum of the neighbours and (1 + epsilon) times the node's own
    row, with a learnt epsilon."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        k: int,
        *,
        max_iter: int | None = None,
        dropout: float = 0.0,
        dense: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, k, max_iter=max_iter, dropout=dropout, dense=dense)
        self.linear = Linear(in_channels, out_channels, dense=self.dense)
        self.epsilon = nn.Parameter(torch.zeros(()))

    def convolved(self, x: torch.Tensor, graph: Graph, bias: None) -> torch.Tensor:
        return self.selected_of_linear(x).aggregate_with_own(graph, 1 + self.epsilon)


class SparseFeatures:
    """Input features with few entries (bags of words), as a sparse matrix and its transpose."""

    def __init__(self, row_starts: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, cols: int) -> None:
        check_csr(row_starts, columns, cols)
        check_weights("values", values, columns)
        index = index_type(max(row_starts.numel(), columns.numel(), cols))
        self.matrices = csr_matrices(row_starts.to(index), columns.to(index), values, cols)
        self.shape = self.matrices[0].shape

    def __deepcopy__(self, memo) -> SparseFeatures:
        return self._of(matrix.clone() for matrix in self.matrices)

    def __len__(self) -> int:
        return self.shape[0]

    def to(self, device: torch.device | str) -> SparseFeatures:
        moved = self._of(matrix.to(device) for matrix in self.matrices)
        return self if moved.matrices[0] is self.matrices[0] else moved

    def _of(self, matrices) -> SparseFeatures:
        other = object.__new__(SparseFeatures)
        other.matrices, other.shape = tuple(matrices), self.shape
        return other

    def to_dense(self) -> torch.Tensor:
        return self.matrices[0].to_dense()


class InputLinear(Linear):
    """A linear map of dense rows or of :class:`SparseFeatures`."""

    def forward(self, x: torch.Tensor | SparseFeatures) -> torch.Tensor:
        if isinstance(x, SparseFeatures):
            return csr_product(x.matrices, self.weight.t().contiguous()).add_(self.bias)
        return super().forward(x)


MODELS = {"sage": MaxKSAGEConv, "gcn": MaxKGCNConv, "gin": MaxKGINConv}


class MaxKGNN(nn.Module):
    """The networks of MaxK-GNN: an input map, layers of convolution and LayerNorm, an output map.

    Args:
        model: "sage", "gcn" or "gin".
        in_features, hidden, classes: columns of the features, of the layers, of the result.
        layers: how many convolutions.
        k, max_iter, dropout, dense: as in the convolutions.

    >>> net = rtopk.gnn.MaxKGNN("gcn", 20, 64, 5, layers=2, k=8)
    >>> net(torch.randn(3, 20), torch.tensor([[0, 1, 1], [1, 0, 2]])).shape
    torch.Size([3, 5])
    """

    def __init__(
        self,
        model: str,
        in_features: int,
        hidden: int,
        classes: int,
        *,
        layers: int = 3,
        k: int = 32,
        max_iter: int | None = None,
        dropout: float = 0.0,
        dense: bool = False,
    ) -> None:
        super().__init__()
        if model not in MODELS:
            raise ValueError(f"model is '{model}'; accepted: {', '.join(MODELS)}")
        if layers < 1:
            raise ValueError(f"layers is {layers}; accepted: 1 or more")
        options = {"max_iter": max_iter, "dropout": dropout, "dense": dense}
        self.input = InputLinear(in_features, hidden, dense=dense)
        # Without it two linear maps would follow each other; SAGE selects first.
        self.rectified = not MODELS[model].selects_input
        self.dense = dense
        self.convolutions = nn.ModuleList(MODELS[model](hidden, hidden, k, **options) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.output = Linear(hidden, classes, dense=dense)

    def forward(self, x: torch.Tensor | SparseFeatures, graph) -> torch.Tensor:
        graph = as_graph(graph, len(x))
        _check_rows(x, graph, self.input.in_features)
        # The baseline is what torch has.
        fused = not self.dense and all(fuses(norm) for norm in self.norms)
        # What selects between two layers; GCN and GIN select inside of them.
        between = [None if self.rectified else convolution.activation for convolution in self.convolutions] + [None]
        if self.rectified:
            x = F.relu_(self.input(x))
        elif isinstance(x, SparseFeatures):
            x = between[0](self.input(x))
        else:
            x = between[0].of_linear(x, self.input)
        for convolution, norm, activation in zip(self.convolutions, self.norms, between[1:], strict=True):
            if fused:
                x = normalized(convolution(x, graph, adds_bias=False), convolution.last_bias, norm, activation)
            else:
                x = norm(convolution(x, graph))
                x = x if activation is None else activation(x)
        return self.output(x)
