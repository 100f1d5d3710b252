"""rtopk inside of JAX: the same selection under ``jax.jit``, ``vmap``, ``grad`` and ``shard_map``, on CPUs and GPUs.

>>> import jax.numpy as jnp, rtopk.jax
>>> x = jnp.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
>>> values, indices = rtopk.jax.top_k(x, 2)
>>> indices
Array([[0, 2],
       [1, 2]], dtype=int32)

:func:`top_k` stands for ``jax.lax.top_k``, :func:`approx_max_k` and :func:`approx_min_k` for the functions of those
names in ``jax.lax``; :func:`maxk` is the MaxK activation, and :func:`top_k_mask` says where it keeps an element;
:func:`top_k_segments` selects from segments of a flat array.
"""

from . import _library  # noqa: F401  # first: it says what is missing
from ._approx import approx_max_k, approx_min_k
from ._maxk import maxk, top_k_mask
from ._rows import top_k_segments
from ._topk import top_k

__all__ = ["approx_max_k", "approx_min_k", "maxk", "top_k", "top_k_mask", "top_k_segments"]
