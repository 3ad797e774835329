"""Far predictions: many steps of a linear map by repeated squaring."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError

Floats = NDArray[np.float64]

MANY = 4096  # steps that are taken one by one, as a stream takes them
MOST = 1024  # coordinates of a state whose map is squared: a second or so


def distribution_after(step: Callable[[Floats], Floats], rows: Floats, n: int) -> Floats:
    """Rows of probabilities after `n` steps of a linear map that keeps their sums, (n_rows, k).

    Examples
    --------
    >>> swap = lambda rows: rows[:, ::-1]
    >>> distribution_after(swap, np.array([[1.0, 0.0]]), 10**9 + 1)
    array([[0., 1.]])
    """
    if n <= MANY:
        for _ in range(n):
            rows = step(rows)
        return rows
    k = rows.shape[1]
    if k > MOST:
        raise SojournError(
            f"horizon is more than {MANY} steps, and the model has {k} pairs of a state and the "
            f"steps that remain; give at most {MANY}, or fit with n_states * max_duration below "
            f"{MOST}"
        )
    M = step(np.eye(k))
    while n:
        if n & 1:
            rows = _normalised(rows @ M)
        n >>= 1
        if n:
            M = _normalised(M @ M)  # else rounding would add up to the loss of all of a row
    return rows


def _normalised(rows: Floats) -> Floats:
    return rows / rows.sum(axis=1, keepdims=True)
