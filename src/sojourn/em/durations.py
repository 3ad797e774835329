"""Families of duration distributions, and the table rows that fit expected counts best.

Every family is over the durations 1 ... n_d and is normalised there. Given weights w of durations,
of which N belong to length-biased stays, a fit maximises

    Σ_d w[d] log p(d)  -  N log Σ_d d p(d)

where a stay that reaches its tail counts as n_d and takes, on average, some steps more (`beyond`).

A stay is length-biased where it contains a given step, such as the first step of a sequence: the
longer it is, the likelier that is, so it has duration d with probability d p(d) / E[D].

To add a family, write the logarithm of its weights as a function of one or two unbounded numbers
and the bounds between which they lie:

>>> def log_weights(theta, n_d):                               # zeta: p(d) ∝ d^-exp(theta)
...     return -np.exp(theta[..., :1]) * np.log(np.arange(1, n_d + 1))
>>> zeta = Family("zeta", log_weights, lambda n_d: [(-5.0, 4.0)])
>>> zeta.fit(np.array([4.0, 1.0, 0.25])).round(3)
array([0.772, 0.162, 0.065])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from sojourn.errors import SojournError
from sojourn.exact.params import Params

Floats = NDArray[np.float64]

# Below this a row has seen no data; dividing by it could leave the range of floating point.
NO_COUNTS = 1e-200

# A tail without an end in sight has a mean of a billion steps: its probability stays below one.
LONGEST_TAIL = 1.0 - 1e-9

# The least weight of a duration in a family, so that a zero in a table always is a structural one.
_FLOOR = 1e-100


@dataclass(frozen=True)
class Family:
    """A family of duration distributions with one or two parameters.

    Parameters
    ----------
    name : str
        What `durations=` calls it.
    log_weights : callable
        ``log_weights(theta, n_d)`` for theta of shape (..., k): the logarithm of p(1) ... p(n_d),
        up to a constant, of shape (..., n_d).
    box : callable
        ``box(n_d)``: a lower and an upper bound for each of the k parameters.

    Examples
    --------
    >>> FAMILIES["geometric"].fit(np.array([8.0, 4.0, 2.0, 1.0])).round(3)
    array([0.533, 0.267, 0.133, 0.067])
    """

    name: str
    log_weights: Callable[[Floats, int], Floats]
    box: Callable[[int], Sequence[tuple[float, float]]]

    def fit(
        self, weights: Floats, length_biased: float = 0.0, allowed: NDArray[np.bool_] | None = None
    ) -> Floats:
        """The member of the family that fits the weights of the durations best.

        Parameters
        ----------
        weights : ndarray, shape (n_d,)
            How often each duration happened; some weight is needed.
        length_biased : float
            How much of the weight belongs to length-biased stays, N above.
        allowed : ndarray of bool, shape (n_d,), optional
            Durations that are possible at all; all of them if not given.

        Returns
        -------
        ndarray, shape (n_d,)
            Probabilities.

        Examples
        --------
        >>> FAMILIES["poisson"].fit(np.array([0.0, 5.0, 5.0, 0.0])).round(3)
        array([0.179, 0.33 , 0.304, 0.187])
        """
        possible = np.ones(len(weights), dtype=bool) if allowed is None else allowed
        return self.row(self.best(weights, length_biased, possible), possible)

    def row(self, theta: Floats, allowed: NDArray[np.bool_]) -> Floats:
        """The probabilities of 1 ... n_d at a parameter, zero where not allowed."""
        weights = _relative(self.log_weights(theta, len(allowed)), allowed)
        p = np.maximum(weights, _FLOOR) * allowed
        return np.asarray(p / p.sum())

    def best(
        self,
        weights: Floats,
        length_biased: float,
        allowed: NDArray[np.bool_],
        near: Floats | None = None,
        beyond: float = 0.0,
    ) -> Floats:
        """The parameter that fits the weights best; not worse than ``near``."""
        aim = Aim(weights, length_biased, allowed, beyond)
        theta, log_w = _grid(self, len(weights))
        k = int(np.argmax(aim.value(log_w)))
        theta, log_w, value = theta[k], log_w[k], float(aim.value(log_w[k]))
        if near is not None:
            near_w = self.log_weights(near, len(weights))
            if float(aim.value(near_w)) >= value:
                theta, log_w, value = near, near_w, float(aim.value(near_w))
        return self._newton(aim, theta, log_w, value)

    def slopes(self, theta: Floats, n_d: int) -> Floats:
        """Derivative of the log-weights in each parameter, of shape (k, n_d)."""
        # Central differences leave an error of about 1e-10, so 1e-20 in the maximum reached.
        h = 1e-5 * np.eye(len(theta))
        return (self.log_weights(theta + h, n_d) - self.log_weights(theta - h, n_d)) / 2e-5

    def bends(self, theta: Floats, n_d: int) -> Floats:
        """Second derivatives of the log-weights, of shape (k, k, n_d)."""
        h = 1e-4 * np.eye(len(theta))
        both, apart = h[:, None] + h, h[:, None] - h
        same = self.log_weights(theta + both, n_d) + self.log_weights(theta - both, n_d)
        cross = self.log_weights(theta + apart, n_d) + self.log_weights(theta - apart, n_d)
        return (same - cross) / 4e-8

    def _newton(self, aim: Aim, theta: Floats, log_w: Floats, value: float) -> Floats:
        """Newton's method, damped so that the value never falls."""
        n_d = len(log_w)
        low, high = np.array(self.box(n_d), dtype=np.float64).T
        damping = 1e-6
        for _ in range(200):
            gradient, information = aim.slope(log_w, self.slopes(theta, n_d))
            free = ((theta > low) | (gradient > 0.0)) & ((theta < high) | (gradient < 0.0))
            if not free.any():
                break
            scale = np.sqrt(np.maximum(information.diagonal(), 1e-12 * aim.total))[free]
            bend = (information - self.bends(theta, n_d) @ aim.excess(log_w))[np.ix_(free, free)]
            roots, axes = np.linalg.eigh(bend / np.outer(scale, scale))
            along = axes.T @ (gradient[free] / scale)
            gain = 0.0
            while gain <= 0.0:
                move = np.zeros_like(theta)
                # Where the value is convex, the size of the curvature still gives the length.
                move[free] = axes @ (along / (np.abs(roots) + damping)) / scale
                if gradient @ move <= 1e-13 * abs(value) + 1e-15 * aim.total:
                    return theta  # what is left is rounding
                trial = np.clip(theta + np.clip(move, -3.0, 3.0), low, high)
                trial_w = self.log_weights(trial, n_d)
                gain = float(aim.value(trial_w)) - value
                damping = max(0.1 * damping, 1e-9) if gain > 0.0 else 10.0 * damping
            theta, log_w, value = trial, trial_w, value + gain
        return theta


