"""Simulated flight approaches: which of nine commands the pilot changed last, second by second.

An aircraft has an altitude and a speed, a clearance that steps down level by level, and a pilot
with habits. Commands follow from what the aircraft does and from the pilot's own rhythm, on tracks
that run in parallel, so a flight is not a walk through a few hidden states.
"""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.checks import check_choice, positive_int
from sojourn.data.adapters import offsets_of
from sojourn.data.sequences import Sequences
from sojourn.exact.draw import seeds_for, uniform
from sojourn.exact.params import Rng
from sojourn.scale.threads import each

COMMANDS = (
    *("airbrake", "airspeed", "altitude", "flaps", "heading", "mach", "throttle"),
    *("vertical_mode", "vertical_speed"),
)
PHASES = ("descent", "level", "intercept", "final", "flare", "rollout", "holding")
ANOMALIES = ("fast_descent", "airbrake", "aborted_descent", "missing_flaps", "rare_events")
SHORTEST, LONGEST = 500, 4000

AIRBRAKE, AIRSPEED, ALTITUDE, FLAPS, HEADING, MACH, THROTTLE, MODE, VERTICAL_SPEED = range(9)
DESCENT, LEVEL, INTERCEPT, FINAL, FLARE, ROLLOUT, HOLDING, LANDED = range(8)
NORMAL, FAST, BRAKING, ABORTED, NO_FLAPS, RARE = range(6)

# Median seconds between two corrections of a command in each phase; 0 where there are none.
_RHYTHM = np.array(
    [  #  brake speed alt flaps head mach thr mode v/s
        [0, 160, 0, 0, 170, 100, 55, 0, 65],  # descent
        [0, 80, 0, 0, 85, 0, 32, 0, 0],  # level
        [0, 60, 0, 0, 32, 0, 36, 0, 0],  # intercept
        [0, 50, 0, 0, 0, 0, 20, 0, 0],  # final
        [0, 0, 0, 0, 0, 0, 3, 0, 0],  # flare
        [0, 0, 0, 0, 0, 0, 9, 0, 0],  # roll-out
        [0, 75, 110, 0, 24, 0, 22, 55, 70],  # holding
    ],
    dtype=np.float64,
)
# The commands that a new phase asks for: for how many seconds, and whether the habit adds to them.
_OF_PHASE = np.array(
    [  # phase, command, fewest, most, habit
        (DESCENT, ALTITUDE, 1, 2, 1),
        (DESCENT, THROTTLE, 1, 2, 0),
        (DESCENT, VERTICAL_SPEED, 1, 2, 1),
        (LEVEL, THROTTLE, 1, 3, 0),
        (INTERCEPT, HEADING, 2, 3, 1),
        (FINAL, THROTTLE, 1, 2, 0),
        (FINAL, ALTITUDE, 1, 1, 1),  # of a missed approach
        (FLARE, THROTTLE, 2, 4, 0),
        (ROLLOUT, AIRBRAKE, 1, 2, 0),
        (ROLLOUT, THROTTLE, 2, 5, 0),
        (HOLDING, ALTITUDE, 3, 6, 1),
        (HOLDING, THROTTLE, 2, 5, 0),
        (HOLDING, HEADING, 2, 5, 0),
    ]
)
_FLAP_GATES = np.array([225.0, 205.0, 185.0, 168.0, 152.0])  # knots
_CROSSOVER = 27_000.0  # feet: above it speed is set as a Mach number
_FLIGHTS_PER_CHUNK = 64


@njit(cache=True, nogil=True)
def _u(stream: NDArray[np.uint64], low: float = 0.0, high: float = 1.0) -> float:
    """A uniform number of the flight's own stream of (seed, draws so far)."""
    draw = stream[1]
    stream[1] = draw + np.uint64(1)
    return low + (high - low) * uniform(stream[0], draw)


@njit(cache=True, nogil=True)
def _lognormal(stream: NDArray[np.uint64], median: float, spread: float) -> float:
    radius = np.sqrt(-2.0 * np.log(1.0 - _u(stream)))
    return median * np.exp(spread * radius * np.cos(2.0 * np.pi * _u(stream)))


