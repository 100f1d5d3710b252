"""Errors: of the types that jax.lax.top_k raises, with texts that say what would be accepted."""

import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import faults
import rtopk.jax
from comparison import normal
from rtopk.jax import maxk, top_k

X = normal((4, 10))


@pytest.mark.parametrize(
    "call",
    [
        lambda top_k: top_k(X, -1),
        lambda top_k: top_k(X, 11),
        lambda top_k: top_k(X, 5, axis=0),
        lambda top_k: top_k(jnp.float32(1), 1),
        lambda top_k: top_k(3.0, 1),
        lambda top_k: top_k(X, 2, axis=2),
        lambda top_k: top_k(X, 2, axis=-3),
        lambda top_k: top_k(X, 2, axis=1.0),
        lambda top_k: top_k(X, "2"),
        lambda top_k: top_k([1, 2], 1),
        lambda top_k: top_k(X.astype(jnp.complex64), 1),
        lambda top_k: top_k(jnp.ones((2, 0)), 1),
    ],
)
@pytest.mark.skipif("axis" not in jax.lax.top_k.__code__.co_varnames, reason="this lax.top_k has no axis")
def test_errors_of_lax(call):
    with pytest.raises((TypeError, ValueError)) as expected:
        call(jax.lax.top_k)
    with pytest.raises((TypeError, ValueError)) as found:
        call(top_k)
    assert type(found.value) is type(expected.value)
    # Errors of Python's own conversions need not have the same words.
    if type(expected.value) is ValueError:
        assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    "options, kind, text",
    [
        ({"mode": "biggest"}, ValueError, "mode is 'biggest'; accepted: 'largest' or 'smallest'"),
        ({"mode": 3}, TypeError, "mode is 3"),
        ({"rule": "none"}, ValueError, "rule is 'none'; accepted: 'threshold_first' or 'printed'"),
        ({"search": "slow"}, ValueError, "search is 'slow'; accepted: 'fast' or 'bisection'"),
        ({"max_iter": 0}, ValueError, "max_iter is 0; accepted: None, or 1 to 10000"),
        ({"max_iter": 10001}, ValueError, "max_iter is 10001"),
        ({"max_iter": 1.5}, TypeError, "integer"),
        ({"epsilon": -1}, ValueError, "epsilon is -1.0; accepted: 0 to 1"),
        ({"epsilon": float("nan")}, ValueError, "epsilon is nan"),
        ({"epsilon": 0.1, "max_iter": 3}, ValueError, "accepted: one of them"),
        ({"sorted": "yes"}, TypeError, "sorted is 'yes'"),
        ({"is_stable": None}, TypeError, "is_stable is None; accepted: True or False"),
        ({"max_iter": 3, "total_order": True}, ValueError, "accepted: one of them"),
    ],
)
def test_options(options, kind, text):
    with pytest.raises(kind, match=text):
        top_k(X, 2, **options)


def test_k_is_no_float_and_no_tracer():
    with pytest.raises(TypeError, match="k argument to top_k must be an integer"):
        top_k(X, 2.0)
    with pytest.raises(TypeError, match="k argument to top_k must be an integer"):
        jax.jit(top_k)(X, 2)


def test_types_that_maxk_does_not_take():
    with pytest.raises(TypeError, match="maxk does not take int8; accepted: float32, float16"):
        maxk(X.astype(jnp.int8), 2)


# ---- Where it cannot run ----


@pytest.mark.skipif(rtopk.jax._library.HAS_CUDA, reason="this rtopk was built with CUDA")
def test_a_gpu_without_our_cuda():
    traced = jax.jit(lambda x: top_k(x, 2)).trace(X)
    with pytest.raises(
        NotImplementedError, match="on a GPU, and this rtopk was built without CUDA.*install rtopk-cu13"
    ):
        traced.lower(lowering_platforms=("cuda",))


def test_a_platform_that_is_none_of_ours():
    traced = jax.jit(lambda x: top_k(x, 2)).trace(X)
    with pytest.raises(NotImplementedError, match="CPUs and NVIDIA GPUs, and this is compiled for tpu"):
        traced.lower(lowering_platforms=("tpu",))


@pytest.fixture
def copied_package(tmp_path):
    """The package in another folder, where files may be missing."""
    folder = Path(rtopk.__file__).parent
    shutil.copytree(folder, tmp_path / "rtopk", ignore=shutil.ignore_patterns("*.so*", "__pycache__"))
    for library in folder.glob("librtopk.so*"):
        (tmp_path / "rtopk" / library.name).symlink_to(library)
    return tmp_path


IMPORT = """
sys.path.insert(0, sys.argv[1])
try:
    import rtopk.jax
except ImportError as error:
    print(error)
"""


def test_a_build_without_jax(copied_package, run_script):
    text = run_script(IMPORT, copied_package)
    assert "rtopk was built without JAX" in text and "pip install --no-build-isolation ." in text


