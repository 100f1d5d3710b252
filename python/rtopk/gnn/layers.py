"""Graph convolutions on rows sparsified by MaxK, and networks of them.

Every layer takes dense rows and a graph: a :class:`Graph`, an edge_index, the sparse matrix adj_t, or a
torch_geometric.data.Data. Make the Graph of a graph that stays the same once, or set `cached`: otherwise it is made
again in every call. For mini-batches that is cheap: edges whose targets ascend need no sort.
"""

from __future__ import annotations

from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import nn

from .._renamed import renamed_arguments
from .._rules import check_rule
from . import whole_layer
from ._csr import csr_product
from ._inputs import as_graph, check_rows, check_sizes, size_of, split_rows
from .features import SparseFeatures
from .graph import Graph
from .linear import Linear
from .norm import fuses, normalized
from .rows import CompactMaxK, CompactRows, DenseMaxK, DenseRows
from .sampling import check_chain, graphs_of_layers


class _OnGraph(nn.Module):
    """A module that takes a graph, and with `cached` keeps the one that it makes of the first edge_index or Data."""

    def __init__(self, cached: bool) -> None:
        super().__init__()
        self.cached = cached
        self._cached_graph: Graph | None = None

    def _graph_of(
        self, graph, x: torch.Tensor | SparseFeatures, size: tuple[int, int], edge_weight=None, **how
    ) -> Graph:
        if isinstance(graph, Graph) or not self.cached:
            return as_graph(graph, size, edge_weight, weighted=self.takes_weights, **how)
        if self._cached_graph is None:
            self._cached_graph = as_graph(graph, size, edge_weight, weighted=self.takes_weights, **how)
        elif self._cached_graph.device != x.device:
            self._cached_graph = self._cached_graph.to(x.device)
        return self._cached_graph

    # Whether the values of a SparseTensor are weights, as in PyTorch Geometric's convolution of the same name.
    takes_weights = False

    def reset_parameters(self) -> None:
        """Draws the parameters again, as the constructor does, and forgets a cached graph."""
        self._cached_graph = None


def _option_texts(module: nn.Module, **defaults: object) -> list[str]:
    """name=value for each option that differs from its default."""
    return [f"{name}={getattr(module, name)!r}" for name, value in defaults.items() if getattr(module, name) != value]


