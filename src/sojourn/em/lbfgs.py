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
from sojourn.em.mstep import Model, Weights

Floats = NDArray[np.float64]

# A step is checked by its likelihood, so these need not be exact: an entry falls to no less than a
# hundredth of what it was, and a parameter of a family, a logarithm, moves by no more than 1.
_LEAST = 0.1
_FARTHEST = 1.0


@dataclass(frozen=True, eq=False)
class Local:
    """A model in coordinates that are free to move, with the gradient and the metric there."""

    at: Floats  # √ of the tables, see `Model.flat`, then theta
    gradient: Floats
    metric: Floats  # inverse information of the complete data for each √p
    theta_metric: Floats | None  # and for those of families, if there are any  (n_x, 2, 2)

    def scaled(self, slope: Floats) -> Floats:
        """A slope times the inverse information of the complete data."""
        n, found = len(self.metric), np.zeros_like(slope)
        found[:n] = slope[:n] * self.metric
        if self.theta_metric is not None:
            last = slope[n:].reshape(-1, 2)
            found[n:] = np.einsum("xij,xj->xi", self.theta_metric, last).ravel()
        return found


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
    p, total = model.flat, model.layout.sums(weights.flat)
    expected, theta_gradient, theta_metric = total * p, np.zeros_like(model.theta), None
    if not model.all_free or weights.length_biased.any():
        theta_metric = np.zeros((*model.theta.shape, 2))
        _expect_durations(model, weights, expected, theta_gradient, theta_metric)
    root = np.sqrt(p)
    slope = np.divide(2.0 * (weights.flat - expected), root, out=np.zeros_like(p), where=p > 0.0)
    return Local(
        at=np.concatenate([root, model.theta.ravel()]),
        gradient=np.concatenate([slope, theta_gradient.ravel()]),
        metric=0.25 / (total + 1.0),
        theta_metric=theta_metric,
    )


def _expect_durations(
    model: Model, weights: Weights, expected: Floats, gradient: Floats, metric: Floats
) -> None:
    """What a model expects of its durations and tails, with length-biased stays and families."""
    params, n_d = model.params, model.params.max_duration
    durations, tails = (model.layout.tables(expected)[i] for i in (2, 4))
    weighed = model.layout.tables(weights.flat)[2]
    for x, name in enumerate(model.families):
        biased, beyond = float(weights.length_biased[x]), float(params.steps_beyond[x])
        aim = Aim(weighed[x], biased, params.duration[x] > 0.0, beyond)
        if name == "free":
            plain, sized = aim.expected(params.duration[x])
            durations[x] = plain + sized
            continue
        family = FAMILIES[name]
        low, high = np.array(family.box(n_d)).T
        theta = model.theta[x, : len(low)]
        log_w, slopes_w = family.log_weights(theta, n_d), family.slopes(theta, n_d)
        slope, information = aim.slope(log_w, slopes_w)
        ridge = np.diag(1e-3 * information.diagonal() + 1.0)
        free = ((theta > low) | (slope > 0.0)) & ((theta < high) | (slope < 0.0))
        gradient[x, : len(low)] = slope * free
        metric[x, : len(low), : len(low)] = np.linalg.inv(information + ridge)
        durations[x] = weighed[x]  # the row follows theta and has no slope of its own
    # A longer tail makes length-biased stays rarer.
    pull = params.duration[:, -1] * params.steps_beyond / params.mean_durations
    pull = weights.length_biased * pull
    tails += np.stack([pull, -pull], axis=1)


def moved(model: Model, step: Floats) -> Model:
    """The model a step away; what is zero stays zero."""
    root, theta = np.sqrt(model.flat), model.theta
    part, last = step[: root.size], step[root.size :].reshape(theta.shape)
    p = np.maximum(root + part * (root > 0.0), _LEAST * root) ** 2
    p /= model.layout.sums(p)
    if not model.all_free:
        theta, n_d = theta + np.clip(last, -_FARTHEST, _FARTHEST), model.params.max_duration
        for x, name in enumerate(model.families):
            if name != "free":
                low, high = np.array(FAMILIES[name].box(n_d)).T
                row, possible = theta[x, : len(low)], model.params.duration[x] > 0.0
                row[:] = np.clip(row, low, high)
                model.layout.tables(p)[2][x] = FAMILIES[name].row(row, possible)
    return model.moved_to(p, theta)


# Numbers in the steps that are remembered, and the fewest steps: large models remember fewer.
MAX_MEMORY, LEAST_MEMORY = 1 << 22, 5


class Curvature:
    """The curvature met on the last steps, and how far to trust it."""

    def __init__(self, memory: int = 100) -> None:
        # A step, by how much the gradient fell along it, and the product of both.
        self.pairs: deque[tuple[Floats, Floats, np.float64]] = deque(maxlen=memory)
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
        squared, bend = dot(step, step), dot(step, fall)
        if squared > 1e-24 and np.abs(fall).max() < 1e100 and bend > 1e-10 * squared:
            self.pairs.append((step, fall, bend))
        while len(self.pairs) > LEAST_MEMORY and len(self.pairs) * step.size > MAX_MEMORY:
            self.pairs.popleft()

    def advise(self, here: Local) -> Floats | None:
        """The step that the curvature advises; None where it promises no gain."""
        self.promise = 0.0
        if not self.pairs or not np.abs(here.gradient).max() < 1e100:
            return None
        _, fall, bend = self.pairs[-1]
        # Missing information makes the likelihood flatter than the metric, never steeper.
        reach = max(1.0, bend / dot(fall, here.scaled(fall)))
        slope, shares = here.gradient.copy(), []
        for step, fall, bend in reversed(self.pairs):
            shares.append(dot(step, slope) / bend)
            slope -= shares[-1] * fall
        way = reach * here.scaled(slope)
        for (step, fall, bend), share in zip(self.pairs, reversed(shares), strict=True):
            way += (share - dot(fall, way) / bend) * step
        self.promise = 0.5 * float(dot(way, here.gradient))
        if not self.promise > 0.0:
            return None
        return way * min(1.0, self.radius / math.sqrt(dot(way, way)))

    def judge(self, here: Local, step: Floats, gain: float) -> None:
        """Widen the trust after a step that gained, narrow it after one that did not."""
        length = math.sqrt(dot(step, step))
        if gain > 0.0:
            if length >= 0.99 * self.radius:
                self.radius *= 3.0
        else:
            # A parabola through both values and the slope has its top at this share of the step.
            rise = float(dot(step, here.gradient))
            self.radius = length * min(max(rise / (2.0 * (rise - gain) + 1e-300), 0.05), 0.5)


def dot(a: Floats, b: Floats) -> np.float64:
    """The product of two vectors, in pieces that BLAS computes by one thread: it is small work."""
    if a.size <= 8192:
        return np.float64(a @ b)
    pieces = [a[i : i + 8192] @ b[i : i + 8192] for i in range(0, a.size, 8192)]
    return np.float64(np.sum(pieces))
