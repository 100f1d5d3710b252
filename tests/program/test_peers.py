"""bench/peers without a GPU: made-up peers that are here or not, right, wrong or failing; what the benchmarks write and
print about them; and, where nvcc is, the files that it compiles."""

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import pytest

from conftest import REPOSITORY

torch = pytest.importorskip("torch")
sys.path[:0] = [str(REPOSITORY / "bench"), str(REPOSITORY / "paper" / "page")]

import compare_gpu  # noqa: E402
import gpu_grids  # noqa: E402
import gpu_report  # noqa: E402
import grids  # noqa: E402
import kernels  # noqa: E402
import peers  # noqa: E402
from gpu_grids import Cell  # noqa: E402
from peers import authors_kernel, compiled  # noqa: E402

CELL, OTHER = Cell("paper", 40, 64, 8), Cell("paper", 41, 64, 8)
NAMES = ["authors", "flashinfer", "quack", "cub", "jax", "cupy"]


class Exact(peers.Peer):
    """torch.topk under another name."""

    name, install, promises, dtypes = "exact", "pip install exact", "exact; descending", ("f32", "bf16")

    def find(self, dtypes):
        self.dtypes_asked_for = dtypes
        return "1.2.3"

    def bound(self, matrix, k, max_iter=0):
        return lambda: torch.topk(matrix, k, dim=1)


class Absent(Exact):
    name, install = "absent", "pip install absent"

    def find(self, dtypes):
        raise peers.Missing("absent is not installed")


class Broken(Exact):
    """Installed, but of no use."""

    name = "broken"

    def bound(self, matrix, k, max_iter=0):
        raise OSError("libbroken.so: cannot open\nsecond line")


class Changed(Exact):
    """Its results are changed by `change`."""

    name = "changed"

    def __init__(self, change):
        self.change = change

    def bound(self, matrix, k, max_iter=0):
        def run():
            values, indices = torch.topk(matrix, k, dim=1)
            return self.change(matrix, values, indices)

        return run


class Failing(Exact):
    """Works `calls` times."""

    name = "failing"

    def __init__(self, calls):
        self.calls = calls

    def bound(self, matrix, k, max_iter=0):
        def run():
            self.calls -= 1
            if self.calls < 0:
                raise RuntimeError("no kernel image")
            return torch.topk(matrix, k, dim=1)

        return run


class Early(Exact):
    """With max_iter, it takes the first k elements."""

    name, stops_early = "early", True

    def bound(self, matrix, k, max_iter=0):
        first = torch.arange(k, dtype=torch.int32).expand(len(matrix), k)
        return lambda: (matrix[:, :k], first) if max_iter else torch.topk(matrix, k, dim=1)


def matrix(cell=CELL):
    return torch.randn(cell.rows, cell.cols, generator=torch.Generator().manual_seed(1))


def checked(*chosen, cell=CELL, max_iters=()):
    """What is found of these peers, and their functions."""
    beside, recovered = peers.Beside(chosen, max_iters), []
    functions = beside.checked_functions(
        torch, cell, matrix(cell), lambda: None, lambda name, error: recovered.append(name)
    )
    assert recovered == list(beside.errors)
    return beside, functions


def test_the_list():
    assert list(peers.NAMES) == NAMES
    for peer in peers.PEERS:
        assert peer.install and peer.promises and "f32" in peer.dtypes
    assert peers.named(["all"]) == peers.PEERS
    assert [peer.name for peer in peers.named(["cupy", "authors"])] == ["authors", "cupy"]
    assert peers.named([]) == peers.named(["none"]) == ()


def test_found_and_missing():
    exact = Exact()
    found = peers.Found.among([exact, Absent(), Broken()], torch, ["f32", "f64"], device="cpu")
    assert found.peers == [exact] and exact.dtypes_asked_for == ("f32",)
    assert found.record() == {
        "measured": [{"name": "exact", "version": "1.2.3", "promises": "exact; descending"}],
        "missing": [
            {"name": "absent", "why": "absent is not installed", "install": "pip install absent"},
            {
                "name": "broken",
                "why": "it does not work here: OSError: libbroken.so: cannot open",
                "install": "pip install exact",
            },
        ],
    }


