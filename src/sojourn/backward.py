"""Forward and backward over blocks of steps: the kernels behind posteriors and expected counts.

With beta_t[x, r] = p(o_t+1 ... o_T | x_t = x, r steps remain), scaled so that alpha_t · beta_t = 1,

    beta_t[x, r + 1] = b(x) beta_t+1[x, r]
    beta_t[y, 1]     = Σ_x A[y, x] b(x) Σ_r D[x, r] beta_t+1[x, r],      beta_T = 1 / p(o_1 ... o_T)

where b(x) = p(o_t+1 | x). That beta_T does not depend on r is what makes the last stay
right-censored. A row of beta moves by one column a step; here it stays where it is, in a buffer
longer than the row, and the place where it begins moves instead.

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
    init, A, D, B, alpha, total, work, codes, labels, first, last, block, scales, entries
) -> tuple[float, float]:
    """Advance alpha over codes[first:last] and keep each step: alpha, scale, and mass entering.

    Step ``first + j`` is row j + 1 of the outputs; row 0 of the block is alpha as it came. A total
    of -1 begins a sequence. Returns the new total, 0 if the codes are impossible, and the
    logarithm of the scales.
    """
    n_x = D.shape[0]
    flat = alpha.reshape(alpha.size)
    log_scale = 0.0
    for i in range(flat.size):
        block[0, i] = flat[i]
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
            advance(alpha, scale, A, D, work)
        total = 0.0
        for i in range(flat.size):
            value = flat[i]
            block[j, i] = value
            total += value
        if total <= 0.0:
            return 0.0, 0.0
        scales[j] = scale
        for x in range(n_x):
            entries[j, x] = work[2, x]
    return total, log_scale


@njit(**KERNEL)
def _sweep_block(  # type: ignore[no-untyped-def]
    AT, D, B, codes, labels, first, last, begins, block, scales, entries, beta, work, moves,
    initial, transition, duration, emission, gamma,
):  # fmt: skip
    """Backward over codes[first:last], adding what is expected there; returns nothing.

    On entry beta at step last - 1 stands at the end of its buffer, on leaving beta at first - 1.
    ``begins`` says that first is the first step of the sequence.
    """
    n_x = D.shape[0]
    R = np.uint64(D.shape[1])  # unsigned indices: no test for negative ones in the loops below
    one = np.uint64(1)
    room = np.uint64(beta.shape[1]) - R
    p = room
    steps = last - first
    for j in range(steps, 0, -1):
        t = first + j - 1
        set_factors(work, B, codes[t], labels[t] if labels.size > 0 else -1)
        at_start = begins and j == 1
        scale = scales[j]
        if at_start:
            for x in range(n_x):
                b = work[0, x]
                for r in range(R):
                    initial[x, r] += b * beta[x, p + r]
        everything = 0.0
        for x in range(n_x):
            k = work[0, x] * scale
            enter = 0.0 if at_start else entries[j, x]
            posterior = 0.0
            ahead = 0.0
            for r in range(R):
                value = beta[x, p + r]
                posterior += block[j, x, r] * value
                ahead += D[x, r] * value
                duration[x, r] += enter * value
                beta[x, p + r] = k * value
            work[1, x] = min(k * ahead, _CEILING)
            moves[1, x, j - 1] = 0.0 if at_start else work[1, x]
            moves[0, x, j - 1] = block[j - 1, x, 0]
            work[2, x] = posterior
            everything += posterior
        for x in range(n_x):
            emission[codes[t], x] += work[2, x]
        if gamma.size > 0:
            for x in range(n_x):
                gamma[t, x] = work[2, x] / everything
        if scale != 1.0:
            for x in range(n_x):
                for r in range(R):
                    beta[x, p + r] = min(beta[x, p + r], _CEILING)
        multiply(work, 1, AT, 2)
        p -= one
        for x in range(n_x):
            beta[x, p] = min(work[2, x], _CEILING)
    for y in range(n_x):
        for x in range(n_x):
            expected = 0.0
            for j in range(steps):
                expected += moves[0, y, j] * moves[1, x, j]
            transition[y, x] += expected
    for x in range(n_x):
        for r in range(R):
            back = R - one - r  # from the end: the two places may overlap
            beta[x, room + back] = beta[x, p + back]


@njit(**KERNEL)
def expect_chunk(  # type: ignore[no-untyped-def]
    init, A, D, B, AT, codes, labels, offsets, first, last, steps,
    log_probs, initial, transition, duration, emission, gamma,
):  # fmt: skip
    """Forward and backward over some sequences, a block of steps at a time; adds to the outputs.

    The counts still lack the factor that the same table of the model gives all their terms.
    """
    n_x, R = D.shape
    alpha, work = new_state(D)
    flat = alpha.reshape(alpha.size)
    block = np.zeros((steps + 1, alpha.size))
    block_3d = block.reshape(steps + 1, n_x, R + LANES)
    scales = np.ones(steps + 1)
    entries = np.zeros((steps + 1, n_x))
    moves = np.zeros((2, n_x, steps))
    beta = np.zeros((n_x, R + steps))
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    n_blocks = (longest + steps - 1) // steps
    heads = np.zeros((n_blocks, alpha.size if n_blocks > 1 else 0))
    head_totals = np.zeros(n_blocks)
    for i in range(first, last):
        start, stop = offsets[i], offsets[i + 1]
        total, log_scale = -1.0, 0.0
        n_blocks = (stop - start + steps - 1) // steps
        for k in range(n_blocks):
            if n_blocks > 1:
                head_totals[k] = total
                for m in range(flat.size):
                    heads[k, m] = flat[m]
            lo = start + k * steps
            hi = min(lo + steps, stop)
            total, log = fill_block(
                init, A, D, B, alpha, total, work, codes, labels, lo, hi, block, scales, entries
            )
            log_scale += log
            if total <= 0.0:
                break
        if total <= 0.0:
            log_probs[i] = -np.inf
            if gamma.size > 0:
                for t in range(start, stop):
                    for x in range(n_x):
                        gamma[t, x] = 0.0
            continue
        log_probs[i] = math.log(total) - log_scale
        for x in range(n_x):
            for r in range(R):
                beta[x, steps + r] = 1.0 / total
        for k in range(n_blocks - 1, -1, -1):
            lo = start + k * steps
            hi = min(lo + steps, stop)
            if k < n_blocks - 1:
                for m in range(flat.size):
                    flat[m] = heads[k, m]
                fill_block(
                    init, A, D, B, alpha, head_totals[k], work, codes, labels, lo, hi,
                    block, scales, entries,
                )  # fmt: skip
            _sweep_block(
                AT, D, B, codes, labels, lo, hi, k == 0, block_3d, scales, entries, beta, work,
                moves, initial, transition, duration, emission, gamma,
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
