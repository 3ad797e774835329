"""Forward and backward over blocks of steps: the kernels behind posteriors and expected counts.

With beta_t[x, r] = p(o_t+1 ... o_T | x_t = x, r steps remain), scaled so that alpha_t · beta_t = 1,

    beta_t[x, r + 1] = b(x) beta_t+1[x, r]
    beta_t[y, 1]     = Σ_x A[y, x] b(x) Σ_r D[x, r] beta_t+1[x, r],      beta_T = 1 / p(o_1 ... o_T)

where b(x) = p(o_t+1 | x). That beta_T does not depend on r is what makes the last stay
right-censored. What is kept from step to step is eta_t[x, r] = b(x) beta_t[x, r], b being that of
step t: as it stands it is the next row of beta, but for one column.

The forward pass is kept for a block of steps at a time. Sequences longer than a block keep only the
alpha at the head of each block, and run each block again before its backward sweep, so memory does
not grow with the length of a sequence beyond a few tens of megabytes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sojourn.messages import (
    KERNEL,
    LANES,
    advance,
    begin,
    mass,
    multiply,
    new_state,
    rescale,
    set_factors,
)

# Streaming a block of a few megabytes from the shared cache is as fast as from the core's own.
_BLOCK_BYTES = 1 << 22
_CHECKPOINT_BYTES = 1 << 26

# A state that cannot be reached may explain the rest of the data better than any that can, and its
# beta would grow past every number. Cut there: it is multiplied by the zero of its alpha.
_CEILING = 1e270


@njit(**KERNEL)
def fill_block(  # type: ignore[no-untyped-def]
    init, A, D, B, alpha, total, work, codes, labels, first, last, scales, entries
) -> tuple[float, float]:
    """Forward over codes[first:last] from alpha 0; step first + j is alpha j + 1, and so on.

    A total of -1 begins a sequence. Keeps each step's scale and the mass that enters each state.
    Returns the new total, 0 if the codes are impossible, and the logarithm of the scales.
    """
    n_x = D.shape[0]
    flat = alpha.reshape(alpha.shape[0], alpha.shape[1] * alpha.shape[2])
    log_scale = 0.0
    for t in range(first, last):
        j = t - first + 1
        set_factors(work, B, codes[t], labels[t] if labels.size > 0 else -1)
        scale = 1.0
        if total < 0.0:
            begin(alpha, j, init, work)
        else:
            scale = rescale(total)
            if scale != 1.0:
                log_scale += math.log(scale)
            advance(alpha, j - 1, j, scale, A, D, work)
        total = mass(flat, j)
        if total <= 0.0:
            return 0.0, 0.0
        scales[j] = scale
        for x in range(n_x):
            entries[j, x] = work[2, x]
    return total, log_scale


@njit(**KERNEL)
def _sweep_block(  # type: ignore[no-untyped-def]
    AT, D, B, codes, labels, first, last, begins, alpha, scales, entries, eta, work, moves,
    initial, transition, duration, emission, gamma,
):  # fmt: skip
    """Backward over codes[first:last], adding up what is expected to happen there.

    eta stands at ``last`` on entry and at ``first`` on leaving; ``begins`` says that first is the
    first step of the sequence.
    """
    n_x, R = D.shape
    steps = last - first
    for j in range(steps, 0, -1):
        t = first + j - 1
        set_factors(work, B, codes[t], labels[t] if labels.size > 0 else -1)
        at_start = begins and j == 1
        if at_start:
            for x in range(n_x):
                for c in range(R):
                    initial[x, c] += work[0, x] * eta[x, c + 1]
        everything = 0.0
        for x in range(n_x):
            k = work[0, x] * scales[j]
            enter = 0.0 if at_start else entries[j, x]
            posterior = 0.0
            ahead = 0.0
            for c in range(R):
                beta = eta[x, c + 1]
                posterior += alpha[j, x, LANES + c] * beta
                ahead += D[x, c] * beta
                duration[x, c] += enter * beta
                eta[x, c] = k * beta
            work[1, x] = min(k * ahead, _CEILING)
            work[2, x] = posterior
            everything += posterior
            moves[0, x, j - 1] = alpha[j - 1, x, LANES + R - 1]
            moves[1, x, j - 1] = 0.0 if at_start else work[1, x]
        for x in range(n_x):
            emission[codes[t], x] += work[2, x]
        if gamma.size > 0:
            for x in range(n_x):
                gamma[t, x] = work[2, x] / everything
        if scales[j] != 1.0:
            for x in range(n_x):
                for c in range(R):
                    eta[x, c] = min(eta[x, c], _CEILING)
        multiply(work, 1, AT, 2)
        for x in range(n_x):
            eta[x, R] = min(work[2, x], _CEILING)
    for y in range(n_x):
        for x in range(n_x):
            expected = 0.0
            for j in range(steps):
                expected += moves[0, y, j] * moves[1, x, j]
            transition[y, x] += expected


@njit(**KERNEL)
def longest_of(offsets, first, last) -> int:  # type: ignore[no-untyped-def]
    """The length of the longest of some sequences."""
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


@njit(**KERNEL)
def new_room(D, longest, steps):  # type: ignore[no-untyped-def]
    """Room for a block of so many steps and for the heads of as many blocks as are needed.

    Returns alpha, work, scales, entries, heads and the totals of the heads.
    """
    n_x = D.shape[0]
    alpha, work = new_state(D, steps + 1)
    n_blocks = (longest + steps - 1) // steps
    heads = np.zeros((n_blocks, n_x, alpha.shape[2]))
    return alpha, work, np.ones(steps + 1), np.zeros((steps + 1, n_x)), heads, np.zeros(n_blocks)


@njit(**KERNEL)
def forward_blocks(  # type: ignore[no-untyped-def]
    init, A, D, B, codes, labels, start, stop, steps, room
) -> tuple[float, float]:
    """The forward pass over codes[start:stop]; keeps the last block and the heads of all blocks.

    Returns the last total, 0 if the codes are impossible, and the logarithm of its scales.
    """
    alpha, work, scales, entries, heads, head_totals = room
    total, log_scale = -1.0, 0.0
    for k in range((stop - start + steps - 1) // steps):
        lo = start + k * steps
        hi = min(lo + steps, stop)
        if k > 0:
            copy(alpha, steps, alpha, 0)
            copy(alpha, 0, heads, k)
        head_totals[k] = total
        total, log = fill_block(
            init, A, D, B, alpha, total, work, codes, labels, lo, hi, scales, entries
        )
        log_scale += log
        if total <= 0.0:
            return 0.0, 0.0
    return total, log_scale


@njit(**KERNEL)
def again(  # type: ignore[no-untyped-def]
    init, A, D, B, codes, labels, start, stop, steps, room, k
) -> tuple[int, int]:
    """Bring block k back, from its head, and return where it begins and ends.

    The last block is there already: ask for it first.
    """
    alpha, work, scales, entries, heads, head_totals = room
    lo = start + k * steps
    hi = min(lo + steps, stop)
    if hi < stop:
        copy(heads, k, alpha, 0)
        fill_block(
            init, A, D, B, alpha, head_totals[k], work, codes, labels, lo, hi, scales, entries
        )
    return lo, hi


@njit(**KERNEL)
def copy(source, i, target, j) -> None:  # type: ignore[no-untyped-def]
    """Table i of the source becomes table j of the target."""
    for x in range(source.shape[1]):
        for c in range(source.shape[2]):
            target[j, x, c] = source[i, x, c]


@njit(**KERNEL)
def expect_chunk(  # type: ignore[no-untyped-def]
    init, A, D, B, AT, codes, labels, offsets, first, last, steps,
    log_probs, initial, transition, duration, emission, gamma,
):  # fmt: skip
    """Forward and backward over some sequences, a block of steps at a time; adds to the outputs.

    The counts still lack the factor that the same table of the model gives all their terms.
    """
    n_x, R = D.shape
    room = new_room(D, longest_of(offsets, first, last), steps)
    alpha, work, scales, entries, _, _ = room
    moves = np.zeros((2, n_x, steps))
    eta = np.zeros((n_x, R + LANES))
    for i in range(first, last):
        start, stop = offsets[i], offsets[i + 1]
        total, log_scale = forward_blocks(init, A, D, B, codes, labels, start, stop, steps, room)
        if total <= 0.0:
            log_probs[i] = -np.inf
            if gamma.size > 0:
                for t in range(start, stop):
                    for x in range(n_x):
                        gamma[t, x] = 0.0
            continue
        log_probs[i] = math.log(total) - log_scale
        for x in range(n_x):
            for c in range(R + 1):
                eta[x, c] = 1.0 / total
        for k in range((stop - start - 1) // steps, -1, -1):
            lo, hi = again(init, A, D, B, codes, labels, start, stop, steps, room, k)
            _sweep_block(
                AT, D, B, codes, labels, lo, hi, k == 0, alpha, scales, entries, eta, work, moves,
                initial, transition, duration, emission, gamma,
            )  # fmt: skip


def block_steps(n_cells: int, longest: int) -> int:
    """Steps to keep at a time: a cache's worth, more where checkpoints would take too much.

    Examples
    --------
    >>> block_steps(n_cells=352, longest=100), block_steps(n_cells=352, longest=10**6)
    (100, 1489)
    """
    size = 8 * n_cells
    checkpoints = -(-longest * size // _CHECKPOINT_BYTES)
    return min(longest, max(1, _BLOCK_BYTES // size, checkpoints))