def test_real_peers_say_what_they_lack_here():
    """Without a GPU none of them can be measured, whichever are installed; none ends the search."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    found = peers.Found.among(peers.PEERS, torch, ["f32"])
    assert [entry["name"] for entry in found.record()["missing"]] == NAMES
    assert all(entry["why"] for entry in found.record()["missing"])


def test_our_package_is_not_taken_for_the_authors(monkeypatch):
    """Both packages are imported as rtopk: the search must not import either."""
    monkeypatch.delenv("RTOPK_AUTHORS", raising=False)
    monkeypatch.delitem(sys.modules, "rtopk", raising=False)
    with pytest.raises(peers.Missing, match="rtopk-torch is not installed"):
        peers.PEERS[0].find(("f32",))
    assert "rtopk" not in sys.modules
    monkeypatch.setenv("RTOPK_AUTHORS", "/nonexistent")
    with pytest.raises(peers.Missing, match="without rtopk_kernel.cu"):
        peers.PEERS[0].find(("f32",))


def test_right_results_have_no_wrong_rows():
    beside, functions = checked(Exact())
    assert beside.wrong_rows == {"exact": 0} and not beside.errors
    assert list(functions) == ["peer:exact"]


def swap_a_value(matrix, values, indices):
    """Row 3 has the smallest element instead of its last."""
    worst = matrix[3].argmin()
    values[3, -1], indices[3, -1] = matrix[3, worst], worst
    return values, indices


def repeat_an_index(matrix, values, indices):
    values[5, 1], indices[5, 1] = values[5, 0], indices[5, 0]
    return values, indices


def wrong_index(matrix, values, indices):
    """The values are right; two indices of row 7 are not where they come from."""
    indices[7, [0, 1]] = indices[7, [1, 0]]
    return values, indices


def out_of_range(matrix, values, indices):
    indices[2, 0], indices[9, 0] = -1, matrix.shape[1]
    return values, indices


def lost_bits(matrix, values, indices):
    return (values.view(torch.int32) & ~63).view(torch.float32), indices


def another_order(matrix, values, indices):
    return values.flip(1), indices.flip(1).to(torch.int32)


@pytest.mark.parametrize(
    "change, rows",
    [
        (swap_a_value, 1),
        (repeat_an_index, 1),
        (wrong_index, 1),
        (out_of_range, 2),
        (lost_bits, CELL.rows),
        (another_order, 0),
    ],
)
def test_wrong_rows_are_counted(change, rows):
    beside, functions = checked(Changed(change))
    assert beside.wrong_rows == {"changed": rows} and not beside.errors
    assert list(functions) == ["peer:changed"], "its time is marked, not dropped"


def test_ties_may_be_chosen_freely():
    tied = torch.zeros(4, 16)
    values, indices = torch.zeros(4, 3), torch.tensor([[15, 2, 7]] * 4)
    assert peers.wrong_rows(torch, tied, values, indices) == 0
    assert peers.wrong_rows(torch, tied, values, torch.tensor([[15, 2, 2]] * 4)) == 4


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda matrix, values, indices: (values[:-1], indices[:-1]), "a result of"),
        (lambda matrix, values, indices: (values.double(), indices), "a result of torch.float64"),
        (lambda matrix, values, indices: (matrix.neg_()[:, :8], indices), "ValueError: it changes its input"),
    ],
)
def test_other_faults_are_failures(change, message):
    beside, functions = checked(Changed(change), Exact())
    assert message in beside.errors["changed"]
    assert list(functions) == ["peer:exact"] and beside.wrong_rows["exact"] == 0


def test_a_failing_peer_does_not_end_the_run():
    beside, functions = checked(Failing(0), Broken(), Exact())
    assert beside.errors == {"failing": "RuntimeError: no kernel image", "broken": "OSError: libbroken.so: cannot open"}
    assert list(functions) == ["peer:exact"]


def test_early_stopping_beside():
    beside, functions = checked(Early(), Exact(), max_iters=(2, 4))
    assert list(functions) == ["peer:early", "peer:early max_iter=2", "peer:early max_iter=4", "peer:exact"]
    assert beside.wrong_rows == dict.fromkeys(["early", "early max_iter=2", "early max_iter=4", "exact"], 0)
    assert list(beside.indices) == ["early max_iter=2", "early max_iter=4"]


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "f64"},
        {"form": "dense"},
        {"direction": "smallest"},
        {"order": "by_value"},
        {"max_iter": 4},
        {"epsilon": 0.1},
        {"data": "one_percent_nan"},
        {"row_stride": 65},
        {"offset": 1},
    ],
)
def test_only_the_same_problem_is_compared(options):
    assert Exact().can_do(CELL)
    assert not Exact().can_do(Cell("paper", 40, 64, 8, **options))


def test_shapes_that_real_peers_can_do():
    by_name = {peer.name: peer for peer in peers.PEERS}
    assert by_name["authors"].fits(1 << 20, 768, 96) and by_name["authors"].fits(65536, 8192, 512)
    assert not by_name["authors"].fits(1000, 100, 8), "it reads whole warps of columns"
    assert not by_name["authors"].fits(1 << 20, 8192, 8), "it counts elements in 32 bits"
    assert by_name["quack"].fits(1000, 256, 32) and not by_name["quack"].fits(1000, 768, 32)
    assert not by_name["quack"].fits(1000, 256, 96)


class Event:
    """A CUDA event on a clock that only sleeping and peers move."""

    now = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = Event.now

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return end.at - self.at


@pytest.fixture
def gpu():
    """The timing loop of compare_gpu.py on a made-up GPU."""
    made_up = compare_gpu.Gpu.__new__(compare_gpu.Gpu)
    nothing = SimpleNamespace(zero_=lambda: None)
    cuda = SimpleNamespace(Event=Event, synchronize=lambda: None, empty_cache=lambda: None, _sleep=lambda cycles: None)
    made_up.torch, made_up.flushed, made_up.repeats = SimpleNamespace(cuda=cuda), nothing, 5
    return made_up


def taking(milliseconds, calls):
    def run():
        calls.append(milliseconds)
        Event.now += milliseconds

    return run


def test_timing_beside(gpu):
    ours, slow, quick, beside = [], [], [], peers.Beside()
    failing = Failing(2).bound(matrix(), 8)
    functions = {"rtopk": taking(1, ours), "peer:slow": taking(80, slow), "peer:quick": taking(2, quick)}
    functions |= {"peer:failing": failing}
    times = gpu.interleaved(functions, {"rtopk": 5, "peer:slow": 3, "peer:quick": 3, "peer:failing": 3}, beside)
    assert times == pytest.approx({"rtopk": 1e3, "peer:slow": 80e3, "peer:quick": 2e3})
    assert (len(ours), len(slow), len(quick)) == (6, 2, 4), "a warm-up each; a slow peer is timed once"
    assert beside.errors == {"failing": "RuntimeError: no kernel image"}


def test_our_own_failure_ends_the_cell(gpu):
    with pytest.raises(RuntimeError, match="no kernel image"):
        gpu.interleaved({"rtopk": Failing(0).bound(matrix(), 8)}, {"rtopk": 5}, peers.Beside())


RECORD = {
    "measured": [{"name": "exact", "version": "1.2.3"}, {"name": "lossy", "version": "0.1"}],
    "missing": [{"name": "absent", "why": "not installed", "install": "pip install absent"}],
}


def outcomes():
    times = {"floor": 1.0, "rtopk": 2.0}
    return [
        gpu_report.Outcome(
            CELL, times | {"peer:exact": 4.0, "peer:lossy": 3.0}, peer_wrong_rows={"exact": 0, "lossy": 7}
        ),
        gpu_report.Outcome(OTHER, times | {"peer:exact": 16.0}, peer_errors={"lossy": "OSError: gone"}),
    ]


def test_table(capsys):
    heading, exact, lossy, missing = gpu_report.peer_lines(outcomes(), RECORD)
    assert exact.split()[:5] == ["exact", "2", "4.00", "2.00", "8.00"] and exact.endswith("  1.2.3")
    assert lossy.split()[:5] == ["lossy", "1", "1.50", "1.50", "1.50"]
    assert "7 wrong rows in 1 cells; failed in 1 cells, first: OSError: gone; 0.1" in lossy
    assert missing == "not measured: absent (not installed)"
    gpu_report.print_outcome(outcomes()[0])
    assert "exact x2.0  lossy x1.5!" in capsys.readouterr().out


def test_file(tmp_path):
    path = tmp_path / "gpu.json"
    report = gpu_report.Report(path, {}, [CELL, OTHER])
    report.peers = RECORD
    for position, outcome in enumerate(outcomes()):
        report.end(position, outcome)
    report.write()
    written = json.loads(path.read_text())
    assert written["peers"] == RECORD
    assert written["cells"][0]["microseconds"] == {"floor": 1.0, "rtopk": 2.0, "peer:exact": 4.0, "peer:lossy": 3.0}
    assert [cell["peer_wrong_rows"] for cell in written["cells"]] == [{"exact": 0, "lossy": 7}, {}]
    assert written["cells"][1]["peer_errors"] == {"lossy": "OSError: gone"}
    again = gpu_report.Report(path, {}, [CELL])
    again.resume()
    assert again.outcomes[0].peer_wrong_rows == {"exact": 0, "lossy": 7}
    assert "peer_wrong_rows" not in gpu_report.Outcome(CELL, {"floor": 1.0, "rtopk": 2.0}).record()


class GpuOfThePaper:
    """As kernels.py needs it, with matrices of 40 rows on the CPU. Every time is the length of a name."""

    torch, peers = torch, (Early(), Exact(), Changed(swap_a_value), Broken())

    def matrix(self, cell, number):
        return torch.randn(40, cell.cols)

    def checked_times(self, works, beside):
        first = works[grids.EXACT]
        functions = beside.checked_functions(torch, first.cell, first.matrix, lambda: None, lambda *_: None)
        return {name: len(name) for name in ("torch", "floor", *works, *functions)}


class WorkOfThePaper:
    family = "cuda_warp lanes_per_row=32"

    def __init__(self, gpu, cell, matrix):
        self.cell, self.matrix = cell, matrix
        self.outputs = {"indices": torch.topk(matrix, cell.k, dim=1).indices}


@pytest.fixture
def on_gpu(monkeypatch):
    made = mock.create_autospec(compare_gpu.Gpu, return_value=GpuOfThePaper())
    monkeypatch.setattr(compare_gpu, "Gpu", made)
    monkeypatch.setattr(compare_gpu, "Work", WorkOfThePaper)
    return kernels.OnGpu("librtopk.so", 5, 0)  # refused if Gpu had other arguments


def test_record_of_the_paper(on_gpu):
    wanted = grids.Experiment(Cell("grid", 40, 256, 16), ("exact", "bisection", "max_iter=2", "max_iter=4"))
    assert wanted.among_peers and wanted.max_iters == (2, 4)
    cell = kernels.record(wanted, 0, on_gpu)
    assert cell["error"] is None, cell["error"]
    early = ["early max_iter=2", "early max_iter=4"]
    of_peers = {name for name in cell["microseconds"] if name.startswith("peer:")}
    assert of_peers == {"peer:early", *(f"peer:{name}" for name in early), "peer:exact", "peer:changed"}
    assert cell["peer_wrong_rows"] == {"early": 0, **dict.fromkeys(early, 0), "exact": 0, "changed": 1}
    assert cell["peer_errors"] == {"broken": "OSError: libbroken.so: cannot open"}
    assert list(cell["peer_hit_percent"]) == early and 0 < cell["peer_hit_percent"][early[0]] < 50
    assert cell["hit_percent"] == {"max_iter=2": 100.0, "max_iter=4": 100.0}
    outcome = kernels.outcomes_of([wanted], [cell])[0]
    assert outcome.times["rtopk"] == len("exact") and outcome.peer_errors == cell["peer_errors"]


def test_the_authors_kernel_is_in_every_experiment_and_the_others_in_some(on_gpu):
    scale = grids.SCALES["gpu", False]
    part = [experiment for experiment in grids.experiments(scale) if experiment.among_peers]
    assert {experiment.cell.set for experiment in part} == {"grid", "sweep", "data"}
    assert len(part) < len(grids.experiments(scale)) / 2
    left_out = grids.Experiment(Cell("grid", 40, 256, 96), ("exact",))
    cell = kernels.record(left_out, 0, on_gpu)
    assert set(cell["peer_wrong_rows"]) == {"early"}


@pytest.mark.parametrize("data", grids.DISTRIBUTIONS)
def test_data_of_the_paper(data):
    """The benchmark makes the paper's distributions from their own list, which has names that it lacks itself."""
    cell, generator = Cell("data", 40, 64, 8, data=data), torch.Generator().manual_seed(3)
    assert gpu_grids.matrix_of(torch, cell, torch.float32, generator, grids.DISTRIBUTIONS).shape == (40, 64)


