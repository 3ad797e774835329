"""What both estimators share: data in every form, and the score."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sojourn.data.sequences import Sequences, as_sequences
from sojourn.errors import SojournError
from sojourn.io.sources import Scan
from sojourn.scale.passes import Parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from sojourn.estimators.scan_scores import Scores
    from sojourn.estimators.stream import OnlineScorer


class SequenceModel(BaseEstimator, ABC):
    """An estimator of sequences, with a `vocabulary_` and `score_samples` once it is fitted."""

    unknown: str
    n_jobs: int | None
    vocabulary_: NDArray[Any]

    @property
    def has_states(self) -> bool:
        """Whether the model has states, with paths, stays and transitions; see `StateModel`."""
        return False

    def score_samples(
        self, X: Any, *, lengths: Any = None, client: Any = None
    ) -> NDArray[np.float64]:
        """Log-probability of each sequence, in nats; -inf where the model cannot produce it.

        Parameters
        ----------
        X, lengths
            As in `fit`; symbols are those of training. A scan is read partition by partition.
        client : distributed.Client, optional
            A cluster whose workers read and score the partitions of a scan.

        Returns
        -------
        array (n,)
        """
        if isinstance(X, Scan):
            return self._scan_scores(X, lengths, client).log_prob
        if client is not None:
            raise SojournError("client= is for a scan of files, which the workers can read")
        sequences = self._encode(X, lengths)
        return self._scorer()(sequences, self.n_jobs)

    @abstractmethod
    def _scorer(self) -> Callable[[Sequences, int | None], NDArray[np.float64]]:
        """A small function of sequences and a number of threads that scores them."""

    def score(self, X: Any, y: Any = None, *, lengths: Any = None, client: Any = None) -> float:
        """Log-likelihood a symbol over all of `X`, in nats: ``exp(-score)`` is the perplexity.

        Parameters
        ----------
        X, y, lengths
            As in `fit`; `y` is not used. Missing symbols are not counted.
        client
            As in `score_samples`.
        """
        if isinstance(X, Scan):
            return self._scan_scores(X, lengths, client).per_symbol
        sequences = self._encode(X, lengths)
        return float(self.score_samples(sequences).sum()) / max(n_observed(sequences), 1)

    def save(self, path: str | os.PathLike[str], *, moments: bool = True) -> None:
        """Write the fitted model to a file, whole or not at all; `sojourn.load` reads it.

        Parameters
        ----------
        path : str or path
            By custom it ends in ``.sojourn``.
        moments : bool
            Whether a `SpectralHSMM` keeps its moments, without which `partial_fit` cannot go on.
        """
        from sojourn.persist.saving import save

        save(self, path, moments=moments)

    def stream(self) -> OnlineScorer:
        """A scorer that is given one symbol at a time, at the start of a sequence."""
        from sojourn.estimators.stream import online

        return online(self)

    def _encode(self, X: Any, lengths: Any) -> Sequences:
        check_is_fitted(self)
        if isinstance(X, Scan):
            raise SojournError(
                "X is a scan, and what this gives of each sequence is not put together for all of "
                "them; take one partition at a time: [model.surprise(part) for part in X]"
            )
        return as_sequences(X, lengths, self.vocabulary_, self.unknown)

    def _scan_scores(self, scan: Scan, lengths: Any, client: Any) -> Scores:
        from sojourn.estimators.scan_scores import score_scan

        check_is_fitted(self)
        if lengths is not None:
            raise SojournError("a scan knows its lengths; leave lengths= out")
        return score_scan(self, scan, client)

    def _parts(self, X: Any, lengths: Any, client: Any) -> Parts:
        """Data to fit, in partitions: those of a scan, or all of it as one."""
        if isinstance(X, Scan):
            if lengths is not None:
                raise SojournError("a scan knows its lengths; leave lengths= out")
            return Parts.of(X, self.n_jobs, client)
        return Parts.of(as_sequences(X, lengths), self.n_jobs, client)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.input_tags.string = True
        return tags


def n_observed(sequences: Sequences) -> int:
    """Number of symbols that are not missing."""
    return int((sequences.codes >= 0).sum())