class _MaxKConv(_OnGraph):
    """What the three convolutions share: the activation, and a last bias that the caller may add instead."""

    # Whether MaxK comes before the linear map, and so selects from the columns that go in.
    selects_input = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        k: int,
        *,
        max_iter: int | None,
        rule: str,
        dropout: float,
        cached: bool,
        dense: bool,
    ) -> None:
        super().__init__(cached)
        columns = in_channels if self.selects_input else out_channels
        if not 1 <= k <= columns:
            raise ValueError(f"k is {k}; accepted: 1 to {columns}, the columns that MaxK selects from")
        if dense and max_iter is not None:
            raise ValueError(f"max_iter is {max_iter} with dense=True; torch.topk is exact: accepted is None")
        check_rule(rule)
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout is {dropout}; accepted: 0 to 1")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.k = k
        self.max_iter = max_iter
        self.rule = rule
        self.dropout = dropout
        self.dense = dense
        self.activation = DenseMaxK(k) if dense else CompactMaxK(k, max_iter, rule=rule)

    def forward(self, x, graph, size: tuple[int, int] | None = None, *, adds_bias: bool = True) -> torch.Tensor:
        """
        Args:
            x: [nodes, in_channels], float32, float16 or bfloat16; or (x_src, x_dst), the rows to gather from and the
                rows of the targets, or None for targets without rows of their own. If the graph has fewer targets than
                sources, and x is one tensor, the targets are its first rows.
            graph: a Graph; an edge_index or EdgeIndex; the matrix adj_t as a SparseTensor or a sparse tensor; or a
                torch_geometric.data.Data.
            size: (sources, targets) of an edge_index; None: as many as there are rows.
            adds_bias: False leaves out the last bias, for a caller that adds it while it normalizes the rows.

        Returns:
            [targets, out_channels].
        """
        return self._convolve(x, graph, size, None, adds_bias)

    def _convolve(self, x, graph, size, edge_weight, adds_bias: bool) -> torch.Tensor:
        x, own, separate = split_rows(x)
        graph = self._graph_of(graph, x, size_of(x, own, separate, size), edge_weight)
        check_sizes(own, separate, graph, size)
        check_rows(x, graph.num_sources, self.in_channels, "x[0]" if separate else "x")
        rows = self.selected(x)
        if not separate:
            own = rows.first(graph.num_nodes)
        elif own is not None:
            check_rows(own, graph.num_nodes, self.in_channels, "x[1]")
            own = self.selected(own)
        return self.convolved(rows, own, graph, self.last_bias if adds_bias else None)

    @property
    def selected_columns(self) -> int:
        """The columns that MaxK selects from."""
        return self.in_channels if self.selects_input else self.out_channels

    @property
    def linear_maps(self) -> tuple[nn.Module, ...]:
        return (self.linear,)

    @property
    def last_bias(self) -> torch.Tensor | None:
        """The bias that is added at the end."""
        return None

    def selected(self, x: torch.Tensor | CompactRows | DenseRows) -> CompactRows | DenseRows:
        """The rows that neighbours gather: after MaxK and dropout."""
        if not self.selects_input:
            rows = self.activation.of_linear(x, self.linear)
        else:  # MaxKGNN may have selected while it normalized
            rows = self.activation(x) if isinstance(x, torch.Tensor) else x
        return rows.dropout(self.dropout, self.training)

    def weighted(self, graph: Graph) -> Graph:
        """The graph with the weights that follow from all of it. A few of its rows go to :meth:`summed`."""
        return graph

    def summed(self, rows, own, graph: Graph, bias: torch.Tensor | None) -> torch.Tensor:
        """convolved(), of rows of a graph that :meth:`weighted` has made."""
        return self.convolved(rows, own, graph, bias)

    def __repr__(self) -> str:
        defaults = {"max_iter": None, "rule": "threshold_first", "dropout": 0.0, "cached": False, "dense": False}
        options = _option_texts(self, **self._own_defaults(), **defaults)
        return f"{type(self).__name__}({', '.join([f'{self.in_channels}, {self.out_channels}, k={self.k}', *options])})"

    def _own_defaults(self) -> dict[str, object]:
        """The options that only this convolution has, with their defaults."""
        return {}


class MaxKSAGEConv(_MaxKConv):
    r"""GraphSAGE with MaxK in front: PyTorch Geometric's ``SAGEConv`` of sparsified rows.

    .. math::
        y_i = W_1 \operatorname{mean}_{j \in N(i)} z_j + b + W_2 z_i, \qquad
        z = \operatorname{dropout}(\operatorname{MaxK}(x))

    Args:
        in_channels: columns of the rows that go in.
        out_channels: columns of the rows that come out.
        k: how many elements of a row MaxK keeps, from 1 to in_channels.
        max_iter: stop the search of MaxK after this many passes; None: exact.
        rule: what a search that max_iter stops selects: "threshold_first" or "printed", as in :func:`rtopk.topk`.
        dropout: the probability with which a kept element is dropped in training.
        cached: keep the graph made of the first edge_index or Data, and use it in every later call, whatever graph is
            given then. For training on one graph. A :class:`Graph` is used as given.
        dense: the baseline without rtopk: torch.topk, a mask, and sums of dense rows.

    Shape:
        x [nodes, in_channels] and a graph to [nodes, out_channels], or ([sources, in_channels], [targets, in_channels])
        and a graph to [targets, out_channels].

    >>> conv = rtopk.gnn.MaxKSAGEConv(64, 16, k=8)
    >>> conv
    MaxKSAGEConv(64, 16, k=8)
    >>> conv(torch.randn(3, 64), torch.tensor([[0, 1, 1], [1, 0, 2]])).shape
    torch.Size([3, 16])
    >>> conv((torch.randn(3, 64), torch.randn(2, 64)), torch.tensor([[0, 1, 2], [0, 0, 1]])).shape
    torch.Size([2, 16])
    """

    selects_input = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        k: int,
        *,
        max_iter: int | None = None,
        rule: str = "threshold_first",
        dropout: float = 0.0,
        cached: bool = False,
        dense: bool = False,
    ) -> None:
        options = {"max_iter": max_iter, "rule": rule, "dropout": dropout, "cached": cached, "dense": dense}
        super().__init__(in_channels, out_channels, k, **options)
        self.neighbours = nn.Linear(in_channels, out_channels)
        self.own = nn.Linear(in_channels, out_channels, bias=False)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.neighbours.reset_parameters()
        self.own.reset_parameters()

    @property
    def last_bias(self) -> torch.Tensor:
        return self.neighbours.bias

    @property
    def linear_maps(self) -> tuple[nn.Module, ...]:
        return self.neighbours, self.own

    def convolved(self, rows, own, graph: Graph, bias: torch.Tensor | None) -> torch.Tensor:
        neighbours = rows.aggregate_linear(graph, "mean", self.neighbours.weight, bias)
        return neighbours if own is None else own.add_linear(neighbours, self.own.weight)


