"""Scoring with operators over contexts: the normalised filter, with restarts.

The state q predicts the next symbol, q · emit_o. These numbers are cut below at ε and made to sum
to one; the state moves to q M_o / (q · emit_o). Where it predicts less than ε of the symbol that
came, or has left the model otherwise, it restarts at the state of the past context. A missing
symbol moves it by the sum of all M_o. What this defines is a true distribution over sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.contexts.operators import ContextOperators
from benchmarks.contexts.trees import Codes, Flat

Floats = NDArray[np.float64]
FAST = {"reassoc", "contract", "nsz"}  # sums in any order; NaN and infinity keep their meaning
LANES = 4  # rows that a step takes at once
# A table of moves larger than this is not laid out: sequences are stepped side by side instead.
MAX_MOVES = 1 << 22
# Predictions that sum to more than this, negative ones cut, are of a state outside the model.
ASTRAY = 20.0
SIDE_BY_SIDE = 256


class Moves(NamedTuple):
    """Operators laid out for the kernel.

    A state is stored with what it predicts: k coordinates, then n_o + 1 probabilities, both filled
    up with zeros; one product with the matrix of a symbol gives both for the next step.
    """

    moves: Floats  # (n_o + 1) · k · width, flat: one matrix per symbol, and one for a missing one
    start: Floats  # (width,)
    restart: Floats  # (n_pasts, width)
    k: int
    n_o: int
    counted: int  # predictions that are made to sum to one: n_o, and one more with the end
    epsilon: float


@dataclass(frozen=True, eq=False)
class ContextFilter:
    """A filter: its operators, whether ends are predicted, and the layout for few symbols."""

    operators: ContextOperators
    ends: bool
    epsilon: float
    moves: Moves | None

    @property
    def counted(self) -> int:
        """Number of outcomes of a step: the symbols, and the end where it is predicted."""
        return self.operators.n_symbols + self.ends


def make_filter(operators: ContextOperators, ends: bool) -> ContextFilter:
    """Lay operators out for scoring."""
    n_o, rank = operators.n_symbols, operators.rank
    epsilon = min(1e-5, 1e-3 / n_o)
    k = -(-rank // LANES) * LANES
    width = k + -(-(n_o + 1) // LANES) * LANES
    if len(operators.shared) or (n_o + 1) * k * width > MAX_MOVES:
        return ContextFilter(operators, ends, epsilon, None)
    E = operators.emit.T  # (rank, n_o + 1)
    M = operators.own[operators.which]  # (n_o, rank, rank)
    moves = np.zeros((n_o + 1, k, width))
    moves[:n_o, :rank, :rank] = M
    moves[:n_o, :rank, k : k + n_o + 1] = M @ E
    moves[n_o] = moves[:n_o].sum(axis=0)

    def stored(states: Floats) -> Floats:
        rows = np.zeros((*states.shape[:-1], width))
        rows[..., :rank], rows[..., k : k + n_o + 1] = states, states @ E
        return rows

    rows = (stored(operators.start), stored(operators.restart))
    layout = Moves(moves.reshape(-1), *rows, k, n_o, n_o + ends, epsilon)
    return ContextFilter(operators, ends, epsilon, layout)


def run_filter(
    filter: ContextFilter, flat: Flat, contexts: Codes, fresh: NDArray[np.bool_], keep: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Filter pieces of sequences.

    Parameters
    ----------
    filter : ContextFilter
    flat : Flat
    contexts : int32 array
        Past context before each place: where the state restarts.
    fresh : bool array (n,)
        Whether a piece starts where its sequence does.
    keep : bool
        Whether to return the states before all places.

    Returns
    -------
    prob : array
        Probability of what came at each place; 1 where it is missing or no position.
    last : array (n, k)
        The state after each piece, the end left out.
    states : array (n_places, k)
        The states before all places, or none.
    """
    k = filter.operators.rank
    prob = np.ones(len(flat.codes))
    last = np.empty((len(flat.starts), k))
    states = np.empty((len(flat.codes) if keep else 0, k))
    if filter.moves is None:
        _side_by_side(filter, flat, contexts, fresh, prob, last, states)
        return prob, last, states
    stored = np.empty((len(flat.starts), len(filter.moves.start)))
    where = (flat.codes, flat.starts, flat.stops, contexts, fresh)
    _filter(*filter.moves, *where, prob, stored, states)
    return prob, np.ascontiguousarray(stored[:, :k]), states


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def filter_step(  # type: ignore[no-untyped-def]
    state, at, to, moves, restart, then, k, n_o, counted, code, epsilon
):
    """Move the state at `at` by a code, to `to`; the probability that the code had.

    `state` and `moves` are flat, and places in them unsigned: so the loops below run in vectors.
    """
    width, rows = np.uint64(restart.shape[1]), np.uint64(k)
    total, q = 0.0, 0.0
    for u in range(np.uint64(counted)):
        x = state[at + rows + u]
        total += x if x > epsilon else epsilon  # NaN too becomes ε
        if u < np.uint64(n_o):
            q += x
    p = 1.0
    if code <= n_o:
        q = state[at + rows + np.uint64(code)]
        p = (q if q > epsilon else epsilon) / total
        if not total < np.inf:
            p = 1.0 / counted
        if code == n_o:
            return p
    if not (q >= epsilon and total < ASTRAY):  # NaN too
        for j in range(width):
            state[to + j] = restart[then, j]
        return p
    scale = 1.0 / q
    move = np.uint64(min(code, n_o)) * rows * width
    for j in range(width):
        state[to + j] = 0.0
    for i in range(np.uint64(0), rows, np.uint64(4)):
        a, b = state[at + i] * scale, state[at + i + np.uint64(1)] * scale
        c, d = state[at + i + np.uint64(2)] * scale, state[at + i + np.uint64(3)] * scale
        m0 = move + i * width
        m1, m2, m3 = m0 + width, m0 + np.uint64(2) * width, m0 + np.uint64(3) * width
        for j in range(width):
            low = a * moves[m0 + j] + b * moves[m1 + j]
            state[to + j] += low + c * moves[m2 + j] + d * moves[m3 + j]
    return p


