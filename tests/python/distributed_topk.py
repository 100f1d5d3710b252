"""What every rank does in test_distributed_topk.py: rtopk.distributed beside rtopk on one device.

    distributed_topk.py DEVICE CASE...    started by ranks.py. DEVICE: cpu, or cuda with all ranks on one GPU

Each case makes the whole tensor on every rank, takes its shard, and returns what was wrong, which is nothing.
"""

import hashlib
import os
import signal
import sys

import torch
from torch import distributed

import rtopk
import rtopk.distributed
from oracle import DTYPES, OTHER_INTEGERS, bits, random_tensor, same_bits
from ranks import run_cases
from rtopk.distributed import exchange

DEVICE = sys.argv[1]
NAN_BITS = {torch.float32: 0x7FC00001, torch.float16: 0x7E01, torch.bfloat16: 0x7FC1, torch.float64: 0x7FF8000000000001}


def rank():
    return distributed.get_rank()


def ranks():
    return distributed.get_world_size()


def hard_tensor(shape, dtype):
    """With ties, and for floats NaN of several bits, infinities and zeros of both signs."""
    x = random_tensor(shape, dtype, ties=True)
    if dtype.is_floating_point:
        for value in (float("inf"), float("-inf"), -0.0):
            x[torch.rand(shape) < 0.04] = value
        is_nan = torch.rand(shape) < 0.04
        payload = torch.randint(4, shape).to(bits(x).dtype) + NAN_BITS[dtype]
        x = torch.where(is_nan, payload, bits(x)).view(dtype)
        x[torch.rand(shape) < 0.02] = -float("nan")
    return x.to(DEVICE)


def shard(whole, sizes, dim):
    return whole.split(sizes, dim)[rank()].clone()


def differences(whole, sizes, k, dim, largest, sorted, known):
    """The names of what differs from the selection on one device."""
    mine, given = shard(whole, sizes, dim), sizes if known else None
    values, indices = rtopk.distributed.topk(mine, k, dim, largest, sorted, sizes=given)
    expected = rtopk.topk(whole, k, dim, largest, sorted)
    compared = {
        "values": (values, expected.values),
        "indices": (indices, expected.indices),
        "maxk": (
            rtopk.distributed.maxk(mine, k, dim, largest, sizes=given),
            shard(rtopk.maxk(whole, k, dim, largest), sizes, dim),
        ),
        "mask": (
            rtopk.distributed.topk_mask(mine, k, dim, largest, sizes=given),
            shard(rtopk.topk_mask(whole, k, dim, largest), sizes, dim),
        ),
    }
    return [name for name, (ours, theirs) in compared.items() if not same_bits(ours, theirs)]


def check_all(cases):
    """Cases that differ from one device, and how many there were."""
    wrong, count = [], 0
    for whole, sizes, k, dim, largest, sorted, known in cases:
        names = differences(whole, sizes, k, dim, largest, sorted, known)
        if names:
            wrong.append([list(whole.shape), str(whole.dtype), sizes, k, dim, largest, sorted, known, names])
        count += 1
    return {"wrong": wrong, "count": count}


# ---- Selections ----


def random_cases():
    torch.manual_seed(1)

    def number(low, high):
        return int(torch.randint(low, high + 1, ()))

    def cases():
        for turn in range(108):
            dtype = (DTYPES + OTHER_INTEGERS)[turn % 9]
            sizes = [number(0, 12) * number(0, 3) for _ in range(ranks())]
            shape = [number(1, 4) for _ in range(number(0, 3))]
            dim = number(0, len(shape))
            shape.insert(dim, sum(sizes))
            k = number(0, sum(sizes)) if turn % 2 else min(number(0, 8), sum(sizes))
            whole = hard_tensor(shape, dtype)
            yield whole, sizes, k, dim - len(shape) * number(0, 1), bool(number(0, 1)), turn % 4 < 2, turn % 3 == 0

    return check_all(cases())


