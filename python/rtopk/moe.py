"""Expert routing for mixtures of experts: the k experts of every token and their weights, in one step.

>>> import torch, rtopk
>>> weights, ids = rtopk.moe.route(torch.tensor([[0.0, 2.0, 1.0, 3.0]]), 2)
>>> ids
tensor([[3, 1]], dtype=torch.int32)
"""

from __future__ import annotations

import math
from operator import index
from typing import Any, NamedTuple

import torch
from torch.library import register_autograd, register_fake, register_vmap
from torch.overrides import handle_torch_function

from ._calls import is_transformed
from ._operators import OPS, scattered
from ._torch_internals import (
    PLAIN_TYPES,
    SELECTION,
    check,
    in_forward_mode,
    is_overridden,
    is_unwatched,
    selection_kernel,
)

__all__ = ["ExpertGroups", "Router", "Routes", "group_by_expert", "route"]

#: What a logit may become; the place is the number that the operator has for it.
SCORES = ("softmax", "sigmoid", "sqrtsoftplus")
_SOFTMAX, _SIGMOID, _SQRTSOFTPLUS = range(3)
_MAX_EXPERTS = 1024
_MAX_K = 32
_LEAST_SUM = 1e-20

_route_kernel = selection_kernel("rtopk::route")


class Routes(NamedTuple):
    """Where tokens go: k weights and k experts for each."""

    weights: torch.Tensor  #: float32
    ids: torch.Tensor  #: int32, distinct for a token


class ExpertGroups(NamedTuple):
    """Routes in the order of their experts."""

    counts: torch.Tensor  #: int64, the routes of each expert
    permutation: torch.Tensor  #: int64, places in the flattened ids; those of expert 0 first


def route(
    logits: torch.Tensor,
    k: int,
    *,
    score: str = "softmax",
    bias: torch.Tensor | None = None,
    groups: int = 1,
    group_k: int = 1,
    renormalize: bool = True,
    scale: float = 1.0,
) -> Routes:
    """The k experts of every token and their weights, from a router's logits: one kernel on a GPU.

    The score of an expert is softmax(logits), sigmoid(logits) or sqrt(softplus(logits)), in float32. Experts are
    selected by score + bias. The weight is the score without the bias, divided by the sum of the token's k weights
    (plus 1e-20) if `renormalize`, times `scale`.

    With groups, experts are divided into `groups` groups of neighbours. A group's score is the sum of its two greatest
    biased scores. The `group_k` best groups stay, and experts of others are never selected: as DeepSeek-V3 does it.

    Results are in order of the biased scores, greatest first; equal ones by ascending expert. NaN is greater than every
    number. Weights and ids are the same bits on every device and in every run.

    Args:
        logits: float32, float16 or bfloat16; experts along the last dimension, up to 1024.
        k: experts of a token, 1 to 32, and no more than the experts of `group_k` groups.
        score: "softmax", "sigmoid" or "sqrtsoftplus".
        bias: float32, one for each expert. It has no gradient.
        groups: a divisor of the number of experts.
        group_k: groups that stay, 1 to `groups`.
        renormalize: whether the weights of a token are divided by their sum.
        scale: a finite number.

    Shape: logits (..., experts); weights and ids (..., k).

    Differentiable in the logits.

    >>> logits = torch.tensor([[0.0, 2.0, 1.0, 3.0]])
    >>> rtopk.moe.route(logits, 2, score="sigmoid", bias=torch.tensor([9.0, 0.0, 0.0, 0.0])).ids
    tensor([[0, 3]], dtype=torch.int32)
    """
    # The usual call first, with as few questions as possible.
    if (
        is_unwatched(logits)
        and not (logits.requires_grad and torch.is_grad_enabled())
        and not in_forward_mode(logits)
        and (bias is None or (type(bias) in PLAIN_TYPES and not bias.is_neg()))
        and score in SCORES
    ):
        try:
            return Routes._make(
                _route_kernel(SELECTION, logits, bias, k, SCORES.index(score), groups, group_k, renormalize, scale)
            )
        except RuntimeError:
            pass  # tried again below in another way, or refused there
    if is_overridden(logits):
        options = {"score": score, "bias": bias, "groups": groups, "group_k": group_k}
        options |= {"renormalize": renormalize, "scale": scale}
        return handle_torch_function(route, (logits,), logits, k, **options)
    if not isinstance(logits, torch.Tensor):
        raise TypeError(f"route(): argument 'logits' must be Tensor, not {type(logits).__name__}")
    arguments = (bias, k, _score_number(score), groups, group_k, renormalize, scale)
    if is_transformed(logits):
        # register_autograd covers neither forward mode nor torch.func. The difference is zero, with the derivative.
        weights, ids = OPS.route.default(logits.detach(), *arguments)
        again = _weights(logits, ids, _score_number(score), renormalize, scale)
        return Routes(weights + (again - again.detach()), ids)
    return Routes(*OPS.route.default(logits, *arguments))


