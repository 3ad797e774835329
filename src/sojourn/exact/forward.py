"""The scaled forward pass over (state, steps remaining): likelihood, surprise, filter.

With alpha_t[x, r] = p(o_1 ... o_t, x_t = x, r steps remain counting this one),

    alpha_t+1[x, r] = b(x) (alpha_t[x, r + 1] + D[x, r] Σ_y alpha_t[y, 1] A[y, x])

where A is the transition table, D the duration table and b(x) = p(o_t+1 | x). A step costs
O(n_x² + n_x n_d). p(o_t+1 | o_1 ... o_t) is the ratio of two sums of alpha. Sums shrink at every
step; whenever one falls below 2^-30 the next step multiplies by a power of two, which costs no
precision, and no step ever waits for the sum of the one before.

A stay in its tail, r = n_d, is held there with probability tail[x] before it counts down:

    alpha_t+1[x, n_d] += b(x) tail[x] alpha_t[x, n_d],  and 1 - tail[x] of it goes to n_d - 1.

With ends, A[y, x] is p(x | y) times 1 - end[y], and p(o_1 ... o_T, the end) = Σ_y alpha_T[y, 1]
end[y]; without, it is the sum of alpha_T: the last stay may last longer. Where n_d = 1, what leaves
a state is 1 - tail of what is there, which `tables` puts into A and the ends.

The kernels run r from 0, so r = 0 is the last step of a stay.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.exact.ahead import distribution_after
from sojourn.exact.observed import Observed
from sojourn.scale.threads import chunks, each

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.exact.params import Params

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Offsets = NDArray[np.int64]

LANES = 4  # doubles in a vector register of most machines

# Sums over r must vectorise, so their order is the compiler's; nothing else is relaxed.
KERNEL: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}

_SMALL = 2.0**-30


class Tables(NamedTuple):
    """A model as the kernels read it; H is n_x / 4, rounded up."""

    init: Floats  # p(not empty, x_1 = x, r remain)                          (n_x, n_d)
    A: Floats  # p(does not end, next state), each row in lanes              (n_x, H, 4)
    D: Floats  # duration                                                    (n_x, n_d)
    B: Floats  # emission, one row per symbol; the last row for missing      (n_o + 1, n_x)
    hold: Floats  # of r = n_d: what is held there, what counts down         (2, n_x)
    stop: Floats  # p(ends | last step of a stay); empty without ends        (n_x,) or (0,)


def in_lanes(square: Floats) -> Floats:
    """A square table with its rows cut into lanes of four, the last one padded with zeros."""
    padded = np.pad(square, ((0, 0), (0, -square.shape[1] % LANES)))
    return padded.reshape(len(square), -1, LANES)


def leaving(params: Params) -> tuple[Floats, Floats]:
    """p(no end, next state | last step of a stay) and p(end | last step of a stay)."""
    leaves = 1.0 - params.tail if params.max_duration == 1 else np.ones(params.n_states)
    end = np.zeros(params.n_states) if params.end is None else params.end
    return params.transition * (leaves * (1.0 - end))[:, None], leaves * end


def tables(params: Params, initial: Floats | None = None) -> Tables:
    """The tables of a model, laid out for the kernels.

    `initial` holds the probabilities of the first state and its remaining steps, (n_states,
    max_duration); by default a stay begins where the sequence does: ``start[x] * duration[x, r]``.
    """
    if initial is None:
        initial = params.start[:, None] * params.duration
    elif np.shape(initial) != params.duration.shape:
        raise SojournError(
            f"the initial table has shape {np.shape(initial)}; it needs the shape of the duration "
            f"table, {params.duration.shape}: one row per state, one column per remaining step"
        )
    A, stop = leaving(params)
    counts_down = np.ones(params.n_states) if params.max_duration == 1 else 1.0 - params.tail
    return Tables(
        init=np.array(initial, dtype=np.float64, order="C") * (1.0 - params.empty),
        A=in_lanes(A),
        D=params.duration,
        # Code -1 (missing) indexes the last row: every state explains it equally well.
        B=np.vstack([params.emission.T, np.ones(params.n_states)]),
        hold=np.stack([params.tail, counts_down]),
        stop=stop if params.ends else np.empty(0),
    )


@njit(**KERNEL)
def new_state(D: Floats) -> tuple[Floats, Floats]:
    """Room for one forward pass: alpha and the scratch rows that a step uses.

    Rows of the scratch: 0 emission factors b, 1 mass leaving each state, 2 mass entering each.
    """
    n_x, n_d = D.shape
    return np.zeros((n_x, n_d + 1)), np.zeros((3, n_x + LANES))


@njit(**KERNEL)
def set_factors(work: Floats, B: Floats, code: int, label: int) -> None:
    """Put b(x) = p(code | x) into the scratch; a known label rules all other states out."""
    row = code if code >= 0 else B.shape[0] - 1
    for x in range(B.shape[1]):
        work[0, x] = B[row, x]
    if label >= 0:
        for x in range(B.shape[1]):
            if x != label:
                work[0, x] = 0.0


@njit(**KERNEL)
def multiply(work: Floats, source: int, M: Floats, target: int) -> None:
    """Row ``target`` of the scratch becomes row ``source`` times the matrix M in lanes."""
    for h in range(M.shape[1]):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for y in range(M.shape[0]):
            a = work[source, y]
            s0 += a * M[y, h, 0]
            s1 += a * M[y, h, 1]
            s2 += a * M[y, h, 2]
            s3 += a * M[y, h, 3]
        work[target, 4 * h] = s0
        work[target, 4 * h + 1] = s1
        work[target, 4 * h + 2] = s2
        work[target, 4 * h + 3] = s3


@njit(**KERNEL)
def begin(alpha: Floats, init: Floats, work: Floats) -> None:
    """The first step: alpha[x, r] = init[x, r] b(x)."""
    n_x, n_d = init.shape
    for x in range(n_x):
        for r in range(n_d):
            alpha[x, r] = init[x, r] * work[0, x]


@njit(**KERNEL)
def advance(  # type: ignore[no-untyped-def]
    alpha, scale, A, D, hold, work
) -> None:
    """One more step, in place, times scale; leaves the mass that enters each state in work[2]."""
    n_x, n_d = D.shape
    for y in range(n_x):
        work[1, y] = alpha[y, 0] * scale
    multiply(work, 1, A, 2)
    for x in range(n_x):
        stay = work[0, x] * scale
        enter = work[0, x] * work[2, x]
        work[2, x] = enter
        last = alpha[x, n_d - 1]
        alpha[x, n_d - 1] = hold[1, x] * last
        alpha[x, n_d] = hold[0, x] * last
        for r in range(n_d):  # reads ahead of what it writes, so that it vectorises
            alpha[x, r] = stay * alpha[x, r + 1] + enter * D[x, r]
        alpha[x, n_d] = 0.0


@njit(**KERNEL)
def ending(alpha: Floats, total: float, stop: Floats) -> float:
    """The probability that the sequence ends here, or just is so far, where ends are not known."""
    if stop.size == 0:
        return total
    p = 0.0
    for x in range(stop.size):
        p += alpha[x, 0] * stop[x]
    return p


@njit(**KERNEL)
def rescale(total: float) -> float:
    """The factor of the next step: one, or the power of two that lifts a small total to one."""
    if total >= _SMALL:
        return 1.0
    return math.ldexp(1.0, min(1000, -math.frexp(total)[1]))  # finite for a subnormal total too


@njit(**KERNEL)
def filter_steps(  # type: ignore[no-untyped-def]
    init, A, D, B, hold, alpha, total, work, codes, first, last, surprise
) -> tuple[float, float]:
    """Advance alpha, whose sum is total, over codes[first:last]; a total of -1 begins a sequence.

    Writes -log p(o_t | past) to surprise[t - first] unless that is empty: infinite from the first
    impossible symbol on. Returns the new total and the logarithm of the scales it contains. The
    tables come one by one: a stream calls this for every symbol, and a tuple takes longer to pass.
    """
    flat = alpha.reshape(alpha.size)
    log_scale = 0.0
    for t in range(first, last):
        set_factors(work, B, codes[t], -1)
        before = 1.0
        if total < 0.0:
            begin(alpha, init, work)
        elif total > 0.0:
            scale = rescale(total)
            if scale != 1.0:
                log_scale += math.log(scale)
            before = total * scale
            advance(alpha, scale, A, D, hold, work)
        total = 0.0
        for i in range(flat.size):
            total += flat[i]
        if surprise.size > 0:
            # Rounding may lift a ratio above one; a surprise is not negative.
            value = max(0.0, -math.log(total / before)) if total > 0.0 else np.inf
            surprise[t - first] = value
    return total, log_scale


class Outputs(NamedTuple):
    """What a forward pass fills; an empty array is not wanted."""

    surprise: Floats = np.empty(0)  # (n_total,), or (n_total + n,) with ends
    log_probs: Floats = np.empty(0)  # (n,)
    finals: Floats = np.empty((0, 0, 0))  # alpha at the end of each sequence   (n, n_x, n_d)


@njit(**KERNEL)
def _filter_chunk(model, codes, offsets, empty, first, last, out):  # type: ignore[no-untyped-def]
    """The forward pass over some sequences; `empty` is the probability of one without symbols."""
    init, A, D, B, hold, stop = model
    alpha, work = new_state(D)
    ends = stop.size > 0
    for i in range(first, last):
        start, end = offsets[i], offsets[i + 1]
        at = start + i if ends else start
        steps = out.surprise[at : at + end - start]
        total, log_scale = filter_steps(
            init, A, D, B, hold, alpha, -1.0, work, codes, start, end, steps
        )
        before, total_end = total, total
        if start == end:
            before, total_end = 1.0, empty
        elif ends:
            total_end = ending(alpha, total, stop)
        if out.surprise.size > 0 and ends:
            value = -math.log(total_end / before) if total_end > 0.0 else np.inf
            out.surprise[at + end - start] = max(0.0, value)
        if out.log_probs.size > 0:
            out.log_probs[i] = math.log(total_end) - log_scale if total_end > 0.0 else -np.inf
        if out.finals.size > 0:
            share = 1.0 / total if total > 0.0 else 0.0
            for x in range(out.finals.shape[1]):
                for r in range(out.finals.shape[2]):
                    out.finals[i, x, r] = alpha[x, r] * share


def p_empty(params: Params) -> float:
    """The probability of a sequence without symbols; where lengths say nothing, it is certain."""
    return params.empty if params.ends else 1.0


def _run(
    params: Params, sequences: Sequences, initial: Floats | None, n_jobs: int | None, out: Outputs
) -> None:
    model, empty = tables(params, initial), p_empty(params)
    observed, offsets = Observed(params, sequences), sequences.offsets

    def run(bounds: tuple[int, int]) -> None:
        B, top = observed.rows(model.B, *bounds)
        _filter_chunk(model._replace(B=B), observed.codes, offsets, empty, *bounds, out)
        if top.size and out.log_probs.size:
            observed.add_tops(out.log_probs, top, *bounds)
        if top.size and out.surprise.size:
            out.surprise[observed.steps(params.ends, *bounds)] -= top

    each(run, chunks(sequences.offsets), n_jobs)


def log_prob(
    params: Params, sequences: Sequences, initial: Floats | None = None, n_jobs: int | None = None
) -> Floats:
    """Log-probability of each sequence in nats, -inf where the model cannot produce it.

    Codes are below ``params.n_symbols``, or -1 where missing; `initial` as in :func:`tables`.

    Examples
    --------
    >>> from sojourn import Params, Sequences
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> log_prob(p, Sequences.from_lists([[0, 0, 1, 0], [0, 1, 1, 1]]))
    array([-0.69314718,        -inf])
    """
    out = np.empty(len(sequences))
    _run(params, sequences, initial, n_jobs, Outputs(log_probs=out))
    return out


def surprise(
    params: Params, sequences: Sequences, initial: Floats | None = None, n_jobs: int | None = None
) -> Floats:
    """-log p(o_t | o_1 ... o_t-1) at every step, all sequences end to end.

    Infinite from the first symbol on that the model cannot produce. With ends, the last number of
    each sequence is that of its end.
    """
    out = np.empty(len(sequences.codes) + params.ends * len(sequences))
    _run(params, sequences, initial, n_jobs, Outputs(surprise=out))
    return out


def split_steps(steps: Floats, offsets: Offsets, ends: bool) -> list[Floats]:
    """One array per sequence of what :func:`surprise` returns for all of them."""
    return np.split(steps, (offsets + ends * np.arange(len(offsets)))[1:-1])


def filtered(
    params: Params, sequences: Sequences, initial: Floats | None = None, n_jobs: int | None = None
) -> Floats:
    """p(state, remaining steps | all symbols) at the end of each sequence, (n, n_states, n_d).

    Column ``r`` is ``r + 1`` remaining steps, the last one seen included; the last column is the
    tail, where there is one. All zeros where the model cannot produce the sequence, and where it
    has no symbols.
    """
    out = np.empty((len(sequences), params.n_states, params.max_duration))
    _run(params, sequences, initial, n_jobs, Outputs(finals=out))
    return out


def next_symbol(
    params: Params, alpha: Floats, horizon: int = 1, initial: Floats | None = None
) -> Floats:
    """Distribution of the symbol `horizon` steps ahead, (n, n_symbols), given `filtered` alphas.

    With ends, one more column: that the sequence has ended by then. A row of alpha that is zero
    stands for a sequence that has not begun.
    """
    states, ended = next_states(params, alpha, horizon, initial)
    p = np.asarray(states @ params.emission)
    return np.column_stack([p, ended]) if params.ends else p


def step_unseen(params: Params, model: Tables, alpha: Floats) -> tuple[Floats, Floats]:
    """p(state, remaining steps) one step on, and that the sequence ends there: (n, …) and (n,)."""
    A, stop = leaving(params)
    held, down = alpha[:, :, -1:] * model.hold[0][:, None], alpha.copy()
    down[:, :, -1] *= model.hold[1]
    entering = (alpha[:, :, 0] @ A)[:, :, None] * params.duration
    return np.concatenate([down[:, :, 1:], held], axis=2) + entering, alpha[:, :, 0] @ stop


def next_states(
    params: Params, alpha: Floats, horizon: int = 1, initial: Floats | None = None
) -> tuple[Floats, Floats]:
    """p(state `horizon` steps ahead), (n, n_states), and that the sequence has ended by then."""
    model, shape = tables(params, initial), params.duration.shape

    def step(rows: Floats) -> Floats:  # alpha and, last, that the sequence has ended
        alpha, ended = step_unseen(params, model, rows[:, :-1].reshape(-1, *shape))
        return np.column_stack([alpha.reshape(len(alpha), -1), rows[:, -1] + ended])

    rows = step(np.hstack([alpha.reshape(len(alpha), -1), np.zeros((len(alpha), 1))]))
    rows[~alpha.any(axis=(1, 2))] = np.append(model.init, params.empty)
    rows = distribution_after(step, rows, horizon - 1)
    return rows[:, :-1].reshape(-1, *shape).sum(axis=2), rows[:, -1]
