"""`rtopk select` with general rows (lengths, starts, segments, k of each row, ids, magnitude), against NumPy."""

import json

import numpy as np
import pytest

from conftest import same_bits

RANDOM = np.random.default_rng(21)


def best_places(row, k, smallest=False, magnitude=False):
    """The places of the k best, best first; the first of equal ones."""
    keys = np.abs(row.astype(np.float64)) if magnitude else row.astype(np.float64)
    return np.argsort(keys if smallest else -keys, kind="stable")[:k]


def expect(rows, k, losing, indices=None, row_k=None, **how):
    """Values and indices of 1-D rows. `indices[i]` has the index of every element of row i."""
    values = np.full((len(rows), k), losing, rows[0].dtype if rows else np.float32)
    found = np.full((len(rows), k), -1, np.int64)
    for i, row in enumerate(rows):
        places = best_places(row, k if row_k is None else min(max(row_k[i], 0), k), **how)
        values[i, : len(places)] = row[places]
        found[i, : len(places)] = places if indices is None else indices[i][places]
    return values, found


@pytest.fixture
def select(rtopk, tmp_path):
    """Saves arrays as files, selects, and returns what was written."""

    def call(matrix, *arguments, k, files=(), **options):
        np.save(tmp_path / "in.npy", matrix)
        for name, numbers in dict(files).items():
            np.save(tmp_path / f"{name}.npy", numbers)
            arguments += (f"--{name}", tmp_path / f"{name}.npy")
        out = tmp_path / "out.npz"
        rtopk("select", tmp_path / "in.npy", "-k", k, "--sorted", "-o", out, *arguments, **options)
        return np.load(out)

    return call


def check(out, expected):
    values, indices = expected
    np.testing.assert_array_equal(out["indices"], indices)
    assert same_bits(out["values"], values)


@pytest.mark.parametrize("chunk", [[], ["--chunk-rows", 3]])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_lengths_and_starts(select, dtype, chunk):
    matrix = RANDOM.standard_normal((8, 40)).astype(np.float32)
    lengths = np.array([40, 0, 5, 4, 1, -3, 99, 20], dtype)
    starts = np.array([0, 0, 35, 38, 40, 3, -7, 10], dtype)
    begins = np.clip(starts, 0, 40)
    ends = begins + np.clip(lengths, 0, 40 - begins)
    rows = [row[begin:end] for row, begin, end in zip(matrix, begins, ends, strict=True)]
    columns = [np.arange(begin, end) for begin, end in zip(begins, ends, strict=True)]
    out = select(matrix, *chunk, k=5, files={"lengths": lengths, "starts": starts})
    check(out, expect(rows, 5, -np.inf, columns))
    whole = [row[:length] for row, length in zip(matrix, np.clip(lengths, 0, 40), strict=True)]
    check(select(matrix, *chunk, k=5, files={"lengths": lengths}), expect(whole, 5, -np.inf))


@pytest.mark.parametrize("smallest", [False, True])
def test_segments(select, smallest):
    flat = RANDOM.standard_normal(1000).astype(np.float32)
    offsets = np.sort(RANDOM.integers(0, 1001, 61))
    pieces = list(zip(offsets[:-1], offsets[1:], strict=True))
    rows = [flat[begin:end] for begin, end in pieces]
    places = [np.arange(begin, end) for begin, end in pieces]
    flags = ["--smallest"] if smallest else []
    expected = expect(rows, 4, np.nan if smallest else -np.inf, places, smallest=smallest)
    check(select(flat, *flags, k=4, files={"offsets": offsets}), expected)
    ids = RANDOM.integers(0, 2**40, 1000)
    expected = expect(rows, 4, np.nan if smallest else -np.inf, [ids[p] for p in places], smallest=smallest)
    check(select(flat, *flags, k=4, files={"offsets": offsets, "ids": ids}), expected)


def test_segments_that_are_not_there(select):
    out = select(np.zeros(0, np.float32), k=2, files={"offsets": np.zeros(4, np.int64)})
    check(out, expect([np.zeros(0, np.float32)] * 3, 2, -np.inf))
    out = select(np.arange(5, dtype=np.float32), k=2, files={"offsets": np.zeros(1, np.int64)})
    assert out["values"].shape == (0, 2)


def test_k_of_each_row_and_ids(select):
    matrix = RANDOM.standard_normal((6, 30)).astype(np.float64)
    row_k = np.array([0, 3, 7, 100, -1, 1])
    ids = RANDOM.integers(-5, 2**31, (6, 30))
    out = select(matrix, "--chunk-rows", 4, k=7, files={"row-k": row_k, "ids": ids})
    check(out, expect(list(matrix), 7, -np.inf, list(ids), row_k=row_k))


