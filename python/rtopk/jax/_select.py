"""The primitive that every function of rtopk.jax is made of: one selection by the library.

Its operand is of a type that the library selects from, with at least one dimension, and selected along any of them.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir, xla

from .._build import GET_CUDA
from .._rules import RULES, SEARCHES
from ._library import CAPTURABLE_TARGET, HAS_CUDA, TARGET, Attributes, workspace_bytes

# In the order of the library's enumerators.
DTYPES = tuple(map(jax.numpy.dtype, ("float32", "float16", "bfloat16", "float64", "int32")))
FORMS = ("pairs", "dense", "mask")
MODES = ("largest", "smallest")


class Options(NamedTuple):
    """What to select, beside k and the axis. Hashable: it is a static argument of compiled functions."""

    mode: str = "largest"
    sorted: bool = True
    max_iter: int = 0
    rule: str = "threshold_first"
    epsilon: float = 0.0
    search: str = "fast"


select_p = Primitive("rtopk_select")
select_p.multiple_results = True
select_p.def_impl(partial(xla.apply_primitive, select_p))


def pairs(operand: jax.Array, k: int, axis: int, options: Options) -> list[jax.Array]:
    """k values and their indices."""
    return select_p.bind(operand, form="pairs", k=k, axis=axis, options=options)


def dense(operand: jax.Array, k: int, axis: int, options: Options) -> jax.Array:
    """The operand with everything that is not selected set to zero."""
    return select_p.bind(operand, form="dense", k=k, axis=axis, options=options._replace(sorted=False))[0]


def mask(operand: jax.Array, k: int, axis: int, options: Options) -> jax.Array:
    """True where an element is selected."""
    return select_p.bind(operand, form="mask", k=k, axis=axis, options=options._replace(sorted=False))[0]


@select_p.def_abstract_eval
def _abstract(operand, *, form, k, axis, options):
    sharding = getattr(operand, "sharding", None)
    if sharding is not None and sharding.spec and sharding.spec[axis] is not None:
        raise ValueError(
            f"the operand is split over devices along axis {axis}, which is selected along: {operand}; accepted: an"
            " operand that is whole along this axis (jax.sharding.reshard)"
        )
    shape = list(operand.shape)
    if form != "pairs":
        return [operand.update(weak_type=False) if form == "dense" else operand.update(dtype=np.dtype(bool))]
    shape[axis] = k
    return [operand.update(shape=tuple(shape)), operand.update(shape=tuple(shape), dtype=np.dtype(np.int32))]


def _batch(operands, dimensions, *, form, k, axis, options):
    (operand,), (dimension,) = operands, dimensions
    axis += dimension <= axis
    results = select_p.bind(operand, form=form, k=k, axis=axis, options=options)
    return results, [dimension] * len(results)


batching.primitive_batchers[select_p] = _batch


# ---- Compiled calls ----


def _attributes(aval, form, k, axis, options: Options) -> Attributes:
    by_value = form == "pairs" and options.sorted
    return Attributes(
        form=FORMS.index(form),
        k=k,
        inner=len(aval.shape) - 1 - axis,
        direction=MODES.index(options.mode),
        order=int(by_value),
        max_iter=options.max_iter,
        rule=RULES.index(options.rule),
        epsilon=options.epsilon,
        search=SEARCHES.index(options.search),
    )


def _as_keywords(attributes: Attributes) -> dict:
    return {
        name: np.float64(getattr(attributes, name))
        if kind.__name__ == "c_double"
        else np.int64(getattr(attributes, name))
        for name, kind in attributes._fields_
    }


def _is_static(aval) -> bool:
    return all(isinstance(size, int) for size in aval.shape)


def _on_one_device(ctx) -> bool:
    return getattr(ctx.module_context.axis_context, "num_devices", None) == 1


def _sharding_rule(ctx) -> mlir.ir.Attribute:
    """For Shardy: dimensions before the last one may be split, and results are split in the same way."""
    (operand,), results = ctx.avals_in, ctx.avals_out
    rows = [f"r{number}" for number in range(len(operand.shape) - 1)]
    names = [[*rows, "elements"]] + [[*rows, f"results{number}"] for number in range(len(results))]
    sizes = dict(zip(names[0], operand.shape, strict=True))
    sizes |= {name[-1]: result.shape[-1] for name, result in zip(names[1:], results, strict=True)}
    # Shardy's text form calls factors by letters, in the order of their sizes.
    letters = {name: _letter(number) for number, name in enumerate(sizes)}
    mappings = [f"[{', '.join(letters[part] for part in name)}]" for name in names]
    listed = ", ".join(f"{letters[name]}={size}" for name, size in sizes.items())
    text = f"#sdy.op_sharding_rule<({mappings[0]})->({', '.join(mappings[1:])}) {{{listed}}}, custom>"
    return mlir.ir.Attribute.parse(text)


def _letter(number: int) -> str:
    """Shardy's name for a factor: i to z, then z_1, z_2 and so on."""
    return chr(ord("i") + number) if number < 18 else f"z_{number - 17}"


