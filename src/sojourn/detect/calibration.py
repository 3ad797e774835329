"""From scores to p-values: the rank of a score among those of sequences held out of the fit.

Sequence i of the training set is scored by a model that was fitted without its fold. A new sequence
is scored by one of the same models, so that its score, if it is normal, is distributed as theirs.
With n training sequences, of which c score no higher than the new one, its p-value is
(c + 1) / (n + 1).

One model and not all of them: ranks averaged over several models are less extreme than those of
one, and p-values would be too large where few sequences make the models differ.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import LARGEST, check_arrays
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of training sequences, each by a model that has not seen it."""

    scores: Floats  # higher is more normal; -inf for what a model cannot produce  (n,)

    def __post_init__(self) -> None:
        check_arrays(self, scores="float64? n")
        if not ((np.abs(self.scores) <= LARGEST) | (self.scores == -np.inf)).all():
            raise SojournError("scores of Calibration must be finite, or -inf; none may be NaN")

    def pvalues(self, new: Floats) -> Floats:
        """Fraction of normal sequences that score as low or lower than each new one, (m,)."""
        below = np.searchsorted(np.sort(self.scores), new, side="right")
        return np.asarray((below + 1.0) / (len(self.scores) + 1.0), dtype=np.float64)

    def rank(self, rate: float) -> int:
        """How many p-values there are up to a false-alarm rate."""
        # A rate of 0.01 is a little less or more than one hundredth.
        return int(np.floor(rate * (len(self.scores) + 1) + 1e-9))

    def check(self, rate: float) -> None:
        """Raise an error if there are too few sequences for a false-alarm rate."""
        n = len(self.scores)
        if self.rank(rate) < 1:
            raise SojournError(
                f"contamination is {rate:g}, but {n} training sequences give p-values of "
                f"1/{n + 1} = {1 / (n + 1):.2g} and more, so none could be found abnormal; give at "
                f"least {int(np.ceil(1 / rate - 1e-9)) - 1} sequences or a higher contamination"
            )

    def threshold(self, rate: float) -> float:
        """The score below which a fraction `rate` of normal sequences lies."""
        return float(np.sort(self.scores)[self.rank(rate) - 1])

    def margin(self, new: Floats, rate: float) -> Floats:
        """How far above the threshold scores are: negative where the p-value is <= `rate`."""
        with np.errstate(invalid="ignore"):
            gaps = new - self.threshold(rate)
        return np.where(np.isnan(gaps), 0.0, gaps)  # both impossible: equal


def check_rate(name: str, rate: Any, of: str) -> float:
    """A false-alarm rate, or an error."""
    if isinstance(rate, bool) or not isinstance(rate, float | int) or not 0 < rate < 1:
        raise SojournError(
            f"{name} is {rate!r}; it is the fraction of {of} that may be called abnormal, above 0 "
            f"and below 1"
        )
    return rate


def warn_if_identical(sequences: Sequences) -> None:
    """Warn if all training sequences are one."""
    one = sequences.lengths[0]
    if (sequences.lengths == one).all():
        steps = getattr(sequences, "values", sequences.codes)  # of measurements
        rows = steps.reshape(len(sequences), -1)
        if (rows == rows[0]).all():
            warnings.warn(
                f"all {len(sequences)} training sequences are identical: every other sequence "
                f"will be found abnormal",
                stacklevel=4,
            )
