"""What both estimators share: data in every form, and the score."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sojourn.sequences import Sequences, as_sequences

if TYPE_CHECKING:
    from sojourn.stream import OnlineScorer


class SequenceModel(BaseEstimator, ABC):
    """An estimator of sequences, with a `vocabulary_` and `score_samples` once it is fitted."""

    unknown: str
    vocabulary_: NDArray[Any]

    @abstractmethod
    def score_samples(self, X: Any, *, lengths: Any = None) -> NDArray[np.float64]:
        """Log-probability of each sequence, in nats."""

    def score(self, X: Any, y: Any = None, *, lengths: Any = None) -> float:
        """Log-likelihood a symbol over all of `X`, in nats: ``exp(-score)`` is the perplexity.

        Parameters
        ----------
        X, y, lengths
            As in `fit`; `y` is not used. Missing symbols are not counted.
        """
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
        from sojourn.store import save

        save(self, path, moments=moments)

    def stream(self) -> OnlineScorer:
        """A scorer that is given one symbol at a time, at the start of a sequence."""
        from sojourn.stream import online

        return online(self)

    def _encode(self, X: Any, lengths: Any) -> Sequences:
        check_is_fitted(self)
        return as_sequences(X, lengths, self.vocabulary_, self.unknown)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.input_tags.string = True
        return tags


def n_observed(sequences: Sequences) -> int:
    """Number of symbols that are not missing."""
    return int((sequences.codes >= 0).sum())