# All about one flight, as a record that functions change in place.
FLIGHT = np.dtype(
    [
        # the pilot's habits; tolerance: knots too fast before the airbrake comes out
        *[("tempo", "f8"), ("own", "f8", 9), ("tolerance", "f8"), ("brake_gap", "f8")],
        *[("gate_habit", "f8"), ("turns", "i8"), ("manual_thrust", "?"), ("retracts_early", "?")],
        ("open_descents", "?"),  # idle descents at a set speed, no vertical speed selected
        # the clearance; sink in feet per second, aim in knots over the threshold
        *[("start", "f8"), ("levels", "f8", 4), ("n_levels", "i8"), ("sink", "f8"), ("aim", "f8")],
        # what is unusual: feet at which the descent is aborted, seconds of other events
        *[("anomaly", "i8"), ("abort_at", "f8"), ("abort_for", "f8"), ("brake_at", "f8")],
        *[("rare_at", "f8"), ("rare_left", "i8")],
        # altitude, speed and the speed wanted; phase, since when, and for how long; level; flaps
        *[("h", "f8"), ("v", "f8"), ("wanted", "f8"), ("phase", "i8"), ("entered", "i8")],
        *[("left", "f8"), ("k", "i8"), ("stage", "i8"), ("braked", "?"), ("captured", "?")],
        *[("established", "?"), ("cleaned", "?")],
        # of each command: seconds still to turn, since when, and until the next correction
        *[("waiting", "i8", 9), ("since", "i8", 9), ("timers", "f8", 9)],
    ]
)


@njit(cache=True, nogil=True)
def _prepare(f, anomaly, stream):  # type: ignore[no-untyped-def]
    """Draw the pilot, the clearance and what is unusual."""
    f.tempo = _lognormal(stream, 1.0, 0.18)
    for c in range(9):
        f.own[c] = f.tempo * _lognormal(stream, 1.0, 0.22)
    f.open_descents, f.manual_thrust = _u(stream) < 0.4, _u(stream) < 0.35
    f.tolerance, f.brake_gap = _u(stream, 18.0, 45.0), _u(stream, 3.0, 8.0)
    f.gate_habit, f.turns = 6.0 * _u(stream, -1.0, 1.0), 1 + int(_u(stream) * 3)
    f.retracts_early = _u(stream) < 0.5
    # Levels to stop at, the last one the altitude of the intercept.
    f.start = _u(stream, 9_000.0, 35_000.0)
    last_level = 100.0 * np.round(_u(stream, 25.0, 40.0))
    f.n_levels = 1 + int(_u(stream) * (1.0 + f.start / 12_000.0))
    levels = np.empty(f.n_levels)
    for j in range(f.n_levels):
        levels[j] = last_level + (f.start - 2_000.0 - last_level) * _u(stream)
    levels[0] = last_level
    f.levels[: f.n_levels] = np.sort(levels)[::-1]
    f.sink, f.aim = _u(stream, 22.0, 34.0), _u(stream, 132.0, 146.0)
    f.anomaly, f.abort_at, f.brake_at = anomaly, -1.0, -1.0
    if anomaly == FAST:
        f.sink *= _u(stream, 1.7, 2.2)
    elif anomaly == ABORTED:
        f.abort_at = last_level + _u(stream, 500.0, 0.6 * (f.start - last_level))
        f.abort_for = _lognormal(stream, 500.0, 0.35)
    elif anomaly == BRAKING:
        f.brake_at = _u(stream, 20.0, 200.0)
    elif anomaly == RARE:
        f.rare_left, f.rare_at = 8 + int(_u(stream) * 12), _u(stream, 30.0, 300.0)
    f.h, f.v, f.wanted = f.start, _u(stream, 270.0, 300.0), 290.0
    f.waiting[ALTITUDE], f.waiting[MODE] = 2 + f.turns, 1
    f.since[ALTITUDE] = -1  # the clearance to descend comes first
    f.timers[:] = -1.0


