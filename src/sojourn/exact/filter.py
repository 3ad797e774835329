"""The scaled forward pass over (state, steps remaining), one sequence at a time.

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
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit
from numba.core import event
from numpy.typing import NDArray

from sojourn.errors import SojournError

if TYPE_CHECKING:
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


class Compiling(event.Listener):
    """Says once, on a terminal, why a first call takes seconds; later ones read a cache."""

    shown = False

    def on_start(self, event: Any) -> None:
        """Before a kernel is compiled that is not in the cache."""
        module = event.data["dispatcher"].py_func.__module__
        if not self.shown and module.startswith("sojourn.") and sys.stderr.isatty():
            self.shown = True
            print("sojourn: compiling for this processor, once, some seconds", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """After it was."""


event.register("numba:compile", Compiling())  # type: ignore[no-untyped-call]


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
    n = len(square)
    padded = np.zeros((n, -(-n // LANES), LANES))
    padded.reshape(n, -1)[:, :n] = square
    return padded


def leaving(params: Params) -> tuple[Floats, Floats]:
    """p(no end, next state | last step of a stay) and p(end | last step of a stay)."""
    leaves = 1.0 - params.tail if params.max_duration == 1 else np.ones(params.n_states)
    end = np.zeros(params.n_states) if params.end is None else params.end
    return params.transition * (leaves * (1.0 - end))[:, None], leaves * end


def p_empty(params: Params) -> float:
    """The probability of a sequence without symbols; where lengths say nothing, it is certain."""
    return params.empty if params.ends else 1.0


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
        last = stay * alpha[x, n_d - 1]
        for r in range(n_d):  # reads ahead of what it writes, so that it vectorises
            alpha[x, r] = stay * alpha[x, r + 1] + enter * D[x, r]
        if hold[0, x] > 0.0:  # a state without a tail need not wait for these
            alpha[x, n_d - 1] += hold[0, x] * last
            if n_d > 1:
                alpha[x, n_d - 2] = hold[1, x] * last + enter * D[x, n_d - 2]


@njit(**KERNEL)
def ending(alpha: Floats, stop: Floats) -> float:
    """The probability of the sequence so far, and that it ends here."""
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
) -> float:
    """Advance alpha, whose sum is total, over codes[first:last]; a total of -1 begins a sequence.

    Writes -log p(o_t | past) to surprise[t - first] unless that is empty: infinite from the first
    impossible symbol on. Returns the new total. The tables come one by one: a stream calls this for
    every symbol, and a tuple takes longer to pass.
    """
    flat = alpha.reshape(alpha.size)
    for t in range(first, last):
        row = codes[t] if codes[t] >= 0 else B.shape[0] - 1
        for x in range(B.shape[1]):
            work[0, x] = B[row, x]  # b(x)
        before = 1.0
        if total < 0.0:
            begin(alpha, init, work)
        elif total > 0.0:
            scale = rescale(total)
            before = total * scale
            advance(alpha, scale, A, D, hold, work)
        total = 0.0
        for i in range(flat.size):
            total += flat[i]
        if surprise.size > 0:
            # Rounding may lift a ratio above one; a surprise is not negative.
            value = max(0.0, -math.log(total / before)) if total > 0.0 else np.inf
            surprise[t - first] = value
    return total
