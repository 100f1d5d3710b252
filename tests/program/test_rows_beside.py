"""What bench/compare_rows.py has beside rtopk's general rows, without a GPU: hard data, the count of wrong rows with
planted faults, made-up peers, and, where nvcc is, the file that calls FlashInfer's kernels."""

import math
import subprocess
import sys
from types import SimpleNamespace

import pytest

from conftest import REPOSITORY

torch = pytest.importorskip("torch")
sys.path.insert(0, str(REPOSITORY / "bench"))

import compare_rows  # noqa: E402
import hard_rows  # noqa: E402
from peers import Found, Missing, compiled, flashinfer_rows  # noqa: E402
from rows_beside import VARIANTS, Beside, Places, Shifted, ours_is_wrong  # noqa: E402

ROWS, COLS, K, PAGE = 24, 300, 16, 8
RIGHT = {"wrong": 0, "other_ties": 0, "changed_sets": 0, "changed_order": 0}


def problem(data="normal", dtype=torch.float32, rows=ROWS):
    torch.manual_seed(5)
    lengths = hard_rows.hard_lengths(rows, COLS, K, "cpu")
    return hard_rows.hard_matrix(data, rows, COLS, dtype, lengths), lengths


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("data", hard_rows.DATA)
def test_hard_data(data, dtype):
    matrix, lengths = problem(data, dtype)
    assert matrix.dtype == dtype and matrix.shape == (ROWS, COLS) and matrix.is_contiguous()
    assert {0, 1, K - 1, K, K + 1, COLS - 1, COLS} <= set(lengths.tolist()) and lengths.dtype == torch.int32
    inside = torch.cat([row[:length] for row, length in zip(matrix, lengths, strict=True)])
    assert not inside.isnan().any() and not ((inside == 0) & inside.signbit()).any()
    assert all((row[length:] == math.inf).all() for row, length in zip(matrix, lengths, strict=True))
    different = len(inside.unique())
    assert (different == 1) == (data == "all_equal") and (different < 30 or data != "few_levels")


@pytest.mark.parametrize("data", hard_rows.DATA)
def test_lowest_first(data, monkeypatch):
    matrix, lengths = problem(data)
    whole = hard_rows.lowest_first(matrix, lengths, K)
    for row, length, columns in zip(matrix.tolist(), lengths.tolist(), whole.tolist(), strict=True):
        best = sorted(range(length), key=lambda j: (-row[j], j))[:K]  # noqa: B023
        assert columns == best + [-1] * (K - len(best))
    monkeypatch.setattr(hard_rows, "SORTED_ELEMENTS", 5 * COLS)
    assert torch.equal(hard_rows.lowest_first(matrix, lengths, K), whole)


@pytest.mark.parametrize("mapping", [Places, Shifted])
def test_columns_of_mapped_indices(mapping):
    matrix, lengths = problem()
    mapped, columns = mapping(ROWS, COLS, PAGE, "cpu"), hard_rows.lowest_first(matrix, lengths, K)
    written = written_as(mapped, columns)
    assert torch.equal(mapped.columns(written), columns)
    if mapping is Places:
        written[3] = written_as(mapped, columns)[6]  # of another row
        assert (mapped.columns(written)[3][:K] == hard_rows.OUTSIDE).all()
    written[4, 0], written[5, 0] = -7, hard_rows.OUTSIDE
    assert mapped.columns(written)[[4, 5], 0].tolist() == [hard_rows.OUTSIDE] * 2
    written[6, 0] = 1 << 30
    assert mapped.columns(written)[6, 0] < 0 or mapped.columns(written)[6, 0] >= COLS


