"""Measurements in and out of `HSMM`: which emission they have, and forecasts of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.data.measurements import counted
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.em.numbers import STEPS_FOR_STARTS
from sojourn.emissions import Categorical, Channels, Emission, Gaussian
from sojourn.emissions.mixed import quantile
from sojourn.errors import SojournError
from sojourn.scale.passes import Partition, Partitions, Pass

Floats = NDArray[np.float64]

LEVELS = (0.05, 0.5, 0.95)
FEW = 20  # different whole numbers that may be codes
MANY = 1000  # steps that show where there are more
PARTITIONS_FOR_STARTS = 8


def numbers_of(data: Sequences | Partitions, emissions: Any = None) -> Signals | None:
    """Measurements to choose an emission and starts by: all, or some partitions of a scan."""
    if isinstance(data, Sequences):
        return data if isinstance(data, Signals) else None
    if not data.items or not data.items[0].layout.values:
        return None
    parts: list[Sequences] = []
    places = np.unique(np.linspace(0, len(data.items) - 1, PARTITIONS_FOR_STARTS).astype(int))
    for place in places[np.argsort(places % 2, kind="stable")]:
        parts.append(data.items[place].read())
        if sum(part.n_total for part in parts) >= 2 * STEPS_FOR_STARTS:
            break
    wanted = emissions.parts if isinstance(emissions, Channels) else {}
    coded = tuple(name for name, part in wanted.items() if isinstance(part, Categorical))
    assert isinstance(parts[0], Signals)
    if not (coded or parts[0].categories):
        return Signals.concatenate(parts)
    return Signals.concatenate(parts, data.run(_Symbols(coded)))  # of all partitions


@dataclass(frozen=True)
class _Symbols(Pass[dict[str, NDArray[Any]]]):
    """The symbols that channels hold: those of strings, and others that are wanted."""

    wanted: tuple[str, ...]

    def empty(self) -> dict[str, NDArray[Any]]:
        return {}

    def add(self, total: Any, sequences: Sequences, partition: Partition) -> Any:
        assert isinstance(sequences, Signals)
        found = dict(sequences.categories)
        for name in set(self.wanted) & set(sequences.channels) - set(found):
            column = sequences.values[:, sequences.channels.index(name)]
            Categorical().check(column[:, None], [name])
            found[name] = np.unique(column[~np.isnan(column)]).astype(np.int64)
        return self.join(total, found)

    def join(self, a: Any, b: Any) -> Any:
        return a | {name: np.union1d(a.get(name, known), known) for name, known in b.items()}


def in_channels(
    data: Partitions, emission: Emission, names: Sequence[str], unknown: str = "error"
) -> Partitions:
    """Partitions that are read with these columns, in this order, in the emission's symbols."""
    items = tuple(in_columns(item, names) for item in data.items)
    own = partial(signals_for, emission, tuple(names), unknown)
    return replace(data, items=items).through(own, data.vocabulary)


def in_columns(source: Any, names: Sequence[str]) -> Any:
    """A scan or partition that is read with these columns, in this order."""
    layout = replace(source.layout, values=tuple(names), symbol=names[0])
    return replace(source, layout=layout)


def emission_for(emissions: Emission | None, signals: Signals) -> tuple[Emission, Signals]:
    """The emission that is to be learned, and the channels that it is of, in its order."""
    if emissions is None:
        emissions = Gaussian()
        each = "Categorical() for codes, Poisson() for counts, Gaussian() for measurements"
        warn_of_codes(signals, f"pass emissions=, with Channels for several: {each}")
        if signals.categories:
            words = signals.categories
            kinds = (Categorical() if name in words else Gaussian() for name in signals.channels)
            emissions = Channels(dict(zip(signals.channels, kinds, strict=True)))
    if not isinstance(emissions, Emission):
        raise SojournError(
            f"emissions is {emissions!r}; expected an emission such as sojourn.emissions.Gaussian()"
        )
    if isinstance(emissions, Categorical) and len(signals.channels) == 1:
        emissions = Channels({signals.channels[0]: emissions})
    if isinstance(emissions, Channels):
        signals = _named(signals, emissions.names)
        signals = signals.taking(emissions.names, _categories(emissions, signals))
        parts = {
            key: replace(part, categories=signals.categories[key])
            if isinstance(part, Categorical)
            else part
            for key, part in emissions.parts.items()
        }
        emissions = Channels(parts)
    elif signals.categories:
        name = next(iter(signals.categories))
        raise SojournError(
            f"channel {name!r} holds symbols, which {emissions} does not observe; use Channels, "
            f"with Categorical() for it"
        )
    emissions.check(signals.values, signals.channels)
    return emissions, signals


