"""Arrays of every kind: subclasses of NumPy's, sequences, other libraries by DLPack, PyTorch, JAX, and a GPU's."""

import sys
import types

import numpy as np
import pytest

import rtopk
from oracle import check, indices, rows
from rows_oracle import Expected, expect
from rtopk import _native
from rtopk._arrays import device

# ---- NumPy's own ----


def test_sequences_and_subclasses():
    np.testing.assert_array_equal(rtopk.top_k([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], 2).indices, [[0, 2], [1, 2]])
    np.testing.assert_array_equal(rtopk.top_k((1.0, 2.0), 1).values, [2.0])
    matrix = np.asmatrix(rows("ties", (4, 5), np.float32))
    result = rtopk.top_k(matrix, 2)
    assert type(result.values) is np.ndarray
    np.testing.assert_array_equal(result.indices, indices(np.asarray(matrix), 2))

    class Own(np.ndarray):
        pass

    check(rtopk.top_k, rows("ties", (4, 5), np.float32).view(Own), 2, axis=0)


def test_objects_that_numpy_takes():
    class Table:
        def __array__(self, dtype=None, copy=None):
            return np.array([3.0, 9.0, 4.0])

    assert rtopk.top_k(Table(), 1).indices.tolist() == [1]


# ---- DLPack ----


class Producer:
    """An array that shows nothing but DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device, self.calls = array, device, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.calls.append(options)
        return self.array.__dlpack__(**options)


class OldProducer(Producer):
    """One from before DLPack 1.0."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


class Space(types.ModuleType):
    """A namespace of the array API that notes what it is given."""

    taken = 0

    def from_dlpack(self, x):
        self.taken += 1
        return Spaced(np.from_dlpack(x), self)


class Spaced(Producer):
    def __init__(self, array, space):
        super().__init__(array)
        self.space = space

    def __array_namespace__(self, api_version=None):
        return self.space


# Some views of the tests are read only.
NUMPY_LENDS = pytest.mark.skipif(np.__version__ < "2", reason="NumPy 1 does not lend what is read only")


@pytest.mark.parametrize("producer", [pytest.param(Producer, marks=NUMPY_LENDS), OldProducer])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int32])
def test_producers(producer, dtype):
    a = rows("nan", (5, 6, 7), dtype)
    for view in (a, a.transpose(1, 2, 0), a[::2, :, ::3], a[:, ::-1], np.broadcast_to(a[:1], a.shape)):
        if producer is OldProducer and not view.flags.writeable:
            continue  # NumPy lends it by DLPack 1.0 alone
        for axis in range(3):
            for nan in ("first", "last"):
                values, places = rtopk.top_k(producer(view), 2, axis=axis, nan=nan)
                assert type(values) is np.ndarray
                np.testing.assert_array_equal(places, indices(view, 2, axis, nan=nan))
                np.testing.assert_array_equal(values, np.take_along_axis(view, places, axis))
    np.testing.assert_array_equal(rtopk.top_k_mask(producer(a), 2).sum(-1), 2)
    np.testing.assert_array_equal(rtopk.top_k_dense(producer(a), 7), a)
    assert rtopk.top_k_compact(producer(a), 2, axis=0).selectors.dtype == np.uint8
    assert rtopk.top_k_dense(producer(a), 0).sum() == 0


def test_results_come_in_the_namespace_of_the_array():
    space = Space("space")
    a = rows("ties", (4, 5), np.float32)
    result = rtopk.top_k(Spaced(a, space), 3, axis=0)
    assert space.taken == 2 and type(result.values) is Spaced
    np.testing.assert_array_equal(result.indices.array, indices(a, 3, 0))
    assert type(rtopk.top_k_mask(Spaced(a, space), 1)) is Spaced


@NUMPY_LENDS
def test_read_only_arrays_are_lent():
    a = rows("ties", (4, 5), np.float32)
    a.flags.writeable = False
    producer = Producer(a)
    rtopk.top_k(producer, 1)
    assert producer.calls == [{"max_version": (1, 1)}]


