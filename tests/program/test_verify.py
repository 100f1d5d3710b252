"""`rtopk verify` must find every way of breaking the contract, and name the first row and the reason."""

import zipfile

import numpy as np
import pytest

from conftest import best_first, top_indices

ROWS, COLS, K, ROW = 50, 60, 6, 31


@pytest.fixture
def matrix():
    matrix = np.random.default_rng(1).standard_normal((ROWS, COLS)).astype(np.float32)
    matrix[ROW] = np.round(matrix[ROW])  # ties
    return matrix


@pytest.fixture
def judge(rtopk, tmp_path, matrix):
    """Saves input and arrays with NumPy and verifies them."""

    def call(code, says, *flags, **arrays):
        np.save(tmp_path / "in.npy", matrix)
        np.savez(tmp_path / "out.npz", **arrays)
        done = rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz", *flags, code=code)
        assert says in done.stdout + done.stderr, done.stdout + done.stderr
        if code == 1:
            assert done.stdout.startswith(f"BROKEN: row {ROW}: ")
        return done

    return call


def pairs(matrix, indices):
    return {"values": np.take_along_axis(matrix, indices, axis=1), "indices": indices}


def test_from_numpy(judge, matrix):
    judge(0, "OK: 50 rows", **pairs(matrix, top_indices(matrix, K)))
    judge(0, "by_value", "--sorted", **pairs(matrix, top_indices(matrix, K, "by_value")))
    judge(0, "smallest", "--smallest", **pairs(matrix, top_indices(matrix, K, smallest=True)))
    judge(0, "OK", indices=top_indices(matrix, K).astype(np.int32))
    judge(0, "OK", values=pairs(matrix, top_indices(matrix, K))["values"][:, ::-1])


def test_index_out_of_range(judge, matrix):
    for bad in (-1, COLS, 2**40):
        arrays = pairs(matrix, top_indices(matrix, K))
        arrays["indices"][ROW, 2] = bad
        judge(1, f"index {bad} at position 2 is out of range", **arrays)


def test_index_twice(judge, matrix):
    indices = top_indices(matrix, K)
    indices[ROW, 1] = indices[ROW, 4]
    judge(1, f"index {indices[ROW, 4]} is there twice", **pairs(matrix, indices))


def test_value_differs(judge, matrix):
    arrays = pairs(matrix, top_indices(matrix, K))
    arrays["values"][ROW, 3] = np.nextafter(arrays["values"][ROW, 3], np.float32(9))
    judge(1, "at position 3 differs from the input's", **arrays)


def test_sign_of_zero_is_part_of_the_value(judge, matrix):
    matrix[ROW] = -1
    matrix[ROW, 7] = -0.0
    arrays = pairs(matrix, top_indices(matrix, K))
    judge(0, "OK", **arrays)
    arrays["values"][ROW][arrays["indices"][ROW] == 7] = 0.0
    judge(1, "differs from the input's -0 at column 7", **arrays)


def test_greater_left_out(judge, matrix):
    indices = top_indices(matrix, K)
    order = best_first(matrix)[ROW]
    indices[ROW] = np.sort(np.append(order[1:K], order[-1]))
    judge(1, f"at column {order[0]} was left out but is greater than the selected", **pairs(matrix, indices))


def test_smaller_left_out(judge, matrix):
    indices = top_indices(matrix, K, smallest=True)
    order = best_first(matrix, smallest=True)[ROW]
    indices[ROW] = np.sort(np.append(order[1:K], order[-1]))
    judge(1, "was left out but is smaller than the selected", "--smallest", **pairs(matrix, indices))


def test_nan_left_out(judge, matrix):
    matrix[ROW, 59] = np.nan
    indices = top_indices(matrix, K)
    assert 59 in indices[ROW]
    judge(0, "OK", **pairs(matrix, indices))
    indices[ROW] = np.sort(best_first(matrix)[ROW, 1 : K + 1])
    judge(1, "nan at column 59 was left out but is greater", **pairs(matrix, indices))


def test_tie_to_a_higher_index(judge, matrix):
    matrix[ROW] = 1
    indices = top_indices(matrix, K)
    indices[ROW] = [0, 1, 2, 3, 4, 9]
    judge(
        1,
        "a tie did not go to the lowest index: 1 at column 5 was left out, 1 at column 9 was selected",
        **pairs(matrix, indices),
    )


def test_order(judge, matrix):
    indices = top_indices(matrix, K, "by_value")
    indices[ROW, [2, 3]] = indices[ROW, [3, 2]]
    judge(0, "OK", **pairs(matrix, indices))
    judge(1, "wrong order", "--sorted", **pairs(matrix, indices))
    indices = top_indices(matrix, K)
    indices[ROW, [2, 3]] = indices[ROW, [3, 2]]
    judge(1, f"wrong order: index {indices[ROW, 2]} at position 2", "--order", "by_index", **pairs(matrix, indices))


