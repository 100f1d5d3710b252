"""What this installation of rtopk consists of, and which hardware it can use."""

import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import TypedDict

from ._build import GET_CUDA, SCALAR, facts
from ._version import __version__

_FOLDER = Path(__file__).parent
_PACKAGES = ("rtopk", "rtopk-cu13")


class Info(TypedDict):
    """What :func:`info` returns."""

    version: str
    package: str  # what pip has installed; where that is both packages, also what to do about it
    arrays: str  # "usable", or the reason why rtopk.top_k is not
    operators: str  # "usable", or the reason why the operators for PyTorch are not
    torch: str | None  # its version; None where it is not installed
    torch_cuda: str | None  # the CUDA that torch was built for
    jax_calls: str  # "usable", "loaded by rtopk.jax", or the reason why the calls for JAX are not usable
    jax: str | None  # its version; None where it is not installed
    cuda_built: bool
    cuda_architectures: list[str]  # the GPUs that this build has code for, as in CMAKE_CUDA_ARCHITECTURES
    cuda: str  # "usable", or the reason why it is not
    gpus: list[str]
    highway: bool
    cpu: str  # what runs in host memory; for a slow build, also why it is slow
    cpu_target: str  # the instruction set used on this machine
    cpu_targets: list[str]


def _part(name):
    """A module with a compiled part, and why it cannot be used."""
    try:
        return import_module(f".{name}", __package__), "usable"
    except ImportError as error:
        return None, str(error)


def _torch():
    try:
        return import_module("torch")
    except ImportError:
        return None


def _package(folder):
    """Which of the two packages pip has put into a folder. They have the same files."""
    found = [
        f"{name} {each.version}" for name in _PACKAGES for each in metadata.distributions(name=name, path=[str(folder)])
    ]
    if len(found) > 1:
        return (
            f"{' and '.join(found)} are both installed, and have the same files: pip uninstall {' '.join(_PACKAGES)},"
            " then install one of them"
        )
    return found[0] if found else "not installed by pip"


def _jax():
    """Its version. It is not imported: it takes a second, and starts threads, which a fork does not take along."""
    try:
        return metadata.version("jax")
    except metadata.PackageNotFoundError:
        return None


def _jax_calls(jax):
    if "jax" in sys.modules:
        return _part("jax")[1]
    if not (_FOLDER / "librtopk_jax.so").exists():
        return "rtopk was built without JAX"
    return "jax is not installed" if jax is None else "loaded by rtopk.jax"


def _cuda_of_torch(built, torch):
    if built and torch.version.cuda is None:
        return "rtopk was built with CUDA, and this torch has none: CPU tensors only"
    if not built and torch.version.cuda is not None:
        return f"this torch has CUDA, and rtopk was built without: CPU tensors only; {GET_CUDA}"
    if not built:
        return "neither rtopk nor this torch has CUDA: CPU tensors only"
    return "usable" if torch.cuda.is_available() else "rtopk and this torch have CUDA, and there is no usable GPU"


def _cuda_of_arrays(built, native):
    """By the driver's word, and by whether there is code for the GPU."""
    if not built:
        return f"rtopk was built without CUDA: arrays in host memory only; {GET_CUDA}"
    try:
        native.compute_capability(0)
    except (NotImplementedError, RuntimeError, ValueError) as error:
        return str(error)
    return "usable"


def _gpus_of_arrays(native):
    found = []
    while True:
        try:
            capability = native.compute_capability(len(found))
        except ValueError:  # there are no more
            return found
        except (NotImplementedError, RuntimeError) as error:
            if "compute capability" not in str(error):
                return found
            found.append(f"cuda:{len(found)}: {error}")
            continue
        found.append(f"cuda:{len(found)} with compute capability {capability // 10}.{capability % 10}")


def info() -> Info:
    """What this installation of rtopk consists of, and which hardware it can use. :class:`Info` lists the fields.

    >>> import rtopk
    >>> sorted(rtopk.info())[:6]
    ['arrays', 'cpu', 'cpu_target', 'cpu_targets', 'cuda', 'cuda_architectures']
    """
    native, arrays = _part("_native")
    library, operators = _part("_library")
    torch, jax = _torch(), _jax()
    if library is not None:
        build = library.build()
    elif native is not None:
        build = facts(native.build_text())
    else:
        raise ImportError(f"rtopk has no compiled part that works. For arrays: {arrays}. For PyTorch: {operators}")
    built = build["cuda"] == "1"
    highway = build["highway"] == "1"
    if library is not None:
        cuda = _cuda_of_torch(built, torch)
        usable = built and torch.cuda.is_available()
        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if usable else []
    else:
        cuda, gpus = _cuda_of_arrays(built, native), _gpus_of_arrays(native) if built else []
    if native is not None and gpus and (reason := _cuda_of_arrays(built, native)) != "usable":
        cuda = reason  # there is a GPU, and no code for it
    return {
        "version": __version__,
        "package": _package(_FOLDER.parent),
        "arrays": arrays,
        "operators": operators,
        "torch": torch and torch.__version__,
        "torch_cuda": torch and torch.version.cuda,
        "jax_calls": _jax_calls(jax),
        "jax": jax,
        "cuda_built": built,
        "cuda_architectures": build["cuda_architectures"].split(),
        "cuda": cuda,
        "gpus": gpus,
        "highway": highway,
        "cpu": f"{build['cpu_target']}, with Highway" if highway else f"scalar: {SCALAR}",
        "cpu_target": build["cpu_target"],
        "cpu_targets": build["cpu_targets"].split(),
    }
