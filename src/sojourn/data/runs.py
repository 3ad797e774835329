"""Run lengths: stretches of equal values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


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
        begins[offsets[:-1]] = True
    starts = np.flatnonzero(begins)
    return Runs(starts, np.diff(starts, append=len(values)), values[starts])
