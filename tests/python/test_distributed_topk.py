"""Selections over the ranks of a group, in real processes: distributed_topk.py says what each of them does."""

import os
import re
import shutil
from pathlib import Path

import pytest
import torch

import rtopk.distributed
from ranks import end_of_ranks, run_ranks
from rtopk.distributed import exchange
from rtopk.distributed.exchange import HEADER, Call, Layout

SCRIPT = Path(__file__).with_name("distributed_topk.py")
CASES = """
    random_cases edges same_on_every_rank gradients subgroup activation gathers mismatches mismatches_of_sizes late
""".split()
TRACED = ["compiled", "compiled_dtensors"]


def of(results, case):
    """What a case gave on each rank, none of which raised an error."""
    given = [rank[case] for rank in results]
    for rank, each in enumerate(given):
        assert not (isinstance(each, dict) and "error" in each), f"rank {rank}: {each['error']}"
    return given


@pytest.fixture(scope="module")
def two():
    return run_ranks(SCRIPT, 2, "cpu", "gloo", *CASES, "dtensors", "parallelized", *TRACED, timeout=300)


@pytest.fixture(scope="module")
def four():
    """The last rank of these is killed at the end."""
    return end_of_ranks(SCRIPT, 4, "cpu", "gloo", *CASES, "dtensors", "parallelized", "killed", timeout=300)


@pytest.fixture(params=["two", "four"])
def results(request):
    found = request.getfixturevalue(request.param)
    return found if request.param == "two" else [rank.results for rank in found]


# ---- Selections ----


def test_random_selections_have_the_bits_of_one_device(results):
    for rank in of(results, "random_cases"):
        assert rank == {"wrong": [], "count": 108}


def test_shards_with_a_column_or_none(results):
    for rank in of(results, "edges"):
        assert rank == {"wrong": [], "count": 6 * len(results) + 18}


def test_every_rank_has_the_same_bits(results):
    digests = of(results, "same_on_every_rank")
    assert all(each == digests[0] for each in digests)


def test_gradients_of_first_and_second_order(results):
    assert of(results, "gradients") == [[]] * len(results)


def test_a_group_of_some_ranks(results):
    assert of(results, "subgroup") == [[]] * len(results)


def test_column_parallel_maxk(results):
    assert of(results, "activation") == [["MaxK(k=4)"]] * len(results)


# ---- What is sent ----


def test_a_call_that_is_made_again_takes_one_gather(results):
    for rank in of(results, "gathers"):
        assert rank["turns"] == [[2, 2, 2], [2, 1, 1], [1, 1, 1], [1, 1, 1]]
        assert rank["repeated"][2:] == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("calls", ["ab", "aabacc", "aaab" * 20 + "c", range(1000)])
