"""Compiled loops of normal densities, over blocks of steps that stay in the cache.

Steps are the inner loop, so that each line is a few vector instructions for several steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

BLOCK = 512  # steps
KERNEL: dict[str, Any] = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}}
# Sums may be in any order, which is the same at each call.
SUMS: dict[str, Any] = KERNEL | {"fastmath": {"contract", "nsz", "reassoc"}}


@njit(**KERNEL)
def _load(values, at, n, centre, per_scale, z) -> None:  # type: ignore[no-untyped-def]
    """The standardised values of n steps, channels first."""
    for j in range(len(centre)):
        for t in range(n):
            z[j, t] = (values[at + t, j] - centre[j]) * per_scale[j]


@njit(**KERNEL)
def log_normal(  # type: ignore[no-untyped-def]
    values, centre, per_scale, means, inverse, constant, out
) -> None:
    """Log p of values (T, d): constant - |L⁻¹ (z - μ)|² / 2 in each state, into (n_states, T)."""
    d = len(centre)
    z, white = np.empty((d, BLOCK)), np.empty(BLOCK)
    for at in range(0, len(values), BLOCK):
        n = min(BLOCK, len(values) - at)
        _load(values, at, n, centre, per_scale, z)
        for x in range(len(means)):
            row = out[x, at : at + n]
            row[:] = 0.0
            for i in range(d):
                white[:] = 0.0
                for j in range(i + 1):
                    c, mean = inverse[x, i, j], means[x, j]
                    if c != 0.0:
                        for t in range(n):
                            white[t] += c * (z[j, t] - mean)
                for t in range(n):
                    row[t] += white[t] * white[t]
            for t in range(n):
                row[t] = constant[x] - 0.5 * row[t]


@njit(**SUMS)
def products(values, centre, per_scale, weights):  # type: ignore[no-untyped-def]
    """Weight, sums and products of pairs of channels: (n_states, 1 + d + d(d+1)/2)."""
    d, n_x = len(centre), weights.shape[1]
    found = np.zeros((n_x, 1 + d + d * (d + 1) // 2))
    z, w, weighted = np.empty((d, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    for at in range(0, len(values), BLOCK):
        n = min(BLOCK, len(values) - at)
        _load(values, at, n, centre, per_scale, z)
        for x in range(n_x):
            total = 0.0
            for t in range(n):
                w[t] = weights[at + t, x]
                total += w[t]
            found[x, 0] += total
            k = 1 + d
            for i in range(d):
                total = 0.0
                for t in range(n):
                    weighted[t] = w[t] * z[i, t]
                    total += weighted[t]
                found[x, 1 + i] += total
                for j in range(i, d):
                    total = 0.0
                    for t in range(n):
                        total += weighted[t] * z[j, t]
                    found[x, k] += total
                    k += 1
    return found
