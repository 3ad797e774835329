"""`AnomalyDetector`: which sequences are abnormal, with p-values and reasons."""

from __future__ import annotations

import os
from copy import copy
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from sojourn.checks import check_choice, positive_int
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.detect import METHODS
from sojourn.detect.calibration import Calibration, check_rate, warn_if_identical
from sojourn.detect.combination import Evidence, learn_evidence
from sojourn.detect.contexts import learn_contexts
from sojourn.detect.explain import Explanation, explain
from sojourn.detect.norms import learn_norms, typical
from sojourn.detect.novelty import UNKNOWN, Encoded, encode, seen_symbols
from sojourn.detect.numbers import usual_surprise
from sojourn.detect.residuals import (
    Whitening,
    learn_whitenings,
    possible_residuals,
    residual_scores,
    scale_distances,
)
from sojourn.detect.stream import AlarmStream, learn_steps, observed, seen_and_drawn
from sojourn.detect.views import views
from sojourn.errors import SojournError
from sojourn.estimators.base import SequenceModel

Floats = NDArray[np.float64]
Blocks = dict[str, Floats]

NOVEL = 300.0  # what one novel symbol takes off a score: more than all other evidence
LEAST_IN_FOLD = 10  # sequences; with many folds of few, false alarms would be too rare
PER_PASS = 1000  # sequences scored at a time
RARE = 0.02  # unless more normal sequences than this have symbols that other folds have not seen


