"""Shapes, strides, axes and options at random."""

import numpy as np
import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

import rtopk
from oracle import check, mask
from rows_oracle import Expected, expect

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


@settings(max_examples=300)
@given(calls(), st.randoms(use_true_random=False), st.booleans())
def test_general_rows_of_any_array(call, draw, magnitude):
    a, k, options, sorted = call
    options = {"axis": options["axis"], "mode": options["mode"], "magnitude": magnitude}
    size, others = a.shape[options["axis"]], np.delete(a.shape, options["axis"])

    def numbers():
        limits = [-(2**63), 2**63 - 1]
        some = [draw.choice([*limits, *range(-1, size + 3)]) for _ in range(int(np.prod(others)))]
        return np.array(some, np.int64).reshape(others)

    given = {name: numbers() for name in ("lengths", "starts", "row_k") if draw.random() < 0.5}
    k += draw.randrange(3) if given else 0
    if draw.random() < 0.5:
        given["ids"] = np.arange(a.size).reshape(a.shape) if draw.random() < 0.5 else np.arange(size) * 2
    found = rtopk.top_k(a, k, sorted=sorted, return_threshold=k > 0, **given, **options)
    expect(found, Expected(a, k, sorted=sorted, **given, **options))
    given.pop("ids", None)
    np.testing.assert_array_equal(rtopk.top_k_mask(a, k, **given, **options), Expected(a, k, **given, **options).mask)


@settings(max_examples=300)
@given(
    nps.arrays(np.float32, st.integers(0, 40), elements=st.sampled_from([0.0, -0.0, 1.0, -2.0, np.inf, np.nan])),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 42), min_size=1, max_size=9),
    st.integers(0, 12),
    st.none() | st.integers(1, 50),
    st.booleans(),
)
def test_any_segments(a, offsets, k, max_length, ascending):
    offsets = np.array(np.sort(offsets) if ascending else offsets, np.int64)
    found = rtopk.top_k_segments(a, offsets, k, max_length=max_length)
    expect(found, Expected(a, k, offsets=offsets, max_length=max_length))