def test_magnitude_and_thresholds(select, tmp_path):
    matrix = RANDOM.standard_normal((9, 50)).astype(np.float32)
    thresholds = tmp_path / "kth.npy"
    out = select(matrix, "--magnitude", "--thresholds", thresholds, "--chunk-rows", 4, k=6)
    expected = expect(list(matrix), 6, 0.0, magnitude=True)
    check(out, expected)
    assert "thresholds" not in out
    assert same_bits(np.load(thresholds), expected[0][:, -1])
    lengths = np.full(9, 5)
    select(matrix.reshape(3, 3, 50), "--thresholds", thresholds, k=6, files={"lengths": lengths})
    assert same_bits(np.load(thresholds), np.full((3, 3), -np.inf, np.float32))


def test_dense_with_lengths(rtopk, tmp_path):
    matrix = RANDOM.standard_normal((4, 20)).astype(np.float32)
    lengths = np.array([20, 3, 0, 10])
    np.save(tmp_path / "in.npy", matrix)
    np.save(tmp_path / "lengths.npy", lengths)
    out = tmp_path / "out.npz"
    rtopk("select", tmp_path / "in.npy", "-k", 5, "--form", "dense", "-o", out, "--lengths", tmp_path / "lengths.npy")
    expected = np.zeros_like(matrix)
    for row, (of_row, length) in enumerate(zip(matrix, lengths, strict=True)):
        places = best_places(of_row[:length], 5)
        expected[row, places] = of_row[places]
    assert same_bits(np.load(out)["dense"], expected)


def test_verify_says_what_it_does_not_know(select, rtopk, tmp_path):
    out = select(np.zeros((2, 9), np.float32), "--magnitude", k=2, files={"lengths": np.array([3, 9])})
    assert json.loads(str(out["meta"]))["general_rows"] == "--lengths --magnitude"
    done = rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz", code=2)
    assert "--lengths --magnitude" in done.stderr


def test_bad_files(refused, tmp_path):
    np.save(tmp_path / "in.npy", np.zeros((4, 9), np.float32))
    np.save(tmp_path / "flat.npy", np.zeros(9, np.float32))
    np.save(tmp_path / "three.npy", np.arange(3))
    np.save(tmp_path / "four.npy", np.arange(4))
    np.save(tmp_path / "none.npy", np.zeros(0, np.int64))
    np.save(tmp_path / "floats.npy", np.zeros(4))
    np.save(tmp_path / "small.npy", np.zeros(4, np.int16))
    np.save(tmp_path / "big_endian.npy", np.zeros(4, ">i8"))
    (tmp_path / "text.npy").write_text("no numbers")
    matrix = ["select", tmp_path / "in.npy", "-k", 2, "-o", tmp_path / "out.npz"]
    flat = ["select", tmp_path / "flat.npy", "-k", 2, "-o", tmp_path / "out.npz"]
    for option in ["--lengths", "--starts", "--row-k"]:
        refused(*matrix, option, tmp_path / "three.npy", says=f"{option} '{tmp_path}/three.npy' has 3 numbers")
    refused(*matrix, "--ids", tmp_path / "four.npy", says="accepted: 36, one for each element")
    for name in ["floats", "small", "big_endian"]:
        refused(*matrix, "--lengths", tmp_path / f"{name}.npy", says="accepted: little-endian int32 or int64")
    refused(*matrix, "--starts", tmp_path / "text.npy", says="--starts")
    refused(*matrix, "--lengths", tmp_path / "missing.npy", says="missing.npy")
    refused(*matrix, "--offsets", tmp_path / "four.npy", says="--offsets needs a flat input")
    refused(*flat, "--offsets", tmp_path / "none.npy", says="--offsets")
    refused(*flat, "--offsets", tmp_path / "four.npy", "--row-k", tmp_path / "four.npy", says="one for each segment")
    refused(*flat, "--offsets", tmp_path / "four.npy", "--form", "dense", says="form")
    refused(*matrix, "--lengths", tmp_path / "four.npy", "--form", "cbsr", says="form")
    both = ["--offsets", tmp_path / "four.npy", "--lengths", tmp_path / "four.npy"]
    refused(*flat, *both, says="--offsets")
    refused(*matrix, "--thresholds", tmp_path / "out.npz", says="--thresholds")


def test_plans_of_general_rows(rtopk):
    arguments = ["plan", "--shape", "64x20000x100", "--device", "cpu", "--json"]
    plan = json.loads(rtopk(*arguments, "--ragged", "--magnitude").stdout)
    assert plan["lengths"] == "i32" and plan["magnitude"] == "on"
    assert "lengths" not in json.loads(rtopk(*arguments).stdout)
