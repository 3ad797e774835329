"""Several views as one score: each is calibrated, then groups of them, then all together.

The evidence of a value is -log p, where p is the fraction of normal sequences whose value is as
high. Among the highest of them p follows a generalised Pareto distribution, so that extremes are
still ranked. Its scale is the median excess. Training sequences have a part in what they are
compared with, so a new one gets the same part: it is added to them, the evidence of all is computed
anew, and its rank among their scores is its p-value. Where the values of all are exchangeable that
is exact, whatever evidence is made of (full conformal prediction).

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
Near = NDArray[np.int64] | None
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
# How many values the Pareto distribution is for: this fraction, of few values up to so many or this
# larger fraction.
TAIL, LEAST_TAIL, LARGEST_TAIL = 0.1, 25, 0.75
NEAR = 128  # training sequences of like score, whose order a new one may change
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
        fit = {*OF_NUMBERS} <= {*self.views} and {*self.groups} == {*members_of(self.views)}
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

    def of_all(self, by_group: Values) -> Floats:
        """The soft maximum of the evidence of groups."""
        return np.asarray(logsumexp(self._weighted(by_group), axis=0))

    def _weighted(self, by_group: Values) -> Floats:
        # A shift and not a rank: what is far beyond all normal sequences stays far beyond.
        weights = WEIGHTS if "end" in self.groups else WEIGHTS_OF_NUMBERS
        shift = {name: np.log(2 * weights[name]) - np.median(e) for name, e in self.groups.items()}
        return np.stack([e + shift[name] for name, e in by_group.items()])

    def training_scores(self) -> Floats:
        """How normal training sequences are by all views: minus their evidence, (n,)."""
        return -self.of_all(self.groups)

    def score(self, values: Values, final: Floats, taken: Floats) -> Floats:
        """How normal new sequences are, each between those of training that its rank says, (m,).

        `final` are scores of training sequences without what novel symbols take off them, (n,);
        `taken` is what those take off new ones, (m,).
        """
        order = np.argsort(final, kind="stable")
        rough = -self.of_all(joined(of_views(self.views, values)))[:, 0] - taken
        width, at = min(NEAR, len(order)), np.searchsorted(final[order], rough)
        first = np.clip(at - width // 2, 0, len(order) - width)
        near = order[first[:, None] + np.arange(width)]  # (m, width)
        scores = -self.of_all(joined(of_views(self.views, values, near)))
        new, others = scores[:, 0] - taken, scores[:, 1:] + (final - self.training_scores())[near]
        rank = first + (others <= new[:, None]).sum(axis=1)
        bounds = np.concatenate([[-np.inf], final[order], [np.inf]])
        below = np.nextafter(bounds[rank + 1], -np.inf)
        return np.asarray(np.maximum(np.minimum(new, below), bounds[rank]))

    def shares(self, values: Values) -> dict[str, float]:
        """The part of the evidence against one sequence that each view has; their sum is one."""
        by_view = of_views(self.views, values)
        groups = joined(by_view)
        of_group = dict(zip(groups, softmax(self._weighted(groups), axis=0), strict=True))
        found: Values = {}
        for group, members in members_of(by_view).items():
            parts = softmax(_inside(by_view, members), axis=0)
            found |= {n: of_group[group] * part for n, part in zip(members, parts, strict=True)}
        return {name: float(part[0, 0]) for name, part in found.items()}


def learn_evidence(views: Values) -> Evidence:
    """Calibrate views and groups by the values of held-out training sequences."""
    first = {name: value[:1] for name, value in views.items()}
    rest = {name: value[1:] for name, value in views.items()}
    near = np.arange(len(rest["likelihood"]))[None]
    return Evidence(views, {name: e[0] for name, e in joined(of_views(rest, first, near)).items()})


def of_views(views: Values, values: Values, near: Near = None) -> Values:
    """Evidence of each view, by those of normal sequences; see `evidence`."""
    found, names = {}, BOUNDED if "contexts" in views else BOUNDED_OF_NUMBERS
    for name, held in views.items():
        found[name] = evidence(held, values[name], near, name in names)
        if name in TWO_SIDED:
            low = evidence(-held, -values[name], near, name in names)
            found[name] = np.maximum(found[name], low) - np.log(2)
    return found


def members_of(views: Values) -> dict[str, dict[str, float]]:
    """The views of each group, with their weights."""
    named = {name for group in GROUPS.values() for name in group}
    rest = {name: COUNTS.get(name, 1.0) for name in sorted(views) if name not in named}
    found = {group: {n: w for n, w in GROUPS[group].items() if n in views} for group in GROUPS}
    return {group: members for group, members in (found | {"counts": rest}).items() if members}


def joined(by_view: Values) -> Values:
    """The soft maximum of the evidence in each group, not yet calibrated."""
    groups = members_of(by_view).items()
    return {name: np.asarray(logsumexp(_inside(by_view, own), axis=0)) for name, own in groups}


def _inside(by_view: Values, members: dict[str, float]) -> Floats:
    return np.stack([by_view[name] + np.log(weight) for name, weight in members.items()])


def evidence(held: Floats, new: Floats, near: Near = None, bounded: bool = False) -> Floats:
    """-log p of each new value among the held-out ones and itself; equal ones count half, (m, 1).

    With `near`, (m, w), followed by those of some held-out ones with that new value among them,
    (m, 1 + w). Bounded, evidence is at most that of the least p-value.

    Examples
    --------
    >>> evidence(np.arange(99.0), np.array([-1.0, 49.5, 98.5, 150.0]))[:, 0].round(2)
    array([0.01, 0.7 , 2.63, 4.86])
    """
    held, new, n = np.clip(held, -MOST, MOST), np.clip(new, -MOST, MOST), len(held) + 1
    ordered = np.sort(held)
    edges = np.concatenate([[-MOST], ordered, [MOST]])

    def at(j: int) -> Floats:  # the value at place j of all, in order
        return np.clip(new, edges[j], edges[j + 1])

    k = max(min(LEAST_TAIL, int(LARGEST_TAIL * n)), int(TAIL * n))
    start, wide = at(n - k - 1), 0.1 * (at(int(0.84 * n)) - at(n // 2))
    scale = (at(n - (k + 1) // 2) - start) * FALL / (2**FALL - 1)
    scale = np.maximum(np.maximum(scale, wide), LEAST_SCALE)
    values, above = new[:, None], _above(ordered, new)[:, None] + 0.5
    if near is not None:
        gap = new[:, None] - held[near]
        higher = np.heaviside(np.where(np.abs(gap) <= SAME, 0.0, gap), 0.5)
        values = np.hstack([values, held[near]])
        above = np.hstack([above, _above(ordered, held)[near] + higher])
    excess = np.maximum(values - start[:, None] - SAME, 0) / scale[:, None]
    bulk = -np.log((np.maximum(above, k + 0.5) + 0.5) / (n + 1))
    found = bulk + np.log1p(FALL * excess) / FALL
    return np.asarray(np.minimum(found, np.log(n)) if bounded else found)


def _above(held: Floats, new: Floats) -> Floats:
    """How many held-out values, sorted, are above new ones; of equal ones half are."""
    low, high = (np.searchsorted(held, new + by, side) for by, side in SIDES)
    return np.asarray(len(held) - (low + high) / 2)
