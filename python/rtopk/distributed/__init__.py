"""Top-k on torch.distributed."""

from .compression import CompressionStats, TopKState, topk_hook

__all__ = ["CompressionStats", "TopKState", "topk_hook"]