class MaxKGCNConv(_MaxKConv):
    r"""Graph convolution: PyTorch Geometric's ``GCNConv`` with MaxK in front of its sum.

    .. math::
        y_i = \sum_{j \in N(i) \cup \{i\}} \frac{w_{ij}}{\sqrt{d_i d_j}} z_j + b, \qquad
        z = \operatorname{dropout}(\operatorname{MaxK}(W x + c)), \qquad d_i = \sum_j w_{ij}

    Args:
        in_channels: columns of the rows that go in.
        out_channels: columns of the rows that come out.
        k: how many elements of a row MaxK keeps, from 1 to out_channels.
        max_iter: stop the search of MaxK after this many passes; None: exact.
        rule: what a search that max_iter stops selects: "threshold_first" or "printed", as in :func:`rtopk.topk`.
        dropout: the probability with which a kept element is dropped in training.
        add_self_loops: give every node an edge to itself (:meth:`Graph.with_self_loops`). None: if `normalize` is set.
        normalize: divide weights by the degrees, as in the formula (:meth:`Graph.gcn_normalized`).
        cached: keep the graph made of the first edge_index or Data, and use it in every later call, whatever graph is
            given then. For training on one graph. A :class:`Graph` is used as given.
        dense: the baseline without rtopk: torch.topk, a mask, and sums of dense rows.

    Shape:
        x [nodes, in_channels] and a graph to [nodes, out_channels].

    >>> conv = rtopk.gnn.MaxKGCNConv(64, 16, k=8, cached=True)
    >>> conv
    MaxKGCNConv(64, 16, k=8, cached=True)
    >>> conv(torch.randn(3, 64), torch.tensor([[0, 1, 1], [1, 0, 2]])).shape
    torch.Size([3, 16])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        k: int,
        *,
        max_iter: int | None = None,
        rule: str = "threshold_first",
        dropout: float = 0.0,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        cached: bool = False,
        dense: bool = False,
    ) -> None:
        options = {"max_iter": max_iter, "rule": rule, "dropout": dropout, "cached": cached, "dense": dense}
        super().__init__(in_channels, out_channels, k, **options)
        if add_self_loops and not normalize:
            raise ValueError("add_self_loops is True and normalize is False; accepted: graph.with_self_loops() instead")
        self.add_self_loops = normalize if add_self_loops is None else add_self_loops
        self.normalize = normalize
        self.linear = Linear(in_channels, out_channels, dense=self.dense)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.linear.reset_parameters()
        nn.init.zeros_(self.bias)

    @property
    def last_bias(self) -> torch.Tensor:
        return self.bias

    takes_weights = True

    def forward(
        self,
        x: torch.Tensor,
        graph,
        edge_weight: torch.Tensor | None = None,
        *,
        size: tuple[int, int] | None = None,
        adds_bias: bool = True,
    ) -> torch.Tensor:
        """
        Args:
            x: [nodes, in_channels], float32, float16 or bfloat16. If the graph has fewer targets than sources, the
                targets are the first rows: the result is the first rows of that of the square graph.
            graph: a Graph; an edge_index or EdgeIndex; the matrix adj_t as a SparseTensor or a sparse tensor, whose
                values are weights; or a torch_geometric.data.Data.
            edge_weight: [edges], floating point, for an edge_index; or None.
            size: (sources, targets) of an edge_index; None: as many as there are rows.
            adds_bias: False leaves out the last bias, for a caller that adds it while it normalizes the rows.

        Returns:
            [targets, out_channels].
        """
        if isinstance(x, (tuple, list)):
            raise ValueError(
                f"x is a {type(x).__name__}; accepted: one tensor, because the degrees of a GCN are those of one kind"
                " of nodes; MaxKSAGEConv and MaxKGINConv take (x_src, x_dst)"
            )
        return self._convolve(x, graph, size, edge_weight, adds_bias)

    def convolved(self, rows, own, graph: Graph, bias: torch.Tensor | None) -> torch.Tensor:
        return self.summed(rows, own, self.graph_of_sums(graph), bias)

    def summed(self, rows, own, graph: Graph, bias: torch.Tensor | None) -> torch.Tensor:
        sums = rows.aggregate(graph, "sum")
        return sums if bias is None else sums.add_(bias)

    def weighted(self, graph: Graph) -> Graph:
        graph = graph.with_self_loops() if self.add_self_loops else graph
        return graph.gcn_normalized() if self.normalize else graph

    def graph_of_sums(self, graph: Graph) -> Graph:
        """The graph whose edges are summed: with self loops, and weights by degrees, as the options say."""
        if not self.add_self_loops:
            return graph.gcn_normalized() if self.normalize else graph
        return self.weighted(graph) if self.dense else graph.gcn_with_self_loops()

    def _own_defaults(self) -> dict[str, object]:
        return {"add_self_loops": self.normalize, "normalize": True}


class MaxKGINConv(_MaxKConv):
    r"""Graph isomorphism network: PyTorch Geometric's ``GINConv`` with a linear map and MaxK in front, and a learnt
    epsilon.

    .. math::
        y_i = \sum_{j \in N(i)} z_j + (1 + \epsilon) z_i, \qquad
        z = \operatorname{dropout}(\operatorname{MaxK}(W x + c))

    Args:
        in_channels: columns of the rows that go in.
        out_channels: columns of the rows that come out.
        k: how many elements of a row MaxK keeps, from 1 to out_channels.
        max_iter: stop the search of MaxK after this many passes; None: exact.
        rule: what a search that max_iter stops selects: "threshold_first" or "printed", as in :func:`rtopk.topk`.
        dropout: the probability with which a kept element is dropped in training.
        cached: keep the graph made of the first edge_index or Data, and use it in every later call, whatever graph is
            given then. For training on one graph. A :class:`Graph` is used as given.
        dense: the baseline without rtopk: torch.topk, a mask, and sums of dense rows.

    Shape:
        x [nodes, in_channels] and a graph to [nodes, out_channels], or ([sources, in_channels], [targets, in_channels])
        and a graph to [targets, out_channels].

    >>> conv = rtopk.gnn.MaxKGINConv(64, 16, k=8)
    >>> conv(torch.randn(3, 64), torch.tensor([[0, 1, 1], [1, 0, 2]])).shape
    torch.Size([3, 16])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        k: int,
        *,
        max_iter: int | None = None,
        rule: str = "threshold_first",
        dropout: float = 0.0,
        cached: bool = False,
        dense: bool = False,
    ) -> None:
        options = {"max_iter": max_iter, "rule": rule, "dropout": dropout, "cached": cached, "dense": dense}
        super().__init__(in_channels, out_channels, k, **options)
        self.linear = Linear(in_channels, out_channels, dense=self.dense)
        self.epsilon = nn.Parameter(torch.zeros(()))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.linear.reset_parameters()
        nn.init.zeros_(self.epsilon)

    def graph_of_sums(self, graph: Graph) -> Graph:
        """[A I]: a node's own row is summed with its neighbours'."""
        return graph.beside_identity()

    def convolved(self, rows, own, graph: Graph, bias: None) -> torch.Tensor:
        return rows.aggregate(graph, "sum") if own is None else rows.aggregate_with_own(graph, own, 1 + self.epsilon)


