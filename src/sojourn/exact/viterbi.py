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

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.exact.filter import KERNEL, LANES, Floats, Tables, p_empty, tables
from sojourn.exact.forward import split_steps, surprise
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
    n_d: int


@njit(**KERNEL)
def _enter(best, A, enter) -> None:  # type: ignore[no-untyped-def]
    """E[x] = max_y best[y, 0] + A[y, x] for all x."""
    for h in range(A.shape[1]):
        e0, e1, e2, e3 = -np.inf, -np.inf, -np.inf, -np.inf
        for y in range(A.shape[0]):
            ended = best[y, 0]
            e0 = max(e0, ended + A[y, h, 0])
            e1 = max(e1, ended + A[y, h, 1])
            e2 = max(e2, ended + A[y, h, 2])
            e3 = max(e3, ended + A[y, h, 3])
        enter[4 * h], enter[4 * h + 1], enter[4 * h + 2], enter[4 * h + 3] = e0, e1, e2, e3


@njit(**KERNEL)
def _stay_before(  # type: ignore[no-untyped-def]
    seen, model, t, x, durations, first_durations, release
) -> tuple[float, int, int]:
    """The best stay in x whose last step is t - 1: its score, length, and the state before it.

    Lengths weigh as in `durations`, or `first_durations` for a stay that begins with the sequence;
    `release` is what leaving the tail adds.
    """
    init, A, D, B, hold, _ = model
    ends, tops, codes, start, n_d = seen
    top, length, source = -np.inf, 0, -1
    emitted, d = 0.0, 1
    in_tail = False
    while d <= t:
        s = t - d
        e, y = 0.0, -1
        if s > 0:  # the best score at which x is entered at step s, and the state before
            e = -np.inf
            for z in range(A.shape[0]):
                score = ends[s - 1, z] + A[z, x // LANES, x % LANES]
                if score > e:
                    e, y = score, z
        if d < n_d:
            emitted += B[codes[start + s], x]
            score = e + emitted + (durations[x, d - 1] if s > 0 else first_durations[x, d - 1])
            if score > top:
                top, length, source = score, d, y
        else:
            if not in_tail:
                score = tops[s, x] + emitted + release[x]
                if score <= top:
                    return top, length, source
                top, in_tail = score, True
            entering = e + (D[x, n_d - 1] if s > 0 else init[x, n_d - 1])
            if s == 0 or entering >= tops[s - 1, x] + hold[0, x]:
                return top, d, y
        d += 1
    return top, length, source


@njit(**KERNEL)
def _viterbi_chunk(model, tails, codes, offsets, first, last, found):  # type: ignore[no-untyped-def]
    """The best paths of some sequences; `model` holds logarithms, `tails` are log P(D >= d)."""
    (init, A, D, B, hold, stop), (init_tail, tail) = model, tails
    n_x, n_d = tail.shape
    R = D.shape[1]  # n_d, rounded up so that the loops fill vector registers
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    best = np.full((n_x, R + LANES), -np.inf)
    enter = np.zeros(LANES * A.shape[1])
    ends, tops = np.zeros((longest, n_x)), np.zeros((longest, n_x))
    no_release = np.zeros(n_x)
    for i in range(first, last):
        start = offsets[i]
        n = offsets[i + 1] - start
        if n == 0:
            continue
        seen = Seen(ends, tops, codes, start, n_d)
        for x in range(n_x):
            for r in range(R):
                best[x, r] = B[codes[start], x] + init[x, r]
            ends[0, x], tops[0, x] = best[x, 0], best[x, n_d - 1]
        for t in range(1, n):
            _enter(best, A, enter)
            for x in range(n_x):
                b = B[codes[start + t], x]
                e = enter[x]
                held = best[x, n_d - 1]
                for r in range(R):  # reads ahead of what it writes, so that it vectorises
                    staying = best[x, r + 1]
                    entering = e + D[x, r]
                    best[x, r] = b + (entering if entering > staying else staying)
                best[x, n_d - 1] = b + max(e + D[x, n_d - 1], held + hold[0, x])
                if n_d > 1:
                    best[x, n_d - 2] = b + max(e + D[x, n_d - 2], held + hold[1, x])
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
        padded = ((0, 0), (0, -params.max_duration % LANES))
        wide = model._replace(init=np.pad(model.init, padded), D=np.pad(model.D, padded))
        logs = Tables(*map(np.log, wide))
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
    """One stay in a state: its first step, its length, the state, and how sure that is.

    Attributes
    ----------
    start, length : int
        The first step, from 0, and the number of steps.
    state : int
    confidence : float
        Mean posterior probability of the state over the stay.
    name : str
        Of the state.

    Examples
    --------
    >>> from sojourn import HSMM
    >>> model = HSMM(2, 3, random_state=0).fit([["a", "a", "b"] * 10] * 5)
    >>> stay = model.segments([["a", "a", "b"]])[0][0]
    >>> stay.start, stay.length, stay.state, round(stay.confidence, 2), stay.name
    (0, 2, 0, 1.0, 'state 0')
    """

    start: int
    length: int
    state: int
    confidence: float
    name: str


def stays(
    found: Decoded, gamma: Floats, offsets: NDArray[np.int64], names: Sequence[str]
) -> list[list[Segment]]:
    """The stays of each decoded path; the confidence of a stay is the mean of gamma over it.

    `gamma` holds posterior state probabilities, (n_total, n_states); `names` those of the states.
    """
    sure = gamma[np.arange(len(gamma)), found.states]
    at = np.flatnonzero(found.begins)
    sizes = np.diff(np.append(at, len(sure)))
    means = np.add.reduceat(sure, at) / sizes
    owner = np.searchsorted(offsets, at, side="right") - 1
    state = found.states[at]
    columns = (at - offsets[owner], sizes, state, means, np.array(names, dtype=object)[state])
    rows: list[list[Segment]] = [[] for _ in range(len(offsets) - 1)]
    for i, *stay in zip(owner.tolist(), *(c.tolist() for c in columns), strict=True):
        rows[i].append(Segment(*stay))
    return rows
