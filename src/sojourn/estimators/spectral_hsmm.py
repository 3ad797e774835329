"""`SpectralHSMM`: the paper's estimator, in scikit-learn's form."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import check_choice, positive_int
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.estimators.base import Floats, Scorer, SequenceModel
from sojourn.io.sources import Scan
from sojourn.scale.passes import Partition, Partitions, Pass
from sojourn.spectral.filter import AnyFilter, make_filter, next_symbol, raw_log_prob, run_filter
from sojourn.spectral.moment_tables import Form
from sojourn.spectral.moments import Moments, Tally
from sojourn.spectral.select_rank import Choice, learn
from sojourn.spectral.windows import candidate_offsets, choose_offsets

ALGORITHMS = ("adjacent", "pooled", "per_step")
WINDOWS = ("auto", "theorem", "contiguous")
FILTERS = ("normalised", "raw")


class SpectralHSMM(SequenceModel):
    """A hidden semi-Markov model learned from moments: one pass, a few SVDs, no local optima.

    It has no parameters, only operators: it tells how likely a sequence is and what comes next,
    not which state it is in. For states and durations, and for more accuracy from little data, see
    `HSMM`.

    Parameters
    ----------
    n_states : int
        Number of hidden states n_x.
    max_duration : int
        Longest stay in a state n_d; 1 gives the spectral hidden Markov model.
    algorithm : {"adjacent", "pooled", "per_step"}
        The form with touching windows, which is the most accurate and the fastest; or the paper's
        Algorithm 2 or 1.
    windows : {"auto", "theorem", "contiguous"} or sequence of int
        Which symbols a window reads: chosen by held-out likelihood ("theorem" for the paper's two
        algorithms), Theorem 1's, as many consecutive ones, or given offsets such as ``(0, 1, 4)``.
    rank : int or "auto"
        Number of singular directions; "auto" chooses it by held-out likelihood, up to
        ``n_states * max_duration``.
    filter : {"normalised", "raw"}
        How sequences are scored: by a true distribution, or by the log of the paper's signed
        product, -inf where it is not positive.
    self_transitions : bool or None
        Ignored: the spectral methods need not know. Accepted so that both estimators take it.
    unknown : {"error", "missing"}
        What a symbol outside `vocabulary_` is.
    random_state : int or None
        Seed of the random projections that large tables are decomposed with; None is 0.
    n_jobs : int or None
        Number of threads; None or -1 for all cores. Results do not depend on it.

    Attributes
    ----------
    operators_ : Operators
        What was learned: ``p(o_1 … o_T) = start · B_{o_1} ⋯ B_{o_T} · stop``.
    rank_ : int
        Number of singular directions in use.
    singular_values_ : array
        Of the scaled moment matrix, largest first.
    window_ : tuple of int
        Offsets of the window in use.
    epsilon_ : float
        Least probability of a symbol before the filter makes them sum to one.
    choice_ : Choice
        What was compared on the held-out sequences, and how it scored.
    moments_ : Moments
        The counts, and the sequences held out to choose by; `partial_fit` adds to both.
    vocabulary_ : array
        The symbols, sorted.
    n_symbols_ : int
        Number of symbols.

    Examples
    --------
    >>> from sojourn import Params, SpectralHSMM
    >>> p = Params.random(2, 2, 3, rng=0)
    >>> model = SpectralHSMM(2, 2).fit(p.sample(5000, 50, rng=1))
    >>> test = p.sample(100, 50, rng=2)
    >>> bool(abs(model.score_samples(test) - p.log_prob(test)).mean() < 0.1)
    True
    """

    def __init__(
        self,
        n_states: int,
        max_duration: int,
        *,
        algorithm: str = "adjacent",
        windows: str | Sequence[int] = "auto",
        rank: int | str = "auto",
        filter: str = "normalised",
        self_transitions: bool | None = None,
        unknown: str = "error",
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_states = n_states
        self.max_duration = max_duration
        self.algorithm = algorithm
        self.windows = windows
        self.rank = rank
        self.filter = filter
        self.self_transitions = self_transitions
        self.unknown = unknown
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, client: Any = None) -> Self:
        """Learn from sequences.

        Parameters
        ----------
        X : Sequences, list of sequences, integer array (n, length), column with `lengths`, or Scan
            A scan is read partition by partition, once; the result is the same to the bit.
        y : ignored
        lengths : sequence of int, optional
            Lengths of the sequences that a stacked `X` holds end to end.
        client : distributed.Client, optional
            A cluster whose workers read and count the partitions of a scan.

        Returns
        -------
        SpectralHSMM
        """
        data = self._training_data(X, lengths, client)
        moments = self._count(data)
        return self._keep(data.vocabulary, moments, *learn(moments, *self._how()))

    def partial_fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Learn from more sequences: the moments add up, as if all had been given at once.

        The first call freezes the vocabulary; give it a `Sequences` with all symbols in its
        vocabulary if it does not hold them all. Each call learns the operators anew. Sequences
        without ids of their own are numbered in the order in which they come; with ids, parts may
        come in any order.

        Parameters
        ----------
        X, y, lengths
            As in `fit`.

        Returns
        -------
        SpectralHSMM

        Examples
        --------
        >>> from sojourn import Params, SpectralHSMM
        >>> seqs = Params.random(2, 2, 3, rng=0).sample(400, 50, rng=1)
        >>> parts = SpectralHSMM(2, 2).partial_fit(seqs[:100]).partial_fit(seqs[100:])
        >>> bool((parts.operators_.B == SpectralHSMM(2, 2).fit(seqs).operators_.B).all())
        True
        """
        if not hasattr(self, "moments_"):
            return self.fit(X, lengths=lengths)
        if self.moments_ is None:
            raise SojournError(
                "this model was saved without its moments, so there is nothing that partial_fit "
                "could add to; save it with moments=True, or fit again"
            )
        if isinstance(X, Scan):
            X = replace(X, given=self.vocabulary_, unknown=self.unknown)
            moments = self.moments_ + self._count(self._training_data(X, lengths, None))
        else:
            sequences = self._encode(X, lengths)
            moments = self.moments_ + self._count(sequences, self.moments_.n_sequences)
        return self._keep(self.vocabulary_, moments, *learn(moments, *self._how()))

    def _scorer(self) -> Scorer:
        return partial(_log_prob, self._filter, raw=self.filter == "raw")

    def _check_scores(self, log_prob: Floats) -> None:
        if self.filter == "raw" and (n_bad := int(np.isinf(log_prob).sum())):
            warnings.warn(
                f"the signed product is not positive for {n_bad} of {len(log_prob)} sequences, "
                f"which score -inf; filter='normalised' gives every sequence a probability",
                stacklevel=3,
            )

    def surprise(self, X: Any, *, lengths: Any = None) -> list[Floats]:
        """``-log p(o_t | o_1 … o_{t-1})`` of each symbol of each sequence, in nats.

        It is the normalised filter's, whatever `filter` is; the raw product has no conditional
        probabilities. A missing symbol has none: it is 0.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        """
        sequences = self._encode(X, lengths)
        return np.split(self._run(sequences)[0], sequences.offsets[1:-1])

    def predict_next(self, X: Any, *, lengths: Any = None, horizon: int = 1) -> Floats:
        """Distribution of the symbol that comes `horizon` steps after each sequence.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        horizon : int
            Number of steps ahead, 1 for the next one.

        Returns
        -------
        array (n, n_symbols)
            Columns in the order of `vocabulary_`.
        """
        steps = positive_int("horizon", horizon)
        sequences = self._encode(X, lengths)
        return next_symbol(self._filter, self._run(sequences)[1], sequences.lengths, steps)

    def _count(self, data: Sequences | Partitions, n_before: int = 0) -> Moments:
        """Moments of the data, which follow `n_before` sequences that were counted before."""
        n_x, n_d, n_o = *self._size(), data.n_symbols
        check_choice("algorithm", self.algorithm, ALGORITHMS)
        check_choice("filter", self.filter, FILTERS)
        check_choice("unknown", self.unknown, ("error", "missing"))
        if n_x > n_o:
            warnings.warn(
                f"n_states is {n_x} but there are {n_o} symbols: assumption A3 of the paper (the "
                f"emissions of the states are linearly independent) cannot hold, and states that "
                f"emit alike differ by their order alone; use n_states <= {n_o}, or HSMM",
                stacklevel=3,
            )
        counting = _Counting(self._windows(n_x, n_d, n_o), n_o, Form(self.algorithm))
        if isinstance(data, Partitions):
            tally = data.run(counting)
        else:
            tally = counting.empty()
            tally.add(data, self.n_jobs, shift=n_before)
        return tally.moments(self.n_jobs)

    def _how(self) -> tuple[int | None, int, int, int | None, int]:
        """The arguments of `learn` beside the moments."""
        n_x, n_d = self._size()
        rank = None if self.rank == "auto" else positive_int("rank", self.rank)
        return rank, n_x * n_d, n_x, self.n_jobs, self.random_state or 0

    def _keep(
        self, vocabulary: NDArray[Any], moments: Moments, operators: Any, choice: Choice
    ) -> Self:
        learned: dict[str, Any] = {"moments_": moments, "operators_": operators, "choice_": choice}
        learned |= {"rank_": operators.rank, "singular_values_": operators.singular_values}
        learned |= {"window_": moments.tables[choice.table].offsets, "epsilon_": choice.epsilon}
        learned |= {"vocabulary_": vocabulary, "n_symbols_": len(vocabulary)}
        self.__dict__.pop("_filter", None)  # of the fit before
        self.__dict__.update(learned)  # all or, if interrupted, nothing
        return self

    def _windows(self, n_x: int, n_d: int, n_o: int) -> tuple[tuple[int, ...], ...]:
        windows = self.windows
        if isinstance(windows, str):
            check_choice("windows", windows, WINDOWS)
            if windows == "auto" and self.algorithm == "adjacent":
                return candidate_offsets(n_x, n_d, n_o)
            windows = "theorem" if windows == "auto" else windows
        return (choose_offsets(windows, n_x, n_d, n_o),)

    @cached_property
    def _filter(self) -> AnyFilter:
        """The operators laid out for scoring, once for each fit."""
        return make_filter(self.operators_, self.epsilon_)

    def _run(self, sequences: Sequences) -> tuple[Floats, Floats]:
        begins, ends = sequences.offsets[:-1], sequences.offsets[1:]
        return run_filter(self._filter, sequences.codes, begins, ends, None, self.n_jobs)


@dataclass(frozen=True)
class _Counting(Pass[Tally]):
    """The pass that counts windows; their sums are of integers, so that no order matters."""

    windows: tuple[tuple[int, ...], ...]
    n_symbols: int
    form: Form

    def empty(self) -> Tally:
        return Tally(self.windows, self.n_symbols, self.form)

    def add(self, total: Tally, sequences: Sequences, partition: Partition) -> Tally:
        total.add(sequences, n_jobs=1)
        return total


def _log_prob(model: AnyFilter, sequences: Sequences, raw: bool, n_jobs: int | None) -> Floats:
    """Log-probability of each sequence by the normalised filter, or by the raw product."""
    codes, offsets = sequences.codes, sequences.offsets
    if raw:
        return raw_log_prob(model, codes, offsets, n_jobs)
    surprise, _ = run_filter(model, codes, offsets[:-1], offsets[1:], None, n_jobs)
    return -np.add.reduceat(surprise, offsets[:-1])
