"""Calls that are refused: with the argument, its value, and what would be accepted."""

import numpy as np
import pytest

import rtopk

A = np.arange(12, dtype=np.float32).reshape(3, 4)
TYPES = "float32, float16, bfloat16, float64, int32"


@pytest.mark.parametrize(
    "arguments, options, kind, text",
    [
        ((A, 5), {}, ValueError, "k is 5; accepted: 0 to 4, the length of axis -1"),
        ((A, 4), {"axis": 0}, ValueError, "k is 4; accepted: 0 to 3, the length of axis 0"),
        ((A, -1), {}, ValueError, "k is -1; accepted: 0 to 4"),
        ((A, 1 << 70), {}, ValueError, "k is 1180591620717411303424; accepted: an integer"),
        ((A, 1.0), {}, TypeError, "k is 1.0; accepted: an integer"),
        ((A, "1"), {}, TypeError, "k is '1'; accepted: an integer"),
        ((A, None), {}, TypeError, "k is None; accepted: an integer"),
        ((A, 1), {"axis": 2}, ValueError, "axis is 2; accepted: -2 to 1, since a has 2 dimensions"),
        ((A, 1), {"axis": -3}, ValueError, "axis is -3; accepted: -2 to 1"),
        ((A, 1), {"axis": None}, TypeError, "axis is None; accepted: an integer"),
        ((A, 1), {"mode": "biggest"}, ValueError, "mode is 'biggest'; accepted: 'largest' or 'smallest'"),
        ((A, 1), {"mode": 1}, TypeError, "mode is 1; accepted: 'largest' or 'smallest'"),
        ((A, 1), {"sorted": 1}, TypeError, "sorted is 1; accepted: True or False"),
        ((A, 1), {"nan": "omit"}, ValueError, "nan is 'omit'; accepted: 'first' or 'last'"),
        ((A, 1), {"max_iter": 0}, ValueError, "max_iter is 0; accepted: None, or 1 to 10000"),
        ((A, 1), {"max_iter": 10001}, ValueError, "max_iter is 10001; accepted: None, or 1 to 10000"),
        ((A, 1), {"max_iter": 1.5}, TypeError, "max_iter is 1.5; accepted: None, or 1 to 10000"),
        ((A, 1), {"epsilon": 2.0}, ValueError, "epsilon"),
        ((A, 1), {"epsilon": float("nan")}, ValueError, "epsilon"),
        ((A, 1), {"epsilon": "small"}, TypeError, "epsilon is 'small'; accepted: a number from 0 to 1"),
        ((A, 1), {"epsilon": 0.1, "max_iter": 3}, ValueError, "max_iter"),
        ((A, 1), {"rule": "last"}, ValueError, "rule is 'last'; accepted: 'threshold_first' or 'printed'"),
        ((A, 1), {"search": "slow"}, ValueError, "search is 'slow'; accepted: 'fast' or 'bisection'"),
        ((A, 1), {"threads": 0}, ValueError, "threads is 0; accepted: None, or 1 to 4096"),
        ((A, 1), {"threads": "all"}, TypeError, "threads is 'all'; accepted: None, or 1 to 4096"),
        ((A, 1), {"index_dtype": "int16"}, ValueError, "index_dtype is 'int16'; accepted: 'int64' or 'int32'"),
        ((A, 1), {"index_dtype": np.float32}, TypeError, "index_dtype is <class 'numpy.float32'>; accepted: 'int64'"),
        ((np.float32(1), 1), {}, ValueError, "a has 0 dimensions; accepted: 1 or more"),
        ((3.5, 1), {}, ValueError, "a has 0 dimensions; accepted: 1 or more"),
        ((A.astype(np.longdouble), 1), {}, TypeError, f"a has dtype {np.dtype(np.longdouble)}; accepted: {TYPES}"),
        ((A.astype(complex), 1), {}, TypeError, f"a has dtype complex128; accepted: {TYPES}"),
        ((A.astype(object), 1), {}, TypeError, f"a has dtype object; accepted: {TYPES}"),
        ((A.astype("U4"), 1), {}, TypeError, f"a has dtype <U4; accepted: {TYPES}"),
        ((A.astype("M8[s]"), 1), {}, TypeError, "a has dtype datetime64"),
        ((np.zeros(3, "V2"), 1), {}, TypeError, r"a has dtype \|V2; accepted"),
        ((np.zeros(3, [("x", "f4")]), 1), {}, TypeError, "a has dtype "),
        ((np.ma.array(A, mask=A > 3), 1), {}, TypeError, r"a is a masked array.*a\.filled\(value\)"),
        ((None, 1), {}, TypeError, "a has dtype object"),
    ],
    ids=lambda each: "" if isinstance(each, tuple | dict) else None,
)
def test_refused(arguments, options, kind, text):
    with pytest.raises(kind, match=text):
        rtopk.top_k(*arguments, **options)


@pytest.mark.parametrize("function", [rtopk.top_k_mask, rtopk.top_k_dense, rtopk.top_k_compact])
def test_other_forms_refuse_the_same(function):
    with pytest.raises(ValueError, match="k is 5; accepted: 0 to 4, the length of axis -1"):
        function(A, 5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sorted'"):
        function(A, 1, sorted=True)


def test_long_rows_have_no_small_indices():
    with pytest.raises(ValueError, match="axis 0 has length 65537; accepted for compact results: at most 65536"):
        rtopk.top_k_compact(np.zeros(65537, np.float32), 1, axis=0)
    assert rtopk.top_k_compact(np.zeros(65536, np.float32), 1).selectors.dtype == np.uint16


def test_results_that_no_memory_holds():
    huge = np.broadcast_to(np.float32(0), (1 << 40, 1 << 10))
    with pytest.raises(MemoryError):
        rtopk.top_k(huge, 1 << 10)


def test_more_dimensions_than_the_library_merges():
    a = np.arange(2.0**12).reshape((2,) * 12).transpose(11, 0, 9, 2, 7, 4, 5, 6, 3, 8, 1, 10)
    np.testing.assert_array_equal(rtopk.top_k(a, 1, axis=3).values, a.max(axis=3, keepdims=True))
