"""What a sequence did, less what the model expects of a sequence of its length.

Residuals come in blocks: symbols in the whole sequence and in its quarters, states in quarters,
transitions, stays, emissions and surprise of an `HSMM`; symbols, pairs of them and surprise of a
model without states. What the model expects is what it
says of a sequence of the same length in which every symbol is missing.

A block is whitened on the sequences that the model was fitted on, which gives one distance a block.
How large distances usually are is learned from sequences held out of the fit: a block that the
model has learned by heart is far out for every new sequence, and says little. The score is a soft
maximum over the blocks, so that one block far out is enough and several that are somewhat out add
up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import check_arrays
from sojourn.data.sequences import Sequences
from sojourn.exact.expected_counts import expected_counts_each, state_probabilities

Floats = NDArray[np.float64]

# Columns that hardly vary among normal sequences are not divided by less than these, or a trace of
# something new would outweigh everything else.
LEAST_SCALE, LEAST_SHARE = 1e-3, 0.05
RIDGE = 0.01  # of the unit variance that a column has; keeps the whitening finite
LEAST_SPREAD = 0.1
TOP = 5  # surprises that count as the highest ones of a sequence
QUARTERS = 4  # parts of a sequence, for what comes early and what late
MOST_PAIRS = 900  # with more pairs of symbols than this, pairs are not counted
PER_PASS = 256  # sequences whose expected counts are held at a time


@dataclass(frozen=True, eq=False)
class Whitening:
    """Residuals of normal sequences in one block: their centre, their shape, and how far they are.

    Attributes
    ----------
    mean, scale : array (n_columns,)
    precision : array (n_columns, n_columns)
        Inverse of the shrunk covariance of the scaled columns.
    centre, spread : float
        Mean and standard deviation of the distances of normal sequences.
    """

    mean: Floats
    scale: Floats
    precision: Floats
    centre: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        check_arrays(self, mean="float64 n", scale="float64 n", precision="float64 n n")

    def distance(self, block: Floats) -> Floats:
        """How far each row is from the normal ones: the logarithm of its squared distance."""
        z = (block - self.mean) / self.scale
        # Not by BLAS, whose last bit depends on where arrays lie: what is loaded scores the same.
        squares = (np.einsum("ij,kj->ik", z, self.precision) * z).sum(axis=1)
        # Some normal sequences are ten times as far out as others: their logarithm is not.
        return np.asarray(np.log1p(np.maximum(squares, 0.0)))

    def standard(self, block: Floats) -> Floats:
        """How far out each row is, in standard deviations of normal ones."""
        return (self.distance(block) - self.centre) / self.spread

    def scaled(self, distances: Floats) -> Whitening:
        """The same, with the centre and the spread of these distances of normal sequences."""
        spread = max(float(distances.std()), LEAST_SPREAD)
        return replace(self, centre=float(distances.mean()), spread=spread)


def whiten(block: Floats) -> Whitening:
    """The whitening of a block, learned from rows that are normal; distances are not yet scaled.

    Parameters
    ----------
    block : array (n, n_columns)

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 3))
    >>> learned = whiten(rows[:500])
    >>> learned = learned.scaled(learned.distance(rows[500:]))
    >>> bool(abs(learned.standard(rows).mean()) < 0.1)
    True
    """
    from sklearn.covariance import ledoit_wolf

    mean, scale = block.mean(axis=0), block.std(axis=0)
    scale = np.maximum(scale, max(LEAST_SCALE, LEAST_SHARE * float(np.median(scale))))
    covariance, _ = ledoit_wolf((block - mean) / scale, assume_centered=True)
    precision = np.linalg.inv(covariance + RIDGE * np.eye(len(mean)))
    return Whitening(mean, scale, np.ascontiguousarray(precision))


def soft_maximum(columns: Floats) -> Floats:
    """Log of the sum of exponentials of each row.

    Examples
    --------
    >>> soft_maximum(np.array([[0.0, 0.0], [9.0, 0.0]])).round(3)
    array([0.693, 9.   ])
    """
    top = columns.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(columns - top).sum(axis=1)))


def residuals(model: Any, sequences: Sequences) -> dict[str, Floats]:
    """Residuals of each sequence by block, one row a sequence.

    Parameters
    ----------
    model : HSMM or SpectralHSMM
        Fitted.
    sequences : Sequences
        In the vocabulary of the model; each one possible under it.

    Examples
    --------
    >>> from sojourn import Params, SpectralHSMM
    >>> seqs = Params.random(2, 2, 3, rng=0).sample(50, 40, rng=1)
    >>> sorted(residuals(SpectralHSMM(2, 2).fit(seqs), seqs))
    ['course', 'pair', 'surprise', 'symbol', 'symbol surprise']
    """
    blocks = {
        "symbol": _symbols(sequences),
        "course": _course(sequences),
        **_surprise(model, sequences),
    }
    if not hasattr(model, "params_"):
        if sequences.n_symbols**2 <= MOST_PAIRS:
            blocks["pair"] = _pairs(sequences)
        return blocks
    del blocks["symbol surprise"]  # its emissions say the same, state by state
    parts = [
        _states(model, sequences[first : first + PER_PASS])
        for first in range(0, len(sequences), PER_PASS)
    ]
    return {**blocks, **{name: np.concatenate([p[name] for p in parts]) for name in parts[0]}}


def counted(sequences: Sequences) -> Floats:
    """How often each symbol occurs in each sequence, (n, n_symbols).

    Examples
    --------
    >>> counted(Sequences.from_lists([[0, 1, 1], [0, None]]))
    array([[1., 2.],
           [1., 0.]])
    """
    n, n_o = len(sequences), sequences.n_symbols
    seen = sequences.codes >= 0
    owner = np.repeat(np.arange(n), sequences.lengths)[seen]
    flat = np.bincount(owner * n_o + sequences.codes[seen], minlength=n * n_o)
    return flat.reshape(n, n_o).astype(np.float64)


def _symbols(sequences: Sequences) -> Floats:
    counts = counted(sequences)
    return np.asarray(np.sqrt(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)))


def _quarter(sequences: Sequences) -> NDArray[np.int64]:
    """Number of the sequence and its quarter at each step, as one."""
    lengths = sequences.lengths
    owner = np.repeat(np.arange(len(sequences)), lengths)
    at = np.arange(sequences.n_total) - sequences.offsets[:-1][owner]
    return np.asarray(owner * QUARTERS + at * QUARTERS // lengths[owner])


def _course(sequences: Sequences) -> Floats:
    """Square roots of the shares of symbols in each quarter."""
    n, n_o = len(sequences) * QUARTERS, sequences.n_symbols
    seen = sequences.codes >= 0
    at = _quarter(sequences)[seen] * n_o + sequences.codes[seen]
    counts = np.bincount(at, minlength=n * n_o).reshape(n, n_o)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return np.asarray(np.sqrt(share).reshape(len(sequences), -1))


def _pairs(sequences: Sequences) -> Floats:
    """Square roots of the shares of neighbouring pairs."""
    n, n_o = len(sequences), sequences.n_symbols
    left, right = sequences.codes[:-1], sequences.codes[1:]
    owner = np.repeat(np.arange(n), sequences.lengths)
    inside = (left >= 0) & (right >= 0) & (owner[:-1] == owner[1:])
    at = owner[:-1][inside] * n_o**2 + left[inside].astype(np.int64) * n_o + right[inside]
    counts = np.bincount(at, minlength=n * n_o**2).reshape(n, -1)
    return np.asarray(np.sqrt(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)))


def _surprise(model: Any, sequences: Sequences) -> dict[str, Floats]:
    """Mean, spread, highest and neighbouring surprises; and the mean of each symbol's."""
    rows = np.zeros((len(sequences), 4))
    steps = model.surprise(sequences)
    for i, step in enumerate(steps):
        codes = sequences.codes[sequences.offsets[i] : sequences.offsets[i + 1]]
        if (seen := step[codes >= 0]).size:
            highest = np.sort(seen)[-TOP:].mean()
            together = (seen[1:] * seen[:-1]).mean() if seen.size > 1 else 0.0
            rows[i] = seen.mean(), seen.std(), np.sqrt(highest), np.sqrt(max(together, 0.0))
    flat, seen = np.concatenate(steps), sequences.codes >= 0
    n, n_o = len(sequences), sequences.n_symbols
    at = np.repeat(np.arange(n), sequences.lengths)[seen] * n_o + sequences.codes[seen]
    by_symbol = np.bincount(at, flat[seen], minlength=n * n_o).reshape(n, n_o)
    # Divided by the root of the count, a sum of independent terms has the same spread for any.
    return {
        "surprise": rows,
        "symbol surprise": by_symbol / np.sqrt(counted(sequences) + 1.0),
    }


