"""Loads the handlers (librtopk_jax.so) and registers them with JAX, or says why that cannot be done."""

import ctypes
import re
from pathlib import Path

try:
    import jax
    import jax.ffi
except ImportError as error:
    raise ImportError(f"rtopk.jax needs JAX (pip install jax), and it does not load: {error}") from error

MIN_JAX = (0, 6)
PATH = Path(__file__).parent.with_name("librtopk_jax.so")

# The names of the calls in compiled and exported programs.
TARGET = "rtopk_select"
CAPTURABLE_TARGET = "rtopk_select_capturable"


class Attributes(ctypes.Structure):
    """The attributes of a call, as bindings/jax/selection.hpp has them."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("form", "k", "inner", "direction", "order", "max_iter", "rule")),
        ("epsilon", ctypes.c_double),
        ("search", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in ("lengths", "starts", "offsets", "row_k")),
        *((name, ctypes.c_int64) for name in ("max_length", "magnitude", "thresholds")),
    ]


def _load() -> ctypes.CDLL:
    found = tuple(int(number) for number in re.findall(r"\d+", jax.__version__)[:2])
    if found < MIN_JAX:
        minimum = ".".join(map(str, MIN_JAX))
        raise ImportError(f"rtopk.jax needs jax {minimum} or later, and this is jax {jax.__version__}")
    if not PATH.exists():
        raise ImportError(
            f"rtopk was built without JAX: {PATH} is missing; `pip install --no-build-isolation .` in its sources"
            " builds it where jax is installed"
        )
    try:
        library = ctypes.CDLL(str(PATH))
    except OSError as error:
        raise ImportError(f"rtopk's handlers for JAX do not load: {error}") from error
    _check_interface(library.rtopk_jax_interface())
    return library


def _check_interface(built: int) -> None:
    """Handlers work with the interface that they were built for, and with later ones. JAX says so too, but too late:
    none of its devices can be used any more."""
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    found = re.search(r"^#define XLA_FFI_API_MINOR (\d+)", header.read_text() if header.exists() else "", re.MULTILINE)
    if found and int(found[1]) < built:
        raise ImportError(
            f"rtopk was built for a later JAX: its handlers use version 0.{built} of XLA's interface, and jax"
            f" {jax.__version__} has 0.{found[1]}; build rtopk again with this jax installed, or install a later jax"
        )


def _register() -> None:
    _library.rtopk_jax_workspace_bytes.restype = ctypes.c_int64
    _library.rtopk_jax_workspace_bytes.argtypes = [
        ctypes.POINTER(Attributes),
        ctypes.c_int64,
        ctypes.POINTER(ctypes.c_int64),
        ctypes.c_int64,
        ctypes.c_int64,
    ]
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(_library.rtopk_jax_cpu), platform="cpu")
    if HAS_CUDA:
        cuda = {TARGET: _library.rtopk_jax_cuda, CAPTURABLE_TARGET: _library.rtopk_jax_cuda_capturable}
        for target, handler in cuda.items():
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler), platform="CUDA")
    # Leading dimensions are rows: partitions select from their own.
    jax.ffi.register_ffi_target_as_batch_partitionable(TARGET)


_library = _load()
HAS_CUDA = bool(_library.rtopk_jax_has_cuda())
_register()


def workspace_bytes(attributes: Attributes, dtype: int, shape: tuple[int, ...], segments: int) -> int | None:
    """The workspace that a call needs on the GPUs of this machine. None: there are none. `segments`: -1, or a count."""
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    found = _library.rtopk_jax_workspace_bytes(ctypes.byref(attributes), dtype, sizes, len(shape), segments)
    return None if found < 0 else found
