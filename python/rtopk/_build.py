"""How the compiled parts of this package were built."""

import sys
import warnings

SCALAR = (
    "rtopk was built without Highway: in host memory it is slower than torch.topk, and accelerate() leaves CPU tensors"
    " to torch; to change that, install Highway (Debian, Ubuntu: libhwy-dev), then rtopk again"
)
#: To install rtopk again would give the package without CUDA again.
GET_CUDA = (
    "for GPUs take the package that has it (pip uninstall rtopk; pip install rtopk-cu13), or build rtopk from its"
    " sources where nvcc is found (pip install --force-reinstall --no-deps .)"
)
_warned = False


def facts(text: str) -> dict[str, str]:
    """What a compiled part says of its build: version, cuda, cuda_architectures, highway, cpu_target, cpu_targets."""
    return dict(line.split("=", 1) for line in text.splitlines())


def warn_of_slow_build(text: str) -> None:
    """Once in a process, at the line of the caller that used rtopk first."""
    global _warned
    if _warned or facts(text)["highway"] == "1":
        return
    _warned = True
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].split(".")[0] in ("rtopk", "importlib"):
        # warnings does not count the frames of the import system.
        if "importlib._bootstrap" not in frame.f_code.co_filename:
            level += 1
        frame = frame.f_back
    warnings.warn(SCALAR, stacklevel=level)
