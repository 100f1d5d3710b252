"""Training by sampled neighbourhoods: mini-batches of nodes, on one rank or, averaging gradients, on several."""

from .trainer import SampledTrainer

__all__ = ["SampledTrainer"]
