"""What every rank of test_distributed_hooks.py runs: DDP with topk_hook, beside a reference that is written out here.

A rank can make the gradients of all ranks, because they come from seeds. So each computes by itself what all of them
must have sent, kept and received.
"""

import copy
import hashlib
import io
import os
import signal
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ranks import run_cases
from rtopk.distributed import TopKState, topk_hook

CORA = Path(__file__).parent.parent / "data" / "cora.npz"
# No multiples of the chunks: the last ones are short, some of them shorter than k.
SHAPES = [(40, 25), (40,), (3, 7, 11), (1,), (64,), (2, 33)]


class Weights(torch.nn.Module):
    """Parameters whose gradients are what forward() is given: None for those that it does not use."""

    def __init__(self, shapes=SHAPES, dtype=torch.float32):
        super().__init__()
        dtypes = dtype if isinstance(dtype, list) else [dtype] * len(shapes)
        self.weights = torch.nn.ParameterList(
            torch.zeros(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)
        )

    def forward(self, gradients):
        return sum(
            (weight * gradient).sum(dtype=torch.float64)
            for weight, gradient in zip(self.weights, gradients, strict=True)
            if gradient is not None
        )

    def gradients(self, step, rank):
        generator = torch.Generator().manual_seed(1000 * step + rank)
        return [torch.randn(each.shape, generator=generator).to(each.dtype) for each in self.weights]


def with_hook(model, state, **options):
    ddp = DistributedDataParallel(model, **options)
    ddp.register_comm_hook(state, topk_hook)
    return ddp


def backward(ddp, gradients):
    """What DDP makes of the gradients of this rank."""
    ddp.zero_grad()
    ddp(gradients).backward()
    return [parameter.grad.clone() for parameter in ddp.parameters()]


def same(ours, expected):
    return len(ours) == len(expected) and all(
        a.shape == b.shape and a.dtype == b.dtype and torch.equal(bits(a), bits(b))
        for a, b in zip(ours, expected, strict=True)
    )


def bits(tensor):
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)


def digest(tensors):
    whole = hashlib.sha256()
    for tensor in tensors:
        whole.update(bytes(bits(tensor).tolist()))
    return whole.hexdigest()


# ---- The reference ----


class Reference:
    """All ranks in one: what each keeps, and the average of what they send. In torch, chunk by chunk."""

    def __init__(self, model, k, chunk, value_dtype=None):
        self.model, self.k, self.chunk, self.value_dtype = model, k, chunk, value_dtype
        ranks = dist.get_world_size()
        self.kept = [[torch.zeros(each.numel(), dtype=wide(each)) for each in model.weights] for _ in range(ranks)]

    def step(self, gradients):
        """The average, by the gradients of every rank."""
        ranks = len(gradients)
        sums = [torch.zeros(each.numel(), dtype=wide(each)) for each in self.model.weights]
        for own, all_kept in zip(gradients, self.kept, strict=True):
            for gradient, kept, total in zip(own, all_kept, sums, strict=True):
                kept += gradient.flatten()
                before = kept.clone()
                sent = self.sent(kept, gradient.dtype)
                assert torch.equal(sent + kept, before)  # nothing is lost, exactly
                total += sent
        return [
            (total / ranks).to(each.dtype).view(each.shape)
            for total, each in zip(sums, self.model.weights, strict=True)
        ]

    def sent(self, kept, dtype):
        """What a rank sends of one parameter, taken from what it keeps."""
        sent = torch.zeros_like(kept)
        for chunk, sent_chunk in zip(kept.split(self.chunk), sent.split(self.chunk), strict=True):
            places = chunk.abs().sort(descending=True, stable=True).indices[: self.k]  # ties: the lowest index
            values = chunk[places].to(self.value_dtype or dtype).to(chunk.dtype)
            sent_chunk[places] = values
            chunk[places] -= values
        return sent


def wide(tensor):
    return torch.float32 if tensor.itemsize == 2 else tensor.dtype


def follows_the_reference(dtype, k, chunk, value_dtype=None, steps=4, device="cpu", unused=None, **options):
    """Averages and what is kept are those of the reference, bit for bit, in every step. The last rank does not use the
    parameter of the number `unused` in odd steps."""
    model = Weights(dtype=dtype).to(device)
    reference = Reference(model, k, chunk, value_dtype)
    state = TopKState(k, chunk, value_dtype=value_dtype, min_compression_rate=0)
    ddp = with_hook(model, state, **options)
    rank, averages = dist.get_rank(), []
    for step in range(steps):
        gradients = [model.gradients(step, each) for each in range(dist.get_world_size())]
        own = [each.to(device) for each in gradients[rank]]
        if unused is not None and step % 2:
            gradients[-1][unused] = torch.zeros_like(gradients[-1][unused])
            if rank == dist.get_world_size() - 1:
                own[unused] = None
        averages = backward(ddp, own)
        assert same(averages, reference.step(gradients)), f"other averages in step {step}"
        kept = state.state_dict(ddp)["error_feedback"]
        assert same([kept[name] for name, _ in model.named_parameters()], reference.kept[rank]), f"kept, step {step}"
    return {"digest": digest(averages), "buckets": len(state._buckets), "kept": digest(kept.values())}


