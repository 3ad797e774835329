"""Positive numbers: waiting times, amounts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammainc, gammaln

from sojourn.emissions.base import Floats, Separate, column_moments, require
from sojourn.emissions.roots import bisected

SHAPES = (1e-3, 1e6)


@dataclass(frozen=True, eq=False, repr=False)
class Exponential(Separate):
    """Numbers of 0 and more with an exponential density in each state and channel.

    Parameters
    ----------
    shrinkage : float
        How many steps the average of all the data counts for in each state.
    scales : array (n_states, n_channels)
        Means; set by `start` and by a fit.

    Examples
    --------
    >>> values = np.array([[1.0], [3.0], [10.0], [30.0]])
    >>> Exponential(shrinkage=0).start(values, np.repeat(np.eye(2), 2, axis=0)).scales.ravel()
    array([ 2., 20.])
    """

    scales: Floats | None = None

    parameters: ClassVar[tuple[str, ...]] = ("scales",)

    def _check(self, column: Floats, name: str) -> None:
        require(column >= 0.0, name, "Exponential observes numbers of 0 and more", column)
        wanted = "Exponential needs one value above 0"
        require(np.full(column.shape, (column > 0.0).any()), name, wanted, column)

    def _rough(self, values: Floats) -> Self:
        return replace(self, scales=column_moments(values)[0][None])

    def _log_density(self, j: int, column: Floats) -> Floats:
        scale = self._parameter("scales")[:, j, None]
        return np.asarray(-np.log(scale) - column / scale)

    def _expected(self, tables: Floats) -> Floats:
        scale = self._parameter("scales")
        return np.asarray(-tables[..., 0] * np.log(scale) - tables[..., 1] / scale)

    def _maximum(self, tables: Floats) -> tuple[Floats, ...]:
        return (np.maximum(tables[..., 1] / tables[..., 0], np.finfo(float).tiny),)

    def sample(self, states: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        return rng.exponential(self._parameter("scales")[states])

    def spread(self) -> Floats:
        return self._parameter("scales")

    def cdf(self, points: Floats) -> Floats:
        return -np.expm1(-np.maximum(points[:, None], 0.0) / self._parameter("scales"))


@dataclass(frozen=True, eq=False, repr=False)
class Gamma(Separate):
    """Numbers above 0 with a gamma density in each state and channel.

    Parameters
    ----------
    shrinkage : float
        How many steps the average of all the data counts for in each state.
    shapes, scales : arrays (n_states, n_channels)
        The mean is their product; set by `start` and by a fit.

    Examples
    --------
    >>> values = np.random.default_rng(0).gamma(4.0, 0.5, size=(10_000, 1))
    >>> found = Gamma().start(values, np.ones((10_000, 1)))
    >>> found.shapes.round(1), found.scales.round(1)
    (array([[4.]]), array([[0.5]]))
    """

    shapes: Floats | None = None
    scales: Floats | None = None

    parameters: ClassVar[tuple[str, ...]] = ("shapes", "scales")
    n_features: ClassVar[int] = 3

    def _check(self, column: Floats, name: str) -> None:
        require(column > 0.0, name, "Gamma observes numbers above 0", column)

    def _rough(self, values: Floats) -> Self:
        mean = column_moments(values)[0]
        return replace(self, shapes=np.ones((1, len(mean))), scales=mean[None])

    def _log_density(self, j: int, column: Floats) -> Floats:
        shape, scale = (self._parameter(name)[:, j, None] for name in self.parameters)
        constant = -gammaln(shape) - shape * np.log(scale)
        return np.asarray(constant + (shape - 1) * np.log(column) - column / scale)

    def _features(self, j: int, column: Floats, weights: Floats) -> Floats:
        logs = np.einsum("t,tx->x", np.log(column), weights)
        return np.column_stack([super()._features(j, column, weights), logs])

    def _expected(self, tables: Floats) -> Floats:
        n, x, log_x = np.moveaxis(tables, -1, 0)
        shape, scale = self._parameter("shapes"), self._parameter("scales")
        constant = -gammaln(shape) - shape * np.log(scale)
        return np.asarray(n * constant + (shape - 1) * log_x - x / scale)

    def _maximum(self, tables: Floats) -> tuple[Floats, ...]:
        n, x, log_x = np.moveaxis(tables, -1, 0)
        mean = x / n
        gap = log_x / n - np.log(mean)  # below 0 unless all values are equal

        def slope(shape: Floats) -> Floats:  # at the best scale, mean / shape
            return np.asarray(np.log(shape) - digamma(shape) + gap)

        shape = bisected(slope, *SHAPES, n.shape)
        return shape, mean / shape

    def sample(self, states: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        return rng.gamma(self._parameter("shapes")[states], self._parameter("scales")[states])

    def mean(self) -> Floats:
        return np.asarray(self._parameter("shapes") * self._parameter("scales"))

    def spread(self) -> Floats:
        return np.asarray(np.sqrt(self._parameter("shapes")) * self._parameter("scales"))

    def cdf(self, points: Floats) -> Floats:
        shape, scale = self._parameter("shapes"), self._parameter("scales")
        return np.asarray(gammainc(shape, np.maximum(points[:, None], 0.0) / scale))
