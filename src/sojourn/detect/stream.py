"""Alarms while symbols arrive, at a rate per step that is known.

At each step there are two numbers: the surprise of the symbol, and the mean surprise of the last
steps, about ten, weighted down into the past. Each becomes a p-value by the steps of sequences held
out of the fit, and so does the smaller of the two: on normal data p-values of steps are uniform,
and a fraction `rate` of the steps raises an alarm.

High values come in clusters, so few steps of normal data say little about rare alarms. How often
the LEVEL highest values are exceeded is learned from those; how the rest of them are distributed,
from many more steps that a model with states draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import check_arrays
from sojourn.data.sequences import Sequences
from sojourn.detect.calibration import check_rate
from sojourn.detect.numbers import surprises
from sojourn.errors import SojournError

if TYPE_CHECKING:
    from sojourn.streams.scorer import OnlineScorer

Floats = NDArray[np.float64]

KEEP = 0.9  # weight of the past in the mean surprise of the last steps
MOST_SURPRISE = 50.0  # nats
SETTLED = 30  # steps after which the recent mean has forgotten where it started
SIZE = 4096  # values kept of each distribution, dense where they are high
LEVEL = 2000  # highest steps of normal data, a tenth at most, that drawn ones replace
DRAWN = (400, 1000)  # sequences that are drawn, and their length
KNOWN = 0.01  # nats per step by which a model knows what it has seen better than what it has not


class Step(NamedTuple):
    """What a stream returns for a symbol.

    Attributes
    ----------
    surprise : float
        In nats; infinite for a novel symbol.
    pvalue : float
        Fraction of normal steps that are as unusual.
    alarm : bool
        Whether the p-value is at most the rate.

    Examples
    --------
    >>> Step(surprise=7.5, pvalue=0.0004, alarm=True)
    Step(surprise=7.5, pvalue=0.0004, alarm=True)
    """

    surprise: float
    pvalue: float
    alarm: bool


@dataclass(frozen=True, eq=False)
class Tail:
    """How many of n normal steps have at least a value."""

    values: Floats  # ascending  (k,)
    above: Floats  # number of steps with at least that value  (k,)

    def __post_init__(self) -> None:
        check_arrays(self, values="float64 k", above="float64 k")
        falls = (np.diff(self.above) < 0).all() and (self.above > 0).all()
        if not len(self.values) or (np.diff(self.values) < 0).any() or not falls:
            raise SojournError("the steps of the detector do not fit together")

    @property
    def n(self) -> float:
        """Number of normal steps."""
        return float(self.above[0])

    def pvalue(self, value: float) -> float:
        """Fraction of normal steps with as high a value, itself included."""
        at = int(self.values.searchsorted(value))
        above = self.above[at] if at < len(self.above) else 0.0
        return float((above + 1) / (self.n + 1))


def learn_tail(values: Floats, drawn: Floats | None = None) -> Tail:
    """The distribution of values of normal steps, in some thousand numbers.

    Above the LEVEL highest it is that of values drawn from the model, if there are as many.
    """
    values, n = np.sort(values), len(values)
    level = min(LEVEL, n // 10)
    if drawn is None or not level:
        above = np.unique(np.rint(np.geomspace(1, n, SIZE)).astype(int))[::-1]
        return Tail(values[n - above], above.astype(np.float64))
    known, start = learn_tail(values), values[n - level]
    if (drawn > start).sum() <= level or start == values[-1]:
        return known
    beyond = learn_tail(drawn[drawn > start])
    # Several steps may have the value itself.
    share = float((values > start).sum()) / beyond.n
    below = known.values <= start
    found = np.append(known.values[below], beyond.values)
    return Tail(found, np.append(known.above[below], share * beyond.above))


@dataclass(frozen=True, eq=False)
class NormalSteps:
    """The steps of normal sequences: surprise, its recent mean, and the lower p-value of both."""

    usual: float  # mean surprise, from which the recent mean starts
    surprise: Tail
    recent: Tail
    both: Tail  # of -log of the lower p-value

    def pvalue(self, surprise: float, recent: float) -> float:
        """The p-value of a step."""
        lower = min(self.surprise.pvalue(surprise), self.recent.pvalue(recent))
        return self.both.pvalue(-np.log(lower))


def observed(model: Any, sequences: Sequences) -> Iterator[Floats]:
    """Surprise of the observed steps of each sequence."""
    codes = np.split(sequences.codes, sequences.offsets[1:-1])
    for steps, code in zip(surprises(model, sequences)[0], codes, strict=True):
        yield steps[code >= 0]


def seen_and_drawn(model: Any, sequences: Sequences) -> tuple[list[Floats], list[Floats]]:
    """Surprises of the sequences a model was fitted on, and of what one with states draws."""
    drawn = model.sample(*DRAWN, random_state=0) if model.has_states else None
    of_drawn = [] if drawn is None else list(observed(model, drawn))
    return list(observed(model, sequences)), of_drawn


def learn_steps(
    rows: Sequence[Floats], own: Sequence[Floats], drawn: Sequence[Floats] = ()
) -> NormalSteps:
    """From the surprises of observed steps of sequences held out of the fit, and of its own model.

    Steps of one state and symbol have nearly one surprise, which differs a little from fold to
    fold: single steps are compared with those of the model of all sequences. Means of steps are
    not so, and would be too low where the model has seen the sequences. `drawn` are surprises of
    sequences that the model has drawn. Without these all are compared with what the model has seen,
    unless it knows that better than what it has not.
    """
    rows, own, drawn = (
        [np.minimum(row, MOST_SURPRISE) for row in some if len(row)] for some in (rows, own, drawn)
    )
    rows = rows or [np.zeros(1)]
    own = own or rows
    if not drawn:
        known = np.concatenate(own).mean() < np.concatenate(rows).mean() - KNOWN
        rows, own = (rows, rows) if known else (own, own)
    every = np.concatenate(rows)
    usual = float(every.mean())
    later, after = _settled(rows, usual)
    surprise, recent, alone = learn_tail(every), learn_tail(after), learn_tail(np.concatenate(own))
    drawn_lower = None
    if drawn:
        more, more_after = _settled(drawn, usual)
        recent, alone = learn_tail(after, more_after), learn_tail(np.concatenate(own), more)
        drawn_lower = _lower(alone, recent, more, more_after)
    both = learn_tail(_lower(surprise, recent, later, after), drawn_lower)
    return NormalSteps(usual, alone, recent, both)


def _lower(surprise: Tail, recent: Tail, steps: Floats, means: Floats) -> Floats:
    """-log of the lower p-value of each step."""
    pairs = zip(steps.tolist(), means.tolist(), strict=True)
    return -np.log([min(surprise.pvalue(a), recent.pvalue(b)) for a, b in pairs])


def _settled(rows: Sequence[Floats], usual: float) -> tuple[Floats, Floats]:
    """Surprises of steps and of the last steps, once the mean has forgotten where it started.

    Streams are long: what sequences do before would make the mean too steady.
    """
    from scipy.signal import lfilter

    means = [lfilter([1 - KEEP], [1, -KEEP], row, zi=[KEEP * usual])[0] for row in rows]
    parts = [slice(SETTLED if len(row) > 2 * SETTLED else 0, None) for row in rows]
    kept = ([row[part] for row, part in zip(some, parts, strict=True)] for some in (rows, means))
    later, after = (np.concatenate(some) for some in kept)
    return later, after


class AlarmStream:
    """Surprise, p-value and alarm of one symbol after another; made by ``detector.stream()``.

    Parameters
    ----------
    scorer : OnlineScorer
        Of the model.
    seen : set
        The symbols that occur in training.
    steps : NormalSteps
        What to compare with.
    rate : float
        Fraction of normal steps that may raise an alarm.
    unknown : {"novel", "missing", "error"}
        As in `AnomalyDetector`.
    units : float, optional
        Of a model of numbers, the surprise that depends on their units alone; no number is novel.

    Examples
    --------
    >>> from sojourn import AnomalyDetector, Params, SpectralHSMM
    >>> p = Params.random(2, 3, 4, rng=0)
    >>> detector = AnomalyDetector(SpectralHSMM(2, 3)).fit(p.sample(200, 60, rng=1))
    >>> stream = detector.stream(rate=0.01)
    >>> stream.update(0).alarm, stream.update(7).alarm
    (False, True)
    """

    def __init__(
        self,
        scorer: OnlineScorer,
        seen: set[str | int],
        steps: NormalSteps,
        rate: float,
        unknown: str,
        units: float | None = None,
    ) -> None:
        least = 1 / (steps.both.n + 1)
        if check_rate("rate", rate, "normal steps") < least:
            raise SojournError(
                f"rate is {rate:g}, but {steps.both.n:.0f} normal steps give p-values of "
                f"{least:.2g} and more, so none could raise an alarm; give a higher rate, or fit "
                f"the detector on more sequences"
            )
        self.scorer, self.rate, self.unknown = scorer, rate, unknown
        self._numbers, self._units = units is not None, units or 0.0
        self._seen, self._steps, self._least, self._recent = seen, steps, least, steps.usual

    @property
    def n_seen(self) -> int:
        """Number of symbols so far."""
        return self.scorer.n_seen

    def update(self, symbol: Any) -> Step:
        """Surprise, p-value and alarm of the next symbol.

        Parameters
        ----------
        symbol : str, int or None
            None for a missing one, which raises no alarm. Of a model of numbers, the values of all
            channels: a number, a row or a mapping, NaN where one is missing.
        """
        missing = symbol is None or (self._numbers and _all_missing(symbol))
        novel = not (missing or self._numbers) and self.unknown == "novel"
        if novel and symbol not in self._seen:
            self.scorer.update(None)
            return Step(float("inf"), self._least, True)
        surprise = self.scorer.update(symbol)
        if missing:
            return Step(0.0, 1.0, False)
        value = min(surprise - self._units, MOST_SURPRISE)
        self._recent = KEEP * self._recent + (1 - KEEP) * value
        p = self._steps.pvalue(value, self._recent)
        return Step(surprise, p, p <= self.rate)

    def reset(self) -> Self:
        """Start a new sequence."""
        self.scorer.reset()
        self._recent = self._steps.usual
        return self

    def fork(self) -> Self:
        """Another stream with the same past; the two continue independently."""
        other = copy(self)
        other.scorer = self.scorer.fork()
        return other


def _all_missing(values: Any) -> bool:
    """Whether a step has no value in any channel."""
    row = [*values.values()] if isinstance(values, Mapping) else np.atleast_1d(values)
    return all(value is None or value != value for value in row)