@dataclass(frozen=True, eq=False)
class Aim:
    """What a fit maximises, as a function of unnormalised log-weights."""

    weights: Floats
    length_biased: float
    allowed: NDArray[np.bool_]
    beyond: float = 0.0  # mean steps after n_d of a stay that reaches its tail

    @property
    def total(self) -> float:
        """All of the weight."""
        return float(self.weights.sum())

    @property
    def plain(self) -> float:
        """The weight of stays that are not length-biased."""
        return max(self.total - self.length_biased, 0.0)

    def value(self, log_w: Floats) -> Floats:
        """What is maximised, for log-weights of shape (..., n_d)."""
        possible = log_w[..., self.allowed]
        top = possible.max(axis=-1)
        p = np.exp(possible - top[..., None])
        value = log_w @ self.weights - self.total * top - self.plain * np.log(p.sum(axis=-1))
        if self.length_biased > 0.0:
            value = value - self.length_biased * np.log(
                p @ steps(len(self.allowed), self.beyond)[self.allowed]
            )
        return np.asarray(value)

    def expected(self, p: Floats) -> tuple[Floats, Floats]:
        """The weights that probabilities p expect: of plain stays, and of length-biased ones."""
        sized = p * steps(len(p), self.beyond)
        return self.plain * p, self.length_biased * sized / sized.sum()

    def excess(self, log_w: Floats) -> Floats:
        """By how much the weights exceed those that unnormalised log-weights expect."""
        p = _relative(log_w, self.allowed)
        return np.asarray(self.weights - sum(self.expected(p / p.sum())))

    def slope(self, log_w: Floats, slopes: Floats) -> tuple[Floats, Floats]:
        """Gradient and expected information in the parameters of a family."""
        p = _relative(log_w, self.allowed)
        plain, sized = self.expected(p / p.sum())
        gradient = slopes @ (self.weights - plain - sized)
        return gradient, _scatter(plain, slopes) + _scatter(sized, slopes)


