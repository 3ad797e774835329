"""Normal observations, with a covariance for each state or one for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sojourn.checks import check_choice
from sojourn.emissions.base import NO_WEIGHT, Emission, Floats, Names, column_moments
from sojourn.emissions.kernels import log_normal, products
from sojourn.errors import SojournError

# Below this part of the variance of all the data, a variance in a state is rounding.
SINGULAR = 1e-13

COVARIANCES = ("full", "diagonal", "tied")


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Emission):
    """Normal observations: all channels jointly, with a mean and a covariance in each state.

    Parameters
    ----------
    covariance : {"full", "diagonal", "tied"}
        Of each state, without correlations, or one full covariance for all states.
    shrinkage : float
        How many steps the pooled variances count for in each state.
    means : array (n_states, n_channels)
        Set by `start` and by a fit.
    covariances : array (n_states, n_channels, n_channels)
        Set by `start` and by a fit.
    centre, scale : arrays (n_channels,), set by `start`
        Statistics are of ``(x - centre) / scale``, so that no channel needs scaling.

    Examples
    --------
    >>> values = np.array([[0.0], [2.0], [10.0], [14.0]])
    >>> g = Gaussian(shrinkage=0).start(values, np.repeat(np.eye(2), 2, axis=0))
    >>> g.means.ravel(), g.covariances.ravel()
    (array([ 1., 12.]), array([1., 4.]))
    """

    covariance: str = "full"
    means: Floats | None = None
    covariances: Floats | None = None
    centre: Floats | None = None
    scale: Floats | None = None

    parameters: ClassVar[tuple[str, ...]] = ("means", "covariances")
    learned: ClassVar[tuple[str, ...]] = ("centre", "scale")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("covariance", self.covariance, COVARIANCES)
        for name in self.learned:
            self._freeze(name)
        if self.fitted:
            n_x, d = self._parameter("means").shape
            if self._parameter("covariances").shape != (n_x, d, d):
                raise SojournError(
                    f"means have shape {(n_x, d)} and covariances "
                    f"{self._parameter('covariances').shape}; expected {(n_x, d, d)}"
                )
            if self.centre is None or self.scale is None:
                object.__setattr__(self, "centre", self._parameter("means").mean(axis=0))
                variances = np.einsum("xii->i", self._parameter("covariances")) / n_x
                object.__setattr__(self, "scale", np.sqrt(variances))
            if any(self._parameter(name).shape != (d,) for name in self.learned):
                raise SojournError(f"centre and scale of a Gaussian of {d} channels differ in size")
            self._factors()

    @property
    def n_parameters(self) -> int:
        n_x, d = self.n_states, self.n_channels
        each = d if self.covariance == "diagonal" else d * (d + 1) // 2
        return n_x * d + each * (1 if self.covariance == "tied" else n_x)

    def check(self, values: Floats, names: Names) -> None:
        """Raise an error that names a channel that is constant or never observed."""
        for name, column in zip(names, values.T, strict=True):
            seen = column[~np.isnan(column)]
            if seen.size == 0 or np.ptp(seen) == 0.0:
                what = "is never observed" if seen.size == 0 else f"is always {seen[0]:g}"
                raise SojournError(
                    f"channel {name!r} {what}, so it has no variance; leave it out of the values"
                )

    def start(self, values: Floats, weights: Floats) -> Self:
        d, n_x = values.shape[1], weights.shape[1]
        centre, scale = column_moments(values)
        scale = np.where(scale > 0.0, scale, 1.0)
        rough = replace(
            self,
            means=np.tile(centre, (n_x, 1)),
            covariances=np.tile(np.diag(scale**2), (n_x, 1, 1)),
            centre=centre,
            scale=scale,
            prior=_pack(np.ones(1), np.zeros((1, d)), np.eye(d)[None])[0],
        )
        return rough.updated(rough.statistics(values, weights))

    def log_density(self, values: Floats) -> Floats:
        if not _has_missing(values):
            return self._joint(values, np.arange(values.shape[1]))
        total = np.zeros((len(values), self.n_states))
        for rows, seen in _patterns(values):
            if seen.size:
                total[rows] = self._joint(values[np.ix_(rows, seen)], seen)
        return total

    def _joint(self, values: Floats, seen: NDArray[np.intp]) -> Floats:
        """Log p of values of the channels seen, (T, n_states)."""
        means, covariances, scale = self._scaled()
        L = np.asarray(np.linalg.cholesky(covariances[:, seen[:, None], seen]), np.float64)
        constant = -0.5 * len(seen) * np.log(2 * np.pi) - np.log(scale[seen]).sum()
        constants = constant - np.log(np.einsum("xii->xi", L)).sum(axis=1)
        total = np.empty((self.n_states, len(values)))
        at, per = self._parameter("centre")[seen], 1.0 / scale[seen]
        values = np.ascontiguousarray(values)
        log_normal(values, at, per, means[:, seen], np.linalg.inv(L), constants, total)
        return total.T

    def statistics(self, values: Floats, weights: Floats) -> Floats:
        """Expected weight, sums and products of each state; what is missing is expected."""
        (d, n_x), centre = (values.shape[1], weights.shape[1]), self._parameter("centre")
        means, covariances, scale = self._scaled()
        if not _has_missing(values):
            return _products(values, centre, scale, weights)
        total = np.zeros((n_x, 1 + d + d * (d + 1) // 2))
        for rows, seen in _patterns(values):
            if seen.size == d:
                total += _products(values[rows], centre, scale, weights[rows])
            elif seen.size:
                z = (values[rows] - centre) / scale
                for x in range(n_x):
                    filled, spread = _completed(z[:, seen].T, seen, means[x], covariances[x])
                    w = weights[rows, x : x + 1]
                    sums = _products(filled.T, np.zeros(d), np.ones(d), w)
                    sums += w.sum() * _pack(np.zeros(1), np.zeros((1, d)), spread[None])
                    total[x] += sums[0]
        return total

    def updated(self, statistics: Floats) -> Self:
        if self.prior is not None:
            statistics = statistics + self.shrinkage * self.prior
        before, old, scale = self._scaled()
        weight, sums, products = _unpack(statistics, len(scale))
        seen = weight > NO_WEIGHT
        n = np.where(seen, weight, 1.0)[:, None]
        means = np.where(seen[:, None], sums / n, before)
        away = products - n[:, :, None] * means[:, :, None] * means[:, None, :]  # Σ w (z-μ)(z-μ)ᵀ
        if self.covariance == "tied":
            away, n = np.where(seen[:, None, None], away, 0.0).sum(axis=0), n[seen].sum()
            new = np.broadcast_to(away / n, old.shape)
        else:
            new = away / n[:, :, None]
            if self.covariance == "diagonal":
                new = new * np.eye(len(scale))
            new = np.where(seen[:, None, None], new, old)
        symmetric = 0.5 * (new + np.swapaxes(new, 1, 2))  # to the bit
        covariances = symmetric * (scale[:, None] * scale)
        means = self._parameter("centre") + scale * means
        return replace(self, means=means, covariances=covariances)

    def expected(self, statistics: Floats) -> Floats:
        means, covariances, scale = self._scaled()
        weight, sums, products = _unpack(statistics, len(scale))
        cross = sums[:, :, None] * means[:, None, :]
        about = products - cross - np.swapaxes(cross, 1, 2)
        about = about + weight[:, None, None] * means[:, :, None] * means[:, None, :]
        precision = np.linalg.inv(covariances)
        quadratic = np.einsum("xij,xij->x", precision, about)
        return np.asarray(-0.5 * (weight * np.linalg.slogdet(covariances)[1] + quadratic))

    def sample(self, states: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        noise = rng.standard_normal((len(states), self.n_channels))
        return np.asarray(
            self._parameter("means")[states]
            + np.einsum("tij,tj->ti", self._factors()[states], noise)
        )

    def spread(self) -> Floats:
        return np.sqrt(np.einsum("xii->xi", self._parameter("covariances")))

    def cdf(self, points: Floats) -> Floats:
        return np.asarray(ndtr((points[:, None] - self.mean()) / self.spread()))

    def _scaled(self) -> tuple[Floats, Floats, Floats]:
        """Means and covariances of standardised values, and the scale."""
        centre, scale = self._parameter("centre"), self._parameter("scale")
        means = (self._parameter("means") - centre) / scale
        return means, self._parameter("covariances") / (scale[:, None] * scale), scale

    def _factors(self) -> Floats:
        """Cholesky factors of the covariances, (n_states, d, d)."""
        try:
            factors = np.linalg.cholesky(self._parameter("covariances"))
        except np.linalg.LinAlgError:
            factors = np.zeros_like(self._parameter("covariances"))
        pivots = np.einsum("xii->xi", factors) / self._parameter("scale")
        if not (pivots**2 > SINGULAR).all():
            raise SojournError(
                f"a covariance of {self} is singular: a state has too few steps, or channels that "
                f"are functions of each other; pass a larger shrinkage, or covariance='diagonal'"
            )
        return np.asarray(factors, np.float64)


def _has_missing(values: Floats) -> bool:
    return bool(np.isnan(values.sum()) and np.isnan(values).any())


def _products(values: Floats, centre: Floats, scale: Floats, weights: Floats) -> Floats:
    """Weight, sums and products of standardised values, (n_states, 1 + d + d(d+1)/2)."""
    values, weights = np.ascontiguousarray(values), np.ascontiguousarray(weights)
    return np.asarray(products(values, centre, 1.0 / scale, weights))


def _pack(weight: Floats, sums: Floats, products: Floats) -> Floats:
    """Weight (n,), sums (n, d) and products (n, d, d) in one row per state."""
    i, j = np.triu_indices(sums.shape[1])
    return np.column_stack([weight, sums, products[:, i, j]])


def _unpack(statistics: Floats, d: int) -> tuple[Floats, Floats, Floats]:
    """Weight (n,), sums (n, d) and products (n, d, d) of each state."""
    i, j = np.triu_indices(d)
    products = np.empty((len(statistics), d, d))
    products[:, i, j] = products[:, j, i] = statistics[:, 1 + d :]
    return statistics[:, 0], statistics[:, 1 : 1 + d], products


def _patterns(values: Floats) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Steps that have the same channels missing, and the channels that they have."""
    patterns, which = np.unique(~np.isnan(values), axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        yield np.flatnonzero(which == k), np.flatnonzero(pattern)


def _completed(z: Floats, seen: Any, mean: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Expected values of all channels given those seen, (d, T), and their covariance (d, d)."""
    missing = np.setdiff1d(np.arange(len(mean)), seen)
    filled = np.empty((len(mean), z.shape[1]))
    cross = covariance[np.ix_(missing, seen)]
    slope = np.linalg.solve(covariance[np.ix_(seen, seen)], cross.T).T  # Σ_ms Σ_ss⁻¹
    filled[seen] = z
    filled[missing] = mean[missing, None] + slope @ (z - mean[seen, None])
    spread = np.zeros_like(covariance)
    spread[np.ix_(missing, missing)] = covariance[np.ix_(missing, missing)] - slope @ cross.T
    return filled, spread
