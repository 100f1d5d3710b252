"""Hostile files: they must cost little time and memory, and print nothing harmful on a terminal."""

import json
import os
import resource
import struct
import zipfile

import numpy as np
import pytest

from conftest import top_indices

HOSTILE = "\x1b]0;owned\x07\x1b[31m\r\n\x7f\u009b2J\u202e"
MEMORY = 500 << 20  # of its own memory, without mapped files


def limited():
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def is_harmless(text):
    """Whether a text has printable characters and line ends only."""
    return text.endswith("\n") and all(c.isprintable() for c in text[:-1])


def test_names_on_the_terminal(refused, rtopk, tmp_path):
    name = tmp_path / f"a{HOSTILE}b.npz"
    text = refused("select", name, "-k", 1, says="No such file")
    assert is_harmless(text) and "a\\x1b]0;owned\\x07\\x1b[31m\\x0d\\x0a\\x7f\\xc2\\x9b2J\\xe2\\x80\\xaeb.npz" in text
    assert is_harmless(refused("select", f"--{HOSTILE}"))
    assert is_harmless(refused("study", HOSTILE))
    assert is_harmless(refused("plan", "--shape", HOSTILE))
    assert is_harmless(refused("bench", "--grid", HOSTILE))
    for command in (
        ["select", "--random", "5x5", "-k", 1, "-o", name],
        ["bench", "--shape", "5x5x1", "--repeats", 1, "--json", name],
        ["study", "table1", "--rows", 10, "--json", name],
    ):
        assert all(c.isprintable() for c in rtopk(*command).stdout.replace("\n", "")), command
    folder = tmp_path / HOSTILE
    folder.mkdir()
    assert is_harmless(refused("select", "--random", "5x5", "-k", 1, "-o", folder, says="it is a directory"))


def test_names_that_are_not_utf8(refused, tmp_path):
    done = refused("select", os.fsencode(tmp_path) + b"/\xff\x9b\xc3.npy", "-k", 1, says="\\xff\\x9b\\xc3.npy")
    assert is_harmless(done)
    assert "\u00e9\u4e2d" in refused("select", tmp_path / "\u00e9\u4e2d", "-k", 1)


@pytest.fixture
def saved(rtopk, tmp_path):
    """A saved selection and its arrays, to be changed."""
    np.save(tmp_path / "in.npy", np.random.default_rng(1).standard_normal((20, 30)).astype(np.float32))
    rtopk("select", tmp_path / "in.npy", "-k", 3, "-o", tmp_path / "out.npz")
    return dict(np.load(tmp_path / "out.npz"))


@pytest.fixture
def save_with_meta(tmp_path, saved):
    """Saves the selection with another meta text."""

    def call(change):
        meta = json.loads(str(saved["meta"]))
        change(meta)
        np.savez(tmp_path / "bad.npz", **(saved | {"meta": np.array(json.dumps(meta))}))

    return call


@pytest.fixture
def refused_meta(refused, tmp_path, save_with_meta):
    """Saves the selection with another meta text, and has it refused."""

    def call(change, says):
        save_with_meta(change)
        return refused("verify", tmp_path / "in.npy", tmp_path / "bad.npz", says=says)

    return call


def test_meta_on_the_terminal(refused, save_with_meta, tmp_path):
    save_with_meta(lambda meta: meta.update(input={"file": HOSTILE}))
    assert is_harmless(refused("verify", tmp_path / "bad.npz", says="give that file first"))


@pytest.mark.parametrize("key", ["rows", "cols", "k", "max_iter"])
@pytest.mark.parametrize("value", [1e300, 1e19, -1, 1.5, 2**63, 2**64, -(2**63), "3", True, None, [3], {HOSTILE: 3}])
def test_meta_with_other_numbers(refused_meta, key, value):
    text = refused_meta(lambda meta: meta.update({key: value}), "meta")
    assert is_harmless(text) and (f"'{key}'; accepted: a whole number from 0 to" in text)


@pytest.mark.parametrize("value", [2**31, 2**32, 2**32 + 1])
def test_meta_with_a_number_past_32_bits(refused_meta, value):
    """2^32 would become 0: an exact selection."""
    refused_meta(lambda meta: meta.update(max_iter=value), f"{value} as 'max_iter'; accepted: a whole number from 0 to")


@pytest.mark.parametrize("value", [-1, 2, 1e300, "0", None, True])
def test_meta_with_another_epsilon(refused_meta, value):
    refused_meta(lambda meta: meta.update(epsilon=value), "")


@pytest.mark.parametrize(
    ("value", "says"),
    [("last", "an unknown value of 'rule'"), ("", "'rule'"), (1, "not a text that this program has written")],
)
def test_meta_with_another_rule(refused_meta, value, says):
    refused_meta(lambda meta: meta.update(rule=value), says)


@pytest.mark.parametrize("key", ["max_iter", "rule", "search"])
def test_meta_without_a_member(refused_meta, key):
    refused_meta(lambda meta: meta.pop(key), "not a text that this program has written")


@pytest.mark.parametrize("value", [-1, 1.5, 1e300, 2**64, "7", None])
def test_meta_with_another_seed(refused_meta, value):
    def change(meta):
        meta["input"] = {"random": "normal", "seed": value}

    refused_meta(change, "'seed'")


def test_meta_with_a_random_matrix_that_no_memory_holds(refused_meta, refused, tmp_path):
    def change(meta):
        meta.update(cols=2**50, input={"random": "normal", "seed": 1})

    refused_meta(change, "the input is 20x30")
    refused("verify", tmp_path / "bad.npz", says="too large: this machine has")