def _relative(log_w: Floats, allowed: NDArray[np.bool_]) -> Floats:
    """Weights as shares of the largest allowed one; zero where not allowed, however likely."""
    return np.asarray(np.exp(np.minimum(log_w - log_w[allowed].max(), 0.0)) * allowed)


def _scatter(weights: Floats, slopes: Floats) -> Floats:
    """Weighted squares of the slopes about their mean."""
    centred = slopes - (slopes @ weights / max(float(weights.sum()), NO_COUNTS))[:, None]
    return (centred * weights) @ centred.T


def steps(n_d: int, beyond: float = 0.0) -> Floats:
    """The durations 1 ... n_d as numbers; the last one with the mean steps of its tail."""
    d = np.arange(1.0, n_d + 1.0)
    d[-1] += beyond
    return d


@lru_cache(maxsize=64)
def _grid(family: Family, n_d: int) -> tuple[Floats, Floats]:
    """Points all over the box of a family, and its log-weights there."""
    box = family.box(n_d)
    n = 64 if len(box) == 1 else 24
    t = np.linspace(-1.0, 1.0, n)
    t = t * np.sqrt(np.abs(t))  # closer in the middle
    axes = [0.5 * (low + high) + 0.5 * (high - low) * t for low, high in box]
    theta = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=-1)
    return theta, family.log_weights(theta, n_d)


def _geometric(theta: Floats, n_d: int) -> Floats:
    """p(d) ∝ q^(d-1), theta = log(-log q): after every step a stay continues with probability q."""
    return -np.exp(theta[..., :1]) * (steps(n_d) - 1.0)


def _poisson(theta: Floats, n_d: int) -> Floats:
    """D - 1 is Poisson; theta is the logarithm of its mean."""
    k = steps(n_d) - 1.0
    return k * theta[..., :1] - gammaln(k + 1.0)


def _negative_binomial(theta: Floats, n_d: int) -> Floats:
    """D - 1 is negative binomial; theta holds the logarithms of its mean and its size r."""
    k = steps(n_d) - 1.0
    log_m, log_r = theta[..., :1], theta[..., 1:]
    log_q = -np.log1p(np.exp(log_r - log_m))  # q = m / (m + r)
    # Γ(r + k) / Γ(r) as a product: a difference of two large gammaln would be noise for large r.
    rising = np.log(np.exp(log_r) + k[:-1])
    rising = np.concatenate([np.zeros_like(log_m), np.cumsum(rising, axis=-1)], axis=-1)
    return rising - gammaln(k + 1.0) + k * log_q


def _lognormal(theta: Floats, n_d: int) -> Floats:
    """P(d) is proportional to a log-normal density at d.

    With l = log d - log √n_d and b = 1 / σ², log p(d) = (c - 1) l - b l² / 2 up to a constant, and
    c = b (μ - log √n_d). theta holds c / (1 + b), which has a limit both where σ is small, so that
    only μ matters, and where it is large, so that only c does; and log b.
    """
    l = np.log(steps(n_d)) - 0.5 * np.log(n_d)
    b = np.exp(theta[..., 1:])
    return np.asarray((theta[..., :1] * (1.0 + b) - 1.0) * l - 0.5 * b * l**2)


