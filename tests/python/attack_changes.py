"""What attack.py does to arguments that were right."""

import torch

from attack_calls import SELECTABLE

DTYPES = (*SELECTABLE, torch.bool, torch.uint16, torch.complex64)
# Nothing between a million and 2^57: a result that large might be made, and take all memory.
NUMBERS = (
    -(2**63),
    -(2**31),
    -257,
    -2,
    -1,
    0,
    1,
    2,
    3,
    7,
    64,
    255,
    256,
    257,
    65535,
    65536,
    65537,
    2**57,
    2**62,
    2**63 - 1,
)
REALS = (-1.0, 0.0, 1e-30, 0.5, 1.0, 2.0, 1e300, float("inf"), float("nan"))
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError)


def other_shape(m, tensor):
    shape = list(tensor.shape)
    kind = m.random.randrange(5)
    if kind == 0 or not shape:
        shape = shape + [m.size(3)] if m.chance(0.5) else [m.size(3), *shape]
    elif kind == 1:
        del shape[m.random.randrange(len(shape))]
    elif kind == 2:
        dim = m.random.randrange(len(shape))
        shape[dim] = max(0, shape[dim] + m.pick((-2, -1, 1, 2, 40)))
    elif kind == 3:
        m.random.shuffle(shape)
    else:
        shape = [m.size(5) for _ in range(m.random.randint(0, 4))]
    return m.tensor(shape, tensor.dtype)


def other_dtype(m, tensor):
    return m.tensor(tensor.shape, m.pick(DTYPES))


def expanded(m, tensor):
    return tensor[:1].expand(tensor.shape) if tensor.dim() and len(tensor) else tensor.expand(3, *tensor.shape)


def overlapping(m, tensor):
    strides = [m.pick((0, 1, 1, 2)) for _ in tensor.shape]
    reach = sum(max(size - 1, 0) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    return m.memory(reach + 1, tensor.dtype).fill_(1).as_strided(tensor.shape, strides)


def stepped(m, tensor):
    dim = m.random.randrange(tensor.dim()) if tensor.dim() else None
    return tensor if dim is None else torch.cat([tensor, tensor], dim).unflatten(dim, (2, -1)).select(dim, 0)


def senseless(m, tensor):
    """Numbers that name nothing, where it has integers."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
        return tensor
    limits = torch.iinfo(tensor.dtype)
    numbers = torch.tensor([limits.min, limits.max, limits.max // 2, 0, 1, min(limits.max, 300)], dtype=torch.int64)
    drawn = numbers[torch.randint(len(numbers), tuple(tensor.shape))].to(tensor.dtype).to(tensor.device)
    keep = torch.rand(tuple(tensor.shape)).to(tensor.device) < m.random.random()
    mixed = torch.where(keep, tensor.to(torch.int64), drawn.to(torch.int64)).to(tensor.dtype)
    return m.tensor(tensor.shape, tensor.dtype, mixed)


def elsewhere(m, tensor):
    return tensor.to(m.pick(("meta", "cpu") if m.device == "cuda" else ("meta",)))


def layout(m, tensor):
    return m.pick((torch.Tensor.to_sparse, torch.Tensor.to_mkldnn, torch._neg_view))(tensor)


def missing(m, tensor):
    return None


def requiring_grad(m, tensor):
    return tensor.detach().requires_grad_() if tensor.is_floating_point() else tensor


TENSOR_CHANGES = (
    other_shape,
    other_shape,
    other_dtype,
    expanded,
    overlapping,
    stepped,
    senseless,
    senseless,
    elsewhere,
)
TENSOR_CHANGES += (layout, missing, requiring_grad)


def alias(m, tensor, others):
    """Its shape in the memory of another argument."""
    other = m.pick(others)
    if other.is_contiguous() and other.nbytes >= tensor.nbytes + 8:
        start = m.pick((0, 4, 8))
        return (
            other.detach()
            .view(-1)
            .view(torch.uint8)[start : start + tensor.nbytes]
            .view(tensor.dtype)
            .view(tensor.shape)
        )
    return other


def changed(m, arguments):
    """One of the arguments is made worse."""
    place = m.random.randrange(len(arguments))
    value = arguments[place]
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    if isinstance(value, torch.Tensor):
        try:
            value = alias(m, value, tensors) if m.chance(0.15) else m.pick(TENSOR_CHANGES)(m, value)
        except (*REFUSALS, AttributeError):
            pass  # what an earlier change made of it does not take this one
    elif isinstance(value, bool):
        value = not value
    elif isinstance(value, int):
        value = m.pick(NUMBERS) if m.chance(0.7) else value + m.pick((-1, 1))
    elif isinstance(value, float):
        value = m.pick(REALS)
    elif isinstance(value, torch.dtype):
        value = m.pick(DTYPES)
    elif value is None:
        value = m.tensor([m.size(5) for _ in range(m.random.randint(0, 2))], m.pick(DTYPES))
    arguments[place] = value


def cut_storage(m, arguments):
    """The elements of one tensor are no longer all there. Comes last: torch itself reads them in every change."""
    places = [place for place, each in enumerate(arguments) if isinstance(each, torch.Tensor) and has_elements(each)]
    if places:
        place = m.pick(places)
        arguments[place] = arguments[place].detach().clone()
        storage = arguments[place].untyped_storage()
        storage.resize_(m.random.randrange(storage.nbytes()))


def has_elements(tensor):
    return tensor.layout == torch.strided and tensor.numel() > 0 and not tensor.is_meta and not tensor.is_neg()
