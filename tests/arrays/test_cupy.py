"""Arrays of CuPy, on a GPU: what is selected, on which stream, and that nothing waits."""

import numpy as np
import pytest

import rtopk
from oracle import KINDS, bits, check, rows
from rows_oracle import Expected, expect
from rtopk import _native

pytestmark = pytest.mark.gpu

DTYPES = [np.float32, np.float16, np.float64, np.int32]


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def on_gpu(cupy, function):
    """A function of arrays of CuPy as one of arrays of NumPy, whose layout stays."""

    def call(a, *arguments, **options):
        results = function(moved(cupy, a), *arguments, **options)
        if isinstance(results, tuple):
            assert all(type(each) is cupy.ndarray for each in results)
            return tuple(cupy.asnumpy(each) for each in results)
        assert type(results) is cupy.ndarray
        return cupy.asnumpy(results)

    return call


def moved(cupy, a):
    """A copy on the GPU with the same strides."""
    if a.size == 0:
        return cupy.empty(a.shape, a.dtype)
    base = a
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    whole = cupy.asarray(base)
    if not base.flags.c_contiguous or any(stride < 0 for stride in a.strides):
        return cupy.asarray(a)
    offset = a.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return cupy.ndarray(a.shape, a.dtype, memptr=whole.data + offset, strides=a.strides)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["largest", "smallest"])
@pytest.mark.parametrize("nan", ["first", "last"])
def test_values_and_indices(cupy, dtype, kind, mode, nan):
    for shape, k in [((7, 40), 5), ((3, 5000), 40), ((200, 9), 9), ((33,), 1), ((2, 300_000), 100)]:
        a = rows(kind, shape, dtype)
        values, places = on_gpu(cupy, rtopk.top_k)(a, k, mode=mode, nan=nan)
        expected = rtopk.top_k(a, k, mode=mode, nan=nan)
        np.testing.assert_array_equal(places, expected.indices)
        np.testing.assert_array_equal(values, expected.values)
        if kind != "nan" and kind != "infinite":
            np.testing.assert_array_equal(bits(values), bits(expected.values))
        unsorted = on_gpu(cupy, rtopk.top_k)(a, k, mode=mode, nan=nan, sorted=False, index_dtype="int32")
        assert unsorted[1].dtype == np.int32
        np.testing.assert_array_equal(np.sort(unsorted[1], -1), np.sort(places, -1))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("nan", ["first", "last"])
def test_other_forms(cupy, dtype, nan):
    for shape, k, axis in [((7, 40), 5, -1), ((3, 300, 20), 40, 1), ((64, 9), 8, 0)]:
        a = rows("nan", shape, dtype)
        for mode in ("largest", "smallest"):
            options = {"axis": axis, "mode": mode, "nan": nan}
            for function in (rtopk.top_k_mask, rtopk.top_k_dense):
                np.testing.assert_array_equal(on_gpu(cupy, function)(a, k, **options), function(a, k, **options))
            values, selectors = on_gpu(cupy, rtopk.top_k_compact)(a, k, **options)
            expected = rtopk.top_k_compact(a, k, **options)
            assert selectors.dtype == expected.selectors.dtype
            np.testing.assert_array_equal(selectors, expected.selectors)
            np.testing.assert_array_equal(values, expected.values)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("most", [100, 1 << 50, 1 << 62])
def test_other_integers(cupy, dtype, most):
    a = np.random.default_rng(0).integers(0, most, (60, 200)).astype(dtype)
    for axis in (-1, 0):
        for mode in ("largest", "smallest"):
            options = {"axis": axis, "mode": mode, "nan": "last"}
            for function in (rtopk.top_k, rtopk.top_k_compact):
                pairs = zip(on_gpu(cupy, function)(a, 9, **options), function(a, 9, **options), strict=True)
                for found, expected in pairs:
                    assert found.dtype == expected.dtype
                    np.testing.assert_array_equal(found, expected)
            for function in (rtopk.top_k_mask, rtopk.top_k_dense):
                found, expected = on_gpu(cupy, function)(a, 9, **options), function(a, 9, **options)
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)


