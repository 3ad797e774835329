"""The `OnlineScorer` of a model of numbers: one step of all channels at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import positive_int
from sojourn.data.as_signals import as_signals
from sojourn.data.signals import Signals
from sojourn.errors import SojournError
from sojourn.estimators.numbers import next_values, signals_for
from sojourn.exact.filter import tables
from sojourn.exact.forward import next_states
from sojourn.exact.observed import factor_rows
from sojourn.streams.predictive import FilterScorer
from sojourn.streams.scorer import OnlineScorer, check_one
from sojourn.streams.states import BEFORE_ANY, HSMMScorer

Floats = NDArray[np.float64]


class _Measured(OnlineScorer):
    """Steps of measurements; what a step's surprise is, `_score` knows."""

    _channels: tuple[str, ...]
    _density: Any

    def update(self, symbol: Any) -> float:
        """Surprise of the next step, in nats.

        Parameters
        ----------
        symbol : number, sequence or mapping
            The values of all channels: one number, a row in the order of the channels, or a
            mapping from their names; NaN or None where one is missing.
        """
        return float(self._score(_one_step(symbol, self._channels))[0])

    def update_many(self, symbols: Any) -> Floats:
        """Surprise of each of the next steps, in their order.

        Parameters
        ----------
        symbols : array (length, n_channels), or Signals of one sequence
        """
        if len(symbols) == 0:
            return np.empty(0)
        signals = symbols if isinstance(symbols, Signals) else as_signals([symbols])
        check_one(signals)
        return self._score(signals)

    def predict(self, horizon: int = 1) -> Any:
        """Means and quantiles `horizon` steps on, as `predict_next` of the model returns them.

        Parameters
        ----------
        horizon : int
            Number of steps ahead, 1 for the next one.
        """
        p = self._ahead((positive_int("horizon", horizon),))
        return next_values(self._density, p, self._channels)

    @abstractmethod
    def _score(self, signals: Signals) -> Floats:
        """Surprise of each of the steps, after which the stream is."""


class NumbersScorer(_Measured, HSMMScorer):
    """An `OnlineScorer` of measurements, which also knows states and stays.

    Surprise is ``-log p(values | all before)``; of a density, so it may be negative.

    Examples
    --------
    >>> from sojourn import HSMM
    >>> rng = np.random.default_rng(0)
    >>> X = [np.repeat(rng.normal(size=10), 5) + 0.1 * rng.normal(size=50) for _ in range(8)]
    >>> stream = HSMM(2, 5, max_iter=5).fit(X).stream()
    >>> surprises = [stream.update(value) for value in X[0]]
    >>> stream.predict().mean.shape, stream.n_seen
    ((1, 1), 50)
    """

    def __init__(self, model: Any) -> None:
        self._channels, self._initial = model.channels_, model.initial_
        self._density = model.params_.density
        naming = (model.vocabulary_, model.unknown)
        super().__init__(model.params_, tables(model.params_, model.initial_), *naming)

    def _ahead(self, horizons: Sequence[int]) -> Floats:
        begun = self._total != BEFORE_ANY
        alpha = self._now() if begun else np.zeros(self._params.duration.shape)
        return next_states(self._params, alpha[None], horizons, self._initial)[0]

    def _score(self, signals: Signals) -> Floats:
        values = signals_for(self._density, self._channels, self.unknown, signals).values
        B, top = factor_rows(self._density, values)
        whole, out = self._model_tables, np.empty(len(values))
        self._model_tables = whole._replace(B=B)
        try:
            self._advance(np.arange(len(values), dtype=np.int32), out)
        finally:
            self._model_tables = whole
        self.n_seen += len(values)
        return out - top

    def _tables(self) -> list[NDArray[Any]]:
        return [*super()._tables(), *self._density.arrays().values()]


class CodedScorer(_Measured, FilterScorer):
    """An `OnlineScorer` of measurements by their codes; surprise is of a density."""

    def __init__(self, model: Any) -> None:
        self._estimator, self._channels = model, model.channels_
        self._density = model.codebook_.density
        super().__init__(model._model, model.vocabulary_, model.unknown)

    def _score(self, signals: Signals) -> Floats:
        book, signals = self._estimator.codebook_, self._estimator._encode(signals, None)
        codes, out = book.coded(signals).codes, np.empty(signals.n_total)
        self._advance(codes, out)
        self.n_seen += len(codes)
        return out - book.inside(signals, codes)

    def _tables(self) -> list[NDArray[Any]]:
        book = self._estimator.codebook_
        own = [book.cells.centres_, book.mass, *book.density.arrays().values()]
        return [*super()._tables(), *own]


def _one_step(symbol: Any, channels: Sequence[str]) -> Signals:
    """The values of all channels at one step, from any of the forms that `update` takes."""
    if isinstance(symbol, Signals):
        return symbol
    if isinstance(symbol, Mapping):
        absent = [name for name in channels if name not in symbol]
        if absent:
            raise SojournError(f"there is no value of channel {absent[0]!r}; NaN if missing")
        return Signals.from_table({name: [symbol[name]] for name in channels}, False)
    row = np.full(len(channels), np.nan) if symbol is None else symbol
    return as_signals([np.atleast_1d(np.asarray(row))[None]])
