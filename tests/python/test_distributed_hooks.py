"""topk_hook in DistributedDataParallel: real processes, which compare themselves with a reference (hook_cases.py)."""

import signal
from pathlib import Path

import pytest
import torch

from ranks import end_of_ranks, run_ranks
from rtopk.distributed import CompressionStats, TopKState, topk_hook

CASES = Path(__file__).with_name("hook_cases.py")
DTYPES = ("torch.float32", "torch.float64", "torch.float16", "torch.bfloat16")
REFERENCES = [
    *DTYPES, "16-bit positions", "float16 values", "bfloat16 values", "bfloat16 as float16", "views",
    "static graph", "unused",
]  # fmt: skip


@pytest.fixture(scope="module", params=[2, 4], ids=["2 ranks", "4 ranks"])
def results(request):
    """What every rank reported: one group of processes for all tests. At its end the last rank is killed."""
    ended = end_of_ranks(CASES, request.param, timeout=240)
    statuses = [rank.status for rank in ended]
    assert statuses == [0] * (request.param - 1) + [-signal.SIGKILL], [rank.output for rank in ended]
    return [rank.results for rank in ended]


def every(results, case):
    """The result of a case on each rank. An error of a rank is the test's error."""
    found = [each[case] for each in results]
    for rank, each in enumerate(found):
        assert not (isinstance(each, dict) and "error" in each), f"rank {rank}: {each['error']}"
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_chunks_are_the_plain_average(results, dtype):
    every(results, f"whole chunks {dtype}")


@pytest.mark.parametrize("case", REFERENCES)
def test_sent_and_kept_follow_the_reference_bit_for_bit(results, case):
    found = every(results, f"reference {case}")
    assert len({each["digest"] for each in found}) == 1
    assert len({each["kept"] for each in found}) == len(found)  # each rank keeps its own
    if case in ("views", "static graph", "unused"):
        assert found[0]["buckets"] > 1


def test_buckets_do_not_change_a_bit(results):
    for one, many, views in every(results, "buckets"):
        assert one == 3  # one for each dtype
        assert many == views > one


def test_a_saved_state_resumes_bit_for_bit(results):
    found = every(results, "resumes")
    assert len({each["digest"] for each in found}) == 1
    assert found[0]["steps"] == 9 and found[0]["buckets"] > 1


def test_loading_refuses_the_state_of_another_rank_or_model(results):
    ranks = len(results)
    for rank, texts in enumerate(every(results, "loading refuses")):
        other_rank, other_ranks, less, smaller = texts
        accepted = f"accepted: one that was saved by rank {rank} of {ranks}"
        assert other_rank == f"the state was saved by rank {rank + 1} of {ranks}; {accepted}"
        assert other_ranks == f"the state was saved by rank {rank} of 7; {accepted}"
        assert "error_feedback of 'weights.5' has 66 elements, and the model has no parameter" in less
        assert "error_feedback of 'weights.0' has 1000 elements, and the model has 9" in smaller


def test_the_first_steps_are_all_reduce(results):
    for each in every(results, "warms up"):
        assert each == {"equal": [True, True, True, False, False], "steps": 5}


def test_bytes_are_counted(results):
    ranks = len(results)
    dense = 2 * 356 * 4 * (ranks - 1) // ranks
    packed = 6 * 4 * (4 + 1)  # 2 + 4 chunks
    for rate, all_reduce_bytes, sent_bytes in every(results, "counts bytes"):
        assert (all_reduce_bytes, sent_bytes) == (2 * dense, dense + packed * (ranks - 1))
        assert rate == all_reduce_bytes / sent_bytes


def test_what_is_not_worth_compressing_is_all_reduced_with_a_warning(results):
    ranks = len(results)
    for each in every(results, "sends dense"):
        assert each["rate"] == 1
        (text,) = each["warnings"]
        assert f"k is 64 and chunk 64: with {ranks} ranks, all-reduce sends" in text


def test_nan_and_infinity_arrive_everywhere_and_are_not_kept(results):
    for each in every(results, "not finite"):
        assert each == {"nan": [5, 32, 33], "inf": [20], "kept_is_finite": True, "then_finite": True}


