"""Shapes, strides, axes and options at random."""

import numpy as np
import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

import rtopk
from oracle import check, mask

DTYPES = st.sampled_from([np.float32, np.float16, np.float64, np.int32])


@st.composite
def calls(draw):
    shape = draw(nps.array_shapes(min_dims=1, max_dims=4, max_side=9))
    dtype = np.dtype(draw(DTYPES))
    # Few different elements, with every special one.
    numbers = [0, 1, -1, 2, 3] if dtype.kind == "i" else [0.0, -0.0, 1.0, -1.5, 2.0, np.inf, -np.inf, np.nan, -np.nan]
    a = draw(nps.arrays(dtype, shape, elements=st.sampled_from(numbers)))
    steps = tuple(slice(None, None, draw(st.sampled_from([1, 1, 2, -1]))) for _ in shape)
    a = a[steps].transpose(draw(st.permutations(range(a.ndim))))
    axis = draw(st.integers(-a.ndim, a.ndim - 1))
    options = {
        "axis": axis,
        "mode": draw(st.sampled_from(["largest", "smallest"])),
        "nan": draw(st.sampled_from(["first", "last"])),
    }
    return a, draw(st.integers(0, a.shape[axis])), options, draw(st.booleans())


@settings(max_examples=300)
@given(calls())
def test_any_array(call):
    a, k, options, sorted = call
    check(rtopk.top_k, a, k, sorted=sorted, **options)
    np.testing.assert_array_equal(rtopk.top_k_mask(a, k, **options), mask(a, k, **options))
