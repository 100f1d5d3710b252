"""Producers of DLPack that lie or break: each gets an error that says what is wrong, and nothing crashes."""

import ctypes
import random

import numpy as np
import pytest

import rtopk

CPU = 1
FLOAT = 2


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Unversioned(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
name_of = ctypes.pythonapi.PyCapsule_GetName
name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]


class Lender:
    """Lends 3 x 4 floats, with any field of its description changed."""

    def __init__(self, name=b"dltensor_versioned", versioned=True, device=(CPU, 0), with_deleter=True, **changes):
        self.memory = np.arange(12, dtype=np.float32).reshape(3, 4)
        self.given_back, self.device, self.name = 0, device, name
        self.managed = Versioned(major=1, minor=1) if versioned else Unversioned()
        self.deleter = DELETER(self._deleted)
        if with_deleter:
            self.managed.deleter = self.deleter
        tensor = self.managed.tensor
        self.shape = (ctypes.c_int64 * 64)(*changes.pop("shape", (3, 4)))
        self.strides = (ctypes.c_int64 * 64)(*changes.pop("strides", (4, 1)))
        tensor.data, tensor.device_type, tensor.ndim = self.memory.ctypes.data, CPU, 2
        tensor.code, tensor.bits, tensor.lanes = FLOAT, 32, 1
        tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        for field, value in changes.items():
            setattr(self.managed if hasattr(type(self.managed), field) else tensor, field, value)

    def _deleted(self, _):
        self.given_back += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.capsule = new_capsule(ctypes.addressof(self.managed), self.name, None)
        return self.capsule


@pytest.mark.parametrize("versioned, name", [(True, b"dltensor_versioned"), (False, b"dltensor")])
def test_an_honest_one(versioned, name):
    lender = Lender(name, versioned)
    assert rtopk.top_k(lender, 1).values.tolist() == [[3.0], [7.0], [11.0]]
    assert lender.given_back == 1 and name_of(lender.capsule) == b"used_" + name
    lender = Lender(name, versioned, strides=(1, 3), shape=(3, 4))
    assert rtopk.top_k(lender, 1, axis=0).values.tolist() == [[2.0, 5.0, 8.0, 11.0]]
    lender = Lender(name, versioned, byte_offset=8, shape=(2, 2))
    assert rtopk.top_k(lender, 1).values.tolist() == [[3.0], [7.0]]
    lender = Lender(name, versioned, byte_offset=1, shape=(2, 2))  # at no float's address: copied
    assert rtopk.top_k(lender, 2).values.shape == (2, 2)
    lender = Lender(name, versioned, with_deleter=False)
    assert rtopk.top_k(lender, 1).values.tolist() == [[3.0], [7.0], [11.0]]


def test_flags_and_missing_strides():
    assert rtopk.top_k(Lender(flags=1), 1).values.shape == (3, 1)  # read-only
    assert rtopk.top_k(Lender(flags=2), 1).values.shape == (3, 1)  # already a copy
    assert rtopk.top_k(Lender(minor=9), 1).values.shape == (3, 1)
    lender = Lender()
    lender.managed.tensor.strides = None
    assert rtopk.top_k(lender, 1).values.tolist() == [[3.0], [7.0], [11.0]]


@pytest.mark.parametrize(
    "changes, kind, text",
    [
        ({"name": b"dltensor_other"}, BufferError, "name is 'dltensor_other'; accepted: 'dltensor_versioned' or"),
        ({"name": b"used_dltensor"}, BufferError, "each of which can be read once"),
        ({"name": None}, BufferError, "name is missing"),
        ({"major": 2}, BufferError, "DLPack 2.1; accepted: 1.x"),
        ({"major": 0}, BufferError, "DLPack 0.1; accepted: 1.x"),
        ({"lanes": 4}, TypeError, "code 2 with 32 bits and 4 lanes; accepted: float32"),
        ({"lanes": 0}, TypeError, "code 2 with 32 bits and 0 lanes"),
        ({"code": 200}, TypeError, "code 200 with 32 bits"),
        ({"bits": 24}, TypeError, "code 2 with 24 bits"),
        ({"code": 4, "bits": 16}, TypeError, "__array_namespace__.*NumPy cannot hold the results"),
        ({"code": 0, "bits": 64}, TypeError, "code 0 with 64 bits and 1 lanes; accepted: float32"),
        ({"ndim": -1}, BufferError, "-1 dimensions; accepted: 0 to 64"),
        ({"ndim": 65}, BufferError, "65 dimensions; accepted: 0 to 64"),
        ({"ndim": 0}, ValueError, "a has 0 dimensions; accepted: 1 or more"),
        ({"shape": (3, -4)}, BufferError, "dimension 1 has size -4"),
        ({"shape": (1 << 62, 1 << 62)}, BufferError, "do not fit in 63 bits"),
        ({"shape": (1 << 60, 2), "strides": (1 << 40, 1)}, BufferError, "do not fit in 63 bits"),
        ({"strides": (1 << 62, 1)}, BufferError, "stride 0 is 4611686018427387904, which is out of range"),
        ({"strides": (-(1 << 61), 1)}, BufferError, "do not fit in 63 bits"),
        ({"data": None}, BufferError, "has elements and no address of them"),
        ({"device_type": 2}, BufferError, "device type 2, and __dlpack_device__"),
    ],
    ids=str,
)
def test_what_a_capsule_may_not_say(changes, kind, text):
    lender = Lender(**changes)
    with pytest.raises(kind, match=text):
        rtopk.top_k(lender, 1)
    assert lender.given_back == ("name" not in changes), "whoever takes a capsule over gives it back"


