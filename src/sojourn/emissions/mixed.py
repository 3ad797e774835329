"""Quantiles of what is observed where the state is not known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sojourn.emissions.base import Emission
from sojourn.errors import SojournError

Floats = NDArray[np.float64]

HALVINGS = 80
FARTHEST = 1e300  # where the search for a quantile gives up


def quantile(density: Emission, shares: Floats, level: float) -> Floats:
    """The least value that each channel stays at or below with this probability."""
    if not 0.0 < level < 1.0:
        raise SojournError(f"a level is {level!r}; expected a probability between 0 and 1")
    means, spreads = np.nan_to_num(density.mean()), np.nan_to_num(density.spread(), nan=1.0)

    def below(points: Floats) -> Floats:
        return np.asarray(np.einsum("nx,nxd->nd", shares, density.cdf(points)))

    low = np.broadcast_to((means - 10 * spreads).min(axis=0), (len(shares), means.shape[1]))
    high = np.broadcast_to((means + 10 * spreads).max(axis=0), low.shape)
    width = np.maximum(high - low, 1e-300)
    while (wide := (below(low) >= level) & (low > -FARTHEST) & (width < FARTHEST)).any():
        low, width = np.where(wide, low - width, low), np.where(wide, 2 * width, width)
    while (wide := (below(high) < level) & (high < FARTHEST) & (width < FARTHEST)).any():
        high, width = np.where(wide, high + width, high), np.where(wide, 2 * width, width)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        under = below(middle) < level
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    found = high + 0.0  # never -0
    return np.asarray(np.where(np.isnan(density.mean()).any(axis=0), np.nan, found))