def test_what_was_lent_is_given_back():
    a = rows("ties", (4, 5), np.float32)
    before = sys.getrefcount(a)
    result = rtopk.top_k(Producer(a), 2)
    assert sys.getrefcount(a) == before
    with pytest.raises(ValueError):
        rtopk.top_k(Producer(a), 9)
    assert sys.getrefcount(a) == before
    values = result.values.copy()
    del result
    for _ in range(50):  # the memory of results is freed, and nobody else's
        rtopk.top_k(Producer(a), 2)
    np.testing.assert_array_equal(values, rtopk.top_k(a, 2).values)


def test_array_api_strict():
    xp = pytest.importorskip("array_api_strict")
    for name in (
        "float32",
        "float64",
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
    ):
        host = np.random.default_rng(0).integers(0, 100, (4, 5)).astype(name)
        a = xp.asarray(host)
        result = rtopk.top_k(a, 2)
        assert type(result.values) is type(result.indices) is type(a)
        assert (result.values.dtype, result.indices.dtype) == (a.dtype, xp.int64)
        expected = indices(host, 2)
        np.testing.assert_array_equal(np.asarray(result.indices), expected)
        np.testing.assert_array_equal(np.asarray(result.values), np.take_along_axis(host, expected, -1))
        assert type(rtopk.top_k_mask(a, 2)) is type(rtopk.top_k_dense(a, 2)) is type(a)


def test_other_devices_are_refused():
    with pytest.raises(TypeError, match="DLPack's type 10; accepted: host memory and GPUs of NVIDIA"):
        rtopk.top_k(Producer(np.zeros(3), device=(10, 0)), 1)
    if "cupy" not in sys.modules:
        with pytest.raises(TypeError, match="on a GPU.*accepted: an array of CuPy, PyTorch or JAX"):
            rtopk.top_k(Producer(np.zeros(3), device=(2, 0)), 1)


# ---- PyTorch and JAX ----


def test_tensors_go_to_topk():
    torch = pytest.importorskip("torch")
    pytest.importorskip("rtopk._library")
    a = rows("nan", (6, 20), np.float32)
    leaf = torch.tensor(a, requires_grad=True)
    for nan in ("first", "last"):
        values, places = rtopk.top_k(leaf, 5, axis=0, nan=nan, index_dtype="int32")
        assert isinstance(values, torch.Tensor) and places.dtype is torch.int32
        np.testing.assert_array_equal(places.numpy(), indices(a, 5, 0, nan=nan))
        np.testing.assert_array_equal(values.detach().numpy(), np.take_along_axis(a, places.numpy(), 0))
        leaf.grad = None
        values.sum().backward()
        assert leaf.grad.sum() == values.numel()
        dense = rtopk.top_k_dense(leaf, 5, nan=nan).detach().numpy()
        np.testing.assert_array_equal(dense, rtopk.top_k_dense(a, 5, nan=nan))
        np.testing.assert_array_equal(rtopk.top_k_mask(leaf, 5, nan=nan).numpy(), rtopk.top_k_mask(a, 5, nan=nan))
        compact = rtopk.top_k_compact(leaf, 5, axis=0, nan=nan)
        np.testing.assert_array_equal(compact.selectors.numpy(), rtopk.top_k_compact(a, 5, axis=0, nan=nan).selectors)
    for function in (rtopk.top_k, rtopk.top_k_mask, rtopk.top_k_dense, rtopk.top_k_compact):
        for early in ({}, {"max_iter": 2}, {"epsilon": 0.05}):
            ours, theirs = (function(each, 5, **early, search="bisection") for each in (leaf.detach(), a))
            np.testing.assert_array_equal(ours[-1], theirs[-1])
        with pytest.raises(ValueError, match="search is 'slow'; accepted: 'fast' or 'bisection'"):
            function(leaf, 5, search="slow")
    with pytest.raises(NotImplementedError, match="threads is 2; accepted for a tensor of PyTorch: None"):
        rtopk.top_k(leaf, 1, threads=2)
    with pytest.raises(ValueError, match="a has 0 dimensions"):
        rtopk.top_k(torch.tensor(1.0), 1)