def test_values_alone(judge, matrix):
    matrix[ROW, 30] = 5
    values = pairs(matrix, top_indices(matrix, K))["values"]
    values[ROW, 2] = -9
    judge(1, "value -9 at position 2 is not among the selected ones", values=values)
    values = pairs(matrix, top_indices(matrix, K, "by_value"))["values"]
    values[ROW] = values[ROW, ::-1]
    judge(0, "OK", values=values)
    judge(1, "at position 0 should be", "--sorted", values=values)


def test_mask(judge, matrix):
    mask = np.zeros(matrix.shape, np.uint8)
    np.put_along_axis(mask, top_indices(matrix, K), 1, axis=1)
    judge(0, "OK", "-k", K, mask=mask)
    judge(0, "OK", "-k", K, mask=mask.astype(bool))
    chosen = top_indices(matrix, K)[ROW]
    mask[ROW, chosen[0]] = 0
    judge(1, f"at column {chosen[0]} should be selected", "-k", K, mask=mask)
    mask[ROW, chosen[0]] = 255
    judge(1, "neither 0 nor 1", "-k", K, mask=mask)
    mask[ROW, chosen[0]] = 1
    free = next(c for c in range(COLS) if c not in chosen)
    mask[ROW, free] = 1
    judge(1, f"at column {free} should not be selected", "-k", K, mask=mask)


def test_dense(judge, matrix):
    matrix[ROW] += 100
    dense = np.zeros_like(matrix)
    chosen = top_indices(matrix, K)
    np.put_along_axis(dense, chosen, np.take_along_axis(matrix, chosen, axis=1), axis=1)
    judge(0, "OK", "-k", K, dense=dense)
    free = next(c for c in range(COLS) if c not in chosen[ROW])
    dense[ROW, free] = -0.0
    judge(1, f"column {free} holds -0, but was not selected and should be zero", "-k", K, dense=dense)
    dense[ROW, free] = 0.0
    dense[ROW, chosen[ROW, 0]] = 0.0
    judge(1, "but was selected, with the input's", "-k", K, dense=dense)


def test_early_stopping_is_held_to_its_own_rule(judge, rtopk, tmp_path, matrix):
    np.save(tmp_path / "in.npy", matrix)
    rtopk("select", tmp_path / "in.npy", "-k", K, "--max-iter", 2, "-o", tmp_path / "early.npz")
    early = np.load(tmp_path / "early.npz")
    judge(0, "OK", "--max-iter", 2, **early)  # its meta goes with it; the flag agrees
    arrays = {"values": early["values"].copy(), "indices": early["indices"].copy()}
    exact = top_indices(matrix, K)
    row = next(r for r in range(ROWS) if not np.array_equal(np.sort(early["indices"][r]), exact[r]))
    arrays["indices"][row] = exact[row]
    arrays["values"][row] = matrix[row, exact[row]]
    np.savez(tmp_path / "out.npz", **arrays)
    done = rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz", "--max-iter", 2, code=1)
    assert done.stdout.startswith(f"BROKEN: row {row}: the selection with max_iter 2 (threshold_first) takes ")


def test_early_stopping_by_the_other_rule(rtopk, refused, tmp_path, matrix):
    np.save(tmp_path / "in.npy", matrix)
    out = tmp_path / "out.npz"
    rtopk("select", tmp_path / "in.npy", "-k", K, "--max-iter", 2, "--rule", "printed", "-o", out)
    rtopk("verify", tmp_path / "in.npy", out)
    rtopk("verify", tmp_path / "in.npy", out, "--rule", "printed")
    done = rtopk("verify", tmp_path / "in.npy", out, "--rule", "threshold_first", code=1)
    assert "the selection with max_iter 2 (threshold_first) takes " in done.stdout
    np.savez(out, indices=np.load(out)["indices"])
    refused("verify", tmp_path / "in.npy", out, "--rule", "printed", says="--rule requires --max-iter")
    rtopk("verify", tmp_path / "in.npy", out, "--max-iter", 2, "--rule", "printed")


def test_passes(judge, rtopk, tmp_path, matrix):
    np.save(tmp_path / "in.npy", matrix)
    rtopk(
        "select",
        tmp_path / "in.npy",
        "-k",
        K,
        "--max-iter",
        4,
        "--search",
        "bisection",
        "--passes",
        "-o",
        tmp_path / "early.npz",
    )
    arrays = dict(np.load(tmp_path / "early.npz"))
    judge(0, "OK", **arrays)
    arrays["passes"][ROW] += 1
    judge(1, "its number of passes is", **arrays)
    arrays["passes"][ROW] = -1
    judge(1, "its number of passes is -1", **arrays)


def test_first_of_many_rows(rtopk, tmp_path):
    matrix = np.random.default_rng(2).standard_normal((20000, 64)).astype(np.float32)
    arrays = pairs(matrix, top_indices(matrix, 4))
    arrays["indices"][[12345, 12346, 15000, 19999], 0] = 64
    np.save(tmp_path / "in.npy", matrix)
    np.savez(tmp_path / "out.npz", **arrays)
    for threads in (1, 2, 7):
        done = rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz", "--threads", threads, code=1)
        assert done.stdout.startswith("BROKEN: row 12345: index 64")


