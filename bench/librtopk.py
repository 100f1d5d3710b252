"""rtopk's C interface (include/rtopk/rtopk.h) through ctypes, as far as benchmarks need it."""

import ctypes
from pathlib import Path

DEFAULT_PATH = Path(__file__).resolve().parent.parent / "build" / "lib" / "librtopk.so"

# Positions in the enums of rtopk.h.
DTYPES = {"f32": 0, "f16": 1, "bf16": 2, "f64": 3, "i32": 4}
ORDERS = {"unsorted": 0, "by_value": 1, "by_index": 2}
FORMS = {"pairs": 0, "dense": 1, "mask": 2, "cbsr": 3}
INDEX_TYPES = {"i32": 0, "i64": 1, "u8": 2, "u16": 3}
DEVICES = {"cpu": 0, "cuda": 1}
SEARCHES = {"fast": 0, "bisection": 1}
RULES = {"threshold_first": 0, "printed": 1}
DIRECTIONS = {"largest": 0, "smallest": 1}
ARRAYS = {None: 0, "i32": 1, "i64": 2}
INDEX_KINDS = {"column": 0, "ids": 1, "pages": 2, "shifted": 3}


class Status(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("text", ctypes.c_char * 256)]


class Problem(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_int64) for name in ("rows", "cols", "k")]
        + [(name, ctypes.c_int64) for name in ("row_stride", "element_stride", "group_rows", "group_stride")]
        + [
            (name, ctypes.c_int32)
            for name in ("dtype", "direction", "order", "form", "index_type")
            + ("values", "indices", "passes", "max_iter", "search", "rule")
        ]
        + [("epsilon", ctypes.c_double)]
        + [(name, ctypes.c_int32) for name in ("magnitude", "thresholds", "lengths", "starts", "offsets", "row_k")]
        + [("elements", ctypes.c_int64), ("index_kind", ctypes.c_int32), ("map_type", ctypes.c_int32)]
        + [(name, ctypes.c_int64) for name in ("map_stride", "pages", "page_size", "tables")]
        + [(name, ctypes.c_int32) for name in ("table_of", "device_kind", "device_ordinal")]
    )


class Plan(ctypes.Structure):
    _fields_ = [("opaque", ctypes.c_uint64 * 64)]


class Output(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("values", "indices", "dense", "mask", "passes", "thresholds")]


class RowArrays(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("lengths", "starts", "offsets", "k", "map", "table_of")]


class Launch(ctypes.Structure):
    _fields_ = [("stream", ctypes.c_void_p), ("executor", ctypes.c_void_p)]


