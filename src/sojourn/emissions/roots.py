"""The root of a falling function, elementwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HALVINGS = 64  # of the logarithm of a range of at most e^60: to the last bit


def bisected(
    slope: Callable[[Floats], Floats], low: float, high: float, shape: tuple[int, ...]
) -> Floats:
    """Where a falling function crosses zero between two positive bounds; a bound if nowhere."""
    lower, upper = np.full(shape, np.log(low)), np.full(shape, np.log(high))
    for _ in range(HALVINGS):
        middle = 0.5 * (lower + upper)
        rises = slope(np.exp(middle)) > 0.0
        lower, upper = np.where(rises, middle, lower), np.where(rises, upper, middle)
    return np.asarray(np.exp(0.5 * (lower + upper)))
