"""The most probable hidden path: states, and where stays begin.

Scores are logarithms. M_t[x, r] is the best log p of o_1 ... o_t and a path that is in state x at
step t with r steps remaining, counting this one:

    M_t[x, r] = log b(x) + max(M_t-1[x, r + 1], E_t[x] + log D[x, r])
    E_t[x]    = max_y M_t-1[y, 1] + log A[y, x]

Beside each score goes the step at which its stay began, so the way back needs, per step and state,
only the length of the best stay that ends there and the best state before one that begins there.
The last stay is right-censored: it counts for all the durations it may have had, log P(D >= d).
Ties go to the stay that began earlier and to the lower state, the last stay's to the shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.messages import KERNEL, LANES, Floats, shortest_first, surprise, tables
from sojourn.parallel import chunks, each

if TYPE_CHECKING:
    from sojourn.params import Params
    from sojourn.sequences import Sequences


class Decoded(NamedTuple):
    """The best path of each sequence, all sequences end to end."""

    states: NDArray[np.int32]  # at every step; -1 where the sequence is impossible
    begins: NDArray[np.bool_]  # whether a stay begins at that step
    log_prob: Floats  # log p(path, sequence), one a sequence
    impossible_at: NDArray[np.int64]  # the step at which no path is left, -1 if one is; a sequence


@njit(**KERNEL)
def _enter(best, A, enter, before, row):  # type: ignore[no-untyped-def]
    """E[x] = max_y best[y, 0] + A[y, x] for all x, and the y, into a row of enter and before."""
    for h in range(A.shape[1]):
        m0, m1, m2, m3 = -np.inf, -np.inf, -np.inf, -np.inf
        y0, y1, y2, y3 = 0, 0, 0, 0
        for y in range(A.shape[0]):
            ending = best[y, 0]
            if ending + A[y, h, 0] > m0:
                m0, y0 = ending + A[y, h, 0], y
            if ending + A[y, h, 1] > m1:
                m1, y1 = ending + A[y, h, 1], y
            if ending + A[y, h, 2] > m2:
                m2, y2 = ending + A[y, h, 2], y
            if ending + A[y, h, 3] > m3:
                m3, y3 = ending + A[y, h, 3], y
        enter[4 * h], enter[4 * h + 1], enter[4 * h + 2], enter[4 * h + 3] = m0, m1, m2, m3
        before[row, 4 * h], before[row, 4 * h + 1] = y0, y1
        before[row, 4 * h + 2], before[row, 4 * h + 3] = y2, y3


@njit(**KERNEL)
def _viterbi_chunk(  # type: ignore[no-untyped-def]
    init, A, D, B, init_tail, tail, codes, offsets, first, last, states, begins, log_probs
):
    """The best paths of some sequences; all tables are logarithms, the tails log P(D >= d)."""
    n_x, R = D.shape
    n_d = tail.shape[1]
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    best = np.full((n_x, R + LANES), -np.inf)
    since = np.zeros((n_x, R + LANES))  # when the stay began: a double, to share the scores' lanes
    enter = np.zeros(4 * A.shape[1])
    entered = np.zeros((n_d, n_x))  # E of the last n_d steps: the last stay begins at one of them
    stay = np.zeros((longest, n_x), dtype=np.int32)
    before = np.zeros((longest, 4 * A.shape[1]), dtype=np.int32)
    for i in range(first, last):
        start = offsets[i]
        n = offsets[i + 1] - start
        for x in range(n_x):
            b = B[codes[start], x]
            for r in range(R):
                best[x, r] = b + init[x, r]
                since[x, r] = 0.0
            stay[0, x] = 1
        for t in range(1, n):
            _enter(best, A, enter, before, t)
            now = float(t)
            for x in range(n_x):
                b = B[codes[start + t], x]
                e = enter[x]
                entered[t % n_d, x] = e
                for r in range(R):
                    on = best[x, r + 1]
                    fresh = e + D[x, r]
                    best[x, r] = b + (fresh if fresh > on else on)
                    since[x, r] = now if fresh > on else since[x, r + 1]
                stay[t, x] = t - int(since[x, 0]) + 1
        # The last stay is the one place where a duration is not known but bounded.
        top, state, length = -np.inf, 0, 0
        for x in range(n_x):
            seen = 0.0
            for d in range(1, min(n, n_d) + 1):
                t = n - d
                seen += B[codes[start + t], x]
                if t == 0:
                    score = init_tail[x, d - 1] + seen
                else:
                    score = entered[t % n_d, x] + tail[x, d - 1] + seen
                if score > top:
                    top, state, length = score, x, d
        log_probs[i] = top
        for t in range(start, start + n):
            begins[t] = False
            states[t] = -1
        t = n
        while t > 0 and top > -np.inf:
            for s in range(t - length, t):
                states[start + s] = state
            t -= length
            begins[start + t] = True
            if t > 0:
                state = before[t, state]
                length = stay[t - 1, state]


def _tails(table: Floats) -> Floats:
    """Sums of each row from every entry to its end: P(D >= d)."""
    return np.ascontiguousarray(np.cumsum(table[:, ::-1], axis=1)[:, ::-1])


def _whole_lanes(table: Floats) -> Floats:
    """The table with zeros after its rows up to a multiple of four."""
    return np.pad(table, ((0, 0), (0, -table.shape[1] % LANES)))


def decode(
    params: Params,
    sequences: Sequences,
    initial: Floats | None = None,
    n_jobs: int | None = None,
) -> Decoded:
    """The most probable states and stays of each sequence (Viterbi).

    Parameters
    ----------
    params : Params
        The model.
    sequences : Sequences
        Codes below ``params.n_symbols``, or -1 where missing.
    initial : ndarray, shape (n_states, max_duration), optional
        Law of the first state and the steps it has left, where stays may begin before a sequence.
    n_jobs : int or None
        Number of threads; None for every core.

    Returns
    -------
    Decoded
        ``states`` and ``begins`` at every step, ``log_prob`` and ``impossible_at`` of every
        sequence. A sequence that the model cannot produce has ``log_prob`` -inf, states -1 and in
        ``impossible_at`` the first step, from 0, at which no path is left; others have -1 there.

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
    first_stays = shortest_first(model.init, params.max_duration)
    with np.errstate(divide="ignore"):
        A, B = np.log(model.A), np.log(model.B)
        init, D = np.log(_whole_lanes(first_stays)), np.log(_whole_lanes(params.duration))
        init_tail, tail = np.log(_tails(first_stays)), np.log(_tails(params.duration))
    found = Decoded(
        states=np.empty(len(codes), dtype=np.int32),
        begins=np.empty(len(codes), dtype=np.bool_),
        log_prob=np.empty(len(offsets) - 1),
        impossible_at=np.full(len(offsets) - 1, -1, dtype=np.int64),
    )

    def run(bounds: tuple[int, int]) -> None:
        _viterbi_chunk(
            init, A, D, B, init_tail, tail, codes, offsets, *bounds,
            found.states, found.begins, found.log_prob,
        )  # fmt: skip

    each(run, chunks(offsets), n_jobs)
    lost = np.flatnonzero(found.log_prob == -np.inf)
    if lost.size:
        left_over = sequences[lost]
        steps = surprise(params, left_over, initial, n_jobs)
        for k, i in enumerate(lost):
            here = steps[left_over.offsets[k] : left_over.offsets[k + 1]]
            found.impossible_at[i] = int(np.argmax(np.isinf(here)))
    return found
