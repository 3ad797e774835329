"""What normal sequences do: statistics by symbol and by state, which reasons compare with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import LARGEST, check_arrays
from sojourn.data.sequences import Sequences
from sojourn.detect.numbers import surprises
from sojourn.detect.residuals import symbol_counts
from sojourn.errors import SojournError

Floats = NDArray[np.float64]

MOST = 0.99  # "99 % of normal sequences"
N_TYPICAL = 5  # typical sequences that are kept
LEAST_SPREAD = 0.02  # of square roots of shares; and of logs of lengths, ten times that


@dataclass(frozen=True, eq=False)
class Norms:
    """What normal sequences do, by symbol and by state."""

    # mean and spread of the square root of a symbol's share, its 1 % and its 99 % quantile  (4,
    # n_symbols)
    share: Floats
    # the share of sequences with the symbol; the step by which 99 % of all sequences, or all that
    # ever do, have it; the spread of the log of that step  (3, n_symbols)
    first: Floats
    surprise: Floats  # mean and spread of the surprise of a symbol  (2,)
    length: Floats  # mean and spread of log(1 + length), 1 % and 99 % quantiles of lengths  (4,)
    # mean and spread of the log of a stay, its 1 % and 99 % quantiles; nan where there is none
    # (4, n_states)
    stays: Floats
    occupancy: Floats  # as `share`, of the steps in a state  (4, n_states)
    changes: Floats  # number of changes from state to state  (n_states, n_states)

    def __post_init__(self) -> None:
        by_symbol = {"share": "float64+ 4 o", "first": "float64+ 3 o", "surprise": "float64+ 2"}
        by_state = {"stays": "float64? 4 x", "occupancy": "float64+ 4 x", "changes": "float64+ x x"}
        check_arrays(self, length="float64+ 4", **by_symbol, **by_state)
        stays = np.nan_to_num(self.stays, nan=1.0)
        spreads = (self.share[1], self.first[2], self.occupancy[1], stays[1], self.length[1:2])
        if not ((stays >= 0) & (stays <= LARGEST)).all() or not (np.concatenate(spreads) > 0).all():
            raise SojournError("stays of Norms must be positive or NaN, and every spread positive")


def learn_norms(model: Any, sequences: Sequences) -> Norms:
    """Statistics of normal sequences under a model; those of states are empty if it has none."""
    steps = np.concatenate(surprises(model, sequences)[0])[sequences.codes >= 0]
    steps = steps[np.isfinite(steps)]
    surprise = np.array([0.0, 1.0])
    if steps.size:  # of a density it may be negative
        surprise = np.array([max(float(steps.mean()), 0.0), steps.std()])
    logs = np.log1p(sequences.lengths)
    ends = np.quantile(sequences.lengths, [1 - MOST, MOST], method="inverted_cdf")
    length = np.array([logs.mean(), max(float(logs.std()), 10 * LEAST_SPREAD), *ends])
    by_symbol = (_shares(symbol_counts(sequences)), _firsts(sequences), surprise, length)
    if not model.has_states:
        none = np.empty((4, 0))
        return Norms(*by_symbol, none, none, np.empty((0, 0)))
    n_x = model.params_.n_states
    possible = sequences[np.isfinite(model.score_samples(sequences))]
    lengths: list[list[int]] = [[] for _ in range(n_x)]
    changes, spent = np.zeros((n_x, n_x)), np.zeros((len(possible), n_x))
    for i, row in enumerate(model.segments(possible)):
        for stay in row:
            spent[i, stay.state] += stay.length
        for stay, following in pairwise(row):  # without the last one, which is cut short
            lengths[stay.state].append(stay.length)
            changes[stay.state, following.state] += 1
    stays = np.full((4, n_x), np.nan)
    for x, seen in enumerate(lengths):
        if seen:
            logs = np.log(seen)
            spread = max(float(logs.std()), 10 * LEAST_SPREAD)
            stays[:, x] = logs.mean(), spread, *np.quantile(seen, [1 - MOST, MOST])
    return Norms(*by_symbol, stays, _shares(spent), changes)


def _shares(counts: Floats) -> Floats:
    """Mean and spread of the roots of shares, and the quantiles of shares, (4, n_columns)."""
    if not len(counts):
        return np.tile([[0.0], [LEAST_SPREAD], [0.0], [0.0]], counts.shape[1])
    part = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    roots = np.sqrt(part)
    # Values that occur, not those between them: a limit in words must be one that can be met.
    low, high = np.quantile(part, [1 - MOST, MOST], axis=0, method="inverted_cdf")
    return np.array([roots.mean(axis=0), np.maximum(roots.std(axis=0), LEAST_SPREAD), low, high])


def first_steps(codes: NDArray[np.int32], n_symbols: int) -> Floats:
    """The first step of each symbol; infinity where it does not occur."""
    found = np.full(n_symbols, np.inf)
    at = np.flatnonzero(codes >= 0)[::-1]
    found[codes[at]] = at
    return found


def _firsts(sequences: Sequences) -> Floats:
    """Share of sequences with a symbol, the step by which most have it, spread of its log."""
    parts = np.split(sequences.codes, sequences.offsets[1:-1])
    first = np.array([first_steps(codes, sequences.n_symbols) for codes in parts])
    has = np.isfinite(first).mean(axis=0)
    by, spread = np.zeros(len(has)), np.ones(len(has))
    for k in range(len(has)):
        seen = np.sort(first[np.isfinite(first[:, k]), k])
        if seen.size:
            by[k] = seen[min(int(np.ceil(MOST * len(parts))), seen.size) - 1]
            spread[k] = max(float(np.log1p(seen).std()), 10 * LEAST_SPREAD)
    return np.array([has, by, spread])


def typical(sequences: Sequences, scores: Floats) -> Sequences:
    """Some sequences from the middle half of the scores, short ones and long ones."""
    n = len(scores)
    middle = np.argsort(scores, kind="stable")[n // 4 : max(n - n // 4, n // 4 + 1)]
    by_length = middle[np.argsort(sequences.lengths[middle], kind="stable")]
    at = np.rint(np.linspace(0.1, 0.9, N_TYPICAL) * (len(middle) - 1)).astype(int)
    return replace(sequences[by_length[np.unique(at)]], times=None)
