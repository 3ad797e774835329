"""Simulated flight approaches: which of nine commands the pilot changed last, second by second.

Each flight is flown: an aircraft with an altitude and a speed, a clearance that steps down level by
level, and a pilot with habits. Commands follow from what the aircraft does (a gate of altitude or
speed is crossed) and from the pilot's own rhythm, on tracks that run side by side, so a flight is
not a walk through a handful of hidden states.
"""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.checks import check_choice, positive_int
from sojourn.data.sequences import Sequences
from sojourn.exact.draw import seeds_for, uniform
from sojourn.exact.params import Rng
from sojourn.scale.threads import each

COMMANDS = (
    "airbrake",
    "airspeed",
    "altitude",
    "flaps",
    "heading",
    "mach",
    "throttle",
    "vertical_mode",
    "vertical_speed",
)
PHASES = ("descent", "level", "intercept", "final", "flare", "rollout", "holding")
ANOMALIES = ("fast_descent", "airbrake", "aborted_descent", "missing_flaps", "rare_events")
SHORTEST, LONGEST = 500, 4000

AIRBRAKE, AIRSPEED, ALTITUDE, FLAPS, HEADING, MACH, THROTTLE, MODE, VERTICAL_SPEED = range(9)
DESCENT, LEVEL, INTERCEPT, FINAL, FLARE, ROLLOUT, HOLDING = range(7)
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


@njit(cache=True, nogil=True)
def _burst(stream: NDArray[np.uint64], fewest: int, most: int) -> int:
    """The seconds for which a knob is turned."""
    return fewest + int(_u(stream) * (most - fewest + 1))


@njit(cache=True, nogil=True)
def _next_command(waiting: NDArray[np.int64], since: NDArray[np.int64]) -> int:
    """The command asked for first among those waiting, or -1: one hand, one knob a second."""
    chosen = -1
    for c in range(waiting.size):
        if waiting[c] > 0 and (chosen < 0 or since[c] < since[chosen]):
            chosen = c
    return chosen