def run(*command):
    return subprocess.run(
        [sys.executable, *map(str, command)], cwd=REPOSITORY, capture_output=True, text=True, timeout=300
    )


def test_benchmark_without_a_gpu(tmp_path):
    path = tmp_path / "gpu.json"
    done = run("bench/compare_gpu.py", "--dry-run", "--shape", "64x64x8", "--peers", "all", "--json", path)
    assert done.returncode == 0, done.stderr
    assert "not measured: authors (needs a GPU); flashinfer" in done.stdout
    written = json.loads(path.read_text())
    assert written["peers"]["measured"] == [] and [peer["name"] for peer in written["peers"]["missing"]] == NAMES
    done = run("bench/compare_gpu.py", "--dry-run", "--shape", "64x64x8", "--json", path)
    assert "not measured" not in done.stdout and "peers" not in json.loads(path.read_text())


@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_paper_without_a_gpu(tmp_path, device):
    path = tmp_path / "kernels.json"
    done = run("paper/page/kernels.py", "--dry-run", "--quick", "--device", device, "--peers", "cub", "--json", path)
    assert done.returncode == 0, done.stderr
    assert json.loads(path.read_text())["peers"]["missing"][0]["why"] == "needs a GPU"
    assert "not measured: cub (needs a GPU)" in done.stdout


