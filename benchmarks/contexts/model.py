"""The estimator over contexts that the benchmarks compare, in scikit-learn's manner."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.contexts import score
from benchmarks.contexts.choice import SAMPLE, choose_trees, learn
from benchmarks.contexts.counts import count_contexts
from benchmarks.contexts.pieces import sample, split
from sojourn import Sequences

Floats = NDArray[np.float64]


class ContextModel:
    """Spectral learning on contexts, mixed with a context tree.

    Parameters
    ----------
    ends : bool
        Whether the end of a sequence is part of the model; if not, lengths say nothing.
    by_runs : bool
        Whether pasts and futures are read in runs.
    max_rank : int
    n_jobs : int or None

    Examples
    --------
    >>> from sojourn import Params
    >>> p = Params.random(3, 4, 5, rng=0)
    >>> train, test = p.sample(500, 40, rng=1), p.sample(50, 40, rng=2)
    >>> ContextModel().fit(train).score(test) > -1.7
    True
    """

    def __init__(
        self,
        ends: bool = False,
        by_runs: bool = True,
        max_rank: int = 256,
        n_jobs: int | None = None,
    ) -> None:
        self.ends, self.by_runs, self.max_rank, self.n_jobs = ends, by_runs, max_rank, n_jobs

    def fit(self, sequences: Sequences) -> ContextModel:
        """Grow trees, count, choose, learn."""
        training, heldout = split(sequences)
        some = sample(training, SAMPLE) if training.n_total > SAMPLE else training
        sizes = (sequences.n_symbols, self.ends, self.max_rank)
        trees, split_at, trials = choose_trees(
            some, heldout, *sizes, by_runs=self.by_runs, n_jobs=self.n_jobs
        )
        counts = count_contexts(training, trees, self.n_jobs)
        chosen = {"split_at": split_at, "trials": trials, "n_jobs": self.n_jobs}
        self.model_, self.choice_ = learn(counts, heldout, self.ends, self.max_rank, **chosen)
        return self

    def score_samples(self, sequences: Sequences) -> Floats:
        """Log-probability of each sequence."""
        return score.log_prob(self.model_, sequences, self.n_jobs)

    def score(self, sequences: Sequences) -> float:
        """Log-likelihood per symbol, ends counted where they are predicted."""
        n = int((sequences.codes >= 0).sum()) + self.ends * len(sequences)
        return float(self.score_samples(sequences).sum()) / n

    def predict_next(self, sequences: Sequences, horizon: int = 1) -> Floats:
        """Distribution of the symbol `horizon` steps on, with a last column for the end."""
        return score.next_distribution(self.model_, sequences, horizon, self.n_jobs)