@njit(cache=True, nogil=True)
def _fly(stream, kind, rhythm, gates, crossover, codes, phases):  # type: ignore[no-untyped-def]
    """One flight into `codes` and `phases`; its length, or 0 where it would not end in them."""
    # The pilot's habits: tempo, of the pilot and of each command; style; gates.
    tempo = _lognormal(stream, 1.0, 0.18)
    own = np.empty(9)
    for c in range(9):
        own[c] = tempo * _lognormal(stream, 1.0, 0.22)
    open_descents = _u(stream) < 0.4  # idle descents at a set speed, no vertical speed selected
    manual_thrust = _u(stream) < 0.35
    tolerance = _u(stream, 18.0, 45.0)  # knots too fast before the airbrake comes out
    brake_gap = _u(stream, 3.0, 8.0)
    gate_habit = 6.0 * _u(stream, -1.0, 1.0)
    turns = 1 + int(_u(stream) * 3)  # how long a knob is turned
    retracts_early = _u(stream) < 0.5

    # The clearance: levels to stop at, the last one the altitude of the intercept.
    start = _u(stream, 9_000.0, 35_000.0)
    last_level = 100.0 * np.round(_u(stream, 25.0, 40.0))
    n_levels = 1 + int(_u(stream) * (1.0 + start / 12_000.0))
    levels = np.empty(n_levels)
    for j in range(n_levels):
        levels[j] = last_level + (start - 2_000.0 - last_level) * _u(stream)
    levels[0] = last_level
    levels = np.sort(levels)[::-1]
    sink = _u(stream, 22.0, 34.0)  # feet a second
    aim = _u(stream, 132.0, 146.0)  # knots over the threshold

    # What is unusual about the flight.
    abort_at, abort_for, brake_at = -1.0, 0.0, -1.0
    if kind == FAST:
        sink *= _u(stream, 1.7, 2.2)
    elif kind == ABORTED:
        abort_at = last_level + _u(stream, 500.0, 0.6 * (start - last_level))
        abort_for = _lognormal(stream, 500.0, 0.35)
    elif kind == BRAKING:
        brake_at = _u(stream, 20.0, 200.0)
    rare_left, rare_at = 0, -1.0
    if kind == RARE:
        rare_left, rare_at = 8 + int(_u(stream) * 12), _u(stream, 30.0, 300.0)

    waiting, since = np.zeros(9, np.int64), np.zeros(9, np.int64)
    timers = np.full(9, -1.0)  # seconds until a command's next correction
    h, v, wanted = start, _u(stream, 270.0, 300.0), 290.0
    k, phase, entered, left = 0, DESCENT, 0, 0.0
    stage = 0  # flaps out
    braked, captured, established, cleaned = False, False, False, False
    resume = DESCENT
    symbol = ALTITUDE
    waiting[ALTITUDE], waiting[MODE] = 2 + turns, 1
    since[ALTITUDE] = -1  # the clearance to descend comes first
    for t in range(codes.size):
        before = phase
        # The vertical track: altitude against clearance.
        if phase == DESCENT:
            rate = sink * (1.0 + 0.15 * np.sin(0.011 * t + start))
            h -= rate * (1.2 if braked else 1.0)
            if not captured and h < levels[k] + 600.0:
                captured = True  # the autopilot captures the altitude before it is reached
                waiting[MODE] += 1
            if abort_at > 0.0 and h < abort_at:
                phase, left, abort_at, resume = HOLDING, abort_for, -1.0, DESCENT
            elif h <= levels[k]:
                h, phase = levels[k], LEVEL
                if k == n_levels - 1:
                    left = _lognormal(stream, 150.0, 0.85)
                else:
                    left = _lognormal(stream, 110.0, 0.55)
                if kind == FAST:
                    left *= 0.4
        elif phase == LEVEL:
            left -= 1.0
            if left <= 0.0:
                k += 1
                phase = DESCENT if k < n_levels else INTERCEPT
                left = 25.0 + _lognormal(stream, 60.0, 0.4)
        elif phase == INTERCEPT:
            left -= 1.0
            if left <= 0.0:
                phase = FINAL
        elif phase == FINAL:
            h -= 0.0885 * v  # three degrees
            if h <= 45.0:
                phase, left = FLARE, _u(stream, 4.0, 10.0)
        elif phase == FLARE:
            left -= 1.0
            if left <= 0.0:
                phase, left = ROLLOUT, 25.0 + _lognormal(stream, 16.0, 0.4)
        elif phase == ROLLOUT:
            left -= 1.0
            v = max(v - 3.5, 15.0)
            if left <= 0.0:
                return t
        else:  # the hold: up again, and round
            h = min(h + 12.0, levels[k] + 3_000.0)
            left -= 1.0
            if left <= 0.0:
                phase = resume
        if phase != before:
            entered = t
            if phase == DESCENT:
                captured = False
                waiting[ALTITUDE] += _burst(stream, 1, 2 + turns)
                waiting[MODE] += 1
                waiting[THROTTLE] += _burst(stream, 1, 2)
                if not open_descents:
                    waiting[VERTICAL_SPEED] += _burst(stream, 1, 2 + turns)
            elif phase == LEVEL:
                waiting[THROTTLE] += _burst(stream, 1, 3)
            elif phase == INTERCEPT:
                established = False
                waiting[HEADING] += _burst(stream, 2, 3 + turns)
            elif phase == FINAL:
                waiting[THROTTLE] += _burst(stream, 1, 2)
                waiting[ALTITUDE] += _burst(stream, 1, 1 + turns)  # of a missed approach
            elif phase == FLARE:
                waiting[THROTTLE] += _burst(stream, 2, 4)
            elif phase == ROLLOUT:
                waiting[AIRBRAKE] += _burst(stream, 1, 2)
                waiting[THROTTLE] += _burst(stream, 2, 5)
            elif phase == HOLDING:
                waiting[MODE] += 2
                waiting[ALTITUDE] += _burst(stream, 3, 6 + turns)
                waiting[THROTTLE] += _burst(stream, 2, 5)
                waiting[HEADING] += _burst(stream, 2, 5)
        if phase == INTERCEPT and not established and t - entered > 12.0 * tempo:
            established = True
            waiting[MODE] += 1

        # The speed track: what is wanted falls with altitude and phase, the aircraft follows.
        goal = 290.0
        if h < 11_000.0 + 200.0 * gate_habit:
            goal = 250.0
        if k == n_levels - 1 and phase == LEVEL:
            goal = 215.0
        if phase == INTERCEPT:
            goal = 185.0
        if phase == FINAL:
            goal = 165.0 if h > 1_700.0 + 50.0 * gate_habit else aim
        if phase in (FLARE, ROLLOUT):
            goal = aim
        if phase == HOLDING:
            goal = 220.0
        if goal != wanted and phase < FLARE:
            wanted = goal
            waiting[AIRSPEED] += _burst(stream, 2, 4 + turns)
        if phase < ROLLOUT:
            slowing = 0.35 if phase == DESCENT else 0.75
            slowing += 0.12 * stage + (0.5 if braked else 0.0)
            v = max(v - slowing, wanted) if v > wanted else min(v + 0.8, wanted)

        # The configuration track: flaps by speed, the airbrake where speed is too high.
        ready = phase in (FINAL, INTERCEPT) or (phase == LEVEL and k == n_levels - 1)
        if stage < 5 and ready and v < gates[stage] + gate_habit:
            stage += 1
            if kind != NO_FLAPS:
                waiting[FLAPS] += _burst(stream, 1, 2)
        if phase == ROLLOUT and retracts_early and not cleaned and left < 15.0 * tempo:
            cleaned = True
            if kind != NO_FLAPS:
                waiting[FLAPS] += _burst(stream, 1, 3)
        if phase < FLARE and brake_at < 0.0:
            if not braked and v - wanted > tolerance and phase == DESCENT:
                braked = True
                waiting[AIRBRAKE] += _burst(stream, 1, 2)
            elif braked and v - wanted < brake_gap:
                braked = False
                waiting[AIRBRAKE] += _burst(stream, 1, 2)
        elif phase < FLARE and t > brake_at:  # out and in again, needed or not
            braked = not braked
            waiting[AIRBRAKE] += _burst(stream, 1, 3)
            brake_at = t + _lognormal(stream, 12.0 if braked else 45.0, 0.5)

        # The pilot's own rhythm: a timer a command, which a change of phase does not reset.
        for c in range(9):
            every = rhythm[phase, c]
            if c == THROTTLE and manual_thrust and phase == FINAL:
                every *= 0.35
            if c == VERTICAL_SPEED and open_descents:
                every *= 4.0
            if c == MACH and h < crossover:
                every = 0.0
            if c == AIRSPEED and h >= crossover:
                every = 0.0
            if kind == FAST and phase == DESCENT and c in (VERTICAL_SPEED, THROTTLE):
                every *= 0.4
            if kind == NO_FLAPS and stage > 0 and c in (AIRSPEED, THROTTLE):
                every *= 0.6  # a clean aircraft is hard to slow down
            if every == 0.0:
                continue
            if timers[c] < 0.0:
                timers[c] = _lognormal(stream, every * own[c], 0.45) * _u(stream)
            timers[c] -= 1.0
            if timers[c] < 0.0:
                timers[c] = _lognormal(stream, every * own[c], 0.45)
                waiting[c] += _burst(stream, 1, turns)
        if rare_left > 0 and t > rare_at and phase < FLARE:
            rare_left -= 1
            rare_at = t + _lognormal(stream, 40.0, 0.7)
            odd = int(_u(stream) * 3)
            if odd == 0:
                waiting[MACH if h < crossover else FLAPS] += _burst(stream, 1, 3)
            elif odd == 1:
                waiting[VERTICAL_SPEED if phase != DESCENT else AIRBRAKE] += _burst(stream, 1, 3)
            else:
                waiting[MODE] += _burst(stream, 2, 4)

        # One knob a second, the one asked for first; without one the last symbol stays.
        for c in range(9):
            if waiting[c] == 0:
                since[c] = t
        c = _next_command(waiting, since)
        if c >= 0:
            waiting[c] -= 1
            symbol = c
        codes[t] = symbol
        phases[t] = phase
    return 0