@pytest.mark.parametrize("nan", ["first", "last"])
@pytest.mark.parametrize("mode", ["largest", "smallest"])
@pytest.mark.parametrize("axis", [0, 1])
def test_arrays_of_jax(axis, mode, nan):
    """They go to rtopk.jax, and give what NumPy's give."""
    jax = pytest.importorskip("jax")
    pytest.importorskip("rtopk.jax", exc_type=ImportError)
    a = np.random.default_rng(3).integers(-4, 5, (40, 30)).astype(np.float32)
    a[3, ::2] = np.nan
    options = {"axis": axis, "mode": mode, "nan": nan}
    # A package without CUDA takes none of those that JAX puts on a GPU by itself.
    there = jax.device_put(a, None if rtopk.info()["cuda_built"] else jax.devices("cpu")[0])
    for function in (rtopk.top_k, rtopk.top_k_compact):
        for found, expected in zip(function(there, 20, **options), function(a, 20, **options), strict=True):
            assert isinstance(found, jax.Array)
            np.testing.assert_array_equal(found, expected)
    for function in (rtopk.top_k_mask, rtopk.top_k_dense):
        np.testing.assert_array_equal(function(there, 20, **options), function(a, 20, **options))
    early = rtopk.top_k(there, 5, axis=axis, max_iter=2, sorted=False).indices
    np.testing.assert_array_equal(early, rtopk.top_k(a, 5, axis=axis, max_iter=2, sorted=False).indices)


def test_what_jax_does_not_take():
    jax = pytest.importorskip("jax")
    pytest.importorskip("rtopk.jax", exc_type=ImportError)
    a = jax.numpy.zeros(5)
    with pytest.raises(NotImplementedError, match="threads is 2; accepted for an array of JAX: None"):
        rtopk.top_k(a, 3, threads=2)
    with pytest.raises(
        NotImplementedError, match="index_dtype is 'int64'; accepted for an array of JAX: None or 'int32'"
    ):
        rtopk.top_k(a, 3, index_dtype="int64")
    with pytest.raises(ValueError, match="mode is 'best'"):
        rtopk.top_k(a, 3, mode="best")


# ---- A GPU's arrays, in host memory ----


class FakeCupy(types.ModuleType):
    """As much of CuPy as rtopk uses, with its arrays in host memory. It notes what it is asked for."""

    def __init__(self):
        super().__init__("cupy")
        self.log, self.ndarray = [], FakeArray
        self.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=77))

    def empty(self, shape, dtype):
        self.log.append(("empty", shape, np.dtype(dtype).name))
        return FakeArray(np.empty(shape, dtype))

    def zeros(self, shape, dtype):
        self.log.append(("zeros", shape, np.dtype(dtype).name))
        return FakeArray(np.zeros(shape, dtype))

    def ascontiguousarray(self, a):
        self.log.append(("copy", a.shape))
        return FakeArray(np.ascontiguousarray(a.host))

    def __getattr__(self, name):
        """The functions of NumPy, of and with these arrays."""
        function = getattr(np, name)
        return lambda *arguments, **options: _faked(function(*map(_host, arguments), **options))

    def from_dlpack(self, producer):
        self.log.append(("from_dlpack",))
        return FakeArray(producer.array)


def _host(argument):
    if isinstance(argument, list):
        return [_host(each) for each in argument]
    return argument.host if isinstance(argument, FakeArray) else argument


def _faked(result):
    if isinstance(result, tuple):
        return tuple(map(_faked, result))
    return FakeArray(result) if isinstance(result, np.ndarray) else result


class FakeDevice:
    entered = 0

    def __init__(self, number=3):
        self.id = number

    def __enter__(self):
        FakeDevice.entered += 1

    def __exit__(self, *error):
        FakeDevice.entered -= 1


class FakeArray:
    def __init__(self, host, device=3):
        self.host, self.device, self.ndim = host, FakeDevice(device), host.ndim
        self.shape, self.strides, self.dtype, self.size = host.shape, host.strides, host.dtype, host.size
        self.data = types.SimpleNamespace(ptr=host.__array_interface__["data"][0])

    def __neg__(self):
        return FakeArray(-self.host)

    def transpose(self, order):
        return FakeArray(self.host.transpose(order))

    def reshape(self, shape):
        return FakeArray(self.host.reshape(shape))

    def astype(self, dtype, copy=True):
        return FakeArray(self.host.astype(dtype, copy=copy))

    def min(self):
        return self.host.min()

    def max(self):
        return self.host.max()

    def __int__(self):
        return int(self.host)

    def __lt__(self, other):
        return FakeArray(np.asarray(self.host < other))

    def __gt__(self, other):
        return FakeArray(np.asarray(self.host > other))

    def __getitem__(self, places):
        return FakeArray(self.host[places.host])


