"""What every emission can do, and the families with one distribution per state and channel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import LARGEST
from sojourn.errors import SojournError

Floats = NDArray[np.float64]
Names = Sequence[str]

# A state with less weight than this keeps its parameters.
NO_WEIGHT = 1e-10


# The least values of parameters by name; a density is finite with these.
_LEAST = dict.fromkeys(("scales", "scale", "shapes", "sizes", "dofs"), 1e-100)
_LEAST |= {"rates": 0.0, "probabilities": 0.0}


@dataclass(frozen=True, eq=False)
class Emission(ABC):
    """A distribution of observations in each state.

    Parameters
    ----------
    shrinkage : float
        How many steps the average of all the data counts for in each state. It keeps states regular
        that have few steps or equal values; 0 is maximum likelihood.
    prior : array (n_statistics,), set by `start`
        The average step that `shrinkage` multiplies, as statistics.

    Examples
    --------
    Every emission is used in the same way:

    >>> import numpy as np
    >>> from sojourn.emissions import Gaussian
    >>> fast = Gaussian().start(np.array([[1.0], [3.0]]), np.eye(2))
    >>> fast.means.round(2)
    array([[1.],
           [3.]])
    """

    shrinkage: float = 1e-3
    prior: Floats | None = None

    #: Parameters: one array each, states along the first axis.
    parameters: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        shrinkage = self.shrinkage
        number = isinstance(shrinkage, int | float) and not isinstance(shrinkage, bool)
        if not (number and 0.0 <= shrinkage < math.inf):
            raise SojournError(f"shrinkage is {shrinkage!r}; expected a number of at least 0")
        for name in ("prior", *self.parameters):
            self._freeze(name)

    def _freeze(self, name: str) -> None:
        value = getattr(self, name)
        if value is not None:
            array = np.array(value, dtype=np.float64)
            if not (np.abs(array) <= (1.0 + 1e-9 if name == "probabilities" else LARGEST)).all():
                raise SojournError(f"{name} of {self} has values that are not finite, or huge")
            least = _LEAST.get(name, -LARGEST)
            if array.size and array.min() < least:
                raise SojournError(
                    f"a {name.removesuffix('s')} of {type(self).__name__} is {array.min():g}: a "
                    f"state has equal values only; pass a larger shrinkage"
                )
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __repr__(self) -> str:
        options = ", ".join(f"{k}={v!r}" for k, v in self.options().items())
        return f"{type(self).__name__}({options})"

    def options(self) -> dict[str, Any]:
        """Those arguments that are not the default, parameters excepted."""
        own = ("prior", *self.parameters, *self.learned)
        given = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        return {k: v for k, (v, default) in given.items() if k not in own and v != default}

    #: Other arrays that `start` learns.
    learned: ClassVar[tuple[str, ...]] = ()

    @property
    def fitted(self) -> bool:
        """Whether it has parameters."""
        return all(getattr(self, name) is not None for name in self.parameters)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self._parameter(self.parameters[0]))

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return int(self._parameter(self.parameters[0]).shape[1])

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of free parameters, of all states together."""

    @property
    def n_statistics(self) -> int:
        """Number of statistics per state."""
        nothing = np.empty((0, self.n_channels)), np.empty((0, self.n_states))
        return int(self.statistics(*nothing).shape[1])

    @abstractmethod
    def check(self, values: Floats, names: Names) -> None:
        """Raise an error that names the channel if these cannot be observations of this kind."""

    @abstractmethod
    def start(self, values: Floats, weights: Floats) -> Self:
        """Parameters from steps (T, n_channels), each in state x with weight (T, n_states)."""

    @abstractmethod
    def log_density(self, values: Floats) -> Floats:
        """Log p(values at t | state), (T, n_states); 0 where all channels are missing."""

    @abstractmethod
    def statistics(self, values: Floats, weights: Floats) -> Floats:
        """Expected sufficient statistics of weighted steps, (n_states, n_statistics); they add."""

    @abstractmethod
    def updated(self, statistics: Floats) -> Self:
        """The M-step: parameters at which statistics plus the prior are most likely."""

    @abstractmethod
    def expected(self, statistics: Floats) -> Floats:
        """Expected log-likelihood of statistics, up to a constant, per state: (n_states,)."""

    def log_prior(self) -> float:
        """What `shrinkage` adds to the log-likelihood that the M-step maximises."""
        if self.prior is None or self.shrinkage == 0.0:
            return 0.0
        return self.shrinkage * float(self.expected(np.tile(self.prior, (self.n_states, 1))).sum())

    @abstractmethod
    def sample(self, states: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        """One observation for each state of a path, (T, n_channels)."""

    def mean(self) -> Floats:
        """Mean of each channel in each state, (n_states, n_channels): often the first parameter."""
        return self._parameter(self.parameters[0])

    @abstractmethod
    def spread(self) -> Floats:
        """Standard deviation of each channel in each state, (n_states, n_channels)."""

    @abstractmethod
    def cdf(self, points: Floats) -> Floats:
        """P(channel <= point | state) for points (m, n_channels): (m, n_states, n_channels)."""

    def sentence(self, state: int, names: Names) -> str:
        """What is observed in a state, in words."""
        pairs = zip(names, self.mean()[state], self.spread()[state], strict=True)
        return ", ".join(f"{name} {mean:.4g} ± {spread:.2g}" for name, mean, spread in pairs)

    def arrays(self) -> dict[str, Floats]:
        """The parameters, by name."""
        return {name: self._parameter(name) for name in self.parameters}

    def permuted(self, order: NDArray[np.integer]) -> Self:
        """The same with its states in another order."""
        return replace(self, **{name: self._parameter(name)[order] for name in self.parameters})

    def _parameter(self, name: str) -> Floats:
        value: Floats | None = getattr(self, name)
        if value is None:
            raise SojournError(f"{self} has no parameters yet; fit a model with it, or call start")
        return value


@dataclass(frozen=True, eq=False, repr=False)
class Separate(Emission):
    """Channels that are independent given the state, one distribution of a family for each.

    A family has `n_features` statistics per channel, the first of which is the weight of the steps
    where it is observed, and often the second the sum of its values. A subclass has the formulas
    of one channel, in arrays with the states first: `_features`, `_log_density`, `_maximum`.
    """

    n_features: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        shapes = {np.shape(getattr(self, name)) for name in self.parameters if self.fitted}
        if len(shapes) > 1:
            raise SojournError(f"the parameters of {self} have different shapes, {shapes}")

    @property
    def n_parameters(self) -> int:
        return len(self.parameters) * self.n_states * self.n_channels

    def check(self, values: Floats, names: Names) -> None:
        for name, column in zip(names, values.T, strict=True):
            self._check(column[~np.isnan(column)], name)

    def start(self, values: Floats, weights: Floats) -> Self:
        rough = self._rough(values)  # one state
        pooled = rough.statistics(values, np.ones((len(values), 1))).reshape(-1, self.n_features)
        average = pooled / np.maximum(pooled[:, :1], NO_WEIGHT)  # of a step that is observed
        every = replace(rough.permuted(np.zeros(weights.shape[1], int)), prior=average.reshape(-1))
        return every.updated(every.statistics(values, weights))

    def log_density(self, values: Floats) -> Floats:
        total = np.zeros((self.n_states, len(values)))
        for j, column in enumerate(values.T):
            seen = ~np.isnan(column)
            if seen.all():
                total += self._log_density(j, column)
            elif seen.any():
                total[:, seen] += self._log_density(j, column[seen])
        return total.T

    def statistics(self, values: Floats, weights: Floats) -> Floats:
        out = np.empty((weights.shape[1], values.shape[1], self.n_features))
        for j, column in enumerate(values.T):
            seen = ~np.isnan(column)
            if seen.all():
                out[:, j] = self._features(j, column, weights)
            else:
                out[:, j] = self._features(j, column[seen], weights[seen])
        return out.reshape(len(out), -1)

    def updated(self, statistics: Floats) -> Self:
        tables = statistics.reshape(self.n_states, -1, self.n_features)  # (n_states, d, features)
        if self.prior is not None:
            tables = tables + self.shrinkage * self.prior.reshape(-1, self.n_features)
        seen = tables[..., 0] > NO_WEIGHT  # (n_states, d)
        safe = np.where(seen[..., None], tables, 1.0)
        found: dict[str, Any] = {
            name: np.where(seen, new, self._parameter(name))
            for name, new in zip(self.parameters, self._maximum(safe), strict=True)
        }
        return replace(self, **found)

    def expected(self, statistics: Floats) -> Floats:
        tables = statistics.reshape(self.n_states, -1, self.n_features)
        return np.asarray(self._expected(tables).sum(axis=1))

    @abstractmethod
    def _check(self, column: Floats, name: str) -> None:
        """Raise an error if the observed values of a channel are not of this kind."""

    @abstractmethod
    def _rough(self, values: Floats) -> Self:
        """Parameters of one state that all the data are from."""

    @abstractmethod
    def _log_density(self, j: int, column: Floats) -> Floats:
        """Log p of observed values of channel j, (n_states, T)."""

    def _features(self, j: int, column: Floats, weights: Floats) -> Floats:
        """Weighted sums of the statistics of channel j, (n_states, n_features): of 1 and values."""
        return np.stack([weights.sum(axis=0), np.einsum("t,tx->x", column, weights)], axis=1)

    @abstractmethod
    def _expected(self, tables: Floats) -> Floats:
        """Expected log-likelihood of statistics (n_states, d, n_features), (n_states, d)."""

    @abstractmethod
    def _maximum(self, tables: Floats) -> tuple[Floats, ...]:
        """Parameters from statistics (n_states, d, n_features), in the order of `parameters`."""


def column_moments(values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each channel, over the steps where it is observed."""
    seen = ~np.isnan(values)
    n = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, values, 0.0).sum(axis=0) / n
    variance = (np.where(seen, values - mean, 0.0) ** 2).sum(axis=0) / n
    return mean, np.sqrt(variance)


def require(valid: Any, name: str, wanted: str, column: Floats) -> None:
    """Raise an error that shows the first value of a channel that is not valid."""
    at = np.flatnonzero(~valid)
    if at.size:
        raise SojournError(
            f"channel {name!r} has the value {column[at[0]]:g}; {wanted}, or missing (NaN)"
        )