def group_by_expert(ids: torch.Tensor, experts: int) -> ExpertGroups:
    """How many routes each expert has, and the permutation that puts routes in the order of their experts.

    Place p of the flattened ids is route p % k of token p // k. The permutation is stable: routes of the same expert
    stay in their order, so it is the same in every run. Nothing waits for the GPU.

    Args:
        ids: integers from 0 to experts - 1, of any shape, as :func:`route` gives them.
        experts: their number.

    >>> counts, permutation = rtopk.moe.group_by_expert(torch.tensor([[3, 1], [1, 0]]), 4)
    >>> counts, permutation
    (tensor([1, 2, 0, 1]), tensor([3, 1, 2, 0]))
    """
    experts = _integer("experts", experts, 1)
    if not isinstance(ids, torch.Tensor) or ids.is_floating_point() or ids.is_complex() or ids.dtype is torch.bool:
        raise TypeError(f"ids is {_kind(ids)}; accepted: a tensor of integers")
    in_order, permutation = ids.reshape(-1).sort(stable=True)
    limits = torch.arange(experts + 1, device=ids.device, dtype=ids.dtype)
    return ExpertGroups(torch.searchsorted(in_order, limits).diff(), permutation)


class Router(torch.nn.Module):
    r"""The router of a mixture of experts: logits by a linear map, then :func:`route`.

    .. math:: weights, ids = route(x W^T)

    Args:
        hidden: the width of a token.
        experts: their number.
        k: experts of a token.
        score, groups, group_k, renormalize, scale: those of :func:`route`.
        bias: whether there is a buffer `e_score_correction_bias`, float32, zero at first, that is added to the scores
            for selection. It has no gradient: whoever balances the load changes it.

    Tokens are converted to the dtype of the weight. With a float32 weight, logits are float32 for any token.

    Shape: tokens (..., hidden); weights and ids (..., k).

    >>> rtopk.moe.Router(16, 8, 2)(torch.randn(5, 16)).ids.shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        hidden: int,
        experts: int,
        k: int,
        *,
        score: str = "softmax",
        bias: bool = False,
        groups: int = 1,
        group_k: int = 1,
        renormalize: bool = True,
        scale: float = 1.0,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.hidden = _integer("hidden", hidden, 1)
        self.experts = _integer("experts", experts, 1, _MAX_EXPERTS)
        self.groups = _integer("groups", groups, 1, self.experts)
        if self.experts % self.groups:
            raise ValueError(f"groups is {groups}; accepted for {experts} experts: a divisor of them")
        self.group_k = _integer("group_k", group_k, 1, self.groups)
        self.k = _integer("k", k, 1, min(_MAX_K, self.experts // self.groups * self.group_k))
        _score_number(score)
        self.score = score
        self.renormalize = bool(renormalize)
        self.scale = float(scale)
        if not math.isfinite(self.scale):
            raise ValueError(f"scale is {scale}; accepted: a finite number")
        self.weight = torch.nn.Parameter(torch.empty(self.experts, self.hidden, device=device, dtype=dtype))
        correction = torch.zeros(self.experts, device=device, dtype=torch.float32) if bias else None
        self.register_buffer("e_score_correction_bias", correction)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weight as torch.nn.Linear does, and sets the bias to zero."""
        torch.nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.e_score_correction_bias is not None:
            torch.nn.init.zeros_(self.e_score_correction_bias)

    def forward(self, x: torch.Tensor) -> Routes:
        return route(
            torch.nn.functional.linear(x.to(self.weight.dtype), self.weight),
            self.k,
            score=self.score,
            bias=self.e_score_correction_bias,
            groups=self.groups,
            group_k=self.group_k,
            renormalize=self.renormalize,
            scale=self.scale,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.hidden}, {self.experts}, k={self.k}, score={self.score!r}"]
        if self.e_score_correction_bias is not None:
            parts.append("bias=True")
        if self.groups > 1:
            parts.append(f"groups={self.groups}, group_k={self.group_k}")
        if not self.renormalize:
            parts.append("renormalize=False")
        if self.scale != 1.0:
            parts.append(f"scale={self.scale}")
        return ", ".join(parts)


def _integer(name: str, value: Any, minimum: int, maximum: int | None = None) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; accepted: an integer")
    number = index(value)
    if number < minimum or (maximum is not None and number > maximum):
        limits = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
        raise ValueError(f"{name} is {number}; accepted: {limits}")
    return number