@pytest.fixture
def cupy(monkeypatch):
    """Selections run on the CPU instead. Where they would run is noted, and rows are copied as for a GPU."""
    module = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", module)

    def of_address(address, shape, strides, dtype, kind, ordinal, stream, *rest):
        assert FakeDevice.entered > 0, "allocations are made on the device of the array"
        module.log.append((kind, ordinal, stream))
        if any(stride < 0 for stride in strides):
            return None
        return _native.of_address(address, shape, strides, dtype, "cpu", 0, stream, *rest)

    monkeypatch.setattr(device, "of_address", of_address)
    return module


def test_arrays_of_cupy(cupy):
    a = rows("nan", (6, 7, 8), np.float32)
    for axis in (-1, 0, 1):
        for nan in ("first", "last"):
            for mode in ("largest", "smallest"):
                options = {"axis": axis, "nan": nan, "mode": mode}
                values, places = rtopk.top_k(FakeArray(a), 3, **options)
                assert type(values) is type(places) is FakeArray
                np.testing.assert_array_equal(places.host, indices(a, 3, **options))
                np.testing.assert_array_equal(values.host, np.take_along_axis(a, places.host, axis))
                dense = rtopk.top_k_dense(FakeArray(a), 3, **options)
                np.testing.assert_array_equal(dense.host, rtopk.top_k_dense(a, 3, **options))
                found = rtopk.top_k_mask(FakeArray(a), 3, **options)
                np.testing.assert_array_equal(found.host, rtopk.top_k_mask(a, 3, **options))
                compact = rtopk.top_k_compact(FakeArray(a), 3, **options)
                np.testing.assert_array_equal(compact.selectors.host, rtopk.top_k_compact(a, 3, **options).selectors)
    assert ("cuda", 3, 77) in cupy.log


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("most", [100, 1 << 50, 1 << 62])
def test_integers_of_cupy(cupy, dtype, most):
    a = np.random.default_rng(0).integers(0, most, (6, 20)).astype(dtype)
    for axis in (-1, 0):
        for mode in ("largest", "smallest"):
            options = {"axis": axis, "mode": mode, "nan": "last"}
            for function in (rtopk.top_k, rtopk.top_k_compact):
                for found, expected in zip(
                    function(FakeArray(a), 5, **options), function(a, 5, **options), strict=True
                ):
                    assert type(found) is FakeArray and found.dtype == expected.dtype
                    np.testing.assert_array_equal(found.host, expected)
            for function in (rtopk.top_k_mask, rtopk.top_k_dense):
                found, expected = function(FakeArray(a), 5, **options), function(a, 5, **options)
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found.host, expected)
    assert ("cuda", 3, 77) in cupy.log and FakeDevice.entered == 0


def test_what_cupy_is_asked_for(cupy):
    rtopk.top_k(FakeArray(rows("ties", (4, 5), np.float32)), 2, axis=0)
    assert cupy.log == [("cuda", 3, 77), ("empty", (5, 2), "float32"), ("empty", (5, 2), "int64")]
    cupy.log.clear()
    rtopk.top_k(FakeArray(rows("ties", (4, 5), np.float32)[:, ::-1]), 2)
    assert cupy.log[:3] == [("cuda", 3, 77), ("copy", (4, 5)), ("cuda", 3, 77)]
    cupy.log.clear()
    assert not rtopk.top_k_mask(FakeArray(np.ones((4, 5), np.float32)), 0).host.any()
    assert cupy.log[1:] == [("zeros", (4, 5), "bool")]
    assert FakeDevice.entered == 0


def test_cupy_takes_over_other_arrays_on_a_gpu(cupy):
    a = rows("ties", (4, 5), np.float32)
    result = rtopk.top_k(Producer(a, device=(2, 3)), 2)
    assert cupy.log[0] == ("from_dlpack",)
    np.testing.assert_array_equal(result.indices.host, indices(a, 2))