@njit(cache=True, nogil=True)
def _filter(  # type: ignore[no-untyped-def]
    moves,
    start,
    restart,
    k,
    n_o,
    counted,
    epsilon,
    codes,
    starts,
    stops,
    contexts,
    fresh,
    prob,
    last,
    states,
):
    width = len(start)
    state = np.empty(2 * width)
    for i in range(len(starts)):
        at, to = np.uint64(0), np.uint64(width)
        for j in range(width):
            state[j] = start[j] if fresh[i] else restart[contexts[starts[i]], j]
        for p in range(starts[i], stops[i]):
            if len(states):
                for j in range(states.shape[1]):
                    states[p, j] = state[at + np.uint64(j)]
            code = codes[p]
            if code == n_o and counted == n_o:
                continue  # ends are not predicted
            then = contexts[p + 1] if code != n_o else 0
            prob[p] = filter_step(
                state, at, to, moves, restart, then, k, n_o, counted, code, epsilon
            )
            if code != n_o:
                at, to = to, at
        for j in range(width):
            last[i, j] = state[at + np.uint64(j)]


def predictions(filter: ContextFilter, states: Floats) -> tuple[Floats, Floats]:
    """Distribution of the next outcome for each state, (n, counted), and the numbers behind it."""
    raw = states @ filter.operators.emit[: filter.counted].T
    cut = np.where(raw > filter.epsilon, raw, filter.epsilon)
    total = cut.sum(axis=1, keepdims=True)
    cut = np.where(total < np.inf, cut, 1.0)
    return cut / cut.sum(axis=1, keepdims=True), raw


def moved(filter: ContextFilter, states: Floats, codes: NDArray[Any]) -> Floats:
    """States times the operators of symbols; what is ``n_symbols`` or more is missing."""
    o = filter.operators
    out = np.empty_like(states)
    known = codes < o.n_symbols
    own = np.zeros(len(codes), bool)
    own[known] = o.which[codes[known]] >= 0
    out[own] = np.einsum("nk,nkl->nl", states[own], o.own[o.which[codes[own]]])
    rest = known & ~own
    if rest.any():
        spread = np.einsum("nk,jkl->njl", states[rest], o.shared)
        out[rest] = np.einsum("nj,njl->nl", o.emit[codes[rest]], spread)
    if not known.all():
        out[~known] = states[~known] @ any_symbol(o)
    return out


def any_symbol(o: ContextOperators) -> Floats:
    """The sum of all operators: a step of which nothing is seen."""
    shared = o.emit[:-1][o.which < 0].sum(axis=0)
    total = o.own[np.unique(o.which[o.which >= 0])].sum(axis=0)
    return total + (np.einsum("j,jkl->kl", shared, o.shared) if len(o.shared) else 0.0)


def _side_by_side(  # type: ignore[no-untyped-def]
    filter: ContextFilter, flat: Flat, contexts: Codes, fresh, prob: Floats, last, states
) -> None:
    """The same filter for many symbols, all sequences of a group one step at a time."""
    o = filter.operators
    order = np.argsort(flat.starts - flat.stops, kind="stable")  # longest first
    for first in range(0, len(order), SIDE_BY_SIDE):
        group = order[first : first + SIDE_BY_SIDE]
        starts, lengths = flat.starts[group], (flat.stops - flat.starts)[group]
        begun = o.restart[contexts[np.minimum(starts, len(contexts) - 1)]]
        q = np.where(fresh[group, None], o.start, begun)
        for t in range(int(lengths[0]) if len(lengths) else 0):
            n = int(np.searchsorted(-lengths, -t))  # those that are longer than t
            at = starts[:n] + t
            code = flat.codes[at].astype(np.int64)
            if len(states):
                states[at] = q[:n]
            p, raw = predictions(filter, q[:n])
            rows = np.arange(n)
            seen = code < filter.counted
            prob[at[seen]] = p[rows[seen], code[seen]]
            here = np.where(code < o.n_symbols, raw[rows, np.minimum(code, o.n_symbols - 1)], 0.0)
            here = np.where(code > o.n_symbols, raw[:, : o.n_symbols].sum(axis=1), here)
            on = code != o.n_symbols
            cut = np.maximum(raw, filter.epsilon).sum(axis=1)
            good = (here >= filter.epsilon) & (cut < ASTRAY) & on
            moving = rows[good]
            q[moving] = moved(filter, q[moving], code[good]) / here[good, None]
            lost = rows[on & ~good]
            q[lost] = o.restart[contexts[at[lost] + 1]]
        last[group] = q
