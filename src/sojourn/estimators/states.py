"""Inference with a fitted model that has states: paths, stays, predictions, samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sojourn.checks import check_choice
from sojourn.data.as_signals import as_signals
from sojourn.data.sequences import Sequences
from sojourn.em.durations import n_parameters
from sojourn.em.enlarge import time_in_states
from sojourn.emissions.base import Emission
from sojourn.errors import SojournError
from sojourn.estimators.base import Floats, Scorer, SequenceModel, score_scan
from sojourn.estimators.numbers import in_channels, signals_for, signals_of
from sojourn.exact.draw import sample
from sojourn.exact.expected_counts import state_probabilities
from sojourn.exact.forward import (
    filtered,
    log_prob,
    next_states,
    next_symbol,
    split_steps,
    surprise,
)
from sojourn.exact.hitting import Hits, first_hits
from sojourn.exact.params import Params
from sojourn.exact.summary import Summary, renamed, summarise
from sojourn.exact.viterbi import Decoded, Segment, decode, stays
from sojourn.io.sources import Scan
from sojourn.scale.passes import Partitions


class StateModel(SequenceModel):
    """Everything that follows from `params_`, `initial_` and `vocabulary_`."""

    params_: Params
    initial_: Floats | None
    channels_: tuple[str, ...]
    durations: str | Sequence[str]
    states_: NDArray[np.str_] | None = None
    shares_: Floats | None = None
    visits_: Floats | None = None

    @property
    def has_states(self) -> bool:
        """True."""
        return True

    @property
    def startprob_(self) -> Floats:
        """Probabilities of the first state."""
        return self._fitted().start

    @property
    def transmat_(self) -> Floats:
        """``transmat_[i, j] = p(j | i)``."""
        return self._fitted().transition

    @property
    def durationprob_(self) -> Floats:
        """``durationprob_[i, d - 1] = p(d | i)``; the last column, with a tail, that or longer."""
        return self._fitted().duration

    @property
    def tailprob_(self) -> Floats:
        """``tailprob_[i] = p(one more step | a stay in i has lasted max_duration steps)``."""
        return self._fitted().tail

    @property
    def endprob_(self) -> Floats | None:
        """``endprob_[i] = p(the sequence ends | a stay in i is over)``; None without ends."""
        return self._fitted().end

    @property
    def emissionprob_(self) -> Floats:
        """``emissionprob_[i, k] = p(k | i)``."""
        return self._fitted().emission

    @property
    def expected_durations_(self) -> Floats:
        """Mean duration of each state, in steps, with its tail."""
        return self._fitted().mean_durations

    @property
    def occupancy_(self) -> Floats:
        """Share of the training data's time in each state.

        Of a model that was not fitted here, such as one of an older file, the share of a run
        without end.
        """
        return time_in_states(self._fitted()) if self.shares_ is None else self.shares_

    def _scorer(self) -> Scorer:
        return partial(log_prob, self._fitted(), initial=self.initial_)

    def surprise(self, X: Any, *, lengths: Any = None) -> list[Floats]:  # noqa: D102
        sequences = self._encode(X, lengths)
        steps = surprise(self._fitted(), sequences, self.initial_, self.n_jobs)
        return split_steps(steps, sequences.offsets, self._fitted().ends)

    def predict(
        self, X: Any, *, lengths: Any = None, method: str = "viterbi"
    ) -> list[NDArray[np.int32]]:
        """The states of each sequence: the most probable path, or the best guess at each step.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        method : {"viterbi", "posterior"}
            "viterbi": the path that is most probable as a whole; its stays and transitions are
            possible. "posterior": at each step the most probable state given the whole sequence; it
            is right for the most steps, but neighbours need not fit together.
        """
        check_choice("method", method, ("viterbi", "posterior"))
        if method == "viterbi":
            return self.decode(X, lengths=lengths)[0]
        gammas = self.predict_proba(X, lengths=lengths)
        for i, gamma in enumerate(gammas):
            if not np.all(gamma.sum(axis=1) > 0.5):
                raise SojournError(_impossible(self._encode(X, lengths), i))
        return [gamma.argmax(axis=1).astype(np.int32) for gamma in gammas]

    def name_states(self, names: Mapping[int, str] | Sequence[str]) -> Self:
        """Give states names, for `segments`, plots, reports and `summary`.

        Parameters
        ----------
        names : mapping from state to name, or one name for each state
            States that a mapping leaves out keep theirs.

        Examples
        --------
        >>> from sojourn import HSMM, Params
        >>> model = HSMM(2, 4).fit(Params.random(2, 4, 5, rng=0).sample(100, 50, rng=1))
        >>> model.name_states({0: "ascent"}).states_.tolist()
        ['ascent', 'state 1']
        """
        self.states_ = renamed(self.state_names, names)
        return self

    @property
    def state_names(self) -> list[str]:
        """What the states are called: `states_`, or "state 0" and so on."""
        if self.states_ is not None:
            return [str(name) for name in self.states_]
        return [f"state {x}" for x in range(self._fitted().n_states)]

    def summary(self) -> Summary:
        """The states in a table: time, stays, symbols, what follows, and what to distrust.

        ``print(model.summary())`` shows it; ``rows`` has one tuple per state, ``warnings`` the
        sentences below the table.
        """
        params = self._fitted()
        symbols = list(self.vocabulary_.tolist() if params.density is None else self.channels_)
        facts = (self.state_names, symbols, self.occupancy_, self.visits_)
        return summarise(params, *facts, getattr(self, "converged_", True), self.step_)

    def decode(self, X: Any, *, lengths: Any = None) -> tuple[list[NDArray[np.int32]], Floats]:
        """The most probable path of each sequence, and their joint log-probability.

        Parameters
        ----------
        X, lengths
            As in `fit`. A sequence that the model cannot produce is an error.
        """
        sequences = self._encode(X, lengths)
        found = self._decoded(sequences)
        return np.split(found.states, sequences.offsets[1:-1]), found.log_prob

    def predict_proba(self, X: Any, *, lengths: Any = None) -> list[Floats]:
        """``p(state at t | all symbols of the sequence)`` at every step of each sequence.

        Parameters
        ----------
        X, lengths
            As in `fit`.

        Returns
        -------
        list of arrays (length, n_states)
        """
        sequences = self._encode(X, lengths)
        gamma = state_probabilities(self._fitted(), sequences, self.initial_, n_jobs=self.n_jobs)
        return np.split(gamma, sequences.offsets[1:-1])

    def segments(self, X: Any, *, lengths: Any = None) -> list[list[Segment]]:
        """The stays of the most probable path of each sequence.

        Parameters
        ----------
        X, lengths
            As in `fit`.

        Returns
        -------
        list of lists of Segment
            ``(start, length, state, confidence, name)``; the confidence is the posterior
            probability of the state, averaged over the stay, the name that of the state.
        """
        sequences = self._encode(X, lengths)
        found = self._decoded(sequences)
        gamma = state_probabilities(self._fitted(), sequences, self.initial_, n_jobs=self.n_jobs)
        return stays(found, gamma, sequences.offsets, self.state_names)

    def remaining(self, X: Any, *, lengths: Any = None) -> Floats:
        """Distribution of the remaining steps of the current stay, after each sequence.

        Parameters
        ----------
        X, lengths
            As in `fit`.

        Returns
        -------
        array (n, max_duration)
            Column r is the probability of r more steps; column 0: the stay ends here. With a tail
            the last column is for that many or more. A step lasts `step_`: (1.0, "hours"), say.
        """
        return self._now(X, lengths).sum(axis=1)

    def _next(self, sequences: Sequences, horizons: Sequence[int]) -> Floats:
        params, alpha = self._fitted(), self._now(sequences, None, begun=False)
        if params.density is None:
            return next_symbol(params, alpha, horizons, self.initial_)
        return next_states(params, alpha, horizons, self.initial_)

    def _hits(self, sequences: Sequences, state: Any, symbol: int | None, most: int) -> Hits:
        params = self._fitted()
        if symbol is not None and params.density is not None:
            raise SojournError("symbol= is for models of symbols, and this one is of numbers")
        if state is not None:
            state = self._state(state)
        alpha = self._now(sequences, None, begun=False)
        return first_hits(params, alpha, self.initial_, symbol=symbol, state=state, most=most)

    def _state(self, state: Any) -> int:
        """The number of a state that is given by it or by its name."""
        names = self.state_names
        if isinstance(state, str) and state in names:
            return names.index(state)
        if isinstance(state, int | np.integer) and 0 <= state < len(names):
            return int(state)
        raise SojournError(
            f"state is {state!r}; there are states 0 to {len(names) - 1}, which are called "
            f"{', '.join(map(repr, names))}"
        )

    def sample(
        self, n: int = 1, length: Any = None, random_state: Any = None, return_states: bool = False
    ) -> Any:
        """Draw sequences from the model.

        Parameters
        ----------
        n : int
            Number of sequences.
        length : int or sequence of int, optional
            Length of each, whatever the ends. None: drawn to the end; without ends, 100.
        random_state : int, Generator or None
        return_states : bool
            Whether to return the states too, as a list of arrays.

        """
        if length is None and not self._fitted().ends:
            length = 100
        rng, density = np.random.default_rng(random_state), self._fitted().density
        codes, offsets, states, _ = sample(
            self._fitted(), n, length, rng, self.n_jobs, self.initial_
        )
        drawn = Sequences(codes, offsets, self.vocabulary_, np.arange(n))
        if density is not None:
            drawn = signals_of(density, self.channels_, density.sample(states, rng), offsets)
        return (drawn, np.split(states, offsets[1:-1])) if return_states else drawn

    @property
    def n_parameters_(self) -> int:
        """Number of free parameters: positive entries minus one per row."""
        return n_parameters(self._fitted(), self.durations)

    def aic(self, X: Any, *, lengths: Any = None) -> float:
        """Akaike's information criterion on `X`: lower is better.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        """
        return 2.0 * self.n_parameters_ - 2.0 * float(self.score_samples(X, lengths=lengths).sum())

    def bic(self, X: Any, *, lengths: Any = None) -> float:
        """Bayesian information criterion on `X`, one observation per symbol: lower is better.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        """
        if isinstance(X, Scan):
            scores = score_scan(self, X, lengths=lengths)
            n, total = int(scores.observed.sum()), float(scores.log_prob.sum())
        else:
            sequences = self._encode(X, lengths)
            n = int(sequences.n_observed.sum())
            total = float(self.score_samples(sequences).sum())
        return float(self.n_parameters_ * np.log(n) - 2.0 * total)

    def _encode(self, X: Any, lengths: Any, client: Any = None) -> Sequences:
        density = self._fitted().density
        if density is None or isinstance(X, Scan):
            return super()._encode(X, lengths, client)
        return signals_for(density, self.channels_, self.unknown, as_signals(X, lengths))

    @property
    def _density(self) -> Emission | None:
        return self._fitted().density

    def _partitions(self, scan: Scan, client: Any = None) -> Partitions:
        found = super()._partitions(scan, client)
        if self._density is None:
            return found
        return in_channels(found, self._density, self.channels_, self.unknown)

    def _fitted(self) -> Params:
        check_is_fitted(self)
        return self.params_

    def _now(self, X: Any, lengths: Any, begun: bool = True) -> Floats:
        """p(state, steps remaining | the sequence) at the end of each, (n, n_x, n_d).

        Zeros for sequences without symbols, which must not be where they have to have `begun`.
        """
        sequences = self._encode(X, lengths)
        alpha = filtered(self._fitted(), sequences, self.initial_, self.n_jobs)
        if begun and np.any(sequences.lengths == 0):
            i = int(np.argmin(sequences.lengths))
            raise SojournError(f"sequence {i} ({sequences.ids[i]}) is empty, so it has no stay")
        lost = np.flatnonzero((alpha.sum(axis=(1, 2)) == 0) & (sequences.lengths > 0))
        if lost.size:
            raise SojournError(_impossible(sequences, int(lost[0])))
        return alpha

    def _decoded(self, sequences: Sequences) -> Decoded:
        found = decode(self._fitted(), sequences, self.initial_, self.n_jobs)
        lost = np.flatnonzero(found.impossible_at >= 0)
        if lost.size:
            i = int(lost[0])
            raise SojournError(_impossible(sequences, i, int(found.impossible_at[i])))
        return found


def _impossible(sequences: Sequences, i: int, step: int | None = None) -> str:
    where = "" if step is None else f" from position {step} on"
    return (
        f"the model cannot produce sequence {i} ({sequences.ids[i]}){where}: no path of states has "
        f"a positive probability; fit with pseudocount > 0 so that nothing is impossible"
    )
