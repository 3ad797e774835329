"""Quasi-Newton steps over probability tables, measured as EM measures them.

The gradient of the log-likelihood is that of what the M-step maximises (Fisher's identity), so an
E-step gives it for nothing. A row p of a table is moved as s = √p on the unit sphere: there an
entry may reach zero at finite speed and stay smooth, and the information of N draws from the row is
4N everywhere. Duration families move in their own parameters. The inverse of that information of
the *complete* data, under which a gradient step is an EM step to first order, is the metric from
which limited-memory BFGS learns the curvature of the likelihood proper.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sojourn.em.durations import FAMILIES, Aim
from sojourn.em.mstep import Model, Weights, of_rows

Floats = NDArray[np.float64]

# A step is checked by its likelihood, so these need not be exact: an entry falls to no less than a
# hundredth of what it was, and a parameter of a family, a logarithm, moves by no more than 1.
_LEAST = 0.1
_FARTHEST = 1.0


@dataclass(frozen=True, eq=False)
class Local:
    """A model in coordinates that are free to move, with the gradient and the metric there."""

    at: Floats  # √ of the tables, see `Model.rows`, then theta; end to end
    gradient: Floats
    metric: Floats  # inverse information of the complete data for each √p
    theta_metric: Floats  # and for the parameters of each family              (n_x, 2, 2)

    def scaled(self, slope: Floats) -> Floats:
        """A slope times the inverse information of the complete data."""
        n = len(self.metric)
        last = slope[n:].reshape(-1, 2)
        return np.concatenate(
            [slope[:n] * self.metric, np.einsum("xij,xj->xi", self.theta_metric, last).ravel()]
        )


@dataclass(frozen=True, eq=False)
class Point:
    """A model after its E-step: what the data expect of it, and what is maximised there."""

    model: Model
    weights: Weights
    log_likelihood: float
    objective: float

    @cached_property
    def local(self) -> Local:
        """Computed for accelerated steps only."""
        return local_at(self.model, self.weights)


def local_at(model: Model, weights: Weights) -> Local:
    """Coordinates, gradient and metric at a model whose expected counts are known."""
    params = model.params
    n_x, n_d = params.duration.shape
    expected = np.empty((n_x, n_d))
    theta_gradient, theta_metric = np.zeros((n_x, 2)), np.zeros((n_x, 2, 2))
    for x, name in enumerate(model.families):
        biased, beyond = float(weights.length_biased[x]), float(params.steps_beyond[x])
        aim = Aim(weights.duration[x], biased, params.duration[x] > 0.0, beyond)
        plain, sized = aim.expected(params.duration[x])
        expected[x] = plain + sized
        if name != "free":
            family = FAMILIES[name]
            low, high = np.array(family.box(n_d)).T
            theta = model.theta[x, : len(low)]
            log_w, slopes_w = family.log_weights(theta, n_d), family.slopes(theta, n_d)
            slope, information = aim.slope(log_w, slopes_w)
            ridge = np.diag(1e-3 * information.diagonal() + 1.0)
            free = ((theta > low) | (slope > 0.0)) & ((theta < high) | (slope < 0.0))
            theta_gradient[x, : len(low)] = slope * free
            theta_metric[x, : len(low), : len(low)] = np.linalg.inv(information + ridge)
            expected[x] = weights.duration[x]  # the row follows theta and has no slope of its own
    roots, slopes, metrics = [], [], []
    tables = model.rows
    wanted: list[Floats | None] = [None] * len(tables)
    wanted[2], wanted[4] = expected, _expected_tails(model, weights)
    for p, w, e in zip(tables, weights.tables, wanted, strict=True):
        total = w.sum(axis=1, keepdims=True)
        root = np.sqrt(p)
        excess = w - (total * p if e is None else e)
        slopes.append(np.divide(2.0 * excess, root, out=np.zeros_like(p), where=p > 0.0))
        metrics.append(np.broadcast_to(0.25 / (total + 1.0), p.shape))
        roots.append(root)
    return Local(
        at=_flat([*roots, model.theta]),
        gradient=_flat([*slopes, theta_gradient]),
        metric=_flat(metrics),
        theta_metric=theta_metric,
    )


def moved(model: Model, step: Floats) -> Model:
    """The model a step away; what is zero stays zero."""
    params, tables = model.params, model.rows
    bounds = np.cumsum([table.size for table in tables])
    *parts, last = np.split(step, bounds)
    moved_to = [
        _on_sphere(table, part.reshape(table.shape))
        for table, part in zip(tables, parts, strict=True)
    ]
    theta = model.theta + np.clip(last.reshape(-1, 2), -_FARTHEST, _FARTHEST)
    for x, name in enumerate(model.families):
        if name != "free":
            family = FAMILIES[name]
            low, high = np.array(family.box(params.max_duration)).T
            theta[x, : len(low)] = np.clip(theta[x, : len(low)], low, high)
            moved_to[2][x] = family.row(theta[x, : len(low)], params.duration[x] > 0.0)
    return Model(of_rows(moved_to, params), theta, model.families)


def _expected_tails(model: Model, weights: Weights) -> Floats:
    """The weights of tails that a model expects; a longer tail makes length-biased stays rarer."""
    params, total = model.params, weights.tail.sum(axis=1, keepdims=True)
    pull = params.duration[:, -1] * params.steps_beyond / params.mean_durations
    pull = weights.length_biased * pull
    return total * model.rows[4] + np.stack([pull, -pull], axis=1)


# Numbers in the steps that are remembered, and the fewest steps: large models remember fewer.
MAX_MEMORY, LEAST_MEMORY = 1 << 22, 5


class Curvature:
    """The curvature met on the last steps, and how far to trust it."""

    def __init__(self, memory: int = 100) -> None:
        self.pairs: deque[tuple[Floats, Floats]] = deque(maxlen=memory)
        self.radius = np.inf
        self.promise = 0.0  # what the last step advised would gain if nothing held it back

    def next_step(
        self, here: Point, there: Point, step: Floats | None, enough: float
    ) -> Floats | None:
        """The step to try after one from `here` to `there`; None for an EM step."""
        gain = there.objective - here.objective
        if step is not None:
            self.judge(here.local, step, gain)
        if step is None or gain > -np.inf:
            self.learn(here.local, there.local)
        if step is not None and not gain > 0.0:
            return None
        following = self.advise((there if gain >= 0.0 else here).local)
        return None if step is not None and gain < enough else following

    def learn(self, a: Local, b: Local) -> None:
        """Remember the step from a to b, if the likelihood curves down along it."""
        step, fall = b.at - a.at, a.gradient - b.gradient
        # Very short steps are rounding. Where the data want what is all but impossible, slopes
        # leave the range of their squares.
        plain = _dot(step, step) > 1e-24 and np.abs(fall).max() < 1e100
        if plain and _dot(step, fall) > 1e-10 * _dot(step, step):
            self.pairs.append((step, fall))
        while len(self.pairs) > LEAST_MEMORY and len(self.pairs) * step.size > MAX_MEMORY:
            self.pairs.popleft()

    def advise(self, here: Local) -> Floats | None:
        """The step that the curvature advises; None where it promises no gain."""
        self.promise = 0.0
        if not self.pairs or not np.abs(here.gradient).max() < 1e100:
            return None
        step, fall = self.pairs[-1]
        # Missing information makes the likelihood flatter than the metric, never steeper.
        reach = max(1.0, _dot(step, fall) / _dot(fall, here.scaled(fall)))
        slope, shares = here.gradient.copy(), []
        for step, fall in reversed(self.pairs):
            shares.append(_dot(step, slope) / _dot(step, fall))
            slope -= shares[-1] * fall
        way = reach * here.scaled(slope)
        for (step, fall), share in zip(self.pairs, reversed(shares), strict=True):
            way += (share - _dot(fall, way) / _dot(step, fall)) * step
        self.promise = 0.5 * float(_dot(way, here.gradient))
        if not self.promise > 0.0:
            return None
        return way * min(1.0, self.radius / math.sqrt(_dot(way, way)))

    def judge(self, here: Local, step: Floats, gain: float) -> None:
        """Widen the trust after a step that gained, narrow it after one that did not."""
        length = math.sqrt(_dot(step, step))
        if gain > 0.0:
            if length >= 0.99 * self.radius:
                self.radius *= 3.0
        else:
            # A parabola through both values and the slope has its top at this share of the step.
            rise = float(_dot(step, here.gradient))
            self.radius = length * min(max(rise / (2.0 * (rise - gain) + 1e-300), 0.05), 0.5)


def _on_sphere(table: Floats, step: Floats) -> Floats:
    root = np.sqrt(table)
    p = np.maximum(root + step * (root > 0.0), _LEAST * root) ** 2
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _flat(arrays: list[Floats]) -> Floats:
    return np.concatenate([a.ravel() for a in arrays])


def _dot(a: Floats, b: Floats) -> np.float64:
    """The product of two vectors, in pieces that BLAS computes by one thread: it is small work."""
    if a.size <= 8192:
        return np.float64(a @ b)
    pieces = [a[i : i + 8192] @ b[i : i + 8192] for i in range(0, a.size, 8192)]
    return np.float64(np.sum(pieces))