def edges():
    """Shards that have one column or none, all columns on one rank, no rows, and widths of every index type."""
    torch.manual_seed(2)
    none, one = [0] * ranks(), [1] * ranks()

    def cases():
        for known in (False, True):
            for at in range(ranks()):
                sizes = [*none]
                sizes[at] = 9
                yield hard_tensor((3, 9), torch.float32), sizes, 9, 1, True, True, known
                yield hard_tensor((3, 9), torch.int64), sizes, 2, -1, False, True, known
            for k in range(ranks() + 1):
                yield hard_tensor((2, ranks()), torch.bfloat16), one, k, 1, True, False, known
            yield torch.zeros(0, ranks(), device=DEVICE), one, 1, 1, True, True, known
            yield torch.zeros(3, 0, device=DEVICE), none, 0, 1, True, True, known
            # -inf and the lowest integer lose against everything, but not against a shard that is too short.
            lowest = torch.full((2, 3 * ranks()), float("-inf"), device=DEVICE)
            short = [1, *[3] * (ranks() - 1)]
            yield lowest[:, : sum(short)], short, sum(short) - 1, 1, True, True, known
            yield lowest[:, : sum(short)].clamp(min=-128).to(torch.int8), short, sum(short), 1, True, True, known
            for longest in (256, 257, 65536, 65537):
                sizes = [*none]
                sizes[-1], sizes[0] = longest, longest // 2
                yield hard_tensor((2, sum(sizes)), torch.float16), sizes, 40, 1, True, True, known

    return check_all(cases())


def same_on_every_rank():
    """A digest of results, which the test compares."""
    torch.manual_seed(3)
    whole = hard_tensor((16, 50 * ranks()), torch.bfloat16)
    result = rtopk.distributed.topk(shard(whole, [50] * ranks(), 1), 20)
    return [hashlib.sha256(bits(each).cpu().numpy().tobytes()).hexdigest() for each in result]


def gradients():
    torch.manual_seed(4)
    sizes = [5 + each for each in range(ranks())]
    whole = random_tensor((2, sum(sizes), 3), torch.float64, DEVICE, ties=True)
    mine = shard(whole, sizes, 1).requires_grad_()
    whole.requires_grad_()
    wrong = []
    for function in ("topk", "maxk"):
        for known in (None, sizes):
            ours = getattr(rtopk.distributed, function)(mine, 4, 1, sizes=known)
            theirs = getattr(rtopk, function)(whole, 4, 1)
            ours, theirs = (ours.values, theirs.values) if function == "topk" else (ours, theirs)
            weight = torch.randn_like(theirs)
            own_weight = weight if function == "topk" else shard(weight, sizes, 1)
            first = torch.autograd.grad((ours**3 * own_weight).sum(), mine, create_graph=True)[0]
            expected = torch.autograd.grad((theirs**3 * weight).sum(), whole, create_graph=True)[0]
            second = torch.autograd.grad((first**2).sum(), mine)[0]
            expected_second = torch.autograd.grad((expected**2).sum(), whole)[0]
            if not same_bits(first, shard(expected, sizes, 1)):
                wrong.append([function, "gradient"])
            if not torch.equal(second, shard(expected_second, sizes, 1)):  # zeros may have another sign
                wrong.append([function, "gradient of the gradient"])
    return wrong


def subgroup():
    """The last two ranks alone, which have ranks 0 and 1 there."""
    members = [ranks() - 2, ranks() - 1]
    group = distributed.new_group(members)
    torch.manual_seed(5)
    whole = random_tensor((3, 11), device=DEVICE)
    if rank() not in members:
        try:
            rtopk.distributed.topk(whole, 2, group=group)
        except TypeError as error:
            return [] if "accepted: a process group with this rank in it" in str(error) else [str(error)]
        return ["no error"]
    mine = whole.split([4, 7], 1)[members.index(rank())]
    result, expected = rtopk.distributed.topk(mine, 5, group=group), rtopk.topk(whole, 5)
    return [] if all(map(same_bits, result, expected)) else ["differs"]


def activation():
    """The column-parallel MaxK in a network, beside the network of one device with the same hidden columns."""
    torch.manual_seed(6)
    sizes = [5 + each for each in range(ranks())]
    layer = rtopk.distributed.MaxK(4)
    hidden = random_tensor((6, sum(sizes)), device=DEVICE).requires_grad_()
    mine = shard(hidden.detach(), sizes, 1).requires_grad_()
    theirs, ours = rtopk.nn.MaxK(4)(hidden), layer(mine)
    (theirs * torch.arange(sum(sizes), device=DEVICE)).sum().backward()
    (ours * torch.arange(sum(sizes), device=DEVICE).split(sizes)[rank()]).sum().backward()
    parts = [(ours, shard(theirs, sizes, 1)), (mine.grad, shard(hidden.grad, sizes, 1))]
    return [repr(layer), *("differs" for one, other in parts if not same_bits(one, other))]


# ---- What is sent ----


def counted(call):
    """The sizes of the buffers that a call gathers."""
    sizes, original = [], exchange.all_gather

    def counting(result, buffer, group):
        sizes.append(len(buffer))
        original(result, buffer, group=group)

    exchange.all_gather = counting
    try:
        call()
    finally:
        exchange.all_gather = original
    return sizes