# ---- Cases ----


def whole_chunks(dtype):
    """k = chunk: sums in the order of ranks, divided by their number, and nothing is kept."""
    model = Weights(dtype=dtype)
    state = TopKState(64, 64, min_compression_rate=0)
    ranks = dist.get_world_size()
    gradients = [model.gradients(0, rank) for rank in range(ranks)]
    averages = backward(with_hook(model, state), gradients[dist.get_rank()])
    for average, *parts in zip(averages, *gradients, strict=True):
        total = torch.zeros_like(average, dtype=wide(average))
        for part in parts:
            total += part
        assert same([average], [(total / ranks).to(average.dtype)])
    assert not any(kept.any() for kept in state.state_dict(model)["error_feedback"].values())


def buckets_do_not_matter():
    """The same bits from one bucket, from many, and with views of buckets as gradients."""
    results = []
    dtypes = [torch.float32, torch.bfloat16, torch.float32, torch.float64, torch.bfloat16, torch.float32]
    for options in ({}, {"bucket_cap_mb": 0.001}, {"bucket_cap_mb": 0.001, "gradient_as_bucket_view": True}):
        model, state = Weights(dtype=dtypes), TopKState(3, 16)
        ddp = with_hook(model, state, **options)
        averages = []
        for step in range(3):
            averages += backward(ddp, model.gradients(step, dist.get_rank()))
        results.append((averages, len(state._buckets)))
    assert [same(averages, results[0][0]) for averages, _ in results] == [True, True, True]
    return [buckets for _, buckets in results]


def network(seed=5):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 50), torch.nn.ReLU(), torch.nn.Linear(50, 3)
    )


def trained(ddp, optimizer, steps):
    for step in steps:
        generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
        x = torch.randn(8, 20, generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(x), x[:, :3].argmax(1)).backward()
        optimizer.step()


def resumes():
    """Saved, and loaded into a new DDP, whose first step has other buckets: the same bits as without interruption."""

    def new_run():
        state = TopKState(2, 64, value_dtype=torch.bfloat16, warm_up_steps=2)
        ddp = with_hook(network(), state, bucket_cap_mb=0.005)
        return ddp, state, torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)

    ddp, state, optimizer = new_run()
    trained(ddp, optimizer, range(5))
    file = io.BytesIO()
    torch.save([ddp.module.state_dict(), state.state_dict(ddp), optimizer.state_dict()], file)
    trained(ddp, optimizer, range(5, 9))

    resumed, resumed_state, resumed_optimizer = new_run()
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed.module.load_state_dict(saved[0])
    resumed_state.load_state_dict(saved[1], resumed.module)
    resumed_optimizer.load_state_dict(saved[2])
    trained(resumed, resumed_optimizer, range(5, 9))
    assert same(list(resumed.parameters()), list(ddp.parameters()))
    kept, again = state.state_dict(ddp), resumed_state.state_dict(resumed)
    assert same(list(kept.pop("error_feedback").values()), list(again.pop("error_feedback").values()))
    assert kept == again
    return {"digest": digest(ddp.parameters()), "buckets": len(state._buckets), "steps": kept["steps"]}


def loading_refuses():
    """A state of another rank, or of another model."""
    model, state = Weights(), TopKState(2, 16)
    backward(with_hook(model, state), model.gradients(0, 0))
    saved = state.state_dict(model)
    texts = []
    for wrong, other in (
        (saved | {"rank": saved["rank"] + 1}, model),
        (saved | {"ranks": 7}, model),
        (saved, Weights(SHAPES[:-1])),
        (saved, Weights([(9,), *SHAPES[1:]])),
    ):
        try:
            state.load_state_dict(wrong, other)
        except ValueError as error:
            texts.append(str(error))
    assert same(list(state.state_dict(model)["error_feedback"].values()), list(saved["error_feedback"].values()))
    return texts


def warms_up():
    """All-reduce in the first steps, bit for bit; then not."""
    model, state = Weights(), TopKState(1, 64, warm_up_steps=3)
    compressed = with_hook(model, state)
    plain_model = Weights()
    plain = DistributedDataParallel(plain_model)
    equal = []
    for step in range(5):
        gradients = model.gradients(step, dist.get_rank())
        equal.append(same(backward(compressed, gradients), backward(plain, gradients)))
    return {"equal": equal, "steps": state.steps}


