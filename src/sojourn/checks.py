"""Checks of arguments, of the arrays of an object, and of packages that not everybody has."""

from __future__ import annotations

import operator
from importlib import import_module
from typing import Any

from sojourn.errors import SojournError

# 1 GiB of float64: a larger table is more likely a mistake than a wish.
MAX_ENTRIES = 2**27
# Larger numbers in a table are no estimates; products of a few of them are still finite.
LARGEST = 1e50
MOST_COUNTED = 2**40  # in one entry of a table of counts; sums over all its entries fit 64 bits


def positive_int(name: str, value: Any) -> int:
    """The value as an integer of at least 1, or an error."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise SojournError(f"{name} must be an integer of at least 1, not {value!r}")
    return number


def seed_of(random_state: Any) -> int:
    """A seed from any form of `random_state` that scikit-learn or numpy accept; None is 0.

    Examples
    --------
    >>> seed_of(None), seed_of(7)
    (0, 7)
    """
    if random_state is None:
        return 0
    if hasattr(random_state, "integers"):
        return int(random_state.integers(2**31))
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31))
    try:
        seed = operator.index(random_state)
    except TypeError:
        seed = -1
    if seed < 0:
        raise SojournError(
            f"random_state is {random_state!r}; expected None, an integer of at least 0, or a "
            f"Generator or RandomState of numpy"
        )
    return seed


def optional(module: str, what: str, extra: str) -> Any:
    """A package that not everybody has, or an error that says what needs it."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise SojournError(
            f"{what} needs {name}, which is not installed; pip install 'sojourn[{extra}]'"
        ) from None


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise an error if the value is not one of those allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise SojournError(f"{name} is {value!r}; it is one of {', '.join(map(repr, allowed))}")


def check_arrays(owner: Any, /, **forms: str) -> dict[str, int]:
    """Raise an error if arrays of an object do not fit together; else the sizes of their axes.

    A form is a dtype and one word per axis: a number, or a name that has one size everywhere.
    Floats are finite and of a sane size, unless the dtype ends in "?"; where it ends in "+",
    numbers are counts or sizes: not negative, and integers not beyond what can be counted.
    """
    import numpy as np  # here, so that the command line shows its help without it

    sizes: dict[str, int] = {}
    for name, form in forms.items():
        array = getattr(owner, name)
        dtypes, *axes = form.split()
        fits = isinstance(array, np.ndarray) and array.dtype.name in dtypes.rstrip("?+").split("|")
        if fits and array.ndim == len(axes):
            for axis, n in zip(axes, array.shape, strict=True):
                fits &= n == (int(axis) if axis.isdigit() else sizes.setdefault(axis, n))
            if fits:
                _check_values(owner, name, array, dtypes)
                continue
        is_array = isinstance(array, np.ndarray)
        found = f"{array.dtype} {array.shape}" if is_array else type(array).__name__
        known = "".join(f", {axis} = {sizes[axis]}" for axis in sizes if axis in axes)
        raise SojournError(
            f"{name} of {type(owner).__name__} is {found}; expected {dtypes} ({', '.join(axes)})"
            f"{known}"
        )
    return sizes


def _check_values(owner: Any, name: str, array: Any, dtypes: str) -> None:
    """Raise an error if an array has entries that no fit leaves in it."""
    if array.size == 0 or array.dtype.kind not in "fi" or dtypes.endswith("?"):
        return
    least, most = array.min(), array.max()  # NaN where there is one
    positive = dtypes.endswith("+")
    limit = LARGEST if array.dtype.kind == "f" else MOST_COUNTED if positive else most
    if not (0 if positive else -LARGEST) <= least <= most <= limit:
        raise SojournError(
            f"{name} of {type(owner).__name__} has entries from {least} to {most}; expected finite "
            f"numbers of at most {limit:g}{', none of them negative' * positive}"
        )
