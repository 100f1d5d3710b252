"""The contract in torch's own terms: a stable sort, NaN greatest, ties in ascending index."""

import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32]
# Those that the package brings to the library's types, or sorts.
OTHER_INTEGERS = [torch.int64, torch.int16, torch.int8, torch.uint8]
RULES = ["threshold_first", "printed"]
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def sorted_topk(x, k, dim=-1, largest=True):
    """(values, indices), best first."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    # Zeros of one sign: a sort may tell them apart. Values are looked up in the input, to keep its bits.
    key = torch.where(x == 0, torch.zeros_like(x), x)
    indices = torch.sort(key, dim=dim, descending=largest, stable=True).indices.narrow(dim, 0, k)
    return looked_up(x, dim, indices), indices


def looked_up(x, dim, indices):
    """x.gather(dim, indices) as bits: torch's own makes every NaN of bfloat16 the same one."""
    return x.resolve_neg().view(_BITS[x.element_size()]).gather(dim, indices).view(x.dtype)


def by_index(values, indices, dim=-1):
    """The same results in ascending index."""
    if values.dim() == 0:
        return values, indices
    indices, order = indices.sort(dim=dim)
    return looked_up(values, dim, order), indices


def mask_of(x, k, dim=-1, largest=True):
    if x.dim() == 0:
        return torch.full((), k > 0, device=x.device)
    indices = sorted_topk(x, k, dim, largest)[1]
    return torch.zeros(x.shape, dtype=torch.bool, device=x.device).scatter(dim, indices, True)


def early_stopped_row(row, k, max_iter, rule="threshold_first", largest=True):
    """The indices that max_iter selects, ascending: Algorithm 2 of the paper, a bisection between minimum and maximum.
    Rows with NaN or an infinity are exact."""
    if not row.isfinite().all():
        return sorted_topk(row, k, largest=largest)[1].sort().values
    row = row.to(torch.float64 if row.dtype in (torch.float64, torch.int32) else torch.float32)
    row = row if largest else -row
    low, high = row.min(), row.max()
    for _ in range(max_iter):
        threshold = 0.5 * low + 0.5 * high
        count = int((row >= threshold).sum())
        low, high = (threshold, high) if count >= k else (low, threshold)
    if rule == "printed" or count >= k:
        return (row >= low).nonzero().flatten()[:k]
    fill = ((row >= low) & (row < threshold)).nonzero().flatten()[: k - count]
    return torch.cat([(row >= threshold).nonzero().flatten(), fill]).sort().values


def bits(tensor):
    """For comparisons in which NaN equals itself and -0 is not +0."""
    return tensor.contiguous().view(_BITS[tensor.element_size()]) if tensor.dim() else bits(tensor.reshape(1))


def same_bits(first, second):
    return first.dtype == second.dtype and first.shape == second.shape and torch.equal(bits(first), bits(second))


def random_tensor(shape, dtype=torch.float32, device="cpu", ties=False):
    if not (ties or dtype.is_floating_point):
        limits = torch.iinfo(dtype)
        return torch.randint(limits.min, limits.max, shape, dtype=dtype).to(device)
    x = torch.randn(shape, dtype=torch.float64)
    if ties:
        x = (x * 2).round()
    return (x.abs() if dtype == torch.uint8 else x).to(dtype).to(device)
