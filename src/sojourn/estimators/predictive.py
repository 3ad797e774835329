"""What models that filter have in common: surprise, what comes next, draws, a state per prefix."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sojourn.checks import positive_int
from sojourn.contexts.sample import Sample
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.estimators.base import Floats, Scorer, SequenceModel
from sojourn.exact.hitting import Hits
from sojourn.scale.passes import Partition, Partitions, Pass
from sojourn.spectral.answers import draw, log_prob, next_distributions, surprise
from sojourn.spectral.hitting import first_hits
from sojourn.spectral.models import Model

DEFAULT_LENGTH = 100  # of a sample, where sequences have no ends


class PredictiveModel(SequenceModel):
    """An estimator that filters: it predicts what comes next, and has no states to decode."""

    random_state: Any

    @property
    @abstractmethod
    def _model(self) -> Model:
        """What was learned, laid out for scoring."""

    def _scorer(self) -> Scorer:
        return partial(log_prob, self._model)

    def surprise(self, X: Any, *, lengths: Any = None) -> list[Floats]:  # noqa: D102
        sequences = self._encode(X, lengths)
        steps, ends = surprise(self._model, sequences, self.n_jobs)
        rows = np.split(steps, sequences.offsets[1:-1])
        if not self.ends:
            return rows
        return [np.append(row, end) for row, end in zip(rows, ends, strict=True)]

    def _next(self, sequences: Sequences, horizons: Sequence[int]) -> Floats:
        return next_distributions(self._model, sequences, horizons, self.n_jobs)

    def _hits(self, sequences: Sequences, state: Any, symbol: int | None, most: int) -> Hits:
        if state is not None:
            raise SojournError(f"state= is for HSMM; a {type(self).__name__} has no states")
        if self._model.filter is None:
            raise SojournError("a context tree looks one step ahead; use SpectralHSMM or HSMM")
        target = self._model.n_symbols if symbol is None else symbol
        return first_hits(self._model, sequences, target, most, self.n_jobs)

    def sample(self, n: int = 1, length: int | None = None, random_state: Any = None) -> Sequences:
        """Draw sequences from the model, one step after the other.

        Parameters
        ----------
        n : int
            Number of sequences.
        length : int or None
            Length of each; None draws to the end, or 100 steps without ``ends=True``.
        random_state : int, Generator or None

        Returns
        -------
        Sequences, or Signals of a model of numbers
        """
        check_is_fitted(self)
        n = positive_int("n", n)
        if length is not None:
            length = positive_int("length", length)
        elif not self.ends:
            length = DEFAULT_LENGTH
        rows = draw(self._model, n, length, np.random.default_rng(random_state))
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        return Sequences(np.concatenate(rows), offsets, self.vocabulary_, np.arange(n))


def sample_of(data: Sequences | Partitions) -> Sample:
    """The sequences that contexts are grown from and sizes compared on."""
    return data.run(_Sampling()) if isinstance(data, Partitions) else Sample.of(data)


def counted(
    data: Sequences | Partitions,
    tally: Callable[[], Any],
    n_jobs: int | None = None,
    n_before: int = 0,
) -> Any:
    """Moments of the data, which follow `n_before` sequences that were counted before."""
    if isinstance(data, Partitions):
        return data.run(_Counting(tally)).moments()
    total = tally()
    total.add(data, n_jobs, shift=n_before)
    return total.moments()


@dataclass(frozen=True)
class _Counting(Pass[Any]):
    """The pass that counts; its sums are of integers, so that no order matters."""

    tally: Callable[[], Any]

    def empty(self) -> Any:
        return self.tally()

    def add(self, total: Any, sequences: Sequences, partition: Partition) -> Any:
        total.add(sequences, n_jobs=1)
        return total


class _Sampling(Pass[Sample]):
    """The pass that draws the sample."""

    def empty(self) -> Sample:
        return Sample.none()

    def add(self, total: Sample, sequences: Sequences, partition: Partition) -> Sample:
        return total + Sample.of(sequences)
