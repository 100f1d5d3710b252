"""Which arrays are selected from in which way.

A call is a form, an array, and the arguments of top_k in their order: (k, axis, mode, sorted, nan, max_iter, epsilon,
rule, search, threads, index_dtype). No library is imported here but the one that the array comes from.
"""

import sys

from .._results import CBSR, TopK
from . import host

# As rtopk::Form numbers them.
PAIRS, DENSE, MASK, COMPACT = range(4)


def is_instance(a, module, name):
    """Whether `a` is of a class of a module. A module that was not imported has no instances."""
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and isinstance(a, found)


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
        return TopK(*result)
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
