"""Counts: 0, 1, 2 and so on per step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, digamma, gammaln, pdtr, xlogy

from sojourn.emissions.base import Floats, Separate, column_moments, require
from sojourn.emissions.roots import bisected

# Sizes of a negative binomial are kept within these: beyond, it is a Poisson.
SIZES = (1e-3, 1e5)


class _Counts(Separate):
    def _check(self, column: Floats, name: str) -> None:
        valid = (column >= 0.0) & (column == np.floor(column))
        require(valid, name, f"{type(self).__name__} observes whole numbers of 0 and more", column)


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(_Counts):
    """Counts of events that come independently, at a rate of each state and channel.

    Parameters
    ----------
    shrinkage : float
        How many steps the average of all the data counts for in each state.
    rates : array (n_states, n_channels)
        Events per step; set by `start` and by a fit.

    Examples
    --------
    >>> values = np.array([[0.0], [2.0], [7.0], [9.0]])
    >>> Poisson(shrinkage=0).start(values, np.repeat(np.eye(2), 2, axis=0)).rates.ravel()
    array([1., 8.])
    """

    rates: Floats | None = None

    parameters: ClassVar[tuple[str, ...]] = ("rates",)

    def _rough(self, values: Floats) -> Self:
        return replace(self, rates=column_moments(values)[0][None])

    def _log_density(self, j: int, column: Floats) -> Floats:
        rate = self._parameter("rates")[:, j, None]
        return np.asarray(xlogy(column, rate) - rate - gammaln(column + 1))

    def _expected(self, tables: Floats) -> Floats:
        rate = self._parameter("rates")
        return np.asarray(xlogy(tables[..., 1], rate) - tables[..., 0] * rate)

    def _maximum(self, tables: Floats) -> tuple[Floats, ...]:
        return (tables[..., 1] / tables[..., 0],)

    def sample(self, states: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        return rng.poisson(self._parameter("rates")[states]).astype(np.float64)

    def spread(self) -> Floats:
        return np.sqrt(self._parameter("rates"))

    def cdf(self, points: Floats) -> Floats:
        at = np.floor(points[:, None])
        return np.where(at < 0, 0.0, pdtr(np.maximum(at, 0.0), self._parameter("rates")))


@dataclass(frozen=True, eq=False, repr=False)
class NegativeBinomial(_Counts):
    """Counts that vary more than a Poisson's: variance mean + mean²/size.

    Parameters
    ----------
    shrinkage : float
        How many steps the average of all the data counts for in each state.
    rates, sizes : arrays (n_states, n_channels)
        Mean per step, and size; set by `start` and by a fit.

    Notes
    -----
    A count is a sum of a hidden Poisson number l of clusters; the statistics expect l given the
    count, ``E[l | x] = r (ψ(x + r) - ψ(r))``. One EM step of these is an M-step here.

    Examples
    --------
    >>> values = np.array([[0.0], [0.0], [9.0], [1.0], [14.0], [0.0]])
    >>> found = NegativeBinomial(shrinkage=0).start(values, np.ones((6, 1)))
    >>> found.rates.round(6), bool(found.sizes[0, 0] < 1)
    (array([[4.]]), True)
    """

    rates: Floats | None = None
    sizes: Floats | None = None

    parameters: ClassVar[tuple[str, ...]] = ("rates", "sizes")
    n_features: ClassVar[int] = 3

    def _rough(self, values: Floats) -> Self:
        mean, spread = column_moments(values)
        more = np.maximum(spread**2 - mean, 1e-3 * np.maximum(mean, 1e-6))
        return replace(self, rates=mean[None], sizes=np.clip(mean**2 / more, *SIZES)[None])

    def _log_density(self, j: int, column: Floats) -> Floats:
        m, r = (self._parameter(name)[:, j, None] for name in self.parameters)
        binomial = gammaln(column + r) - gammaln(r) - gammaln(column + 1)
        return np.asarray(binomial + xlogy(column, m / (m + r)) - r * np.log1p(m / r))

    def _features(self, j: int, column: Floats, weights: Floats) -> Floats:
        r = self._parameter("sizes")[:, j, None]
        clusters = r * (digamma(column + r) - digamma(r))  # E[l | x]   (n_states, T)
        sums = np.einsum("xt,tx->x", clusters, weights)
        return np.column_stack([super()._features(j, column, weights), sums])

    def _expected(self, tables: Floats) -> Floats:
        n, x, clusters = np.moveaxis(tables, -1, 0)
        m, r = self._parameter("rates"), self._parameter("sizes")
        return np.asarray(xlogy(clusters, r) + xlogy(x, m / (m + r)) - n * r * np.log1p(m / r))

    def _maximum(self, tables: Floats) -> tuple[Floats, ...]:
        n, x, clusters = np.moveaxis(tables, -1, 0)
        m, share = x / n, clusters / n

        def slope(r: Floats) -> Floats:  # at the best mean, Σx / n
            return np.asarray(share / r - np.log1p(m / r))

        return m, bisected(slope, *SIZES, n.shape)

    def sample(self, states: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        m, r = self._parameter("rates")[states], self._parameter("sizes")[states]
        return rng.poisson(rng.gamma(r, m / r)).astype(np.float64)

    def spread(self) -> Floats:
        m = self._parameter("rates")
        return np.sqrt(m + m**2 / self._parameter("sizes"))

    def cdf(self, points: Floats) -> Floats:
        m, r = self._parameter("rates"), self._parameter("sizes")
        at = np.floor(points[:, None])
        return np.where(at < 0, 0.0, betainc(r, np.maximum(at, 0.0) + 1.0, r / (m + r)))
