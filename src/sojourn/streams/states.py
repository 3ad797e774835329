"""The `OnlineScorer` of a model with states, and which scorer a model has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.exact.filter import Tables, ending, filter_steps, new_state, tables
from sojourn.exact.forward import next_symbol as next_of_params
from sojourn.exact.params import Params
from sojourn.streams.predictive import FilterScorer
from sojourn.streams.scorer import OnlineScorer

Floats = NDArray[np.float64]

ROUNDING = 1e-9  # of a sum of probabilities
BEFORE_ANY = -1.0  # the kernel's sum of alpha where a sequence begins


def online(model: Any) -> OnlineScorer:
    """A scorer at the start of a sequence, for either estimator."""
    naming = (model.vocabulary_, model.unknown)
    if model.has_states:
        if model.params_.density is not None:
            from sojourn.streams.numbers import NumbersScorer

            return NumbersScorer(model)
        return HSMMScorer(model.params_, tables(model.params_, model.initial_), *naming)
    if getattr(model, "codebook_", None) is not None:
        from sojourn.streams.numbers import CodedScorer

        return CodedScorer(model)
    return FilterScorer(model._model, *naming)


class HSMMScorer(OnlineScorer):
    """An `OnlineScorer` by the forward pass, which also knows states and stays.

    From the first symbol on that the model cannot produce, surprise is infinite; `reset` or
    `restore` to continue.
    """

    _alpha: Floats  # the forward pass, its sum, and room that the kernel needs
    _total: float
    _work: Floats

    def __init__(
        self, params: Params, model: Tables, vocabulary: NDArray[Any], unknown: str
    ) -> None:
        self._params, self._model_tables = params, model
        start = np.append(BEFORE_ANY, np.zeros(params.duration.size))
        super().__init__(vocabulary, unknown, start)

    def _ahead(self, horizons: Sequence[int]) -> Floats:
        n_d = self._params.max_duration
        begun = self._total != BEFORE_ANY
        alpha = self._now() if begun else np.zeros_like(self._alpha[:, :n_d])
        initial = self._model_tables.init / (1.0 - self._params.empty)
        return next_of_params(self._params, alpha[None], horizons, initial)[0]

    def end(self) -> float:  # noqa: D102
        if not self._params.ends:
            return 0.0
        if self._total == 0.0:
            return math.inf
        p = self._params.empty
        if self._total != BEFORE_ANY:
            p = ending(self._alpha, self._model_tables.stop) / self._total
        return max(0.0, -math.log(p)) if p > 0.0 else math.inf

    def state_proba(self) -> Floats:
        """``p(state | all symbols so far)`` at the last symbol, one number per state.

        Examples
        --------
        >>> from sojourn import HSMM, Params
        >>> seqs = Params.random(2, 3, 4, rng=0).sample(50, 50, rng=1)
        >>> stream = HSMM(2, 3, max_iter=5).fit(seqs).stream()
        >>> _ = stream.update_many(seqs[0])
        >>> stream.state_proba().shape, stream.remaining().shape
        ((2,), (3,))
        """
        return self._now().sum(axis=1)

    def remaining(self) -> Floats:
        """How much longer the present stay lasts: p(r more steps) for r = 0, 1 and so on.

        With a tail the last number is for that many or more.
        """
        return self._now().sum(axis=0)

    def _now(self) -> Floats:
        """p(state, steps remaining | all so far), (n_states, max_duration)."""
        if self._total == BEFORE_ANY:
            raise SojournError("no symbol has come yet, so there is no state; update first")
        if self._total == 0.0:
            raise SojournError(
                "the model cannot produce what has come, so there is no state; reset, or fit with "
                "pseudocount > 0 so that nothing is impossible"
            )
        return self._alpha[:, : self._params.max_duration] * (1.0 / self._total)

    def _advance(self, codes: NDArray[np.int32], out: Floats) -> None:
        forward = (self._alpha, self._total, self._work)
        tables = self._model_tables[:-1]
        self._total = filter_steps(*tables, *forward, codes, 0, len(codes), out)

    def _state(self) -> Floats:
        return np.append(self._total, self._alpha[:, : self._params.max_duration])

    def _set_state(self, state: Floats) -> None:
        n_x, n_d = self._params.duration.shape
        self._total = float(state[0])
        self._alpha, self._work = new_state(self._model_tables.D)
        self._alpha[:, :n_d] = state[1:].reshape(n_x, n_d)

    def _valid(self, state: Floats, seen: int) -> bool:
        if not super()._valid(state, seen):
            return False
        total, alpha = state[0], state[1:]
        if seen == 0:
            return bool(total == BEFORE_ANY and not alpha.any())
        consistent = abs(alpha.sum() - total) <= ROUNDING * total  # not so of a negative total
        return bool(consistent and (alpha >= 0.0).all())

    def _tables(self) -> list[NDArray[Any]]:
        return list(self._model_tables)
