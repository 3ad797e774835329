"""The tables of a hidden semi-Markov model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.checks import positive_int
from sojourn.errors import SojournError

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.emissions.base import Emission

Rng = int | np.random.Generator | np.random.SeedSequence | None

# Rows are products of divisions and sums over at most some thousands of entries: a row that is
# farther from one than this was never normalised.
ROW_TOLERANCE = 1e-8
LEAST = 1e-100  # ends and tails below it are none: products with them leave the range of floats


@dataclass(frozen=True, eq=False)
class Params:
    """Start, transition, duration and emission tables of a hidden semi-Markov model.

    A sequence begins in a state drawn from ``start``. Whenever a state is entered its duration is
    drawn from that state's row of ``duration``; it emits one symbol per step from its row of
    ``emission`` and, when its time is up, gives way to a state drawn from its row of
    ``transition``. The end of a sequence cuts the last stay short.

    With a ``tail``, stays have any length: one that has ``max_duration`` steps left, this one
    included, still has as many after it with probability ``tail``. So durations below
    ``max_duration`` are free, and the rest are geometric. With an ``end``, the sequence ends where
    a stay does: then the last stay is complete.

    Parameters
    ----------
    start : array_like, shape (n_states,)
        Probabilities of the first state.
    transition : array_like, shape (n_states, n_states)
        ``transition[i, j] = p(j | i)``.
    duration : array_like, shape (n_states, max_duration)
        ``duration[i, d - 1] = p(d | i)``.
    emission : array_like, shape (n_states, n_symbols)
        ``emission[i, k] = p(k | i)``.
    tail : array_like, shape (n_states,), optional
        Below one; None for zeros. ``p(d | i) = duration[i, -1] (1 - tail[i])
        tail[i]**(d - max_duration)`` from ``max_duration`` on.
    end : array_like, shape (n_states,), optional
        ``end[i] = p(the sequence ends | a stay in i is over)``; the rest, ``1 - end[i]``, is shared
        out by the row of ``transition``. None where ends are not part of the model.
    empty : float
        Probability of a sequence without symbols, where ends are part of the model.
    density : Emission, optional
        p(numbers | state), where observations are numbers. Then ``emission`` is one column of ones:
        its only symbol is that a step was measured.

    Examples
    --------
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> p.n_states, p.max_duration, p.n_symbols
    (2, 2, 2)
    >>> Params([1], [[1]], [[0, 1]], [[1]], tail=[0.9]).mean_durations
    array([11.])
    """

    start: NDArray[np.float64]
    transition: NDArray[np.float64]
    duration: NDArray[np.float64]
    emission: NDArray[np.float64]
    tail: NDArray[np.float64] = None  # type: ignore[assignment]  # None is read as zeros
    end: NDArray[np.float64] | None = None
    empty: float = 0.0
    density: Emission | None = None

    def __post_init__(self) -> None:
        for name in ("start", "transition", "duration", "emission"):
            object.__setattr__(self, name, _stochastic(name, getattr(self, name)))
        n_x = self.n_states
        for name in ("tail", "end"):
            object.__setattr__(self, name, _each_state(name, getattr(self, name), n_x))
        object.__setattr__(self, "empty", _empty(self.empty, self.end))
        for name, columns in (("transition", n_x), ("duration", None), ("emission", None)):
            shape = getattr(self, name).shape
            if shape[0] != n_x or columns not in (None, shape[1]):
                raise SojournError(
                    f"{name} has shape {shape}; with the {n_x} states of start it needs {n_x} "
                    f"rows{f' and {columns} columns' if columns else ''}, one row per state"
                )
        if self.density is not None and (self.density.n_states, self.n_symbols) != (n_x, 1):
            raise SojournError(
                f"density has {self.density.n_states} states, emission {self.n_symbols} columns; "
                f"expected the {n_x} states of start, and one column of ones"
            )

    @classmethod
    def trusted(cls, *values: Any) -> Params:
        """A model of arrays that are right by construction: kept, made read-only, not checked."""
        found = object.__new__(cls)
        found.__dict__.update(zip(cls.__dataclass_fields__, values, strict=True))
        for table in values[:6]:
            if table is not None:
                table.flags.writeable = False
        return found

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return self.start.shape[0]

    @property
    def max_duration(self) -> int:
        """Longest possible stay in a state, or where its tail begins."""
        return self.duration.shape[1]

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return self.emission.shape[1]

    @property
    def mean_durations(self) -> NDArray[np.float64]:
        """Mean duration of each state, its tail included."""
        steps = np.arange(1.0, self.max_duration + 1.0)
        return np.asarray(self.duration @ steps + self.duration[:, -1] * self.steps_beyond)

    @property
    def steps_beyond(self) -> NDArray[np.float64]:
        """Mean number of steps by which a stay that reaches its tail exceeds `max_duration`."""
        return np.asarray(self.tail / (1.0 - self.tail))

    def __repr__(self) -> str:
        more = [name for name, given in (("tail", self.tail.any()), ("end", self.ends)) if given]
        return (
            f"Params(n_states={self.n_states}, max_duration={self.max_duration}, "
            f"n_symbols={self.n_symbols}{''.join(f', {name}' for name in more)})"
        )

    @property
    def ends(self) -> bool:
        """Whether ends of sequences are part of the model."""
        return self.end is not None

    @classmethod
    def random(
        cls,
        n_states: int,
        max_duration: int,
        n_symbols: int,
        rng: Rng = None,
        self_transitions: bool | None = None,
    ) -> Params:
        """A random model: uniform entries, rows normalised.

        Parameters
        ----------
        n_states, max_duration, n_symbols : int
            Sizes of the tables.
        rng : int, numpy Generator or None
            Where the randomness comes from.
        self_transitions : bool or None
            Whether a state may follow itself. None means no, so that a duration is a duration,
            except where there is one state only or every duration is one.

        Examples
        --------
        >>> p = Params.random(n_states=3, max_duration=4, n_symbols=5, rng=0)
        >>> p
        Params(n_states=3, max_duration=4, n_symbols=5)
        >>> p.transition.diagonal()
        array([0., 0., 0.])
        """
        n_states = positive_int("n_states", n_states)
        max_duration = positive_int("max_duration", max_duration)
        n_symbols = positive_int("n_symbols", n_symbols)
        generator = np.random.default_rng(rng)
        start = generator.random(n_states)
        transition = generator.random((n_states, n_states))
        if not allows_self_transitions(n_states, max_duration, self_transitions):
            np.fill_diagonal(transition, 0.0)
        duration = generator.random((n_states, max_duration))
        emission = generator.random((n_states, n_symbols))
        return cls(*(t / t.sum(-1, keepdims=True) for t in (start, transition, duration, emission)))

    @overload
    def sample(
        self,
        n: int,
        length: ArrayLike | None = ...,
        rng: Rng = ...,
        return_states: Literal[False] = ...,
    ) -> Sequences: ...

    @overload
    def sample(
        self,
        n: int,
        length: ArrayLike | None = ...,
        rng: Rng = ...,
        *,
        return_states: Literal[True],
    ) -> tuple[Sequences, NDArray[np.int32], NDArray[np.int32]]: ...

    def sample(
        self, n: int, length: ArrayLike | None = None, rng: Rng = None, return_states: bool = False
    ) -> Sequences | tuple[Sequences, NDArray[np.int32], NDArray[np.int32]]:
        """Draw sequences of symbols from the model.

        Parameters
        ----------
        n : int
            Number of sequences.
        length : int or array_like of int, shape (n,), optional
            Length of every sequence, or of each, whatever the ends; None: drawn to the end, for
            models with ends.
        rng : int, numpy Generator or None
            Where the randomness comes from; equal generators give equal sequences.
        return_states : bool
            Also return what was hidden.

        Returns
        -------
        Sequences
            Its vocabulary is ``0 ... n_symbols - 1``.
        states : ndarray of int32
            With ``return_states``: the state at every step, all sequences end to end.
        remaining : ndarray of int32
            With ``return_states``: how many steps the stay lasts from there, that step included;
            where a stay begins, this is its duration.

        Examples
        --------
        >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0, 1]], [[1, 0], [0, 1]])
        >>> p.sample(n=2, length=5, rng=0)[0]
        [0, 0, 1, 1, 0]
        """
        from sojourn.data.sequences import Sequences
        from sojourn.exact.draw import sample

        codes, offsets, states, remaining = sample(self, n, length, rng)
        vocabulary, ids = np.arange(self.n_symbols), np.arange(n)
        sequences = Sequences(codes, offsets, vocabulary, ids)
        return (sequences, states, remaining) if return_states else sequences

    def log_prob(self, X: Any, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Natural logarithm of the probability of each sequence.

        Parameters
        ----------
        X : Sequences, list of sequences, or 2-D integer array
            Symbols ``0 ... n_symbols - 1``; a missing one may be any.
        n_jobs : int or None
            Number of threads; None for every core.

        Returns
        -------
        ndarray of float64, shape (n,)
            ``-inf`` where the model cannot produce the sequence.

        Examples
        --------
        >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
        >>> p.log_prob([[0, 0, 1, 0], [0, 0, 1, 1], [0, 1, 1, 1]])
        array([-0.69314718, -0.69314718,        -inf])
        """
        from sojourn.data.as_sequences import as_sequences
        from sojourn.exact.forward import log_prob

        vocabulary = np.arange(self.n_symbols, dtype=np.int64)
        sequences = as_sequences(X, vocabulary=vocabulary, empty=self.ends)
        return log_prob(self, sequences, n_jobs=n_jobs)


