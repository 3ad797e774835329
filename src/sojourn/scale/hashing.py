"""A hash of 64-bit numbers that is the same on every machine: the finalizer of SplitMix64.

Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(h: Any) -> Any:
    """The hash of each entry of an array: every bit of it moves about half of the result's."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


mix_one = njit(cache=True, nogil=True)(mix)  # of one number, inside a kernel