def test_a_library_that_does_not_load(copied_package, run_script):
    (copied_package / "rtopk" / "librtopk_jax.so").write_bytes(b"no library")
    assert "rtopk's handlers for JAX do not load" in run_script(IMPORT, copied_package)


def test_handlers_for_a_later_jax(run_script):
    """The error comes before the registration, which would leave JAX without devices."""
    script = """
import pathlib
import jax.ffi
folder = pathlib.Path("older/xla/ffi/api")
folder.mkdir(parents=True)
(folder / "c_api.h").write_text("#define XLA_FFI_API_MINOR 0\\n")
jax.ffi.include_dir = lambda: "older"
try:
    import rtopk.jax
except ImportError as error:
    print(error)
print(jax.numpy.arange(3).sum())
"""
    text = run_script(script, JAX_PLATFORMS="cpu")
    assert "rtopk was built for a later JAX" in text and text.endswith("3\n")


def test_jax_is_missing(run_script):
    script = """
sys.modules["jax"] = None
try:
    import rtopk.jax
except ImportError as error:
    print(error)
"""
    assert "rtopk.jax needs JAX (pip install jax)" in run_script(script)


def test_the_import_of_rtopk_loads_no_jax(run_script):
    assert run_script("import rtopk; print('jax' in sys.modules)") == "False\n"


# ---- Handlers that anyone calls ----

GOOD = {"form": 0, "k": 3, "inner": 0, "direction": 0, "order": 1, "max_iter": 0, "rule": 0, "search": 0}
GOOD |= {"lengths": 0, "starts": 0, "offsets": 0, "row_k": 0, "max_length": 0, "magnitude": 0, "thresholds": 0}
RESULTS = (((4, 3), "float32"), ((4, 3), "int32"))


def call_handler(operand, results=RESULTS, epsilon=0.0, arrays=(), **changes):
    shapes = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape, dtype in results]
    attributes = {name: np.int64(value) for name, value in (GOOD | changes).items()}
    return jax.ffi.ffi_call("rtopk_select", shapes)(operand, *arrays, epsilon=np.float64(epsilon), **attributes)


def test_a_handler_called_directly():
    values, indices = call_handler(X)
    np.testing.assert_array_equal(indices, jax.lax.top_k(X, 3)[1])
    np.testing.assert_array_equal(values, jax.lax.top_k(X, 3)[0])


NUMBERS = jnp.array([3, 1, 0, 10], jnp.int32)
FLAT, TWO_SEGMENTS = X[0], (((2, 3), "float32"), ((2, 3), "int32"))
OFFSETS = jnp.array([0, 4, 99], jnp.int32)