def test_calls_that_are_repeated_are_expected(calls):
    """From the third time on, however many there are."""
    history = exchange._History()
    for turn in range(5 + 5000 // len(calls)):
        for call in calls:
            assert turn < 2 or history.expected() == call
            history.add(call)


def test_calls_of_other_phases_are_unexpected_where_they_begin():
    """As training and validation in turn, of other lengths each time."""
    history, unexpected = exchange._History(), 0
    for call, times in zip("xmxmxm", (1000, 100, 1500, 50, 200, 300), strict=True):
        for _ in range(times):
            unexpected += history.expected() != call
            history.add(call)
    assert unexpected <= 12


def test_bytes_that_a_rank_sends(results):
    # 4 rows of 8: values of 4, 2 and 4 bytes; indices of 2 bytes for 300 columns, of 1 for 200, and none for maxk.
    sent = [32 * (4 + 2), 32 * (2 + 1), 32 * 4]
    for rank in of(results, "gathers"):
        assert rank["bytes"] == rank["known"] == [[each + 128] for each in sent]  # the header


def test_the_bytes_that_the_page_says():
    page = (Path(__file__).resolve().parents[2] / "docs" / "distributed.md").read_text()
    rows = re.findall(r"\| ([\d,]+) x ([\d,]+) float32 \|(.*KiB.*)\|", page)
    assert len(rows) == 3
    for *shape, rest in rows:
        rows, cols = (int(number.replace(",", "")) for number in shape)
        k, *said = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+", rest.replace("KiB", "")))
        topk = Call("topk", torch.float32, (rows,), 1, k, True, True)
        maxk = Call("maxk", torch.float32, (rows,), 1, k, True, True)
        ours = [Layout.of(call, [cols, cols]).bytes - HEADER for call in (topk, maxk)]
        assert [1024 * number for number in said] == [rows * cols * 4, rows * k * 12, *ours]


# ---- Errors ----

SAME = "accepted: the same on every rank"
DIFFERENT = {
    "k": "ValueError: k is 2 on rank 0 of the group and 3 on rank {last}; " + SAME,
    "many more k": "ValueError: k is 2 on rank 0 of the group and 3000 on rank {last}; " + SAME,
    "dtype": "ValueError: dtype is torch.float32 on rank 0 of the group and torch.float64 on rank {last}; " + SAME,
    "rows": "ValueError: the shape of the input without the selected dimension is [4] on rank 0 of the group and [3] on"
    " rank {last}; " + SAME,
    "dimensions": "ValueError: the shape of the input without the selected dimension is [4] on rank 0 of the group and"
    " [1, 4] on rank {last}; " + SAME,
    "many dimensions": "ValueError: dim is 8 on rank 0 of the group and 7 on rank {last}; " + SAME,
    "dim": "ValueError: dim is 1 on rank 0 of the group and 0 on rank {last}; " + SAME,
    "largest": "ValueError: largest is False on rank 0 of the group and True on rank {last}; " + SAME,
    "sorted": "ValueError: sorted is False on rank 0 of the group and True on rank {last}; " + SAME,
    "function": "ValueError: function is topk on rank 0 of the group and maxk on rank {last}; " + SAME,
    "k beyond the whole": "RuntimeError: selected index k out of range: k is {beyond}; accepted: 0 to {whole}, the size"
    " of all shards together",
}
REFUSED = {
    "k of a wrong type": "TypeError: k is '2'; accepted: an integer",
    "k too large for a number": f"ValueError: k is {2**70}; accepted: 0 to the size of all shards together",
    "k below 0": "ValueError: k is -1; accepted: 0 to the size of all shards together",
    "dim out of range": "IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    "largest of a wrong type": "TypeError: largest is 1; accepted: True or False",
    "a dtype that is refused": "TypeError: input is torch.bool; accepted: float32, float16, bfloat16, float64, int32,"
    " int64, int16, int8, uint8",
    "no dimensions": "ValueError: input has no dimensions; accepted: one or more, of which one is split over the ranks",
    "no tensor": "TypeError: topk(): argument 'input' must be Tensor, not list",
    "a sparse tensor": "TypeError: input has the layout torch.sparse_coo; accepted: torch.strided",
}


def expected(name, results):
    last = len(results) - 1
    return DIFFERENT[name].format(last=last, beyond=6 * last + 7, whole=6 * last + 6)


def refused(results):
    return f"RuntimeError: rank {len(results) - 1} of the group refused the arguments that it was called with"


BOTH_WAYS = pytest.mark.parametrize("case", ["mismatches", "mismatches_of_sizes"])


@BOTH_WAYS
@pytest.mark.parametrize("name", DIFFERENT)
def test_every_rank_says_what_differs(case, name, results):
    for rank in of(results, case):
        assert rank[name] == expected(name, results)


@BOTH_WAYS
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_rank_refuses_ends_the_call_of_all(case, name, results):
    *others, last = of(results, case)
    assert last[name] == REFUSED[name]
    for rank in others:
        assert rank[name] == refused(results)


def test_sizes_that_do_not_fit(results):
    ranks = len(results)
    differ = [*[6] * (ranks - 1), 5]
    for number, rank in enumerate(of(results, "mismatches_of_sizes")):
        fits = f"accepted: a size for each of {ranks} ranks, 6 for rank {number}"
        assert rank["sizes"] == f"ValueError: sizes is {[6] * (ranks - 1)}; {fits}"
        assert rank["sizes of others"] == f"ValueError: sizes is {[5] * ranks}; {fits}"
        assert rank["sizes that are no numbers"] == "TypeError: sizes is 6.0; accepted: an integer"
        assert rank["sizes that differ"] == (
            f"ValueError: sizes on rank 0 of the group are not those of the shards, {differ}; accepted: these, or no"
            " sizes"
        )
        assert rank["sizes on some ranks"] == "no error"
        group = "TypeError: group is 'all'; accepted: a process group with this rank in it, or None for all ranks"
        assert rank["group"] == group


def test_all_errors_are_looked_at(two):
    of_sizes = {"sizes", "sizes of others", "sizes that are no numbers", "sizes that differ", "sizes on some ranks"}
    assert set(of(two, "mismatches")[0]) == {*DIFFERENT, *REFUSED}
    assert set(of(two, "mismatches_of_sizes")[0]) == {*DIFFERENT, *REFUSED, *of_sizes, "group"}


def test_headers_that_are_read_later(results, is_gpu=False):
    """The rank with another call raises the error at once; the others, whose call was expected, when headers arrive."""
    *others, last = of(results, "late")
    kind_of = {name: expected(name, results) for name in last["errors"] if name in DIFFERENT}
    assert last["errors"] == {name: [text, "no error"] for name, text in kind_of.items()} | {
        "k of a wrong type": [REFUSED["k of a wrong type"], "no error"]
    }
    for rank in others:
        for name, texts in rank["errors"].items():
            kind, text = kind_of.get(name, refused(results)).split(": ", 1)
            error = f"{kind}: in this call or an earlier one: {text}"
            assert texts == ["no error", error] or (is_gpu and texts == [error, "no error"])
    for rank in (*others, last):
        assert rank["gathers"] == [1, 1, 1]
        assert rank["wrong"] == [] and rank["count"] == 18


def test_a_killed_rank_is_an_error_for_the_others(four):
    *others, last = four
    assert last.status == -9 and "killed" not in last.results
    for rank in others:
        assert rank.status == 0, rank.output
        # Not by a timeout: the connection is closed.
        assert rank.results["killed"]["kind"] == "RuntimeError"
        assert "timed out" not in rank.results["killed"]["text"].lower()


def test_without_a_group():
    with pytest.raises(RuntimeError, match="has no process group; call torch.distributed.init_process_group"):
        rtopk.distributed.topk(torch.randn(4), 2)


# ---- torch.compile and DTensor ----


K_DIFFERS = "ValueError: k is 2 on rank 0 of the group and 3 on rank 1; accepted: the same on every rank"


def test_compiled_calls(two):
    assert of(two, "compiled") == [[K_DIFFERS]] * 2


def test_dtensors(results):
    for rank in of(results, "dtensors"):
        assert rank["wrong"] == [] and rank["count"] >= 48


def test_what_dtensors_do_not_take(results):
    split = "is given for a DTensor that is split along dimension 1, the selected one; accepted: without it"
    for rank in of(results, "dtensors"):
        assert rank["errors"] == {
            "max_iter": f"ValueError: max_iter {split}",
            "search": f"ValueError: search {split}",
            "magnitude": f"ValueError: magnitude {split}",
            "lengths": "ValueError: lengths is given for a DTensor; accepted: without it",
            "out": "ValueError: out is given for a DTensor; accepted: without it",
            "k": "RuntimeError: selected index k out of range: k is 9; accepted: 0 to 8, the size of all shards"
            " together",
            "a DTensor for a shard": "TypeError: input is a DTensor; accepted: the shard of this rank. rtopk.topk takes"
            " DTensors.",
        }


def test_mismatches_of_dtensors(results):
    """Of a tensor that is split along the selected dimension."""
    *others, last = of(results, "dtensors")
    ranks = len(results)

    def differs(name, first, other):
        return f"ValueError: {name} is {first} on rank 0 of the group and {other} on rank {ranks - 1}; {SAME}"

    for rank in (*others, last):
        found = dict(rank["mismatches"])
        assert found.pop("k") == differs("k", 2, 3)
        assert found.pop("dtype") == differs("dtype", "torch.float32", "torch.float64")
        assert found.pop("largest") == differs("largest", True, False)
        assert found.pop("function") == differs("function", "maxk", "topk")
        assert "sizes on rank" in found.pop("a size")
        if rank is last:
            assert "max_iter is given for a DTensor that is split" in found.pop("max_iter")
            assert found.pop("k of a wrong type") == "TypeError: k is '3'; accepted: an integer"
        else:
            assert found.pop("max_iter") == found.pop("k of a wrong type") == refused(results)
        assert not found


def test_modules_in_parallelized_networks(results):
    assert of(results, "parallelized") == [[]] * len(results)


def test_compiled_dtensors(two):
    assert of(two, "compiled_dtensors") == [[], []]


@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "g++")), reason="inductor needs a C++ compiler: g++, or CXX")
def test_compiled_by_inductor():
    found = run_ranks(SCRIPT, 2, "cpu", "gloo", *(f"{case}_inductor" for case in TRACED), timeout=300)
    assert of(found, "compiled_inductor") == [[K_DIFFERS]] * 2
    assert of(found, "compiled_dtensors_inductor") == [[], []]


