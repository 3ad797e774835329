"""Checks of arguments that the estimators share."""

from __future__ import annotations

import operator
from typing import Any

from sojourn.errors import SojournError


def whole(name: str, value: Any) -> int:
    """A whole number of at least one, or an error.

    Examples
    --------
    >>> whole("n_states", 3)
    3
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise SojournError(f"{name} must be a whole number of at least 1, not {value!r}")
    return number


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise an error if the value is not one of those allowed.

    Examples
    --------
    >>> one_of("filter", "raw", ("normalised", "raw"))
    """
    if not isinstance(value, str) or value not in allowed:
        raise SojournError(f"{name} is {value!r}; it is one of {', '.join(map(repr, allowed))}")
