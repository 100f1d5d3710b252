"""The primitive that every function of rtopk.jax is made of: one selection by the library.

Its operand is of a type that the library selects from, with at least one dimension, and selected along any of them.
Behind it come the arrays that describe general rows, which are those along the last dimension: `names` says which.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir, xla
from jax.sharding import NamedSharding, PartitionSpec

from .._build import GET_CUDA
from .._rules import RULES, SEARCHES
from ._library import CAPTURABLE_TARGET, HAS_CUDA, TARGET, Attributes, workspace_bytes

# In the order of the library's enumerators.
DTYPES = tuple(map(jax.numpy.dtype, ("float32", "float16", "bfloat16", "float64", "int32")))
FORMS = ("pairs", "dense", "mask")
MODES = ("largest", "smallest")
# The arrays that describe rows, in the order of the operands, and their types.
ROWS = ("lengths", "starts", "offsets", "row_k")
INTEGERS = (None, np.dtype("int32"), np.dtype("int64"))


class Options(NamedTuple):
    """What to select, beside k and the axis. Hashable: it is a static argument of compiled functions."""

    mode: str = "largest"
    sorted: bool = True
    max_iter: int = 0
    rule: str = "threshold_first"
    epsilon: float = 0.0
    search: str = "fast"
    magnitude: bool = False
    threshold: bool = False
    max_length: int = 0


select_p = Primitive("rtopk_select")
select_p.multiple_results = True
select_p.def_impl(partial(xla.apply_primitive, select_p))


def pairs(operand: jax.Array, rows: dict, k: int, axis: int, options: Options) -> list[jax.Array]:
    """k values and their indices, and the kth value of each row if the options ask for it. `rows`: the arrays of
    general rows by their names."""
    return _select("pairs", operand, rows, k, axis, options)


def dense(operand: jax.Array, rows: dict, k: int, axis: int, options: Options) -> jax.Array:
    """The operand with everything that is not selected set to zero."""
    return _select("dense", operand, rows, k, axis, options._replace(sorted=False))[0]


def mask(operand: jax.Array, rows: dict, k: int, axis: int, options: Options) -> jax.Array:
    """True where an element is selected."""
    return _select("mask", operand, rows, k, axis, options._replace(sorted=False))[0]


def _select(form, operand, rows, k, axis, options):
    names = tuple(name for name in ROWS if name in rows)
    arrays = (rows[name] for name in names)
    return select_p.bind(operand, *arrays, form=form, k=k, axis=axis, options=options, names=names)


@select_p.def_abstract_eval
def _abstract(operand, *arrays, form, k, axis, options, names):
    sharding = getattr(operand, "sharding", None)
    spec = getattr(sharding, "spec", None)
    if spec and spec[axis] is not None:
        raise ValueError(
            f"the operand is split over devices along axis {axis}, which is selected along: {operand}; accepted: an"
            " operand that is whole along this axis (jax.sharding.reshard)"
        )
    if form != "pairs":
        return [operand.update(weak_type=False) if form == "dense" else operand.update(dtype=np.dtype(bool))]
    shape = operand.shape
    if "offsets" in names:
        rows = (arrays[names.index("offsets")].shape[0] - 1,)
        values, thresholds = _with_shape(operand, (*rows, k), (None, None)), _with_shape(operand, rows, (None,))
    else:
        rest = [(*each[:axis], *each[axis + 1 :]) for each in (shape, tuple(spec or ()))]
        values = operand.update(shape=(*shape[:axis], k, *shape[axis + 1 :]))
        thresholds = _with_shape(operand, *rest)
    results = [values, values.update(dtype=np.dtype(np.int32))]
    return [*results, thresholds] if options.threshold else results


def _with_shape(aval, shape, spec):
    """The same with another number of dimensions. `spec`: how they are split, where that is a part of types."""
    if getattr(aval, "sharding", None) is None:
        return aval.update(shape=shape)
    return aval.update(shape=shape, sharding=NamedSharding(aval.sharding.mesh, PartitionSpec(*spec)))


def _batch(operands, dimensions, *, form, k, axis, options, names):
    call = partial(select_p.bind, form=form, k=k, options=options, names=names)
    if not names:
        (dimension,) = dimensions
        axis += dimension <= axis
        results = call(*operands, axis=axis)
        # A threshold has no axis.
        return results, [dimension, dimension, dimension - (dimension > axis)][: len(results)]
    batched = list(zip(operands, dimensions, strict=True))
    size = next(each.shape[dimension] for each, dimension in batched if dimension is not None)
    operands = [_with_first(*each, size) for each in batched]
    if "offsets" in names:  # segments of one operand are not those of the next: one call for each
        results = jax.lax.map(lambda each: call(*each, axis=axis), operands)
    else:
        results = call(*operands, axis=axis + 1)
    return results, [0] * len(results)


def _with_first(array, dimension, size):
    """The array with the dimension of a batch first, of which it may have none."""
    if dimension is None:
        return jax.numpy.broadcast_to(array, (size, *array.shape))
    return jax.numpy.moveaxis(array, dimension, 0)


batching.primitive_batchers[select_p] = _batch


# ---- Compiled calls ----


def _attributes(avals, form, k, axis, options: Options, names) -> Attributes:
    aval, *arrays = avals
    types = {name: INTEGERS.index(array.dtype) for name, array in zip(names, arrays, strict=True)}
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
        max_length=options.max_length,
        magnitude=int(options.magnitude),
        thresholds=int(options.threshold),
        **types,
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
    (operand, *arrays), results = ctx.avals_in, ctx.avals_out
    rows = [f"r{number}" for number in range(len(operand.shape) - 1)]
    names = [[*rows, "elements"]] + [rows] * len(arrays)
    inputs = len(names)
    sizes = dict(zip(names[0], operand.shape, strict=True))
    for number, result in enumerate(results):
        has_axis = len(result.shape) == len(operand.shape)
        names.append([*rows, f"results{number}"] if has_axis else rows)
        sizes |= {f"results{number}": result.shape[-1]} if has_axis else {}
    # Shardy's text form calls factors by letters, in the order of their sizes.
    letters = {name: _letter(number) for number, name in enumerate(sizes)}
    mappings = [f"[{', '.join(letters[part] for part in name)}]" for name in names]
    listed = ", ".join(f"{letters[name]}={size}" for name, size in sizes.items())
    before, after = ", ".join(mappings[:inputs]), ", ".join(mappings[inputs:])
    text = f"#sdy.op_sharding_rule<({before})->({after}) {{{listed}}}, custom>"
    return mlir.ir.Attribute.parse(text)


def _letter(number: int) -> str:
    """Shardy's name for a factor: i to z, then z_1, z_2 and so on."""
    return chr(ord("i") + number) if number < 18 else f"z_{number - 17}"