def _kind(value: Any) -> str:
    return f"a tensor of {value.dtype}" if isinstance(value, torch.Tensor) else repr(value)


def _score_number(score: str) -> int:
    if score not in SCORES:
        raise ValueError(f"score is {score!r}; accepted: 'softmax', 'sigmoid' or 'sqrtsoftplus'")
    return SCORES.index(score)


# ---- Weights of given experts, and their gradient ----
#
# Ordinary torch operators, so that gradients of second and higher order follow from theirs. They work in the dtype of
# the gradient: float32, or float64 in tests.


def _weights(logits, ids, score, renormalize, scale):
    """The weights of given experts, by torch: within rounding what the operator gives."""
    x = logits.to(torch.promote_types(logits.dtype, torch.float32))
    indices = ids.to(torch.int64)
    if score == _SOFTMAX:
        scores = x.softmax(-1).gather(-1, indices)
    else:
        x = x.gather(-1, indices)
        scores = x.sigmoid() if score == _SIGMOID else torch.nn.functional.softplus(x).sqrt()
    if renormalize:
        scores = scores / (scores.sum(-1, keepdim=True) + _LEAST_SUM)
    return scores * scale


def _gradient(grad, logits, ids, score, renormalize, scale):
    """The gradient of the logits."""
    x = logits.to(grad.dtype)
    indices = ids.to(torch.int64)
    grad = grad * scale
    chosen = x.gather(-1, indices)
    if score == _SOFTMAX:
        # Renormalized weights are the softmax of the selected logits alone.
        weights = (chosen if renormalize else x).softmax(-1)
        weighted = grad * (weights if renormalize else weights.gather(-1, indices))
        total = weighted.sum(-1, keepdim=True)
        if renormalize:
            return scattered(weighted - weights * total, indices, logits.shape, -1)
        return scattered(weighted, indices, logits.shape, -1) - weights * total
    if score == _SIGMOID:
        scores = chosen.sigmoid()
        slope = scores * (1 - scores)
    else:
        scores = torch.nn.functional.softplus(chosen).sqrt()
        # Both vanish for logits below -200: the slope is exp(x / 2) / 2 there.
        slope = torch.where(scores > 0, chosen.sigmoid() / (2 * scores), 0)
    if renormalize:
        total = scores.sum(-1, keepdim=True) + _LEAST_SUM
        grad = (grad - (grad * scores).sum(-1, keepdim=True) / total) / total
    return scattered(grad * slope, indices, logits.shape, -1)


# ---- The operator ----


@register_fake("rtopk::route")
def _fake_route(logits, bias, k, score=0, groups=1, group_k=1, renormalize=True, scale=1.0):
    check(logits.dim() >= 1, lambda: "logits has 0 dimensions; accepted: 1 to 64, experts along the last")
    check(k >= 1, lambda: f"k is {k}; accepted: 1 to {_MAX_K}")
    check(k <= _MAX_K, lambda: f"k is {k}; accepted: 1 to {_MAX_K}")
    shape = (*logits.shape[:-1], k)
    return logits.new_empty(shape, dtype=torch.float32), logits.new_empty(shape, dtype=torch.int32)


def _save_route(ctx, inputs, output):
    logits, _, _, *options = inputs
    ctx.score, _, _, ctx.renormalize, ctx.scale = (*options, *(0, 1, 1, True, 1.0)[len(options) :])
    ctx.inputs = len(inputs)
    ctx.save_for_backward(logits, output[1])
    ctx.mark_non_differentiable(output[1])


def _backward_route(ctx, grad, _):
    logits, ids = ctx.saved_tensors
    result = None
    if grad is not None:
        result = _gradient(grad, logits, ids, ctx.score, ctx.renormalize, ctx.scale).to(logits.dtype)
    return (result,) + (None,) * (ctx.inputs - 1)


register_autograd("rtopk::route", _backward_route, setup_context=_save_route)


@register_vmap("rtopk::route")
def _vmap_route(info, in_dims, logits, bias, *rest):
    if in_dims[0] is not None:
        logits = logits.movedim(in_dims[0], 0)
    if bias is None or in_dims[1] is None:
        return OPS.route(logits, bias, *rest), (0, 0)
    # A bias for each: one call for each.
    biases = bias.movedim(in_dims[1], 0).unbind()
    parts = logits.unbind() if in_dims[0] is not None else [logits] * len(biases)
    results = [OPS.route(part, own, *rest) for part, own in zip(parts, biases, strict=True)]
    return tuple(torch.stack(tensors) for tensors in zip(*results, strict=True)), (0, 0)
