"""Which arrays are selected from in which way.

A call is a form, an array, and the arguments of top_k in their order: (k, axis, mode, sorted, nan, max_iter, epsilon,
rule, search, threads, index_dtype), behind which there may be Rows. No library is imported here but the one that the
array comes from.
"""

import sys

from .._results import CBSR, TopK, TopKThreshold
from . import host
from .rows import OF_FORM, Rows, given

# As rtopk::Form numbers them.
PAIRS, DENSE, MASK, COMPACT = range(4)


def is_instance(a, module, name):
    """Whether `a` is of a class of a module. A module that was not imported has no instances."""
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and isinstance(a, found)


def select_rows(form, a, options, rows):
    """One selection, with arguments for general rows by their names."""
    for name in rows:
        if name not in OF_FORM[form]:
            function = ("top_k", "top_k_dense", "top_k_mask", "top_k_compact")[form]
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    return select_general(form, a, options, Rows(**rows))


def select_general(form, a, options, rows):
    """One selection with arguments for general rows, some of which may be given."""
    some = given(rows)
    mode, nan = options[2], options[4]
    if nan == "last" and mode == "largest" and some.keys() - {"ids"}:
        raise ValueError(f"nan is 'last'; accepted with {' and '.join(some)}: 'first', or mode 'smallest'")
    return select(form, a, (*options, rows) if some else options)


def select(form, a, options):
    """One selection, from any array."""
    if is_instance(a, "torch", "Tensor"):
        from . import frameworks

        return frameworks.of_torch(form, a, *options)
    if is_instance(a, "jax", "Array"):
        from . import frameworks

        return frameworks.of_jax(form, a, *options)
    result = _of_array(form, a, options)
    if form == PAIRS:
        return (TopK if len(result) == 2 else TopKThreshold)(*result)
    return CBSR(*result) if form == COMPACT else result


def _of_array(form, a, options):
    if is_instance(a, "numpy", "ndarray"):
        return host.of_numpy_kind(a, form, options)
    if is_instance(a, "cupy", "ndarray"):
        from . import device

        return device.of_cupy(form, a, options)
    if hasattr(a, "__dlpack__") and hasattr(a, "__dlpack_device__"):
        kind, _ = a.__dlpack_device__()
        if kind in host.DLPACK_DEVICES:
            return host.of_dlpack_producer(a, form, options)
        from . import device

        return device.of_dlpack_producer(form, a, kind, options)
    return host.of_numpy_kind(host.as_array(a), form, options)
