"""The calls that compiled programs for GPUs have, written without a GPU."""

import re

import jax
import numpy as np
import pytest
from jax import export

from comparison import normal
from rtopk.jax import _select, maxk, top_k, top_k_segments

X = normal((6, 20, 30))
BYTES = 1234567


@pytest.fixture
def one_gpu(monkeypatch):
    """As in a build with CUDA, on a machine where each call needs this much workspace."""
    asked = []

    def workspace_bytes(attributes, dtype, shape, segments):
        asked.append((attributes.k, attributes.inner, dtype, shape, segments))
        return BYTES

    monkeypatch.setattr(_select, "HAS_CUDA", True)
    monkeypatch.setattr(_select, "workspace_bytes", workspace_bytes)
    return asked


def lowered(function, x):
    return jax.jit(function).trace(x).lower(lowering_platforms=("cuda",)).as_text()


def calls(text):
    return re.findall(r"@(rtopk_select\w*)\(.*-> (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("axis", [1, 2])
def test_the_workspace_is_a_buffer_of_the_program(one_gpu, axis):
    text = lowered(lambda x: top_k(x, 7, axis=axis), X.astype("bfloat16"))
    ((target, results),) = calls(text)
    shape = "x".join(str(7 if i == axis else size) for i, size in enumerate(X.shape))
    assert target == "rtopk_select_capturable"
    assert results == f"(tensor<{shape}xbf16>, tensor<{shape}xi32>, tensor<{BYTES}xui8>)"
    assert one_gpu == [(7, 2 - axis, 2, X.shape, -1)]


def test_results_lie_as_the_handlers_write_them(one_gpu):
    """The dimension that is selected along is the last one in memory."""
    text = lowered(lambda x: top_k(x, 7, axis=1), X)
    assert "result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 2, 0]> : tensor<3xindex>, dense<0>" in text


def test_other_forms(one_gpu):
    ((target, results),) = calls(lowered(lambda x: maxk(x, 7), X))
    assert (target, results) == ("rtopk_select_capturable", f"(tensor<6x20x30xf32>, tensor<{BYTES}xui8>)")


def test_general_rows(one_gpu):
    lengths = np.zeros((6, 20), np.int32)
    text = lowered(lambda x: top_k(x, 7, lengths=lengths, return_threshold=True), X)
    ((target, results),) = calls(text)
    assert target == "rtopk_select_capturable"
    assert results == f"(tensor<6x20x7xf32>, tensor<6x20x7xi32>, tensor<6x20xf32>, tensor<{BYTES}xui8>)"
    offsets = np.zeros(5, np.int32)
    ((_, results),) = calls(lowered(lambda x: top_k_segments(x.reshape(-1), offsets, 7), X))
    assert results == f"(tensor<4x7xf32>, tensor<4x7xi32>, tensor<{BYTES}xui8>)"
    assert [asked[1:] for asked in one_gpu] == [(0, 0, X.shape, -1), (0, 0, (3600,), 4)]


def test_where_no_gpu_can_be_asked(one_gpu, monkeypatch):
    monkeypatch.setattr(_select, "workspace_bytes", lambda *_: None)
    assert [target for target, _ in calls(lowered(lambda x: top_k(x, 7), X))] == ["rtopk_select"]


def test_exported_programs_plan_where_they_run(one_gpu):
    ours = [export.DisabledSafetyCheck.custom_call("rtopk_select")]
    for shape in (X.shape, (*export.symbolic_shape("b"), 20, 30)):
        argument = jax.ShapeDtypeStruct(shape, np.float32)
        exported = export.export(jax.jit(lambda x: top_k(x, 7)), platforms=["cuda"], disabled_checks=ours)(argument)
        assert "rtopk_select_capturable" not in exported.mlir_module()
        assert "@rtopk_select(" in exported.mlir_module()
    assert one_gpu == []
