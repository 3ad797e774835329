"""Several channels, each with its own kind of emission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sojourn.emissions.base import Emission, Floats, Names
from sojourn.errors import SojournError

Key = str | tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Channels(Emission):
    """Channels that are independent given the state, each with an emission of its own.

    Parameters
    ----------
    parts : mapping from channel to Emission
        A tuple of names has a joint emission: ``{("x", "y"): Gaussian(), "alarm": Bernoulli()}``.

    Examples
    --------
    >>> from sojourn.emissions import Bernoulli, Gaussian
    >>> both = Channels({"speed": Gaussian(), "alarm": Bernoulli()})
    >>> both.names
    ('speed', 'alarm')
    >>> values = np.array([[1.0, 0], [3.0, 0], [9.0, 1], [9.5, 1]])
    >>> both.start(values, np.repeat(np.eye(2), 2, axis=0)).sentence(1, both.names)
    'speed 9.248 ± 0.28, alarm in 100% of steps'
    """

    # `parts` comes first for the caller; the fields of `Emission` are those of the parts.
    parts: Any = None

    parameters: ClassVar[tuple[str, ...]] = ()

    def __init__(self, parts: Mapping[Key, Emission]) -> None:
        if not isinstance(parts, Mapping) or not parts:
            raise SojournError(
                f"Channels are {parts!r}; expected a mapping from names of channels to emissions, "
                f"such as {{'speed': Gaussian(), 'alarm': Bernoulli()}}"
            )
        for key, part in parts.items():
            names = key if isinstance(key, tuple) else (key,)
            if not names or not all(isinstance(name, str) for name in names):
                raise SojournError(f"the channel {key!r} is not a name or a tuple of names")
            if not isinstance(part, Emission) or isinstance(part, Channels):
                raise SojournError(
                    f"channel {key!r} has {part!r}; expected an emission, such as Gaussian()"
                )
        object.__setattr__(self, "parts", dict(parts))
        object.__setattr__(self, "shrinkage", 0.0)
        object.__setattr__(self, "prior", None)
        if len(set(self.names)) < len(self.names):
            raise SojournError(f"a channel is named twice: {', '.join(self.names)}")

    def __repr__(self) -> str:
        return f"Channels({self.parts!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the channels, in the order of their columns."""
        keys = (key if isinstance(key, tuple) else (key,) for key in self.parts)
        return tuple(name for names in keys for name in names)

    @property
    def fitted(self) -> bool:
        """Whether all parts have parameters."""
        return all(part.fitted for part in self.parts.values())

    @property
    def n_states(self) -> int:
        return int(next(iter(self.parts.values())).n_states)

    @property
    def n_channels(self) -> int:
        return len(self.names)

    @property
    def n_parameters(self) -> int:
        return sum(part.n_parameters for part in self.parts.values())

    def _columns(self) -> list[slice]:
        """Where each part has its columns."""
        widths = [len(key) if isinstance(key, tuple) else 1 for key in self.parts]
        ends = np.cumsum(widths)
        return [slice(int(end - n), int(end)) for n, end in zip(widths, ends, strict=True)]

    def _split(self, table: Any) -> list[tuple[Key, Emission, Any]]:
        """Each part and its columns of a table (T, n_channels), or of names."""
        columns = [
            table[..., at] if hasattr(table, "shape") else table[at] for at in self._columns()
        ]
        return [(*item, own) for item, own in zip(self.parts.items(), columns, strict=True)]

    def check(self, values: Floats, names: Names) -> None:
        """Raise an error that names the channel if these cannot be its observations."""
        for (_, part, own), at in zip(self._split(values), self._columns(), strict=True):
            part.check(own, tuple(names)[at])

    def start(self, values: Floats, weights: Floats) -> Self:
        return self._with({k: part.start(own, weights) for k, part, own in self._split(values)})

    def log_density(self, values: Floats) -> Floats:
        return np.asarray(sum(part.log_density(own) for _, part, own in self._split(values)))

    def statistics(self, values: Floats, weights: Floats) -> Floats:
        """Expected sufficient statistics of the parts, side by side."""
        return np.hstack([part.statistics(own, weights) for _, part, own in self._split(values)])

    def updated(self, statistics: Floats) -> Self:
        """The M-step of each part."""
        parts = self._own(statistics)
        return self._with({key: part.updated(own) for key, part, own in parts})

    def expected(self, statistics: Floats) -> Floats:
        return np.asarray(sum(part.expected(own) for _, part, own in self._own(statistics)))

    def log_prior(self) -> float:
        """What the shrinkage of the parts adds to the log-likelihood."""
        return sum(part.log_prior() for part in self.parts.values())

    def sample(self, states: NDArray[np.integer], rng: np.random.Generator) -> Floats:
        return np.hstack([part.sample(states, rng) for part in self.parts.values()])

    def mean(self) -> Floats:
        return np.hstack([part.mean() for part in self.parts.values()])

    def spread(self) -> Floats:
        return np.hstack([part.spread() for part in self.parts.values()])

    def cdf(self, points: Floats) -> Floats:
        return np.concatenate([part.cdf(own) for _, part, own in self._split(points)], axis=2)

    def sentence(self, state: int, names: Names) -> str:
        return ", ".join(part.sentence(state, own) for _, part, own in self._split(tuple(names)))

    def arrays(self) -> dict[str, Floats]:
        """The parameters, by ``channel.name``."""
        return {
            f"{'+'.join(key) if isinstance(key, tuple) else key}.{name}": array
            for key, part in self.parts.items()
            for name, array in part.arrays().items()
        }

    def permuted(self, order: NDArray[np.integer]) -> Self:
        return self._with({key: part.permuted(order) for key, part in self.parts.items()})

    def _own(self, statistics: Floats) -> list[tuple[Key, Emission, Floats]]:
        """Each part and its columns of the statistics."""
        widths = [part.n_statistics for part in self.parts.values()]
        tables = np.split(statistics, np.cumsum(widths)[:-1], axis=1)
        return [(*item, own) for item, own in zip(self.parts.items(), tables, strict=True)]

    def _with(self, parts: dict[Key, Emission]) -> Self:
        return type(self)(parts)
