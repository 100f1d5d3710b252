"""Whatever is wrong with the input: one clear line on stderr, exit code 2, no output file."""

import os

import numpy as np
import pytest


@pytest.fixture
def refused_content(refused, tmp_path):
    def call(content, says):
        (tmp_path / "in.npy").write_bytes(content)
        refused("select", tmp_path / "in.npy", "-k", 1, "-o", tmp_path / "out.npz", says=says)

    return call


@pytest.fixture
def refused_array(refused, tmp_path):
    def call(array, says, *flags):
        np.save(tmp_path / "in.npy", array)
        refused("select", tmp_path / "in.npy", "-k", 1, "-o", tmp_path / "out.npz", *flags, says=says)

    return call


def npy(header, data=b"\0" * 64):
    header = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def test_unreadable(refused, tmp_path):
    refused("select", tmp_path / "none.npy", "-k", 1, says="No such file or directory")
    refused("select", tmp_path, "-k", 1, says="it is a directory")
    refused("select", "", "-k", 1, says="an input is needed")
    os.mkfifo(tmp_path / "pipe.npy")
    refused("select", tmp_path / "pipe.npy", "-k", 1, says="not a regular file")
    refused("select", "/dev/zero", "-k", 1, says="not a regular file")
    if os.geteuid() != 0:
        (tmp_path / "secret.npy").touch(mode=0)
        refused("select", tmp_path / "secret.npy", "-k", 1, says="Permission denied")


def test_name_with_a_line_break(refused, tmp_path):
    refused("select", tmp_path / "a\nb.npy", "-k", 1, says="No such file")


def test_foreign(refused_content):
    refused_content(b"", "it is empty")
    refused_content(b"\x93NUM", "not a .npy file")
    refused_content(b"PK\x03\x04" + b"\0" * 100, "not a .npy file")
    refused_content(b"1,2,3\n4,5,6\n" * 100, "not a .npy file")
    refused_content(b"\x93NUMPY\x04\x00" + b"\0" * 100, "version 4")


def test_truncated(refused_content, tmp_path):
    np.save(tmp_path / "whole.npy", np.zeros((100, 100), np.float32))
    whole = (tmp_path / "whole.npy").read_bytes()
    for size in (7, 8, 9, 11, 12, 60, 127):
        refused_content(whole[:size], "truncated .npy file: it ends within its header")
    for size in (128, 5000, len(whole) - 1):
        refused_content(whole[:size], "its header promises 40000 bytes of data")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "{",
        "}",
        "{}",
        "[]",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)} x",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 4}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 2)}",
        "{'descr': '', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '<', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': 4, 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'more': 1}",
        "{'descr': '<f\\n', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 65 + ")}",
    ],
)
def test_malformed_header(refused_content, header):
    refused_content(npy(header), "malformed .npy header")


def test_zero_extent_does_not_hide_overflow(refused_content):
    big = "4611686018427387904"
    refused_content(npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({big}, {big}, 0)}}"), "too many rows")


@pytest.mark.parametrize(
    "dtype",
    [
        "int8",
        "uint8",
        "int16",
        "uint16",
        "uint32",
        "int64",
        "uint64",
        "bool",
        "complex64",
        "longdouble",
        "S4",
        "U4",
        "M8[ns]",
        "V3",
    ],
)
def test_wrong_dtype(refused_array, dtype):
    refused_array(np.zeros((4, 4), dtype), "float32, float16, float64 and int32 are read")


def test_structured_dtype(refused_array):
    refused_array(np.zeros((4, 4), [("a", "f4"), ("b", "f4")]), "structured dtype")


def test_dtype_flag_disagrees(refused_array):
    refused_array(np.zeros((4, 4), np.float32), "which is f32, not f16", "--dtype", "f16")
    refused_array(np.zeros((4, 4), np.float16), "which is f16, not bf16", "--dtype", "bf16")


def test_big_endian_and_fortran(refused_array):
    refused_array(np.zeros((4, 4), ">f4"), "big-endian")
    refused_array(np.asfortranarray(np.zeros((4, 5), np.float32)), "Fortran order")


def test_not_a_matrix(refused_array):
    refused_array(np.float32(3), "a single number")
    refused_array(np.zeros((4, 0), np.float32), "cols is 0")


@pytest.mark.parametrize("k", [0, -1, 5, 2**62])
def test_k_out_of_range(refused, tmp_path, k):
    np.save(tmp_path / "in.npy", np.zeros((3, 4), np.float32))
    refused("select", tmp_path / "in.npy", "-k", k, "-o", tmp_path / "out.npz", says=f"k is {k}; accepted: 1 to cols")