def test_a_handler_called_directly_for_general_rows():
    _, indices, thresholds = call_handler(X, (*RESULTS, ((4,), "float32")), arrays=[NUMBERS], lengths=1, thresholds=1)
    np.testing.assert_array_equal((indices >= 0).sum(1), [3, 1, 0, 3])
    assert thresholds[0] == X[0, :3].min() and thresholds[1] == -jnp.inf
    indices = call_handler(FLAT, TWO_SEGMENTS, arrays=[OFFSETS], offsets=1)[1]
    assert (0 <= indices[0]).all() and (indices[0] < 4).all() and (4 <= indices[1]).all()


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: call_handler(X, form=3), "form is 3; accepted: 0 to 2"),
        (lambda: call_handler(X, form=-1), "form is -1"),
        (lambda: call_handler(X, direction=2), "direction is 2; accepted: 0 to 1"),
        (lambda: call_handler(X, order=3), "order is 3"),
        (lambda: call_handler(X, rule=2), "rule is 2"),
        (lambda: call_handler(X, search=7), "search is 7"),
        (lambda: call_handler(X, k=-1), "k is -1; accepted: 0 to 10"),
        (lambda: call_handler(X, k=11), "k is 11; accepted: 0 to 10"),
        (lambda: call_handler(X, k=4), "result 0 has another type or shape"),
        (lambda: call_handler(X, inner=1), "result 0 has another type or shape"),
        (lambda: call_handler(X, inner=2), "inner is 2 for an operand with 2 dimensions"),
        (lambda: call_handler(X, inner=-1), "inner is -1"),
        (lambda: call_handler(X[0, 0]), "inner is 0 for an operand with 0 dimensions"),
        (lambda: call_handler(X.astype(jnp.int8)), "the operand's type is not supported"),
        (lambda: call_handler(X, RESULTS[:1]), "there are 1 results; accepted: 2"),
        (lambda: call_handler(X, RESULTS[::-1]), "result 0 has another type or shape"),
        (lambda: call_handler(X, (RESULTS[0], ((4, 3), "float32"))), "result 1 has another type or shape"),
        (lambda: call_handler(X, (RESULTS[0], ((3, 3), "int32"))), "result 1 has another type or shape"),
        (lambda: call_handler(X, (((12,), "float32"), RESULTS[1])), "result 0 has another type or shape"),
        (lambda: call_handler(X, max_iter=-1), "max_iter is -1"),
        (lambda: call_handler(X, max_iter=20000), "max_iter"),
        (lambda: call_handler(X, epsilon=2.0), "epsilon"),
        (lambda: call_handler(X, form=1), "there are 2 results; accepted: 1"),
        (lambda: call_handler(X, RESULTS[:1], form=1), "result 0 has another type or shape"),
        (lambda: call_handler(X, (((4, 10), "float32"),), form=1, k=0), "k is 0; accepted: 1 to 10"),
        (lambda: call_handler(X, (((4, 10), "float32"),), form=1), "order"),
        (lambda: call_handler(X, lengths=3, arrays=[NUMBERS]), "lengths is 3; accepted: 0 to 2"),
        (lambda: call_handler(X, row_k=-1), "row_k is -1; accepted: 0 to 2"),
        (lambda: call_handler(X, magnitude=2), "magnitude is 2; accepted: 0 or 1"),
        (lambda: call_handler(X, thresholds=1), "there are 2 results; accepted: 3"),
        (lambda: call_handler(X, thresholds=1, k=0), "k is 0; accepted: 1 to 10"),
        (lambda: call_handler(X, (*RESULTS, ((4, 1), "float32")), thresholds=1), "result 2 has another type or shape"),
        (lambda: call_handler(X, lengths=2, arrays=[NUMBERS]), "lengths has another type or shape"),
        (lambda: call_handler(X, starts=1, arrays=[NUMBERS[:3]]), "starts has another type or shape"),
        (lambda: call_handler(X, row_k=1, arrays=[NUMBERS[:, None]]), "row_k has another type or shape"),
        (lambda: call_handler(X, lengths=1), "Index out of range|[Oo]ut of bounds|buffer"),
        (lambda: call_handler(X, arrays=[NUMBERS]), "there are 1 arrays of rows; accepted: 0"),
        (lambda: call_handler(X, lengths=1, arrays=[NUMBERS, NUMBERS]), "there are 2 arrays of rows; accepted: 1"),
        (lambda: call_handler(X, offsets=1, arrays=[NUMBERS]), "for an operand with 2 dimensions"),
        (lambda: call_handler(FLAT, TWO_SEGMENTS, offsets=1, arrays=[OFFSETS[:0]]), "offsets has another shape"),
        (lambda: call_handler(FLAT, TWO_SEGMENTS, offsets=1, arrays=[OFFSETS[:, None]]), "offsets has another shape"),
        (lambda: call_handler(FLAT, TWO_SEGMENTS, offsets=2, arrays=[OFFSETS]), "offsets has another type"),
        (lambda: call_handler(FLAT, TWO_SEGMENTS, offsets=1, max_length=-1, arrays=[OFFSETS]), "max_length of -1"),
        (lambda: call_handler(FLAT, offsets=1, arrays=[OFFSETS]), "result 0 has another type or shape"),
        (
            lambda: call_handler(FLAT, TWO_SEGMENTS, lengths=1, offsets=1, arrays=[OFFSETS[:2], OFFSETS]),
            "ragged.offsets is given beside lengths",
        ),
        (lambda: call_handler(X, (((4, 10), "float32"),), form=2, order=0), "result 0 has another type or shape"),
    ],
)
def test_calls_that_are_wrong(call, text):
    with pytest.raises(Exception, match=text):
        jax.block_until_ready(call())


# ---- Memory ----

# The columns are gathered into 8 MB of workspace, beside which nothing in the call is as large as 256 KiB.
SHORT_OF_MEMORY = """
import ctypes
import jax
import jax.numpy as jnp
from rtopk.jax import top_k

jax.config.update("jax_platforms", "cpu")
x = jnp.arange(65536.0 * 64).reshape(65536, 64)
call = jax.jit(lambda x: top_k(x, 8, axis=0)).lower(x).compile()
shim = ctypes.CDLL(None)
shim.rtopk_fault_arm(b"malloc", ctypes.c_long(1), 1, b"", ctypes.c_size_t(1 << 18))
try:
    jax.block_until_ready(call(x))
except Exception as error:
    print(error)
shim.rtopk_fault_disarm()
print(int(call(x)[1][0, 0]))
"""


def test_an_allocation_that_fails_is_an_error(run_script):
    if faults.library() is None:
        pytest.skip("there is no compiler for the library that makes allocations fail")
    first, second = run_script(SHORT_OF_MEMORY, LD_PRELOAD=str(faults.library())).splitlines()
    assert "rtopk: no memory for a workspace of" in first
    assert second == "65535"  # the next call has the memory