class InputLinear(Linear):
    """A linear map of dense rows or of :class:`SparseFeatures`."""

    def forward(self, x: torch.Tensor | SparseFeatures) -> torch.Tensor:
        if isinstance(x, SparseFeatures):
            return csr_product(x.matrices, self.weight.t().contiguous(), self.dense).add_(self.bias)
        return super().forward(x)


def _by_single_steps(layer: whole_layer.WholeLayer, x, mask: torch.Tensor | None) -> torch.Tensor | CompactRows:
    """What :func:`whole_layer.computed` computes, step by step, with a given mask of the dropout."""
    convolution, graph = layer.convolution, layer.graph
    rows = x if isinstance(x, CompactRows) else convolution.activation.of_linear(x, convolution.linear)
    if mask is not None:
        scale = 1 / (1 - layer.dropout) if layer.dropout < 1 else 0.0
        rows = CompactRows(rows.values * (mask * scale), rows.selectors, rows.cols)
    result = convolution.convolved(rows, rows.first(graph.num_nodes), graph, convolution.last_bias)
    result = layer.norm(result)
    return result if layer.activation is None else layer.activation(result)


MODELS = {"sage": MaxKSAGEConv, "gcn": MaxKGCNConv, "gin": MaxKGINConv}


class MaxKGNN(_OnGraph):
    """The networks of MaxK-GNN: an input map, then convolutions each followed by LayerNorm, then an output map.

    With "gcn" and "gin" a ReLU follows the input map; "sage" selects there.

    Args:
        model: "sage", "gcn" or "gin".
        in_channels: columns of the features.
        hidden_channels: columns of the hidden rows.
        out_channels: columns of the result, such as the number of classes.
        num_layers: the number of convolutions.
        k: how many elements of a hidden row MaxK keeps, from 1 to hidden_channels.
        max_iter: stop the search of MaxK after this many passes; None: exact.
        rule: what a search that max_iter stops selects: "threshold_first" or "printed", as in :func:`rtopk.topk`.
        dropout: the probability with which a kept element is dropped in training.
        add_self_loops: for "gcn" alone, as in :class:`MaxKGCNConv`; None: its default.
        cached: keep the graph made of the first edge_index or Data, and use it in every later call, whatever graph is
            given then. For training on one graph. A :class:`Graph` is used as given.
        dense: the baseline without rtopk: torch.topk, a mask, and sums of dense rows.

    Shape:
        x [nodes, in_channels], a tensor or :class:`SparseFeatures`, and a graph to [nodes, out_channels].

    >>> network = rtopk.gnn.MaxKGNN("gcn", 20, 64, 5, num_layers=2, k=8)
    >>> network
    MaxKGNN('gcn', 20, 64, 5, num_layers=2, k=8)
    >>> network(torch.randn(3, 20), torch.tensor([[0, 1, 1], [1, 0, 2]])).shape
    torch.Size([3, 5])
    """

    @renamed_arguments(in_features="in_channels", hidden="hidden_channels", classes="out_channels", layers="num_layers")
    def __init__(
        self,
        model: str,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 3,
        k: int = 32,
        max_iter: int | None = None,
        rule: str = "threshold_first",
        dropout: float = 0.0,
        add_self_loops: bool | None = None,
        cached: bool = False,
        dense: bool = False,
    ) -> None:
        super().__init__(cached)
        if model not in MODELS:
            raise ValueError(f"model is '{model}'; accepted: {', '.join(MODELS)}")
        if num_layers < 1:
            raise ValueError(f"num_layers is {num_layers}; accepted: 1 or more")
        options = {"max_iter": max_iter, "rule": rule, "dropout": dropout, "dense": dense}
        if add_self_loops is not None:
            if model != "gcn":
                raise ValueError(f"add_self_loops is for gcn, not '{model}'; accepted: graph.with_self_loops()")
            options["add_self_loops"] = add_self_loops
        self.model = model
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.out_channels = out_channels
        self.num_layers = num_layers
        self.k = k
        self.max_iter = max_iter
        self.rule = rule
        self.dropout = dropout
        self.add_self_loops = add_self_loops
        self.dense = dense
        self.input = InputLinear(in_channels, hidden_channels, dense=dense)
        # The convolutions of GCN and GIN begin with a linear map: without a ReLU it would directly follow the input
        # map.
        self.rectified = not MODELS[model].selects_input
        self.convolutions = nn.ModuleList(
            MODELS[model](hidden_channels, hidden_channels, k, **options) for _ in range(num_layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden_channels) for _ in range(num_layers))
        self.output = Linear(hidden_channels, out_channels, dense=dense)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for module in (self.input, *self.convolutions, *self.norms, self.output):
            if hasattr(module, "reset_parameters"):  # a norm may have been replaced by a module without parameters
                module.reset_parameters()

    def forward(
        self,
        x: torch.Tensor | SparseFeatures,
        graph,
        *,
        num_sampled_nodes_per_hop: list[int] | None = None,
        num_sampled_edges_per_hop: list[int] | None = None,
    ) -> torch.Tensor:
        """
        Args:
            x: [nodes, in_channels]: float32, float16 or bfloat16, or SparseFeatures.
            graph: a Graph; an edge_index or EdgeIndex; the matrix adj_t as a SparseTensor or a sparse tensor; or a
                torch_geometric.data.Data. Or a list with a Graph for each convolution, of which each gathers from the
                targets of the one before.
            num_sampled_nodes_per_hop: of a mini-batch of PyTorch Geometric's NeighborLoader, its num_sampled_nodes:
                each convolution then computes only the nodes that the ones after it need. hops_of() gives both numbers.
            num_sampled_edges_per_hop: its num_sampled_edges.

        Returns:
            [nodes, out_channels]; of a mini-batch, a row for each target of the last convolution.
        """
        if not isinstance(graph, (list, tuple)):
            cuts = list(accumulate(map(int, num_sampled_nodes_per_hop[:-1]))) if num_sampled_nodes_per_hop else ()
            graph = self._graph_of(graph, x, (len(x), len(x)), cuts=cuts)
            graph = graphs_of_layers(graph, self.num_layers, num_sampled_nodes_per_hop, num_sampled_edges_per_hop)
        check_chain(graph, self.num_layers)
        check_rows(x, graph[0].num_sources, self.in_channels)
        whole = not self.dense and all(map(whole_layer.takes, self.convolutions, self.norms))
        fused = not self.dense and all(fuses(norm) for norm in self.norms)
        # SAGE selects between two layers; GCN and GIN select inside of them.
        between = [None if self.rectified else convolution.activation for convolution in self.convolutions] + [None]
        if self.rectified:
            x = F.relu_(self.input(x))
        else:
            x = between[0].of_linear(x, self.input)
        for convolution, norm, activation, own in zip(self.convolutions, self.norms, between[1:], graph, strict=True):
            if whole and whole_layer.takes_rows(x, own):
                layer = whole_layer.WholeLayer(convolution, norm, activation, own, _by_single_steps)
                x = whole_layer.computed(x, layer)
            elif fused:
                x = normalized(convolution(x, own, adds_bias=False), convolution.last_bias, norm, activation)
            else:
                x = norm(convolution(x, own))
                x = x if activation is None else activation(x)
        return self.output(x)

    def __repr__(self) -> str:
        sizes = f"{self.model!r}, {self.in_channels}, {self.hidden_channels}, {self.out_channels}"
        defaults = {"max_iter": None, "rule": "threshold_first", "dropout": 0.0, "add_self_loops": None}
        texts = _option_texts(self, **defaults, cached=False, dense=False)
        options = [f"num_layers={self.num_layers}", f"k={self.k}", *texts]
        return f"MaxKGNN({', '.join([sizes, *options])})"
