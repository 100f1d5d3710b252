"""The rules of early stopping, what a search that max_iter stops selects, and the searches; what is behind a row."""

from __future__ import annotations

from math import inf, nan
from typing import Any

# In the order of the library's enumerators.
RULES = ("threshold_first", "printed")
SEARCHES = ("fast", "bisection")


def one_of(name: str, value: Any, accepted: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in accepted:
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(f"{name} is {value!r}; accepted: {' or '.join(map(repr, accepted))}")
    return value


def check_rule(rule: Any) -> str:
    return one_of("rule", rule, RULES)


def check_search(search: Any) -> str:
    return one_of("search", search, SEARCHES)


def is_printed(rule: Any) -> bool:
    """The rule as the operators take it."""
    return check_rule(rule) == "printed"


def search_flags(rule: Any, search: Any) -> tuple[bool, bool]:
    """Both as the operators take them: printed, bisection."""
    return is_printed(rule), check_search(search) == "bisection"


def losing_value(is_integer: bool, largest: bool, magnitude: bool) -> float:
    """What stands behind the elements of a row and loses against all of them: rtopk/rows.hpp has the table."""
    if is_integer:
        least, greatest = -(1 << 31), (1 << 31) - 1
        return (0 if magnitude else least) if largest else (least if magnitude else greatest)
    return (0.0 if magnitude else -inf) if largest else nan
