"""One step of the forward pass, for several sequences side by side.

A step of one sequence waits for the step before it. So W sequences advance together, one per
*lane*: arrays have the state and then the lane as their last axis, N = n_x W numbers in a row, and
each operation is one over whole rows.

Cells are not kept. What entered each state in the last n = n_d - 1 steps determines what leaves it:
with E_t[x] the product of all emissions b_1(x) ... b_t(x), which the stays in x share,

    f_t[x]   = Σ_y out_t-1[y] A[y, x] / E_t-1[x]              entered at t, emissions left out
    out_t[x] = E_t[x] (Σ_j<n D[x, j] f_t-j[x] + g_t-n+1[x])   last step of a stay
    g_t[x]   = (1 - tail[x]) top_t-1[x]                       begins to count down from n_d - 1
    top_t[x] = D[x, n] f_t[x] + tail[x] top_t-1[x]            n_d steps remain, or more

so a step reads the last n rows of f and writes one. The next states are found the same way: with
the states of `out` written twice in a row, the one that is k after x is k W further on, and f is a
sum over k of rows of A by rows of `out` that begin W apart (`add_products`).

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
def add_products(sums, table, first, source, start, stride) -> None:  # type: ignore[no-untyped-def]
    """Add Σ_j table[first + j] source[start + j stride :], a sum of products of rows."""
    N, step, at = U(sums.size), U(stride), U(start)
    for j in range(first, first + table.shape[0] // AT_ONCE * AT_ONCE, AT_ONCE):
        at1 = at + step
        at2 = at1 + step
        at3 = at2 + step
        for i in range(N):
            sums[i] += (table[j, i] * source[at + i] + table[j + 1, i] * source[at1 + i]) + (
                table[j + 2, i] * source[at2 + i] + table[j + 3, i] * source[at3 + i]
            )
        at = at3 + step


@njit(**INLINE)
def add_both(sums, ahead, table, source, start) -> None:  # type: ignore[no-untyped-def]
    """The same, and for the next step, which has each row one row further: one reading of both."""
    N, at = U(sums.size), U(start)
    for j in range(0, table.shape[0] // AT_ONCE * AT_ONCE, AT_ONCE):
        at1 = at + N
        at2 = at1 + N
        at3 = at2 + N
        for i in range(N):
            s0, s1, s2, s3 = source[at + i], source[at1 + i], source[at2 + i], source[at3 + i]
            d1, d2, d3 = table[j + 1, i], table[j + 2, i], table[j + 3, i]
            sums[i] += (table[j, i] * s0 + d1 * s1) + (d2 * s2 + d3 * s3)
            ahead[i] += (d1 * s0 + d2 * s1) + (d3 * s2 + table[j + 4, i] * s3)
        at = at3 + N


@njit(**INNER)
def move(window, n, N) -> None:  # type: ignore[no-untyped-def]
    """Move the first n rows to the end, so that there are free ones before them."""
    for j in range(n - 1, -1, -1):  # from the end: the two places may overlap
        source, target = U(j * N), U((EVERY + j) * N)
        for i in range(U(N)):
            window[target + i] = window[source + i]


@njit(**INLINE)
def read_factors(rows, labels, B, begins, lengths, t, which, b) -> None:  # type: ignore[no-untyped-def]
    """Put p(observation | x) at step t into b.

    A lane whose sequence has ended reads ones. A known label rules all other states out.
    """
    n_x, W, ones = B.shape[1], which.size, B.shape[0] - 1
    for l in range(W):
        k = ones
        if t < lengths[l] and rows[begins[l] + t] >= 0:
            k = rows[begins[l] + t]
        which[l] = k
    for x in range(n_x):
        for l in range(W):
            b[x * W + l] = B[which[l], x]
    if labels.size > 0:
        for l in range(W):
            label = labels[begins[l] + t] if t < lengths[l] else -1
            for x in range(n_x):
                if label >= 0 and x != label:
                    b[x * W + l] = 0.0


@njit(**INNER)
def _to_settle(E, flag, t) -> bool:  # type: ignore[no-untyped-def]
    """Put into flag whether a lane is to be settled; returns whether any is."""
    W, regular, n_low = flag.size, t % EVERY == 0 and t > 0, 0
    for i in range(E.size):
        n_low += E[i] < LEAST
    if not (regular or n_low):
        return False
    for l in range(W):
        flag[l] = regular
        for i in range(l, E.size, W):
            flag[l] = flag[l] or E[i] < LEAST
    return True


@njit(**INNER)
def add_up(model, forward) -> None:  # type: ignore[no-untyped-def]
    """Sums of the cells of each state, without E, and of alpha in each lane."""
    sums, total, top, E = forward.sums, forward.total, forward.top, forward.E
    N, W = sums.size, total.size
    start = forward.at[0] * N
    for i in range(N):
        sums[i] = top[i]
    add_products(sums, model.ones, 0, forward.down, start, N)
    add_products(sums, model.S, 0, forward.recent, start, N)
    for l in range(W):
        total[l] = 0.0
    for x in range(N // W):
        for l in range(W):
            total[l] += E[x * W + l] * sums[x * W + l]


@njit(**INNER)
def _settle(model, forward) -> None:  # type: ignore[no-untyped-def]
    """Multiply E into the rows, in the lanes to be settled, and divide by a power of two."""
    E, factor, total = forward.E, forward.sums, forward.total
    N, W = E.size, total.size
    add_up(model, forward)
    for i in range(N):
        factor[i] = 1.0
    for l in range(W):
        if not forward.flag[l]:
            continue
        power = max(-1000, math.frexp(total[l])[1]) if total[l] > 0.0 else 0  # 2^1000 is finite
        forward.shifts[l] += power
        forward.scale[l] = math.ldexp(1.0, -power)
        for i in range(l, N, W):
            factor[i], E[i] = E[i] * forward.scale[l], 1.0
    multiply_rows(forward.top, factor, 0, 1)
    multiply_rows(forward.ahead, factor, 0, 1)
    multiply_rows(forward.recent, factor, forward.at[0], model.n)
    multiply_rows(forward.down, factor, forward.at[0], model.n)


@njit(**INNER)
def multiply_rows(window, factor, first, n) -> None:  # type: ignore[no-untyped-def]
    """Multiply n rows, from the first on, by the factors; to no more than `CEILING`."""
    N = U(factor.size)
    for j in range(n):
        at = U(first + j) * N
        for i in range(N):
            window[at + i] = min(window[at + i] * factor[i], CEILING)


@njit(**INNER)
def _begin(model, forward) -> None:  # type: ignore[no-untyped-def]
    """Before the first step: what ends n - 1 - j steps from it has begun to count down j ago."""
    N, n = forward.E.size, model.n
    forward.at[0] = EVERY
    for j in range(n):
        for i in range(N):
            forward.recent[(EVERY + j) * N + i] = 0.0
            forward.down[(EVERY + j) * N + i] = model.init[n - 1 - j, i]
    for i in range(N):
        forward.top[i] = model.init[n, i]
        forward.f[i] = 0.0
        forward.E[i] = forward.b[i]


@njit(**INNER, inline="always")
def forward_steps(model, evidence, group, forward, steps, origin, first, last):  # type: ignore[no-untyped-def]
    """Steps first to last - 1 of a group, from the one before; kept in rows from origin on."""
    f, b, E, out, top, recent, down, ahead, sums, _, flag, scale, _, which, at = forward
    kept_f, kept_b, kept_E, kept_out, kept_top, kept_scale, kept_flag, kept_settled = steps
    rows, labels, _, B = evidence
    begins, lengths = group
    _, A, _, D, _, _, ends, _, _, n = model
    N, W = E.size, flag.size
    at[1] = first - origin
    for t in range(first, last):
        read_factors(rows, labels, B, begins, lengths, t, which, b)
        if t == 0:
            _begin(model, forward)
        else:
            if at[0] == 0:
                move(recent, n, N)
                move(down, n, N)
                at[0] = EVERY
            at[0] -= 1
            start = U(at[0] * N)
            for i in range(N):
                sums[i] = 0.0
            add_products(sums, A, 0, out, 0, W)
            for i in range(N):
                f[i] = sums[i] / E[i]
                E[i] *= b[i]
            for i in range(N):
                recent[start + U(i)] = f[i]
                down[start + U(i)] = ends[2, i] * top[i]
            for i in range(N):
                top[i] = ends[0, i] * f[i] + ends[1, i] * top[i]
        settled = _to_settle(E, flag, t)
        if settled:
            _settle(model, forward)
        if n == 0:
            for i in range(N):
                sums[i] = top[i]
        else:
            start = U(at[0] * N)
            end = start + U((n - 1) * N)
            if t % 2:
                for i in range(N):
                    sums[i] = ahead[i] + D[0, i] * recent[start + U(i)]
            else:
                for i in range(N):
                    sums[i], ahead[i] = 0.0, 0.0
                add_both(sums, ahead, D, recent, start)
            for i in range(N):
                sums[i] += down[end + U(i)]
        for i in range(N):
            out[i] = E[i] * sums[i]
        for i in range(U(N)):
            out[U(N) + i] = out[i]
        if kept_f.size > 0:
            row = at[1]
            for i in range(N):
                kept_f[row, i], kept_b[row, i] = f[i], b[i]
            for i in range(N):
                kept_E[row, i], kept_out[row, i] = E[i], out[i]
            for i in range(N):
                kept_top[row, i] = top[i]
            kept_settled[row] = settled
            if settled:
                for l in range(W):
                    kept_flag[row, l], kept_scale[row, l] = flag[l], scale[l]
            at[1] += 1


@njit(**INNER)
def ending_in(out, stop, l, W) -> float:  # type: ignore[no-untyped-def]
    """The probability that the sequence of lane l, as scaled, ends after this step."""
    p = 0.0
    for x in range(stop.size):
        p += out[x * W + l] * stop[x]
    return p


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
