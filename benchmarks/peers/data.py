"""The same sequences and the same starts for every peer, in one file per size.

A, B and C are the sizes of our earlier measurements; A and B have the shape of the paper's second
synthetic experiment, S is its first. Models are random, with uniform entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.kernels import expanded
from sojourn import Params

Arrays = dict[str, NDArray[np.generic]]

N_STARTS = 3
# Not a small number: a random start of an estimator with that seed would be the truth itself.
TRUTH = 20_140_711


@dataclass(frozen=True)
class Size:
    """A model and how much is drawn from it, and how long a peer may run EM.

    Parameters
    ----------
    name : str
    shape : tuple of int
        Numbers of states, steps and symbols.
    n, length, n_test : int
        Training sequences, symbols of each, and held-out sequences.
    few : int
        Training sequences that an expanded HMM is given, where all of them would take it minutes an
        iteration.
    budget : float
        Seconds of the processor after which no further EM iteration begins.
    starts : int
        Number of fits, each from its own start; one where an expanded HMM is given few.
    """

    name: str
    shape: tuple[int, int, int]
    n: int
    length: int
    n_test: int
    few: int
    budget: float
    starts: int

    def __str__(self) -> str:
        n_x, n_d, n_o = self.shape
        return (
            f"{n_x} states, durations to {n_d}, {n_o} symbols; {self.n:,} sequences of "
            f"{self.length:,}"
        )


SIZES = {
    size.name: size
    for size in (
        Size("S", (2, 2, 3), 500, 100, 1000, 500, 2.0, 2),
        Size("A", (4, 6, 5), 500, 100, 1000, 500, 8.0, 2),
        Size("B", (4, 6, 5), 5000, 100, 1000, 5000, 15.0, 2),
        Size("C", (8, 40, 9), 200, 1000, 30, 6, 12.0, 2),
    )
}
# Small enough for tests and for a first look.
QUICK = {
    size.name: size
    for size in (
        Size("S", (2, 2, 3), 40, 30, 20, 40, 1.0, 2),
        Size("A", (3, 4, 5), 40, 30, 20, 40, 1.0, 2),
    )
}


def generate(size: Size) -> Arrays:
    """Training and held-out sequences, and tables of the HMMs to start from.

    ``plain`` starts have a state for each state, ``expanded`` ones a state for each pair of a state
    and the steps that remain, with the zeros that make such an HMM an HSMM.
    """
    truth = Params.random(*size.shape, rng=TRUTH)
    n_x, n_d, n_o = size.shape
    arrays: Arrays = {
        "shape": np.array(size.shape),
        "train": truth.sample(size.n, size.length, rng=1).codes.reshape(size.n, -1),
        "test": truth.sample(size.n_test, size.length, rng=2).codes.reshape(size.n_test, -1),
    }
    for seed in range(N_STARTS):
        wide = Params.random(n_x, n_d, n_o, rng=100 + seed)
        flat = Params.random(n_x, 1, n_o, rng=100 + seed)
        starts = {"expanded": expanded(wide), "plain": (flat.start, flat.transition, flat.emission)}
        for model, tables in starts.items():
            for name, table in zip(("start", "A", "B"), tables, strict=True):
                arrays[f"{model}{seed}_{name}"] = table
        for name in ("start", "transition", "duration", "emission"):
            arrays[f"hsmm{seed}_{name}"] = getattr(wide, name)
    arrays["truth"] = truth.log_prob(arrays["test"], n_jobs=1) / size.length
    return arrays


def write(size: Size, folder: Path) -> Path:
    """The file that all peers read."""
    path = folder / f"{size.name}.npz"
    np.savez(path, **generate(size))
    return path
