"""Rows in the order of their owners, and of their times within each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


def order(
    owner: NDArray[np.int32], n: int, time: NDArray[Any] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows sorted by owner and then by time, ties in their old order, and the rows of each owner.

    Counting the rows of each owner puts them together in one pass, so that what is left to sort
    is short runs: several times faster than sorting all rows at once.

    Parameters
    ----------
    owner : int32 array (n_rows,)
        From 0 to ``n - 1``.
    n : int
        Number of owners.
    time : int64 or float64 array (n_rows,), optional
        No NaN.

    Returns
    -------
    rows : int64 array (n_rows,)
        The rows in their new order.
    lengths : int64 array (n,)
        Number of rows of each owner.

    Examples
    --------
    >>> order(np.array([1, 0, 1], dtype=np.int32), 2, np.array([0.5, 9.0, 0.1]))
    (array([1, 2, 0]), array([1, 2]))
    """
    rows, lengths = _group(owner, n)
    if time is not None:
        _sort_runs(rows, lengths, time)
    return rows, lengths


@njit(cache=True, nogil=True)
def _group(owner: NDArray[np.int32], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Counting sort of the rows by owner."""
    lengths = np.zeros(n, dtype=np.int64)
    for i in range(owner.size):
        lengths[owner[i]] += 1
    place = np.cumsum(lengths) - lengths
    rows = np.empty(owner.size, dtype=np.int64)
    for i in range(owner.size):
        rows[place[owner[i]]] = i
        place[owner[i]] += 1
    return rows, lengths


@njit(cache=True, nogil=True)
def _sort_runs(rows: NDArray[np.int64], lengths: NDArray[np.int64], time: NDArray[Any]) -> None:
    """Sort each owner's rows by time in place, where they are not sorted already."""
    start = 0
    for length in lengths:
        own = rows[start : start + length]
        start += length
        times = time[own]
        for i in range(1, length):
            if times[i] < times[i - 1]:
                own[:] = own[np.argsort(times, kind="mergesort")]
                break
