"""What `rtopk select` writes, against NumPy."""

import json
import zipfile

import numpy as np
import pytest

from conftest import bf16_to_float, same_bits, top_indices

DTYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i32": np.int32}


def tricky_matrix(dtype, rows=37, cols=53, seed=1):
    random = np.random.default_rng(seed)
    matrix = (random.standard_normal((rows, cols)) * 100).astype(dtype)
    matrix[1] = 3  # all equal
    matrix[2] = random.integers(-3, 3, cols)  # many ties
    if np.issubdtype(dtype, np.floating):
        matrix[3, ::5] = np.nan
        matrix[4, ::7] = np.inf
        matrix[5, ::3] = -np.inf
        matrix[6] = 0.0
        matrix[6, ::2] = -0.0
        matrix[7] = np.nan
        matrix[8] *= np.finfo(dtype).tiny
    else:
        matrix[3, ::5] = np.iinfo(dtype).max
        matrix[4, ::5] = np.iinfo(dtype).min
    return matrix


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("smallest", [False, True])
@pytest.mark.parametrize("order", ["by_value", "by_index"])
def test_pairs(rtopk, tmp_path, dtype, smallest, order):
    matrix = tricky_matrix(DTYPES[dtype])
    np.save(tmp_path / "in.npy", matrix)
    for k in (1, 7, 53):
        flags = ["--order", order] + (["--smallest"] if smallest else [])
        rtopk("select", tmp_path / "in.npy", "-k", k, "-o", tmp_path / "out.npz", *flags)
        out = np.load(tmp_path / "out.npz")
        expected = top_indices(matrix, k, order, smallest)
        assert out["indices"].dtype == np.int64
        np.testing.assert_array_equal(out["indices"], expected)
        assert same_bits(out["values"], np.take_along_axis(matrix, expected, axis=1))
        rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")


