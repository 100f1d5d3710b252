"""Loads the operators (torch.ops.rtopk), or says why they do not load."""

import re
from pathlib import Path

import torch

from ._build import facts, warn_of_slow_build

MIN_TORCH = (2, 10)
PATH = Path(__file__).with_name("librtopk_torch.so")


def _load() -> None:
    found = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    if found < MIN_TORCH:
        minimum = ".".join(map(str, MIN_TORCH))
        raise ImportError(f"rtopk needs torch {minimum} or later, and this is torch {torch.__version__}")
    if not PATH.exists():
        raise ImportError(
            f"rtopk's operators for PyTorch were left out when it was built ({PATH} is missing), because torch was not"
            " there yet; now that it is, install rtopk again from its sources: pip install --force-reinstall --no-deps"
            " --no-build-isolation . (rtopk.top_k takes any array, without them)"
        )
    try:
        torch.ops.load_library(PATH)
    except OSError as error:
        reason = error.__cause__ or error  # torch's own error names the file only; its cause has the loader's reason
        raise ImportError(f"rtopk's operators do not load: {reason}") from error


_load()


def build() -> dict[str, str]:
    """How the operators were built."""
    return facts(torch.ops.rtopk.build_text())


warn_of_slow_build(torch.ops.rtopk.build_text())