@pytest.mark.parametrize(
    "arguments, says",
    [
        ([], "a command is needed"),
        (["frobnicate"], "frobnicate"),
        (["select", "--random", "4x4"], "-k is needed"),
        (["select", "-k", "1"], "an input is needed"),
        (["select", "in.npy", "--random", "4x4", "-k", "1"], "both a file and --random"),
        (["select", "--random", "4x4", "-k", "many"], "many"),
        (["select", "--random", "4x4", "-k"], "-k"),
        (["select", "--random", "4x4", "-k", "1", "--frobnicate"], "--frobnicate"),
        (["select", "--random", "4", "-k", "1"], "not a shape such as"),
        (["select", "--random", "4x4x4", "-k", "1"], "not a shape such as"),
        (["select", "--random", "-4x4", "-k", "1"], "not a shape such as"),
        (["select", "--random", "4x99999999999999999999", "-k", "1"], "not a shape such as"),
        (["select", "--random", "9223372036854775807x9223372036854775807", "-k", "1"], "too large"),
        (["select", "--random", "4x4", "-k", "1", "--dist", "cauchy"], "none of normal, uniform"),
        (["select", "--random", "4x4", "-k", "1", "--form", "sparse"], "none of pairs, dense, mask, cbsr"),
        (["select", "--random", "4x4", "-k", "1", "--order", "up"], "none of unsorted, by_value, by_index"),
        (["select", "--random", "4x4", "-k", "1", "--dtype", "f8"], "none of f32"),
        (["select", "--random", "4x4", "-k", "1", "--sorted", "--order", "by_index"], "excludes"),
        (["select", "--random", "4x4", "-k", "1", "--sorted", "--form", "mask"], "order is by_value"),
        (["select", "--random", "4x4", "-k", "1", "--max-iter", "3", "--epsilon", "0.1"], "excludes"),
        (["select", "--random", "4x4", "-k", "1", "--max-iter", "-1"], "max_iter is -1"),
        (["select", "--random", "4x4", "-k", "1", "--max-iter", "3", "--rule", "last"], "of threshold_first, printed"),
        (["select", "--random", "4x4", "-k", "1", "--rule", "printed"], "--rule requires --max-iter"),
        (["plan", "--shape", "4x4x1", "--epsilon", "0.1", "--rule", "printed"], "--rule requires --max-iter"),
        (["select", "--random", "4x4", "-k", "1", "--epsilon", "2"], "epsilon is 2"),
        (["select", "--random", "4x4", "-k", "1", "--epsilon", "nan"], "epsilon"),
        (["select", "--random", "4x4", "-k", "1", "--no-values", "--no-indices"], "both off"),
        (["select", "--random", "4x4", "-k", "1", "--index-type", "u8"], "accepted for form pairs: i32 or i64"),
        (["select", "--random", "4x4", "-k", "1", "--threads", "0"], "--threads"),
        (["select", "--dist", "ties", "-k", "1"], "--random"),
        (["select", "--random", "4x70000", "-k", "1", "--form", "cbsr"], "65536"),
        (["plan"], "--shape"),
        (["plan", "--shape", "4x4"], "not a shape such as"),
        (["plan", "--shape", "4x4x5"], "k is 5"),
        (["bench"], "nothing to time"),
        (["bench", "--grid", "huge"], "none of paper, sweep, small, large"),
        (["bench", "--shape", "4x4x2", "--shape", "4x4x5"], "shape 4x4x5: k is 5"),
        (["bench", "--shape", "0x4x2"], "nothing to time without rows"),
        (["bench", "--shape", "4x4x2", "--repeats", "0"], "--repeats"),
        (["bench", "--shape", "4x4x2", "--json", "/nonexistent/x.json"], "cannot write"),
        (["info", "extra"], "extra"),
    ],
)
def test_bad_command_lines(refused, arguments, says):
    refused(*arguments, says=says)


def test_more_threads_than_memory_or_rows(rtopk):
    rtopk("select", "--random", "3x4", "-k", 1, "--threads", 64)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["select", "--help"],
        ["verify", "--help"],
        ["bench", "--help"],
        ["plan", "--help"],
        ["study", "--help"],
        ["info", "--help"],
    ],
)
def test_help(rtopk, arguments):
    done = rtopk(*arguments)
    assert done.stderr == "" and "Usage: rtopk" in done.stdout
    assert arguments[0] == "info" or "Examples:" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 115
