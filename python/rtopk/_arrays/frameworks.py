"""Tensors of PyTorch and arrays of JAX, which have functions of their own, with gradients."""

from .._results import CBSR, TopK

_PAIRS, _DENSE, _MASK, _COMPACT = range(4)


def _refuse(what, name, value, accepted):
    raise NotImplementedError(f"{name} is {value!r}; accepted for {what}: {accepted}")


def of_torch(form, a, k, axis, mode, sorted, nan, max_iter, epsilon, rule, search, threads, index_dtype):
    import torch

    from .._compact import compact
    from .._maxk import maxk, topk_mask
    from .._topk import topk

    _check_text("mode", mode, ("largest", "smallest"))
    _check_text("nan", nan, ("first", "last"))
    if search != "fast":
        _refuse("a tensor of PyTorch", "search", search, "'fast'")
    if threads is not None:
        _refuse("a tensor of PyTorch", "threads", threads, "None; torch.set_num_threads() sets it")
    if a.dim() == 0:
        raise ValueError("a has 0 dimensions; accepted: 1 or more")
    options = {"max_iter": max_iter, "rule": rule, "epsilon": epsilon}
    turned = nan == "last" and mode == "largest" and a.is_floating_point()
    if turned:  # NaN is greater than every number: with all signs changed, the smallest have it last
        whole, a = a, -a
    options["largest"] = mode == "largest" and not turned
    if form == _MASK:
        return topk_mask(a, k, axis, **options)
    if form == _DENSE:
        return torch.where(topk_mask(a, k, axis, **options), whole, 0) if turned else maxk(a, k, axis, **options)
    if form == _COMPACT:
        values, places = (each.movedim(-1, axis) for each in compact(a.movedim(axis, -1), k, **options))
        return CBSR(-values if turned else values, places)
    values, places = topk(a, k, axis, sorted=sorted, index_dtype=_torch_dtype(torch, index_dtype), **options)
    return TopK(-values if turned else values, places)


def _check_text(name, value, accepted):
    if value not in accepted:
        raise ValueError(f"{name} is {value!r}; accepted: {' or '.join(map(repr, accepted))}")


def _torch_dtype(torch, dtype):
    if dtype is None:
        return torch.int64
    if isinstance(dtype, torch.dtype):
        return dtype
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", getattr(dtype, "__name__", None))
    if name not in ("int64", "int32"):
        raise ValueError(f"index_dtype is {dtype!r}; accepted: 'int64' or 'int32', or a dtype of these names")
    return getattr(torch, name)


def of_jax(form, a, k, axis, *options):
    from ..jax import top_k

    names = ("mode", "nan", "max_iter", "epsilon", "rule", "search", "threads", "index_dtype")
    usual = ("largest", "first", None, 0.0, "threshold_first", "fast", None, None)
    for name, value, only in zip(names, (options[0], *options[2:]), usual, strict=True):
        if value != only:
            _refuse("an array of JAX", name, value, repr(only))
    if form != _PAIRS:
        raise NotImplementedError(
            "a is an array of JAX; accepted for it: rtopk.top_k, whose indices give the other forms"
        )
    return TopK(*top_k(a, k, axis=axis))