def counts_bytes():
    """Two steps, the first with all-reduce."""
    model, state = Weights([(100,), (256,)]), TopKState(4, 64, warm_up_steps=1)
    ddp = with_hook(model, state)
    for step in range(2):
        backward(ddp, model.gradients(step, dist.get_rank()))
    return list(state.compression_stats())


def sends_dense():
    """Where compression would send more bytes than all-reduce."""
    model, state = Weights(), TopKState(64, 64)
    gradients = model.gradients(0, dist.get_rank())
    ddp, plain = with_hook(model, state), DistributedDataParallel(Weights())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert same(backward(ddp, gradients), backward(plain, gradients))
    assert not state.state_dict(model)["error_feedback"]
    texts = [str(each.message) for each in caught if "TopKState" in str(each.message)]
    return {"warnings": texts, "rate": state.compression_stats().rate}


def not_finite(device="cpu"):
    """Rank 0 has a NaN in one chunk, an infinity in the next, and only NaN in the last. Then all is well again."""
    model, state = Weights([(48,)]).to(device), TopKState(2, 16)
    ddp = with_hook(model, state)
    (gradient,) = model.gradients(0, dist.get_rank())
    if dist.get_rank() == 0:
        gradient[5], gradient[20] = float("nan"), float("-inf")
        gradient[32:] = float("nan")
    (first,) = backward(ddp, [gradient.to(device)])
    kept = state.state_dict(ddp)["error_feedback"]["weights.0"]
    (second,) = backward(ddp, [each.to(device) for each in model.gradients(1, dist.get_rank())])
    return {
        "nan": first.isnan().nonzero().flatten().tolist(),
        "inf": (first == float("-inf")).nonzero().flatten().tolist(),
        "kept_is_finite": bool(kept.isfinite().all()),
        "then_finite": bool(second.isfinite().all()),
    }


def too_large_for_16_bits():
    """A million in float16: in parts, over several steps, and all of it arrives. Infinity remains infinity."""
    model = Weights([(16,)])
    state = TopKState(2, 16, value_dtype=torch.float16)
    ddp = with_hook(model, state)
    gradient = torch.zeros(16)
    gradient[3], gradient[7] = 1e6, -1e6
    received = [backward(ddp, [gradient if step == 0 else torch.zeros(16)])[0] for step in range(20)]
    (infinite,) = backward(ddp, [torch.full((16,), float("inf"))])
    return {
        "first": received[0][[3, 7]].tolist(),
        "sum": torch.stack(received).double().sum(0)[[3, 7]].tolist(),
        "infinite": int(infinite.isinf().sum()),
    }


def mismatched(**odd):
    """The last rank has another setting: an error on every rank, which names it."""
    own = {"k": 2, "chunk": 16} | (odd if dist.get_rank() == dist.get_world_size() - 1 else {})
    model = Weights()
    try:
        backward(with_hook(model, TopKState(**own)), model.gradients(0, 0))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def group_of_its_own():
    group = dist.new_group(list(range(dist.get_world_size())))
    state = TopKState(3, 16, process_group=group)
    model = Weights()
    return digest(backward(with_hook(model, state, process_group=group), model.gradients(0, dist.get_rank())))


def accumulates():
    """Steps under no_sync() are no steps of the hook."""
    model, state = Weights(), TopKState(64, 64, min_compression_rate=0)
    ddp = with_hook(model, state)
    one, two = (model.gradients(step, dist.get_rank()) for step in range(2))
    with ddp.no_sync():
        ddp(one).backward()
    ddp(two).backward()
    ours = [parameter.grad.clone() for parameter in model.parameters()]
    once = Weights()
    other = with_hook(once, TopKState(64, 64, min_compression_rate=0))
    assert same(ours, backward(other, [a + b for a, b in zip(one, two, strict=True)]))
    return state.steps