@pytest.mark.parametrize("script", ["bench/compare_gpu.py", "paper/page/kernels.py"])
def test_help_names_the_peers(script):
    done = run(script, "--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in NAMES)
    assert run(script, "--json", "x", "--peers", "nobody").returncode == 2


needs_nvcc = pytest.mark.skipif(compiled.nvcc() is None, reason="nvcc is not installed")


@needs_nvcc
@pytest.mark.parametrize("element", ["float", "__nv_bfloat16"])
def test_cub_compiles(tmp_path, element):
    """Without the making of machine code, which takes half a minute."""
    options = ["-std=c++17", "-arch=sm_90", "-fdevice-syntax-only", "-ptx", f"-DRTOPK_PEER_ELEMENT={element}"]
    command = [compiled.nvcc(), *options, compiled.HERE / "cub_rows.cu", "-o", tmp_path / "cub.ptx"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_nvcc
def test_authors_kernel_compiles(tmp_path):
    """With a kernel of the same declaration in the place of the authors'."""
    (tmp_path / "rtopk_kernel.cu").write_text(
        "template <int kWarps>\n"
        "__global__ void rtopk_kernel(float*, float* values, int*, int, int, int, int, float) { *values = kWarps; }\n"
    )
    options = ["-I", str(tmp_path)]
    [library] = compiled.libraries("authors_kernel.cu", [options], "sm_90", tmp_path / "kept")
    assert library.rtopk_peer_authors
    assert compiled.libraries("authors_kernel.cu", [options], "sm_90", tmp_path / "kept")[0]._name == library._name


@needs_nvcc
def test_what_nvcc_says_is_the_reason(tmp_path):
    with pytest.raises(RuntimeError, match="rtopk_kernel.cu"):
        compiled.libraries("authors_kernel.cu", [["-I", str(tmp_path)]], "sm_90", tmp_path / "kept")
    assert not list((tmp_path / "kept").glob("*.so"))


def test_without_nvcc(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(peers.Missing, match="nvcc is not installed"):
        compiled.libraries("cub_rows.cu", [[]], "sm_90")


def test_the_commit_of_a_clone_is_its_own(tmp_path):
    (tmp_path / "inner").mkdir()

    def git(*arguments):
        settings = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        return subprocess.run(["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    assert authors_kernel._commit(tmp_path) == git("rev-parse", "--short", "HEAD").stdout.strip()
    assert authors_kernel._commit(tmp_path / "inner") == "of an unknown commit"