class Library:
    """librtopk.so. Matrices are passed as addresses, so that arrays of any framework can be used."""

    def __init__(self, path=DEFAULT_PATH):
        self._library = ctypes.CDLL(str(path))
        self._declare("rtopk_problem_init", None, ctypes.POINTER(Problem))
        self._declare("rtopk_make_plan", Status, ctypes.POINTER(Problem), ctypes.POINTER(Plan))
        self._declare("rtopk_make_plan_threads", Status, ctypes.POINTER(Problem), ctypes.c_int32, ctypes.POINTER(Plan))
        self._declare("rtopk_workspace_bytes", ctypes.c_size_t, ctypes.POINTER(Plan))
        self._declare("rtopk_plan_text", ctypes.c_size_t, ctypes.POINTER(Plan), ctypes.c_char_p, ctypes.c_size_t)
        self._declare(
            "rtopk_run_rows",
            Status,
            ctypes.POINTER(Plan),
            ctypes.c_void_p,
            ctypes.POINTER(RowArrays),
            ctypes.POINTER(Output),
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.POINTER(Launch),
        )
        self._declare("rtopk_version", ctypes.c_char_p)

    def _declare(self, name, result, *arguments):
        function = getattr(self._library, name)
        function.restype = result
        function.argtypes = arguments

    @property
    def version(self):
        return self._library.rtopk_version().decode()

    def topk(self, rows, cols, k, dtype, threads, **options):
        """A selection on the CPU of values and int64 indices, with the options of topk_cpu()."""
        return Selection(self._library, self._problem(rows, cols, k, dtype, **options), threads)

    def topk_cuda(self, rows, cols, k, dtype, ordinal=0, **options):
        """A selection on a GPU with the options of topk_cpu(). run() needs `workspace_bytes` of device memory."""
        problem = self._problem(rows, cols, k, dtype, **{"index_type": "i32"} | options)
        problem.device_kind, problem.device_ordinal = DEVICES["cuda"], ordinal
        return Selection(self._library, problem)

    def topk_cpu(self, rows, cols, k, dtype, **options):
        """A selection on the CPU. Options: direction, order, form, index_type (default i32), row_stride, max_iter,
        rule, epsilon, search, values, and by their names the fields of Problem from `magnitude` on."""
        return Selection(self._library, self._problem(rows, cols, k, dtype, **{"index_type": "i32"} | options))

    def _problem(self, rows, cols, k, dtype, direction="largest", order="unsorted", form="pairs", index_type="i64",
                 row_stride=0, max_iter=0, rule="threshold_first", epsilon=0.0, search="fast", values=True,
                 **rows_and_indices):  # fmt: skip
        problem = Problem()
        self._library.rtopk_problem_init(ctypes.byref(problem))
        problem.rows, problem.cols, problem.k = rows, cols, k
        problem.dtype = DTYPES[dtype]
        problem.row_stride = row_stride
        problem.direction = DIRECTIONS[direction]
        problem.order = ORDERS[order]
        problem.form = FORMS[form]
        problem.index_type = INDEX_TYPES[index_type]
        problem.max_iter = max_iter
        problem.rule = RULES[rule]
        problem.epsilon = epsilon
        problem.search = SEARCHES[search]
        problem.values = values
        for name, value in rows_and_indices.items():
            setattr(problem, name, value)
        return problem


class Selection:
    """A plan. On the CPU it owns its workspace."""

    def __init__(self, library, problem, threads=None):
        self._library = library
        self._plan = Plan()
        plan = ctypes.byref(self._plan)
        if threads is None:
            self._check(library.rtopk_make_plan(ctypes.byref(problem), plan))
        else:
            self._check(library.rtopk_make_plan_threads(ctypes.byref(problem), threads, plan))
        self.workspace_bytes = library.rtopk_workspace_bytes(plan)
        on_cpu = problem.device_kind == DEVICES["cpu"]
        self._workspace = ctypes.create_string_buffer(max(self.workspace_bytes, 1)) if on_cpu else None

    @property
    def text(self):
        """The plan, one name=value per line."""
        length = self._library.rtopk_plan_text(ctypes.byref(self._plan), None, 0)
        text = ctypes.create_string_buffer(length + 1)
        self._library.rtopk_plan_text(ctypes.byref(self._plan), text, len(text))
        return text.value.decode()

    def run(self, matrix, values=None, indices=None, **others):
        """The arguments of bound()."""
        self.bound(matrix, values, indices, **others)()

    def bound(self, matrix, values=None, indices=None, dense=None, mask=None, workspace=None, stream=None,
              thresholds=None, **arrays):  # fmt: skip
        """The selection as a function without arguments, which takes less time in Python. `workspace` is device memory,
        for plans on a GPU; `stream` is a cudaStream_t; `arrays` are those of RowArrays."""
        run, check, plan = self._library.rtopk_run_rows, self._check, ctypes.byref(self._plan)
        output = ctypes.byref(Output(values=values, indices=indices, dense=dense, mask=mask, thresholds=thresholds))
        described = ctypes.byref(RowArrays(**arrays))
        launch = ctypes.byref(Launch(stream=stream))
        memory = self._workspace if workspace is None else workspace
        size = self.workspace_bytes

        def call():
            check(run(plan, matrix, described, output, memory, size, launch))

        return call

    @staticmethod
    def _check(status):
        if status.code != 0:
            raise RuntimeError(f"rtopk: {status.text.decode()}")
