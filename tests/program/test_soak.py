"""rtopk soak: random problems, checked."""

import re

import pytest


def counts(text):
    """The table's rows: {family: (problems, rows)}."""
    lines = (line.split() for line in text.splitlines()[1:] if not line.startswith("OK"))
    return {fields[0]: (int(fields[1]), int(fields[2])) for fields in lines}


def test_tries_and_counts(rtopk):
    done = rtopk("soak", "--device", "cpu", "--problems", 40, "--seconds", 600, "--seed", 3)
    table = counts(done.stdout)
    everything = table.pop("all")
    assert everything == tuple(map(sum, zip(*table.values(), strict=True))) and everything[0] == 40
    assert f"OK: 40 problems, {everything[1]} rows on cpu" in done.stdout and "seed 3: none wrong" in done.stdout
    assert done.stderr == ""


def test_same_seed_same_problems(rtopk):
    def tried(seed):
        arguments = ("--problems", 12, "--seconds", 600, "--seed", seed)
        return counts(rtopk("soak", "--device", "cpu", *arguments).stdout)["all"]

    assert tried(5) == tried(5) != tried(6)


def test_ends_in_time_after_at_least_one_problem(rtopk):
    done = rtopk("soak", "--device", "cpu", "--seconds", 0)
    assert done.stdout.splitlines()[-1].startswith("OK: 1 problems")


@pytest.mark.parametrize("problem", range(0, 60, 4))
def test_a_spoiled_result_is_found_and_can_be_repeated(rtopk, problem):
    """One flipped bit in the last result of the last row, whatever the form."""
    done = rtopk("soak", "--device", "cpu", "--seed", 11, "--problem", problem, "--spoil", code=1)
    broken, repeat = done.stdout.splitlines()
    assert broken.startswith(f"BROKEN: problem {problem} (") and re.search(r"\): cpu_\w+, row \d+: ", broken), broken
    assert repeat == f"repeat: rtopk soak --seed 11 --problem {problem} --device cpu"
    assert rtopk(*repeat.removeprefix("repeat: rtopk ").split()).stdout.count("OK: 1 problems") == 1


def test_quiet(rtopk):
    assert rtopk("soak", "--device", "cpu", "--problems", 3, "--quiet").stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seconds", "-1"], "--seconds"),
        (["--seed", "-1"], "'-1' is no whole number"),
        (["--problem", "-1"], "--problem"),
        (["--problems", "0"], "--problems"),
        (["--device", "gpu"], "'gpu' is none of"),
    ],
)
def test_refused(refused, arguments, says):
    refused("soak", *arguments, says=says)


def test_on_a_gpu(rtopk, needs_gpu):
    done = rtopk("soak", "--device", "cuda", "--problems", 60, "--seconds", 600)
    assert "OK: 60 problems" in done.stdout and "cuda_" in done.stdout
