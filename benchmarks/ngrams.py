"""Interpolated n-grams with Witten-Bell smoothing: the baseline that a sequence model must beat.

A context h that was seen c(h) times with T(h) different symbols after it gives

    p(w | h) = (c(hw) + T(h) p(w | h')) / (c(h) + T(h)),

where h' is h without its earliest symbol; the last fallback is the uniform distribution. Only
n-grams that occur are kept: each is the number of its context and a symbol, packed in 64 bits and
sorted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn import Sequences

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one length, and how often each context was followed, and by how many."""

    keys: Ids  # context · n_o + symbol, ascending
    counts: Ids
    followed: Ids  # c(h), for each context
    different: Ids  # T(h)


class NGram:
    """An interpolated model of n-grams, in scikit-learn's manner.

    Parameters
    ----------
    order : int
        Length of the longest n-grams: 3 for trigrams.

    Examples
    --------
    >>> seqs = Sequences.from_lists([[0, 1, 0, 1, 0, 1, 1]])
    >>> model = NGram(2).fit(seqs)
    >>> model.score(seqs) > NGram(1).fit(seqs).score(seqs)
    True
    """

    def __init__(self, order: int) -> None:
        self.order = order

    def fit(self, sequences: Sequences) -> NGram:
        """Count the n-grams up to the order."""
        self.n_symbols_ = sequences.n_symbols
        self.levels_: list[Level] = []
        context, n_contexts = self._none(sequences), 1
        for _ in range(self.order):
            keys = self._keys(sequences, context)
            known, counts = np.unique(keys[keys >= 0], return_counts=True)
            owner = known // self.n_symbols_
            followed = np.bincount(owner, counts, minlength=n_contexts).astype(np.int64)
            different = np.bincount(owner, minlength=n_contexts)
            self.levels_.append(Level(known, counts, followed, different))
            context, n_contexts = self._after(sequences, _find(known, keys)), len(known)
        return self

    def surprise(self, sequences: Sequences) -> NDArray[np.float64]:
        """``-log p`` of each symbol given those before it in its sequence, end to end; 0 where
        it is missing."""
        p = np.full(sequences.n_total, 1 / self.n_symbols_)
        context = self._none(sequences)
        for level in self.levels_:
            keys = self._keys(sequences, context)
            at = _find(level.keys, keys)
            seen = np.where(at >= 0, level.counts[at], 0)
            c, T = level.followed[context], level.different[context]
            usable = (context >= 0) & (c > 0)
            p = np.where(usable, (seen + T * p) / np.maximum(c + T, 1), p)
            context = self._after(sequences, at)
        return np.where(sequences.codes >= 0, -np.log(p), 0.0)

    def predict_next(self, sequences: Sequences) -> NDArray[np.float64]:
        """p of each symbol after each sequence, a row for each sequence."""
        pasts = np.split(sequences.codes.astype(np.int64), sequences.offsets[1:-1])
        return np.stack([self._next(past) for past in pasts])

    def _next(self, past: Ids) -> NDArray[np.float64]:
        """From the uniform distribution to that after the longest context that was seen."""
        p, n_o = np.full(self.n_symbols_, 1 / self.n_symbols_), self.n_symbols_
        for order, level in enumerate(self.levels_):
            context = self._context(past[len(past) - order :]) if order <= len(past) else -1
            if context < 0 or not level.followed[context]:
                break
            first, stop = np.searchsorted(level.keys, [context * n_o, (context + 1) * n_o])
            c, T = level.followed[context], level.different[context]
            p = T * p / (c + T)
            p[level.keys[first:stop] - context * n_o] += level.counts[first:stop] / (c + T)
        return p

    def _context(self, symbols: Ids) -> int:
        """The number of an n-gram among those of its length, -1 where it was not seen."""
        at = 0
        for level, symbol in zip(self.levels_, symbols.tolist(), strict=False):
            if symbol < 0 or at < 0:
                return -1
            at = int(_find(level.keys, np.array([at * self.n_symbols_ + symbol]))[0])
        return at

    def score(self, sequences: Sequences) -> float:
        """Log-likelihood per symbol, in nats."""
        return -float(self.surprise(sequences).sum()) / int((sequences.codes >= 0).sum())

    def _none(self, sequences: Sequences) -> Ids:
        """The empty context, before every symbol."""
        return np.zeros(sequences.n_total, np.int64)

    def _keys(self, sequences: Sequences, context: Ids) -> Ids:
        """The n-gram that ends with each symbol, -1 where there is none."""
        codes = sequences.codes.astype(np.int64)
        return np.where((context >= 0) & (codes >= 0), context * self.n_symbols_ + codes, -1)

    def _after(self, sequences: Sequences, ids: Ids) -> Ids:
        """The n-gram before each symbol: the one that ends at the symbol before."""
        before = np.concatenate([[-1], ids[:-1]])
        before[sequences.offsets[:-1]] = -1
        return before


def _find(known: Ids, keys: Ids) -> Ids:
    """Where each key stands in the sorted ones, -1 where it does not."""
    at = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
    return np.where(known[at] == keys, at, -1) if len(known) else np.full(len(keys), -1)