def test_what_16_bits_cannot_hold_arrives_in_parts(results):
    for each in every(results, "too large"):
        assert each == {"first": [65504, -65504], "sum": [1e6, -1e6], "infinite": 2}


@pytest.mark.parametrize(
    "name, text",
    [
        ("k", "k is 2 on rank 0,"),
        ("chunk", "chunk is 16 on rank 0,"),
        ("value_dtype", "value_dtype is None on rank 0,"),
        ("warm_up_steps", "warm_up_steps is 0 on rank 0,"),
        ("min_compression_rate", "min_compression_rate is 1 on rank 0,"),
    ],
)
def test_settings_that_differ_are_an_error_on_every_rank(results, name, text):
    odd = {"k": "3", "chunk": "32", "value_dtype": "torch.float16", "warm_up_steps": "1", "min_compression_rate": "0.5"}
    for each in every(results, f"mismatched {name}"):
        assert each.startswith("ValueError: TopKState: ") and text in each
        assert f"{odd[name]} on rank {len(results) - 1}; accepted: the same on every rank" in each


def test_a_group_of_its_own_is_used(results):
    assert len(set(every(results, "group"))) == 1


def test_accumulated_gradients_are_one_step(results):
    assert every(results, "accumulates") == [1] * len(results)


def test_a_network_learns_as_with_all_reduce(results):
    for losses in every(results, "trains"):
        first, plain = losses["all-reduce"]
        assert losses["top-k"][0] == first > 1.9  # of 7 classes
        assert plain < 0.1 and losses["top-k"][1] < 0.3


def test_a_killed_rank_is_an_error_of_the_others(results):
    for rank in results[:-1]:
        assert rank["killed"]["step"] in (2, 3) and "peer" in rank["killed"]["text"]


def test_backward_goes_on_while_no_all_gather_can_end():
    """In processes of its own: if a hook waited, its group would be of no use to other cases."""
    first, last = every(run_ranks(CASES, 2, "goes on"), "goes on")
    assert first == {"last": False, "buckets": 6, "started": 5, "ended": 0}
    assert last == {"last": True, "buckets": 6, "started": 0, "ended": 0}


@pytest.mark.gpu
def test_the_bits_are_those_of_the_cpu():
    """NCCL takes one rank for each GPU: that several ranks give the same bits, only several GPUs can show."""
    found = run_ranks(CASES, 1, "nccl")
    for case in REFERENCES:
        if case != "unused":  # by the last rank; where no other one uses it, DDP leaves the gradient as it is
            every(found, f"reference {case}")
    assert every(found, "not finite")[0]["nan"] == [5, 32, 33]


# ---- Without processes ----


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"k": 0}, ValueError, "k is 0; accepted: 1 to 256"),
        ({"k": 17, "chunk": 16}, ValueError, "k is 17; accepted: 1 to 16"),
        ({"k": 1, "chunk": 65537}, ValueError, "chunk is 65537; accepted: 1 to 65536"),
        ({"k": 1.5}, TypeError, "k is 1.5; accepted: an int"),
        ({"k": 1, "chunk": True}, TypeError, "chunk is True; accepted: an int"),
        ({"k": 1, "warm_up_steps": -1}, ValueError, "warm_up_steps is -1; accepted: 0 or more"),
        ({"k": 1, "value_dtype": torch.int8}, ValueError, "value_dtype is torch.int8; accepted: None, torch.float16"),
        ({"k": 1, "min_compression_rate": -1}, ValueError, "min_compression_rate is -1; accepted: a number, 0 or more"),
        ({"k": 1, "min_compression_rate": "2"}, ValueError, "min_compression_rate is '2'; accepted: a number"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        TopKState(**arguments)


def test_the_hook_refuses_other_states():
    with pytest.raises(TypeError, match="'state' is NoneType; accepted: TopKState"):
        topk_hook(None, None)


def test_nothing_sent_is_a_rate_of_zero():
    assert TopKState(1).compression_stats() == CompressionStats(0.0, 0, 0)
