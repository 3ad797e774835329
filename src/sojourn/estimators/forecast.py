"""What comes after sequences, step by step, and when: distributions, means and quantiles."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import positive_int
from sojourn.data.adapters import offsets_of
from sojourn.data.clock import seconds
from sojourn.data.end import END
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.errors import SojournError
from sojourn.estimators.numbers import NextValues, next_values
from sojourn.exact.hitting import MOST

if TYPE_CHECKING:
    from sojourn.estimators.base import SequenceModel

Floats = NDArray[np.float64]

HOUR = 3600.0
MOST_STEPS = 1_000_000  # of a forecast, each of which is kept


@dataclass(frozen=True, eq=False)
class TimeTo:
    """How long until something happens, for each of n sequences.

    Times are in steps, or in the unit of the clock that the data had (`unit`).

    Parameters
    ----------
    probabilities : array (n, n_steps)
        Column h is the probability that it happens first after h + 1 steps.
    later : array (n,)
        Probability that it takes longer.
    never : array (n,)
        Probability that the sequence ends before it happens.
    step : float
        How long a step lasts.
    unit : str
        In which unit.

    Examples
    --------
    >>> wait = TimeTo(np.array([[0.5, 0.5]]), np.zeros(1), np.zeros(1), 1.0, "steps")
    >>> wait.mean, wait.quantile(0.9)
    (array([1.5]), array([2.]))
    """

    probabilities: Floats
    later: Floats
    never: Floats
    step: float = 1.0
    unit: str = "steps"

    @property
    def probability(self) -> Floats:
        """That it happens at all, (n,)."""
        return np.asarray(1.0 - self.never)

    @property
    def mean(self) -> Floats:
        """The mean time, (n,); infinite where it may never happen.

        Beyond the last column the chance of each further step is taken to be that of the last.
        """
        n_steps = self.probabilities.shape[1]
        alive = self.later + self.probabilities[:, -1]
        hazard = np.divide(
            self.probabilities[:, -1], alive, out=np.zeros(len(alive)), where=alive > 0
        )
        tail = np.divide(self.later, hazard, out=np.full(len(alive), np.inf), where=hazard > 0)
        tail = np.where(self.later > 1e-9, self.later * n_steps + tail, 0.0)
        steps = self.probabilities @ np.arange(1.0, n_steps + 1) + tail
        return np.where(self.never > 1e-9, np.inf, steps) * self.step

    @property
    def median(self) -> Floats:
        """The time that is as likely too long as too short, (n,)."""
        return self.quantile(0.5)

    def quantile(self, q: float) -> Floats:
        """The least time that is enough with probability q, (n,); infinite where none is."""
        if not 0.0 < q < 1.0:
            raise SojournError(f"q is {q!r}; expected a probability between 0 and 1")
        enough = np.cumsum(self.probabilities, axis=1) >= q - 1e-12
        steps = np.where(enough.any(axis=1), enough.argmax(axis=1) + 1.0, np.inf)
        return np.asarray(steps * self.step)


@dataclass(frozen=True, eq=False)
class Forecast:
    """What comes after each of n sequences, step by step.

    Parameters
    ----------
    probabilities : array (n, horizon, n_outcomes)
        One distribution per step; the last outcome is that the sequence has ended, with ends.
    outcomes : tuple
        The symbols, and `sojourn.END` with ends.
    likeliest : list of lists
        For each sequence the continuation that takes the likeliest outcome at every step, given
        those before; it stops at an end.

    Examples
    --------
    >>> from sojourn import HSMM
    >>> model = HSMM(2, 3, random_state=0).fit([["a", "a", "b"] * 10] * 5)
    >>> ahead = model.forecast([["a", "a", "b", "a"]], horizon=3)
    >>> ahead.outcomes, ahead.likeliest
    (('a', 'b'), [['a', 'b', 'a']])
    """

    probabilities: Floats
    outcomes: tuple[Any, ...]
    likeliest: list[list[Any]]


@dataclass(frozen=True, eq=False)
class Remaining:
    """How long until each of n sequences ends: an estimate, and an interval around it.

    Parameters
    ----------
    time : array (n,)
        The estimate.
    low, high : array (n,)
        The interval; NaN where it is in hours and nothing was held out to learn it from.
    unit : str
        In which unit.

    Examples
    --------
    >>> from sojourn import HSMM
    >>> model = HSMM(3, 2, ends=True, random_state=0).fit([["open", "work", "work", "close"]] * 30)
    >>> left = model.remaining_time([["open", "work"]])
    >>> left.time.round(1), left.unit
    (array([2.]), 'steps')
    """

    time: Floats
    low: Floats
    high: Floats
    unit: str


def mean_gaps(sequences: Sequences) -> Floats | None:
    """Mean time to the next event after each symbol, and that with 0 after last events, (2, n_o).

    In seconds where times are dates. None without times.
    """
    times, n_o = sequences.times, sequences.n_symbols
    if times is None or sequences.clock is not None or sequences.n_total == 0:
        return None
    gaps, follows = np.zeros(len(times)), np.ones(len(times), dtype=np.bool_)
    gaps[:-1] = seconds(times[1:] - times[:-1])
    follows[sequences.offsets[1:][sequences.lengths > 0] - 1] = False
    seen = sequences.codes >= 0
    found = []
    for there in (follows & seen, seen):
        total = np.bincount(sequences.codes[there], (gaps * follows)[there], minlength=n_o)
        n = np.bincount(sequences.codes[there], minlength=n_o)
        overall = total.sum() / max(n.sum(), 1)
        found.append((total + overall) / (n + 1))  # as if each had been seen once more
    return np.array(found)


def remaining_time(
    model: SequenceModel,
    sequences: Sequences,
    held_out: Sequences | None,
    coverage: float,
    prefixes: bool = False,
) -> Remaining | list[Remaining]:
    """How long until each sequence ends; see `SequenceModel.remaining_time`."""
    if prefixes:
        parts, _ = all_prefixes(sequences)
        rest = remaining_time(model, parts, held_out, coverage)
        assert isinstance(rest, Remaining)
        times = (np.split(t, sequences.offsets[1:-1]) for t in (rest.time, rest.low, rest.high))
        return [Remaining(t, low, high, rest.unit) for t, low, high in zip(*times, strict=True)]
    if not 0.0 < coverage < 1.0:
        raise SojournError(f"coverage is {coverage!r}; expected a probability between 0 and 1")
    key, estimate, low, high, unit = _expected_rest(model, sequences, coverage)
    if held_out is not None:
        if held_out.n_total == 0:
            raise SojournError("held_out holds no symbols; expected complete sequences")
        parts, _ = all_prefixes(held_out)
        predicted = _expected_rest(model, parts, coverage)[0]
        actual = _actual_rest(model, held_out)
        if held_out.n_total < (least := (1.0 + coverage) / (1.0 - coverage)):
            warnings.warn(
                f"held_out has {held_out.n_total} events, too few for intervals of {coverage:.0%}, "
                f"which end at infinity; give {least:.0f} or more, of independent sequences",
                stacklevel=3,
            )
        estimate, low, high = _calibrated(key, predicted, actual, coverage)
    return Remaining(estimate, low, high, unit)


def _expected_rest(
    model: SequenceModel, sequences: Sequences, coverage: float
) -> tuple[Floats, Floats, Floats, Floats, str]:
    """The mean, an estimate, an interval where the distribution has one, and the unit."""
    hits = model._hits(sequences, None, None, MOST)
    gaps = getattr(model, "gaps_", None)
    if gaps is None:
        wait, outer = TimeTo(*hits[:3], *model.step_), (1.0 - coverage) / 2.0
        time, low, high = (wait.quantile(q) - wait.step for q in (0.5, outer, 1.0 - outer))
        return wait.mean, time, low, high, wait.unit
    # The gap after the last event, if another follows, and those after the events to come.
    at = np.where(sequences.lengths > 0, sequences.offsets[1:] - 1, sequences.n_total)
    last = np.append(sequences.codes, -1)[at]
    after = np.where(last >= 0, gaps[0][last], 0.0) * (1.0 - hits.first[:, 0])
    time = after + hits.symbols @ gaps[1]
    none = np.full(len(time), np.nan)
    return time / HOUR, time / HOUR, none, none, "hours"


def _actual_rest(model: SequenceModel, sequences: Sequences) -> Floats:
    """The time from each prefix to the end, of complete sequences, as `all_prefixes` lists them."""
    last = np.repeat(sequences.offsets[1:] - 1, sequences.lengths)
    if getattr(model, "gaps_", None) is None:
        return np.asarray((last - np.arange(sequences.n_total)) * model.step_[0])
    if sequences.times is None:
        raise SojournError("held_out has no times; the model was fitted to sequences with times")
    return seconds(sequences.times[last] - sequences.times) / HOUR


def _calibrated(
    key: Floats, predicted: Floats, actual: Floats, coverage: float
) -> tuple[Floats, Floats, Floats]:
    """Median and interval of what was held out and had the same key, or about the same."""
    order = np.argsort(predicted, kind="stable")
    predicted, actual = predicted[order], actual[order]
    k = min(len(actual), max(40, min(len(actual) // 20, 1000)))
    slack = np.where(np.isfinite(key), 1e-9 * (1.0 + np.abs(key)), 0.0)  # of rounding
    first = np.searchsorted(predicted, key - slack)
    last = np.searchsorted(predicted, key + slack, side="right")
    # Those with the same key, if they are enough for an interval; else the k nearest.
    few = last - first < min(k, 2.0 / (1.0 - coverage) - 1.0)
    start = np.clip((first + last) // 2 - k // 2, 0, len(actual) - k)
    windows = np.stack([np.where(few, start, first), np.where(few, start + k, last)], axis=1)
    windows, which = np.unique(windows, axis=0, return_inverse=True)
    found = np.array([_interval(np.sort(actual[a:b]), coverage) for a, b in windows])
    time, low, high = found[which.reshape(-1)].T
    return time, low, high


def _interval(near: Floats, coverage: float) -> tuple[float, float, float]:
    """Median and interval of sorted times, by the quantiles of conformal prediction."""
    k = len(near)
    median = (near[(k - 1) // 2] + near[k // 2]) / 2.0
    near = np.concatenate([[0.0], near, [np.inf]])
    low = int(np.floor((1.0 - coverage) / 2.0 * (k + 1)))
    # Where so many end at once that nothing lies below the interval, all of the rest is above it.
    share = coverage if near[low] == near[1] else (1.0 + coverage) / 2.0
    return median, near[low], near[int(np.ceil(share * (k + 1)))]


def forecast(model: SequenceModel, sequences: Sequences, horizon: int, prefixes: bool) -> Any:
    """Distributions 1, 2, …, `horizon` steps after each sequence, or after each of its prefixes."""
    if positive_int("horizon", horizon) > MOST_STEPS:
        raise SojournError(
            f"horizon is {horizon}; expected at most {MOST_STEPS:,} steps, as all are kept; pass "
            f"fewer, or use predict_next(X, horizon={horizon}) for the distribution that far ahead"
        )
    steps = range(1, horizon + 1)
    outcomes = (*model.vocabulary_.tolist(), *((END,) if model.ends else ()))
    if not prefixes:
        rows = model._next(sequences, steps)
        if model._density is not None:
            return _by_step(model, rows)
        likeliest = [_continued(model, row, outcomes, horizon) for row in sequences]
        return Forecast(rows, outcomes, likeliest)
    walks = [_walk(model, row, steps) for row in _rows(sequences)]
    return walks if model._density is None else [_by_step(model, rows) for rows in walks]


def what_follows(model: SequenceModel, sequences: Sequences, horizon: int, prefixes: bool) -> Any:
    """What comes `horizon` steps after each sequence, or each prefix, the empty one first."""
    if prefixes:
        return [_valued(model, _walk(model, row, [horizon])[:, 0]) for row in _rows(sequences)]
    return _valued(model, model._next(sequences, [horizon])[:, 0])


def _valued(model: Any, p: Floats) -> Any:
    """Probabilities of symbols; or, of states or codes, the values that these have."""
    density = model._density
    return p if density is None else next_values(density, p, model.channels_)


def _by_step(model: Any, rows: Floats) -> NextValues:
    """Values at several steps, with the step as second axis."""
    ahead = [_valued(model, p) for p in rows.swapaxes(0, 1)]
    names = ("mean", "quantiles", "states", "ended")
    found: Any = {name: np.stack([getattr(v, name) for v in ahead], axis=1) for name in names}
    return ahead[0]._replace(**found)


def _rows(sequences: Sequences) -> Iterator[Any]:
    """The steps of each sequence, as a stream takes them."""
    if not isinstance(sequences, Signals):
        yield from sequences
        return
    n = sequences.n_total
    steps = sequences.cut(np.arange(n + 1), np.arange(n))
    for start, stop in pairwise(sequences.offsets.tolist()):
        yield [steps[t : t + 1] for t in range(start, stop)]


def _walk(model: SequenceModel, row: Any, horizons: Sequence[int]) -> Floats:
    """What comes after each prefix of a row: (length + 1, n_horizons, n_outcomes)."""
    stream = model.stream()
    found = [stream._ahead(horizons)]
    for symbol in row:
        stream.update(symbol)
        found.append(stream._ahead(horizons))
    return np.stack(found)


def _continued(model: SequenceModel, row: list[Any], outcomes: Any, horizon: int) -> list[Any]:
    stream, found = model.stream(), []
    if row:
        stream.update_many(row)
    for _ in range(horizon):
        found.append(outcomes[int(stream.predict().argmax())])
        if found[-1] is END:
            break
        stream.update(found[-1])
    return found


def all_prefixes(sequences: Sequences) -> tuple[Sequences, NDArray[np.int64]]:
    """Every prefix of at least one symbol as a sequence of its own, and what it is a prefix of."""
    owner = np.repeat(np.arange(len(sequences)), sequences.lengths)
    lengths = np.arange(len(owner)) - sequences.offsets[owner] + 1
    offsets = offsets_of(lengths)
    at = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - sequences.offsets[owner], lengths)
    return sequences._taken(at, offsets, np.arange(len(owner))), owner