def test_general_rows_of_cupy(cupy):
    a = rows("ties", (6, 7, 8), np.float32)
    draw = np.random.default_rng(0)
    ids = draw.integers(1000, size=a.shape)
    for view in (a, a[:, ::-1], a[..., ::-1], a.transpose(2, 0, 1)):
        for axis in (-1, 0, 1):
            others = np.delete(view.shape, axis)
            given = {name: draw.integers(-1, 10, others) for name in ("lengths", "starts", "row_k")}
            for k in (3, 12):
                expected = Expected(view, k, axis=axis, ids=ids.reshape(view.shape), **given)
                on_gpu = {name: FakeArray(each) for name, each in given.items()}
                options = {"ids": FakeArray(ids.reshape(view.shape)), "return_threshold": True, "axis": axis}
                result = rtopk.top_k(FakeArray(view), k, **on_gpu, **options)
                assert type(result) is rtopk.TopKThreshold
                expect([each.host for each in result], expected)
                mask = rtopk.top_k_mask(FakeArray(view), k, axis=axis, **on_gpu)
                np.testing.assert_array_equal(mask.host, expected.mask)
    flat, offsets = rows("ties", (3000,), np.float32), np.array([0, 5, 5, 2000, 9999])
    for view in (flat, flat[::-1]):
        result = rtopk.top_k_segments(FakeArray(view), FakeArray(offsets), 4, ids=FakeArray(np.arange(3000)))
        expect([each.host for each in result], Expected(view, 4, offsets=offsets))
    assert ("cuda", 3, 77) in cupy.log and FakeDevice.entered == 0


def test_errors_of_general_rows_of_cupy(cupy):
    a, lengths = FakeArray(np.zeros((3, 4), np.float32)), np.array([1, 2, 3])
    with pytest.raises(TypeError, match="lengths is of type ndarray; accepted: an array on the GPU of a"):
        rtopk.top_k(a, 1, lengths=lengths)
    with pytest.raises(TypeError, match="ids is of type list; accepted: an array on the GPU of a"):
        rtopk.top_k(a, 1, ids=[1, 2, 3, 4])
    with pytest.raises(ValueError, match="lengths is on GPU 2; accepted: on that of a, 3"):
        rtopk.top_k(a, 1, lengths=FakeArray(lengths, device=2))
    with pytest.raises(TypeError, match="lengths has dtype int16; accepted: int32 or int64"):
        rtopk.top_k(a, 1, lengths=FakeArray(lengths.astype(np.int16)))
    with pytest.raises(ValueError, match="nan is 'last'; accepted with lengths and magnitude: 'first'"):
        rtopk.top_k(a, 1, nan="last", lengths=FakeArray(lengths), magnitude=True)
    taken = rtopk.top_k(a, 1, lengths=Producer(lengths, device=(2, 3)))
    assert ("from_dlpack",) in cupy.log and taken.indices.host.tolist() == [[0]] * 3
    assert FakeDevice.entered == 0


def test_errors_of_arrays_of_cupy(cupy):
    with pytest.raises(ValueError, match="k is 9; accepted: 0 to 3, the length of axis -1"):
        rtopk.top_k(FakeArray(np.zeros(3)), 9)
    with pytest.raises(TypeError, match="a has dtype complex64; accepted: float32"):
        rtopk.top_k(FakeArray(np.zeros(3, np.complex64)), 1)
    with pytest.raises(ValueError, match="a has 0 dimensions"):
        rtopk.top_k(FakeArray(np.zeros(())), 1)
    assert FakeDevice.entered == 0


@pytest.mark.skipif("\ncuda=1" in _native.build_text(), reason="this build has CUDA")
def test_a_build_without_cuda_says_so():
    a = np.zeros((2, 3), np.float32)
    options = (1, -1, "largest", True, "first", None, 0.0, "threshold_first", "fast", None, None)

    def allocate(shape, dtype, zero):
        array = np.zeros(shape, dtype or np.float32)
        return array, array.ctypes.data

    with pytest.raises(NotImplementedError, match="no CUDA backend.*Arrays in host memory work"):
        _native.of_address(a.ctypes.data, a.shape, a.strides, "float32", "cuda", 0, 0, allocate, 0, options)
