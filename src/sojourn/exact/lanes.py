"""One step of the forward pass, for several sequences side by side.

A step of one sequence waits for the step before it. So W sequences advance together, one per
*lane*, and each operation is one on vectors of eight numbers (`vectors`). Arrays have the state and
then the lane as their last axis, N = n_x W numbers in a row. W is a multiple of eight, and a vector
has eight lanes of one state; or W is one, rows are padded, and a vector has eight states. Loops run
over the columns q of the tables, from which vectors begin, and over the places h of a row.

Cells are not kept. What entered each state in the last n = n_d - 1 steps determines what leaves it:
with E_t[x] the product of all emissions b_1(x) ... b_t(x), which the stays in x share,

    f_t[x]   = Σ_y out_t-1[y] A[y, x] / E_t-1[x]              entered at t, emissions left out
    out_t[x] = E_t[x] (Σ_j<n D[x, j] f_t-j[x] + g_t-n+1[x])   last step of a stay
    g_t[x]   = (1 - tail[x]) top_t-1[x]                       begins to count down from n_d - 1
    top_t[x] = D[x, n] f_t[x] + tail[x] top_t-1[x]            n_d steps remain, or more

so a step reads the last n rows of f and writes one.

Every 32 steps, and where an entry of E falls below 2^-400, E is multiplied into f, g
and top, and these are scaled by a power of two, which costs no precision. When that happens depends
on a lane's own sequence, and all sums are over states and steps, in one order: so the result of a
sequence does not depend on its neighbours, to the bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from sojourn.exact.layout import AT_ONCE, EVERY, LEAST
from sojourn.exact.vectors import (
    WIDTH,
    any_below,
    compact,
    entry,
    fma,
    gather,
    least,
    load,
    most,
    of_state,
    splat,
    store,
)

# Sums are in the order in which they are written, so that they do not depend on the lanes.
KERNEL: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz"},
    "_nrt": False,  # nothing is allocated, so nothing need be counted
}

# Of functions that only kernels call: wrappers for Python would take long to compile.
INNER: dict[str, Any] = {**KERNEL, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# A call passes each array as seven numbers and more: too much for what is done at every step.
INLINE: dict[str, Any] = {**INNER, "forceinline": True}

LOG_2 = math.log(2.0)

# A state that cannot be reached may explain the rest of the data better than any that can, and its
# beta would overflow. It can be cut, since it is multiplied by the zero of its alpha.
CEILING = 1e270

U = np.uint64  # unsigned: the loops need no test for negative indices


@njit(**INLINE)
def mixed(table, q, P, n_x, numbers, at, W, wide):  # type: ignore[no-untyped-def]
    """Σ_y table[y, q] numbers[y], a sum over states."""
    s0, s1, s2, s3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for y in range(0, n_x, AT_ONCE):
        compact()
        j, k = y * P + q, at + y * W
        s0 = fma(entry(table, j, wide), of_state(numbers, k, wide), s0)
        s1 = fma(entry(table, j + P, wide), of_state(numbers, k + W, wide), s1)
        s2 = fma(entry(table, j + 2 * P, wide), of_state(numbers, k + 2 * W, wide), s2)
        s3 = fma(entry(table, j + 3 * P, wide), of_state(numbers, k + 3 * W, wide), s3)
    return (s0 + s1) + (s2 + s3)


@njit(**INLINE)
def row_sum(table, q, P, window, at, n, N, wide):  # type: ignore[no-untyped-def]
    """Σ_j table[j, q] window[j], a sum over the first n rows of both; n is even."""
    s0, s1 = splat(0.0), splat(0.0)
    for j in range(0, n, 2):
        compact()
        s0 = fma(entry(table, j * P + q, wide), load(window, at + j * N), s0)
        s1 = fma(entry(table, j * P + P + q, wide), load(window, at + j * N + N), s1)
    return s0 + s1


@njit(**INLINE)
def two_row_sums(table, q, P, window, at, n, N, wide, rows, ahead):  # type: ignore[no-untyped-def]
    """The same, and in place `ahead` of the rows for the next step: each row is one further."""
    s0, s1, a0, a1 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    d0 = entry(table, q, wide)
    for j in range(0, n, 2):
        compact()
        v0, v1 = load(window, at + j * N), load(window, at + j * N + N)
        d1, d2 = entry(table, (j + 1) * P + q, wide), entry(table, (j + 2) * P + q, wide)
        s0, s1 = fma(d0, v0, s0), fma(d1, v1, s1)
        a0, a1 = fma(d1, v0, a0), fma(d2, v1, a1)
        d0 = d2
    store(rows, ahead, a0 + a1)
    return s0 + s1


@njit(**INNER)
def move(window, n, N) -> None:  # type: ignore[no-untyped-def]
    """Move the first n rows to the end, so that there are free ones before them."""
    for i in range((n - 1) * N, -1, -N):  # from the end: the two places may overlap
        for h in range(i, i + N, WIDTH):
            store(window, EVERY * N + h, load(window, h))


@njit(**INLINE)
def read_factors(evidence, group, t, which, pad, rows, b, wide) -> None:  # type: ignore[no-untyped-def]
    """Put p(observation | x) at step t into the rows, from place b on.

    A lane whose sequence has ended reads ones. A known label rules all other states out.
    """
    codes, labels, _, B = evidence
    begins, lengths = group
    n_x, W, ones = B.shape[1], which.size, B.shape[0] - 1
    for l in range(W):
        k = ones
        if t < lengths[l] and codes[begins[l] + t] >= 0:
            k = codes[begins[l] + t]
        which[l] = k * n_x
    if wide is None:
        for h in range(0, pad.size, WIDTH):  # what is read beyond the states gives way to ones
            store(rows, b + h, most(load(B, which[0] + h), load(pad, h)))
    else:
        for x in range(n_x):
            for l in range(0, W, WIDTH):
                store(rows, b + x * W + l, gather(B, which, l, x))
    if labels.size > 0:
        for l in range(W):
            label = labels[begins[l] + t] if t < lengths[l] else -1
            for x in range(n_x):
                if label >= 0 and x != label:
                    rows[b + x * W + l] = 0.0


@njit(**INNER)
def _to_settle(rows, E, N, flag, t) -> bool:  # type: ignore[no-untyped-def]
    """Put into flag whether a lane is to be settled; returns whether any is."""
    W, regular, low = flag.size, t % EVERY == 0 and t > 0, False
    for h in range(E, E + N, WIDTH):
        low = any_below(load(rows, h), splat(LEAST)) or low
    if not (regular or low):
        return False
    for l in range(W):
        flag[l] = regular
        for i in range(E + l, E + N, W):
            flag[l] = flag[l] or rows[i] < LEAST
    return True


@njit(**INNER)
def add_up(model, forward) -> None:  # type: ignore[no-untyped-def]
    """Sums of the cells of each state, without E, and of alpha in each lane."""
    rows, total, n_x, n = forward.rows, forward.total, model.n_x, model.n
    W, P = total.size, model.pad.size
    N = max(P, n_x * W)
    E, top, sums = 2 * N, 3 * N, 6 * N
    for q in range(0, n_x, WIDTH if W == 1 else 1):
        for h in range(q * W, q * W + max(W, WIDTH), WIDTH):
            at = forward.at[0] * N + h
            s = row_sum(model.S, q, P, forward.recent, at, n + n % 2, N, model.wide)
            for j in range(n):
                s = s + load(forward.down, at + j * N)
            store(rows, sums + h, s + load(rows, top + h))
    for l in range(W):
        total[l] = 0.0
        for i in range(l, n_x * W, W):
            total[l] += rows[E + i] * rows[sums + i]


@njit(**INNER)
def _settle(model, forward) -> None:  # type: ignore[no-untyped-def]
    """Multiply E into the rows, in the lanes to be settled, and divide by a power of two."""
    rows, total, n = forward.rows, forward.total, model.n
    N, W = max(model.pad.size, model.n_x * total.size), total.size
    E, top, ahead, factor = 2 * N, 3 * N, 5 * N, 6 * N
    add_up(model, forward)
    for i in range(N):
        rows[factor + i] = 1.0
    for l in range(W):
        if not forward.flag[l]:
            continue
        power = max(-1000, math.frexp(total[l])[1]) if total[l] > 0.0 else 0  # 2^1000 is finite
        forward.shifts[l] += power
        forward.scale[l] = math.ldexp(1.0, -power)
        for i in range(l, N, W):
            rows[factor + i], rows[E + i] = rows[E + i] * forward.scale[l], 1.0
    multiply_rows(rows, top, 1, rows, factor, N)
    multiply_rows(rows, ahead, 1, rows, factor, N)
    multiply_rows(forward.recent, forward.at[0] * N, n, rows, factor, N)
    multiply_rows(forward.down, forward.at[0] * N, n, rows, factor, N)


@njit(**INNER)
def multiply_rows(window, first, n, rows, factor, N) -> None:  # type: ignore[no-untyped-def]
    """Multiply n rows, from a place on, by the factors; to no more than `CEILING`."""
    for at in range(first, first + n * N, N):
        for h in range(0, N, WIDTH):
            v = least(load(window, at + h) * load(rows, factor + h), splat(CEILING))
            store(window, at + h, v)


@njit(**INNER)
def _begin(model, forward, N, W) -> None:  # type: ignore[no-untyped-def]
    """Before the first step: what ends n - 1 - j steps from it has begun to count down j ago."""
    rows, init, P, n, wide = forward.rows, model.init, model.pad.size, model.n, model.wide
    forward.at[0] = EVERY
    for q in range(0, model.n_x, WIDTH if W == 1 else 1):
        for h in range(q * W, q * W + max(W, WIDTH), WIDTH):
            for j in range(n):
                at = (EVERY + j) * N + h
                store(forward.recent, at, splat(0.0))
                store(forward.down, at, entry(init, (n - 1 - j) * P + q, wide))
            store(rows, h, splat(0.0))
            store(rows, 2 * N + h, load(rows, N + h))
            store(rows, 3 * N + h, entry(init, n * P + q, wide))


@njit(**INNER, inline="always")
def forward_steps(model, evidence, group, forward, steps, origin, first, last):  # type: ignore[no-untyped-def]
    """Steps first to last - 1 of a group, from the one before; kept in rows from origin on."""
    rows, recent, down, _, flag, scale, _, which, at = forward
    kept, kept_scale, kept_flag, kept_settled = steps
    _, A, _, D, _, ends, _, pad, _, n_x, n, wide = model
    W, P = flag.size, pad.size
    N = max(P, n_x * W)
    f, b, E, top, out, ahead = 0, N, 2 * N, 3 * N, 4 * N, 5 * N
    stride, width = (WIDTH if W == 1 else 1), max(W, WIDTH)
    for t in range(first, last):
        read_factors(evidence, group, t, which, pad, rows, b, wide)
        if t == 0:
            _begin(model, forward, N, W)
        else:
            if at[0] == 0:
                move(recent, n, N)
                move(down, n, N)
                at[0] = EVERY
            at[0] -= 1
            start = at[0] * N
            for q in range(0, n_x, stride):
                for l in range(0, width, WIDTH):
                    h = q * W + l
                    e, before = load(rows, E + h), load(rows, top + h)
                    v = mixed(A, q, P, n_x, rows, out + l, W, wide) * (splat(1.0) / e)
                    store(rows, E + h, e * load(rows, b + h))
                    store(rows, f + h, v)
                    store(recent, start + h, v)
                    store(down, start + h, entry(ends, 2 * P + q, wide) * before)
                    held = entry(ends, P + q, wide) * before
                    store(rows, top + h, fma(entry(ends, q, wide), v, held))
        settled = _to_settle(rows, E, N, flag, t)
        if settled:
            _settle(model, forward)
        start = at[0] * N
        for q in range(0, n_x, stride):
            for h in range(q * W, q * W + width, WIDTH):
                if n == 0:
                    s = load(rows, top + h)
                else:
                    if t % 2:
                        s = fma(entry(D, q, wide), load(recent, start + h), load(rows, ahead + h))
                    else:
                        even = n + n % 2
                        s = two_row_sums(D, q, P, recent, start + h, even, N, wide, rows, ahead + h)
                    s = s + load(down, start + (n - 1) * N + h)
                store(rows, out + h, load(rows, E + h) * s)
        if kept.size > 0:
            row = t - origin
            for h in range(0, 5 * N, WIDTH):
                store(kept, row * 5 * N + h, load(rows, h))
            kept_settled[row] = settled
            if settled:
                for l in range(W):
                    kept_flag[row, l], kept_scale[row, l] = flag[l], scale[l]


@njit(**INNER)
def log_of(p: float, shift: int) -> float:
    """log(p 2^shift), the same however the powers of two are shared out between the two."""
    if p <= 0.0:
        return -np.inf
    mantissa, exponent = math.frexp(p)
    return math.log(mantissa) + (exponent + shift) * LOG_2


@njit(**INNER)
def set_group(evidence, order, k, group) -> int:  # type: ignore[no-untyped-def]
    """Take the next sequences from place k of the order on; returns how many there are."""
    W = group.lengths.size
    n = min(W, order.size - k)
    for l in range(W):
        i = order[min(k + l, order.size - 1)]
        group.begins[l] = evidence.offsets[i]
        group.lengths[l] = evidence.offsets[i + 1] - evidence.offsets[i] if l < n else 0
    return n
