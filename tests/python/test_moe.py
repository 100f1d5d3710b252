"""Expert routing: against plain torch code and the routers of Hugging Face's models, hard rows, derivatives, recorded
graphs, and bad arguments."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

import rtopk
from rtopk.moe import SCORES, Router, _gradient, _weights, group_by_expert, route

# Scores are within 2.5 ulp of the exact ones here and in torch; a sum of them and a division add one ulp each.
CLOSE = {"rtol": 1e-6, "atol": 0}

FUNCTIONS = {
    "softmax": lambda x: x.softmax(-1),
    "sigmoid": torch.sigmoid,
    "sqrtsoftplus": lambda x: F.softplus(x).sqrt(),
}


def plain_route(logits, k, score="softmax", bias=None, groups=1, group_k=1, renormalize=True, scale=1.0):
    """The definition, in torch. Equal scores: the lower expert, by stable sorts."""
    scores = FUNCTIONS[score](logits.float())
    choice = scores if bias is None else scores + bias
    if groups > 1:
        grouped = choice.unflatten(-1, (groups, -1))
        group_scores = grouped.sort(-1, descending=True).values[..., :2].sum(-1)
        kept = group_scores.sort(dim=-1, descending=True, stable=True).indices[..., :group_k]
        mask = torch.zeros_like(group_scores, dtype=torch.bool).scatter(-1, kept, True)
        choice = grouped.masked_fill(~mask.unsqueeze(-1), -math.inf).flatten(-2)
    ids = choice.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    weights = scores.gather(-1, ids)
    if renormalize:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return weights * scale, ids


def same_experts(ids, expected_ids):
    """The tokens with the same experts. Scores differ from torch's in the last bits, so one token in a hundred thousand
    may have two experts the other way round; with the seed of these tests, none on the CPU."""
    same = (ids.long() == expected_ids).all(-1)
    assert same.float().mean() >= (1 if ids.device.type == "cpu" else 0.995)
    return same


SHAPES = {
    "Mixtral": (8, 2, {}),
    "Qwen3": (128, 8, {}),
    "Qwen3, not renormalized": (128, 8, {"renormalize": False}),
    "DeepSeek-V3": (256, 8, {"score": "sigmoid", "groups": 8, "group_k": 4, "scale": 2.5}),
    "DeepSeek-V4": (256, 6, {"score": "sqrtsoftplus", "scale": 1.5}),
    "Kimi K2": (384, 8, {"score": "sigmoid", "scale": 2.827}),
    "odd groups": (60, 5, {"score": "sigmoid", "groups": 5, "group_k": 2}),
    "one expert": (1, 1, {"score": "sigmoid"}),
    "all experts": (7, 7, {}),
    "most": (1024, 32, {"renormalize": False}),
    "groups of one": (12, 4, {"score": "sigmoid", "groups": 12, "group_k": 6}),
}


@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("name", SHAPES)
def test_same_as_plain_torch(name, biased, device):
    experts, k, options = SHAPES[name]
    logits = torch.randn(500, experts).to(device)
    if biased:
        options = {**options, "bias": 0.1 * torch.randn(experts).to(device)}
    weights, ids = route(logits, k, **options)
    expected_weights, expected_ids = plain_route(logits, k, **options)
    assert (weights.dtype, ids.dtype, weights.device) == (torch.float32, torch.int32, logits.device)
    same = same_experts(ids, expected_ids)
    torch.testing.assert_close(weights[same], expected_weights[same], **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("score", SCORES)
def test_half_logits_are_their_values(score, dtype, device):
    logits = torch.randn(300, 128, device=device).to(dtype)
    for options in ({}, {"groups": 4, "group_k": 2}):
        half, full = (route(x, 6, score=score, **options) for x in (logits, logits.float()))
        assert torch.equal(half.ids, full.ids)
        assert torch.equal(half.weights, full.weights)


@pytest.mark.parametrize("shape", [(16,), (5, 16), (2, 3, 16), (0, 16), (2, 0, 16)], ids=str)
def test_shapes(shape, device):
    logits = torch.randn(shape, device=device)
    weights, ids = route(logits, 3)
    assert weights.shape == ids.shape == (*shape[:-1], 3)
    assert torch.equal(ids.long(), plain_route(logits, 3)[1])


def test_any_strides(device):
    logits = torch.randn(24, 50, device=device)
    bias = torch.randn(48, device=device)[::2]
    for view in (logits.t(), logits.t()[::2], logits.t().contiguous()[:, 1:]):
        own = bias[: view.shape[1]]
        assert torch.equal(route(view, 4, bias=own).ids, route(view.clone(), 4, bias=own.clone()).ids)


@pytest.mark.gpu
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("spread", [0.01, 1.0, 20.0])
def test_the_same_bits_on_every_device(score, spread):
    logits = spread * torch.randn(20000, 256)
    bias = 0.1 * torch.randn(256)
    for options in ({}, {"bias": bias}, {"bias": bias, "groups": 8, "group_k": 4}):
        ours = route(logits, 8, score=score, **options)
        on_gpu = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
        theirs = route(logits.cuda(), 8, score=score, **on_gpu)
        assert torch.equal(ours.ids, theirs.ids.cpu())
        assert torch.equal(ours.weights.view(torch.int32), theirs.weights.cpu().view(torch.int32))


@pytest.mark.gpu
def test_more_logits_than_32_bits_count():
    if torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("less than 12 GiB of GPU memory are free")
    logits = torch.zeros((1 << 31) // 256 + 9, 256, dtype=torch.bfloat16, device="cuda")
    logits[-20:].normal_()
    options = {"score": "sigmoid", "groups": 8, "group_k": 4}
    weights, ids = route(logits, 8, **options)
    last = route(logits[-20:].clone(), 8, **options)
    assert torch.equal(ids[-20:], last.ids) and torch.equal(weights[-20:], last.weights)
    assert torch.equal(ids[:1000], torch.arange(8, device="cuda", dtype=torch.int32).expand(1000, 8))


# ---- Hard rows ----

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("row", [[0.0] * 8, [-INF] * 8, [INF] * 8, [NAN] * 8, [-0.0, 0.0] * 4], ids=str)
def test_equal_experts_in_ascending_order(row, score, device):
    for options in ({}, {"groups": 4, "group_k": 2}):
        ids = route(torch.tensor([row], device=device), 4, score=score, **options).ids
        assert ids.tolist() == [[0, 1, 2, 3]]


def test_nan_is_greatest(device):
    logits = torch.tensor([[1.0, NAN, 3.0, 2.0]], device=device)
    weights, ids = route(logits, 2, score="sigmoid", renormalize=False)
    assert ids.tolist() == [[1, 2]]
    assert weights[0, 0].isnan() and weights[0, 1] == torch.tensor(3.0).sigmoid()
    bias = torch.tensor([0.0, 0.0, 0.0, NAN], device=device)
    assert route(torch.zeros(1, 4, device=device), 2, score="sigmoid", bias=bias).ids.tolist() == [[3, 0]]
    # As in torch, a NaN among the logits makes every score of softmax NaN.
    weights, ids = route(logits, 2)
    assert ids.tolist() == [[0, 1]] and weights.isnan().all()


def test_masked_experts_have_no_weight(device):
    logits = torch.tensor([[-INF, 1.0, -INF, 0.5]], device=device)
    for score in SCORES:
        weights, ids = route(logits, 3, score=score)
        assert ids.tolist() == [[1, 3, 0]]
        assert weights[0, 2] == 0
        torch.testing.assert_close(weights.sum(), torch.ones((), device=device))


def test_experts_of_other_groups_are_never_selected(device):
    # The group that stays has the worst experts but two.
    logits = torch.tensor([[5.0, 5.0, -INF, -INF, 4.0, 4.5, 4.0, 4.0]], device=device)
    bias = torch.tensor([0.0, 0.0, -9.0, -INF, 0.0, 0.0, 0.0, 0.0], device=device)
    assert route(logits, 4, score="sigmoid", bias=bias, groups=2).ids.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("score", SCORES)
def test_ids_are_distinct_whatever_comes(score, device):
    special = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 3e38, -3e38, 1e-40])
    for experts, groups in ((8, 1), (64, 4), (256, 8), (60, 5)):
        logits = special[torch.randint(len(special), (200, experts))].to(device)
        bias = special[torch.randint(len(special), (experts,))].to(device)
        for own in (None, bias):
            ids = route(logits, 6, score=score, bias=own, groups=groups, group_k=max(groups // 2, 1)).ids
            assert ids.min() >= 0 and ids.max() < experts
            assert all(len(set(row)) == 6 for row in ids.tolist())


def test_runs_repeat(device):
    logits = torch.randn(3000, 256, device=device)
    first = route(logits, 8, score="sigmoid", groups=8, group_k=4)
    for _ in range(3):
        again = route(logits, 8, score="sigmoid", groups=8, group_k=4)
        assert torch.equal(first.weights, again.weights) and torch.equal(first.ids, again.ids)


# ---- Derivatives ----


class _InDouble(torch.autograd.Function):
    """The weights of given experts in float64, with the gradient that the operator has."""

    @staticmethod
    def forward(ctx, logits, ids, score, renormalize, scale):
        ctx.save_for_backward(logits, ids)
        ctx.options = score, renormalize, scale
        return _weights(logits, ids, score, renormalize, scale)

    @staticmethod
    def backward(ctx, grad):
        return _gradient(grad, *ctx.saved_tensors, *ctx.options), None, None, None, None


@pytest.mark.parametrize("renormalize", [True, False], ids=["renormalized", "not renormalized"])
@pytest.mark.parametrize("score", SCORES)
def test_the_formula_of_the_gradient(score, renormalize):
    logits = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    ids = route(logits.detach().float(), 3, score=score).ids
    arguments = (logits, ids, SCORES.index(score), renormalize, 2.5)
    assert torch.autograd.gradcheck(_InDouble.apply, arguments)
    assert torch.autograd.gradgradcheck(_InDouble.apply, arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("renormalize", [True, False], ids=["renormalized", "not renormalized"])
@pytest.mark.parametrize("score", SCORES)
def test_gradient(score, renormalize, dtype, device):
    logits = torch.randn(50, 64, device=device).to(dtype).requires_grad_()
    options = {"score": score, "renormalize": renormalize, "scale": 2.5, "groups": 4, "group_k": 2}
    bias = torch.randn(64, device=device)
    weights, ids = route(logits, 6, bias=bias, **options)
    assert weights.requires_grad and not ids.requires_grad
    factors = torch.randn_like(weights)
    (ours,) = torch.autograd.grad(weights, logits, factors)
    assert ours.dtype == dtype
    exact = logits.detach().double().requires_grad_()
    expected = _weights(exact, ids, SCORES.index(score), renormalize, 2.5)
    (theirs,) = torch.autograd.grad(expected, exact, factors.double())
    tolerance = {"rtol": 1e-4, "atol": 1e-6} if dtype is torch.float32 else {"rtol": 1e-2, "atol": 1e-4}
    torch.testing.assert_close(ours.double(), theirs, **tolerance)


def test_gradient_of_extreme_logits_is_finite(device):
    for score in SCORES:
        logits = torch.tensor([[-300.0, -250.0, 90.0, 5.0]], device=device, requires_grad=True)
        route(logits, 4, score=score).weights.square().sum().backward()
        assert logits.grad.isfinite().all()


def test_second_derivatives(device):
    logits = torch.randn(5, 16, device=device, requires_grad=True)
    (first,) = torch.autograd.grad(route(logits, 3, score="sigmoid").weights.square().sum(), logits, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), logits)
    assert second.count_nonzero() == 15


# ---- Recorded and transformed calls ----

CALLS = [(3,), (3, 1, 4, 2, False, 2.5), (5, 2)]


@pytest.mark.parametrize("arguments", CALLS, ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_opcheck(arguments, biased, device):
    for shape in ((5, 16), (2, 3, 16)):
        for requires_grad in (False, True):
            logits = torch.randn(shape, device=device, requires_grad=requires_grad)
            bias = torch.randn(16, device=device) if biased else None
            torch.library.opcheck(torch.ops.rtopk.route.default, (logits, bias, *arguments))


@pytest.mark.parametrize("score", SCORES)
def test_compiled(score, device):
    torch.compiler.reset()
    bias = 0.1 * torch.randn(32, device=device)

    def loss(logits):
        weights, ids = route(logits, 4, score=score, bias=bias, groups=4, group_k=2)
        counts, permutation = group_by_expert(ids, 32)
        return (weights * ids).sum(), counts, permutation

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    ours, theirs = (torch.randn(9, 32, device=device).requires_grad_() for _ in range(2))
    theirs.data.copy_(ours.data)
    for mine, other in zip(compiled(ours), loss(theirs), strict=True):
        assert torch.equal(mine, other)
    compiled(ours)[0].backward()
    loss(theirs)[0].backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_exported(device):
    module = Router(8, 16, 2, score="sigmoid", bias=True).to(device)
    x = torch.randn(3, 8, device=device)
    exported = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("tokens")},)).module()
    longer = torch.randn(7, 8, device=device)
    assert torch.equal(exported(longer)[1], module(longer).ids)


def test_vmap(device):
    logits = torch.randn(3, 4, 16, device=device)
    for in_dim in (0, 1):
        mapped = torch.vmap(lambda x: tuple(route(x, 2)), in_dims=in_dim)(logits)
        looped = [route(part, 2) for part in logits.unbind(in_dim)]
        for i, result in enumerate(mapped):
            assert torch.equal(result, torch.stack([parts[i] for parts in looped]))
    biases = torch.randn(3, 16, device=device)
    mapped = torch.vmap(lambda x, bias: tuple(route(x, 2, bias=bias)))(logits, biases)
    assert torch.equal(mapped[1], torch.stack([route(logits[i], 2, bias=biases[i]).ids for i in range(3)]))


def test_functional_transforms(device):
    logits = torch.randn(4, 16, device=device)

    def loss(x):
        return route(x, 3, score="sigmoid").weights.square().sum()

    leaf = logits.clone().requires_grad_()
    loss(leaf).backward()
    torch.testing.assert_close(torch.func.grad(loss)(logits), leaf.grad)
    per_row = torch.vmap(torch.func.grad(loss))(logits)
    torch.testing.assert_close(per_row, leaf.grad)
    value, change = torch.func.jvp(loss, (logits,), (torch.ones_like(logits),))
    assert value == loss(logits)
    torch.testing.assert_close(change, leaf.grad.sum())


def test_fake_tensors():
    with FakeTensorMode():
        weights, ids = route(torch.empty(1 << 20, 256, dtype=torch.bfloat16), 8)
        assert weights.shape == ids.shape == (1 << 20, 8)
        assert (weights.dtype, ids.dtype) == (torch.float32, torch.int32)
    assert route(torch.empty(4, 9, device="meta"), 2).weights.shape == (4, 2)


@pytest.mark.gpu
def test_captured_in_a_graph():
    logits = torch.randn(128, 256, device="cuda")
    bias = torch.randn(256, device="cuda")
    options = {"score": "sigmoid", "bias": bias, "groups": 8, "group_k": 4}
    route(logits, 8, **options)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = route(logits, 8, **options)
        counts, permutation = group_by_expert(captured.ids, 256)
    for _ in range(3):
        logits.normal_()
        graph.replay()
        again = route(logits, 8, **options)
        assert torch.equal(captured.ids, again.ids) and torch.equal(captured.weights, again.weights)
        assert torch.equal(counts, torch.bincount(again.ids.flatten(), minlength=256))
        assert torch.equal(again.ids.flatten()[permutation], again.ids.flatten().sort().values)


# ---- Routes by expert ----


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("tokens,experts", [(1, 1), (0, 4), (1000, 16), (300, 1024)])
def test_group_by_expert(tokens, experts, dtype, device):
    ids = torch.randint(experts, (tokens, 3), device=device, dtype=dtype)
    counts, permutation = group_by_expert(ids, experts)
    assert counts.dtype == permutation.dtype == torch.int64
    assert torch.equal(counts, torch.bincount(ids.flatten().long(), minlength=experts))
    # By expert, and routes of one expert in their order.
    order = ids.flatten().long()[permutation] * (3 * tokens + 1) + permutation
    assert (order.diff() > 0).all() and len(permutation) == 3 * tokens


# ---- The module ----


def test_router(device):
    module = Router(24, 32, 4, score="sigmoid", bias=True, groups=4, group_k=2, scale=2.5).to(device)
    assert set(module.state_dict()) == {"weight", "e_score_correction_bias"}
    assert module.e_score_correction_bias.dtype == torch.float32 and not module.e_score_correction_bias.any()
    module.e_score_correction_bias.normal_()
    x = torch.randn(2, 5, 24, device=device)
    weights, ids = module(x)
    assert weights.shape == ids.shape == (2, 5, 4)
    expected = route(
        F.linear(x, module.weight),
        4,
        score="sigmoid",
        bias=module.e_score_correction_bias,
        groups=4,
        group_k=2,
        scale=2.5,
    )
    assert torch.equal(ids, expected.ids) and torch.equal(weights, expected.weights)
    weights.square().sum().backward()
    assert module.weight.grad.count_nonzero() > 0
    assert repr(module) == "Router(24, 32, k=4, score='sigmoid', bias=True, groups=4, group_k=2, scale=2.5)"
    assert repr(Router(4, 8, 2, renormalize=False)) == "Router(4, 8, k=2, score='softmax', renormalize=False)"
    assert set(Router(4, 8, 2).state_dict()) == {"weight"}


def test_router_takes_tokens_of_other_types(device):
    module = Router(24, 32, 4).to(device)
    x = torch.randn(5, 24, device=device).bfloat16()
    assert torch.equal(module(x).ids, module(x.float()).ids)
    assert module.bfloat16()(x).weights.dtype == torch.float32


# ---- The routers of Hugging Face's models ----


def _mixtral(transformers):
    from transformers.models.mixtral import modeling_mixtral as models

    config = transformers.MixtralConfig(hidden_size=64, num_local_experts=8, num_experts_per_tok=2)
    return models.MixtralTopKRouter(config), (64, 8, 2), {}


def _qwen3(transformers, renormalize=True):
    from transformers.models.qwen3_moe import modeling_qwen3_moe as models

    config = transformers.Qwen3MoeConfig(
        hidden_size=64, num_experts=128, num_experts_per_tok=8, norm_topk_prob=renormalize
    )
    return models.Qwen3MoeTopKRouter(config), (64, 128, 8), {"renormalize": renormalize}


def _deepseek_v3(transformers):
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as models

    config = transformers.DeepseekV3Config(
        hidden_size=64, n_routed_experts=256, num_experts_per_tok=8, n_group=8, topk_group=4, routed_scaling_factor=2.5
    )
    options = {"score": "sigmoid", "bias": True, "groups": 8, "group_k": 4, "scale": 2.5}
    return models.DeepseekV3TopkRouter(config), (64, 256, 8), options


def _deepseek_v4(transformers):
    models = pytest.importorskip("transformers.models.deepseek_v4.modeling_deepseek_v4")
    config = transformers.DeepseekV4Config(
        hidden_size=64, n_routed_experts=256, num_experts_per_tok=6, scoring_func="sqrtsoftplus"
    )
    router = models.DeepseekV4TopKRouter(config)
    return router, (64, 256, 6), {"score": "sqrtsoftplus", "bias": True, "scale": router.routed_scaling_factor}


HUGGING_FACE = {
    "Mixtral": _mixtral,
    "Qwen3-MoE": _qwen3,
    "Qwen3-MoE, not renormalized": lambda t: _qwen3(t, renormalize=False),
    "DeepSeek-V3": _deepseek_v3,
    "DeepSeek-V4": _deepseek_v4,
}


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_same_as_hugging_face(name, device):
    transformers = pytest.importorskip("transformers")
    theirs, sizes, options = HUGGING_FACE[name](transformers)
    theirs = theirs.to(device)
    torch.nn.init.normal_(theirs.weight, std=0.2)
    if options.get("bias"):
        torch.nn.init.normal_(theirs.e_score_correction_bias, std=0.1)
    ours = Router(*sizes, **options).to(device)
    ours.load_state_dict(theirs.state_dict())
    tokens = torch.randn(2000, 64, device=device)
    logits, their_weights, their_ids = theirs(tokens)
    weights, ids = ours(tokens)
    assert logits.shape == (2000, sizes[1])
    # Some of theirs are in no particular order.
    ids, order = ids.long().sort(-1)
    their_ids, their_order = their_ids.sort(-1)
    same = same_experts(ids, their_ids)
    torch.testing.assert_close(weights.gather(-1, order)[same], their_weights.gather(-1, their_order)[same], **CLOSE)
    # The gradients of their weight.
    factors = torch.randn_like(weights) * same.unsqueeze(-1)
    grads = [
        torch.autograd.grad((w.gather(-1, o) * factors).sum(), m.weight)[0]
        for w, o, m in ((weights, order, ours), (their_weights, their_order, theirs))
    ]
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-4, atol=1e-5)


# ---- Bad arguments ----

GOOD = torch.randn(4, 16)
BAD = {
    "k": (lambda: route(GOOD, 0), "k is 0; accepted for 16 experts in 1 of 1 groups: 1 to 16"),
    "k beyond": (lambda: route(GOOD, 17), "k is 17; accepted"),
    "k beyond 32": (lambda: route(torch.randn(2, 64), 33), "k is 33; accepted .* 1 to 32"),
    "k beyond groups": (lambda: route(GOOD, 5, groups=4), "k is 5; accepted for 4 experts in 1 of 4 groups: 1 to 4"),
    "groups": (lambda: route(GOOD, 2, groups=3), "groups is 3; accepted for 16 experts: a divisor"),
    "group_k": (lambda: route(GOOD, 2, groups=4, group_k=5), "group_k is 5; accepted for 4 groups: 1 to 4"),
    "score": (lambda: route(GOOD, 2, score="tanh"), "score is 'tanh'; accepted: 'softmax', 'sigmoid' or"),
    "score number": (lambda: torch.ops.rtopk.route(GOOD, None, 2, 3), "score is 3; accepted: 0"),
    "experts": (lambda: route(torch.randn(2, 1025), 2), "experts is 1025; accepted: 1 to 1024"),
    "no experts": (lambda: route(torch.randn(2, 0), 2), "experts is 0; accepted: 1 to 1024"),
    "no dimensions": (lambda: route(torch.tensor(1.0), 1), "logits has 0 dimensions; accepted"),
    "dtype": (lambda: route(GOOD.double(), 2), "logits has another dtype; accepted: float32, float16 or bfloat16"),
    "integers": (lambda: route(GOOD.int(), 2), "logits has another dtype; accepted"),
    "scale": (lambda: route(GOOD, 2, scale=INF), "scale is inf; accepted: a finite number"),
    "bias": (lambda: route(GOOD, 2, bias=torch.zeros(15)), "bias has size 15 .* accepted: 16, the number of experts"),
    "bias dtype": (lambda: route(GOOD, 2, bias=torch.zeros(16).half()), "bias .* accepted"),
    "bias dimensions": (lambda: route(GOOD, 2, bias=torch.zeros(1, 16)), "bias has 2 dimensions; accepted: 1"),
    "no tensor": (lambda: route([1.0], 1), "argument 'logits' must be Tensor, not list"),
    "router k": (lambda: Router(4, 8, 9), "k is 9; accepted: 1 to 8"),
    "router groups": (lambda: Router(4, 8, 2, groups=3), "groups is 3; accepted for 8 experts"),
    "router hidden": (lambda: Router(0, 8, 2), "hidden is 0; accepted: 1 or more"),
    "router score": (lambda: Router(4, 8, 2, score="relu"), "score is 'relu'; accepted"),
    "router scale": (lambda: Router(4, 8, 2, scale=NAN), "scale is nan; accepted"),
    "router experts": (lambda: Router(4, 2.0, 1), "experts is 2.0; accepted: an integer"),
    "ids": (lambda: group_by_expert(torch.randn(3), 4), "ids is a tensor of torch.float32; accepted"),
    "number of experts": (lambda: group_by_expert(torch.zeros(3, dtype=torch.int32), 0), "experts is 0; accepted: 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name):
    call, text = BAD[name]
    with pytest.raises((RuntimeError, ValueError, TypeError), match=text):
        call()


@pytest.mark.gpu
def test_bias_on_another_device():
    with pytest.raises(RuntimeError, match="bias is on another device than logits"):
        route(GOOD.cuda(), 2, bias=torch.zeros(16))


def test_is_a_part_of_the_package():
    assert rtopk.moe.route is route
