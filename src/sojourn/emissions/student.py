"""Student's t: like normal observations, but some of them far out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, stdtr

from sojourn.emissions.base import Floats, Separate, column_moments
from sojourn.emissions.roots import bisected
from sojourn.errors import SojournError

# Degrees of freedom are kept within these: below 1 there is no mean, above 200 it is a normal.
DOF = (1.0, 200.0)
ROUGH_DOF = 5.0


@dataclass(frozen=True, eq=False, repr=False)
class StudentT(Separate):
    """Student's t in each channel, independent given the state: robust against outliers.

    Parameters
    ----------
    shrinkage : float
        How many steps the average of all the data counts for in each state.
    locations, scales, dofs : arrays (n_states, n_channels)
        Set by `start` and by a fit; degrees of freedom lie between 1 and 200.

    Notes
    -----
    A t is a normal whose precision is multiplied by a hidden u, gamma-distributed; the statistics
    expect u and log u given the value. One EM step of these is an M-step here.

    Examples
    --------
    >>> values = np.array([[0.0], [1.0], [2.0], [50.0]])
    >>> t = StudentT().start(values, np.ones((4, 1)))
    >>> float(t.locations[0, 0].round(1)), float(values.mean())
    (9.9, 13.25)
    """

    locations: Floats | None = None
    scales: Floats | None = None
    dofs: Floats | None = None
    centre: Floats | None = None

    parameters: ClassVar[tuple[str, ...]] = ("locations", "scales", "dofs")
    learned: ClassVar[tuple[str, ...]] = ("centre",)
    n_features: ClassVar[int] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fitted and self.centre is None:
            object.__setattr__(self, "centre", self._parameter("locations").mean(axis=0))
        self._freeze("centre")
        if self.fitted and self._parameter("centre").shape != (self.n_channels,):
            raise SojournError(
                f"centre of a StudentT of {self.n_channels} channels differs in size"
            )

    def _check(self, column: Floats, name: str) -> None:
        if column.size == 0 or np.ptp(column) == 0.0:
            what = "is never observed" if column.size == 0 else f"is always {column[0]:g}"
            raise SojournError(
                f"channel {name!r} {what}, so it has no scale; leave it out of the values"
            )

    def _rough(self, values: Floats) -> Self:
        mean, spread = column_moments(values)
        scale = np.where(spread > 0.0, spread, 1.0)
        dofs = np.full((1, len(mean)), ROUGH_DOF)
        return replace(self, locations=mean[None], scales=scale[None], dofs=dofs, centre=mean)

    def _away(self, j: int, column: Floats) -> tuple[Floats, Floats]:
        """Squared distances from the locations in scales, (n_states, T), and the dofs."""
        at, scale, dof = (self._parameter(n)[:, j, None] for n in self.parameters)
        return ((column - at) / scale) ** 2, dof

    def _log_density(self, j: int, column: Floats) -> Floats:
        away, dof = self._away(j, column)
        scale = self._parameter("scales")[:, j, None]
        constant = gammaln((dof + 1) / 2) - gammaln(dof / 2) - 0.5 * np.log(np.pi * dof)
        return np.asarray(constant - np.log(scale) - (dof + 1) / 2 * np.log1p(away / dof))

    def _features(self, j: int, column: Floats, weights: Floats) -> Floats:
        away, dof = self._away(j, column)
        u = (dof + 1) / (dof + away)  # E[u | x]
        log_u = digamma((dof + 1) / 2) - np.log((dof + away) / 2)  # E[log u | x]
        z = column - self._parameter("centre")[j]
        w = weights.T
        rows = (w, w * u, w * u * z, w * u * z * z, w * (log_u - u))
        return np.stack([row.sum(axis=1) for row in rows], axis=1)

    def _expected(self, tables: Floats) -> Floats:
        n, u, uz, uzz, logs = np.moveaxis(tables, -1, 0)
        at, scale, dof = (self._parameter(name) for name in self.parameters)
        z = at - self._parameter("centre")
        normal = -n * np.log(scale) - 0.5 * (uzz - 2 * z * uz + z * z * u) / scale**2
        return np.asarray(
            normal + n * (0.5 * dof * np.log(dof / 2) - gammaln(dof / 2)) + dof / 2 * logs
        )

    def _maximum(self, tables: Floats) -> tuple[Floats, ...]:
        n, u, uz, uzz, logs = np.moveaxis(tables, -1, 0)
        z = uz / u
        scale = np.sqrt(np.maximum(uzz - z * uz, 0.0) / n)

        def slope(dof: Floats) -> Floats:  # of the expected log-likelihood, per step
            return np.asarray(np.log(dof / 2) + 1 - digamma(dof / 2) + logs / n)

        return self._parameter("centre") + z, scale, bisected(slope, *DOF, n.shape)

    def sample(self, states: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        at, scale, dof = (self._parameter(name)[states] for name in self.parameters)
        return np.asarray(at + scale * rng.standard_t(dof))

    def spread(self) -> Floats:
        """Standard deviation where there is one, else the scale."""
        scale, dof = self._parameter("scales"), self._parameter("dofs")
        return np.where(dof > 2, scale * np.sqrt(dof / np.maximum(dof - 2, 1e-3)), scale)

    def cdf(self, points: Floats) -> Floats:
        at, scale, dof = (self._parameter(name) for name in self.parameters)
        return np.asarray(stdtr(dof, (points[:, None] - at) / scale))
