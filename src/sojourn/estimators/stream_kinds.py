"""The two kinds of `OnlineScorer`: by observable operators, and by the forward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import positive_int
from sojourn.errors import SojournError
from sojourn.estimators.stream import OnlineScorer, read_only
from sojourn.exact.forward import Tables, filter_steps, new_state
from sojourn.exact.forward import next_symbol as next_of_params
from sojourn.exact.params import Params
from sojourn.spectral.filter import Filter, filter_pieces, run_filter
from sojourn.spectral.filter import next_symbol as next_of_operators
from sojourn.spectral.holdout import Spans
from sojourn.spectral.lowrank_filter import SharedFilter

Floats = NDArray[np.float64]

BEFORE_ANY = -1.0  # the kernel's sum of alpha where a sequence begins


class SpectralScorer(OnlineScorer):
    """An `OnlineScorer` by observable operators: the normalised filter, whatever `filter` is."""

    def __init__(self, model: Filter, vocabulary: NDArray[Any], unknown: str) -> None:
        super().__init__(vocabulary, unknown)
        self._filter = model
        self._steps = len(model.updates)
        self._bounds = read_only(np.array([0, 1]))
        self._states = model.start[None].copy()
        self._args = self._bind(0)

    def predict(self, horizon: int = 1) -> Floats:
        """Distribution of the symbol that comes `horizon` steps on, in the vocabulary's order."""
        seen = np.array([self.n_seen])
        return next_of_operators(
            self._filter, self._states, seen, positive_int("horizon", horizon)
        )[0]

    def _bind(self, step: int) -> tuple[Any, ...]:
        """Arguments of the kernel for a piece of one symbol that starts in the present state."""
        bounds = (self._bounds[:-1], self._bounds[1:])
        piece = Spans(self._seen_code, *bounds, np.ones(1, bool))
        return self._from(step), piece, self._out, self._states

    def _from(self, step: int) -> Filter:
        """The filter of a sequence that begins here, in the present state."""
        step = min(step, self._steps - 1)
        updates, average = self._filter.updates[step:], self._filter.average[step:]
        return self._filter._replace(updates=updates, average=average, start=self._states[0])

    def _step(self) -> None:
        if self._steps > 1:  # Algorithm 1 has operators for each step
            self._args = self._bind(self.n_seen)
        filter_pieces(*self._args)

    def _run(self, codes: NDArray[np.int32]) -> Floats:
        bounds = read_only(np.array([0, len(codes)]))
        here = self._from(self.n_seen)
        surprise, states = run_filter(here, codes, bounds[:-1], bounds[1:], None, 1)
        self._states[:] = states
        return surprise

    def _begin(self) -> None:
        self._states[0] = self._filter.start

    def _fresh(self) -> SpectralScorer:
        return SpectralScorer(self._filter, self.vocabulary, self.unknown)

    def _state(self) -> Floats:
        return self._states[0].copy()

    def _set(self, state: Floats) -> None:
        self._states[0] = state

    def _sound(self, state: Floats, seen: int) -> bool:
        return state.shape == self._states[0].shape

    def _tables(self) -> list[NDArray[Any]]:
        epsilon = np.array(self._filter.epsilon)
        return [self._filter.updates, self._filter.start, self._filter.average, epsilon]


class SharedScorer(OnlineScorer):
    """An `OnlineScorer` by the operators of a large alphabet."""

    def __init__(self, model: SharedFilter, vocabulary: NDArray[Any], unknown: str) -> None:
        super().__init__(vocabulary, unknown)
        self._filter = model
        self._v: Floats = model.start.copy()

    def predict(self, horizon: int = 1) -> Floats:
        """Distribution of the symbol that comes `horizon` steps on, in the vocabulary's order."""
        seen = np.array([self.n_seen])
        return next_of_operators(
            self._filter, self._v[None], seen, positive_int("horizon", horizon)
        )[0]

    def _step(self) -> None:
        self._out[:] = self._run(self._seen_code)

    def _run(self, codes: NDArray[np.int32]) -> Floats:
        bounds = read_only(np.array([0, len(codes)]))
        here = replace(self._filter, tables=self._filter.tables._replace(start=self._v))
        surprise, states = run_filter(here, codes, bounds[:-1], bounds[1:], None, 1)
        self._v = states[0]
        return surprise

    def _begin(self) -> None:
        self._v = self._filter.start.copy()

    def _fresh(self) -> SharedScorer:
        return SharedScorer(self._filter, self.vocabulary, self.unknown)

    def _state(self) -> Floats:
        return self._v.copy()

    def _set(self, state: Floats) -> None:
        self._v = state.copy()

    def _sound(self, state: Floats, seen: int) -> bool:
        return state.shape == self._v.shape

    def _tables(self) -> list[NDArray[Any]]:
        o, epsilon = self._filter.operators, np.array(self._filter.tables.epsilon)
        return [o.modes, o.B, o.start, o.stop, o.rest, o.frequency, epsilon]


class HSMMScorer(OnlineScorer):
    """An `OnlineScorer` by the forward pass, which also knows states and stays.

    From the first symbol on that the model cannot produce, surprise is infinite; `reset` or
    `restore` to go on.
    """

    def __init__(
        self, params: Params, model: Tables, vocabulary: NDArray[Any], unknown: str
    ) -> None:
        super().__init__(vocabulary, unknown)
        self._params, self._model_tables = params, model
        self._alpha, self._work = new_state(model.D)
        self._total = BEFORE_ANY

    def predict(self, horizon: int = 1) -> Floats:
        """Distribution of the symbol that comes `horizon` steps on, in the vocabulary's order."""
        steps = positive_int("horizon", horizon)
        if self._total == BEFORE_ANY:
            alpha = self._model_tables.init[:, : self._params.max_duration]
            if steps == 1:
                return np.asarray(alpha.sum(axis=1) @ self._params.emission)
            steps -= 1
        else:
            alpha = self._now()
        return next_of_params(self._params, alpha[None], steps)[0]

    def state_proba(self) -> Floats:
        """``p(state | all symbols so far)`` at the last symbol, a number for each state.

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
        """How much longer the present stay lasts: p(r more steps) for r = 0, 1 and so on."""
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

    def _step(self) -> None:
        self._total = filter_steps(
            *self._model_tables,
            self._alpha,
            self._total,
            self._work,
            self._seen_code,
            0,
            1,
            self._out,
        )[0]

    def _run(self, codes: NDArray[np.int32]) -> Floats:
        out = np.empty(len(codes))
        work = (self._alpha, self._total, self._work)
        self._total = filter_steps(*self._model_tables, *work, codes, 0, len(codes), out)[0]
        return out

    def _begin(self) -> None:
        self._alpha[:] = 0.0
        self._total = BEFORE_ANY

    def _fresh(self) -> HSMMScorer:
        return HSMMScorer(self._params, self._model_tables, self.vocabulary, self.unknown)

    def _state(self) -> Floats:
        alpha = self._alpha[:, : self._params.max_duration]
        return np.append(self._total, alpha)

    def _set(self, state: Floats) -> None:
        self._begin()
        self._total = float(state[0])
        n_x, n_d = self._params.duration.shape
        self._alpha[:, :n_d] = state[1:].reshape(n_x, n_d)

    def _sound(self, state: Floats, seen: int) -> bool:
        if state.shape != (1 + self._params.duration.size,):
            return False
        total, alpha = state[0], state[1:]
        begun = total >= 0.0 if seen else total == BEFORE_ANY
        return bool(begun and np.isfinite(state).all() and (alpha >= 0.0).all())

    def _tables(self) -> list[NDArray[Any]]:
        return list(self._model_tables)
