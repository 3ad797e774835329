"""Forward and backward over blocks of steps: the kernels behind posteriors and expected counts.

With beta_t[x, r] = p(o_t+1 ... o_T | x_t = x, r steps remain), scaled so that alpha_t · beta_t = 1,

    beta_t[x, r + 1] = b(x) beta_t+1[x, r]
    beta_t[y, 1]     = Σ_x A[y, x] b(x) Σ_r D[x, r] beta_t+1[x, r],      beta_T = 1 / p(o_1 ... o_T)

where b(x) = p(o_t+1 | x). That beta_T does not depend on r is what makes the last stay
right-censored. A row of beta moves on by one column a step; here it stays where it is, in a buffer
longer than the row, and the place where it begins moves instead.

The forward pass is kept for a block of steps at a time. Sequences longer than a block keep only the
alpha at the head of each block, and run each block again before its backward sweep, so memory does
not grow with the length of a sequence beyond a few tens of megabytes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sojourn.exact.forward import (
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
    """Forward over codes[first:last] from alpha, whose sum is total; -1 begins a sequence.

    Row 0 of the block keeps alpha as it came, row j + 1 that of step first + j; scales and entries
    keep the factor of that step and the mass that entered each state. Returns the new total, 0 if
    the codes are impossible, and the logarithm of the scales.
    """
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
            block[j, i] = flat[i]
            total += flat[i]
        if total <= 0.0:
            return 0.0, 0.0
        scales[j] = scale
        for x in range(D.shape[0]):
            entries[j, x] = work[2, x]
    return total, log_scale


@njit(**KERNEL)
def _add_moves(transition, block, j, work) -> None:  # type: ignore[no-untyped-def]
    """Add the moves from each state that ends at row j to each; work[1] weighs where they go."""
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
    AT, D, B, codes, labels, first, last, begins, block, scales, entries, beta, work,
    initial, transition, duration, emission, gamma,
):  # fmt: skip
    """Backward over codes[first:last], adding up what is expected to happen there.

    beta of step last - 1 stands at the end of its buffer on entry, that of first - 1 on leaving;
    ``begins`` says that first is the first step of the sequence.
    """
    n_x = D.shape[0]
    R = np.uint64(D.shape[1])  # unsigned: the loops need no test for negative indices
    end = np.uint64(beta.shape[1]) - R
    p = end
    for j in range(last - first, 0, -1):
        t = first + j - 1
        set_factors(work, B, codes[t], labels[t] if labels.size > 0 else -1)
        at_start = begins and j == 1
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
            _add_moves(transition, block, j - 1, work)
        multiply(work, 1, AT, 2)
        p -= np.uint64(1)
        for x in range(n_x):
            beta[x, p] = min(work[2, x], _CEILING)
    for x in range(n_x):
        for r in range(R):
            back = R - np.uint64(1) - r  # from the end: the two places may overlap
            beta[x, end + back] = beta[x, p + back]


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

    Returns alpha, work, block, scales, entries, heads and the totals of the heads.
    """
    alpha, work = new_state(D)
    n_blocks = (longest + steps - 1) // steps
    block = np.zeros((steps + 1, alpha.size))
    entries = np.zeros((steps + 1, D.shape[0]))
    heads = np.zeros((n_blocks, alpha.size))
    return alpha, work, block, np.ones(steps + 1), entries, heads, np.zeros(n_blocks)


@njit(**KERNEL)
def forward_blocks(  # type: ignore[no-untyped-def]
    init, A, D, B, codes, labels, start, stop, steps, room
) -> tuple[float, float]:
    """The forward pass over codes[start:stop]; keeps the last block and the heads of all blocks.

    Returns the last total, 0 if the codes are impossible, and the logarithm of its scales.
    """
    alpha, work, block, scales, entries, heads, head_totals = room
    flat = alpha.reshape(alpha.size)
    total, log_scale = -1.0, 0.0
    for k in range((stop - start + steps - 1) // steps):
        lo = start + k * steps
        hi = min(lo + steps, stop)
        head_totals[k] = total
        for i in range(flat.size):
            heads[k, i] = flat[i]
        total, log = fill_block(
            init, A, D, B, alpha, total, work, codes, labels, lo, hi, block, scales, entries
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
    alpha, work, block, scales, entries, heads, head_totals = room
    flat = alpha.reshape(alpha.size)
    lo = start + k * steps
    hi = min(lo + steps, stop)
    if hi < stop:
        for i in range(flat.size):
            flat[i] = heads[k, i]
        total = head_totals[k]
        fill_block(init, A, D, B, alpha, total, work, codes, labels, lo, hi, block, scales, entries)
    return lo, hi


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
    _, work, block, scales, entries, _, _ = room
    kept = block.reshape(steps + 1, n_x, R + LANES)
    beta = np.zeros((n_x, R + steps))
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
            for r in range(R):
                beta[x, steps + r] = 1.0 / total
        for k in range((stop - start - 1) // steps, -1, -1):
            lo, hi = again(init, A, D, B, codes, labels, start, stop, steps, room, k)
            _sweep_block(
                AT, D, B, codes, labels, lo, hi, k == 0, kept, scales, entries, beta, work,
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
