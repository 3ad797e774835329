"""Several views as one score: each is calibrated, then groups of them, then all together.

The evidence of a value is -log p, where p is the fraction of held-out normal sequences whose value
is as high. Above nine tenths of them p follows a generalised Pareto distribution, so that extremes
are still ranked. Its scale is the median excess, which the highest values do not change: each would
hide others beside it, those of training more than a new one, and false alarms would be too rare.
Evidence of views is combined by a soft maximum, log Σ w e^-log p, which is the harmonic mean of the
p-values: one strong view is enough, whatever the dependence between views. Views that look at the
same thing are combined first, and the group is calibrated again: otherwise many weak views of
one kind would drown one strong view of another.

A sequence of fold f, or a new one that is scored by the model of fold f, is compared with the
training sequences of the other folds. No whitening of those has seen fold f either: an unusual
sequence widens the whitening that it is part of, which hides others in the same way.
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
TWO_SIDED = ("length",)
# What has never been seen is no stronger evidence than the least p-value: normal sequences of small
# training sets have such pasts and ends, too, and the values seen do not show how often.
BOUNDED = ("contexts", "novelty", "end", "length")
TAIL = 0.1  # fraction of held-out values whose p is that of a generalised Pareto distribution,
FALL = 0.3  # with this shape: 0 is exponential, 1 is as slow as 1/x
MOST = 1e9  # stands for infinity
SAME = 1e-8  # values that differ by less do so by rounding
SIDES: Any = ((-SAME, "left"), (SAME, "right"))
LEAST_SCALE = 1e-4  # of values that hardly differ in training


@dataclass(frozen=True, eq=False)
class Evidence:
    """Values of training sequences held out of the fit, by view and by group."""

    folds: NDArray[np.int64]  # of the training sequences  (n,)
    views: Values  # as each fold sees them, its own sequences aside  (cv, n)
    groups: Values  # (n,)

    def __post_init__(self) -> None:
        values = [*self.views.values(), *self.groups.values()]
        fit = all(name in self.views for group in GROUPS.values() for name in group)
        fit = fit and (not self.groups or set(self.groups) == set(members_of(self.views)))
        fit = fit and isinstance(self.folds, np.ndarray) and self.folds.dtype == np.int64
        fit = fit and self.folds.ndim == 1 and len(self.folds) > 1
        counts = np.bincount(self.folds) if fit and self.folds.min() >= 0 else np.zeros(1)
        fit = fit and bool((counts > 0).all()) and len(counts) > 1
        shapes = [(len(counts), len(self.folds))] * len(self.views) + [(len(self.folds),)] * 99
        for value, shape in zip(values if fit else [], shapes, strict=False):
            good = isinstance(value, np.ndarray) and value.dtype == np.float64
            fit = fit and good and value.shape == shape
            fit = fit and not (np.isnan(value) | (value < -MOST)).any()
        # Values of a view may be infinite; the logarithms that groups are made of are not.
        fit = fit and not any((value > MOST).any() for value in self.groups.values())
        if not fit:
            raise SojournError("the views of the detector do not fit together")

    def is_combined_as_now(self) -> bool:
        """Whether the groups follow from the views as they do in this version."""
        at = np.arange(len(self.folds))
        own = {name: value[self.folds, at] for name, value in self.views.items()}
        again = learn_evidence(self.folds, own, self.views).groups
        return all(np.allclose(self.groups[name], again[name]) for name in again)

    def of_views(self, values: Values, fold: int) -> Values:
        """Evidence of each view."""
        others = self.folds != fold
        return {
            name: evidence(held[fold, others], values[name], name in TWO_SIDED, name in BOUNDED)
            for name, held in self.views.items()
        }

    def of_groups(self, by_group: Values) -> Values:
        """Evidence of each group, not yet calibrated: a tenth of normal ones have -log 0.1 then.

        A shift and not a rank: what is far beyond all normal sequences stays far beyond.
        """
        held = {name: np.quantile(self.groups[name], 1 - TAIL) for name in self.groups}
        return {name: e - held[name] - np.log(TAIL) for name, e in by_group.items()}

    def score(self, values: Values | None = None, fold: int = 0) -> Floats:
        """How normal sequences are by all views: minus the soft maximum of the evidence, (n,).

        Without values, of the training sequences.
        """
        by_group = self.groups if values is None else joined(self.of_views(values, fold))
        return np.asarray(-logsumexp(_weighted(self.of_groups(by_group)), axis=1))

    def shares(self, values: Values, fold: int) -> dict[str, float]:
        """The part of the evidence against one sequence that each view has; their sum is one."""
        by_view = self.of_views(values, fold)
        groups = self.of_groups(joined(by_view))
        of_group = dict(zip(groups, softmax(_weighted(groups), axis=1).T, strict=True))
        found: Values = {}
        for group, members in members_of(by_view).items():
            inside = [by_view[name] + np.log(weight) for name, weight in members.items()]
            parts = softmax(np.column_stack(inside), axis=1).T
            found |= {n: of_group[group] * part for n, part in zip(members, parts, strict=True)}
        return {name: float(part[0]) for name, part in found.items()}


def learn_evidence(folds: NDArray[np.int64], own: Values, views: Values) -> Evidence:
    """Calibrate views and groups: values of training sequences for their own fold, and others."""
    start = Evidence(folds, views, {})
    groups: Values = {name: np.empty(len(folds)) for name in members_of(views)}
    for fold in np.unique(folds).tolist():
        here = folds == fold
        by_view = start.of_views({name: value[here] for name, value in own.items()}, fold)
        for name, value in joined(by_view).items():
            groups[name][here] = value
    return Evidence(folds, views, groups)


def members_of(views: Values) -> dict[str, dict[str, float]]:
    """The views of each group, with their weights."""
    named = {name for group in GROUPS.values() for name in group}
    return {**GROUPS, "counts": {name: 1.0 for name in sorted(views) if name not in named}}


def joined(by_view: Values) -> Values:
    """The soft maximum of the evidence in each group, not yet calibrated."""
    found = {}
    for group, members in members_of(by_view).items():
        inside = [by_view[name] + np.log(weight) for name, weight in members.items()]
        found[group] = np.asarray(logsumexp(np.column_stack(inside), axis=1))
    return found


def evidence(held: Floats, new: Floats, two_sided: bool = False, bounded: bool = False) -> Floats:
    """-log p of new values among held-out ones, of which equal ones count half.

    Bounded, it is at most that of a p-value of half of one among them.

    Examples
    --------
    >>> evidence(np.arange(99.0), np.array([-1.0, 49.5, 98.5, 150.0])).round(2)
    array([0.01, 0.7 , 3.43, 6.48])
    """
    if two_sided:
        sides = (evidence(sign * held, sign * new, bounded=bounded) for sign in (1, -1))
        return np.asarray(np.maximum(*sides) - np.log(2))
    held, new = np.sort(np.clip(held, -MOST, MOST)), np.clip(new, -MOST, MOST)
    n = len(held)
    k = max(min(10, n // 2), int(TAIL * n))
    start = held[n - k - 1]
    wide = 0.1 * float(np.diff(np.quantile(held, [0.5, 0.84]))[0])
    scale = max(float(np.median(held[n - k :]) - start) * FALL / (2**FALL - 1), wide, LEAST_SCALE)
    excess = np.maximum(new - start - SAME, 0) / scale
    bulk = -np.log((np.maximum(_above(held, new), k + 0.5) + 0.5) / (n + 1))
    found = bulk + np.log1p(FALL * excess) / FALL
    return np.asarray(np.minimum(found, np.log(2 * (n + 1))) if bounded else found)


def _above(held: Floats, new: Floats) -> Floats:
    """How many held-out values, sorted, are above new ones; of equal ones half are."""
    low, high = (np.searchsorted(held, new + by, side) for by, side in SIDES)
    return np.asarray(len(held) - (low + high) / 2)


def _weighted(groups: Values) -> Floats:
    return np.column_stack([e + np.log(WEIGHTS[name]) for name, e in groups.items()])
