"""scikit-splearn's next symbols: ``FOLDER N_SYMBOLS``; reads train.txt, writes predicted.npy.

Rank and length of the windows are those that rank the next symbols of held-out strings best.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from splearn.datasets.data_sample import SplearnArray
from splearn.spectral import Spectral

SIZES = ((10, 2), (30, 2), (30, 3))  # rank, length of rows and columns
MOST_ROWS = 5000


def read(path):
    return [list(map(int, line.split())) for line in path.read_text().split("\n")[:-1]]


def learned(rows, n_symbols, rank, length):
    table = np.full((len(rows), max(map(len, rows))), -1.0)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    spectral = Spectral(
        rank=rank, lrows=length, lcolumns=length, version="factor", partial=True, sparse=True,
        smooth_method="none", mode_quiet=True,
    )  # fmt: skip
    spectral.fit(SplearnArray(table, nbL=n_symbols, nbEx=len(rows)))
    return spectral.automaton


def following(automaton, prefixes):
    """Weights of each symbol and, last, of the end after each prefix, by scaled products."""
    A = [np.asarray(a) for a in automaton.transitions]
    final, n = np.asarray(automaton.final), len(automaton.initial)
    total = np.linalg.solve(np.eye(n) - sum(A), final)  # what all continuations weigh
    out = np.empty((len(prefixes), len(A) + 1))
    for row, prefix in zip(out, prefixes, strict=True):
        state = np.asarray(automaton.initial)
        for symbol in prefix:
            state = state @ A[symbol]
            state = state / max(np.abs(state).max(), 1e-300)
        row[:-1] = [state @ a @ total for a in A]
        row[-1] = state @ final
        if state @ total < 0:
            row *= -1
    return out


def quality(automaton, rows):
    """Mean of 1/log2(rank + 1) of what follows the middle of each string."""
    cut = [(row[: len(row) // 2], row[len(row) // 2]) for row in rows if row]
    weights = following(automaton, [prefix for prefix, _ in cut])
    own = weights[np.arange(len(cut)), [symbol for _, symbol in cut]]
    place = 1 + (weights > own[:, None]).sum(axis=1)
    return np.mean(1 / np.log2(place + 1))


def main(folder, n_symbols):
    rows, prefixes = read(folder / "train.txt"), read(folder / "prefixes.txt")
    rows = rows[:MOST_ROWS]
    held, train = rows[::10], [row for i, row in enumerate(rows) if i % 10]
    tried = [learned(train, n_symbols, *size) for size in SIZES]
    best = SIZES[int(np.argmax([quality(automaton, held) for automaton in tried]))]
    np.save(folder / "predicted.npy", following(learned(rows, n_symbols, *best), prefixes))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), int(sys.argv[2]))
