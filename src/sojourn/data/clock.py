"""Events with times as one symbol per step of a clock, or as symbols that name the gap after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import check_choice
from sojourn.data import adapters, times
from sojourn.errors import SojournError

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences

FILLS = ("hold", "nothing", "missing", "commonest")
MOST_STEPS = 2**31  # more is a mistake in `every`


@dataclass(frozen=True)
class Clock:
    """How events become steps of a clock (`every`), or symbols with the gap after them (`gaps`).

    The arguments are those of `Sequences.resample` and `Sequences.with_gaps`, as text.
    """

    every: str | None = None
    fill: str = "hold"
    nothing: str | int = "nothing"
    max_gap: str | None = None
    gap: str = "split"
    zone: str | None = None
    gaps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("fill", self.fill, FILLS)
        check_choice("gap", self.gap, ("split", "missing"))
        if (self.every is None) == (not self.gaps):
            raise SojournError("pass every= or gaps=, not both: a step of a clock has no gap")

    @classmethod
    def of(
        cls,
        every: Any = None,
        fill: str = "hold",
        max_gap: Any = None,
        zone: str | None = None,
        gaps: Any = None,
    ) -> Clock | None:
        """The clock that arguments of `sojourn.read` ask for; None where they ask for none."""
        details = fill != "hold" or max_gap is not None
        if isinstance(every, Clock):
            if details or zone is not None:
                raise SojournError("every= is a Clock, which has its own fill=, max_gap= and zone=")
            return every
        if every is None and details:
            raise SojournError("fill= and max_gap= are for steps of a clock; pass every=, too")
        if every is None and gaps is None:
            if zone is not None:
                raise SojournError("zone= is for steps of a clock or gaps; pass every= or gaps=")
            return None
        every = None if every is None else text_of(every, "every")
        max_gap = None if max_gap is None else text_of(max_gap, "max_gap")
        texts = tuple(text_of(gap, "gaps") for gap in gaps or ())
        clock = cls(every, fill, max_gap=max_gap, zone=zone, gaps=texts)
        if zone is not None:
            times.zone_of(zone)
        return clock

    @property
    def unit(self) -> tuple[float, str]:
        """What a step lasts: a number, and the name of the unit."""
        if self.every is None:
            return 1.0, "steps"
        step = times.length_of_time(self.every, "every", dated=self.every[-1].isalpha())
        return step.count, step.name

    def __str__(self) -> str:
        if self.gaps:
            return f"events with gaps {','.join(self.gaps)}"
        return f"steps of {self.every}" + (f", fill {self.fill}" if self.fill != "hold" else "")

    def counts_as(self, other: Clock | None) -> bool:
        """Whether steps of another clock mean the same; where it splits and its zone may differ."""
        return other is not None and self._meaning() == other._meaning()

    def _meaning(self) -> tuple[Any, ...]:
        lengths = [
            (text[-1].isalpha(), times.length_of_time(text, "every", text[-1].isalpha()).seconds)
            for text in (*self.gaps, *([self.every] if self.every else []))
        ]
        return self.every is None, lengths, self.fill, self.nothing

    def apply(self, sequences: Sequences) -> Sequences:
        """The sequences, resampled or with gaps."""
        if sequences.times is None:
            raise SojournError(
                "the sequences have no times; read them with a time column, or pass time= to "
                "from_pandas, from_polars or from_columns"
            )
        if not np.isfinite(sequences.times).all():
            raise SojournError("some times are infinite; expected dates or numbers")
        if self.zone is not None and sequences.times.dtype.kind != "M":
            raise SojournError("zone= is for dates, and the times are numbers; leave zone= out")
        return (
            _resampled(self, sequences) if self.every is not None else _with_gaps(self, sequences)
        )

    def vocabulary(self, symbols: NDArray[Any]) -> NDArray[Any]:
        """The symbols that there can be, of events that have these."""
        if self.gaps:
            return np.unique([f"{symbol}{end}" for symbol in symbols for end in self.endings()])
        if self.fill != "nothing":
            return symbols
        if (symbols.dtype.kind == "U") != isinstance(self.nothing, str):
            raise SojournError(
                f"steps without an event get the symbol {self.nothing!r}, but other symbols are "
                f"such as {symbols[0].item()!r}; pass nothing= a symbol of their type"
            )
        if self.nothing in symbols:
            raise SojournError(f"{self.nothing!r} is the symbol of an event; pass another nothing=")
        return np.sort(np.append(symbols, self.nothing))

    def endings(self) -> list[str]:
        """What follows a symbol: nothing at the end, else `` <1min``, `` 1min-1h``, `` >=1h``."""
        between = [f" {low}-{high}" for low, high in pairwise(self.gaps)]
        return ["", f" <{self.gaps[0]}", *between, f" >={self.gaps[-1]}"]


def check_clock(own: Clock | None, given: Clock | None, timed: bool) -> None:
    """Raise where data do not count the steps that a model counts.

    Data without a clock are events if they are `timed`; else nobody knows, and they pass.
    """
    if own is None and given is not None:
        raise SojournError(
            f"the model was fitted to data without a clock, and X has {given}; pass the events as "
            f"they are, or fit a model to such steps"
        )
    if own is None or (given is None and not timed) or own.counts_as(given):
        return
    cure = f"with_gaps({[*own.gaps]})" if own.gaps else f"resample({own.every!r})"
    raise SojournError(
        f"the model counts {own}, and X holds {given or 'events with times'}; pass X.{cure}, X "
        f"being the events, with the arguments of training"
    )


def common_clock(parts: list[Any]) -> Clock | None:
    """The clock of all parts, which must not differ where they have one; None if one has none."""
    found = [part.clock for part in parts]
    known = [clock for clock in found if clock is not None]
    if odd := [clock for clock in known if not clock.counts_as(known[0])]:
        raise SojournError(
            f"some parts hold {known[0]}, others {odd[0]}; resample their events by one clock"
        )
    return found[0] if len(known) == len(found) else None


def text_of(given: Any, what: str) -> str:
    """A length of time as text; whether it has a unit is checked when the times are known."""
    if isinstance(given, str) and not given.strip()[-1:].isalpha():
        given = float(given) if times.LENGTH.fullmatch(given.strip()) else given
    return str(times.length_of_time(given, what, dated=not isinstance(given, int | float)))


def _resampled(clock: Clock, sequences: Sequences) -> Sequences:
    when: Any = sequences.times
    dated = when.dtype.kind == "M"
    step = times.length_of_time(clock.every, "every", dated)
    tick, start_of = _ticks(when, step, clock.zone)
    owner = np.repeat(np.arange(len(sequences)), sequences.lengths)
    first_of_owner = np.ones(len(owner), dtype=np.bool_)
    first_of_owner[1:] = owner[1:] != owner[:-1]

    long_gap = np.zeros(len(owner), dtype=np.bool_)  # whether the gap before an event is too long
    if clock.max_gap is not None:
        most = times.length_of_time(clock.max_gap, "max_gap", dated).seconds
        long_gap[1:] = seconds(when[1:] - when[:-1]) > most
        long_gap &= ~first_of_owner
    begins = first_of_owner | long_gap if clock.gap == "split" else first_of_owner

    starts = np.flatnonzero(begins)
    piece = np.cumsum(begins) - 1
    n_steps = tick[np.append(starts[1:], len(tick)) - 1] - tick[starts] + 1 if len(tick) else tick
    if (total := n_steps.sum(dtype=np.float64)) > MOST_STEPS:
        raise SojournError(
            f"every={clock.every!r} would make {total:.3g} steps; pass a longer every=, or "
            f"max_gap= to split at long gaps"
        )
    offsets = adapters.offsets_of(n_steps)
    at = offsets[piece] + tick - tick[starts][piece]  # the step of each event

    vocabulary = clock.vocabulary(sequences.vocabulary)
    code_of = np.append(np.searchsorted(vocabulary, sequences.vocabulary), -1).astype(np.int32)
    events = code_of[sequences.codes]
    codes = np.full(offsets[-1], -1, dtype=np.int32)
    chosen = _commonest(at, events) if clock.fill == "commonest" else _last(at)
    filled = np.zeros(len(codes), dtype=np.bool_)
    filled[at[chosen]] = True
    codes[at[chosen]] = events[chosen]
    if clock.fill in ("hold", "commonest"):
        codes = codes[np.maximum.accumulate(np.where(filled, np.arange(len(codes)), 0))]
    elif clock.fill == "nothing":
        codes[~filled] = np.searchsorted(vocabulary, clock.nothing)
    for k in np.flatnonzero(long_gap & ~begins):
        codes[at[k - 1] + 1 : at[k]] = -1

    ids, lengths = _piece_ids(sequences, owner[starts], n_steps)
    steps = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - tick[starts], n_steps)
    made: Sequences = type(sequences)(
        codes, adapters.offsets_of(lengths), vocabulary, ids, times=start_of(steps), clock=clock
    )
    return made


def _ticks(when: NDArray[Any], step: times.Length, zone: str | None) -> tuple[Any, Any]:
    """The step of each event, and a function that gives the times at which steps start."""
    if when.dtype.kind != "M":
        ticks = when / step.count
        ticks = np.floor(ticks + 4 * np.spacing(np.abs(ticks)))  # 0.3 / 0.1 is a bit less than 3
        return ticks.astype(np.int64), lambda tick: tick * step.count
    size = round(step.seconds * 1e6)
    if zone is None or step.unit not in ("d", "w"):
        since = when.astype("M8[us]").astype(np.int64)
        return since // size, lambda tick: (tick * size).view("M8[us]")
    place = times.zone_of(zone)
    tick = (times.local_seconds(when, place) // step.seconds).astype(np.int64)
    return tick, lambda tick: times.from_local((tick * size).view("M8[us]"), place)


def _last(at: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last event of each step that has one."""
    return np.flatnonzero(np.append(at[1:] != at[:-1], True)[: len(at)])