def test_no_shape():
    lender = Lender()
    lender.managed.tensor.shape = None
    with pytest.raises(BufferError, match="the capsule has no shape"):
        rtopk.top_k(lender, 1)


def test_nothing_at_no_address():
    assert rtopk.top_k(Lender(data=None, shape=(0, 4)), 2).values.shape == (0, 2)
    assert rtopk.top_k_mask(Lender(data=None, shape=(3, 0)), 0).shape == (3, 0)


def test_a_capsule_is_read_once():
    lender = Lender()
    rtopk.top_k(lender, 1)
    capsule = lender.capsule
    lender.__class__ = type("Again", (Lender,), {"__dlpack__": lambda self, **options: capsule})
    with pytest.raises(BufferError, match="name is 'used_dltensor_versioned'"):
        rtopk.top_k(lender, 1)
    assert lender.given_back == 1


@pytest.mark.parametrize("answer", [None, 3, "capsule", object()])
def test_no_capsule(answer):
    broken = type("Broken", (), {"__dlpack_device__": lambda self: (1, 0), "__dlpack__": lambda self, **_: answer})()
    with pytest.raises(BufferError, match="it gave .*, no capsule"):
        rtopk.top_k(broken, 1)


@pytest.mark.parametrize("kind", [RuntimeError, TypeError, KeyboardInterrupt, MemoryError])
def test_errors_of_the_producer_come_through(kind):
    class Broken:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            raise kind("as it is")

    with pytest.raises(kind, match="as it is"):
        rtopk.top_k(Broken(), 1)


@pytest.mark.parametrize("device", [(), (1,), 7, None, "ab"])
def test_a_device_that_is_none(device):
    with pytest.raises((TypeError, ValueError)):
        rtopk.top_k(Lender(device=device), 1)


def test_at_random():
    """Any mixture of changes gives a result or an error. Those that point to other memory are left out: no consumer
    can see them."""
    draw = random.Random(20250921)
    numbers = [0, 1, 2, 3, -1, 1 << 31, 1 << 62, -(1 << 62), (1 << 63) - 1]
    changes = {
        "lanes": [0, 1, 1, 1, 2, 65535],
        "code": [0, 1, 2, 2, 2, 4, 5, 255],
        "bits": [0, 8, 16, 32, 32, 64, 255],
        "ndim": [-(1 << 31), -1, 0, 1, 2, 2, 2, 64, 65, (1 << 31) - 1],
        "major": [0, 1, 1, 1, 2],
        "flags": [0, 1, 2, 3, (1 << 64) - 1],
        "device_type": [0, 1, 1, 1, 2, 13, -1],
    }
    outcomes = set()
    for _ in range(2000):
        picked = {name: draw.choice(values) for name, values in changes.items() if draw.random() < 0.3}
        # With no data every shape is allowed: a reader must refuse it before it reads.
        lender = Lender(data=None, shape=[draw.choice(numbers) for _ in range(64)], **picked)
        lender.strides[:] = [draw.choice(numbers) for _ in range(64)]
        try:
            rtopk.top_k(lender, draw.choice([0, 1, 2]), axis=draw.choice([0, -1, 1]))
            outcomes.add("result")
        except (BufferError, TypeError, ValueError, MemoryError, NotImplementedError) as error:
            assert str(error)
            outcomes.add(type(error).__name__)
        assert lender.given_back <= 1
    assert {"result", "BufferError", "TypeError", "ValueError"} <= outcomes
