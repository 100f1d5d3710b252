"""Past one device, on torch.distributed.

:func:`topk`, :func:`maxk` and :func:`topk_mask` are those of the package for a tensor of which every rank has some of
the columns; :class:`MaxK` is the activation for such rows. :func:`topk_hook` with its :class:`TopKState` lets
DistributedDataParallel send the largest gradients alone.
"""

from .compression import CompressionStats, TopKState, topk_hook
from .modules import MaxK
from .shards import maxk, topk, topk_mask

__all__ = ["CompressionStats", "MaxK", "TopKState", "maxk", "topk", "topk_hook", "topk_mask"]
