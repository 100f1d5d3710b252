"""The commands on a GPU. Every selection must equal the CPU's bit for bit, and `rtopk verify` must accept it."""

import json
import os
import resource
import signal

import numpy as np
import pytest

from conftest import needs_shim, same_bits, stopped, top_indices
from test_output_file import MIDDLE, sparse_matrix
from test_select import tricky_matrix

pytestmark = pytest.mark.usefixtures("needs_gpu")

DTYPES = ["f32", "f16", "bf16", "f64", "i32"]
FORMS = {
    "pairs": ["--sorted"],
    "indices": ["--order", "by_index", "--no-values", "--index-type", "i32"],
    "values": ["--sorted", "--no-indices"],
    "dense": ["--form", "dense"],
    "mask": ["--form", "mask"],
    "cbsr": ["--form", "cbsr", "--order", "by_index"],
}


def arrays_of(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "meta"}


@pytest.fixture
def same_on_both(rtopk, tmp_path):
    """Selects on the CPU and on the GPU, the GPU in chunks; compares bit for bit."""

    def call(*arguments, chunk_rows=None):
        chunks = [] if chunk_rows is None else ["--chunk-rows", chunk_rows]
        rtopk("select", *arguments, "--device", "cpu", "-o", tmp_path / "cpu.npz")
        rtopk("select", *arguments, "--device", "cuda", *chunks, "-o", tmp_path / "gpu.npz")
        cpu, gpu = arrays_of(tmp_path / "cpu.npz"), arrays_of(tmp_path / "gpu.npz")
        assert cpu.keys() == gpu.keys()
        for name, array in cpu.items():
            assert same_bits(array, gpu[name]), name

    return call


def test_info(rtopk, gpus):
    text = rtopk("info").stdout
    for gpu in gpus:
        assert gpu["name"] in text and gpu["memory_bytes"] > 2**30 and gpu["compute_capability"] >= 50
        only = json.loads(rtopk("info", "--json", "--device", f"cuda:{gpu['ordinal']}").stdout)["gpus"]
        assert only == [gpu]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_select_every_form_in_chunks(rtopk, same_on_both, tmp_path, form, dtype):
    flags = ["--random", "1000x233", "--dist", "ties", "--dtype", dtype, "-k", 17, *FORMS[form]]
    for chunk_rows in (None, 1000, 333, 91):  # one chunk; one that just fits; fewer rows in the last
        same_on_both(*flags, chunk_rows=chunk_rows)
    rtopk("verify", tmp_path / "gpu.npz")


@pytest.mark.parametrize(
    "mode",
    [["--max-iter", 4], ["--max-iter", 4, "--rule", "printed"], ["--epsilon", 0.05], ["--search", "bisection"]],
)
@pytest.mark.parametrize("direction", [[], ["--smallest"]])
def test_select_every_mode(same_on_both, mode, direction):
    same_on_both("--random", "700x300", "-k", 20, "--sorted", *mode, *direction, chunk_rows=99)


@pytest.mark.parametrize("shape, k", [("3x200000", 100), ("1x1000003", 4096), ("50000x8", 2), ("40x5000", 5000)])
def test_select_every_shape(same_on_both, shape, k):
    same_on_both("--random", shape, "-k", k, "--sorted", chunk_rows=7 if shape.endswith("000") else None)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int32])
def test_select_from_a_file(rtopk, same_on_both, tmp_path, dtype):
    matrix = tricky_matrix(dtype)
    np.save(tmp_path / "in.npy", matrix)
    for chunk_rows in (None, 5):
        same_on_both(tmp_path / "in.npy", "-k", 9, "--sorted", chunk_rows=chunk_rows)
        np.testing.assert_array_equal(arrays_of(tmp_path / "gpu.npz")["indices"], top_indices(matrix, 9, "by_value"))


def test_select_unsorted_keeps_the_contract(rtopk, tmp_path):
    command = ["select", "--random", "3000x500", "-k", 30, "--device", "cuda", "--chunk-rows", 700, "--passes"]
    rtopk(*command, "-o", tmp_path / "out.npz")
    rtopk("verify", tmp_path / "out.npz")


def test_select_no_rows(rtopk, tmp_path):
    rtopk("select", "--random", "0x77", "-k", 9, "--device", "cuda", "-o", tmp_path / "out.npz")
    assert np.load(tmp_path / "out.npz")["values"].shape == (0, 9)


def test_more_chunks_than_slots_of_the_default_size(same_on_both):
    same_on_both("--random", "400000x256", "-k", 4, "--sorted")  # 400 MB


def test_select_says_where(rtopk, gpus):
    done = rtopk("select", "--random", "500x80", "-k", 5, "--device", "cuda")
    assert "row 0:" in done.stdout and f"cuda:0, {gpus[0]['name']})" in done.stdout
    assert "GB/s" in done.stdout and "passes per row" in done.stdout and done.stderr == ""


