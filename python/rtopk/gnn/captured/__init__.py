"""Training steps on mini-batches as CUDA graphs: sizes rounded up, inputs that stay where they are, steps replayed."""

from .step import CapturedBatchStep

__all__ = ["CapturedBatchStep"]
