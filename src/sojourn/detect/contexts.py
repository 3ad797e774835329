"""What follows which past: counts of contexts of up to six symbols, start and end included.

The probability of a symbol is interpolated over its contexts, from none to the longest that was
seen: p_k = (count + distinct · p_{k-1}) / (total + distinct), with the number of distinct symbols
seen after the context (Witten and Bell). It needs no states, so it notices orders that a model with
few states does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.detect.novelty import Encoded
from sojourn.errors import SojournError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DEPTH = 6
LEAST = 2  # a context is kept if it occurs as often, or once in so many symbols:
MOST_SYMBOLS = 200_000


class Steps(NamedTuple):
    """All steps of sequences end to end, each sequence followed by its end."""

    symbol: Integers  # n_symbols for the end, n_symbols + 2 if missing or novel  (n_steps,)
    past: list[Integers]  # the symbol one, two, … steps before; -1 before the start
    offsets: Integers  # (n + 1,)
    observed: NDArray[np.bool_]  # whether the symbol is not missing; novel ones are not  (n_steps,)


class Follows(NamedTuple):
    """How usual the symbol at each step is after its past, (n_steps,) each."""

    surprise: Floats  # -log p, in nats; 0 where it is missing
    novelty: Floats  # largest log(1 + total/distinct) of contexts that it never followed
    depth: Integers  # length of that context; -1 where there is none
    times: Integers  # how often that context was seen
    offsets: Integers  # of the sequences, ends included  (n + 1,)


@dataclass(frozen=True, eq=False)
class Contexts:
    """Contexts of 0 … DEPTH symbols, and what followed each.

    A context of k + 1 symbols is a context of k and the symbol before it: context and symbol are
    one number, ``context · (n_symbols + 3) + symbol``, and its place in the sorted `longer[k]`
    is the number of the longer context. `next[k]` are such numbers for what followed.
    """

    n_symbols: int
    longer: list[Integers]
    next: list[Integers]
    counts: list[Integers]  # of `next`

    def __post_init__(self) -> None:
        sizes = len(self.longer), len(self.next), len(self.counts)
        tables = [*self.longer, *self.next]
        fit = type(self.n_symbols) is int and 0 < self.n_symbols < 1 << 31
        fit &= sizes == (DEPTH, DEPTH + 1, DEPTH + 1)
        fit = fit and all(_is_table(table) and (np.diff(table) > 0).all() for table in tables)
        for k, counts in enumerate(self.counts if fit else []):
            n = len(self.longer[k - 1]) if k else 1
            fit = fit and _is_table(counts) and len(counts) == len(self.next[k])
            fit = fit and bool(((counts > 0) & (counts < 1 << 50)).all())
            fit = fit and bool((self.next[k] < n * (self.n_symbols + 3)).all())
        if not fit:
            raise SojournError("the counts of contexts do not fit together")

    def follows(self, encoded: Encoded) -> Follows:
        """How usual each symbol, and the end, of sequences is."""
        steps, n_o = steps_of(encoded), self.n_symbols
        context = np.zeros(len(steps.symbol), np.int64)
        p = np.full(len(context), 1 / (n_o + 1))
        novelty, count = np.zeros(len(context)), np.zeros(len(context), np.int64)
        depth = np.full(len(context), -1)
        for k in range(DEPTH + 1):
            if k:
                context = _find(self.longer[k - 1], _joined(context, steps.past[k - 1], n_o))
            known = context >= 0
            if not known.any():
                break
            # Also those that only a missing symbol followed; -1, no context, is masked below.
            owner, n = self.next[k] // (n_o + 3), len(self.longer[k - 1]) if k else 1
            total = np.bincount(owner, self.counts[k], minlength=n)[context]
            distinct = np.bincount(owner, minlength=n)[context]
            at = _find(self.next[k], _joined(context, steps.symbol, n_o))
            seen = np.where(at >= 0, self.counts[k][at], 0)
            followed = known & (total > 0)
            p = np.where(followed, (seen + distinct * p) / np.maximum(total + distinct, 1), p)
            strange = np.log1p(total / np.maximum(distinct, 1)) * (known & (seen == 0))
            longer = steps.observed & (strange > novelty)
            novelty[longer], depth[longer], count[longer] = strange[longer], k, total[longer]
        surprise = np.where(steps.observed, -np.log(p), 0.0)
        return Follows(surprise, novelty, depth, count, steps.offsets)


def learn_contexts(sequences: Sequences) -> Contexts:
    """Count the contexts of sequences."""
    steps = steps_of(Encoded(sequences, sequences))
    n_o, least = sequences.n_symbols, max(LEAST, sequences.n_total // MOST_SYMBOLS)
    longer, following, counts = [], [], []
    context = np.zeros(len(steps.symbol), np.int64)
    for k in range(DEPTH + 1):
        if k:
            joined = _joined(context, steps.past[k - 1], n_o)
            found, times = np.unique(joined[joined >= 0], return_counts=True)
            longer.append(found[times >= least])
            context = _find(longer[-1], joined)
        after = _joined(context, steps.symbol, n_o)[(context >= 0) & steps.observed]
        found, times = np.unique(after, return_counts=True)
        following.append(found)
        counts.append(times.astype(np.int64))
    return Contexts(n_o, longer, following, counts)


def steps_of(encoded: Encoded) -> Steps:
    """Symbols with their pasts; each sequence is followed by its end and preceded by its start."""
    sequences = encoded.known
    n_o, lengths = sequences.n_symbols, sequences.lengths + 1
    offsets = np.append(0, np.cumsum(lengths))
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    symbol = np.full(len(position), n_o)
    inside = position < np.repeat(lengths - 1, lengths)
    symbol[inside] = np.where(sequences.codes < 0, n_o + 2, sequences.codes)
    past = []
    for back in range(1, DEPTH + 1):
        before = np.where(position >= back, np.roll(symbol, back), -1)
        past.append(np.where(position == back - 1, n_o + 1, before))  # the start
    observed = np.ones(len(position), dtype=bool)
    observed[inside] = encoded.given.codes >= 0
    return Steps(symbol, past, offsets, observed)


def _joined(context: Integers, symbol: Integers, n_symbols: int) -> Integers:
    """The number of a context and a symbol; -1 where there is no context or no symbol."""
    joined = context * (n_symbols + 3) + symbol
    return np.asarray(np.where((context >= 0) & (symbol >= 0), joined, -1))


def _is_table(table: Any) -> bool:
    """Whether it is a row of integers of 0 and more."""
    good = isinstance(table, np.ndarray) and table.dtype == np.int64 and table.ndim == 1
    return bool(good and (table >= 0).all())


def _find(table: Integers, wanted: Integers) -> Integers:
    """Place of each number in a sorted table, -1 where it is not there."""
    if not len(table):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
    return np.asarray(np.where(table[at] == wanted, at, -1))