def _states(model: Any, sequences: Sequences) -> dict[str, Floats]:
    """Blocks of the posterior: occupancy, transitions, stays, emissions."""
    params, initial, n_jobs = model.params_, model.initial_, model.n_jobs
    seen = expected_counts_each(params, sequences, initial, n_jobs=n_jobs)
    lengths, inverse = np.unique(sequences.lengths, return_inverse=True)
    offsets = np.append(0, np.cumsum(lengths))
    blank = Sequences(
        np.full(offsets[-1], -1, np.int32), offsets, sequences.vocabulary, np.arange(len(lengths))
    )
    expected = expected_counts_each(params, blank, initial, n_jobs=n_jobs)
    n, root = len(sequences), np.sqrt(sequences.lengths)[:, None]

    def occupancy(which: Sequences) -> Floats:
        gamma = state_probabilities(params, which, initial, n_jobs=n_jobs)
        found = np.zeros((len(which) * QUARTERS, gamma.shape[1]))
        np.add.at(found, _quarter(which), gamma)
        return found.reshape(len(which), -1)

    went = np.array([one.transition for one in seen])
    goes = np.array([one.transition for one in expected])[inverse]
    d = np.arange(1, params.max_duration + 1)
    mean = params.duration @ d
    # One step more: where all stays last alike, one that is a step off is no wonder.
    spread = np.sqrt(np.maximum(params.duration @ d**2 - mean**2, 0) + 1)
    z = (d - mean[:, None]) / spread[:, None]
    stays = np.array([one.duration + one.initial for one in seen])
    said = np.array([one.emission for one in seen])
    of_state = said.sum(axis=2, keepdims=True)
    n_stays = np.sqrt(stays.sum(axis=2) + 1)
    return {
        "state": (occupancy(sequences) - occupancy(blank)[inverse]) / root,
        "transition": (went - goes).reshape(n, -1) / root,
        "stay": np.hstack([(stays * z).sum(axis=2), (stays * (z**2 - 1)).sum(axis=2)])
        / np.hstack([n_stays, n_stays]),
        "emission": ((said - of_state * params.emission) / np.sqrt(of_state + 1)).reshape(n, -1),
    }