class AnomalyDetector(OutlierMixin, BaseEstimator):
    """Finds abnormal sequences at a false-alarm rate of your choice, and explains them.

    Parameters
    ----------
    model : HSMM or SpectralHSMM
        The model of normal sequences, which has to be given; it is cloned, not changed.
    contamination : float
        The false-alarm rate: the fraction of normal sequences that may be called abnormal. It is
        not the fraction of abnormal ones in the training set, as elsewhere in scikit-learn.
    method : {"combined", "residual", "loglik", "typicality"}
        What is scored: all views together (likelihood, contexts, residuals, end and length); the
        distance of observed from expected counts alone; the log-likelihood per symbol; or the
        distance of that from its usual value, in both directions.
    cv : int
        Number of folds, fewer where they would have fewer than ten sequences each, but at least
        two. The model is fitted once on all sequences and once without each fold.
    refit : bool
        Whether to fit the model. If not, `model` has been fitted, on sequences other than those
        given to `fit`, which then only calibrate it.
    unknown : {"novel", "missing", "error"}
        What a symbol that was not seen in training is: evidence, stronger than any other; a
        missing symbol; or an error. The model's own `unknown` is for the model alone.

    Attributes
    ----------
    model_ : HSMM or SpectralHSMM
        The model fitted on all training sequences; `explain` uses it.
    fold_models_ : list of models
        One per fold, fitted without it; scores come from these. Which of them scores a sequence is
        decided by a checksum of its symbols.
    calibration_ : Calibration
        Held-out scores of the training sequences.
    offset_ : float
        ``decision_function = score_samples - offset_``.
    norms_ : Norms
        Statistics of normal sequences, for `explain`.
    typical_ : Sequences
        A few training sequences of different lengths that score as most do, to compare with.
    vocabulary_ : array
        The symbols, sorted.

    Examples
    --------
    >>> from sojourn import AnomalyDetector, Params, SpectralHSMM
    >>> p = Params.random(2, 3, 4, rng=0)
    >>> detector = AnomalyDetector(SpectralHSMM(2, 3)).fit(p.sample(200, 60, rng=1))
    >>> detector.predict([[0] * 60, p.sample(1, 60, rng=2)[0]])
    array([-1,  1])
    """

    def __init__(
        self,
        model: Any = None,
        *,
        contamination: float = 0.05,
        method: str = "combined",
        cv: int = 5,
        refit: bool = True,
        unknown: str = "novel",
    ) -> None:
        self.model = model
        self.contamination = contamination
        self.method = method
        self.cv = cv
        self.refit = refit
        self.unknown = unknown

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Learn what is normal.

        Parameters
        ----------
        X : Sequences, list of sequences, integer array (n, length), or column with `lengths`
            Normal sequences. A few abnormal ones among them cost power, not false alarms.
        y : ignored
        lengths : sequence of int, optional
            Lengths of the sequences that a stacked `X` holds end to end.
        """
        fresh = copy(self)  # what is interrupted has changed nothing but this
        fresh._learn(X, lengths)
        self.__dict__ = fresh.__dict__
        return self

    def _learn(self, X: Any, lengths: Any) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("unknown", self.unknown, UNKNOWN)
        if not isinstance(self.model, SequenceModel):
            kind = None if self.model is None else type(self.model).__name__
            shown = getattr(self.model, "__name__", kind)
            raise SojournError(f"model is {shown}; give an HSMM(...) or a SpectralHSMM(...)")
        refit = self.refit
        rate = check_rate("contamination", self.contamination, "normal sequences")
        if not refit:
            check_is_fitted(self.model)
        given: Any = self.model._training_data(X, lengths, None) if refit else None
        if refit and not isinstance(given, Sequences):
            raise SojournError("X is a scan; a detector is fitted on sequences in memory")
        encoded = Encoded(given, given) if refit else self._encode(X, lengths, self.model)
        sequences = encoded.known
        n, cv = len(sequences), positive_int("cv", self.cv)
        Calibration(np.zeros(n)).check(rate)
        if not 2 <= cv <= n:
            raise SojournError(f"cv is {cv}; it is a number of folds from 2 to the {n} sequences")
        warn_if_identical(sequences)
        self.model_ = clone(self.model).fit(sequences) if refit else self.model
        self.vocabulary_ = sequences.vocabulary
        cv = min(cv, max(n // LEAST_IN_FOLD, 2))
        # Shuffled, so that no fold is all of one kind where the data are periodic.
        folds = np.random.default_rng(0).permutation(n) % cv
        # What each fold has seen; a model that was fitted before has seen all of its vocabulary.
        rests = [sequences[folds != fold] for fold in range(cv)]
        self.seen_ = np.array([seen_symbols(rest) | (not refit) for rest in rests])
        self.fold_models_: list[SequenceModel] = []
        self.whitenings_: list[dict[str, Whitening]] = []
        self.contexts_ = [learn_contexts(part) for part in (*rests, sequences)]
        # What a fold has not seen is missing to it, in training sequences as in new ones.
        held = [encoded.pick(folds == f).seen_by(seen) for f, seen in enumerate(self.seen_)]
        own: Blocks = {}  # views of training sequences
        for fold, rest in enumerate(rests):
            if refit:
                self.fold_models_.append(sized(self.model_).fit(rest))
            if self.method not in ("combined", "residual"):
                self.whitenings_.append({})
                continue
            residuals = possible_residuals(self._fold_model(fold), rest)[1]
            self.whitenings_.append(learn_whitenings(residuals))
            found = self._views(fold, held[fold]) if self.method == "combined" else {}
            for name, values in found.items():
                own.setdefault(name, np.empty(n))[folds == fold] = values
        scores, novel = np.empty(n), np.empty(n)
        for fold, seen in enumerate(self.seen_):
            novel[folds == fold] = held[fold].novel_counts(seen)
        self.novel_weight_ = NOVEL if (novel > 0).mean() <= RARE else 0.0
        if self.method == "combined":
            self.evidence_: Evidence = learn_evidence(own)
            scores = self.evidence_.training_scores()
        else:
            models = [self._fold_model(fold) for fold in range(cv)]
            scale_distances(models, self.whitenings_, [part.known for part in held])
            for fold in range(cv):
                scores[folds == fold] = self._raw_score(fold, held[fold])
        self.centre_ = float(np.median(scores)) if self.method == "typicality" else 0.0
        self.calibration_ = Calibration(self._finished(scores, novel))
        self.typical_ = typical(sequences, self.calibration_.scores)
        pairs = [(self._fold_model(fold), part.known) for fold, part in enumerate(held)]
        rows = [row for pair in pairs for row in observed(*pair)]
        self.steps_ = learn_steps(rows, *seen_and_drawn(self.model_, sequences))
        self.norms_ = learn_norms(self.model_, sequences)

    def score_samples(self, X: Any, *, lengths: Any = None) -> Floats:
        """How normal each sequence is: higher is more normal, -inf is impossible.

        Parameters
        ----------
        X, lengths
            As in `fit`; symbols that were not seen in training are treated as `unknown` says.
        """
        return self._scored(X, lengths)[2]

    def decision_function(self, X: Any, *, lengths: Any = None) -> Floats:
        """How far above the threshold each sequence scores: negative for abnormal ones.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        """
        now, _, scores = self._scored(X, lengths)
        return now.calibration_.margin(scores, now.contamination)

    def predict(self, X: Any, *, lengths: Any = None) -> NDArray[np.int64]:
        """-1 for abnormal sequences, those with a p-value of at most `contamination`; else 1.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        """
        return np.where(self.decision_function(X, lengths=lengths) < 0, -1, 1)

    def pvalues(self, X: Any, *, lengths: Any = None) -> Floats:
        """The fraction of normal sequences that are as unusual as each sequence.

        Among normal sequences p-values are uniform, whatever the model: about 5 % of them have one
        of at most 0.05. The smallest possible p-value is 1/(n + 1) for n training sequences.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        """
        now, _, scores = self._scored(X, lengths)
        return now.calibration_.pvalues(scores)

    def explain(
        self,
        X: Any,
        *,
        lengths: Any = None,
        most: int = 5,
        stretch: tuple[int, int] | None = None,
    ) -> list[Explanation]:
        """Where and why each sequence is unusual.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        most : int
            How many steps and reasons per sequence.
        stretch : (int, int), optional
            Only reasons and steps between these positions, the second not among them, such as
            those before an alarm of a stream. The score is that of all of the sequence.

        Returns
        -------
        list of Explanation
            ``(id, score, pvalue, steps, reasons, views)``, in the order of `X`.

        Examples
        --------
        >>> from sojourn import AnomalyDetector, Params, SpectralHSMM
        >>> drawn = Params.random(2, 3, 4, rng=0).sample(200, 60, rng=1)
        >>> AnomalyDetector(SpectralHSMM(2, 3)).fit(drawn).explain([[0] * 60])[0].reasons[0].text
        '2 never occurs; 99 % of normal sequences have it by step 12'
        """
        now, encoded, scores = self._scored(X, lengths)
        pvalues = now.calibration_.pvalues(scores).tolist()
        how = (now.norms_, now.contexts_[-1], encoded, positive_int("most", most))
        shares: list[dict[str, float]] = [{}] * len(scores)
        if now.method == "combined":
            folds = now._folds(encoded.known).tolist()
            each = [(fold, encoded.pick(slice(i, i + 1))) for i, fold in enumerate(folds)]
            shares = [now.evidence_.shares(now._views(fold, one)) for fold, one in each]
        found = explain(now.model_, *how, shares, pvalues, stretch)
        rows = zip(encoded.known.ids.tolist(), scores.tolist(), pvalues, found, shares, strict=True)
        return [Explanation(name, score, p, *why, parts) for name, score, p, why, parts in rows]

    def stream(self, rate: float = 1e-3) -> AlarmStream:
        """Alarms while symbols arrive: ``update(symbol)`` returns surprise, p-value and alarm.

        Parameters
        ----------
        rate : float
            The fraction of the steps of normal data that may raise an alarm.

        Examples
        --------
        >>> from sojourn import AnomalyDetector, HSMM, Params
        >>> drawn = Params.random(2, 3, 4, rng=0).sample(200, 60, rng=1)
        >>> AnomalyDetector(HSMM(2, 3)).fit(drawn).stream(rate=0.01).update(0).alarm
        False
        """
        check_is_fitted(self)
        seen = set(self.vocabulary_[self.seen_.any(axis=0)].tolist())
        model = self.model_
        if self.unknown != "error" and model.unknown == "error":
            model = copy(model).set_params(unknown="missing")
        units = None if model._density is None else usual_surprise(model)
        return AlarmStream(model.stream(), seen, self.steps_, rate, self.unknown, units)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted detector to a file, atomically; `sojourn.load` reads it.

        Parameters
        ----------
        path : str or path
            By custom it ends in ``.sojourn``.
        """
        from sojourn.persist.saving import save

        save(self, path)

    @property
    def offset_(self) -> float:
        """The lowest score of a sequence that is not called abnormal."""
        return self.calibration_.threshold(self.contamination)

    def _encode(self, X: Any, lengths: Any, model: Any = None) -> Encoded:
        if model is None:
            check_is_fitted(self)
            model = self.model_
        check_choice("unknown", self.unknown, UNKNOWN)
        if model._density is not None:
            signals = model._encode(X, lengths)
            return Encoded(signals, signals)
        model._check_clock(X)
        return encode(X, lengths, model.vocabulary_, self.unknown, getattr(model, "ends", False))

    def _folds(self, sequences: Sequences) -> NDArray[np.int64]:
        """The fold whose model scores each sequence, (n,)."""
        steps: NDArray[Any] = sequences.codes.astype("<i4", copy=False)
        if isinstance(sequences, Signals):
            steps = sequences.values.astype("<f8", copy=False)
        rows = np.split(steps, sequences.offsets[1:-1])
        return np.array([crc32(row.tobytes()) for row in rows]) % len(self.seen_)

    def _scored(self, X: Any, lengths: Any) -> tuple[AnomalyDetector, Encoded, Floats]:
        """The detector as it is now, should another thread fit it, with data and their scores."""
        now = copy(self)
        encoded = now._encode(X, lengths)
        return now, encoded, now._scores(encoded)

    def _scores(self, encoded: Encoded) -> Floats:
        """Each sequence by the model of one fold, (n,)."""
        folds, scores = self._folds(encoded.known), np.empty(len(encoded.known))
        for fold in np.unique(folds).tolist():
            here = np.flatnonzero(folds == fold)
            for some in np.split(here, range(PER_PASS, len(here), PER_PASS)):
                scores[some] = self._score(fold, encoded.pick(some))
        return scores

    def _score(self, fold: int, encoded: Encoded) -> Floats:
        novel = encoded.novel_counts(self.seen_[fold])
        if self.method != "combined":
            return self._finished(self._raw_score(fold, encoded), novel)
        taken = -self._finished(np.zeros(len(novel)), novel)
        return self.evidence_.score(self._views(fold, encoded), self.calibration_.scores, taken)

    def _finished(self, scores: Floats, novel: NDArray[Any]) -> Floats:
        """Scores without what novel symbols, so many in each sequence, take off them."""
        if self.method == "typicality":
            scores = -np.abs(scores - self.centre_)
        weight = self.novel_weight_ if self.unknown == "novel" else 0.0
        return np.asarray(scores - weight * np.log2(1 + novel))

    def _views(self, fold: int, encoded: Encoded) -> Blocks:
        parts = (self._fold_model(fold), self.contexts_[fold], self.whitenings_[fold])
        return views(*parts, encoded.seen_by(self.seen_[fold]))

    def _raw_score(self, fold: int, encoded: Encoded) -> Floats:
        sequences = encoded.seen_by(self.seen_[fold]).known
        if self.method != "residual":
            log_prob = self._fold_model(fold).score_samples(sequences)
            return np.asarray(log_prob / np.maximum(sequences.n_observed, 1))
        return residual_scores(self._fold_model(fold), self.whitenings_[fold], sequences)

    def _fold_model(self, fold: int) -> Any:
        return self.fold_models_[fold] if self.fold_models_ else self.model_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = tags.input_tags
        given.categorical = given.positive_only = given.string = True
        return tags


def sized(model: Any) -> Any:
    """An unfitted model like the fitted one, of the sizes that it has chosen."""
    sizes = model.params_.duration.shape if model.has_states else ()
    return clone(model).set_params(**dict(zip(("n_states", "max_duration"), sizes, strict=False)))
