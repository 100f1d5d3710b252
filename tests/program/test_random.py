"""Random matrices: the same bits on every machine, in any chunks, and distributed as they say."""

import hashlib

import numpy as np
import pytest


@pytest.fixture
def matrix(rtopk, tmp_path):
    def make(shape, *flags):
        cols = shape.split("x")[1]
        rtopk("select", "--random", shape, *flags, "-k", cols, "--form", "dense", "-o", tmp_path / "matrix.npz", "-q")
        return np.load(tmp_path / "matrix.npz")["dense"]

    return make


# Recorded checksums: any machine, compiler and number of threads must give the same.
HASHES = {
    ("normal", "f32"): "4a89326c5996f234",
    ("normal", "f64"): "c4a1aaee2df76fef",
    ("normal", "bf16"): "f4d7ba5ab3765add",
    ("normal", "i32"): "58a875db70d3d1b9",
    ("uniform", "f16"): "6256e3c665523c13",
    ("uniform", "f64"): "7b1a03be992d945d",
    ("lognormal", "f32"): "24bf1cc7089788b6",
    ("lognormal", "f64"): "28d92a31de37b134",
    ("student", "f32"): "d9faaf4a8a994cf7",
    ("student", "f64"): "3981964d5c412559",
    ("quantized", "f16"): "331a5303b4ede1d4",
    ("ties", "f32"): "d650da9f057ea56e",
    ("ties", "i32"): "cfec859f311547ad",
    ("constant", "f32"): "6877a73dbd7e9a1e",
}


@pytest.mark.parametrize("dist, dtype", HASHES)
def test_bits(matrix, dist, dtype):
    content = matrix("1001x333", "--dist", dist, "--dtype", dtype, "--seed", 12345).tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == HASHES[dist, dtype]


def test_threads_and_chunks_do_not_matter(matrix):
    reference = matrix("3000x7001", "--threads", 1)  # 84 MB: several chunks
    np.testing.assert_array_equal(matrix("3000x7001", "--threads", 3), reference)
    np.testing.assert_array_equal(matrix("100x7001", "--threads", 3), reference[:100])


def test_seeds_differ(matrix):
    a, b = (matrix("100x1000", "--seed", seed) for seed in (0, 1))
    assert (a == b).mean() < 0.01
    assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.02


def test_normal(matrix):
    x = matrix("1000x1000", "--dtype", "f64").ravel()
    assert abs(x.mean()) < 0.005 and abs(x.std() - 1) < 0.005 and abs((x**3).mean()) < 0.02
    assert abs((x**4).mean() - 3) < 0.05
    for z, share in ((1.0, 0.158655), (2.0, 0.0227501), (3.0, 0.00134990)):
        for tail in ((x > z).mean(), (x < -z).mean()):
            assert abs(tail - share) < 5 * np.sqrt(share / x.size)
    assert 4.3 < np.abs(x).max() < 6.5 and np.unique(x).size == x.size
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.005
    assert abs(np.corrcoef(x[0::2] ** 2, x[1::2] ** 2)[0, 1]) < 0.01  # the two halves of a pair are independent


def test_uniform(matrix):
    x = matrix("1000x1000", "--dist", "uniform", "--dtype", "f64").ravel()
    assert x.min() >= 0 and x.max() < 1
    counts = np.histogram(x, 100, (0, 1))[0]
    assert np.abs(counts - 10000).max() < 600


def test_lognormal(matrix):
    normal = matrix("100x1000", "--dtype", "f64")
    np.testing.assert_allclose(matrix("100x1000", "--dist", "lognormal", "--dtype", "f64"), np.exp(normal), rtol=1e-13)


def test_student(matrix):
    x = matrix("1000x1000", "--dist", "student", "--dtype", "f64").ravel()
    for t, share in ((0.0, 0.5), (1.885618, 0.1), (4.302653, 0.025), (22.327125, 0.001)):  # a table of Student's t
        for tail in ((x > t).mean(), (x < -t).mean()):
            assert abs(tail - share) < 5 * np.sqrt(share / x.size)


def test_quantized(matrix):
    normal = matrix("100x1000", "--dtype", "f64")
    x = matrix("100x1000", "--dist", "quantized", "--dtype", "f64")
    assert np.abs(x - normal).max() <= 1 / 32 and (x * 16 == np.round(x * 16)).all()


def test_ties_and_constant(matrix):
    x = matrix("100x1000", "--dist", "ties")
    assert set(np.unique(x)) == set(range(-8, 8))
    assert 0.4 < np.signbit(x[x == 0]).mean() < 0.6
    assert (matrix("10x10", "--dist", "constant") == 1).all()


def test_integers(matrix):
    x = matrix("100x1000", "--dtype", "i32")
    assert x.dtype == np.int32 and np.unique(x).size > 90000


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64", "i32"])
@pytest.mark.parametrize("dist", ["normal", "ties", "constant"])
def test_verify_makes_the_same_matrix(rtopk, tmp_path, dtype, dist):
    spec = ["--random", "300x77", "--dist", dist, "--seed", 3, "--dtype", dtype]
    rtopk("select", *spec, "-k", 9, "--order", "by_value", "-o", tmp_path / "out.npz")
    rtopk("verify", tmp_path / "out.npz")
    rtopk("verify", *spec, tmp_path / "out.npz")


def test_no_rows(rtopk, tmp_path):
    rtopk("select", "--random", "0x77", "-k", 9, "-o", tmp_path / "out.npz")
    assert np.load(tmp_path / "out.npz")["values"].shape == (0, 9)
    rtopk("verify", tmp_path / "out.npz")
