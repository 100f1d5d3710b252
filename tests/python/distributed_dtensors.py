"""What every rank does with DTensors in test_distributed_topk.py: rtopk's functions beside those of one device.

Importing DTensor takes a second, so distributed_topk.py imports this when it is needed.
"""

import copy

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import rtopk
from oracle import random_tensor, same_bits


def placed_differences(whole, mesh, placements, k, dim, largest, sorted):
    def copies(tensor):
        return distribute_tensor(tensor, mesh, [Replicate()] * mesh.ndim)

    x = distribute_tensor(whole, mesh, placements).requires_grad_()
    whole = whole.clone().requires_grad_()
    ours, theirs = rtopk.topk(x, k, dim, largest, sorted), rtopk.topk(whole, k, dim, largest, sorted)
    weight = torch.randn_like(theirs.values)
    (grad,) = torch.autograd.grad((ours.values * copies(weight)).sum().full_tensor(), x)
    (expected,) = torch.autograd.grad((theirs.values * weight).sum(), whole)
    dense, expected_dense = rtopk.maxk(x, k, dim, largest), rtopk.maxk(whole, k, dim, largest)
    weight = torch.randn_like(expected_dense)
    (dense_grad,) = torch.autograd.grad((dense * copies(weight)).sum().full_tensor(), x)
    (expected_dense_grad,) = torch.autograd.grad((expected_dense * weight).sum(), whole)
    mask, expected_mask = rtopk.topk_mask(x, k, dim, largest), rtopk.topk_mask(whole, k, dim, largest)
    compared = {
        "values": (ours.values, theirs.values),
        "indices": (ours.indices, theirs.indices),
        "gradient": (grad, expected),
        "maxk": (dense, expected_dense),
        "gradient of maxk": (dense_grad, expected_dense_grad),
        "mask": (mask, expected_mask),
    }
    wrong = [name for name, (one, other) in compared.items() if not same_bits(one.full_tensor(), other)]
    # Where the selected dimension is split, values are the same on all ranks. Everything else stays where it was.
    split = [each.is_shard(dim % whole.dim()) for each in placements]
    expected = [Replicate() if is_split else each for each, is_split in zip(placements, split, strict=True)]
    if sum(split) < 2 and not (list(ours.values.placements) == expected and list(dense.placements) == list(placements)):
        wrong.append(f"placements {ours.values.placements} {dense.placements}")
    return wrong


def dtensors(device, message):
    """What is wrong, how many placements were tried, and the errors of calls that are refused, by message()."""
    ranks = distributed.get_world_size()
    torch.manual_seed(9)
    mesh = init_device_mesh(device, (ranks,))
    wrong, count = [], 0
    for dim in range(3):
        for size in (1, 2, 5, 9):
            shape = [2, 3, 4]
            shape[dim] = size
            whole = random_tensor(shape, device=device, ties=True)
            for placement in (Replicate(), Shard(0), Shard(1), Shard(2)):
                k, largest = (size + 1) // 2, size != 5
                names = placed_differences(whole, mesh, [placement], k, dim - 3, largest, size != 9)
                wrong += [[shape, str(placement), dim, name] for name in names]
                count += 1
    if ranks == 4:
        square = init_device_mesh(device, (2, 2))
        for placements in ([Shard(0), Shard(1)], [Shard(1), Shard(0)], [Shard(1), Replicate()], [Shard(1), Shard(1)]):
            whole = random_tensor((7, 9), device=device)
            wrong += [
                [str(placements), name] for name in placed_differences(whole, square, placements, 4, 1, True, True)
            ]
            count += 1
    # Each rank has a summand.
    local = random_tensor((3, 8), device=device).requires_grad_()
    partial = DTensor.from_local(local, mesh, [Partial()])
    values = rtopk.topk(partial, 3).values
    expected = rtopk.topk(partial.full_tensor(), 3).values
    (grad,) = torch.autograd.grad(values.sum().full_tensor(), local)
    if not (same_bits(values.full_tensor(), expected) and grad.sum() == 9):
        wrong.append("a partial tensor")
    # What is for whole rows.
    whole = random_tensor((4, 8), device=device)
    columns, rows = (distribute_tensor(whole, mesh, [Shard(dim)]) for dim in (1, 0))
    early = rtopk.topk(rows, 3, max_iter=2, search="bisection", index_dtype=torch.int32)
    expected = rtopk.topk(whole, 3, max_iter=2, index_dtype=torch.int32)
    if not all(same_bits(one.full_tensor(), other) for one, other in zip(early, expected, strict=True)):
        wrong.append("early stopping")
    if rtopk.topk(columns, 3, index_dtype=torch.int32).indices.dtype is not torch.int32:
        wrong.append("index_dtype")
    if not same_bits(rtopk.nn.MaxK(3)(columns).full_tensor(), rtopk.maxk(whole, 3)):
        wrong.append("nn.MaxK")
    lengths = torch.ones(4, dtype=torch.int64, device=device)
    out = (torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device))
    errors = {
        "max_iter": message(lambda: rtopk.topk(columns, 3, max_iter=2)),
        "search": message(lambda: rtopk.topk_mask(columns, 3, search="bisection")),
        "magnitude": message(lambda: rtopk.maxk(columns, 3, magnitude=True)),
        "lengths": message(lambda: rtopk.topk(rows, 3, lengths=lengths)),
        "out": message(lambda: rtopk.topk(rows, 3, out=out)),
        "k": message(lambda: rtopk.topk(columns, 9)),
        "a DTensor for a shard": message(lambda: rtopk.distributed.topk(columns, 3)),
    }
    last = distributed.get_rank() == ranks - 1
    shorter = distribute_tensor(whole[:, :-1] if last else whole, mesh, [Shard(1)])
    mismatches = {
        "k": message(lambda: rtopk.topk(columns, 3 if last else 2)),
        "dtype": message(lambda: rtopk.maxk(columns.double() if last else columns, 2)),
        "largest": message(lambda: rtopk.topk_mask(columns, 2, largest=not last)),
        "function": message(lambda: (rtopk.topk if last else rtopk.maxk)(columns, 2)),
        "a size": message(lambda: rtopk.topk(shorter, 2)),
        "max_iter": message(lambda: rtopk.topk(columns, 3, max_iter=2 if last else None)),
        "k of a wrong type": message(lambda: rtopk.topk(columns, "3" if last else 3)),
    }
    return {"wrong": wrong, "count": count, "errors": errors, "mismatches": mismatches}


