"""Numbers for a model of symbols: cells of values are its symbols, with a density in each cell.

The density of a step given all before it is p(code | codes before) · p(values | code): a code says
in which cell the values lie, and the values of a cell are normal, cut off at its borders. What is
exact: the probabilities of codes sum to one, and cells cover all values without overlap. The mass
of each normal in its own cell, by which its density is divided, is exact for one channel; for
several it is counted on `DRAWS` draws, to about half a percent. What is not modelled: where in the
cell earlier values lay, and steps where some channels are missing, which count as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sojourn.checks import check_arrays, seed_of
from sojourn.data.as_signals import as_signals, is_numbers
from sojourn.data.discretize import Discretizer
from sojourn.data.runs import sums
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.emissions.gaussian import Gaussian
from sojourn.errors import SojournError
from sojourn.estimators.base import Floats, Scorer
from sojourn.estimators.numbers import in_channels, in_columns, signals_for, warn_of_codes
from sojourn.estimators.predictive import PredictiveModel
from sojourn.exact.hitting import Hits
from sojourn.io.sources import Scan
from sojourn.scale.passes import Partitions

# Numbers of codes that are compared on held-out pieces, and steps that each code needs.
N_CODES = (4, 8, 16, 32, 64)
STEPS_PER_CODE = 30
# What sizes are compared on: so many steps at most, in so many pieces, every fifth held out.
STEPS_TO_CHOOSE, PIECES, HELD_OUT = 1 << 16, 50, 5
DRAWS = 1 << 14
ROUNDS = 200  # of draws for values that lie in their cells
LEAST_MASS = 1e-3


@dataclass(frozen=True, eq=False, repr=False)
class Coded(Sequences):
    """Sequences of codes."""


@dataclass(frozen=True, eq=False)
class Codebook:
    """Cells of values, and a normal density in each."""

    cells: Discretizer  # the nearest centre
    density: Gaussian  # one "state" per code
    mass: Floats  # what each normal has in its own cell  (n_codes,)

    def __post_init__(self) -> None:
        right = isinstance(self.cells, Discretizer) and isinstance(self.density, Gaussian)
        right = right and hasattr(self.cells, "centres_") and self.density.fitted
        if not right:
            raise SojournError("a codebook is cells with centres, and a Gaussian")
        check_arrays(self.cells, centres_="float64 k d", scale_="float64+ d")
        check_arrays(self, mass="float64+ k")
        n, d = self.cells.centres_.shape
        right = (self.density.n_states, self.density.n_channels, len(self.mass)) == (n, d, n)
        right = right and self.mass.min() >= LEAST_MASS and self.mass.max() <= 1.0
        if not right or not self.cells.scale_.min() > 1e-100:
            raise SojournError("the cells, densities and masses of a codebook do not fit together")

    @classmethod
    def learn(cls, values: Floats, n_codes: int, seed: int) -> Codebook:
        """A codebook of values without missing ones."""
        with threadpool_limits(1):  # several threads would add in any order
            cells = Discretizer(n_codes, "kmeans", random_state=seed).fit(values)
        weights = np.eye(n_codes)[cells.transform(values).data]
        density = Gaussian(shrinkage=1.0).start(values, weights)
        return cls(cells, density, _masses(cells, density))

    def read(self, data: Sequences | Partitions, channels: tuple[str, ...]) -> Any:
        """The codes of measurements, or of the partitions of a scan when they are read."""
        if isinstance(data, Partitions):
            items = tuple(in_columns(item, channels) for item in data.items)
            return replace(data, items=items).through(self.coded, np.arange(len(self.mass)))
        return self.coded(data) if isinstance(data, Signals) else data

    def coded(self, signals: Signals) -> Coded:
        """The codes of all steps."""
        found = self.cells.transform(signals.values)
        codes = np.where(np.ma.getmaskarray(found), -1, found.data).astype(np.int32)
        place = (signals.offsets, np.arange(len(self.mass)), signals.ids)
        return Coded(codes, *place, times=signals.times, clock=signals.clock)

    def inside(self, signals: Signals, codes: NDArray[np.int32]) -> Floats:
        """Log p(values | code) of each step, 0 where it is missing."""
        found, seen = np.zeros(len(codes)), codes >= 0
        logs = self.density.log_density(signals.values[seen])
        own = codes[seen]
        found[seen] = logs[np.arange(len(own)), own] - np.log(self.mass[own])
        return found

    def draw(self, codes: NDArray[np.int32], rng: np.random.Generator) -> Floats:
        """Values in the cells of these codes; in rare cases the centre of a cell."""
        values, left = self.cells.centres_[codes], np.arange(len(codes))
        for _ in range(ROUNDS):
            drawn = self.density.sample(codes[left], rng)
            hit = self.cells.transform(drawn).data == codes[left] if len(left) else []
            values[left[hit]] = drawn[hit]
            left = left[~np.asarray(hit, bool)]
            if len(left) == 0:
                break
        return values


def _masses(cells: Discretizer, density: Gaussian) -> Floats:
    """What each normal has in its own cell."""
    n, d = cells.centres_.shape
    if d == 1:  # the borders are half way between centres
        borders = (cells.centres_[1:] + cells.centres_[:-1]) / 2
        below = np.zeros((n + 1, n))
        below[1:-1], below[-1] = density.cdf(borders)[:, :, 0], 1.0
        mass = np.diff(below, axis=0).diagonal()
    else:
        rng = np.random.default_rng(0)
        drawn = [density.sample(np.full(DRAWS, k), rng) for k in range(n)]
        mass = np.array([np.mean(cells.transform(x).data == k) for k, x in enumerate(drawn)])
    return np.clip(mass, LEAST_MASS, 1.0)


class CodedModel(PredictiveModel):
    """A model of symbols that takes numbers, too, by a codebook."""

    codebook_: Codebook | None = None
    channels_: tuple[str, ...] = ()

    def _fit_numbers(self, data: Sequences | Partitions, signals: Signals) -> Self:
        """Choose the number of codes by held-out likelihood, then learn from the codes.

        `signals` are the data, or a sample of a scan, from which its cells are learned.
        """
        if signals.categories:
            raise SojournError(
                f"channel {next(iter(signals.categories))!r} holds strings; an HSMM takes them "
                f"beside numbers, a {type(self).__name__} does not"
            )
        Gaussian().check(signals.values, signals.channels)
        warn_of_codes(signals, "pass integers for symbols, None where one is missing")
        book = self._chosen(signals, seed_of(self.random_state))
        fitted = clone(self).fit(book.read(data, signals.channels))
        learned = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
        learned |= {"codebook_": book, "channels_": signals.channels}
        kept = {name: value for name, value in vars(self).items() if name in self.get_params()}
        self.__dict__ = kept | learned  # all or, if interrupted, nothing
        return self

    def _chosen(self, signals: Signals, seed: int) -> Codebook:
        n = min(signals.n_total, STEPS_TO_CHOOSE)
        offsets = np.unique(np.append(signals.offsets, np.linspace(0, n, PIECES + 1).astype(int)))
        offsets = offsets[offsets <= n]
        part = Signals.of(
            signals.values[:n], offsets, np.arange(len(offsets) - 1), signals.channels
        )
        held = np.arange(len(part)) % HELD_OUT == HELD_OUT - 1
        train, test = part[np.flatnonzero(~held)], part[np.flatnonzero(held)]
        scores = {}
        for n_codes in _sizes(_observed(train)) if held.any() else N_CODES[:1]:
            book = Codebook.learn(_observed(train), n_codes, seed)
            codes = book.coded(test)
            model = clone(self).set_params(ends=False).fit(book.coded(train))
            inside = book.inside(test, codes.codes).sum()
            scores[n_codes] = float(model.score_samples(codes).sum() + inside)
        best = max(scores, key=scores.__getitem__)
        return Codebook.learn(_observed(signals), best, seed)

    def _encode(self, X: Any, lengths: Any, client: Any = None) -> Sequences:
        if self.codebook_ is None or isinstance(X, Coded | Scan):
            return super()._encode(X, lengths, client)
        given = as_signals(X, lengths)
        return signals_for(self.codebook_.density, self.channels_, "error", given)

    def _coded(self, X: Any, lengths: Any = None) -> Sequences:
        """The symbols that the model reads: those of X, or the codes of its numbers."""
        found = self._encode(X, lengths)
        if self.codebook_ is not None:
            return self.codebook_.read(found, self.channels_)
        return replace(found, clock=getattr(self, "clock_", None))  # data without times have none

    @property
    def _density(self) -> Gaussian | None:
        return None if self.codebook_ is None else self.codebook_.density

    def _training_data(self, X: Any, lengths: Any, client: Any) -> Sequences | Partitions:
        if isinstance(X, Partitions):  # of codes
            return X
        # An array that may hold either holds symbols.
        plain = isinstance(X, np.ndarray) and X.ndim < 3 and lengths is None
        if plain or isinstance(X, Scan) or not is_numbers(X):
            return super()._training_data(X, lengths, client)
        return as_signals(X, lengths)

    def _partitions(self, scan: Scan, client: Any = None) -> Partitions:
        found = super()._partitions(scan, client)
        if self._density is None:
            return found
        return in_channels(found, self._density, self.channels_)

    def _scorer(self) -> Scorer:
        score = super()._scorer()
        return score if self.codebook_ is None else partial(_log_density, self.codebook_, score)

    def surprise(self, X: Any, *, lengths: Any = None) -> list[Floats]:  # noqa: D102
        signals = self._encode(X, lengths)
        if self.codebook_ is None or not isinstance(signals, Signals):
            return super().surprise(signals)
        codes = self.codebook_.coded(signals)
        rows = super().surprise(codes)
        inside = np.split(self.codebook_.inside(signals, codes.codes), signals.offsets[1:-1])
        return [
            np.append(row[: len(own)] - own, row[len(own) :])
            for row, own in zip(rows, inside, strict=True)
        ]

    def _next(self, sequences: Sequences, horizons: Sequence[int]) -> Floats:
        return super()._next(self._coded(sequences), horizons)

    def _hits(self, sequences: Sequences, state: Any, symbol: int | None, most: int) -> Hits:
        if self.codebook_ is not None and symbol is not None:
            raise SojournError("symbol= is for models of symbols, and this one is of numbers")
        return super()._hits(self._coded(sequences), state, symbol, most)

    def sample(  # noqa: D102
        self, n: int = 1, length: int | None = None, random_state: Any = None
    ) -> Sequences:
        rng = np.random.default_rng(random_state)
        drawn = super().sample(n, length, rng)
        if self.codebook_ is None:
            return drawn
        values = self.codebook_.draw(drawn.codes, rng)
        return Signals.of(values, drawn.offsets, drawn.ids, self.channels_)


def is_coded(data: Sequences | Partitions) -> bool:
    """Whether these are codes of measurements."""
    if isinstance(data, Partitions):
        return data.items[0].then is not None
    return isinstance(data, Coded)


def _log_density(
    book: Codebook, score: Scorer, sequences: Sequences, n_jobs: int | None = None
) -> Floats:
    """Log-density of each sequence."""
    if not isinstance(sequences, Signals):
        return score(sequences, n_jobs=n_jobs)
    codes = book.coded(sequences)
    inside = sums(book.inside(sequences, codes.codes), sequences.offsets)
    return np.asarray(score(codes, n_jobs=n_jobs) + inside)


def _observed(signals: Signals) -> Floats:
    return signals.values[~np.isnan(signals.values).any(axis=1)]


def _sizes(values: Floats) -> list[int]:
    """Numbers of codes that the values are enough for."""
    distinct = len(np.unique(values, axis=0))
    most = min(distinct, len(values) // STEPS_PER_CODE)
    return [n for n in N_CODES if n <= most] or [max(2, min(distinct, N_CODES[0]))]
