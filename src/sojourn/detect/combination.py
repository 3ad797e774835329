"""Several views as one score: each is calibrated, then groups of them, then all together.

The evidence of a value is -log p, where p is the fraction of held-out normal sequences whose value
is as high. Above the lowest fifth of a few sequences, or the lower nine tenths of many, p follows a
generalised Pareto distribution, so that extremes are still ranked. Its scale is the median excess.
A single sequence must hardly change it: training sequences have a part in what they are compared
with, a new one has not, and with ten values that part was a tenth, so false alarms came too often.
Evidence of views is combined by a soft maximum, log Σ w e^-log p, which is the harmonic mean of the
p-values: one strong view is enough, whatever the dependence between views. Views that look at the
same thing are combined first, and the group is calibrated again: otherwise many weak views of
one kind would drown one strong view of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from sojourn.errors import SojournError

Floats = NDArray[np.float64]
Values = dict[str, Floats]  # by view or group  (n,)

# Weight of each group, and of its views; blocks of residuals that are not named here are "counts".
# Chosen on public flights, logs and strings (`benchmarks/detection.py`).
WEIGHTS = {"order": 0.7, "counts": 1.0, "end": 0.15}
GROUPS = {
    "order": {"likelihood": 1.0, "stretch": 0.3, "contexts": 2.0, "novelty": 1.0},
    "end": {"end": 1.0, "length": 1.0},
}
COUNTS = {"emission": 0.3}  # others have 1
TWO_SIDED = ("length",)
# Measurements have no contexts and no symbols at their ends; their likelihood leads, in which every
# value counts. Chosen on bundled sets of aeon.
OF_NUMBERS = ("likelihood", "stretch")
WEIGHTS_OF_NUMBERS = {"order": 2.0, "counts": 1.0}
BOUNDED_OF_NUMBERS = ("transition", "stay")  # there are few in a sequence, and rare ones are normal
# What has never been seen is no stronger evidence than the least p-value: normal sequences of small
# training sets have such pasts and ends, too, and the values seen do not show how often.
BOUNDED = ("contexts", "novelty", "end", "length")
# How many held-out values the Pareto distribution is for: this fraction, of few values up to so
# many or this larger fraction.
TAIL, LEAST_TAIL, LARGEST_TAIL = 0.1, 50, 0.8
FALL = 0.1  # its shape: 0 is exponential, 1 is as slow as 1/x
MOST = 1e9  # stands for infinity
SAME = 1e-8  # values that differ by less do so by rounding
SIDES: Any = ((-SAME, "left"), (SAME, "right"))
LEAST_SCALE = 1e-4  # of values that hardly differ in training


@dataclass(frozen=True, eq=False)
class Evidence:
    """Values of training sequences held out of the fit, by view and by group."""

    views: Values  # (n,)
    groups: Values  # (n,)

    def __post_init__(self) -> None:
        values = [*self.views.values(), *self.groups.values()]
        fit = all(name in self.views for name in OF_NUMBERS)
        fit = fit and set(self.groups) == set(members_of(self.views))
        fit = fit and isinstance(values[0], np.ndarray)
        for value in values if fit else []:
            good = isinstance(value, np.ndarray) and value.dtype == np.float64
            fit = fit and good and value.shape == (values[0].size,) and value.size > 1
            fit = fit and not (np.isnan(value) | (value < -MOST)).any()
        # Values of a view may be infinite; the logarithms that groups are made of are not.
        fit = fit and not any((value > MOST).any() for value in self.groups.values())
        if not fit:
            raise SojournError("the views of the detector do not fit together")

    def is_combined_as_now(self) -> bool:
        """Whether the groups follow from the views as they do in this version."""
        again = learn_evidence(self.views).groups
        return all(np.allclose(self.groups[name], again[name]) for name in again)

    def of_groups(self, by_group: Values) -> Values:
        """Evidence of each group, not yet calibrated: half of normal ones have log 2 then.

        A shift and not a rank: what is far beyond all normal sequences stays far beyond.
        """
        held = {name: np.median(self.groups[name]) for name in self.groups}
        return {name: e - held[name] + np.log(2) for name, e in by_group.items()}

    def score(self, values: Values | None = None) -> Floats:
        """How normal sequences are by all views: minus the soft maximum of the evidence, (n,).

        Without values, of the training sequences.
        """
        by_group = self.groups if values is None else joined(of_views(self.views, values))
        return np.asarray(-logsumexp(_weighted(self.of_groups(by_group)), axis=1))

    def shares(self, values: Values) -> dict[str, float]:
        """The part of the evidence against one sequence that each view has; their sum is one."""
        by_view = of_views(self.views, values)
        groups = self.of_groups(joined(by_view))
        of_group = dict(zip(groups, softmax(_weighted(groups), axis=1).T, strict=True))
        found: Values = {}
        for group, members in members_of(by_view).items():
            inside = [by_view[name] + np.log(weight) for name, weight in members.items()]
            parts = softmax(np.column_stack(inside), axis=1).T
            found |= {n: of_group[group] * part for n, part in zip(members, parts, strict=True)}
        return {name: float(part[0]) for name, part in found.items()}


def learn_evidence(views: Values) -> Evidence:
    """Calibrate views and groups by the values of held-out training sequences."""
    return Evidence(views, joined(of_views(views, views)))


def of_views(views: Values, values: Values) -> Values:
    """Evidence of each view, by those of normal sequences."""
    bounded = BOUNDED if "contexts" in views else BOUNDED_OF_NUMBERS
    return {
        name: evidence(held, values[name], name in TWO_SIDED, name in bounded)
        for name, held in views.items()
    }


def members_of(views: Values) -> dict[str, dict[str, float]]:
    """The views of each group, with their weights."""
    named = {name for group in GROUPS.values() for name in group}
    rest = {name: COUNTS.get(name, 1.0) for name in sorted(views) if name not in named}
    found = {group: {n: w for n, w in GROUPS[group].items() if n in views} for group in GROUPS}
    return {group: members for group, members in (found | {"counts": rest}).items() if members}


def joined(by_view: Values) -> Values:
    """The soft maximum of the evidence in each group, not yet calibrated."""
    found = {}
    for group, members in members_of(by_view).items():
        inside = [by_view[name] + np.log(weight) for name, weight in members.items()]
        found[group] = np.asarray(logsumexp(np.column_stack(inside), axis=1))
    return found


def evidence(held: Floats, new: Floats, two_sided: bool = False, bounded: bool = False) -> Floats:
    """-log p of new values among held-out ones, of which equal ones count half.

    Bounded, it is at most that of the least p-value among them.

    Examples
    --------
    >>> evidence(np.arange(99.0), np.array([-1.0, 49.5, 98.5, 150.0])).round(2)
    array([0.01, 0.72, 2.  , 3.2 ])
    """
    if two_sided:
        sides = (evidence(sign * held, sign * new, bounded=bounded) for sign in (1, -1))
        return np.asarray(np.maximum(*sides) - np.log(2))
    held, new = np.sort(np.clip(held, -MOST, MOST)), np.clip(new, -MOST, MOST)
    n = len(held)
    k = max(min(LEAST_TAIL, int(LARGEST_TAIL * n)), int(TAIL * n))
    start = held[n - k - 1]
    wide = 0.1 * float(np.diff(np.quantile(held, [0.5, 0.84]))[0])
    scale = max(float(np.median(held[n - k :]) - start) * FALL / (2**FALL - 1), wide, LEAST_SCALE)
    excess = np.maximum(new - start - SAME, 0) / scale
    bulk = -np.log((np.maximum(_above(held, new), k + 0.5) + 0.5) / (n + 1))
    found = bulk + np.log1p(FALL * excess) / FALL
    return np.asarray(np.minimum(found, np.log(n + 1)) if bounded else found)


def _above(held: Floats, new: Floats) -> Floats:
    """How many held-out values, sorted, are above new ones; of equal ones half are."""
    low, high = (np.searchsorted(held, new + by, side) for by, side in SIDES)
    return np.asarray(len(held) - (low + high) / 2)


def _weighted(groups: Values) -> Floats:
    weights = WEIGHTS if "end" in groups else WEIGHTS_OF_NUMBERS
    return np.column_stack([e + np.log(weights[name]) for name, e in groups.items()])
