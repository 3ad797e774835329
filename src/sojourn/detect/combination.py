"""Several views as one score: each is calibrated, then groups of them, then all together.

The evidence of a value is -log p, where p is the fraction of held-out normal sequences whose value
is as high. Beyond the highest of them p still falls, slowly, so that extremes are still ranked.
Evidence of views is combined by a soft maximum, log Σ w e^-log p, which is the harmonic mean of the
p-values: one strong view is enough, whatever the dependence between views. Views that look at the
same thing are combined first, and the group is calibrated again: otherwise many weak views of
one kind would drown one strong view of another.

A sequence of fold f, or a new one that is scored by the model of fold f, is compared with the
training sequences of the other folds. So no value is ever compared with itself, and normal
sequences score alike whether they were in training or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from sojourn.errors import SojournError

Floats = NDArray[np.float64]
Values = dict[str, Floats]  # by view or group  (n,)

# Weight of each group, and of its views; blocks of residuals that are not named here are "counts".
# Chosen on public flights, logs and strings (`benchmarks/detection.py`).
WEIGHTS = {"order": 0.7, "counts": 1.0, "end": 0.3}
GROUPS = {
    "order": {"likelihood": 1.0, "stretch": 0.3, "contexts": 1.0, "novelty": 1.0},
    "end": {"end": 1.0, "length": 1.0},
}
TWO_SIDED = ("length",)
SHARPNESS = 2.0  # of the soft maximum over groups
TAIL = 0.1  # fraction of held-out values that the fall of p beyond them is learned from
FALL = 0.3  # shape of that fall: 0 is exponential, 1 is as slow as 1/x
MOST = 1e9  # stands for infinity


@dataclass(frozen=True, eq=False)
class Evidence:
    """Values of training sequences held out of the fit, by view and by group."""

    cv: int  # sequence i is of fold i % cv
    views: Values
    groups: Values

    def __post_init__(self) -> None:
        values = [*self.views.values(), *self.groups.values()]
        fit = all(name in self.views for group in GROUPS.values() for name in group)
        fit = fit and (not self.groups or set(self.groups) == set(members_of(self.views)))
        fit = fit and type(self.cv) is int and 2 <= self.cv <= len(values[0])
        for value in values if fit else []:
            good = isinstance(value, np.ndarray) and value.dtype == np.float64
            fit = fit and good and value.shape == values[0].shape and value.ndim == 1
            fit = fit and not (np.isnan(value) | (value < -MOST)).any()
        # Values of a view may be infinite; the logarithms that groups are made of are not.
        fit = fit and not any((value > MOST).any() for value in self.groups.values())
        if not fit:
            raise SojournError("the views of the detector do not fit together")

    def of_views(self, values: Values, fold: int) -> Values:
        """Evidence of each view."""
        others = self._others(len(self.views["length"]), fold)
        return {
            name: evidence(held[others], values[name], name in TWO_SIDED)
            for name, held in self.views.items()
        }

    def of_groups(self, by_view: Values, fold: int) -> Values:
        """Evidence of each group, from that of its views: a tenth of normal ones have -log 0.1.

        A shift and not a rank: what is far beyond all normal sequences stays far beyond.
        """
        others = self._others(len(self.views["length"]), fold)
        held = {name: np.quantile(self.groups[name][others], 1 - TAIL) for name in self.groups}
        return {name: e - held[name] - np.log(TAIL) for name, e in joined(by_view).items()}

    def score(self, values: Values, fold: int) -> Floats:
        """How normal sequences are by all views: minus the soft maximum of the evidence, (n,)."""
        groups = self.of_groups(self.of_views(values, fold), fold)
        return np.asarray(-logsumexp(_weighted(groups), axis=1) / SHARPNESS)

    def shares(self, values: Values, fold: int) -> dict[str, float]:
        """The part of the evidence against one sequence that each view has; their sum is one."""
        by_view = self.of_views(values, fold)
        groups = self.of_groups(by_view, fold)
        of_group = dict(zip(groups, softmax(_weighted(groups), axis=1).T, strict=True))
        found: Values = {}
        for group, members in members_of(by_view).items():
            inside = [by_view[name] + np.log(weight) for name, weight in members.items()]
            parts = softmax(np.column_stack(inside), axis=1).T
            found |= {n: of_group[group] * part for n, part in zip(members, parts, strict=True)}
        return {name: float(part[0]) for name, part in found.items()}

    def _others(self, n: int, fold: int) -> NDArray[np.bool_]:
        return np.asarray(np.arange(n) % self.cv != fold)


def learn_evidence(views: Values, cv: int) -> Evidence:
    """Calibrate views and their groups, from values of training sequences, each by its fold."""
    n, start = len(views["length"]), Evidence(cv, views, {})
    groups = {name: np.empty(n) for name in members_of(views)}
    for fold in range(cv):
        own = np.arange(n) % cv == fold
        of_fold = start.of_views({name: value[own] for name, value in views.items()}, fold)
        for name, value in joined(of_fold).items():
            groups[name][own] = value
    return Evidence(cv, views, groups)


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


def evidence(held: Floats, new: Floats, two_sided: bool = False) -> Floats:
    """-log p of new values among held-out ones, of which equal ones count half.

    Examples
    --------
    >>> evidence(np.arange(99.0), np.array([-1.0, 49.5, 98.5, 150.0])).round(2)
    array([0.01, 0.7 , 5.37, 9.26])
    """
    if two_sided:
        return np.asarray(np.maximum(evidence(held, new), evidence(-held, -new)) - np.log(2))
    held, new = np.sort(np.clip(held, -MOST, MOST)), np.clip(new, -MOST, MOST)
    n = len(held)
    above = n - (np.searchsorted(held, new, "left") + np.searchsorted(held, new, "right")) / 2
    k = max(min(10, n // 2), int(TAIL * n))
    excess = held[n - k :] - held[n - k - 1]
    scale = max(float(excess.mean()) * (1 - FALL), 0.1 * float(held.std()), 1e-9)
    beyond = np.maximum(new - held[-1], 0) / (scale + FALL * excess[-1])
    return np.asarray(np.log1p(FALL * beyond) / FALL - np.log((above + 0.5) / (n + 1)))


def _weighted(groups: Values) -> Floats:
    return SHARPNESS * np.column_stack([e + np.log(WEIGHTS[name]) for name, e in groups.items()])
