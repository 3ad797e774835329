"""The most probable hidden path: states, and where stays begin.

Scores are logarithms. M_t[x, r] is the best log p of o_1 ... o_t and a path that is in state x at
step t with r steps remaining, counting this one:

    M_t[x, r] = log b(x) + max(M_t-1[x, r + 1], E_t[x] + log D[x, r])
    E_t[x]    = max_y M_t-1[y, 1] + log A[y, x]

and, for a stay in its tail, M_t[x, n_d] + log tail[x] is one more way to M_t+1[x, n_d].

Of these only M_t[x, 1], the best score of a stay in x that ends at t, and M_t[x, n_d] are kept.
Backtracking finds again, for each stay of the best path, where it began and what came before:
O(n_x n_d) per stay, O(n_x) per step in a tail, and two numbers per step and state in place of a
table. Without ends the last stay is right-censored: it counts for all durations it may have had,
log P(D >= d). Of equals the shorter stay and the lower state win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.exact.forward import (
    KERNEL,
    LANES,
    Floats,
    Tables,
    p_empty,
    split_steps,
    surprise,
    tables,
)
from sojourn.exact.observed import Observed
from sojourn.scale.threads import chunks, each

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.exact.params import Params


class Decoded(NamedTuple):
    """The best path of each sequence, all sequences end to end."""

    states: NDArray[np.int32]  # at every step; -1 where the sequence is impossible
    begins: NDArray[np.bool_]  # whether a stay begins at that step
    log_prob: Floats  # log p(path, sequence) of each sequence, -inf where it is impossible
    impossible_at: NDArray[np.int64]  # of each sequence: the step at which no path is left, or -1


class Seen(NamedTuple):
    """What backtracking needs of one sequence."""

    ends: Floats  # M_t[x, 1]                                                (longest, n_x)
    tops: Floats  # M_t[x, n_d]                                              (longest, n_x)
    codes: NDArray[np.int32]
    start: int  # where the sequence begins in codes


@njit(**KERNEL)
def _enter(ends, t, A, enter) -> None:  # type: ignore[no-untyped-def]
    """E[x] = max_y ends[t, y] + A[y, x] for all x."""
    for h in range(A.shape[1]):
        e0, e1, e2, e3 = -np.inf, -np.inf, -np.inf, -np.inf
        for y in range(A.shape[0]):
            ended = ends[t, y]
            e0 = max(e0, ended + A[y, h, 0])
            e1 = max(e1, ended + A[y, h, 1])
            e2 = max(e2, ended + A[y, h, 2])
            e3 = max(e3, ended + A[y, h, 3])
        enter[4 * h], enter[4 * h + 1], enter[4 * h + 2], enter[4 * h + 3] = e0, e1, e2, e3


@njit(**KERNEL)
def _entry(seen, A, x, s) -> tuple[float, int]:  # type: ignore[no-untyped-def]
    """The best score at which x is entered at step s, and the state before; -1 for none."""
    if s == 0:
        return 0.0, -1
    e, y = -np.inf, -1
    for z in range(A.shape[0]):
        score = seen.ends[s - 1, z] + A[z, x // LANES, x % LANES]
        if score > e:
            e, y = score, z
    return e, y


@njit(**KERNEL)
def _stay_before(  # type: ignore[no-untyped-def]
    seen, model, t, x, durations, first_durations, release
) -> tuple[float, int, int]:
    """The best stay in x whose last step is t - 1: its score, length, and the state before it.

    Lengths weigh as in `durations`, or `first_durations` for a stay that begins with the sequence;
    `release` is what leaving the tail adds.
    """
    init, A, D, B, hold, _ = model
    n_d = D.shape[1]
    top, length, source = -np.inf, 0, -1
    emitted = 0.0
    for d in range(1, min(t, n_d - 1) + 1):
        s = t - d
        emitted += B[seen.codes[seen.start + s], x]
        e, y = _entry(seen, A, x, s)
        score = e + emitted + (durations[x, d - 1] if s > 0 else first_durations[x, d - 1])
        if score > top:
            top, length, source = score, d, y
    s = t - n_d
    if s < 0 or seen.tops[s, x] + emitted + release[x] <= top:
        return top, length, source
    top = seen.tops[s, x] + emitted + release[x]
    while True:  # how long it was held in the tail
        e, y = _entry(seen, A, x, s)
        entering = e + (D[x, n_d - 1] if s > 0 else init[x, n_d - 1])
        if s == 0 or entering >= seen.tops[s - 1, x] + hold[0, x]:
            return top, t - s, y
        s -= 1


@njit(**KERNEL)
def _viterbi_chunk(model, tails, codes, offsets, first, last, found):  # type: ignore[no-untyped-def]
    """The best paths of some sequences; `model` holds logarithms, `tails` are log P(D >= d)."""
    (init, A, D, B, hold, stop), (init_tail, tail) = model, tails
    n_x, n_d = D.shape
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    best = np.full((n_x, n_d + 1), -np.inf)
    enter = np.zeros(LANES * A.shape[1])
    ends, tops = np.zeros((longest, n_x)), np.zeros((longest, n_x))
    no_release = np.zeros(n_x)
    for i in range(first, last):
        start = offsets[i]
        n = offsets[i + 1] - start
        if n == 0:
            continue
        seen = Seen(ends, tops, codes, start)
        for t in range(n):
            if t > 0:
                _enter(ends, t - 1, A, enter)
            for x in range(n_x):
                b = B[codes[start + t], x]
                if t == 0:
                    for r in range(n_d):
                        best[x, r] = b + init[x, r]
                else:
                    e = enter[x]
                    best[x, n_d] = best[x, n_d - 1] + hold[0, x]
                    best[x, n_d - 1] += hold[1, x]
                    for r in range(n_d):  # reads ahead of what it writes, so that it vectorises
                        staying = best[x, r + 1]
                        entering = e + D[x, r]
                        best[x, r] = b + (entering if entering > staying else staying)
                ends[t, x], tops[t, x] = best[x, 0], best[x, n_d - 1]
        top, state, length, source = -np.inf, -1, n, -1
        for x in range(n_x):
            if stop.size > 0:
                score, d, y = _stay_before(seen, model, n, x, D, init, hold[1])
                score += stop[x]
            else:
                score, d, y = _stay_before(seen, model, n, x, tail, init_tail, no_release)
            if score > top:
                top, state, length, source = score, x, d, y
        found.log_prob[i] = top
        t = n
        while t > 0:
            for s in range(t - length, t):
                found.states[start + s] = state
                found.begins[start + s] = s == t - length and state >= 0
            t -= length
            if t > 0:
                state = source
                _, length, source = _stay_before(seen, model, t, state, D, init, hold[1])


def _tails(table: Floats) -> Floats:
    """Sums of each row from every entry to its end: P(D >= d)."""
    return np.ascontiguousarray(np.cumsum(table[:, ::-1], axis=1)[:, ::-1])


def decode(
    params: Params, sequences: Sequences, initial: Floats | None = None, n_jobs: int | None = None
) -> Decoded:
    """The most probable states and stays of each sequence (Viterbi).

    Codes are below ``params.n_symbols``, or -1 where missing; `initial` is as in
    :func:`sojourn.exact.forward.tables`.

    Examples
    --------
    >>> from sojourn import Params, Sequences
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> best = decode(p, Sequences.from_lists([[0, 0, 1, 0], [0, 1, 1, 1]]))
    >>> best.states, best.impossible_at
    (array([ 0,  0,  1,  0, -1, -1, -1, -1], dtype=int32), array([-1,  1]))
    """
    codes, offsets = sequences.codes, sequences.offsets
    model = tables(params, initial)
    with np.errstate(divide="ignore"):
        logs = Tables(*map(np.log, model))
        tails = np.log(_tails(model.init)), np.log(_tails(params.duration))
        empty = float(np.log(p_empty(params)))
    found = Decoded(
        states=np.empty(len(codes), dtype=np.int32),
        begins=np.empty(len(codes), dtype=np.bool_),
        log_prob=np.full(len(offsets) - 1, empty),
        impossible_at=np.full(len(offsets) - 1, -1, dtype=np.int64),
    )

    observed = Observed(params, sequences)

    def run(bounds: tuple[int, int]) -> None:
        B, top = observed.rows(logs.B, *bounds, log=True)
        _viterbi_chunk(logs._replace(B=B), tails, observed.codes, offsets, *bounds, found)
        observed.add_tops(found.log_prob, top, *bounds)

    each(run, chunks(offsets), n_jobs)
    impossible = np.flatnonzero(found.log_prob == -np.inf)
    if impossible.size:
        those = sequences[impossible]
        steps = split_steps(surprise(params, those, initial, n_jobs), those.offsets, params.ends)
        found.impossible_at[impossible] = [int(np.argmax(np.isinf(row))) for row in steps]
    return found


class Segment(NamedTuple):
    """One stay in a state: its first step, its length, the state, and how sure that is."""

    start: int
    length: int
    state: int
    confidence: float


def stays(found: Decoded, gamma: Floats, offsets: NDArray[np.int64]) -> list[list[Segment]]:
    """The stays of each decoded path; the confidence of a stay is the mean of gamma over it.

    `gamma` holds posterior state probabilities, (n_total, n_states).
    """
    sure = gamma[np.arange(len(gamma)), found.states]
    at = np.flatnonzero(found.begins)
    sizes = np.diff(np.append(at, len(sure)))
    means = np.add.reduceat(sure, at) / sizes
    owner = np.searchsorted(offsets, at, side="right") - 1
    columns = (at - offsets[owner], sizes, found.states[at], means)
    rows: list[list[Segment]] = [[] for _ in range(len(offsets) - 1)]
    for i, *stay in zip(owner.tolist(), *(c.tolist() for c in columns), strict=True):
        rows[i].append(Segment(*stay))
    return rows
