"""Tensors of PyTorch and arrays of JAX, which have functions of their own, with gradients."""

from .._results import CBSR, TopK, TopKThreshold
from .rows import given

_PAIRS, _DENSE, _MASK, _COMPACT = range(4)


def _refuse(what, name, value, accepted):
    raise NotImplementedError(f"{name} is {value!r}; accepted for {what}: {accepted}")


def of_torch(form, a, k, axis, mode, sorted, nan, max_iter, epsilon, rule, search, threads, index_dtype, rows=None):
    import torch

    from .._compact import compact
    from .._maxk import maxk, topk_mask
    from .._segments import topk_segments
    from .._topk import topk

    _check_text("mode", mode, ("largest", "smallest"))
    _check_text("nan", nan, ("first", "last"))
    if threads is not None:
        _refuse("a tensor of PyTorch", "threads", threads, "None; torch.set_num_threads() sets it")
    if a.dim() == 0:
        raise ValueError("a has 0 dimensions; accepted: 1 or more")
    some, largest = given(rows) if rows else {}, mode == "largest"
    pairs = {"sorted": sorted, "index_dtype": _torch_dtype(torch, index_dtype)}
    if "offsets" in some:
        return _named(topk_segments(a, k=k, largest=largest, **pairs, **some))
    options = {"max_iter": max_iter, "rule": rule, "epsilon": epsilon, "search": search, **some}
    turned = nan == "last" and largest and a.is_floating_point()
    if turned:  # NaN is greater than every number: with all signs changed, the smallest have it last
        whole, a = a, -a
    options["largest"] = largest and not turned
    if form == _MASK:
        return topk_mask(a, k, axis, **options)
    if form == _DENSE:
        return torch.where(topk_mask(a, k, axis, **options), whole, 0) if turned else maxk(a, k, axis, **options)
    if form == _COMPACT:
        values, places = (each.movedim(-1, axis) for each in compact(a.movedim(axis, -1), k, **options))
        return CBSR(-values if turned else values, places)
    values, *others = topk(a, k, axis, **pairs, **options)
    return _named((-values if turned else values, *others))


def _named(results):
    return (TopK if len(results) == 2 else TopKThreshold)(*results)


def _check_text(name, value, accepted):
    if value not in accepted:
        raise ValueError(f"{name} is {value!r}; accepted: {' or '.join(map(repr, accepted))}")


def _torch_dtype(torch, dtype):
    if dtype is None:
        return torch.int64
    if isinstance(dtype, torch.dtype):
        return dtype
    name = _name_of(dtype)
    if name not in ("int64", "int32"):
        raise ValueError(f"index_dtype is {dtype!r}; accepted: 'int64' or 'int32', or a dtype of these names")
    return getattr(torch, name)


def _name_of(dtype):
    return dtype if isinstance(dtype, str) else getattr(dtype, "name", getattr(dtype, "__name__", None))


def of_jax(form, a, k, axis, mode, sorted, nan, max_iter, epsilon, rule, search, threads, index_dtype, rows=None):
    import jax.numpy as jnp

    from ..jax import maxk, top_k, top_k_mask, top_k_segments

    _check_text("mode", mode, ("largest", "smallest"))
    _check_text("nan", nan, ("first", "last"))
    if threads is not None:
        _refuse("an array of JAX", "threads", threads, "None; the library's own threads select")
    if index_dtype is not None and _name_of(index_dtype) != "int32":
        _refuse("an array of JAX", "index_dtype", index_dtype, "None or 'int32'")
    some = given(rows) if rows else {}
    if "offsets" in some:
        return _named(top_k_segments(a, k=k, mode=mode, sorted=sorted, **some))
    options = {"axis": axis, "max_iter": max_iter, "epsilon": epsilon, "rule": rule, "search": search, **some}
    turned = nan == "last" and mode == "largest" and jnp.issubdtype(a.dtype, jnp.floating)
    whole, a = a, -a if turned else a  # as of tensors
    options["mode"] = "smallest" if turned else mode
    if form == _MASK:
        return top_k_mask(a, k, **options)
    if form == _DENSE:
        return jnp.where(top_k_mask(a, k, **options), whole, 0) if turned else maxk(a, k, **options)
    values, *others = top_k(a, k, sorted=sorted and form == _PAIRS, **options)
    if turned:
        values = -values
    return CBSR(values, _selectors(*others, a.shape[axis], axis)) if form == _COMPACT else _named((values, *others))


def _selectors(places, length, axis):
    if length > 65536:
        raise ValueError(f"axis {axis} has length {length}; accepted for compact results: at most 65536")
    return places.astype("uint8" if length <= 256 else "uint16")