def test_layouts_and_axes(cupy):
    base = rows("ties", (12, 16, 20), np.float32)
    four = rows("ties", (5, 6, 7, 8), np.float32)
    views = [base, np.asfortranarray(base), base.transpose(2, 0, 1), base[1:5, ::2, 3:], base[..., 1:], base[::-1]]
    views += [base[..., ::-1], np.broadcast_to(base[:, :1], base.shape), four[::2, ::2, ::2, ::2], base[:0]]
    for a in views:
        for axis in range(-a.ndim, a.ndim):
            k = (a.shape[axis] + 1) // 2
            check(on_gpu(cupy, rtopk.top_k), a, k, axis=axis)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_general_rows(cupy, dtype, integer):
    draw = np.random.default_rng(0)
    for shape, k, axis in [((60, 40), 7, -1), ((5, 6, 300), 40, -1), ((40, 60), 50, 0), ((3, 70_000), 100, 1)]:
        a = rows("nan" if dtype != np.int32 else "ties", shape, dtype)
        size, others = a.shape[axis], np.delete(shape, axis)
        given = {name: draw.integers(-1, size + 2, others).astype(integer) for name in ("lengths", "starts", "row_k")}
        ids = draw.integers(1000, size=shape).astype(integer)
        on_gpu = {name: cupy.asarray(each) for name, each in given.items()}
        for options in ({}, {"mode": "smallest"}, {"magnitude": True}):
            options = options | {"axis": axis}
            found = rtopk.top_k(cupy.asarray(a), k, ids=cupy.asarray(ids), return_threshold=True, **on_gpu, **options)
            assert all(type(each) is cupy.ndarray for each in found)
            expect([cupy.asnumpy(each) for each in found], Expected(a, k, ids=ids, **given, **options))
            mask = rtopk.top_k_mask(cupy.asarray(a), k, **on_gpu, **options)
            np.testing.assert_array_equal(cupy.asnumpy(mask), rtopk.top_k_mask(a, k, **given, **options))
        shared = rtopk.top_k(cupy.asarray(a), 3, axis=axis, ids=cupy.arange(size) * 2)
        np.testing.assert_array_equal(cupy.asnumpy(shared.indices), rtopk.top_k(a, 3, axis=axis).indices * 2)


@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_segments(cupy, integer):
    offsets = np.array([0, 5, 5, 2000, 2001, 9999, 3], integer)
    for kind in KINDS:
        flat = rows(kind, (6000,), np.float32)
        for view in (flat, flat[::2], flat[::-1], flat[:0]):
            for max_length in (None, 700):
                found = rtopk.top_k_segments(
                    moved(cupy, view), cupy.asarray(offsets), 9, max_length=max_length, return_threshold=True
                )
                expect(
                    [cupy.asnumpy(each) for each in found], Expected(view, 9, offsets=offsets, max_length=max_length)
                )


def test_arrays_of_rows_on_the_host_are_refused(cupy):
    with pytest.raises(TypeError, match="lengths is of type ndarray; accepted: an array on the GPU of a"):
        rtopk.top_k(cupy.zeros((3, 4), np.float32), 1, lengths=np.array([1, 2, 3]))


def test_nothing_to_select(cupy):
    a = cupy.ones((3, 4), cupy.float32)
    assert rtopk.top_k(a, 0).values.shape == (3, 0)
    assert not rtopk.top_k_mask(a, 0).any() and not rtopk.top_k_dense(a, 0).any()
    assert rtopk.top_k(cupy.ones((0, 4), cupy.float32), 2).indices.shape == (0, 2)


def test_errors(cupy):
    a = cupy.ones((3, 4), cupy.float32)
    with pytest.raises(ValueError, match="k is 5; accepted: 0 to 4, the length of axis -1"):
        rtopk.top_k(a, 5)
    with pytest.raises(ValueError, match="threads is 2; accepted for an array on a GPU: None"):
        rtopk.top_k(a, 1, threads=2)
    with pytest.raises(TypeError, match="a has dtype complex64; accepted: float32"):
        rtopk.top_k(a.astype(cupy.complex64), 1)
    with pytest.raises(ValueError, match="a has 0 dimensions"):
        rtopk.top_k(cupy.float32(1) + cupy.zeros((), cupy.float32), 1)


