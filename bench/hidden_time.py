"""How much of the time of messages the work beside them hides: steps as they are, and steps that wait for every message
before they go on. The two alternate, and what is hidden is the difference of a pair: a machine that is slow for a while
slows both."""

import statistics

WAYS = ("as it is", "waiting")
_TIMES = ("ms", "waiting_ms", "stood_still_ms", "hidden_ms")


def quarters(samples):
    low, median, high = statistics.quantiles(samples, n=4)
    return {"median": median, "quarters": [low, high]}


def hidden_time(whole, waiting, stood_still):
    """Medians and quarters of milliseconds.

    Args:
        whole: of steps as they are.
        waiting: of those that wait, in pairs with `whole`.
        stood_still: for how long these waited.
    """
    hidden = [slow - fast for slow, fast in zip(waiting, whole, strict=True)]
    every = zip(_TIMES, (whole, waiting, stood_still, hidden), strict=True)
    return {name: quarters(samples) for name, samples in every}


def header():
    return "".join(f"{name:>27}" for name in _TIMES) + f"{'hidden':>8}"


def shown(times):
    """A row under header()."""
    cells = "".join(f"{_with_quarters(times[name]):>27}" for name in _TIMES)
    return f"{cells}{times['hidden_ms']['median'] / times['stood_still_ms']['median']:8.0%}"


def _with_quarters(times):
    low, high = times["quarters"]
    return f"{times['median']:.1f} ({low:.1f} to {high:.1f})"
