"""The most probable hidden path: states, and where stays begin.

Scores are logarithms. M_t[x, r] is the best log p of o_1 ... o_t and a path that is in state x at
step t with r steps remaining, counting this one:

    M_t[x, r] = log b(x) + max(M_t-1[x, r + 1], E_t[x] + log D[x, r])
    E_t[x]    = max_y M_t-1[y, 1] + log A[y, x]

and, for a stay in its tail, M_t[x, n_d] + log tail[x] is one more way to M_t+1[x, n_d].

Sequences advance side by side, as in `lanes`. Only E_t, M_t[x, 1], the best score of a stay in x
that ends at t, and with tails M_t[x, n_d] are kept. Backtracking finds again, for each stay of the
best path, where it began and what came before: O(n_x + n_d) per stay, and two or three numbers per
step and state in place of a table. Without ends the last stay is right-censored: it counts for all
durations it may have had, log P(D >= d). Of equals the shorter stay and the lower state win.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.exact.filter import Floats, leaving, p_empty, tables
from sojourn.exact.forward import split_steps, surprise
from sojourn.exact.lanes import INLINE, INNER, KERNEL, read_factors, set_group
from sojourn.exact.layout import Group, Rooms, aligned, evidence, padded, row_size
from sojourn.exact.observed import Observed
from sojourn.exact.vectors import WIDTH, compact, entry, load, most, of_state, splat, store
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


class Logs(NamedTuple):
    """Logarithms of a model without its emissions, laid out as in `layout.Chain`."""

    init: Floats  # (n_d, P)
    A: Floats  # (n_x, P)
    D: Floats  # (n_d, P)
    hold: Floats  # of n_d: what is held, what counts down                   (2, P)
    init_tail: Floats  # log P(D >= d) of the first stay, and of others      (n_d, P)
    tail: Floats  # (n_d, P)
    stop: Floats  # (n_x,) or (0,)
    pad: Floats  # zeros after the states                                    (P,)
    wide: bool | None = True


class Seen(NamedTuple):
    """What backtracking needs, of W sequences: rows of n_x W numbers, one per step."""

    enter: Floats  # E_t[x]
    ends: Floats  # M_t[x, 1]
    tops: Floats  # M_t[x, n_d]; empty where no state has a tail


@njit(**INNER, inline="always")
def _forward(model, evidence, group, T, best, out, b, which, seen) -> None:  # type: ignore[no-untyped-def]
    """Fill what backtracking needs of the sequences of a group, T steps."""
    init, A, D, hold, _, _, _, _, wide = model
    (n_d, P), n_x, W = D.shape, A.shape[0], which.size
    N, last = b.size, (n_d - 1) * b.size
    for t in range(T):
        read_factors(evidence, group, t, which, model.pad, b, 0, wide)
        row = t * n_x * W
        for q in range(0, n_x, WIDTH if W == 1 else 1):
            for l in range(0, max(W, WIDTH), WIDTH):
                h = q * W + l
                emitted, e = load(b, h), splat(-np.inf)
                if t == 0:
                    for r in range(n_d):
                        store(best, r * N + h, emitted + entry(init, r * P + q, wide))
                else:
                    for y in range(n_x):
                        e = most(e, of_state(out, y * W + l, wide) + entry(A, y * P + q, wide))
                    held = load(best, last + h)
                    for r in range(n_d - 2):
                        compact()
                        v = most(e + entry(D, r * P + q, wide), load(best, (r + 1) * N + h))
                        store(best, r * N + h, emitted + v)
                    if n_d > 1:
                        v = e + entry(D, (n_d - 2) * P + q, wide)
                        v = emitted + most(v, held + entry(hold, P + q, wide))
                        store(best, last - N + h, v)
                    v = most(e + entry(D, (n_d - 1) * P + q, wide), held + entry(hold, q, wide))
                    store(best, last + h, emitted + v)
                # With one lane the padding of a row is overwritten by the next.
                store(seen.enter, row + h, e)
                store(seen.ends, row + h, load(best, h))
                if seen.tops.size > 0:
                    store(seen.tops, row + h, load(best, last + h))
        for h in range(0, N, WIDTH):
            store(out, h, load(best, h))


@njit(**INLINE)
def _stay_before(  # type: ignore[no-untyped-def]
    seen, model, evidence, begin, t, x, l, W, durations, first_durations, release
) -> tuple[float, int]:
    """The best stay in x of lane l whose last step is t - 1: its score and length.

    Lengths weigh as in `durations`, or `first_durations` for a stay that begins with the sequence;
    `release` is whether leaving the tail counts.
    """
    init, _, D, hold, _, _, _, _, _ = model
    rows, B, n_d, n_x = evidence.rows, evidence.B, D.shape[0], model.A.shape[0]
    top, length, emitted = -np.inf, 0, 0.0
    for d in range(1, min(t + 1, n_d)):
        s = t - d
        emitted += B[rows[begin + s], x]
        if s > 0:
            score = seen.enter[(s * n_x + x) * W + l] + emitted + durations[d - 1, x]
        else:
            score = 0.0 + emitted + first_durations[d - 1, x]
        if score > top:
            top, length = score, d
    s = t - n_d
    if s < 0:
        return top, length
    at = (s * n_x + x) * W + l
    entering = seen.enter[at] + D[n_d - 1, x] if s > 0 else init[n_d - 1, x]
    has_tail = seen.tops.size > 0
    score = seen.tops[at] if has_tail else B[rows[begin + s], x] + entering
    score = score + emitted + (hold[1, x] if release else 0.0)
    if score <= top:
        return top, length
    while has_tail and s > 0 and entering < seen.tops[at - n_x * W] + hold[0, x]:
        s, at = s - 1, at - n_x * W
        entering = seen.enter[at] + D[n_d - 1, x] if s > 0 else init[n_d - 1, x]
    return score, t - s


@njit(**KERNEL)
def _viterbi_chunk(model, evidence, order, group, best, out, b, which, seen, found):  # type: ignore[no-untyped-def]
    """The best paths of some sequences, the longest first, W at a time."""
    W, n_x = which.size, model.A.shape[0]
    for k in range(0, order.size, W):
        n_lanes = set_group(evidence, order, k, group)
        _forward(model, evidence, group, group.lengths[0], best, out, b, which, seen)
        for l in range(n_lanes):
            start, t = group.begins[l], group.lengths[l]
            if t == 0:
                continue
            ends = model.stop.size > 0
            durations, first = (model.D, model.init) if ends else (model.tail, model.init_tail)
            top, state, length = -np.inf, -1, t
            for x in range(n_x):
                score, d = _stay_before(
                    seen, model, evidence, start, t, x, l, W, durations, first, ends
                )
                if ends:
                    score += model.stop[x]
                if score > top:
                    top, state, length = score, x, d
            found.log_prob[order[k + l]] = top
            while t > 0:
                for s in range(t - length, t):
                    found.states[start + s] = state
                    found.begins[start + s] = s == t - length and state >= 0
                t -= length
                if t > 0:  # what was best before it entered its state
                    x, e = state, -np.inf
                    for y in range(n_x):
                        score = seen.ends[((t - 1) * n_x + y) * W + l] + model.A[y, x]
                        if score > e:
                            e, state = score, y
                    _, length = _stay_before(
                        seen, model, evidence, start, t, state, l, W, model.D, model.init, True
                    )


def _tails(table: Floats) -> Floats:
    """Sums of each row from every entry to its end: P(D >= d)."""
    return np.ascontiguousarray(np.cumsum(table[:, ::-1], axis=1)[:, ::-1])


def decode(
    params: Params, sequences: Sequences, initial: Floats | None = None, n_jobs: int | None = None
) -> Decoded:
    """The most probable states and stays of each sequence (Viterbi).

    Codes are below ``params.n_symbols``, or -1 where missing; `initial` is as in
    :func:`sojourn.exact.filter.tables`.
    """
    codes, offsets, rooms = sequences.codes, sequences.offsets, Rooms(sequences.offsets, params)
    model, observed = tables(params, initial), Observed(params, sequences)
    A, (n_x, n_d), tails = leaving(params)[0], params.duration.shape, bool(params.tail.any())
    with np.errstate(divide="ignore"):
        parts = (model.init.T, A, model.D.T, model.hold, _tails(model.init).T, _tails(model.D).T)
        pad = np.where(np.arange(row_size(n_x, 1)) < n_x, 0.0, 1.0)
        rest = (np.log(model.stop), np.log(pad), True)
        in_rows = padded(parts, [len(table) for table in parts])
        logs = Logs._make([*(np.log(table) for table in in_rows), *rest])
        log_B, empty = np.log(model.B), float(np.log(p_empty(params)))
    found = Decoded(
        states=np.empty(len(codes), dtype=np.int32),
        begins=np.empty(len(codes), dtype=np.bool_),
        log_prob=np.full(len(offsets) - 1, empty),
        impossible_at=np.full(len(offsets) - 1, -1, dtype=np.int64),
    )

    def run(bounds: tuple[int, int]) -> None:
        B, top = observed.rows(log_B, *bounds, log=True)
        W, order, longest, _ = rooms.lanes(*bounds)
        N, size = row_size(n_x, W), longest * n_x * W + WIDTH
        seen = Seen(np.empty(size), np.empty(size), np.empty(size if tails else 0))
        room = aligned(n_d * N), aligned(N), aligned(N, fill=1.0), aligned(W, dtype=np.int64)
        group = Group(aligned(W, dtype=np.int64), aligned(W, dtype=np.int64))
        given = evidence(observed.codes, offsets, B)
        model = logs._replace(wide=None if W == 1 else True)
        _viterbi_chunk(model, given, order, group, *room, seen, found)
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