@njit(cache=True, nogil=True)
def _turn(f, command, fewest, most, stream):  # type: ignore[no-untyped-def]
    """Ask for a command, whose knob is turned for some seconds."""
    f.waiting[command] += fewest + int(_u(stream) * (most - fewest + 1))


@njit(cache=True, nogil=True)
def _descend(f, t, stream):  # type: ignore[no-untyped-def]
    """The vertical track: altitude against clearance gives the phase."""
    f.left -= 1.0
    over, last = f.left <= 0.0, f.k == f.n_levels - 1
    if f.phase == DESCENT:
        f.h -= f.sink * (1.0 + 0.15 * np.sin(0.011 * t + f.start)) * (1.2 if f.braked else 1.0)
        if not f.captured and f.h < f.levels[f.k] + 600.0:
            f.captured = True  # the autopilot captures the altitude before it is reached
            f.waiting[MODE] += 1
        if f.abort_at > 0.0 and f.h < f.abort_at:
            f.phase, f.left, f.abort_at = HOLDING, f.abort_for, -1.0
        elif f.h <= f.levels[f.k]:
            f.h, f.phase = f.levels[f.k], LEVEL
            f.left = _lognormal(stream, 150.0, 0.85) if last else _lognormal(stream, 110.0, 0.55)
            f.left *= 0.4 if f.anomaly == FAST else 1.0
    elif f.phase == LEVEL and over:
        f.phase, f.k = (INTERCEPT if last else DESCENT), f.k + 1
        f.left = 25.0 + _lognormal(stream, 60.0, 0.4)
    elif f.phase == INTERCEPT and over:
        f.phase = FINAL
    elif f.phase == INTERCEPT and not f.established and t - f.entered > 12.0 * f.tempo:
        f.established = True
        f.waiting[MODE] += 1
    elif f.phase == FINAL:
        f.h -= 0.0885 * f.v  # three degrees
        if f.h <= 45.0:
            f.phase, f.left = FLARE, _u(stream, 4.0, 10.0)
    elif f.phase == FLARE and over:
        f.phase, f.left = ROLLOUT, 25.0 + _lognormal(stream, 16.0, 0.4)
    elif f.phase == ROLLOUT:
        f.v = max(f.v - 3.5, 15.0)
        f.phase = LANDED if over else ROLLOUT
    elif f.phase == HOLDING:  # up again, and round
        f.h = min(f.h + 12.0, f.levels[f.k] + 3_000.0)
        f.phase = DESCENT if over else HOLDING


@njit(cache=True, nogil=True)
def _change_phase(f, t, stream):  # type: ignore[no-untyped-def]
    """Ask for the commands of a new phase."""
    f.entered, f.captured, f.established = t, False, False
    f.waiting[MODE] += 1 if f.phase == DESCENT else 2 if f.phase == HOLDING else 0
    for phase, command, fewest, most, habit in _OF_PHASE:
        if phase == f.phase and not (command == VERTICAL_SPEED and f.open_descents):
            _turn(f, command, fewest, most + habit * f.turns, stream)


@njit(cache=True, nogil=True)
def _slow_down(f, stream):  # type: ignore[no-untyped-def]
    """The speed track: what is wanted falls with altitude and phase, the aircraft follows."""
    goal = 250.0 if f.h < 11_000.0 + 200.0 * f.gate_habit else 290.0
    if f.phase == LEVEL and f.k == f.n_levels - 1:
        goal = 215.0
    elif f.phase == INTERCEPT:
        goal = 185.0
    elif f.phase == FINAL:
        goal = 165.0 if f.h > 1_700.0 + 50.0 * f.gate_habit else f.aim
    if goal != f.wanted and f.phase < FLARE:
        f.wanted = goal
        _turn(f, AIRSPEED, 2, 4 + f.turns, stream)
    if f.phase < ROLLOUT:
        slowing = 0.35 if f.phase == DESCENT else 0.75
        slowing += 0.12 * f.stage + (0.5 if f.braked else 0.0)
        f.v = max(f.v - slowing, f.wanted) if f.v > f.wanted else min(f.v + 0.8, f.wanted)


