"""Full-batch training of one network, with checkpoints from which it continues bit for bit."""

from .checkpoint import CHECKPOINT
from .files import BEST, RESULT, save_run
from .loop import Interruption, train
from .session import begin, status_of
from .trainer import Trainer, environment, find_device, score

__all__ = [
    "BEST",
    "CHECKPOINT",
    "RESULT",
    "Interruption",
    "Trainer",
    "begin",
    "environment",
    "find_device",
    "save_run",
    "score",
    "status_of",
    "train",
]