FAMILIES = {
    family.name: family
    for family in (
        Family("geometric", _geometric, lambda n_d: [(-23.0, 4.0)]),
        Family("poisson", _poisson, lambda n_d: [(-18.0, 18.0 + np.log(n_d))]),
        Family(
            "negative_binomial",
            _negative_binomial,
            lambda n_d: [(-18.0, 18.0 + np.log(n_d)), (-5.0, 12.0)],
        ),
        Family("lognormal", _lognormal, lambda n_d: [(-8.0, 8.0), (-14.0, 11.0)]),
    )
}


def families_of(durations: str | Sequence[str], n_states: int) -> tuple[str, ...]:
    """The name of each state's duration family."""
    names = (durations,) * n_states if isinstance(durations, str) else tuple(durations)
    if len(names) != n_states:
        raise SojournError(
            f"durations holds {len(names)} names for {n_states} states; give one name for all "
            f"states, or one for each"
        )
    for name in names:
        if name != "free" and name not in FAMILIES:
            known = ", ".join(repr(n) for n in ("free", *FAMILIES))
            raise SojournError(f"durations is {name!r}; expected one of {known}")
    return names


def fit_free(weights: Floats, length_biased: float = 0.0, beyond: float = 0.0) -> Floats:
    """The probabilities that fit the weights of the durations best, of any form at all.

    With N = length_biased, the maximum is at p(d) = w[d] / (C + ρ d), where C = Σ w - N and ρ makes
    the sum one.
    """
    if length_biased <= 0.0:
        return weights / weights.sum()
    d = steps(len(weights), beyond)
    plain = max(float(weights.sum()) - length_biased, 0.0)
    # Newton goes to the root from below, since the sum is convex and falls: ρ = N / E[D].
    rho = length_biased / d[-1]
    for _ in range(100):
        p = weights / (plain + rho * d)
        move = (p.sum() - 1.0) / (p @ (d / (plain + rho * d)))
        rho += move
        if move <= 1e-15 * rho:
            break
    p = weights / (plain + rho * d)
    return p / p.sum()


def residual(duration: Floats, tail: Floats) -> Floats:
    """p(steps left | state) at a random step of a stay: P(D >= r) / E[D], n_d for n_d or more."""
    survivor = np.cumsum(duration[:, ::-1], axis=1)[:, ::-1].copy()
    survivor[:, -1] /= 1.0 - tail
    return np.asarray(survivor / survivor.sum(axis=1, keepdims=True))


def fit_tail(
    held: float, down: float, length_biased: float, duration: Floats, before: float
) -> float:
    """The probability of being held in the tail that fits best, given the row of durations.

    Of ``held log p + down log(1 - p) - N log E[D]``, where E[D] = k + q / (1 - p) for q = p(n_d)
    and k = Σ d p(d) - q: without length-biased stays (N = 0) the share of what was held, else the
    root of a quadratic equation in u = 1 - p.
    """
    if held + down <= NO_COUNTS:
        return before
    u = down / (held + down)
    if length_biased > 0.0 and duration[-1] > 0.0:
        q = float(duration[-1])
        k = float(duration @ steps(len(duration))) - q
        a, b = k * (held + down), q * (held + down + length_biased) - k * down
        c = q * (down + length_biased)
        root = float(np.sqrt(b * b + 4.0 * a * c))
        u = 2.0 * c / (b + root) if b >= 0.0 else (root - b) / (2.0 * a)
    return min(1.0 - u, LONGEST_TAIL)


def n_parameters(params: Params, durations: str | Sequence[str] = "free") -> int:
    """Number of free parameters: entries above zero, less one per row; of a family, its own."""
    rows = (params.start[None], params.transition, params.emission)
    free = sum(int((row > 0).sum()) - 1 for table in rows for row in table)
    free += 0 if params.density is None else params.density.n_parameters
    for name, row in zip(families_of(durations, params.n_states), params.duration, strict=True):
        parametric = None if name == "free" else FAMILIES[name].box(params.max_duration)
        free += int((row > 0).sum()) - 1 if parametric is None else len(parametric)
    free += int((params.tail > 0).sum())
    if params.end is not None:
        free += int(((params.end > 0) & (params.end < 1)).sum()) + (params.empty > 0)
    return free
