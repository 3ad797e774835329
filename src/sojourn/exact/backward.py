"""Forward and backward over blocks of steps: the kernels behind posteriors and expected counts.

With beta_t[x, r] = p(o_t+1 ... o_T | x_t = x, r steps remain), scaled so that alpha_t · beta_t = 1,

    beta_t[x, r + 1] = b(x) beta_t+1[x, r]
    beta_t[y, 1]     = Σ_x A[y, x] b(x) Σ_r D[x, r] beta_t+1[x, r],      beta_T = 1 / p(o_1 ... o_T)

where b(x) = p(o_t+1 | x). That beta_T does not depend on r is what makes the last stay
right-censored; with ends, beta_T[x, 1] = end[x] / p(o_1 ... o_T, the end) and the rest is zero. A
stay in its tail looks ahead both ways:

    beta_t[x, n_d] = b(x) (tail[x] beta_t+1[x, n_d] + (1 - tail[x]) beta_t+1[x, n_d - 1]).

A row of beta shifts by one column per step; here it stays where it is, in a buffer
longer than the row, and the place where it begins shifts instead.

The forward pass is kept for a block of steps at a time. Sequences longer than a block keep only the
alpha at the head of each block, and compute each block again before its backward sweep, so memory
does not grow with the length of a sequence beyond a few tens of megabytes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sojourn.exact.forward import (
    KERNEL,
    Codes,
    Floats,
    Offsets,
    advance,
    begin,
    ending,
    multiply,
    new_state,
    rescale,
    set_factors,
)

# Streaming a block of a few megabytes from the shared cache is as fast as from the core's own.
_BLOCK_BYTES = 1 << 22
_CHECKPOINT_BYTES = 1 << 26

# A state that cannot be reached may explain the rest of the data better than any that can, and its
# beta would overflow. It can be cut, since it is multiplied by the zero of its alpha.
_CEILING = 1e270


class Data(NamedTuple):
    """Sequences end to end."""

    codes: Codes  # (n_total,)
    labels: Codes  # the state where it is known, -1 where not; empty for none  (n_total,) or (0,)
    offsets: Offsets  # (n + 1,)


class Room(NamedTuple):
    """Arrays that a forward pass fills, block by block of `steps` steps."""

    alpha: Floats  # W is n_d + 1                                                (n_x, W)
    work: Floats  # scratch rows, see `new_state`                               (3, n_x + LANES)
    block: Floats  # row 0: alpha before the block, row j: after its step j      (steps + 1, n_x, W)
    scales: Floats  # the factor of each step                                    (steps + 1,)
    entries: Floats  # the mass that entered each state at each step             (steps + 1, n_x)
    heads: Floats  # alpha at the head of each block                             (n_blocks, n_x, W)
    totals: Floats  # and its sum, -1 before the first                           (n_blocks,)


class Sums(NamedTuple):
    """What the backward pass adds to; counts lack the factor that all their terms share."""

    log_probs: Floats  # one per sequence                                       (n,)
    initial: Floats  # (n_x, n_d)
    transition: Floats  # in lanes                                              (n_x, H, 4)
    duration: Floats  # (n_x, n_d)
    emission: Floats  # the last row for missing symbols                        (n_o + 1, n_x)
    hold: Floats  # stays held in their tail, and counting down from it         (2, n_x)
    end: Floats  # (n_x,)
    gamma: Floats  # p(state at t | sequence), or empty                         (n_total, n_x)


@njit(**KERNEL)
def _fill_block(  # type: ignore[no-untyped-def]
    model, data, room, total, first, last
) -> tuple[float, float]:
    """Forward over codes[first:last] from alpha, whose sum is total; -1 begins a sequence.

    Returns the new total, 0 if the codes are impossible, and the logarithm of the scales.
    """
    init, A, D, B, hold, _ = model
    codes, labels, _ = data
    alpha, work, block, scales, entries, _, _ = room
    flat, rows = alpha.reshape(alpha.size), block.reshape(len(block), alpha.size)
    log_scale = 0.0
    for i in range(flat.size):
        rows[0, i] = flat[i]
    for t in range(first, last):
        j = t - first + 1
        set_factors(work, B, codes[t], labels[t] if labels.size > 0 else -1)
        scale = 1.0
        if total < 0.0:
            begin(alpha, init, work)
        else:
            scale = rescale(total)
            if scale != 1.0:
                log_scale += math.log(scale)
            advance(alpha, scale, A, D, hold, work)
        total = 0.0
        for i in range(flat.size):
            rows[j, i] = flat[i]
            total += flat[i]
        if total <= 0.0:
            return 0.0, 0.0
        scales[j] = scale
        for x in range(D.shape[0]):
            entries[j, x] = work[2, x]
    return total, log_scale


@njit(**KERNEL)
def _add_transitions(transition, block, j, work) -> None:  # type: ignore[no-untyped-def]
    """Add the transitions from each state that ends at row j; work[1] weighs where they lead."""
    for h in range(transition.shape[1]):
        v0, v1, v2, v3 = work[1, 4 * h], work[1, 4 * h + 1], work[1, 4 * h + 2], work[1, 4 * h + 3]
        for y in range(transition.shape[0]):
            a = block[j, y, 0]
            transition[y, h, 0] += a * v0
            transition[y, h, 1] += a * v1
            transition[y, h, 2] += a * v2
            transition[y, h, 3] += a * v3


@njit(**KERNEL)
def _cut(beta, x, p, R) -> None:  # type: ignore[no-untyped-def]
    """Keep row x of beta, which begins at p, below the ceiling."""
    s = 0.0
    for r in range(R):  # a sum first: a cut is rarely needed
        s += beta[x, p + r]
    if s > _CEILING:
        for r in range(R):
            beta[x, p + r] = min(beta[x, p + r], _CEILING)


@njit(**KERNEL)
def _sweep_block(  # type: ignore[no-untyped-def]
    model, AT, data, room, beta, first, last, is_first, sums
):
    """Backward over codes[first:last], adding up what is expected to happen there.

    beta of step last - 1 is at the end of its buffer on entry, that of first - 1 on return;
    `is_first`: whether `first` is the first step of the sequence.
    """
    _, _, D, B, hold, _ = model
    codes, labels, _ = data
    _, work, block, scales, entries, _, _ = room
    _, initial, transition, duration, emission, held, _, gamma = sums
    n_x = D.shape[0]
    R = np.uint64(D.shape[1])  # unsigned: the loops need no test for negative indices
    end = np.uint64(beta.shape[1]) - R
    p = end
    for j in range(last - first, 0, -1):
        t = first + j - 1
        set_factors(work, B, codes[t], labels[t] if labels.size > 0 else -1)
        at_start = is_first and j == 1
        if at_start:
            for x in range(n_x):
                for r in range(R):
                    initial[x, r] += work[0, x] * beta[x, p + r]
        everything = 0.0
        for x in range(n_x):
            k = work[0, x] * scales[j]
            enter = 0.0 if at_start else entries[j, x]
            posterior = 0.0
            ahead = 0.0
            for r in range(R):
                value = beta[x, p + r]
                posterior += block[j, x, r] * value
                ahead += D[x, r] * value
                duration[x, r] += enter * value
                beta[x, p + r] = k * value
            if not at_start:
                tail = block[j - 1, x, R - np.uint64(1)]
                held[0, x] += tail * beta[x, p + R - np.uint64(1)]
                if R > 1:
                    held[1, x] += tail * beta[x, p + R - np.uint64(2)]
            work[1, x] = min(k * ahead, _CEILING)
            work[2, x] = posterior
            everything += posterior
        row = codes[t] if codes[t] >= 0 else emission.shape[0] - 1
        for x in range(n_x):
            emission[row, x] += work[2, x]
        if gamma.size > 0:
            for x in range(n_x):
                gamma[t, x] = work[2, x] / everything
        if scales[j] != 1.0:  # b is at most one: nothing grows at other steps
            for x in range(n_x):
                _cut(beta, x, p, R)
        if not at_start:
            _add_transitions(transition, block, j - 1, work)
        multiply(work, 1, AT, 2)
        p -= np.uint64(1)
        for x in range(n_x):
            beta[x, p] = min(work[2, x], _CEILING)
            last = p + R - np.uint64(1)
            beta[x, last] = hold[1, x] * beta[x, last] + hold[0, x] * beta[x, last + np.uint64(1)]
    for x in range(n_x):
        for r in range(R):
            back = R - np.uint64(1) - r  # from the end: the two places may overlap
            beta[x, end + back] = beta[x, p + back]


@njit(**KERNEL)
def expect_chunk(  # type: ignore[no-untyped-def]
    model, AT, empty, data, first, last, steps, sums
):
    """Forward and backward over some sequences, a block of steps at a time; adds to the sums.

    `empty` is the probability of a sequence without symbols.
    """
    n_x, R = model.D.shape
    longest = 0
    for i in range(first, last):
        longest = max(longest, data.offsets[i + 1] - data.offsets[i])
    n_heads = (longest + steps - 1) // steps
    alpha, work = new_state(model.D)
    block, heads = np.zeros((steps + 1, *alpha.shape)), np.zeros((n_heads, *alpha.shape))
    entries, totals = np.zeros((steps + 1, n_x)), np.zeros(n_heads)
    room = Room(alpha, work, block, np.ones(steps + 1), entries, heads, totals)
    beta = np.zeros((n_x, R + steps))
    for i in range(first, last):
        start, stop = data.offsets[i], data.offsets[i + 1]
        if start == stop:
            sums.log_probs[i] = math.log(empty) if empty > 0.0 else -np.inf
            continue
        n_blocks = (stop - start + steps - 1) // steps
        total, log_scale = -1.0, 0.0
        for k in range(n_blocks):
            totals[k], heads[k] = total, alpha
            lo = start + k * steps
            total, log = _fill_block(model, data, room, total, lo, min(lo + steps, stop))
            log_scale += log
            if total <= 0.0:
                break
        total = ending(alpha, total, model.stop)
        if total <= 0.0:
            sums.log_probs[i] = -np.inf
            if sums.gamma.size > 0:
                sums.gamma[start:stop] = 0.0
            continue
        sums.log_probs[i] = math.log(total) - log_scale
        beta[:, steps:] = 1.0 / total
        if model.stop.size > 0:
            beta[:, steps:] = 0.0
            for x in range(n_x):
                beta[x, steps] = model.stop[x] / total
                sums.end[x] += alpha[x, 0] * beta[x, steps]
        for k in range(n_blocks - 1, -1, -1):
            lo = start + k * steps
            hi = min(lo + steps, stop)
            if k < n_blocks - 1:  # the last block is still there; others are computed again
                alpha[:] = heads[k]
                _fill_block(model, data, room, totals[k], lo, hi)
            _sweep_block(model, AT, data, room, beta, lo, hi, k == 0, sums)


def block_steps(n_cells: int, longest: int) -> int:
    """Steps to keep at a time: a cache's worth, more where checkpoints would take too much.

    Examples
    --------
    >>> block_steps(n_cells=352, longest=100), block_steps(n_cells=352, longest=10**6)
    (100, 1489)
    """
    size = 8 * n_cells
    checkpoints = -(-longest * size // _CHECKPOINT_BYTES)
    return max(1, min(longest, max(_BLOCK_BYTES // size, checkpoints)))