def _partitioning(ctx) -> dict | None:
    """What lets XLA split the call along dimensions before the last."""
    if _on_one_device(ctx) or not all(map(_is_static, (*ctx.avals_in, *ctx.avals_out))):
        return None
    rows = len(ctx.avals_in[0].shape) - 1
    return {
        "mhlo.frontend_attributes": mlir.ir.DictAttr.get({"num_batch_dims": mlir.ir.StringAttr.get(str(rows))}),
        "sdy.sharding_rule": _sharding_rule(ctx),
    }


def _call(ctx, operand, target, attributes, axis):
    """The call of a handler. In memory, the dimension that is selected along comes last in the results."""

    def layout(aval):
        dimensions = len(aval.shape)
        if dimensions == len(ctx.avals_in[0].shape):
            return (axis, *(i for i in reversed(range(dimensions)) if i != axis))
        return tuple(reversed(range(dimensions)))  # the workspace

    lowering = jax.ffi.ffi_lowering(
        target, result_layouts=[layout(aval) for aval in ctx.avals_out], extra_attributes=_partitioning(ctx)
    )
    return lowering(ctx, operand, **_as_keywords(attributes))


def _lower(ctx, operand, *, form, k, axis, options, platform):
    (aval,) = ctx.avals_in
    last = len(aval.shape) - 1
    if axis != last and not _on_one_device(ctx):
        return mlir.lower_fun(partial(_along_last, form=form, k=k, axis=axis, options=options))(ctx, operand)
    attributes = _attributes(aval, form, k, axis, options)
    if platform == "cpu":
        return _call(ctx, operand, TARGET, attributes, axis)
    exported = ctx.module_context.lowering_parameters.for_export
    if not HAS_CUDA and not exported:
        raise NotImplementedError(
            "the array is on a GPU, and this rtopk was built without CUDA; bring the array to the CPU"
            f" (jax.device_put), or {GET_CUDA}"
        )
    workspace = None
    if HAS_CUDA and not exported and _is_static(aval) and _on_one_device(ctx):
        workspace = workspace_bytes(attributes, DTYPES.index(aval.dtype), aval.shape)
    if workspace is None:
        return _call(ctx, operand, TARGET, attributes, axis)
    planned = ctx.replace(avals_out=[*ctx.avals_out, jax.core.ShapedArray((workspace,), np.uint8)])
    return _call(planned, operand, CAPTURABLE_TARGET, attributes, axis)[:-1]


def _along_last(operand, *, form, k, axis, options):
    """The selection with rows that XLA can split: the call of a handler is split along dimensions before the last."""
    moved = jax.numpy.moveaxis(operand, axis, -1)
    results = select_p.bind(moved, form=form, k=k, axis=operand.ndim - 1, options=options)
    return [jax.numpy.moveaxis(result, -1, axis) for result in results]


def _refuse_platform(ctx, operand, **_):
    platforms = ", ".join(ctx.module_context.platforms)
    raise NotImplementedError(f"rtopk.jax runs on CPUs and NVIDIA GPUs, and this is compiled for {platforms}")


mlir.register_lowering(select_p, _refuse_platform)
mlir.register_lowering(select_p, partial(_lower, platform="cpu"), platform="cpu")
mlir.register_lowering(select_p, partial(_lower, platform="cuda"), platform="cuda")