@pytest.mark.parametrize("non_blocking", [False, True])
def test_streams(cupy, non_blocking):
    """Queued behind what the current stream has: an input that is written late is read late."""
    a = cupy.zeros((4096, 4096), cupy.float32)
    late = cupy.asarray(rows("normal", a.shape, np.float32))
    expected = rtopk.top_k(cupy.asnumpy(late), 8).indices
    cupy.sqrt(a, out=a)  # kernels are loaded before: that takes longer than the GPU's work here
    a[...] = rtopk.top_k(a, 1).values
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=non_blocking)
    with stream:
        for _ in range(300):
            cupy.sqrt(a, out=a)
        a[...] = late
        result = rtopk.top_k(a, 8)
        busy = not stream.done
        after = result.indices + 0
    assert busy, "the call returned before the GPU was done"
    stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(after), expected)


def test_memory_is_the_pools_and_is_reused(cupy):
    a = cupy.asarray(rows("normal", (512, 4096), np.float32)).T  # along its columns: needs workspace
    pool = cupy.get_default_memory_pool()
    rtopk.top_k(a, 8, axis=0)
    used = pool.used_bytes()
    total = pool.total_bytes()
    for _ in range(20):
        rtopk.top_k(a, 8, axis=0)
    assert pool.used_bytes() == used and pool.total_bytes() == total


def test_another_device_than_the_current_one(cupy):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one GPU")
    host = rows("ties", (100, 300), np.float32)
    with cupy.cuda.Device(1):
        a = cupy.asarray(host)
    with cupy.cuda.Device(0):
        result = rtopk.top_k(a, 5)
        assert cupy.cuda.Device().id == 0
    assert result.values.device.id == result.indices.device.id == 1
    np.testing.assert_array_equal(cupy.asnumpy(result.indices), rtopk.top_k(host, 5).indices)


def test_graph_capture(cupy):
    """A recorded call selects from what the input has when the graph is launched."""
    a = cupy.zeros((256, 1000), cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        warm = rtopk.top_k(a, 8)  # the pool then has the memory
        del warm
        stream.synchronize()
        stream.begin_capture()
        result = rtopk.top_k(a, 8)
        graph = stream.end_capture()
        for seed in (1, 2):
            host = rows("normal", a.shape, np.float32, seed)
            a.set(host, stream=stream)
            graph.launch(stream)
            stream.synchronize()
            np.testing.assert_array_equal(cupy.asnumpy(result.indices), rtopk.top_k(host, 8).indices)


def test_other_producers_on_a_gpu(cupy):
    a = cupy.asarray(rows("ties", (40, 50), np.float32))

    class Producer:
        def __dlpack_device__(self):
            return a.__dlpack_device__()

        def __dlpack__(self, **options):
            return a.__dlpack__(**options)

    result = rtopk.top_k(Producer(), 3)
    assert type(result.values) is cupy.ndarray
    np.testing.assert_array_equal(cupy.asnumpy(result.indices), rtopk.top_k(cupy.asnumpy(a), 3).indices)


def test_views_that_cupy_copies_first(cupy):
    host = rows("ties", (6, 8, 10), np.float32)
    a = cupy.asarray(host)
    for view in (np.s_[::-1], np.s_[..., ::-1], np.s_[:, ::-2]):
        for axis in range(3):
            found = rtopk.top_k(a[view], 3, axis=axis)
            np.testing.assert_array_equal(cupy.asnumpy(found.indices), rtopk.top_k(host[view], 3, axis=axis).indices)


def test_info_knows_the_gpu(cupy):
    assert rtopk.info()["cuda_architectures"]
    assert _native.compute_capability(0) == int(cupy.cuda.Device(0).compute_capability)
    with pytest.raises(ValueError, match="device is cuda:63; accepted: cuda:0 to"):
        _native.compute_capability(63)