@njit(cache=True, nogil=True)
def _configure(f, t, stream):  # type: ignore[no-untyped-def]
    """The configuration track: flaps by speed, the airbrake where speed is too high."""
    ready = f.phase in (FINAL, INTERCEPT) or (f.phase == LEVEL and f.k == f.n_levels - 1)
    if f.stage < 5 and ready and f.v < _FLAP_GATES[f.stage] + f.gate_habit:
        f.stage += 1
        if f.anomaly != NO_FLAPS:
            _turn(f, FLAPS, 1, 2, stream)
    if f.phase == ROLLOUT and f.retracts_early and not f.cleaned and f.left < 15.0 * f.tempo:
        f.cleaned = True
        if f.anomaly != NO_FLAPS:
            _turn(f, FLAPS, 1, 3, stream)
    if f.phase < FLARE and f.brake_at < 0.0:
        excess = f.v - f.wanted
        out = not f.braked and excess > f.tolerance and f.phase == DESCENT
        if out or (f.braked and excess < f.brake_gap):
            f.braked = out
            _turn(f, AIRBRAKE, 1, 2, stream)
    elif f.phase < FLARE and t > f.brake_at:  # out and in again, needed or not
        f.braked = not f.braked
        _turn(f, AIRBRAKE, 1, 3, stream)
        f.brake_at = t + _lognormal(stream, 12.0 if f.braked else 45.0, 0.5)


@njit(cache=True, nogil=True)
def _correct(f, stream):  # type: ignore[no-untyped-def]
    """The pilot's own rhythm: one timer per command, which a change of phase does not reset."""
    for c in range(9):
        every = _RHYTHM[f.phase, c]
        if c == THROTTLE and f.manual_thrust and f.phase == FINAL:
            every *= 0.35
        if c == VERTICAL_SPEED and f.open_descents:
            every *= 4.0
        if f.anomaly == FAST and f.phase == DESCENT and c in (VERTICAL_SPEED, THROTTLE):
            every *= 0.4
        if f.anomaly == NO_FLAPS and f.stage > 0 and c in (AIRSPEED, THROTTLE):
            every *= 0.6  # a clean aircraft is hard to slow down
        if every == 0.0 or c == (MACH if f.h < _CROSSOVER else AIRSPEED):
            continue
        if f.timers[c] < 0.0:
            f.timers[c] = _lognormal(stream, every * f.own[c], 0.45) * _u(stream)
        f.timers[c] -= 1.0
        if f.timers[c] < 0.0:
            f.timers[c] = _lognormal(stream, every * f.own[c], 0.45)
            _turn(f, c, 1, f.turns, stream)


@njit(cache=True, nogil=True)
def _err(f, t, stream):  # type: ignore[no-untyped-def]
    """Ask for a command where it does not belong."""
    f.rare_left, f.rare_at = f.rare_left - 1, t + _lognormal(stream, 40.0, 0.7)
    odd = int(_u(stream) * 3)
    if odd == 0:
        _turn(f, MACH if f.h < _CROSSOVER else FLAPS, 1, 3, stream)
    elif odd == 1:
        _turn(f, VERTICAL_SPEED if f.phase != DESCENT else AIRBRAKE, 1, 3, stream)
    else:
        _turn(f, MODE, 2, 4, stream)


@njit(cache=True, nogil=True)
def _fly(stream, anomaly, codes, phases):  # type: ignore[no-untyped-def]
    """One flight into `codes` and `phases`; its length, or 0 where it would not end in them."""
    f, symbol = np.zeros(1, FLIGHT)[0], ALTITUDE
    _prepare(f, anomaly, stream)
    for t in range(codes.size):
        before = f.phase
        _descend(f, t, stream)
        if f.phase == LANDED:
            return t
        if f.phase != before:
            _change_phase(f, t, stream)
        _slow_down(f, stream)
        _configure(f, t, stream)
        _correct(f, stream)
        if f.rare_left > 0 and t > f.rare_at and f.phase < FLARE:
            _err(f, t, stream)
        # One knob per second, the one asked for first; without one the last symbol stays.
        first = -1
        for c in range(9):
            if f.waiting[c] == 0:
                f.since[c] = t
            elif first < 0 or f.since[c] < f.since[first]:
                first = c
        if first >= 0:
            f.waiting[first] -= 1
            symbol = first
        codes[t], phases[t] = symbol, f.phase
    return 0