def backward_goes_on(seconds=30):
    """Whether backward waits for the wire. The last rank sends nothing before all others are at their first layer.

    Its part of the first all-gather can only follow the gradient of its last layer. That gradient waits in a barrier,
    which each of the others enters from the gradient of its first layer. If topk_hook waited for an all-gather, the
    others would never get there: the barrier would fail after so many seconds, and with it the case.
    """
    torch.manual_seed(7)
    layers = [torch.nn.Linear(64, 64, bias=False) for _ in range(6)]
    model, undisturbed = (torch.nn.Sequential(*each) for each in (layers, copy.deepcopy(layers)))
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(dist.get_rank()))
    futures = []

    def watched(state, bucket):
        futures.append(topk_hook(state, bucket))
        return futures[-1]

    buckets = {"bucket_cap_mb": 0.01}  # every layer is one
    ddp = DistributedDataParallel(model, **buckets)
    ddp.register_comm_hook(TopKState(4, 64), watched)
    plain = with_hook(undisturbed, TopKState(4, 64), **buckets)

    def step(module):
        module.zero_grad()
        module(x).square().sum().backward()

    for each in (ddp, plain, plain):
        step(each)  # after its first step DDP has buckets in the order of the gradients

    group = dist.new_group(timeout=timedelta(seconds=seconds))
    is_last, seen = dist.get_rank() == dist.get_world_size() - 1, {}

    def meet(_):
        seen.update(started=len(futures), ended=sum(future.done() for future in futures))
        dist.barrier(group)

    futures.clear()
    handle = layers[-1 if is_last else 0].weight.register_hook(meet)
    step(ddp)
    # A group that the hook kept alive until the process ends takes its running threads there: a crash, now and then.
    handle.remove()
    dist.destroy_process_group(group)
    assert same([each.grad for each in model.parameters()], [each.grad for each in undisturbed.parameters()])
    return seen | {"last": is_last, "buckets": len(futures)}


def trains():
    """The classes of Cora's nodes by their words: the losses with all-reduce, and with a 32nd of the gradient."""
    from rtopk.gnn import load

    data = load(CORA)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    nodes = data.train[rank::ranks]
    x, y = data.features.matrices[0].to_dense()[nodes], data.labels[nodes]
    losses = {}
    for name in ("all-reduce", "top-k"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 32), torch.nn.ReLU(), torch.nn.Linear(32, 7))
        ddp = DistributedDataParallel(model)
        if name == "top-k":
            ddp.register_comm_hook(TopKState(8, 256), topk_hook)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.5, momentum=0.9)
        means = []
        for _ in range(40):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(ddp(x), y)
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            means.append(mean.item() / ranks)
        losses[name] = [means[0], means[-1]]
    return losses


def ends_with_an_error():
    """The last rank is killed in the middle of training. The others get an error, and do not wait for ever."""
    model, state = Weights(), TopKState(3, 16)
    ddp = with_hook(model, state)
    for step in range(1000):
        if step == 3 and dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            backward(ddp, model.gradients(step, dist.get_rank()))
        except RuntimeError as error:
            return {"step": step, "text": str(error)}


HALF, BFLOAT16 = torch.float16, torch.bfloat16
DTYPES = (torch.float32, torch.float64, HALF, BFLOAT16)


def references(**options):
    """Cases of follows_the_reference()."""
    arguments = {str(dtype): (dtype, 3, 16) for dtype in DTYPES} | {
        "16-bit positions": (torch.float32, 9, 300),
        "float16 values": (torch.float32, 3, 16, HALF),
        "bfloat16 values": (torch.float64, 3, 16, BFLOAT16),
        "bfloat16 as float16": (BFLOAT16, 3, 16, HALF),
    }
    views = {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.001}
    cases = {name: lambda each=each: follows_the_reference(*each, **options) for name, each in arguments.items()}
    cases["views"] = lambda: follows_the_reference(torch.float32, 5, 64, **views, **options)
    many = {"bucket_cap_mb": 0.001, **options}
    cases["static graph"] = lambda: follows_the_reference(torch.float32, 5, 64, static_graph=True, **many)
    finds = {"find_unused_parameters": True, "unused": 2}
    cases["unused"] = lambda: follows_the_reference(torch.float32, 5, 64, **finds, **many)
    return {f"reference {name}": case for name, case in cases.items()}


def main():
    if sys.argv[1:] == ["nccl"]:
        run_cases(references(device="cuda") | {"not finite": lambda: not_finite("cuda")}, backend="nccl")
        return
    if sys.argv[1:] == ["goes on"]:
        run_cases({"goes on": backward_goes_on})
        return
    cases = {f"whole chunks {dtype}": lambda dtype=dtype: whole_chunks(dtype) for dtype in DTYPES} | references()
    cases |= {
        "buckets": buckets_do_not_matter,
        "resumes": resumes,
        "loading refuses": loading_refuses,
        "warms up": warms_up,
        "counts bytes": counts_bytes,
        "sends dense": sends_dense,
        "not finite": not_finite,
        "too large": too_large_for_16_bits,
        "group": group_of_its_own,
        "accumulates": accumulates,
        "trains": trains,
    }
    odd = {"k": 3, "chunk": 32, "value_dtype": HALF, "warm_up_steps": 1, "min_compression_rate": 0.5}
    cases |= {f"mismatched {name}": lambda name=name: mismatched(**{name: odd[name]}) for name in odd}
    run_cases(cases | {"killed": ends_with_an_error})


if __name__ == "__main__":
    main()