def gathers():
    """How many gathers a call takes, when three different calls are made in turn; and how many bytes."""
    group = distributed.new_group()
    x = torch.randn(4, 300, device=DEVICE)
    calls = [
        (rtopk.distributed.topk, x),
        (rtopk.distributed.topk, x[:, :200].half()),
        (rtopk.distributed.maxk, x),
    ]

    def bytes_of(function, tensor, known=False):
        sizes = [tensor.shape[1]] * ranks() if known else None
        return counted(lambda: function(tensor, 8, group=group, sizes=sizes))

    def turns_of(calls):
        return [[len(bytes_of(*call)) for call in calls] for _ in range(4)]

    turns = turns_of(calls)
    sent = {"bytes": [bytes_of(*call) for call in calls], "known": [bytes_of(*call, True) for call in calls]}
    return {"turns": turns, **sent, "repeated": turns_of([calls[0], calls[0], calls[1]])}


# ---- Errors ----


def message(call):
    """The error of a call, and whether the group still works after it."""
    try:
        call()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    else:
        text = "no error"
    distributed.barrier()
    x = torch.arange(4.0, device=DEVICE) + rank()
    right = rtopk.distributed.topk(x, 1).indices.tolist() == [4 * (ranks() - 1) + 3]
    return text if right else f"{text}; then the group is broken"


def mismatched_calls(topk, maxk):
    """Calls in which the last rank is called with something else than the others."""
    last = rank() == ranks() - 1
    x = torch.randn(4, 6, device=DEVICE)
    deep = torch.randn(*[1] * 8, 6, device=DEVICE)
    calls = {
        "k": lambda: topk(x, 3 if last else 2),
        "many more k": lambda: topk(x.repeat(1, 1000), 3000 if last else 2),
        "dtype": lambda: topk(x.double() if last else x, 2),
        "rows": lambda: topk(x[:3] if last else x, 2),
        "dimensions": lambda: topk(x[None] if last else x, 2),
        "many dimensions": lambda: topk(deep[0] if last else deep, 2),
        "dim": lambda: topk(x[:, :4], 2, 0 if last else 1),
        "largest": lambda: topk(x, 2, largest=last),
        "sorted": lambda: topk(x, 2, sorted=last),
        "function": lambda: (maxk if last else topk)(x, 2),
        "k beyond the whole": lambda: topk(x, 6 * ranks() + 1),
        "k of a wrong type": lambda: topk(x, "2" if last else 2),
        "k too large for a number": lambda: topk(x, 2**70 if last else 2),
        "k below 0": lambda: maxk(x, -1 if last else 2),
        "dim out of range": lambda: topk(x, 2, 2 if last else 1),
        "largest of a wrong type": lambda: topk(x, 2, largest=1 if last else True),
        "a dtype that is refused": lambda: topk(x.bool() if last else x, 2),
        "no dimensions": lambda: topk(x[0, 0] if last else x, 2),
        "no tensor": lambda: topk([1.0] if last else x, 2),
        "a sparse tensor": lambda: topk(x.to_sparse() if last else x, 2),
    }
    if DEVICE == "cuda":
        del calls["no tensor"]  # nothing tells which device the others use
    return calls


def mismatches():
    calls = mismatched_calls(rtopk.distributed.topk, rtopk.distributed.maxk)
    return {name: message(call) for name, call in calls.items()}


def with_sizes(function, group=None):
    """The function with sizes given, of shards that are as long as this rank's."""

    def call(x, k, dim=-1, **options):
        is_right = isinstance(x, torch.Tensor) and -x.dim() <= dim < x.dim()
        sizes = [x.shape[dim] if is_right else 6] * ranks()
        return function(x, k, dim, group=group, sizes=sizes, **options)

    return call


def mismatches_of_sizes():
    """The same with sizes given, and sizes that are wrong or differ."""
    topk, last = rtopk.distributed.topk, rank() == ranks() - 1
    x = torch.randn(4, 6, device=DEVICE)
    calls = mismatched_calls(with_sizes(topk), with_sizes(rtopk.distributed.maxk)) | {
        "sizes": lambda: topk(x, 2, sizes=[6] * (ranks() - 1)),
        "sizes of others": lambda: topk(x, 2, sizes=[5] * ranks()),
        "sizes that are no numbers": lambda: topk(x, 2, sizes=[6.0] * ranks()),
        "sizes that differ": lambda: topk(x[:, :5] if last else x, 2, sizes=[6] * (ranks() - 1) + [5 + (not last)]),
        "sizes on some ranks": lambda: topk(x, 2, sizes=None if last else [6] * ranks()),
        "group": lambda: topk(x, 2, group="all"),
    }
    return {name: message(call) for name, call in calls.items()}


