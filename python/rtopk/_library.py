"""Loads the operators (torch.ops.rtopk) and says in plain words why where it cannot."""

import re
from pathlib import Path

import torch

OLDEST_TORCH = (2, 10)
PATH = Path(__file__).with_name("librtopk_torch.so")


def _load() -> None:
    found = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    if found < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise ImportError(f"rtopk needs torch {oldest} or later, and this is torch {torch.__version__}")
    if not PATH.exists():
        raise ImportError(f"rtopk is not built: {PATH} is missing; `pip install .` in its sources builds it")
    try:
        torch.ops.load_library(PATH)
    except OSError as error:
        reason = error.__cause__ or error  # torch names the file, the loader says why
        raise ImportError(f"rtopk's operators do not load: {reason}") from error


_load()


def build() -> dict[str, str]:
    """What the operators say of themselves: version, cuda, highway, cpu_target, cpu_targets."""
    return dict(line.split("=", 1) for line in torch.ops.rtopk.build_text().splitlines())