def warn_of_codes(signals: Signals, remedy: str) -> None:
    """Warn of channels that are taken as measurements, and may be codes."""
    for name, column in zip(signals.channels, signals.values.T, strict=True):
        if name in signals.categories or len(np.unique(column[:MANY])) > 2 * FEW:
            continue
        seen = np.unique(column[~np.isnan(column)])
        if 1 < len(seen) <= FEW and (seen == np.rint(seen)).all():
            shown = ", ".join(f"{value:g}" for value in seen[:3]) + ", …" * (len(seen) > 3)
            warnings.warn(
                f"channel {name!r} holds {len(seen)} whole numbers ({shown}), which are taken as "
                f"measurements, normal in each state; {remedy}",
                stacklevel=4,
            )


def signals_for(density: Emission, names: Sequence[str], unknown: str, signals: Signals) -> Signals:
    """Measurements in the channels of a fitted model, in their order."""
    n = len(signals.channels)
    # Only Channels, which name those that they observe, leave out others of a plain array.
    if n > len(names) and not isinstance(density, Channels) and _unnamed(signals):
        raise SojournError(f"X has {counted(n)}, and the model observes {counted(len(names))}")
    signals = _named(signals, names)
    known = _categories(density, signals) if isinstance(density, Channels) else {}
    return signals.taking(names, known, unknown)


def signals_of(
    density: Emission, names: Sequence[str], values: Floats, offsets: NDArray[np.int64]
) -> Signals:
    """Values that were drawn from a model, as signals."""
    parts = density.parts if isinstance(density, Channels) else {}
    known: dict[str, Any] = {
        key: part.categories for key, part in parts.items() if isinstance(part, Categorical)
    }
    return Signals.of(values, offsets, np.arange(len(offsets) - 1), names, known)


def _named(signals: Signals, names: Sequence[str]) -> Signals:
    """The signals; those from plain arrays, whose channels have no names, get these."""
    if _unnamed(signals) and len(signals.channels) == len(names):
        return replace(signals, channels=tuple(names))
    absent = [name for name in names if name not in signals.channels]
    if absent:
        raise SojournError(
            f"there is no channel {absent[0]!r}, which the model observes; there are "
            f"{', '.join(map(repr, signals.channels))}"
        )
    return signals


def _unnamed(signals: Signals) -> bool:
    return signals.channels == tuple(f"channel {j}" for j in range(len(signals.channels)))


def _categories(emission: Channels, signals: Signals) -> dict[str, NDArray[Any]]:
    """What the channels of symbols hold: as in training, or what is in the data."""
    known = {}
    for key, part in emission.parts.items():
        if isinstance(part, Categorical) and isinstance(key, str):
            column = signals.values[:, signals.channels.index(key)]
            found = signals.categories.get(key)
            if part.categories is not None:
                found = part.categories
            elif found is None:
                part.check(column[:, None], [key])
                found = np.unique(column[~np.isnan(column)]).astype(np.int64)
            known[key] = found
    return known


class NextValues(NamedTuple):
    """What is expected some steps ahead of each sequence.

    Attributes
    ----------
    mean : array (n, n_channels)
        NaN for symbols.
    quantiles : array (n, n_levels, n_channels)
    levels : tuple of float
        Of the quantiles.
    channels : tuple of str
    states : array (n, n_states)
        Probability of each state then.
    ended : array (n,)
        Probability that the sequence has ended by then.

    Examples
    --------
    >>> from sojourn import HSMM
    >>> model = HSMM(2, 3, random_state=0).fit([np.tile([0.0, 0.1, 5.0], 20)] * 4)
    >>> model.predict_next([np.array([0.0, 0.1])]).mean.round(1)
    array([[5.]])
    """

    mean: Floats
    quantiles: Floats
    levels: tuple[float, ...]
    channels: tuple[str, ...]
    states: Floats
    ended: Floats


def next_values(density: Emission, p: Floats, channels: tuple[str, ...]) -> NextValues:
    """Means and quantiles of values in states of these probabilities.

    A last column of p, where there is one more than states, is that the sequence has ended.
    """
    states, ended = p[:, : density.n_states], p[:, density.n_states :].sum(axis=1)
    shares = states / np.maximum(states.sum(axis=1, keepdims=True), 1e-300)
    quantiles = [quantile(density, shares, level) for level in LEVELS]
    mean = shares @ density.mean()
    return NextValues(mean, np.stack(quantiles, axis=1), LEVELS, channels, states, ended)