def _commonest(at: NDArray[np.int64], events: NDArray[np.int32]) -> NDArray[np.int64]:
    """An event with the commonest symbol of each step, of equally common ones the last."""
    order = np.lexsort((events, at))  # stable: the last of each group is the last event
    new = np.ones(len(at), dtype=np.bool_)
    new[1:] = (np.diff(at[order]) != 0) | (np.diff(events[order]) != 0)
    group = np.flatnonzero(new)
    size = np.diff(group, append=len(at))
    last = order[group + size - 1]
    size = np.where(events[last] < 0, 0, size)  # a missing symbol only where there is no other
    best = np.lexsort((last, size, at[last]))
    return last[best][_last(at[last][best])]


def _piece_ids(
    sequences: Sequences, owner: NDArray[np.int64], n_steps: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Ids and lengths of the pieces: "a" where it is all of "a", else "a.1", "a.2", ..."""
    n_pieces = np.bincount(owner, minlength=len(sequences))
    if (n_pieces == 1).all():
        return sequences.ids, n_steps
    # an empty sequence has no piece, and stays
    first = np.cumsum(n_pieces) - n_pieces
    ids: list[Any] = []
    lengths: list[int] = []
    for i, name in enumerate(sequences.ids.tolist()):
        k = n_pieces[i]
        ids += [name] if k <= 1 else [f"{name}.{j + 1}" for j in range(k)]
        lengths += n_steps[first[i] : first[i] + k].tolist() if k else [0]
    names = ids if (n_pieces <= 1).all() else list(map(str, ids))
    if len(set(names)) < len(names):
        raise SojournError("the ids of split sequences, such as 'a.2', are ids of others already")
    return np.array(names), np.array(lengths, dtype=np.int64)


def _with_gaps(clock: Clock, sequences: Sequences) -> Sequences:
    when: Any = sequences.times
    dated = when.dtype.kind == "M"
    bounds = [times.length_of_time(gap, "gaps", dated).seconds for gap in clock.gaps]
    if np.any(np.diff(bounds) <= 0):
        raise SojournError(f"gaps is {list(clock.gaps)}; expected lengths of time that increase")
    symbols = sequences.vocabulary
    vocabulary = clock.vocabulary(symbols)
    written = [[f"{symbol}{end}" for end in clock.endings()] for symbol in symbols]
    code_of = np.searchsorted(vocabulary, written)
    stretch = np.zeros(len(when), dtype=np.int64)  # 0 for a last event, which no other follows
    if len(when):
        stretch[:-1] = 1 + np.searchsorted(bounds, seconds(when[1:] - when[:-1]), side="right")
        ends = sequences.offsets[1:][sequences.lengths > 0] - 1
        stretch[ends] = 0
    codes = np.where(sequences.codes < 0, -1, code_of[sequences.codes, stretch]).astype(np.int32)
    used = np.unique(codes[codes >= 0])  # most symbols have a few gaps of all that there can be
    codes = np.where(codes < 0, -1, np.searchsorted(used, codes))
    return replace(sequences, codes=codes, vocabulary=vocabulary[used], clock=clock)


def seconds(gaps: NDArray[Any]) -> NDArray[np.float64]:
    """Differences of times, in seconds or in their own unit."""
    found = gaps / np.timedelta64(1, "s") if gaps.dtype.kind == "m" else gaps
    return np.asarray(found, dtype=np.float64)