def check_without_tail_or_end(params: Params, what: str) -> None:
    """Raise an error where a model has more than the paper's, whose class `what` is about."""
    if params.tail.any() or params.ends:
        raise SojournError(
            f"{what} is about models of the paper, without tails and ends; give Params without "
            f"tail= and end=, such as those of HSMM(tail=False)"
        )


def allows_self_transitions(
    n_states: int, max_duration: int, self_transitions: bool | None = None
) -> bool:
    """Whether a state may follow itself, given what was asked for."""
    if self_transitions is None:
        return n_states == 1 or max_duration == 1
    if not self_transitions and n_states == 1:
        raise SojournError(
            "self_transitions=False leaves a single state nowhere to go; "
            "use two states or more, or leave self_transitions=None"
        )
    return self_transitions


def _numbers(name: str, values: ArrayLike, dimensions: int) -> NDArray[np.float64]:
    """A copy of a table of finite numbers that are not negative, or an error."""
    try:
        table = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise SojournError(f"{name} is not a table of numbers: {error}") from None
    if table.ndim != dimensions or table.size == 0:
        raise SojournError(
            f"{name} has shape {table.shape}; it needs {dimensions} "
            f"dimension{'s' if dimensions > 1 else ''} and at least one entry"
        )
    bad = ~np.isfinite(table) | (table < 0.0)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise SojournError(
            f"{name}{list(where)} is {table[where]}; probabilities are finite and not negative"
        )
    return table


