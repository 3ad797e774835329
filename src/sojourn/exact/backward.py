"""Forward and backward over blocks of steps: the kernels behind posteriors and expected counts.

With beta_t[x, r] = p(o_t+1 ... o_T | x_t = x, r steps remain), scaled so that alpha_t · beta_t = 1,

    beta_t[x, r + 1] = b(x) beta_t+1[x, r]
    beta_t[y, 1]     = Σ_x A[y, x] b(x) Σ_r D[x, r] beta_t+1[x, r],      beta_T = 1 / p(o_1 ... o_T)

where b(x) = p(o_t+1 | x). That beta_T does not depend on r is what makes the last stay
right-censored; with ends, beta_T[x, 1] = end[x] / p(o_1 ... o_T, the end) and the rest is zero. A
stay in its tail looks ahead both ways:

    beta_t[x, n_d] = b(x) (tail[x] beta_t+1[x, n_d] + (1 - tail[x]) beta_t+1[x, n_d - 1]).

As in `lanes`, what a stay in x that ends at step q is worth has a slot of its own, and the product
of emissions that all stays in x share is kept apart: G[q mod n_d, x] = E_t[x] beta_t[x, q - t]. It
does not change from step to step, so a step of the backward pass adds one slot and changes none:

    H_t[x] = Σ_r D[x, r] G[(t + r) mod n_d, x],    w_t = H_t / E_t-1
    G[(t - 1) mod n_d, y] = E_t-1[y] Σ_x A[y, x] w_t[x].

Expected counts are products of the two passes: c_t · G over slots is p(x_t = x), f_t G the
durations of stays that begin at t, out_t-1[y] A[y, x] w_t[x] the transitions.

The forward pass is kept for a block of steps at a time. Sequences longer than a block keep only the
head of each block, and compute each block again before its backward sweep, so memory does not grow
with the length of a sequence beyond a few tens of megabytes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sojourn.exact.filter import Floats
from sojourn.exact.lanes import (
    FEW,
    KERNEL,
    Group,
    add_up,
    copy_step,
    ending_in,
    forward_steps,
    log_of,
    new_forward,
    set_group,
    tiles_of,
)

# A block stays in a core's own cache until its backward sweep.
_BLOCK_BYTES = 1 << 20
_CHECKPOINT_BYTES = 1 << 26

# A state that cannot be reached may explain the rest of the data better than any that can, and its
# beta would overflow. It can be cut, since it is multiplied by the zero of its alpha.
_CEILING = 1e270


class Sums(NamedTuple):
    """What the backward pass adds to, lane by lane; counts lack the factor all terms share."""

    log_probs: Floats  # one per sequence                                    (n,)
    initial: Floats  # (n_d, N)
    transition: Floats  # (n_x, N)
    duration: Floats  # two halves, to be added                              (2 n_d, N)
    emission: Floats  # the last row for missing symbols                     (n_rows + 1, n_x)
    hold: Floats  # stays held in their tail, and counting down from it      (2, N)
    end: Floats  # (N,)
    gamma: Floats  # p(state at t | sequence), or empty                      (n_total, n_x)


class Sweep(NamedTuple):
    """What the backward pass of a group needs."""

    G: Floats  # (n_d, N)
    post: Floats  # p(x_t = x)                                               (N,)
    H: Floats  # and then w                                                  (N,)
    leave: Floats  # room for sums over next states                          (N,)
    p: Floats  # of each lane, as scaled at its end; zero if impossible      (W,)


@njit(**KERNEL)
def _begin_lanes(model, group, forward, row, t, sweep, sums) -> None:  # type: ignore[no-untyped-def]
    """Set G in the lanes whose last step is t."""
    G, p, c, E = sweep.G, sweep.p, forward.c, forward.E
    n_d, N = G.shape
    W = p.size
    for l in range(W):
        if group.lengths[l] != t + 1 or p[l] <= 0.0:
            continue
        for x in range(N // W):
            i = x * W + l
            value = E[row, i] / p[l]
            if model.stop.size > 0:
                G[t % n_d, i] = value * model.stop[x]
                sums.end[i] += c[row, t % n_d, i] * G[t % n_d, i]
            else:
                for s in range(n_d):
                    G[s, i] = value


@njit(**KERNEL)
def _unsettle(forward, row, before, sweep) -> None:  # type: ignore[no-untyped-def]
    """Posteriors where lanes were settled; then G as it was before they were."""
    c, E, b, _, flag, power, _, _, _, first, second = forward
    G, post, scale = sweep.G, sweep.post, sweep.leave
    n_d, N = G.shape
    W = flag.shape[1]
    for l in range(W):
        settled = flag[row, l]
        factor = math.ldexp(1.0, -power[row, l]) if settled else 1.0
        for x in range(N // W):
            i = x * W + l
            first[i] = E[before, i] if settled else 1.0
            second[i] = b[row, i] if settled else 1.0
            scale[i] = factor
            post[i] = 0.0
    for s in range(n_d):
        for i in range(N):
            post[i] += c[row, s, i] * G[s, i]
            G[s, i] = min(G[s, i] * scale[i] * first[i] * second[i], _CEILING)


@njit(**KERNEL)
def _add_states(evidence, group, t, post, sums) -> None:  # type: ignore[no-untyped-def]
    """Add the posteriors of step t to the emissions, and write them if they are wanted."""
    rows, emission, gamma = evidence.rows, sums.emission, sums.gamma
    begins, lengths = group
    W = lengths.size
    n_x = post.size // W
    for l in range(W):
        if t >= lengths[l]:
            continue
        at = begins[l] + t
        row = rows[at]
        if row < 0:
            row = emission.shape[0] - 1
        everything = 0.0
        for x in range(n_x):
            emission[row, x] += post[x * W + l]
            everything += post[x * W + l]
        if gamma.size > 0:
            share = 1.0 / everything if everything > 0.0 else 0.0
            for x in range(n_x):
                gamma[at, x] = post[x * W + l] * share


@njit(**KERNEL)
def _sweep(  # type: ignore[no-untyped-def]
    model, tiles, evidence, group, forward, first, last, sweep, sums
) -> None:
    """Backward over steps first to last - 1, adding up what is expected to happen there."""
    _, A, D, hold, _ = tiles
    c, E, _, f, _, _, settled, _, _, out, _ = forward
    G, post, H, leave, _ = sweep
    _, initial, transition, duration, _, held, _, _ = sums
    n_d, N = G.shape
    n_x = A.shape[0]
    W = N // n_x
    shortest = group.lengths[W - 1]
    for t in range(last - 1, first - 1, -1):
        row, before = t - first + 1, t - first
        if t + 1 >= shortest:
            _begin_lanes(model, group, forward, row, t, sweep, sums)
        if settled[row]:
            _unsettle(forward, row, before, sweep)
        else:
            for i in range(N):
                post[i] = 0.0
            for s in range(n_d):
                for i in range(N):
                    post[i] += c[row, s, i] * G[s, i]
        _add_states(evidence, group, t, post, sums)
        if t == 0:
            for s in range(n_d):
                for i in range(N):
                    initial[s, i] += G[s, i]
            continue
        slot, last_slot, shift = (t - 1) % n_d, (t + n_d - 2) % n_d, n_d - t % n_d
        for i in range(N):
            H[i] = 0.0
        for s in range(n_d):
            for i in range(N):
                H[i] += D[s + shift, i] * G[s, i]
                duration[s + shift, i] += f[row, i] * G[s, i]
        for i in range(N):
            H[i] = min(H[i] / E[before, i], _CEILING)  # w
            out[i] = E[before, i] * c[before, slot, i]
            leave[i] = 0.0
        if W < FEW:
            for j in range(N):
                y, l = j // W, j % W
                for x in range(n_x):
                    transition[y, x * W + l] += out[j] * H[x * W + l]
                    leave[j] += A[y, x] * H[x * W + l]
        else:
            for y in range(n_x):
                for x in range(n_x):
                    a = A[y, x]
                    for l in range(W):
                        transition[y, x * W + l] += out[y * W + l] * H[x * W + l]
                        leave[y * W + l] += a * H[x * W + l]
        for i in range(N):
            leave[i] = min(E[before, i] * leave[i], _CEILING)
        for i in range(N):
            kept, down, there = G[slot, i], G[last_slot, i], c[before, last_slot, i]
            held[0, i] += there * kept
            held[1, i] += there * down
            if n_d == 1:
                leave[i] += hold[0, i] * kept
            else:
                G[last_slot, i] = hold[1, i] * down + hold[0, i] * kept
        for i in range(N):
            G[slot, i] = leave[i]


@njit(**KERNEL)
def _finish_lanes(  # type: ignore[no-untyped-def]
    model, group, forward, row, t, order, k, p, log_probs
) -> None:
    """The probabilities of the sequences whose last step is t."""
    W = p.size
    if model.stop.size == 0:
        add_up(forward.c, forward.E, row, forward.sums, forward.total)
    for l in range(W):
        if group.lengths[l] == t + 1:
            p[l] = forward.total[l]
            if model.stop.size > 0:
                p[l] = ending_in(forward.c, forward.E, row, t, model.stop, l, W)
            log_probs[order[k + l]] = log_of(p[l], forward.shifts[l])


@njit(**KERNEL)
def expect_chunk(model, evidence, order, W, steps, sums):  # type: ignore[no-untyped-def]
    """Forward and backward over some sequences, the longest first, W at a time.

    A block of steps at a time; adds to the sums.
    """
    n_d, n_x = model.D.shape
    N = n_x * W
    tiles, forward = tiles_of(model, W), new_forward(steps + 1, n_d, n_x, W)
    longest = evidence.offsets[order[0] + 1] - evidence.offsets[order[0]]
    n_heads = (longest + steps - 1) // steps
    heads, heads_E = np.zeros((n_heads, n_d, N)), np.ones((n_heads, N))
    sweep = Sweep(np.zeros((n_d, N)), np.zeros(N), np.zeros(N), np.zeros(N), np.zeros(W))
    group = Group(np.zeros(W, np.int64), np.zeros(W, np.int64))
    for k in range(0, order.size, W):
        n = set_group(evidence, order, k, group)
        for l in range(W):
            forward.shifts[l], sweep.p[l] = 0, 0.0
            if group.lengths[l] == 0 and l < n:
                sums.log_probs[order[k + l]] = log_of(model.empty, 0)
        T, alive = group.lengths[0], n
        n_blocks = (T + steps - 1) // steps
        for m in range(n_blocks):
            first, last = m * steps, min((m + 1) * steps, T)
            copy_step(forward.c, forward.E, 0, heads, heads_E, m)
            t = first
            while t < last:
                while alive > 0 and group.lengths[alive - 1] <= t:
                    alive -= 1
                end = min(last, group.lengths[alive - 1])  # of the shortest that is left
                forward_steps(tiles, evidence, group, forward, first - 1, t, end)
                t = end
                if group.lengths[alive - 1] == t:
                    row = t - first
                    _finish_lanes(
                        model, group, forward, row, t - 1, order, k, sweep.p, sums.log_probs
                    )
            if m < n_blocks - 1:
                copy_step(forward.c, forward.E, steps, forward.c, forward.E, 0)
        for s in range(n_d):
            for i in range(N):
                sweep.G[s, i] = 0.0
        for m in range(n_blocks - 1, -1, -1):
            first, last = m * steps, min((m + 1) * steps, T)
            if m < n_blocks - 1:  # the last block is still there; others are computed again
                copy_step(heads, heads_E, m, forward.c, forward.E, 0)
                forward_steps(tiles, evidence, group, forward, first - 1, first, last)
            _sweep(model, tiles, evidence, group, forward, first, last, sweep, sums)


def block_steps(n_cells: int, longest: int) -> int:
    """Steps to keep at a time: a cache's worth, more where checkpoints would take too much.

    Examples
    --------
    >>> block_steps(n_cells=352, longest=100), block_steps(n_cells=352, longest=10**6)
    (100, 372)
    """
    size = 8 * n_cells
    checkpoints = -(-longest * size // _CHECKPOINT_BYTES)
    return max(1, min(longest, max(_BLOCK_BYTES // size, checkpoints)))
