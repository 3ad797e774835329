"""Whether a larger model ever fits worse: what EM maximises over a grid of sizes.

A model of more states, or with more free steps, contains every smaller one, so a fall is a start
that ended in a bad local optimum. Songs and simulated flights are found through SOJOURN_DATA.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.real import flights
from sojourn import HSMM, Params, Sequences, read

STATES = (4, 8, 16, 32, 48)
DURATIONS = (1, 5, 10, 20, 30)
# Nats per symbol that a larger size may be behind a smaller one.
ALLOWED = 0.002


def songs(name: str) -> Callable[[Path], Sequences]:
    """Syllables of a finch."""
    return lambda folder: read(folder / name, id="song", time="onset", symbol="syllable")


def synthetic(_: Path) -> Sequences:
    """Sequences of a random model."""
    return Params.random(8, 20, 6, rng=11).sample(200, 200, rng=12)


CORPORA: dict[str, Callable[[Path], Sequences]] = {
    "finch4.csv": songs("finch4.csv"),
    "finch7.csv": songs("finch7.csv"),
    "flightsim.csv": lambda folder: flights(folder).normal,
    "(8,20,6)": synthetic,
}


def grid(
    data: Sequences, states: Sequence[int] = STATES, durations: Sequence[int] = DURATIONS
) -> NDArray[np.float64]:
    """What EM reached at each size, per symbol, printed row by row."""
    found = np.empty((len(states), len(durations)))
    print("states  " + "".join(f"{f'to {n_d}':>10s}" for n_d in durations) + "   seconds")
    for i, n_x in enumerate(states):
        began = time.perf_counter()
        for j, n_d in enumerate(durations):
            found[i, j] = HSMM(n_x, n_d, verbose=False).fit(data).history_[-1] / data.n_total
        row = "".join(f"{value:10.4f}" for value in found[i])
        print(f"{n_x:6d}  {row}   {time.perf_counter() - began:7.0f}", flush=True)
    return found


def run() -> None:
    """The grid of each corpus, and the largest fall in it."""
    folder = Path(os.environ.get("SOJOURN_DATA", ""))
    for name, load in CORPORA.items():
        if name.endswith(".csv") and not (folder / name).is_file():
            print(f"skipped: set SOJOURN_DATA to a folder with {name}")
            continue
        print(f"\n{name}: what EM maximises, in nats per symbol")
        found = grid(load(folder))
        falls = [-np.diff(found, axis=axis).min(initial=0.0) for axis in (0, 1)]
        print(
            f"largest fall: {falls[0]:.4f} with more states, {falls[1]:.4f} with more steps "
            f"(allowed {ALLOWED})"
        )
