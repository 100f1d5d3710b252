"""Programs that are compiled ahead of time: exported, saved, loaded in another process."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from comparison import assert_same, lax_top_k, normal
from rtopk.jax import maxk, top_k, top_k_segments

OURS = [export.DisabledSafetyCheck.custom_call("rtopk_select")]


def saved(exported, **options):
    pytest.importorskip("flatbuffers", reason="flatbuffers is not installed, which JAX saves programs with")
    return exported.serialize(**options)


LOAD = """
import jax, numpy
from jax import export
import rtopk.jax  # registers the calls

with open(sys.argv[1], "rb") as file:
    loaded = export.deserialize(file.read())
with numpy.load(sys.argv[2]) as arrays:
    results = jax.tree.leaves(loaded.call(arrays["x"]))
numpy.savez(sys.argv[3], *results)
"""


@pytest.mark.parametrize("axis", [-1, 0])
def test_a_fresh_process_runs_it(device, axis, run_script, tmp_path):
    x = normal((20, 30))
    exported = export.export(jax.jit(lambda x: top_k(x, 5, axis=axis)), platforms=[device], disabled_checks=OURS)(x)
    (tmp_path / "program").write_bytes(saved(exported))
    np.savez(tmp_path / "x.npz", x=np.asarray(x))
    run_script(LOAD, "program", "x.npz", "results.npz", JAX_PLATFORMS=f"{device},cpu")
    with np.load(tmp_path / "results.npz") as results:
        assert_same([results["arr_0"], results["arr_1"]], lax_top_k(x, 5, axis))


def test_the_check_names_our_call():
    with pytest.raises(ValueError, match="rtopk_select"):
        export.export(jax.jit(lambda x: top_k(x, 5)))(normal((20, 30)))


@pytest.mark.parametrize("axis", [-1, 1])
def test_symbolic_rows(device, axis):
    """One program for any number of rows."""
    rows, more = export.symbolic_shape("b, c")
    shape = jax.ShapeDtypeStruct((rows, 30, more) if axis == 1 else (rows, more, 30), np.float32)
    function = jax.jit(lambda x: (top_k(x, 5, axis=axis), maxk(x, 3, axis=axis)))
    exported = export.export(function, platforms=[device], disabled_checks=OURS)(shape)
    for sizes in ((1, 4), (7, 2)):
        x = normal((sizes[0], 30, sizes[1]) if axis == 1 else (*sizes, 30))
        pairs, dense = exported.call(x)
        assert_same(pairs, lax_top_k(x, 5, axis))
        assert_same([dense], [maxk(x, 3, axis=axis)])


def test_general_rows(device):
    """One program for any number of rows, and for any lengths; and for any number of segments."""
    (rows,) = export.symbolic_shape("b")
    shapes = jax.ShapeDtypeStruct((rows, 30), np.float32), jax.ShapeDtypeStruct((rows,), np.int32)
    function = jax.jit(lambda x, lengths: top_k(x, 5, lengths=lengths, return_threshold=True))
    exported = export.export(function, platforms=[device], disabled_checks=OURS)(*shapes)
    (more,) = export.symbolic_shape("s")
    shapes = jax.ShapeDtypeStruct((210,), np.float32), jax.ShapeDtypeStruct((more + 1,), np.int32)
    function = jax.jit(lambda x, offsets: top_k_segments(x, offsets, 5, max_length=30))
    segments = export.export(function, platforms=[device], disabled_checks=OURS)(*shapes)
    for size in (1, 7):
        x, lengths = normal((size, 30)), np.arange(size, dtype=np.int32) * 5
        assert_same(tuple(exported.call(x, lengths)), tuple(top_k(x, 5, lengths=lengths, return_threshold=True)))
        offsets = np.arange(size + 1, dtype=np.int32) * 30
        whole = top_k(x, 5)
        places = np.asarray(whole[1]) + offsets[:-1, None]
        flat = jnp.zeros(210).at[: x.size].set(x.reshape(-1))
        assert_same(segments.call(flat, offsets), [whole[0], places])


def test_a_symbolic_axis_is_refused():
    (size,) = export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((4, size), np.float32)
    with pytest.raises(ValueError, match="axis 1, whose size is symbolic: n; accepted: any other axis"):
        export.export(jax.jit(lambda x: top_k(x, 5)), disabled_checks=OURS)(shape)


def test_one_program_for_cpu_and_gpu():
    """Written where rtopk has no CUDA, too."""
    function = jax.jit(lambda x: top_k(x, 5))
    x = normal((20, 30))
    exported = export.export(function, platforms=["cpu", "cuda"], disabled_checks=OURS)(x)
    assert_same(exported.call(x), lax_top_k(x, 5))


def test_gradients_of_a_program(device):
    x = normal((6, 30))
    exported = export.export(jax.jit(lambda x: top_k(x, 5)[0]), platforms=[device], disabled_checks=OURS)(x)
    program = export.deserialize(saved(exported, vjp_order=1))
    found = jax.grad(lambda x: (program.call(x) ** 2).sum())(x)
    assert_same([found], [jax.grad(lambda x: (jax.lax.top_k(x, 5)[0] ** 2).sum())(x)])
