"""The base class of both estimators: data in every form, scores, saving."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sojourn.checks import positive_int
from sojourn.data.as_sequences import as_sequences
from sojourn.data.clock import check_clock
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.estimators import forecast as forecasts
from sojourn.exact.hitting import Hits
from sojourn.io.sources import Scan
from sojourn.scale.passes import Partition, Partitions, Pass

if TYPE_CHECKING:
    from sojourn.emissions.base import Emission
    from sojourn.streams.scorer import OnlineScorer

Floats = NDArray[np.float64]
Scorer = Callable[..., Floats]  # scorer(sequences, n_jobs=...): the log-probability of each


class SequenceModel(BaseEstimator, ABC):
    """An estimator of sequences, with a `vocabulary_` and `score_samples` once it is fitted."""

    n_states: Any
    max_duration: Any
    ends: bool = False
    unknown: str
    n_jobs: int | None
    vocabulary_: NDArray[Any]

    @property
    def has_states(self) -> bool:
        """Whether the model has states, with paths, stays and transitions; see `StateModel`."""
        return False

    @property
    def _density(self) -> Emission | None:
        """What a model of numbers observes in each state, or code; None of a model of symbols."""
        return None

    @property
    def step_(self) -> tuple[float, str]:
        """What a step lasts, and in which unit: ``(1.0, "hours")``; steps without a clock."""
        clock = getattr(self, "clock_", None)
        return (1.0, "steps") if clock is None else clock.unit

    def score_samples(
        self, X: Any, *, lengths: Any = None, client: Any = None, prefixes: bool = False
    ) -> Any:
        """Log-probability of each sequence, in nats; -inf where the model cannot produce it.

        Parameters
        ----------
        X, lengths
            As in `fit`; symbols are those of training. A scan is read partition by partition.
        client : distributed.Client, optional
            A cluster whose workers read and score the partitions of a scan.
        prefixes : bool
            Whether to score every prefix of each sequence, as one that has not ended.

        Returns
        -------
        array (n,)
            With `prefixes` a list of arrays (length + 1,), the empty prefix first.
        """
        if prefixes:
            sequences = self._encode(X, lengths, client)
            rows = zip(self.surprise(sequences), sequences.lengths.tolist(), strict=True)
            return [np.append(0.0, -np.cumsum(row[:n])) for row, n in rows]
        if isinstance(X, Scan):
            log_prob = score_scan(self, X, client, lengths=lengths).log_prob
        else:
            sequences = self._encode(X, lengths, client)
            log_prob = self._scorer()(sequences, n_jobs=self.n_jobs)
        self._check_scores(log_prob)
        return log_prob

    @abstractmethod
    def surprise(self, X: Any, *, lengths: Any = None) -> list[Floats]:
        """``-log p(o_t | o_1 … o_{t-1})`` of each step of each sequence, in nats; or of a density.

        A missing symbol has none: it is 0. With ``ends=True`` there is one number more, that of the
        end, and they sum to ``-score_samples``.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        """

    @abstractmethod
    def _scorer(self) -> Scorer:
        """A function that scores sequences, small enough to be sent to a worker."""

    def _size(self) -> tuple[int, int]:
        n_x = positive_int("n_states", self.n_states)
        return n_x, positive_int("max_duration", self.max_duration)

    def _check_scores(self, log_prob: Floats) -> None:
        """Warn of scores that need an explanation."""

    def score(self, X: Any, y: Any = None, *, lengths: Any = None, client: Any = None) -> float:
        """Log-likelihood per symbol over all of `X`, in nats: ``exp(-score)`` is the perplexity.

        Parameters
        ----------
        X, y, lengths
            As in `fit`; `y` is not used. Missing symbols are not counted; ends are, with
            ``ends=True``.
        client
            As in `score_samples`.
        """
        if isinstance(X, Scan):
            return score_scan(self, X, client, lengths=lengths).per_symbol
        sequences = self._encode(X, lengths, client)
        n = int(outcomes(sequences, self.ends).sum())
        return float(self.score_samples(sequences).sum()) / max(n, 1)

    def predict_next(
        self, X: Any, *, lengths: Any = None, horizon: int = 1, prefixes: bool = False
    ) -> Any:
        """Distribution of the symbol, or of the numbers, `horizon` steps after each sequence.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        horizon : int
            Number of steps ahead, 1 for the next one.
        prefixes : bool
            Whether to answer for every prefix of each sequence, the empty one first, in one pass:
            a list with an array (length + 1, n_outcomes) for each sequence.

        Returns
        -------
        array (n, n_symbols), or (n, n_symbols + 1) with ends
            Columns in the order of `vocabulary_`, then that the sequence has ended by then. Of
            numbers, a tuple: ``mean`` (n, n_channels), ``quantiles`` (n, 3, n_channels) at the
            ``levels`` 5 %, 50 % and 95 %, ``channels``, ``states`` (n, n_states) and ``ended``. The
            states of a `SpectralHSMM` are its codes, whose normals are not cut off at their cells.
        """
        steps = positive_int("horizon", horizon)
        return forecasts.what_follows(self, self._encode(X, lengths), steps, prefixes)

    @abstractmethod
    def _next(self, sequences: Sequences, horizons: Sequence[int]) -> Floats:
        """Probabilities of symbols, or of states or codes, and of the end, (n, n_horizons, …)."""

    def forecast(
        self, X: Any, horizon: int = 1, *, lengths: Any = None, prefixes: bool = False
    ) -> Any:
        """Distributions of what comes 1, 2, …, `horizon` steps after each sequence.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        horizon : int
            Number of steps ahead, at most a million; the time grows with it.
        prefixes : bool
            Whether to answer for every prefix of each sequence, in one pass over it.

        Returns
        -------
        Forecast
            With `probabilities` (n, horizon, n_outcomes), `outcomes` (the symbols and, with ends,
            `sojourn.END`) and `likeliest`, the likeliest continuation of each. With `prefixes` a
            list of arrays (length + 1, horizon, n_outcomes), the empty prefix first. Of numbers,
            the tuple of `predict_next`, its arrays with the step as second axis.
        """
        return forecasts.forecast(self, self._encode(X, lengths), horizon, prefixes)

    def time_to(
        self,
        X: Any,
        *,
        state: int | str | None = None,
        symbol: Any = None,
        end: bool = False,
        lengths: Any = None,
        horizon: int = 10_000,
    ) -> forecasts.TimeTo:
        """The time from each sequence to the first visit to a state, to a symbol or to the end.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        state, symbol, end
            One of them: a state (of an `HSMM`) or its name, a symbol, or the end of the sequence
            (of a model with ``ends=True``): the remaining life of a machine, the rest of a case.
        horizon : int
            Most steps that are looked ahead.

        Returns
        -------
        TimeTo
            With `mean`, `median`, `quantile(q)` and the distribution, in steps, or in the unit of
            the clock of the training data.
        """
        sequences, target = self._encode(X, lengths), None
        if (state is not None) + (symbol is not None) + bool(end) != 1:
            raise SojournError("pass one of state=, symbol= and end=True: what to wait for")
        if end and not self.ends:
            raise SojournError("the model knows no ends; fit it with ends=True")
        if symbol is not None:
            known = np.flatnonzero(self.vocabulary_ == symbol)
            if known.size == 0:
                raise SojournError(f"symbol is {symbol!r}, which is not in the vocabulary")
            target = int(known[0])
        hits = self._hits(sequences, state, target, positive_int("horizon", horizon))
        return forecasts.TimeTo(*hits[:3], *self.step_)

    def remaining_time(
        self,
        X: Any,
        *,
        lengths: Any = None,
        held_out: Any = None,
        coverage: float = 0.9,
        prefixes: bool = False,
    ) -> Any:
        """How long until each sequence ends; for a model with ``ends=True``.

        Parameters
        ----------
        X, lengths
            As in `fit`: sequences under way. Times count from the last event of each, whenever
            that was.
        held_out : Sequences, optional
            Complete sequences that the model was not fitted to. Of their prefixes, those with the
            same mean, or about the same where these are few, give the median and an interval that
            covers as many as it should.
        coverage : float
            Probability that the interval is to have.
        prefixes : bool
            Whether to answer after each symbol of each sequence.

        Returns
        -------
        Remaining
            With `time`, `low`, `high` and `unit`: in the unit of the clock of the training data; in
            hours if they had dates and no clock, by the mean gap after each symbol; else in steps.
            With `prefixes` a list with one for each sequence, of arrays (length,).
        """
        if not self.ends:
            raise SojournError("the model knows no ends; fit it with ends=True")
        kept = None if held_out is None else self._encode(held_out, None)
        return forecasts.remaining_time(self, self._encode(X, lengths), kept, coverage, prefixes)

    @staticmethod
    def _timing(data: Sequences | Partitions) -> dict[str, Any]:
        """What is learned of time: the clock of the data, or the mean gaps between events."""
        if isinstance(data, Partitions):
            return {"clock_": data.items[0].layout.clock, "gaps_": None}
        return {"clock_": data.clock, "gaps_": forecasts.mean_gaps(data)}

    @abstractmethod
    def _hits(self, sequences: Sequences, state: Any, symbol: int | None, most: int) -> Hits:
        """When a state, a symbol or, if neither is given, the end comes first."""

    def save(self, path: str | os.PathLike[str], *, moments: bool = True) -> None:
        """Write the fitted model to a file, atomically; `sojourn.load` reads it.

        Parameters
        ----------
        path : str or path
            By custom it ends in ``.sojourn``.
        moments : bool
            Whether a `SpectralHSMM` keeps its moments, without which `partial_fit` cannot continue.
        """
        from sojourn.persist.saving import save

        save(self, path, moments=moments)

    def stream(self) -> OnlineScorer:
        """A scorer that takes one symbol at a time, at the start of a sequence."""
        from sojourn.streams.states import online

        check_is_fitted(self)
        return online(self)

    def _encode(self, X: Any, lengths: Any, client: Any = None) -> Sequences:
        """Sequences in memory in the symbols of training."""
        check_is_fitted(self)
        if isinstance(X, Scan):
            raise SojournError(
                "X is a scan, whose results are too many to be held together; take one partition "
                "at a time: [model.surprise(part) for part in X]"
            )
        _no_client(client)
        self._check_clock(X)
        return as_sequences(X, lengths, self.vocabulary_, self.unknown, self.ends)

    def _check_clock(self, X: Any) -> None:
        """Raise where the data do not count the steps that the model counts."""
        own = getattr(self, "clock_", None)
        if isinstance(X, Sequences):
            check_clock(own, X.clock, X.times is not None)
        elif isinstance(X, Scan):
            check_clock(own, X.layout.clock, X.layout.time is not None)

    def _readable(self, scan: Scan) -> Scan:
        """A scan whose empty sequences are malformed where the model has no ends."""
        if self.ends or not scan.layout.empty:
            return scan
        return replace(scan, layout=replace(scan.layout, empty=False))

    def _own(self, scan: Scan) -> Scan:
        """A scan that is read in the symbols of training."""
        self._check_clock(scan)
        return replace(self._readable(scan), given=self.vocabulary_, unknown=self.unknown)

    def _partitions(self, scan: Scan, client: Any = None) -> Partitions:
        """The partitions of a scan, in the symbols or channels of training."""
        return Partitions.of(self._own(scan), self.n_jobs, client)

    def _training_data(self, X: Any, lengths: Any, client: Any) -> Sequences | Partitions:
        """Sequences in memory, or the partitions of a scan."""
        if isinstance(X, Scan):
            _no_lengths(lengths)
            return Partitions.of(self._readable(X), self.n_jobs, client)
        _no_client(client)
        return as_sequences(X, lengths, empty=self.ends)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.input_tags.string = True
        return tags


@dataclass(frozen=True, eq=False)
class Scores:
    """The score of each sequence of a scan, in its order."""

    ids: NDArray[Any]  # (n,)
    lengths: NDArray[np.int64]  # number of symbols  (n,)
    observed: NDArray[np.int64]  # number of symbols that are not missing, and of ends  (n,)
    log_prob: Floats  # in nats  (n,)

    @property
    def per_symbol(self) -> float:
        """Log-likelihood per symbol over all sequences."""
        return float(self.log_prob.sum()) / max(int(self.observed.sum()), 1)


def outcomes(sequences: Sequences, ends: bool) -> NDArray[np.int64]:
    """Number of outcomes that each score is about: symbols, and the end where it is predicted."""
    return sequences.n_observed + int(ends)


def score_scan(model: SequenceModel, scan: Scan, client: Any = None, lengths: Any = None) -> Scores:
    """Scores of all sequences of a scan, read partition by partition, by threads or a cluster."""
    check_is_fitted(model)
    _no_lengths(lengths)
    found = model._partitions(scan, client).run(_Scoring(model._scorer(), model.ends))
    fields = ("ids", "lengths", "observed", "log_prob")
    return Scores(*(np.concatenate([getattr(s, name) for s in found]) for name in fields))


@dataclass(frozen=True, eq=False)
class _Scoring(Pass[list[Scores]]):
    """The pass that scores each partition."""

    ordered: ClassVar[bool] = True

    scorer: Scorer
    ends: bool

    def empty(self) -> list[Scores]:
        return []

    def add(self, total: list[Scores], sequences: Sequences, partition: Partition) -> list[Scores]:
        scores = (outcomes(sequences, self.ends), self.scorer(sequences, n_jobs=1))
        return [*total, Scores(sequences.ids, sequences.lengths, *scores)]


def _no_client(client: Any) -> None:
    if client is not None:
        raise SojournError("client= is for a scan of files, which the workers can read")


def _no_lengths(lengths: Any) -> None:
    if lengths is not None:
        raise SojournError("a scan knows its lengths; leave lengths= out")