def test_unsorted_is_the_same_set(rtopk, tmp_path):
    matrix = tricky_matrix(np.float32)
    np.save(tmp_path / "in.npy", matrix)
    rtopk("select", tmp_path / "in.npy", "-k", 9, "-o", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(np.sort(out["indices"], axis=1), top_indices(matrix, 9))
    assert same_bits(out["values"], np.take_along_axis(matrix, out["indices"], axis=1))


def test_sorted_is_order_by_value(rtopk, tmp_path):
    matrix = tricky_matrix(np.float32)
    np.save(tmp_path / "in.npy", matrix)
    rtopk("select", tmp_path / "in.npy", "-k", 5, "--sorted", "-o", tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["indices"], top_indices(matrix, 5, "by_value"))


def test_index_type_and_parts(rtopk, tmp_path):
    np.save(tmp_path / "in.npy", tricky_matrix(np.float32))
    rtopk("select", tmp_path / "in.npy", "-k", 5, "--index-type", "i32", "--no-values", "-o", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    assert sorted(out.files) == ["indices", "meta"] and out["indices"].dtype == np.int32
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")
    for order in ("unsorted", "by_value", "by_index"):
        rtopk("select", tmp_path / "in.npy", "-k", 5, "--no-indices", "--order", order, "-o", tmp_path / "out.npz")
        assert sorted(np.load(tmp_path / "out.npz").files) == ["meta", "values"]
        rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")


@pytest.mark.parametrize("dtype", DTYPES)
def test_dense_and_mask(rtopk, tmp_path, dtype):
    matrix = tricky_matrix(DTYPES[dtype])
    np.save(tmp_path / "in.npy", matrix)
    mask = np.zeros(matrix.shape, np.uint8)
    np.put_along_axis(mask, top_indices(matrix, 6), 1, axis=1)
    rtopk("select", tmp_path / "in.npy", "-k", 6, "--form", "mask", "-o", tmp_path / "out.npz")
    assert same_bits(np.load(tmp_path / "out.npz")["mask"], mask)
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")
    rtopk("select", tmp_path / "in.npy", "-k", 6, "--form", "dense", "-o", tmp_path / "out.npz")
    assert same_bits(np.load(tmp_path / "out.npz")["dense"], np.where(mask, matrix, matrix.dtype.type(0)))
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")


@pytest.mark.parametrize("cols, selector", [(256, np.uint8), (257, np.uint16)])
def test_cbsr(rtopk, tmp_path, cols, selector):
    matrix = np.random.default_rng(2).standard_normal((20, cols)).astype(np.float32)
    np.save(tmp_path / "in.npy", matrix)
    rtopk("select", tmp_path / "in.npy", "-k", 11, "--form", "cbsr", "-o", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    assert out["selectors"].dtype == selector
    np.testing.assert_array_equal(np.sort(out["selectors"], axis=1), top_indices(matrix, 11))
    assert same_bits(out["values"], np.take_along_axis(matrix, out["selectors"].astype(np.int64), axis=1))
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")


def test_bf16_is_uint16(rtopk, refused, tmp_path):
    bits = np.random.default_rng(3).integers(0, 1 << 16, (30, 100)).astype(np.uint16)
    np.save(tmp_path / "in.npy", bits)
    refused("select", tmp_path / "in.npy", "-k", 4, says="--dtype bf16")
    rtopk("select", tmp_path / "in.npy", "-k", 4, "--dtype", "bf16", "--sorted", "-o", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    expected = top_indices(bf16_to_float(bits), 4, "by_value")
    np.testing.assert_array_equal(out["indices"], expected)
    assert same_bits(out["values"], np.take_along_axis(bits, expected, axis=1))
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")
    np.save(tmp_path / "void.npy", bits.view("V2"))  # what some packages write for bfloat16
    rtopk("verify", tmp_path / "void.npy", tmp_path / "out.npz")


@pytest.mark.parametrize(
    "mode",
    [
        ["--max-iter", 1],
        ["--max-iter", 4],
        ["--max-iter", 1, "--rule", "printed"],
        ["--max-iter", 4, "--rule", "printed"],
        ["--epsilon", 0.1],
        ["--epsilon", 1e-3],
    ],
)
@pytest.mark.parametrize("form", ["pairs", "dense", "mask", "cbsr"])
def test_early_stopping(rtopk, tmp_path, mode, form):
    np.save(tmp_path / "in.npy", np.random.default_rng(4).standard_normal((200, 96)).astype(np.float32))
    rtopk("select", tmp_path / "in.npy", "-k", 12, *mode, "--form", form, "--passes", "-o", tmp_path / "out.npz")
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")
    passes = np.load(tmp_path / "out.npz")["passes"]
    assert passes.dtype == np.int32 and passes.shape == (200,) and passes.min() >= 0
    if mode[0] == "--max-iter":
        assert passes.max() <= mode[1]


def test_early_stopping_differs_from_exact(rtopk, tmp_path):
    """One pass cannot give the exact selection, so an equal result would mean that the option is ignored."""
    np.save(tmp_path / "in.npy", np.random.default_rng(4).standard_normal((200, 96)).astype(np.float32))
    rtopk("select", tmp_path / "in.npy", "-k", 12, "--max-iter", 1, "-o", tmp_path / "out.npz")
    done = rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz", "--max-iter", 0, code=1)
    assert "was left out but is greater" in done.stdout


@pytest.mark.parametrize(
    ("max_iter", "rule", "expected"),
    [
        (1, None, [0, 3, 5]),  # threshold 4: 8 and 5 reach it, then the first below
        (1, "threshold_first", [0, 3, 5]),
        (1, "printed", [0, 1, 2]),  # the lower bound is still 0
        (2, "threshold_first", [0, 2, 3]),  # threshold 2: five reach it
        (2, "printed", [0, 2, 3]),
        (3, "threshold_first", [2, 3, 5]),  # threshold 3: exactly three
        (3, "printed", [2, 3, 5]),
    ],
)
def test_rule_of_early_stopping(rtopk, tmp_path, max_iter, rule, expected):
    np.save(tmp_path / "in.npy", np.array([[2, 0, 3, 8, 2.5, 5, 1]], np.float32))
    flags = ["--max-iter", max_iter, *(["--rule", rule] if rule else []), "--order", "by_index"]
    done = rtopk("select", tmp_path / "in.npy", "-k", 3, *flags, "-o", tmp_path / "out.npz")
    rule = rule or "threshold_first"
    assert f", max_iter {max_iter} ({rule}) (" in done.stdout
    out = np.load(tmp_path / "out.npz")
    assert out["indices"].tolist() == [expected]
    meta = json.loads(str(out["meta"]))
    assert (meta["max_iter"], meta["rule"]) == (max_iter, rule)
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")


def test_bisection_is_exact(rtopk, tmp_path):
    matrix = tricky_matrix(np.float32)
    np.save(tmp_path / "in.npy", matrix)
    rtopk(
        "select",
        tmp_path / "in.npy",
        "-k",
        9,
        "--search",
        "bisection",
        "--order",
        "by_index",
        "--passes",
        "-o",
        tmp_path / "out.npz",
    )
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["indices"], top_indices(matrix, 9))
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")


@pytest.mark.parametrize(
    "shape, out_shape",
    [((40,), (5,)), ((2, 3, 40), (2, 3, 5)), ((0, 40), (0, 5)), ((3, 0, 40), (3, 0, 5)), ((1, 40), (1, 5))],
)
def test_shapes(rtopk, tmp_path, shape, out_shape):
    matrix = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    np.save(tmp_path / "in.npy", matrix)
    rtopk("select", tmp_path / "in.npy", "-k", 5, "--sorted", "--passes", "-o", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    assert out["values"].shape == out_shape and out["passes"].shape == out_shape[:-1]
    np.testing.assert_array_equal(out["indices"], top_indices(matrix, 5, "by_value").reshape(out_shape))
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")


def test_many_chunks_and_threads(rtopk, tmp_path):
    matrix = np.random.default_rng(6).standard_normal((30000, 700)).astype(np.float32)  # 84 MB: several chunks
    np.save(tmp_path / "in.npy", matrix)
    for threads in (1, 2, 5):
        rtopk(
            "select",
            tmp_path / "in.npy",
            "-k",
            3,
            "--order",
            "by_index",
            "--threads",
            threads,
            "-o",
            tmp_path / "out.npz",
        )
        expected = np.sort(np.argpartition(-matrix, 3, axis=1)[:, :3], axis=1)
        np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["indices"], expected)


def test_one_dimension_in_fortran_order_is_fine(rtopk, tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': True, 'shape': (4,), }"
    header += b" " * (118 - 1 - len(header)) + b"\n"
    data = np.array([1, 4, 2, 3], np.float32)
    (tmp_path / "in.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data.tobytes()
    )
    rtopk("select", tmp_path / "in.npy", "-k", 2, "--sorted", "-o", tmp_path / "out.npz")
    assert np.load(tmp_path / "out.npz")["indices"].tolist() == [1, 3]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 3])
def test_any_header_length(rtopk, tmp_path, version, padding):
    """NumPy aligns its data, other writers may not: elements may be at any address."""
    header = b'{"descr":"<f8","fortran_order":False,"shape":(2L,3)}' + b" " * padding + b"\n"
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    data = np.array([[1, 5, 3], [9, 7, 8]], np.float64)
    content = b"\x93NUMPY" + bytes([version, 0]) + length + header + data.tobytes()
    (tmp_path / "in.npy").write_bytes(content)
    rtopk("select", tmp_path / "in.npy", "-k", 1, "-o", tmp_path / "out.npz")
    assert np.load(tmp_path / "out.npz")["values"].tolist() == [[5], [9]]
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")


def test_meta_says_how_it_was_made(rtopk, tmp_path):
    np.save(tmp_path / "in.npy", tricky_matrix(np.float32))
    rtopk("select", tmp_path / "in.npy", "-k", 5, "--epsilon", 0.1, "--smallest", "-o", tmp_path / "out.npz")
    meta = json.loads(str(np.load(tmp_path / "out.npz")["meta"]))
    assert meta["program"] == "rtopk" and meta["k"] == 5 and meta["epsilon"] == 0.1 and meta["direction"] == "smallest"
    assert meta["input"] == {"file": str(tmp_path / "in.npy")}


def test_archive_is_sound(rtopk, tmp_path):
    np.save(tmp_path / "in.npy", tricky_matrix(np.float32))
    rtopk("select", tmp_path / "in.npy", "-k", 5, "--passes", "-o", tmp_path / "out.npz")
    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        assert archive.testzip() is None  # every checksum
        assert [entry.filename for entry in archive.infolist()] == [
            "values.npy",
            "indices.npy",
            "passes.npy",
            "meta.npy",
        ]
        for entry in archive.infolist():  # aligned, so that elements can be used in place
            local = (tmp_path / "out.npz").read_bytes()[entry.header_offset :][:30]
            start = (
                entry.header_offset
                + 30
                + int.from_bytes(local[26:28], "little")
                + int.from_bytes(local[28:30], "little")
            )
            assert start % 64 == 0


def test_same_input_same_bytes(rtopk, tmp_path):
    for out in ("a.npz", "b.npz"):
        rtopk("select", "--random", "500x80", "-k", 5, "--threads", len(out), "-o", tmp_path / out)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_summary_and_preview(rtopk, tmp_path):
    done = rtopk("select", "--random", "500x80", "-k", 5)
    assert "row 0:" in done.stdout and "GB/s" in done.stdout and "passes per row" in done.stdout and done.stderr == ""
    done = rtopk("select", "--random", "500x80", "-k", 5, "-o", tmp_path / "out.npz")
    assert "row 0:" not in done.stdout and "500 rows" in done.stdout and str(tmp_path / "out.npz") in done.stdout
    done = rtopk("select", "--random", "500x80", "-k", 5, "-o", tmp_path / "out.npz", "--quiet")
    assert done.stdout == "" and done.stderr == ""
    for form in ("dense", "mask", "cbsr"):
        assert "row 3:" in rtopk("select", "--random", "500x80", "-k", 5, "--form", form).stdout