def _each_state(name: str, values: ArrayLike | None, n_x: int) -> NDArray[np.float64] | None:
    """A read-only copy of one probability per state; no tail is one of zero."""
    if values is None and name == "end":
        return None
    table = np.zeros(n_x) if values is None else _numbers(name, values, 1)
    if table.shape != (n_x,):
        raise SojournError(f"{name} has shape {table.shape}; with {n_x} states it needs {(n_x,)}")
    high = np.flatnonzero((table >= 1.0) if name == "tail" else (table > 1.0))
    if high.size:
        limit = "below 1, or stays never end" if name == "tail" else "at most 1"
        raise SojournError(f"{name}[{high[0]}] is {table[high[0]]:.10g}; it must be {limit}")
    table[table < LEAST] = 0.0
    table.flags.writeable = False
    return table


def _empty(value: float, end: NDArray[np.float64] | None) -> float:
    """The probability of an empty sequence, or an error."""
    if not isinstance(value, int | float | np.floating) or not 0.0 <= value < 1.0:
        raise SojournError(f"empty is {value!r}; expected a probability below 1")
    if value > 0.0 and end is None:
        raise SojournError("empty is above 0, but ends are not part of the model; give end= too")
    return float(value)


def _stochastic(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """A read-only copy of a table whose rows are probability distributions, or an error."""
    dimensions = 1 if name == "start" else 2
    table = _numbers(name, values, dimensions)
    with np.errstate(over="ignore"):
        sums = np.atleast_1d(table.sum(-1))
    off = np.flatnonzero(np.abs(sums - 1.0) > ROW_TOLERANCE)
    if off.size:
        row = f"row {off[0]} of {name}" if dimensions == 2 else name
        raise SojournError(f"{row} sums to {sums[off[0]]:.10g}, not to 1; divide it by its sum")
    table.flags.writeable = False
    return table