def test_meta_that_is_no_text_of_ours(refused, tmp_path, saved):
    for meta, says in (
        (np.array("x" * 100_000), "accepted: at most 262144"),
        (np.array("\u0122rows\u0122: 1"), "not a text that this program has written"),
        (np.array("[" * 60_000), "not a text that this program has written"),
        (np.array("{}"), "not a text that this program has written"),
        (np.array(["a", "b"]), "is not a text"),
        (np.arange(5), "is not a text"),
    ):
        np.savez(tmp_path / "bad.npz", **(saved | {"meta": meta}))
        refused("verify", tmp_path / "in.npy", tmp_path / "bad.npz", says=says)


@pytest.mark.parametrize("length", [65536, 3 << 30])
def test_npy_header_of_any_length(refused, tmp_path, length):
    """A header of 3 GB, which takes no room on the disk, would take twice that in memory."""
    path = tmp_path / "in.npy"
    with path.open("wb") as file:
        file.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", length) + b"{'descr': '")
        file.truncate(12 + length)
    refused("select", path, "-k", 1, says=f"{length} bytes; accepted: at most 65535", preexec_fn=limited)


def test_longest_npy_header(rtopk, tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }".ljust(65534) + b"\n"
    (tmp_path / "in.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\0" * 16)
    rtopk("select", tmp_path / "in.npy", "-k", 1)


def archive(path, arrays):
    """A .npz file, and where its directory begins."""
    np.savez(path, **arrays)
    content = path.read_bytes()
    return content, struct.unpack("<I", content[-6:-2])[0]


def with_directory(content, at, records):
    directory = b"".join(records)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, len(records), len(records), len(directory), at, 0)
    return content[:at] + directory + end


def directory_records(content, at):
    records = []
    while content[at : at + 4] == b"PK\x01\x02":
        size = 46 + sum(struct.unpack("<HHH", content[at + 28 : at + 34]))
        records.append(content[at : at + size])
        at += size
    return records


def good_arrays(matrix):
    indices = top_indices(matrix, 3)
    return {"values": np.take_along_axis(matrix, indices, axis=1), "indices": indices}


@pytest.fixture
def matrix(tmp_path):
    matrix = np.random.default_rng(2).standard_normal((20, 30)).astype(np.float32)
    np.save(tmp_path / "in.npy", matrix)
    return matrix


def test_entries_that_overlap(refused, tmp_path, matrix):
    """The same bytes under a thousand names, or a thousand times under one, would be read a thousand times."""
    bad = tmp_path / "bad.npz"
    content, at = archive(bad, good_arrays(matrix) | {"more": matrix})
    records = directory_records(content, at)
    bad.write_bytes(with_directory(content, at, records + [records[2]] * 1000))
    refused("verify", tmp_path / "in.npy", bad, says="two entries overlap")
    bad.write_bytes(with_directory(content, at, records + [records[0]]))
    refused("verify", tmp_path / "in.npy", bad, says="two arrays of the same name")
    # An entry within another one.
    inner, inner_at = archive(tmp_path / "inner.npz", {"inner": np.zeros(9)})
    outer = good_arrays(matrix) | {"outer": np.frombuffer(inner[:inner_at], np.uint8)}
    content, at = archive(bad, outer)
    (record,) = directory_records(inner, inner_at)
    moved = record[:42] + struct.pack("<I", content.index(inner[:inner_at])) + record[46:]
    bad.write_bytes(with_directory(content, at, directory_records(content, at) + [moved]))
    refused("verify", tmp_path / "in.npy", bad, says="two entries overlap")


def test_more_entries_than_any_file_has(refused, tmp_path, matrix):
    bad = tmp_path / "bad.npz"
    content, at = archive(bad, good_arrays(matrix))
    (record, other) = directory_records(content, at)
    directory = other + record * 65535
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 65536, 65536, len(directory), at)
    locator = struct.pack("<IIQI", 0x07064B50, 0, at + len(directory), 1)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    bad.write_bytes(content[:at] + directory + end64 + locator + end)
    refused("verify", tmp_path / "in.npy", bad, says="65536 entries; accepted: at most 65535")


def test_entries_that_nobody_asked_for_are_not_read(rtopk, tmp_path, matrix):
    out = tmp_path / "out.npz"
    np.savez(out, **good_arrays(matrix), more=matrix)
    with zipfile.ZipFile(out, "a") as file:
        file.writestr("bomb.npy", bytes(1 << 24), compress_type=zipfile.ZIP_DEFLATED)
        file.writestr("broken.npy", b"\x93NUMPY nonsense")
        file.writestr("notes.txt", b"nothing to do with it")
    content = bytearray(out.read_bytes())
    content[content.index(matrix.tobytes()[:64])] ^= 1  # its checksum is wrong now
    out.write_bytes(content)
    rtopk("verify", tmp_path / "in.npy", out, preexec_fn=limited)


def test_an_array_of_another_size_is_not_read(refused, tmp_path, matrix):
    """Not even its checksum is computed: its header already shows that it does not fit."""
    out = tmp_path / "out.npz"
    np.savez(out, **(good_arrays(matrix) | {"indices": np.zeros((1000, 3), np.int64)}))
    content = bytearray(out.read_bytes())
    content[content.index(b"\0" * 5000)] ^= 1
    out.write_bytes(content)
    refused("verify", tmp_path / "in.npy", out, says="has shape (1000, 3), not (20, 3)")


def test_damaged_array(refused, tmp_path, matrix):
    out = tmp_path / "out.npz"
    arrays = good_arrays(matrix)
    np.savez(out, **arrays)
    content = bytearray(out.read_bytes())
    content[content.index(arrays["values"].tobytes())] ^= 1
    out.write_bytes(content)
    refused("verify", tmp_path / "in.npy", out, says="the checksum of its array 'values' is wrong")