def test_full_disk_stops_the_pipeline(refused, tmp_path):
    limit = 100_000
    refused(
        *["select", "--random", "200000x64", "-k", 4, "--device", "cuda", "--chunk-rows", 100],
        *["-o", tmp_path / "out.npz"],
        says="cannot write",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )


@needs_shim
def test_interrupted(tmp_path):
    command = ["select", "--random", "100000x256", "-k", "2", "--device", "cuda", "--chunk-rows", "10000"]
    listen = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with stopped([*command, "-o", tmp_path / "out.npz"], "write", MIDDLE, tmp_path, **listen) as process:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert list(tmp_path.iterdir()) == []


@needs_shim
def test_input_shortened_meanwhile(tmp_path):
    sparse_matrix(tmp_path / "in.npy", 1_000_000, 1024)  # 4 GB
    command = ["select", tmp_path / "in.npy", "-k", "1", "--device", "cuda", "-o", tmp_path / "out.npz"]
    with stopped(command, "write", MIDDLE, tmp_path) as process:
        os.truncate(tmp_path / "in.npy", 4096)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert errors.startswith("rtopk: ") and errors.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["in.npy"]


@needs_shim
def test_input_cut_within_its_last_page(tmp_path):
    np.save(tmp_path / "in.npy", np.zeros((100_000, 255), np.float32))
    command = ["select", tmp_path / "in.npy", "-k", "1", "--device", "cuda", "--chunk-rows", "10000"]
    with stopped([*command, "-o", tmp_path / "out.npz"], "write", MIDDLE, tmp_path) as process:
        os.truncate(tmp_path / "in.npy", (tmp_path / "in.npy").stat().st_size - 4)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2 and "was changed while it was read" in errors
    assert [p.name for p in tmp_path.iterdir()] == ["in.npy"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_verify(rtopk, dtype, form):
    done = rtopk(
        *["verify", "--random", "2000x300", "--dist", "ties", "--dtype", dtype, "-k", 30, "--device", "cuda"],
        *["--chunk-rows", 300, *FORMS[form]],
    )
    assert done.stdout.startswith("OK: 2000 rows") and "selected on cuda:0" in done.stdout


def test_verify_saved_and_selected(rtopk, tmp_path):
    rtopk("select", "--random", "100x50", "-k", 5, "-o", tmp_path / "out.npz", "--device", "cpu")
    assert "saved and selected on cuda:0" in rtopk("verify", tmp_path / "out.npz", "--device", "cuda").stdout


def test_plan(rtopk):
    for shape in ("65536x256x32", "1000x5000x64", "2x1000000x100", "1000x64x64"):
        text = rtopk("plan", "--shape", shape, "--device", "cuda").stdout
        fields = dict(line.split(maxsplit=1) for line in text.splitlines())
        assert fields["device"] == "cuda:0" and fields["family"].startswith("cuda_") and int(fields["blocks"]) > 0


def test_bench_table(rtopk):
    done = rtopk("bench", "--shape", "20000x256x32", "--shape", "50x100000x64", "--repeats", 3, "--device", "cuda")
    lines = done.stdout.splitlines()
    header = next(i for i, line in enumerate(lines) if line.split()[:3] == ["rows", "cols", "k"])
    assert "nth_element" not in done.stdout
    for line, shape in zip(lines[header + 1 :], (["20000", "256", "32"], ["50", "100000", "64"]), strict=False):
        assert line.split()[:3] == shape and line.split()[-1].startswith("cuda_")
        milliseconds, rate, floor, passes = map(float, line.split()[3:7])
        assert milliseconds > 0 and rate > 0 and floor > 0.5 and passes >= 0
    assert "geometric mean" in done.stdout and "rows were checked" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--dtype", "f16", "--sorted"],
        ["--dtype", "bf16", "--smallest"],
        ["--dtype", "f64", "--form", "mask"],
        ["--dtype", "i32", "--form", "dense"],
        ["--form", "cbsr", "--max-iter", "4"],
        ["--epsilon", "0.01", "--no-values", "--index-type", "i32"],
        ["--search", "bisection", "--passes"],
        ["--dist", "constant"],
    ],
)
def test_bench_json(rtopk, gpus, flags):
    command = ["bench", "--shape", "3000x200x7", "--device", "cuda", "--repeats", 4, "--json", "-", *flags]
    report = json.loads(rtopk(*command).stdout)
    assert report["device"] == "cuda:0" and report["gpu"] == gpus[0]["name"]
    (result,) = report["results"]
    assert result["correct"] and result["rows_checked"] >= 32 and len(result["samples_ms"]) == 4
    for field in ("ms", "gb_per_s", "floor_ms", "times_floor"):
        assert result[field] > 0
    assert "nth_element_ms" not in result


def test_bench_needs_more_memory_than_there_is(refused, gpus):
    rows = gpus[0]["memory_bytes"] // 4096 + 1
    command = ["bench", "--shape", f"{rows}x1024x8", "--device", "cuda", "--json", "-"]
    refused(*command, says="not enough memory on the GPU")
