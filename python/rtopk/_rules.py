"""The rules of early stopping: what a search that max_iter stops selects."""

from __future__ import annotations

from typing import Any

RULES = ("threshold_first", "printed")


def check_rule(rule: Any) -> str:
    if not isinstance(rule, str) or rule not in RULES:
        kind = ValueError if isinstance(rule, str) else TypeError
        raise kind(f"rule is {rule!r}; accepted: {' or '.join(map(repr, RULES))}")
    return rule


def is_printed(rule: Any) -> bool:
    """The rule as the operators take it."""
    return check_rule(rule) == "printed"