@njit(cache=True, nogil=True)
def _fly_chunk(seeds, kind, rhythm, gates, crossover, shortest, longest):  # type: ignore[no-untyped-def]
    n = seeds.size
    codes = np.empty((n, longest), np.int8)
    phases = np.empty((n, longest), np.int8)
    lengths = np.zeros(n, np.int64)
    stream = np.empty(2, np.uint64)
    for i in range(n):
        stream[0], stream[1] = seeds[i], np.uint64(0)
        # A flight that does not fit is flown again by another pilot, further down its stream.
        while lengths[i] < shortest:
            lengths[i] = _fly(stream, kind, rhythm, gates, crossover, codes[i], phases[i])
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

    A symbol a second: the command changed in that second, or, where none was, the one changed
    last (as `events_from_changes` has it with ``idle="hold"``). Flights last 500 to 4,000 seconds.

    Parameters
    ----------
    n : int
        Number of flights.
    rng : None, int or Generator
        Where the flights come from; a number gives the same flights each time, whatever the
        number of threads.
    anomaly : str, optional
        What is unusual about every one of the flights, one of `ANOMALIES`; nothing if not given.
    return_phases : bool
        Also return the phase of every second, as sequences over `PHASES`.
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
    kind = 0 if anomaly is None else 1 + ANOMALIES.index(anomaly)
    seeds = seeds_for(n, rng)

    def fly(first: int) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int64]]:
        chunk = seeds[first : first + _FLIGHTS_PER_CHUNK]
        codes, phases, lengths = _fly_chunk(
            chunk, kind, _RHYTHM, _FLAP_GATES, _CROSSOVER, SHORTEST, LONGEST
        )
        flown = np.arange(LONGEST) < lengths[:, None]
        return codes[flown], phases[flown], lengths

    codes, phases, lengths = zip(*each(fly, range(0, n, _FLIGHTS_PER_CHUNK), n_jobs), strict=True)
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
    ids = np.arange(n)
    flights = Sequences(np.concatenate(codes).astype(np.int32), offsets, np.array(COMMANDS), ids)
    if not return_phases:
        return flights
    vocabulary, code_of = np.unique(PHASES, return_inverse=True)
    phase_codes = code_of.astype(np.int32)[np.concatenate(phases)]
    return flights, Sequences(phase_codes, offsets, vocabulary, ids)
