"""Residuals: observed counts of a sequence minus those that the model expects at its length.

They come in blocks: symbols in all of the sequence and in its quarters, when they occur, states in
quarters, transitions, stays, emissions and surprise of an `HSMM`; symbols, when they occur, pairs
of them and surprise of a model without states. The expected counts are those of a sequence of the
same length in which every symbol is missing.

Each block is whitened on the sequences that the model was fitted on, which gives one distance per
block. The usual size of a distance is learned from sequences held out of the fit: a block that the
model has overfitted is large for every new sequence, and is little evidence. The score is a soft
maximum over the blocks: one large block is enough, and several that are somewhat large add up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from sojourn.checks import LARGEST, check_arrays
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.detect.numbers import blank_like, surprises, value_residuals
from sojourn.errors import SojournError
from sojourn.exact.expected_counts import expected_counts_each, state_probabilities

Floats = NDArray[np.float64]

# Columns that hardly vary among normal sequences are not divided by less than this, or a trace of
# something new would outweigh everything else. A small training set does not show how much they
# vary: to the variance of each column that of all is added, as of so many more sequences.
LEAST_SCALE, MORE = 1e-3, 10
RIDGE = 0.01  # of the unit variance that a column has; keeps the whitening finite
LEAST_SPREAD = 0.1
ROUNDING = 1e-9  # what a column is divided by is larger than this
TOP = 5  # surprises that count as the highest ones of a sequence
QUARTERS = 4  # parts of a sequence, for what comes early and what late
MOST_PAIRS = 900  # with more pairs of symbols than this, pairs are not counted
MOST_COLUMNS = 600  # of a block; with more symbols than that, several share a column
PER_PASS = 256  # sequences whose expected counts are held at a time


@dataclass(frozen=True, eq=False)
class Whitening:
    """Mean, covariance and usual distance of the residuals of normal sequences in one block."""

    mean: Floats  # (n_columns,)
    scale: Floats  # (n_columns,)
    # inverse of the shrunk covariance of the scaled columns  (n_columns, n_columns)
    precision: Floats
    centre: float = 0.0  # mean of the distances of normal sequences
    spread: float = 1.0  # their standard deviation

    def __post_init__(self) -> None:
        check_arrays(self, mean="float64 n", scale="float64+ n", precision="float64 n n")
        sizes = (self.scale.min(initial=1.0), self.spread)
        fit = min(sizes) >= ROUNDING and abs(self.centre) + self.spread <= LARGEST  # NaN neither
        if not fit:
            raise SojournError(
                f"scale and spread of a Whitening must be positive, centre and spread finite; got "
                f"{sizes[0]}, {self.spread} and {self.centre}"
            )

    def distance(self, block: Floats) -> Floats:
        """How far each row is from the normal ones: the logarithm of its squared distance."""
        z = (block - self.mean) / self.scale
        # Not by BLAS, whose last bit depends on where arrays lie: what is loaded scores the same.
        squares = (np.einsum("ij,kj->ik", z, self.precision) * z).sum(axis=1)
        # Squared distances of normal sequences differ tenfold; their logarithms do not.
        return np.asarray(np.log1p(np.maximum(squares, 0.0)))

    def standard(self, block: Floats) -> Floats:
        """The distance of each row, in standard deviations from the mean of normal ones."""
        return (self.distance(block) - self.centre) / self.spread

    def scaled(self, distances: Floats) -> Whitening:
        """The same, with mean and spread of these distances of held-out normal sequences."""
        spread = max(float(distances.std()), LEAST_SPREAD)
        return replace(self, centre=float(distances.mean()), spread=spread)


def whiten(block: Floats) -> Whitening:
    """The whitening learned from normal rows (n, n_columns); distances are not yet scaled."""
    from sklearn.covariance import ledoit_wolf

    n, mean, variance = len(block), block.mean(axis=0), block.var(axis=0)
    variance = (n * variance + MORE * variance.mean()) / (n + MORE)
    scale = np.maximum(np.sqrt(variance), LEAST_SCALE)
    covariance, _ = ledoit_wolf((block - mean) / scale, assume_centered=True)
    precision = np.linalg.inv(covariance + RIDGE * np.eye(len(mean)))
    return Whitening(mean, scale, np.ascontiguousarray(precision))


def learn_whitenings(blocks: dict[str, Floats]) -> dict[str, Whitening]:
    """The whitening of each block of residuals, of the sequences a model was fitted on."""
    if min(map(len, blocks.values()), default=0) < 2:
        raise SojournError(
            "the model can produce fewer than two of the training sequences, so there is "
            "nothing to compare with; fit it with pseudocount > 0"
        )
    return {name: whiten(block) for name, block in blocks.items()}


def scale_distances(
    models: list[Any], whitenings: list[dict[str, Whitening]], held: list[Sequences]
) -> None:
    """Bring the distances of all blocks to one scale, that of sequences held out of the fits."""
    distances: dict[str, list[Floats]] = {name: [] for name in whitenings[0]}
    for model, of_fold, sequences in zip(models, whitenings, held, strict=True):
        for name, block in possible_residuals(model, sequences)[1].items() if of_fold else ():
            distances[name].append(of_fold[name].distance(block))
    for name, found in distances.items():
        if found:
            for of_fold in whitenings:
                of_fold[name] = of_fold[name].scaled(np.concatenate(found))


def residual_scores(model: Any, whitenings: dict[str, Whitening], sequences: Sequences) -> Floats:
    """Minus the soft maximum of the distances of all blocks; -inf for what cannot be, (n,)."""
    possible, blocks = possible_residuals(model, sequences)
    scores = np.full(len(sequences), -np.inf)
    if possible.any():
        # In one order, for sums of floats depend on it and a file keeps names sorted.
        out = [whitenings[name].standard(blocks[name]) for name in sorted(whitenings)]
        scores[possible] = -logsumexp(np.column_stack(out), axis=1)
    return scores


def possible_residuals(
    model: Any, sequences: Sequences
) -> tuple[NDArray[np.bool_], dict[str, Floats]]:
    """Which sequences a model can produce, and the residuals of those."""
    possible = np.isfinite(model.score_samples(sequences))
    return possible, residuals(model, sequences[possible]) if possible.any() else {}


def residuals(model: Any, sequences: Sequences) -> dict[str, Floats]:
    """Residuals by block, one row per sequence; the model can produce each of the sequences."""
    steps, _ = surprises(model, sequences)  # an end is no symbol
    numbers = isinstance(sequences, Signals)
    if numbers and not model.has_states:
        sequences = model._coded(sequences)
    n, counts = len(sequences), symbol_counts(sequences)
    codes = np.split(sequences.codes, sequences.offsets[1:-1])
    of_steps = [_surprise(s[c >= 0]) for s, c in zip(steps, codes, strict=True)]
    blocks = {"surprise": np.array(of_steps)}
    if not isinstance(sequences, Signals):
        quarters = symbol_counts(sequences, QUARTERS)
        blocks |= {
            "symbol": _root_shares(_shared(counts)),
            "course": _root_shares(_shared(quarters, QUARTERS)).reshape(n, -1),
            "timing": _timing(sequences, counts),
        }
    if model.has_states:
        parts = [_states(model, sequences[i : i + PER_PASS]) for i in range(0, n, PER_PASS)]
        return blocks | {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    # The surprise of each symbol, which an HSMM has state by state in its emissions. Divided by the
    # root of the count, a sum of independent terms has the same spread for any.
    by_symbol = symbol_counts(sequences, weights=np.concatenate(steps))
    blocks["symbol surprise"] = _shared(by_symbol) / np.sqrt(_shared(counts) + 1.0)
    if sequences.n_symbols**2 <= MOST_PAIRS and not numbers:  # folds may differ in their codes
        blocks["pair"] = _pairs(sequences)
    return blocks


def symbol_counts(sequences: Sequences, parts: int = 1, weights: Floats | None = None) -> Floats:
    """How often each symbol occurs in each part of each sequence, (n · parts, n_symbols).

    With weights, one per step, the sum of its weights.
    """
    seen, n_o = sequences.codes >= 0, sequences.n_symbols
    at = _part(sequences, parts)[seen] * n_o + sequences.codes[seen]
    n = len(sequences) * parts * n_o
    flat = np.bincount(at, None if weights is None else weights[seen], minlength=n)
    return flat.reshape(-1, n_o).astype(np.float64)


def _part(sequences: Sequences, parts: int) -> NDArray[np.int64]:
    """Number of the part at each step, those of all sequences numbered end to end."""
    owner = np.repeat(np.arange(len(sequences)), sequences.lengths)
    at = np.arange(sequences.n_total) - sequences.offsets[:-1][owner]
    return np.asarray(owner * parts + at * parts // sequences.lengths[owner])


def _root_shares(counts: Floats) -> Floats:
    """Square roots of the shares in each row, whose spread hardly depends on the share."""
    return np.asarray(np.sqrt(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)))


def _shared(by_symbol: Floats, times: int = 1) -> Floats:
    """Columns of symbols; every so many are added up where there were more than a block may have.

    `times` is how many such tables make the block.
    """
    most, n_o = max(MOST_COLUMNS // times, 1), by_symbol.shape[1]
    if n_o <= most:
        return by_symbol
    padded = np.pad(by_symbol, ((0, 0), (0, -n_o % most)))
    return np.asarray(padded.reshape(len(padded), -1, most).sum(axis=1))


def _timing(sequences: Sequences, counts: Floats) -> Floats:
    """Mean and spread of where each symbol occurs, from -1/2 to 1/2, by the root of its share."""
    owner = np.repeat(np.arange(len(sequences)), sequences.lengths)
    at = np.arange(sequences.n_total) - sequences.offsets[:-1][owner]
    where = (at + 0.5) / sequences.lengths[owner] - 0.5
    totals = (symbol_counts(sequences, weights=where**power) for power in (1, 2))
    n, first, second = (_shared(table, 2) for table in (counts, *totals))
    mean = first / np.maximum(n, 1)
    spread = np.sqrt(np.maximum(second / np.maximum(n, 1) - mean**2, 0))
    return np.hstack([mean, spread]) * np.tile(_root_shares(n), 2)


def _pairs(sequences: Sequences) -> Floats:
    """Pairs of neighbouring symbols."""
    n, n_o, owner = len(sequences), sequences.n_symbols, _part(sequences, 1)
    left, right = sequences.codes[:-1].astype(np.int64), sequences.codes[1:]
    inside = (left >= 0) & (right >= 0) & (owner[:-1] == owner[1:])
    at = (owner[:-1] * n_o + left)[inside] * n_o + right[inside]
    return _root_shares(np.bincount(at, minlength=n * n_o**2).reshape(n, -1).astype(np.float64))


def _surprise(steps: Floats) -> tuple[float, float, float, float]:
    """Mean, spread, highest and neighbouring surprises of the observed steps of a sequence."""
    if not steps.size:
        return 0.0, 0.0, 0.0, 0.0
    highest = np.sort(steps)[-TOP:].mean()
    together = (steps[1:] * steps[:-1]).mean() if steps.size > 1 else 0.0
    roots = np.sqrt(max(highest, 0.0)), np.sqrt(max(together, 0.0))
    return steps.mean(), steps.std(), *roots


def _states(model: Any, sequences: Sequences) -> dict[str, Floats]:
    """Blocks of the posterior: occupancy of states, transitions, stays, emissions."""
    params, how = model.params_, {"initial": model.initial_, "n_jobs": model.n_jobs}
    # The expected counts of a length are those of a sequence in which every symbol is missing.
    lengths, of_length = np.unique(sequences.lengths, return_inverse=True)
    blank = blank_like(sequences, lengths)

    def occupancy(which: Sequences) -> Floats:
        gamma = state_probabilities(params, which, **how)
        found = np.zeros((len(which) * QUARTERS, gamma.shape[1]))
        np.add.at(found, _part(which, QUARTERS), gamma)
        return found.reshape(len(which), -1)

    observed = expected_counts_each(params, sequences, **how)
    expected = expected_counts_each(params, blank, **how)
    transition = np.array([one.transition for one in observed])  # (n, n_x, n_x)
    transition -= np.array([one.transition for one in expected])[of_length]
    stays = np.array([one.duration + one.initial for one in observed])  # (n, n_x, n_d)
    n_x = params.n_states
    emission = np.array([_shared(one.emission, n_x) for one in observed])  # (n, n_x, n_o)
    steps = emission.sum(axis=2, keepdims=True)  # in each state             (n, n_x, 1)
    # Lengths of stays; the last one stands for all in the tail, by their mean.    (n_x, n_d)
    d = np.tile(np.arange(1.0, params.max_duration + 1), (params.n_states, 1))
    d[:, -1] += params.steps_beyond
    mean = params.mean_durations
    # One is added to the variance: where all stays last alike, one step more or less is normal.
    spread = np.sqrt(np.maximum((params.duration * d**2).sum(axis=1) - mean**2, 0) + 1)
    z = (d - mean[:, None]) / spread[:, None]  # (n_x, n_d)
    mean_z, spread_z = (stays * z).sum(axis=2), (stays * (z**2 - 1)).sum(axis=2)  # (n, n_x)
    emissions = (emission - steps * _shared(params.emission, n_x)) / np.sqrt(steps + 1)
    emissions = emissions.reshape(len(steps), -1)
    if isinstance(sequences, Signals):
        gamma = state_probabilities(params, sequences, **how)
        emissions = value_residuals(model, sequences, gamma)
    n, n_stays = len(sequences), stays.sum(axis=2) + 1
    root = np.sqrt(np.maximum(sequences.lengths, 1))[:, None]
    return {
        "state": (occupancy(sequences) - occupancy(blank)[of_length]) / root,
        "transition": transition.reshape(n, -1) / root,
        "stay": np.hstack([mean_z, spread_z]) / np.sqrt(np.hstack([n_stays, n_stays])),
        "emission": emissions,
    }
