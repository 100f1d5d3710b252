"""Selections past one device, on torch.distributed: rows whose columns are split over the ranks of a group.

:func:`topk`, :func:`maxk` and :func:`topk_mask` are those of the package for a tensor of which every rank has some of
the columns; :class:`MaxK` is the activation for such rows.
"""

from .modules import MaxK
from .shards import maxk, topk, topk_mask

__all__ = ["MaxK", "maxk", "topk", "topk_mask"]
