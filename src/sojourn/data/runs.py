"""Stretches of an array: sums over them, and runs of equal values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


def sums(values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[Any]:
    """Sum of the values of each sequence, 0 for an empty one, where `np.add.reduceat` is wrong."""
    total = np.zeros(len(offsets) - 1, dtype=values.dtype)
    filled = np.flatnonzero(np.diff(offsets))
    if filled.size:
        total[filled] = np.add.reduceat(values, offsets[filled])
    return total


class Runs(NamedTuple):
    """Stretches of equal values: where each starts, its length, its value."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    values: NDArray[Any]


def runs(values: NDArray[Any], offsets: NDArray[np.int64] | None = None) -> Runs:
    """Stretches of equal values, none of which crosses the start of a sequence."""
    begins = np.ones(len(values), dtype=np.bool_)
    begins[1:] = values[1:] != values[:-1]
    if offsets is not None:
        starts = offsets[:-1]
        begins[starts[starts < len(values)]] = True  # an empty sequence at the end begins nothing
    starts = np.flatnonzero(begins)
    return Runs(starts, np.diff(starts, append=len(values)), values[starts])
