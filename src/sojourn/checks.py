"""Checks of arguments that the estimators share."""

from __future__ import annotations

import operator
from typing import Any

from sojourn.errors import SojournError

# 1 GiB of float64: a larger table is more likely a mistake than a wish.
MAX_ENTRIES = 2**27


def positive_int(name: str, value: Any) -> int:
    """The value as an integer of at least 1, or an error.

    Examples
    --------
    >>> positive_int("n_states", 3)
    3
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise SojournError(f"{name} must be an integer of at least 1, not {value!r}")
    return number


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise an error if the value is not one of those allowed.

    Examples
    --------
    >>> check_choice("filter", "raw", ("normalised", "raw"))
    """
    if not isinstance(value, str) or value not in allowed:
        raise SojournError(f"{name} is {value!r}; it is one of {', '.join(map(repr, allowed))}")