def _partitioning(ctx, attributes) -> dict | None:
    """What lets XLA split the call along dimensions before the last."""
    if _on_one_device(ctx) or attributes.offsets or not all(map(_is_static, (*ctx.avals_in, *ctx.avals_out))):
        return None
    rows = len(ctx.avals_in[0].shape) - 1
    return {
        "mhlo.frontend_attributes": mlir.ir.DictAttr.get({"num_batch_dims": mlir.ir.StringAttr.get(str(rows))}),
        "sdy.sharding_rule": _sharding_rule(ctx),
    }


def _call(ctx, operands, target, attributes, axis):
    """The call of a handler. In memory, the dimension that is selected along comes last in the results."""

    def layout(aval):
        dimensions = len(aval.shape)
        if dimensions == len(ctx.avals_in[0].shape):
            return (axis, *(i for i in reversed(range(dimensions)) if i != axis))
        return tuple(reversed(range(dimensions)))  # thresholds, segments, the workspace

    lowering = jax.ffi.ffi_lowering(
        target, result_layouts=[layout(aval) for aval in ctx.avals_out], extra_attributes=_partitioning(ctx, attributes)
    )
    return lowering(ctx, *operands, **_as_keywords(attributes))


def _lower(ctx, *operands, form, k, axis, options, names, platform):
    aval = ctx.avals_in[0]
    last = len(aval.shape) - 1
    if axis != last and not _on_one_device(ctx):
        along_last = partial(_along_last, form=form, k=k, axis=axis, options=options, names=names)
        return mlir.lower_fun(along_last)(ctx, *operands)
    attributes = _attributes(ctx.avals_in, form, k, axis, options, names)
    if platform == "cpu":
        return _call(ctx, operands, TARGET, attributes, axis)
    exported = ctx.module_context.lowering_parameters.for_export
    if not HAS_CUDA and not exported:
        raise NotImplementedError(
            "the array is on a GPU, and this rtopk was built without CUDA; bring the array to the CPU"
            f" (jax.device_put), or {GET_CUDA}"
        )
    workspace = None
    if HAS_CUDA and not exported and all(map(_is_static, ctx.avals_in)) and _on_one_device(ctx):
        segments = ctx.avals_out[0].shape[0] if "offsets" in names else -1
        workspace = workspace_bytes(attributes, DTYPES.index(aval.dtype), aval.shape, segments)
    if workspace is None:
        return _call(ctx, operands, TARGET, attributes, axis)
    planned = ctx.replace(avals_out=[*ctx.avals_out, jax.core.ShapedArray((workspace,), np.uint8)])
    return _call(planned, operands, CAPTURABLE_TARGET, attributes, axis)[:-1]


def _along_last(operand, *, form, k, axis, options, names):
    """The selection with rows that XLA can split: the call of a handler is split along dimensions before the last."""
    moved = jax.numpy.moveaxis(operand, axis, -1)
    results = select_p.bind(moved, form=form, k=k, axis=operand.ndim - 1, options=options, names=names)
    # A threshold has no axis.
    return [each if each.ndim < operand.ndim else jax.numpy.moveaxis(each, -1, axis) for each in results]


def _refuse_platform(ctx, *operands, **_):
    platforms = ", ".join(ctx.module_context.platforms)
    raise NotImplementedError(f"rtopk.jax runs on CPUs and NVIDIA GPUs, and this is compiled for {platforms}")


mlir.register_lowering(select_p, _refuse_platform)
mlir.register_lowering(select_p, partial(_lower, platform="cpu"), platform="cpu")
mlir.register_lowering(select_p, partial(_lower, platform="cuda"), platform="cuda")