# ---- On a GPU ----


# NCCL takes one rank a GPU. What it does between ranks needs two of them.
OF_SEVERAL = ("subgroup", "mismatches", "mismatches_of_sizes", "late")
on_one_gpu = pytest.mark.parametrize("backend, ranks", [("gloo", 2), ("nccl", 1)])


@pytest.mark.gpu
@on_one_gpu
def test_on_a_gpu(backend, ranks):
    cases = [case for case in CASES if ranks > 1 or case not in OF_SEVERAL]
    results = run_ranks(SCRIPT, ranks, "cuda", backend, *cases, "compiled")
    for rank in of(results, "random_cases") + of(results, "edges"):
        assert rank["wrong"] == [] and rank["count"] >= 24
    assert of(results, "gradients") == [[]] * ranks
    assert of(results, "activation") == [["MaxK(k=4)"]] * ranks
    assert len(of(results, "compiled")) == ranks
    if ranks > 1:
        test_every_rank_has_the_same_bits(results)
        test_compiled_calls(results)
        for name in DIFFERENT:
            for case in ("mismatches", "mismatches_of_sizes"):
                test_every_rank_says_what_differs(case, name, results)
        test_headers_that_are_read_later(results, is_gpu=True)


@pytest.mark.gpu
def test_dtensors_on_a_gpu():
    # With gloo, torch 2.11's own full_tensor() of a CUDA DTensor ends in a segmentation fault.
    results = run_ranks(SCRIPT, 1, "cuda", "nccl", "dtensors", "parallelized", "compiled_dtensors")
    assert [rank["wrong"] for rank in of(results, "dtensors")] == [[]]
    assert of(results, "parallelized") == of(results, "compiled_dtensors") == [[]]
