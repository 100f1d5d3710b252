"""Old names of arguments, accepted for one more version."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TypeVar

_Function = TypeVar("_Function", bound=Callable)


def renamed_arguments(**new_names: str) -> Callable[[_Function], _Function]:
    """A decorator for a function whose keyword arguments have new names, given as old="new". A call with an old name
    works, and warns."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args, **kwargs):
            for old in new_names.keys() & kwargs.keys():
                new = new_names[old]
                if new in kwargs:
                    raise TypeError(f"{old} and {new} are one argument; accepted: {new}")
                warnings.warn(
                    f"{old} is called {new} now; the old name will be removed in the next version",
                    FutureWarning,
                    stacklevel=2,
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