class LateHeaders:
    """As on a GPU: with sizes given, the headers of an expected call are read later. Here they arrive by arrive()."""

    def __init__(self):
        self.arrived = 0

    def __enter__(self):
        if DEVICE == "cpu":
            self.originals = exchange.must_wait_for, exchange.copied_to_host
            exchange.must_wait_for, exchange.copied_to_host = lambda _: True, self.copied_to_host
        return self

    def __exit__(self, *_):
        if DEVICE == "cpu":
            exchange.must_wait_for, exchange.copied_to_host = self.originals

    def copied_to_host(self, tensor):
        sent = self.arrived
        return tensor.clone(), lambda: self.arrived > sent

    def arrive(self):
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        self.arrived += 1

    def text_of(self, call):
        try:
            call()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        else:
            text = "no error"
        self.arrive()
        distributed.barrier()
        return text


def late():
    """Mismatches with sizes given on a GPU. First all ranks make the same call; then the last one makes another; then
    all make the same again. The errors of these two, and how many gathers the next calls take. Then selections."""
    group = distributed.new_group()  # which expects nothing
    topk = with_sizes(rtopk.distributed.topk, group)
    calls = mismatched_calls(topk, with_sizes(rtopk.distributed.maxk, group))
    x = torch.randn(4, 6, device=DEVICE)
    errors = {}
    with LateHeaders() as headers:
        for name in ("k", "dtype", "rows", "function", "k of a wrong type"):
            topk(x, 2)
            errors[name] = [headers.text_of(calls[name]), headers.text_of(lambda: topk(x, 2))]
        gathers = [len(counted(lambda: topk(x, 2))) for _ in range(3)]
        torch.manual_seed(7)
        sizes = [3 + each for each in range(ranks())]
        wholes = [hard_tensor((3, sum(sizes)), dtype) for dtype in (torch.float32, torch.int16)]
        cases = [(whole, sizes, k, 1, True, True, True) for _ in range(3) for whole in wholes for k in (2, 2, 5)]
        return {"errors": errors, "gathers": gathers} | check_all(cases)


def killed():
    """The last rank dies. What the others get."""
    x = torch.randn(4, 6, device=DEVICE)
    rtopk.distributed.topk(x, 2)
    if rank() == ranks() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        rtopk.distributed.topk(x, 2)
    except Exception as error:
        return {"kind": type(error).__name__, "text": str(error)}
    return {"kind": None}


# ---- torch.compile ----


def compiled(backend="aot_eager"):
    torch.manual_seed(8)
    sizes = [7 + each for each in range(ranks())]
    mine = shard(random_tensor((4, sum(sizes)), device=DEVICE), sizes, 1).requires_grad_()

    # No sums: inductor adds up in an order of its own.
    def both(x, known):
        values, indices = rtopk.distributed.topk(x * 2, 3, sizes=known)
        return values.square(), rtopk.distributed.maxk(x, 5, sizes=known) * 3, indices

    def gradient(results):
        return torch.autograd.grad(results[:2], mine, [torch.full_like(each, 1.5) for each in results[:2]])[0]

    wrong = []
    for known in (None, sizes):
        eager = both(mine, known)
        results = torch.compile(both, backend=backend, fullgraph=True)(mine, known)
        if not all(map(same_bits, eager, results)):
            wrong.append("results differ")
        if not same_bits(gradient(eager), gradient(results)):
            wrong.append("gradients differ")
    # A mismatch at run time gives the same error in a graph.
    graph = torch.compile(lambda x, k: rtopk.distributed.topk(x, k).values, backend=backend, fullgraph=True)
    return [*wrong, message(lambda: graph(mine, 2 + (rank() == ranks() - 1)))]


def compiled_inductor():
    return compiled("inductor")


# ---- DTensors ----


def dtensors():
    from distributed_dtensors import dtensors

    return dtensors(DEVICE, message)


def parallelized():
    from distributed_dtensors import parallelized

    return parallelized(DEVICE)


def compiled_dtensors():
    from distributed_dtensors import compiled_dtensors

    return compiled_dtensors(DEVICE)


def compiled_dtensors_inductor():
    from distributed_dtensors import compiled_dtensors

    return compiled_dtensors(DEVICE, "inductor")


if __name__ == "__main__":
    if DEVICE == "cuda":
        torch.cuda.set_device(0)
    run_cases({name: globals()[name] for name in sys.argv[3:]}, backend=sys.argv[2])
