"""rtopk's C interface (include/rtopk/rtopk.h) through ctypes: enough of it to time and check selections."""

import ctypes
from pathlib import Path

DEFAULT_PATH = Path(__file__).resolve().parent.parent / "build" / "lib" / "librtopk.so"

# Positions in the enums of rtopk.h.
DTYPES = {"f32": 0, "f16": 1, "bf16": 2, "f64": 3, "i32": 4}
INDEX_I64 = 1


class Status(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("text", ctypes.c_char * 256)]


class Problem(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_int64) for name in ("rows", "cols", "k", "row_stride")]
        + [
            (name, ctypes.c_int32)
            for name in ("dtype", "direction", "order", "form", "index_type")
            + ("values", "indices", "passes", "max_iter", "search")
        ]
        + [("epsilon", ctypes.c_double), ("device_kind", ctypes.c_int32), ("device_ordinal", ctypes.c_int32)]
    )


class Plan(ctypes.Structure):
    _fields_ = [("opaque", ctypes.c_uint64 * 64)]


class Output(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("values", "indices", "dense", "mask", "passes")]


class Library:
    """librtopk.so. Matrices are addresses, so that tensors and arrays of any framework will do."""

    def __init__(self, path=DEFAULT_PATH):
        self._library = ctypes.CDLL(str(path))
        self._declare("rtopk_problem_init", None, ctypes.POINTER(Problem))
        self._declare("rtopk_make_plan_threads", Status, ctypes.POINTER(Problem), ctypes.c_int32, ctypes.POINTER(Plan))
        self._declare("rtopk_workspace_bytes", ctypes.c_size_t, ctypes.POINTER(Plan))
        self._declare("rtopk_plan_text", ctypes.c_size_t, ctypes.POINTER(Plan), ctypes.c_char_p, ctypes.c_size_t)
        self._declare(
            "rtopk_run",
            Status,
            ctypes.POINTER(Plan),
            ctypes.c_void_p,
            ctypes.POINTER(Output),
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_void_p,
        )
        self._declare("rtopk_version", ctypes.c_char_p)

    def _declare(self, name, result, *arguments):
        function = getattr(self._library, name)
        function.restype = result
        function.argtypes = arguments

    @property
    def version(self):
        return self._library.rtopk_version().decode()

    def topk(self, rows, cols, k, dtype, threads):
        """A selection of (values, int64 indices) that can be run many times."""
        return Selection(self._library, rows, cols, k, dtype, threads)


class Selection:
    def __init__(self, library, rows, cols, k, dtype, threads):
        problem = Problem()
        library.rtopk_problem_init(ctypes.byref(problem))
        problem.rows, problem.cols, problem.k = rows, cols, k
        problem.dtype = DTYPES[dtype]
        problem.index_type = INDEX_I64
        self._library = library
        self._plan = Plan()
        self._check(library.rtopk_make_plan_threads(ctypes.byref(problem), threads, ctypes.byref(self._plan)))
        self._bytes = library.rtopk_workspace_bytes(ctypes.byref(self._plan))
        self._workspace = ctypes.create_string_buffer(max(self._bytes, 1))

    @property
    def text(self):
        """The plan, one name=value per line."""
        length = self._library.rtopk_plan_text(ctypes.byref(self._plan), None, 0)
        text = ctypes.create_string_buffer(length + 1)
        self._library.rtopk_plan_text(ctypes.byref(self._plan), text, len(text))
        return text.value.decode()

    def run(self, matrix, values, indices):
        output = Output(values=values, indices=indices)
        self._check(
            self._library.rtopk_run(
                ctypes.byref(self._plan), matrix, ctypes.byref(output), self._workspace, self._bytes, None
            )
        )

    @staticmethod
    def _check(status):
        if status.code != 0:
            raise RuntimeError(f"rtopk: {status.text.decode()}")
