"""What a report is about: the detector, its numbers for each sequence, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.runs import runs
from sojourn.data.sequences import Sequences
from sojourn.detect.novelty import Encoded
from sojourn.errors import SojournError
from sojourn.report.labels import Known, read_known

Floats = NDArray[np.float64]

MOST_EXPLAINED = 2000  # abnormal sequences whose first reason stands in the table


@dataclass(frozen=True, eq=False)
class Findings:
    """Sequences in the order of the report, the most abnormal first."""

    detector: Any
    calibrated: str  # on what, in words; nothing where that was when the detector was fitted
    encoded: Encoded
    scores: Floats  # (n,)
    pvalues: Floats  # (n,)
    alarms: NDArray[np.bool_]  # (n,)
    known: Known | None
    explained: list[Any]  # of the first sequences

    @property
    def inner(self) -> Any:
        """The model of the detector."""
        return self.detector.model_

    @property
    def sequences(self) -> Sequences:
        """As they were given, with symbols that training has not seen."""
        return self.encoded.given

    @property
    def n_alarms(self) -> int:
        """How many sequences are abnormal."""
        return int(self.alarms.sum())

    @property
    def n_training(self) -> int:
        """Number of sequences that p-values come from."""
        return len(self.detector.calibration_.scores)


def find(
    model: Any,
    X: Any,
    labels: Any,
    normal: Any,
    normal_label: Any,
    contamination: float | None,
    worst: int,
) -> Findings:
    """Score, sort and explain sequences; at least the first `worst` are explained."""
    detector, calibrated = _detector(model, X, normal, contamination)
    encoded = detector._encode(X, None)
    n = len(encoded.known)
    known = None if labels is None else read_known(labels, n, normal_label)
    # Of what was given: each method looks for symbols that training has not seen.
    scores = np.asarray(detector.score_samples(encoded.given), dtype=float)
    pvalues = np.asarray(detector.pvalues(encoded.given), dtype=float)
    order = np.lexsort((scores, pvalues))
    encoded, scores, pvalues = encoded.pick(order), scores[order], pvalues[order]
    alarms = np.asarray(detector.predict(encoded.given)) == -1
    n_explained = min(max(worst, min(int(alarms.sum()), MOST_EXPLAINED)), n)
    explained = detector.explain(encoded.given[:n_explained])
    if known is not None:
        known = Known([known.names[i] for i in order.tolist()], known.abnormal[order])
    return Findings(detector, calibrated, encoded, scores, pvalues, alarms, known, explained)


def _detector(model: Any, X: Any, normal: Any, contamination: float | None) -> tuple[Any, str]:
    """The detector, and in words what it is calibrated on if that is done here."""
    if hasattr(model, "pvalues"):
        if not hasattr(model, "model_"):
            raise SojournError("the detector is not fitted; call fit with normal sequences first")
        if normal is not None or contamination is not None:
            raise SojournError(
                "the detector is calibrated already, at its own false-alarm rate; leave out "
                "normal= and contamination=, or give a model"
            )
        return model, ""
    if not hasattr(model, "vocabulary_"):
        raise SojournError(
            f"expected a fitted AnomalyDetector, HSMM, SpectralHSMM or ContextTree, got "
            f"{type(model).__name__}; call fit first"
        )
    from sojourn.detect.detector import AnomalyDetector

    rate: dict[str, Any] = {} if contamination is None else {"contamination": contamination}
    given = X if normal is None else normal
    detector = AnomalyDetector(model, refit=False, **rate).fit(given)
    usual = len(detector.calibration_.scores)
    n = f"{usual:,} sequence{'s' if usual > 1 else ''}"
    if normal is None:
        return detector, (
            f"Calibrated on the {n} of this report itself, taken as mostly normal: the more of "
            f"them are abnormal, the fewer are found."
        )
    return detector, f"Calibrated on {n} given as normal."


def paths(inner: Any, known: Sequences) -> list[NDArray[np.int32]]:
    """The decoded states of each sequence; none of what no path of states can produce."""
    found = [np.empty(0, np.int32)] * len(known)
    possible = np.flatnonzero(np.isfinite(inner.score_samples(known)))
    if possible.size:
        for i, path in zip(possible.tolist(), inner.predict(known[possible]), strict=True):
            found[i] = path
    return found


def lengths_and_values(row: NDArray[Any]) -> list[list[int]]:
    """Runs of equal values as pairs: how many, and of what."""
    _, lengths, values = runs(row)
    return np.column_stack([lengths, values]).tolist()