def test_quiet(rtopk, tmp_path):
    rtopk("select", "--random", "20x30", "-k", 3, "-o", tmp_path / "out.npz")
    assert rtopk("verify", tmp_path / "out.npz", "--quiet").stdout == ""
    done = rtopk("verify", "--random", "20x30", "--seed", 1, tmp_path / "out.npz", "--quiet", code=1)
    assert done.stdout.startswith("BROKEN: row 0: ")


def test_unusable_files(refused, rtopk, tmp_path):
    matrix = np.random.default_rng(3).standard_normal((10, 20)).astype(np.float32)
    np.save(tmp_path / "in.npy", matrix)
    np.save(tmp_path / "other.npy", matrix[:5])
    rtopk("select", tmp_path / "in.npy", "-k", 3, "-o", tmp_path / "out.npz")
    good = (tmp_path / "out.npz").read_bytes()

    def unusable(content, says):
        (tmp_path / "bad.npz").write_bytes(content)
        refused("verify", tmp_path / "in.npy", tmp_path / "bad.npz", says=says)

    refused("verify", tmp_path / "other.npy", tmp_path / "out.npz", says="the input is 5x20")
    refused("verify", tmp_path / "in.npy", tmp_path / "none.npz", says="No such file")
    refused("verify", tmp_path / "out.npz", says="give that file first")
    refused("verify", says="a saved selection is needed")
    refused("verify", "a", "b", "c", says="3 files")
    refused("verify", tmp_path / "in.npy", tmp_path / "in.npy", says="not a .npz file")
    unusable(b"", "not a .npz file")
    unusable(good[:-30], "truncated .npz file")
    unusable(good[: len(good) // 2], "truncated .npz file")
    (tmp_path / "savez.npz").touch()
    np.savez_compressed(tmp_path / "savez.npz", values=matrix[:, :3])
    unusable((tmp_path / "savez.npz").read_bytes(), "is compressed")
    np.savez(tmp_path / "savez.npz", something=matrix)
    unusable((tmp_path / "savez.npz").read_bytes(), "it has none of the arrays")
    np.savez(tmp_path / "savez.npz", values=matrix[:, :3].astype(np.float64))
    unusable((tmp_path / "savez.npz").read_bytes(), "has dtype '<f8', not '<f4'")
    np.savez(tmp_path / "savez.npz", values=matrix[:, :3], indices=np.zeros((10, 2), np.int64))
    unusable((tmp_path / "savez.npz").read_bytes(), "has shape (10, 3), not (10, 2)")
    np.savez(tmp_path / "savez.npz", indices=np.asfortranarray(np.zeros((10, 2), np.int64)))
    unusable((tmp_path / "savez.npz").read_bytes(), "Fortran order")
    np.savez(tmp_path / "savez.npz", values=matrix[:, :3], meta=np.array("nonsense"))
    unusable((tmp_path / "savez.npz").read_bytes(), "'meta' is not a text that this program has written")
    np.savez(tmp_path / "savez.npz", mask=np.zeros((10, 20), np.uint8))
    unusable((tmp_path / "savez.npz").read_bytes(), "k is 0")


def test_every_damaged_byte_is_noticed(rtopk, tmp_path):
    """Flips any one byte: never a crash, and never OK if the byte is in an array."""
    matrix = np.random.default_rng(4).standard_normal((3, 8)).astype(np.float32)
    np.save(tmp_path / "in.npy", matrix)
    rtopk("select", tmp_path / "in.npy", "-k", 2, "-o", tmp_path / "out.npz")
    good = (tmp_path / "out.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        entries = [
            (good.index(archive.read(name)), good.index(archive.read(name)) + len(archive.read(name)))
            for name in archive.namelist()
        ]
    for at in range(0, len(good), 13):
        bad = bytearray(good)
        bad[at] ^= 0x55
        (tmp_path / "bad.npz").write_bytes(bad)
        done = rtopk("verify", tmp_path / "in.npy", tmp_path / "bad.npz", code=None)
        assert done.returncode in (0, 1, 2), done
        if done.returncode == 0:  # the byte was padding, a date or the like
            assert not any(begin <= at < end for begin, end in entries), at


def test_numpy_zip64_entries(rtopk, tmp_path):
    """numpy.savez writes ZIP64 fields for every entry; they are read, whatever their length."""
    matrix = np.random.default_rng(5).standard_normal((4, 9)).astype(np.float32)
    np.save(tmp_path / "in.npy", matrix)
    np.savez(tmp_path / "out.npz", **pairs(matrix, top_indices(matrix, 2)))
    rtopk("verify", tmp_path / "in.npy", tmp_path / "out.npz")