@njit(cache=True, nogil=True)
def _fly_chunk(seeds, anomaly):  # type: ignore[no-untyped-def]
    n = seeds.size
    codes, phases = np.empty((n, LONGEST), np.int8), np.empty((n, LONGEST), np.int8)
    lengths, stream = np.zeros(n, np.int64), np.empty(2, np.uint64)
    for i in range(n):
        stream[0], stream[1] = seeds[i], np.uint64(0)
        # A flight that does not fit is flown again by another pilot, further down its stream.
        while lengths[i] < SHORTEST:
            lengths[i] = _fly(stream, anomaly, codes[i], phases[i])
    return codes, phases, lengths


@overload
def simulate_approaches(
    n: int,
    rng: Rng = ...,
    anomaly: str | None = ...,
    *,
    return_phases: Literal[False] = ...,
    n_jobs: int | None = ...,
) -> Sequences: ...


@overload
def simulate_approaches(
    n: int,
    rng: Rng = ...,
    anomaly: str | None = ...,
    *,
    return_phases: Literal[True],
    n_jobs: int | None = ...,
) -> tuple[Sequences, Sequences]: ...


def simulate_approaches(
    n: int,
    rng: Rng = None,
    anomaly: str | None = None,
    *,
    return_phases: bool = False,
    n_jobs: int | None = None,
) -> Sequences | tuple[Sequences, Sequences]:
    """Simulated flights from the top of descent to the runway, as commands of the pilot.

    One symbol per second: the command changed in that second or, where none was, the one changed
    last (as in `events_from_changes` with ``idle="hold"``). Flights last 500 to 4,000 seconds.

    Parameters
    ----------
    n : int
        Number of flights.
    rng : None, int or Generator
        Source of randomness; a number gives the same flights each time, for any number of
        threads.
    anomaly : str, optional
        What is unusual about all of the flights, one of `ANOMALIES`; nothing if not given.
    return_phases : bool
        Whether to return also the phase of every second, as sequences over `PHASES`.
    n_jobs : int, optional
        Number of threads; every core if not given.

    Returns
    -------
    Sequences, or two of them with `return_phases`
        Over the nine of `COMMANDS`, with ids 0, 1, …

    Examples
    --------
    >>> flights, phases = simulate_approaches(100, rng=0, return_phases=True)
    >>> flights.n_symbols, int(flights.lengths.min()) >= 500, int(flights.lengths.max()) <= 4000
    (9, True, True)
    >>> flights[0][:3], phases[0][-1]
    (['altitude', 'altitude', 'altitude'], 'rollout')
    """
    positive_int("n", n)
    if anomaly is not None:
        check_choice("anomaly", anomaly, ANOMALIES)
    code = 0 if anomaly is None else 1 + ANOMALIES.index(anomaly)
    seeds = seeds_for(n, rng)

    def fly(first: int) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int64]]:
        codes, phases, lengths = _fly_chunk(seeds[first : first + _FLIGHTS_PER_CHUNK], code)
        flown = np.arange(LONGEST) < lengths[:, None]
        return codes[flown], phases[flown], lengths

    codes, phases, lengths = zip(*each(fly, range(0, n, _FLIGHTS_PER_CHUNK), n_jobs), strict=True)
    offsets, ids = offsets_of(np.concatenate(lengths)), np.arange(n)
    flights = Sequences(np.concatenate(codes).astype(np.int32), offsets, np.array(COMMANDS), ids)
    if not return_phases:
        return flights
    vocabulary, code_of = np.unique(PHASES, return_inverse=True)
    phase_codes = code_of.astype(np.int32)[np.concatenate(phases)]
    return flights, Sequences(phase_codes, offsets, vocabulary, ids)