def written_as(mapped, columns):
    """What a call would write for these columns."""
    inside = columns.clamp(min=0)
    if isinstance(mapped, Places):
        indices = mapped.map.long().gather(1, inside // PAGE) * PAGE + inside % PAGE
    else:
        indices = inside + mapped.map.long()[:, None]
    return torch.where(columns < 0, columns, indices).to(torch.int32)


def smaller(matrix, lengths, columns):
    """Row 6 is whole: it gets its smallest element instead of its largest."""
    columns[6, 0] = matrix[6].argmin()


def twice(matrix, lengths, columns):
    columns[6, 1] = columns[6, 0]


def too_few(matrix, lengths, columns):
    columns[6, -1] = -1


def too_many(matrix, lengths, columns):
    """Rows 0 and 2 have fewer than k elements."""
    columns[0, 0], columns[2, -1] = 0, K


def behind_the_row(matrix, lengths, columns):
    columns[3, 0] = lengths[3]


def not_written(matrix, lengths, columns):
    columns[5:7] = hard_rows.OUTSIDE


def another_order(matrix, lengths, columns):
    columns[6] = columns[6].flip(0)


@pytest.mark.parametrize(
    "fault, wrong",
    [(smaller, 1), (twice, 1), (too_few, 1), (too_many, 2), (behind_the_row, 1), (not_written, 2), (another_order, 0)],
)
@pytest.mark.parametrize("data", ["normal", "infinities"])
def test_planted_faults(fault, wrong, data):
    matrix, lengths = problem(data)
    expected = hard_rows.lowest_first(matrix, lengths, K)
    assert hard_rows.counts(matrix, lengths, expected, expected, expected) == RIGHT
    faulty = expected.clone()
    fault(matrix, lengths, faulty)
    both = hard_rows.counts(matrix, lengths, expected, faulty, faulty)
    assert both == RIGHT | {"wrong": wrong}
    for runs in ((faulty, expected), (expected, faulty)):
        once = hard_rows.counts(matrix, lengths, expected, *runs)
        assert once["wrong"] == wrong and once["changed_sets"] == wrong
        assert once["changed_order"] == (wrong or 1)


def test_equal_values_that_are_in_many_places():
    matrix, lengths = problem("all_equal")
    expected = hard_rows.lowest_first(matrix, lengths, K)
    last = torch.where(expected >= 0, lengths[:, None].long() - 1 - expected, -1)
    longer = int((lengths > K).sum())
    found = hard_rows.counts(matrix, lengths, expected, last, last)
    assert found == RIGHT | {"other_ties": longer} and longer > 10
    found = hard_rows.counts(matrix, lengths, expected, expected, last)
    assert found["wrong"] == 0 and found["changed_sets"] == longer


class MadeUp:
    """A peer with the lowest indices of ties, whose results are changed by `fault`."""

    def __init__(self, fault=lambda *_: None, fails=False):
        self.fault, self.fails, self.asked_for = fault, fails, []

    def pages(self, matrix, table, lengths, k, page_size, lowest):
        assert page_size == PAGE
        return self.bound(matrix, lengths, k, SimpleNamespace(map=table), lowest)

    def ragged(self, matrix, shifts, lengths, k, lowest):
        return self.bound(matrix, lengths, k, SimpleNamespace(map=shifts), lowest)

    def bound(self, matrix, lengths, k, mapped, lowest):
        self.asked_for.append(lowest)
        kind = Places if mapped.map.dim() == 2 else Shifted
        mapping = kind(len(matrix), COLS, PAGE, "cpu")
        mapping.map = mapped.map
        indices = torch.empty(len(matrix), k, dtype=torch.int32)

        def run():
            if self.fails and lowest:
                raise RuntimeError("CUDA error 801\nmore")
            columns = hard_rows.lowest_first(matrix, lengths, k)
            self.fault(matrix, lengths, columns)
            return indices.copy_(written_as(mapping, columns))

        return run

    @staticmethod
    def takes_cub(form, rows, cols, dtype, lowest):
        return lowest


def beside(mapping, peer, ours=MadeUp()):  # noqa: B008
    matrix, lengths = problem()
    mapped = mapping(ROWS, COLS, PAGE, "cpu")
    run = mapped.of_peer(ours, matrix, lengths, K, False)
    return Beside(SimpleNamespace(run=run, indices=run()), mapped, peer, matrix, lengths, K, "f32")


@pytest.mark.parametrize("mapping", [Places, Shifted])
def test_ours_and_theirs_are_counted_alike(mapping):
    found = beside(mapping, MadeUp(twice))
    record = found.record({"pages": 2.0, "flashinfer": 3.0, "flashinfer_lowest": 5.0}, "pages")
    wrong = RIGHT | {"wrong": 1}
    assert record["counts"] == {"rtopk": RIGHT, "flashinfer": wrong, "flashinfer_lowest": wrong}
    assert (record["flashinfer"], record["flashinfer_lowest"]) == (1.5, 2.5)
    assert record["package_takes_cub"] == ["flashinfer_lowest"] and record["peer_errors"] == {}
    assert list(found.functions) == list(VARIANTS) and not ours_is_wrong(found.counts)
    alone = beside(mapping, None, MadeUp(twice))
    assert alone.record({"pages": 2.0}, "pages")["counts"] == {"rtopk": wrong} and ours_is_wrong(alone.counts)


def test_a_failing_peer_does_not_end_the_run():
    found = beside(Places, MadeUp(fails=True))
    assert found.errors == {"flashinfer_lowest": "CUDA error 801"} and list(found.functions) == ["flashinfer"]
    assert found.record({"pages": 2.0, "flashinfer": 3.0}, "pages")["flashinfer"] == 1.5


def test_line():
    record = {"case": "hard", "rows": 64, "cols": 32768, "k": 512, "dtype": "f32", "data": "narrow", "form": "pages"}
    record |= {"general_family": "cuda_block", "us": {"rtopk": 9.0}, "flashinfer": 1.5, "flashinfer_lowest": 2.25}
    record |= {"package_takes_cub": ["flashinfer"], "peer_errors": {"flashinfer_lowest": "CUDA error 801"}}
    record["counts"] = {"rtopk": RIGHT, "flashinfer": RIGHT | {"wrong": 3}}
    line = compare_rows.line_of(record)
    assert "narrow pages rtopk us 9.0  flashinfer 1.50*  flashinfer_lowest 2.25  flashinfer wrong 3" in line
    assert line.endswith("flashinfer_lowest failed: CUDA error 801") and "rtopk wrong" not in line


def test_all_cases_can_be_chosen():
    for quick in (False, True):
        assert {case for case, _ in compare_rows.cases(quick)} == set(compare_rows.CASES.values())
    done = subprocess.run(
        [sys.executable, "bench/compare_rows.py", "--help"], cwd=REPOSITORY, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and flashinfer_rows.VARIABLE in done.stdout and "hard" in done.stdout


def test_headers_that_are_not_here(monkeypatch, tmp_path):
    peer = flashinfer_rows.FlashInferRows()
    monkeypatch.delenv(flashinfer_rows.VARIABLE, raising=False)
    [missing] = Found.among([peer], torch, ["f32"]).record()["missing"]
    assert missing["why"] == f"{flashinfer_rows.VARIABLE} is not set" and flashinfer_rows.VARIABLE in missing["install"]
    monkeypatch.setenv(flashinfer_rows.VARIABLE, str(tmp_path))
    with pytest.raises(Missing, match=r"a folder without flashinfer/topk\.cuh"):
        peer.find(("f32",))


def test_shapes_for_which_the_package_takes_cub():
    takes = flashinfer_rows.FlashInferRows.takes_cub
    assert takes("pages", 1, 131072, "f32") and not takes("pages", 64, 32768, "f32")
    assert takes("pages", 8, 65536, "bf16") and not takes("pages", 4096, 65536, "bf16")
    assert takes("ragged", 4096, 131072, "bf16") and not takes("ragged", 4096, 131072, "bf16", lowest=True)


# As much of FlashInfer's headers as the calls need, with the same declarations.
STAND_IN = """
#include <cstdint>
#include <cuda_runtime.h>
namespace flashinfer::sampling {
enum class TopKTieBreak : uint32_t { None, Small, Large };
struct RadixRowState {};
template <typename Id>
struct ConfigurablePageTableKernelPolicy {
  ConfigurablePageTableKernelPolicy(Id*, int64_t, uint32_t page_bits) : bits(page_bits) {}
  uint32_t bits;
};
template <typename T, typename Id, typename Policy>
cudaError_t TopKPageTableTransformDispatch(T*, Id*, const Id*, int64_t stride, Id*, const Id*, const Id*, uint32_t rows,
                                           uint32_t k, uint32_t cols, RadixRowState*, bool, TopKTieBreak ties,
                                           cudaStream_t, bool, const Id*, const Policy& policy) {
  const bool as_asked = stride == 5 && rows == 2 && k == 4 && cols == 300 && policy.bits == 6;
  return as_asked && ties == TopKTieBreak::Small ? cudaErrorNotSupported : cudaErrorInvalidValue;
}
template <typename T, typename Id>
cudaError_t TopKRaggedTransformDispatch(T*, Id*, const Id*, Id*, const Id*, uint32_t rows, uint32_t k, uint32_t cols,
                                        RadixRowState*, bool, TopKTieBreak ties, cudaStream_t = nullptr, bool = false) {
  const bool as_asked = rows == 2 && k == 4 && cols == 300 && ties == TopKTieBreak::None;
  return as_asked ? cudaSuccess : cudaErrorInvalidValue;
}
}
"""


@pytest.mark.skipif(compiled.nvcc() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("element", flashinfer_rows.ELEMENTS.values())
def test_calls_compile(tmp_path, element):
    (tmp_path / "flashinfer").mkdir()
    (tmp_path / "flashinfer" / "topk.cuh").write_text(STAND_IN)
    (tmp_path / "flashinfer" / "math.cuh").write_text("")
    options = ["-I", str(tmp_path), f"-DRTOPK_PEER_ELEMENT={element}", *flashinfer_rows.FLAGS]
    [library] = compiled.libraries("flashinfer_rows.cu", [options], "sm_90", tmp_path / "kept")
    flashinfer_rows.declare(library)
    nothing = [None] * 5
    assert library.rtopk_peer_flashinfer_pages(*nothing, 2, 300, 4, 5, 6, True, None) == 801
    assert library.rtopk_peer_flashinfer_ragged(*nothing, 2, 300, 4, False, None) == 0


@pytest.mark.parametrize("file", ["version.txt", "../_build_meta.py"])
def test_version_of_the_headers(tmp_path, file):
    folder = tmp_path / "data" / "include"
    (folder / "flashinfer").mkdir(parents=True)
    assert "unknown" in flashinfer_rows._version(folder)
    (folder.parent / file).write_text('__version__ = "0.7.2.post1"\n')
    assert flashinfer_rows._version(folder).startswith("0.7.2.post1, headers 0x")