def parallelized(device):
    """Networks in tensor parallelism by parallelize_module: what differs from the network of one device. Numbers are
    whole, so that sums are exact in any order."""
    torch.manual_seed(11)
    mesh = init_device_mesh(device, (distributed.get_world_size(),))
    x = torch.randint(-4, 5, (6, 5), device=device).double()
    whole = torch.nn.Sequential(torch.nn.Linear(5, 12), rtopk.nn.MaxK(4), torch.nn.Linear(12, 3)).double().to(device)
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.copy_(torch.randint(-4, 5, parameter.shape, device=device))
    best = torch.nn.Sequential(copy.deepcopy(whole[0]), rtopk.nn.TopK(4))
    # The columns of the first layer are split, and stay so in between.
    columns, rows = ColwiseParallel(use_local_output=False), RowwiseParallel(input_layouts=Shard(-1))
    split = parallelize_module(copy.deepcopy(whole), mesh, {"0": columns, "2": rows})
    split_best = parallelize_module(copy.deepcopy(best), mesh, {"0": columns})

    def full(tensor):
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def results(network, best):
        dense, (values, indices) = network(x), best(x)
        (full(dense).square().sum() + full(values).square().sum()).backward()
        gradients = [parameter.grad for each in (network, best) for parameter in each.parameters()]
        return [full(each) for each in (dense, values, indices, *gradients)]

    names = ["MaxK", "values of TopK", "indices of TopK", *(f"gradient {number}" for number in range(6))]
    pairs = zip(names, results(split, split_best), results(whole, best), strict=True)
    wrong = [name for name, ours, expected in pairs if not torch.equal(ours, expected)]
    hidden = split[1](split[0](x))
    return [*wrong, *([] if hidden.placements == (Shard(1),) else [f"placements {hidden.placements}"])]


def compiled_dtensors(device, backend="aot_eager"):
    torch.manual_seed(10)
    mesh = init_device_mesh(device, (distributed.get_world_size(),))

    # No sums: inductor adds up in an order of its own.
    def both(x):
        values, indices = rtopk.topk(x * 2, 3)
        return values.full_tensor(), rtopk.maxk(x, 5).square().full_tensor(), indices.full_tensor()

    wrong = []
    for dim in (0, 1):
        x = distribute_tensor(random_tensor((5, 9), device=device), mesh, [Shard(dim)]).requires_grad_()

        def gradient(results, x=x):
            weights = [torch.full_like(each, 1.5) for each in results[:2]]
            return torch.autograd.grad(results[:2], x, weights)[0].full_tensor()

        eager, results = both(x), torch.compile(both, backend=backend, fullgraph=True)(x)
        if not all(map(same_bits, eager, results)):
            wrong.append(f"results differ, split along {dim}")
        if not same_bits(gradient(eager), gradient(results)):
            wrong.append(f"gradients differ, split along {dim}")
    return wrong
