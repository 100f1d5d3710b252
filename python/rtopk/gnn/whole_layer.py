"""A layer of a network as one step of autograd: MaxK, dropout, convolution, LayerNorm and, for SAGE, the next MaxK.

On a GPU a mini-batch is often so small that the host sets the pace: every node of autograd's graph, every function in
Python and every pass through the dispatcher then takes longer than the kernels. Here a layer has one node, and calls
each kernel once, past the dispatcher where that can be. The single steps (layers.py, rows.py, norm.py) compute the same
for everything that is not as plain as this: :func:`takes` says what is. They also are the derivative of the derivative.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from .._compact import compact_kernel
from .._rules import is_printed
from .._torch_internals import SELECTION, is_unwatched, may_have_hooks, selection_kernel
from ._aggregate import check_aggregation
from .graph import Graph
from .linear import input_gradient, is_plain, product, rounds_factors, takes_apart, weight_gradient
from .norm import is_plain_norm, norm_gradients, normalized_rows
from .product import multiplies_compact
from .rows import CompactMaxK, CompactRows

_aggregate = selection_kernel("rtopk::aggregate")
_aggregate_backward = selection_kernel("rtopk::aggregate_backward")
_add_product = selection_kernel("rtopk::_add_product")
_values_gradient = selection_kernel("rtopk::_product_values_gradient")
_matrix_gradient = selection_kernel("rtopk::_product_matrix_gradient")


class WholeLayer(NamedTuple):
    """What is computed in one step, but for the rows."""

    convolution: torch.nn.Module
    norm: torch.nn.LayerNorm
    activation: CompactMaxK | None  # the selection of SAGE's next layer
    graph: Graph
    by_single_steps: object  # a function of this and the rows: the same result with derivatives of any order

    @property
    def dropout(self) -> float:
        return self.convolution.dropout if self.convolution.training else 0.0


def takes(convolution, norm: torch.nn.Module) -> bool:
    """Whether a layer of these two is plain: its parameters are all in float32, and nothing hooks into its parts."""
    maps = convolution.linear_maps
    weight = maps[0].weight
    return (
        not convolution.dense
        and is_plain_norm(norm)
        and not may_have_hooks(convolution)
        and type(convolution.activation) is CompactMaxK
        and not may_have_hooks(convolution.activation)
        and all(is_plain(part) and part.weight.dtype == torch.float32 for part in maps)
        and multiplies_compact(weight, convolution.k, convolution.selected_columns)
        # If a GPU may round factors to TF32, dense products are faster.
        and not rounds_factors(weight.device)
    )


def takes_rows(x: torch.Tensor | CompactRows, graph: Graph) -> bool:
    """Whether rows and a graph are plain, too. A CPU may map the rows of a square graph before it sums them."""
    values = x.values if isinstance(x, CompactRows) else x
    return (
        type(graph) is Graph
        and isinstance(values, torch.Tensor)
        and values.dtype == torch.float32
        and is_unwatched(values)
        and not (values.device.type == "cpu" and graph.maps_first)
    )


def computed(x: torch.Tensor | CompactRows, layer: WholeLayer) -> torch.Tensor | CompactRows:
    """The result of a layer whose parts :func:`takes` and :func:`takes_rows` accept."""
    convolution, norm = layer.convolution, layer.norm
    check_aggregation(layer.graph, "sum")
    if isinstance(x, CompactRows):
        weights = (convolution.neighbours.weight, convolution.own.weight, convolution.last_bias)
        result, selectors = _SageLayer.apply(x.values, x.selectors, *weights, norm.weight, norm.bias, layer)
        return result if selectors is None else CompactRows(result, selectors, norm.normalized_shape[0])
    linear, epsilon = convolution.linear, getattr(convolution, "epsilon", None)
    options = (linear.weight, linear.bias, epsilon, convolution.last_bias, norm.weight, norm.bias)
    return _MappedLayer.apply(x, *options, layer)


class _Sums:
    """Sums over the neighbours in a graph, and their derivative, past the dispatcher."""

    def __init__(self, graph: Graph, mean: bool) -> None:
        self.graph, self.mean = graph, mean
        self.deterministic = torch.are_deterministic_algorithms_enabled()

    def forward(self, values: torch.Tensor, selectors: torch.Tensor, cols: int) -> torch.Tensor:
        graph, options = self.graph, (cols, self.mean, self.deterministic, None, None, None)
        return _aggregate(SELECTION, graph.row_starts, graph.columns, graph.weights, values, selectors, *options)

    def backward(self, grad: torch.Tensor, selectors: torch.Tensor) -> torch.Tensor:
        graph, options = self.graph, (self.mean, self.deterministic)
        transpose = graph.transpose_for_gradient(self.deterministic)
        matrix = (graph.row_starts, graph.columns, graph.weights)
        return _aggregate_backward(SELECTION, *matrix, *transpose, grad, selectors, *options)


def _selected(rows: torch.Tensor, activation: CompactMaxK) -> tuple[torch.Tensor, torch.Tensor]:
    options = (activation.k, True, activation.max_iter or 0, 0.0, is_printed(activation.rule))
    return compact_kernel(SELECTION, rows, *options)


def _dropped(values: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor | None]:
    return torch.native_dropout(values, p, True) if p else (values, None)


def _dropout_gradient(grad: torch.Tensor, mask: torch.Tensor | None, p: float) -> torch.Tensor:
    if mask is None:
        return grad
    return torch.ops.aten.native_dropout_backward.default(grad, mask, 1 / (1 - p) if p < 1 else 0.0)


def _second_order(ctx, x, mask, inputs, grad) -> tuple:
    """The gradients with a derivative of their own: the layer is computed again by its single steps."""
    with torch.enable_grad():
        result = ctx.layer.by_single_steps(ctx.layer, x, mask)
        result = result.values if isinstance(result, CompactRows) else result
        wanted = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]
        found = iter(torch.autograd.grad(result, wanted, grad, create_graph=True, allow_unused=True))
    return tuple(next(found) if tensor is not None and tensor.requires_grad else None for tensor in inputs)


class _SageLayer(torch.autograd.Function):
    """mean(dropped rows) @ weight.T + own rows @ own_weight.T, normalized, and the next selection."""

    @staticmethod
    def forward(ctx, values, selectors, weight, own_weight, bias, gamma, beta, layer: WholeLayer):
        ctx.layer, ctx.p, ctx.sums = layer, layer.dropout, _Sums(layer.graph, True)
        given, own_matrix = values, own_weight.t().contiguous()
        values, mask = _dropped(values, ctx.p)
        sums = ctx.sums.forward(values, selectors, weight.shape[1])
        ctx.apart = takes_apart(sums, weight)
        y = product(sums, weight, None, ctx.apart)
        targets = layer.graph.num_nodes
        _add_product(SELECTION, y, values[:targets], selectors[:targets], own_matrix)
        result, statistics = normalized_rows(y, bias, gamma, beta, layer.norm.eps)
        next_selectors = None
        if layer.activation is not None:
            result, next_selectors = _selected(result, layer.activation)
            ctx.mark_non_differentiable(next_selectors)
        rows = (given, values, selectors, mask, sums, y, next_selectors)
        ctx.save_for_backward(*rows, weight, own_weight, own_matrix, bias, gamma, beta, *statistics)
        return result, next_selectors

    @staticmethod
    def backward(ctx, grad, _):
        given, values, selectors, mask, sums, y, next_selectors, *parameters = ctx.saved_tensors
        weight, own_weight, own_matrix, bias, gamma, beta, *statistics = parameters
        if torch.is_grad_enabled():
            rows = CompactRows(given, selectors, weight.shape[1])
            inputs = (given, None, weight, own_weight, bias, gamma, beta)
            return *_second_order(ctx, rows, mask, inputs, grad), None
        of_y, *of_norm = norm_gradients(
            y, bias, gamma, beta, ctx.layer.norm.eps, statistics, grad.contiguous(), next_selectors
        )
        targets = len(y)
        own, own_selectors = values[:targets], selectors[:targets]
        of_own_weight = _matrix_gradient(SELECTION, of_y, own, own_selectors, weight.shape[1]).t()
        of_weight = weight_gradient(of_y, sums, ctx.apart)
        of_values = None
        if ctx.needs_input_grad[0]:
            of_values = ctx.sums.backward(input_gradient(of_y, weight, ctx.apart), selectors)
            of_values[:targets].add_(_values_gradient(SELECTION, of_y, own_selectors, own_matrix))
            of_values = _dropout_gradient(of_values, mask, ctx.p)
        return of_values, None, of_weight, of_own_weight, *of_norm, None


class _MappedLayer(torch.autograd.Function):
    """The sums of GCN and GIN over the dropped selection of a linear map, normalized."""

    @staticmethod
    def forward(ctx, x, weight, map_bias, epsilon, bias, gamma, beta, layer: WholeLayer):
        ctx.layer, ctx.p = layer, layer.dropout
        mapped = product(x, weight, map_bias, takes_apart(x, weight))
        values, selectors = _selected(mapped, layer.convolution.activation)
        values, mask = _dropped(values, ctx.p)
        all_values, all_selectors = values, selectors
        if epsilon is not None:  # GIN's own rows are gathered with the others
            own = layer.graph.num_nodes
            all_values = torch.cat([values, values[:own] * (1 + epsilon)])
            all_selectors = torch.cat([selectors, selectors[:own]])
        ctx.sums = _Sums(layer.convolution.graph_of_sums(layer.graph), False)
        y = ctx.sums.forward(all_values, all_selectors, len(weight))
        result, statistics = normalized_rows(y, bias, gamma, beta, layer.norm.eps)
        own_values = None if epsilon is None else values[:own]
        rows = (x, all_selectors, mask, own_values, y)
        ctx.save_for_backward(*rows, weight, map_bias, epsilon, bias, gamma, beta, *statistics)
        return result

    @staticmethod
    def backward(ctx, grad):
        x, selectors, mask, own_values, y, weight, map_bias, epsilon, bias, gamma, beta, *statistics = ctx.saved_tensors
        if torch.is_grad_enabled():
            inputs = (x, weight, map_bias, epsilon, bias, gamma, beta)
            return *_second_order(ctx, x, mask, inputs, grad), None
        of_y, *of_norm = norm_gradients(y, bias, gamma, beta, ctx.layer.norm.eps, statistics, grad.contiguous(), None)
        of_values, of_epsilon = ctx.sums.backward(of_y, selectors), None
        if epsilon is not None:
            of_values, of_own = of_values[: len(x)], of_values[len(x) :]
            of_epsilon = (of_own * own_values).sum()
            of_values[: len(of_own)].addcmul_(of_own, 1 + epsilon)
            selectors = selectors[: len(x)]
        of_values = _dropout_gradient(of_values, mask, ctx.p)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = torch.zeros_like(x)
            _add_product(SELECTION, of_x, of_values, selectors, weight)
        of_weight = _matrix_gradient(SELECTION, x, of_values, selectors, len(weight))
        ones = x.new_ones(len(x), 1)
        of_map_bias = _matrix_gradient(SELECTION, ones, of_values, selectors, len(weight)).squeeze(1)
        return of_x, of_weight, of_map_bias, of_epsilon, *of_norm, None
