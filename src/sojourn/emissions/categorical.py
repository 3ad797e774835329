"""Symbols: yes or no, or one of several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from sojourn.emissions.base import (
    NO_WEIGHT,
    Emission,
    Floats,
    Names,
    Separate,
    column_moments,
    require,
)
from sojourn.errors import SojournError

MOST_LIKELY = 3  # how many symbols a sentence names


@dataclass(frozen=True, eq=False, repr=False)
class Bernoulli(Separate):
    """0 or 1 in each channel, independent given the state.

    Parameters
    ----------
    shrinkage : float
        How many steps the average of all the data counts for in each state.
    probabilities : array (n_states, n_channels)
        Of a 1; set by `start` and by a fit.

    Examples
    --------
    >>> values = np.array([[0.0], [1.0], [1.0], [1.0]])
    >>> b = Bernoulli(shrinkage=0).start(values, np.repeat(np.eye(2), 2, axis=0))
    >>> b.probabilities.ravel()
    array([0.5, 1. ])
    """

    probabilities: Floats | None = None

    parameters: ClassVar[tuple[str, ...]] = ("probabilities",)

    def _check(self, column: Floats, name: str) -> None:
        require((column == 0.0) | (column == 1.0), name, "Bernoulli observes 0 and 1", column)

    def _rough(self, values: Floats) -> Self:
        return replace(self, probabilities=column_moments(values)[0][None])

    def _log_density(self, j: int, column: Floats) -> Floats:
        p = self._parameter("probabilities")[:, j, None]
        with np.errstate(divide="ignore"):
            return np.where(column > 0.0, np.log(p), np.log1p(-p))

    def _expected(self, tables: Floats) -> Floats:
        p, n, ones = self._parameter("probabilities"), tables[..., 0], tables[..., 1]
        return np.asarray(xlogy(ones, p) + xlogy(n - ones, 1.0 - p))

    def _maximum(self, tables: Floats) -> tuple[Floats, ...]:
        return (np.clip(tables[..., 1] / tables[..., 0], 0.0, 1.0),)

    def sample(self, states: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        p = self._parameter("probabilities")[states]
        return (rng.random(p.shape) < p).astype(np.float64)

    def spread(self) -> Floats:
        p = self._parameter("probabilities")
        return np.sqrt(p * (1.0 - p))

    def cdf(self, points: Floats) -> Floats:
        at, p = points[:, None], self._parameter("probabilities")
        return np.where(at < 0.0, 0.0, np.where(at < 1.0, 1.0 - p, 1.0))

    def sentence(self, state: int, names: Names) -> str:
        pairs = zip(names, self.mean()[state], strict=True)
        return ", ".join(f"{name} in {p:.0%} of steps" for name, p in pairs)


@dataclass(frozen=True, eq=False, repr=False)
class Categorical(Emission):
    """One of several symbols, in a single channel of codes 0, 1, ….

    Parameters
    ----------
    shrinkage : float
        How many steps the average of all the data counts for in each state.
    categories : array (n_symbols,)
        The symbols that the codes stand for; set by a fit.
    probabilities : array (n_states, n_symbols)
        Set by `start` and by a fit.

    Examples
    --------
    >>> values = np.array([[0.0], [1.0], [2.0], [2.0]])
    >>> c = Categorical(shrinkage=0).start(values, np.repeat(np.eye(2), 2, axis=0))
    >>> c.probabilities
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """

    categories: NDArray[Any] | None = None
    probabilities: Floats | None = None

    parameters: ClassVar[tuple[str, ...]] = ("probabilities",)
    learned: ClassVar[tuple[str, ...]] = ("categories",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.categories is not None:
            object.__setattr__(self, "categories", np.asarray(self.categories))
            if self.fitted and len(self.categories) != self._parameter("probabilities").shape[1]:
                raise SojournError(
                    f"there are {len(self.categories)} categories for probabilities of shape "
                    f"{self._parameter('probabilities').shape}; expected one column for each"
                )

    @property
    def n_channels(self) -> int:
        """One."""
        return 1

    @property
    def n_parameters(self) -> int:
        """Entries above zero, less one per state."""
        return int((self._parameter("probabilities") > 0.0).sum()) - self.n_states

    def check(self, values: Floats, names: Names) -> None:
        """Raise an error that names the channel if these cannot be codes of symbols."""
        if values.shape[1] != 1:
            raise SojournError(
                f"Categorical is for one channel, but there are {values.shape[1]}: "
                f"{', '.join(names)}; use Channels with one Categorical() for each"
            )
        column = values[~np.isnan(values)]
        most = np.inf if self.categories is None else len(self.categories) - 1
        valid = (column >= 0.0) & (column == np.floor(column)) & (column <= most)
        require(valid, names[0], "Categorical observes symbols, or whole numbers as codes", column)

    def start(self, values: Floats, weights: Floats) -> Self:
        if np.isnan(values).all():
            raise SojournError("a channel of symbols is never observed; leave it out of the values")
        n_o = int(np.nanmax(values)) + 1 if self.categories is None else len(self.categories)
        flat = np.full((weights.shape[1], n_o), 1.0 / n_o)
        rough = replace(self, probabilities=flat, prior=np.full(n_o, 1.0 / n_o))
        pooled = 1.0 + rough.statistics(values, np.ones(weights.shape)).mean(axis=0)
        rough = replace(rough, prior=pooled / pooled.sum())
        return rough.updated(rough.statistics(values, weights))

    def log_density(self, values: Floats) -> Floats:
        """Log p(values at t | state), (T, n_states); 0 where it is missing."""
        with np.errstate(divide="ignore"):
            logs = np.log(self._parameter("probabilities")).T
        rows = np.vstack([logs, np.zeros(self.n_states)])  # the last row is for missing
        return rows[np.where(np.isnan(values[:, 0]), -1.0, values[:, 0]).astype(np.int64)]

    def statistics(self, values: Floats, weights: Floats) -> Floats:
        """Expected number of each symbol, (n_states, n_symbols)."""
        n_o = self._parameter("probabilities").shape[1]
        seen = ~np.isnan(values[:, 0])
        codes = values[seen, 0].astype(np.int64)
        counts = [np.bincount(codes, w, minlength=n_o) for w in weights[seen].T]
        return np.array(counts, np.float64).reshape(weights.shape[1], n_o)

    def updated(self, statistics: Floats) -> Self:
        if self.prior is not None:
            statistics = statistics + self.shrinkage * self.prior
        sums = statistics.sum(axis=1, keepdims=True)
        seen = sums > NO_WEIGHT
        rows = statistics / np.where(seen, sums, 1.0)
        return replace(self, probabilities=np.where(seen, rows, self._parameter("probabilities")))

    def expected(self, statistics: Floats) -> Floats:
        """Expected log-likelihood of statistics, per state: (n_states,)."""
        return np.asarray(xlogy(statistics, self._parameter("probabilities")).sum(axis=1))

    def sample(self, states: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        """One code for each state of a path, (T, 1)."""
        sums = np.cumsum(self._parameter("probabilities"), axis=1)
        u = rng.random(len(states)) * sums[states, -1]
        return (u[:, None] >= sums[states]).sum(axis=1, keepdims=True).astype(np.float64)

    def mean(self) -> Floats:
        """NaN: symbols have no mean."""
        return np.full((self.n_states, 1), np.nan)

    def spread(self) -> Floats:
        """NaN: symbols have no spread."""
        return np.full((self.n_states, 1), np.nan)

    def cdf(self, points: Floats) -> Floats:
        """P(code <= point | state) for points (m, 1): (m, n_states, 1)."""
        sums = np.cumsum(self._parameter("probabilities"), axis=1)
        last = sums.shape[1] - 1
        at = np.floor(points[:, 0])
        return np.where(at < 0, 0.0, sums[:, np.clip(at, 0, last).astype(int)]).T[:, :, None]

    def sentence(self, state: int, names: Names) -> str:
        row = self._parameter("probabilities")[state]
        best = np.argsort(-row, kind="stable")[:MOST_LIKELY]
        symbols = best if self.categories is None else self.categories[best]
        shares = [f"{s} {p:.0%}" for s, p in zip(symbols, row[best], strict=True) if p >= 0.01]
        return f"{names[0]}: {', '.join(shares)}"
