"""--device: what it accepts, its default, and the error without a GPU."""

import json

import numpy as np
import pytest

EVERY_COMMAND = [
    ["select", "--random", "4x4", "-k", "1"],
    ["verify", "--random", "4x4", "-k", "1"],
    ["bench", "--shape", "4x4x2"],
    ["plan", "--shape", "4x4x2"],
    ["study", "table1", "--rows", "2"],
    ["info"],
]


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: command[0])
def test_unknown_device(refused, command):
    for device in ("tpu", "cuda:", "cuda:-1", "cuda:x", "cuda:99999999999", "cpu:0", ""):
        refused(*command, "--device", device, says="none of cpu, cuda, cuda:N")


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: command[0])
def test_gpu_that_is_not_there(refused, gpus, command):
    accepted = f"accepted: cuda:0 to cuda:{len(gpus) - 1}" if gpus else "accepted: cpu"
    refused(*command, "--device", f"cuda:{len(gpus)}", says=accepted)
    if not gpus:
        refused(*command, "--device", "cuda", says=accepted)


def test_refused_selection_leaves_no_file(refused, gpus, tmp_path):
    refused(
        *["select", "--random", "4x4", "-k", 1, "--device", f"cuda:{len(gpus)}"],
        *["-o", tmp_path / "out.npz"],
        says="device is cuda",
    )


def test_default(rtopk, gpus):
    expected = "cuda:0" if gpus else "cpu:0"
    assert json.loads(rtopk("plan", "--shape", "100x100x3", "--json").stdout)["device"] == expected
    assert json.loads(rtopk("info", "--json").stdout)["device"] == ("cuda:0" if gpus else "cpu")
    assert f"--device {'cuda:0' if gpus else 'cpu'}" in rtopk("info").stdout
    bench = json.loads(rtopk("bench", "--shape", "10x10x1", "--repeats", 1, "--json", "-").stdout)
    assert bench["device"] == ("cuda:0" if gpus else "cpu")


def test_cpu_is_always_there(rtopk):
    assert json.loads(rtopk("plan", "--shape", "100x100x3", "--device", "cpu", "--json").stdout)["device"] == "cpu:0"
    assert json.loads(rtopk("info", "--device", "cpu", "--json").stdout)["gpus"] == []
    assert (
        "cpu on 1 thread)" in rtopk(*["select", "--random", "10x10", "-k", 1, "--device", "cpu", "--threads", 1]).stdout
    )


def test_chunks_do_not_matter(rtopk, tmp_path):
    outputs = set()
    for rows in (1, 7, 99, 100, 101, 2**62):
        rtopk("select", "--random", "100x33", "-k", 5, "--sorted", "--chunk-rows", rows, "-o", tmp_path / "out.npz")
        outputs.add((tmp_path / "out.npz").read_bytes())
        rtopk("verify", tmp_path / "out.npz", "--chunk-rows", rows)
    assert len(outputs) == 1


@pytest.mark.parametrize("rows", ["0", "-1", "many", "1.5"])
def test_bad_chunks(refused, rows):
    refused("select", "--random", "4x4", "-k", 1, "--chunk-rows", rows, says="--chunk-rows")
    refused("verify", "--random", "4x4", "-k", 1, "--chunk-rows", rows, says="--chunk-rows")


def test_verify_what_is_selected(rtopk, refused, tmp_path):
    """Without a saved selection, what this machine selects is verified; with one and --device, both are."""
    np.save(tmp_path / "in.npy", np.random.default_rng(1).standard_normal((90, 40)).astype(np.float32))
    for flags in (["--sorted"], ["--form", "mask"], ["--max-iter", 3, "--smallest"]):
        done = rtopk("verify", tmp_path / "in.npy", "-k", 4, *flags, "--chunk-rows", 17)
        assert done.stdout.startswith("OK: 90 rows") and "selected on c" in done.stdout
    assert "selected on cpu" in rtopk("verify", "--random", "90x40", "-k", 4, "--device", "cpu").stdout
    rtopk("select", tmp_path / "in.npy", "-k", 4, "-o", tmp_path / "out.npz")
    assert "selected on" not in rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz").stdout
    both = rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz", "--device", "cpu")
    assert "saved and selected on cpu" in both.stdout
    refused("verify", tmp_path / "in.npy", says="or -k to verify what is selected")
    refused("verify", "--random", "90x40", says="or -k to verify what is selected")
    refused("verify", tmp_path / "in.npy", "-k", 41, says="k is 41; accepted: 1 to cols, which is 40")


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--compute-capability", "91"], "91 is none of 80, 86, 89, 90"),
        (["--compute-capability", "0"], "--compute-capability"),
        (["--compute-capability", "90", "--device", "cpu"], "--device is cpu; accepted: cuda"),
        (["--multiprocessors", "10"], "--compute-capability"),
        (["--compute-capability", "90", "--multiprocessors", "0"], "--multiprocessors"),
    ],
)
def test_gpu_to_plan_for(refused, arguments, says):
    refused("plan", "--shape", "100x100x3", *arguments, says=says)


def test_plan_for_a_gpu_that_is_not_here(rtopk):
    command = ["plan", "--shape", "65536x256x32", "--compute-capability"]
    plans = [json.loads(rtopk(*command, capability, "--json").stdout) for capability in (80, 90)]
    for plan in plans:
        assert plan["device"] == "cuda:0" and plan["family"].startswith("cuda_") and plan["blocks"] > 0
    named = json.loads(rtopk(*command, 90, "--multiprocessors", 132, "--device", "cuda:3", "--json").stdout)
    assert named == plans[1] | {"device": "cuda:3"}
