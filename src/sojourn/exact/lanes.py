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
from sojourn.exact.vectors import WIDTH, any_below, fma, least, load, splat, spread, store

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
def entry(table, at, W):  # type: ignore[no-untyped-def]
    """A number of a table for all lanes; or, with one lane, those of eight states from it on."""
    return load(table, at) if W == 1 else spread(table, at)


@njit(**INLINE)
def of_state(numbers, at, W):  # type: ignore[no-untyped-def]
    """Of one state, the numbers of eight lanes; or, with one lane, its number eight times."""
    return spread(numbers, at) if W == 1 else load(numbers, at)


@njit(**INLINE)
def mixed(table, q, P, n_x, numbers, at, W):  # type: ignore[no-untyped-def]
    """Σ_y table[y, q] numbers[y], a sum over states."""
    s0, s1, s2, s3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for y in range(0, n_x, AT_ONCE):
        j, k = y * P + q, at + y * W
        s0 = fma(entry(table, j, W), of_state(numbers, k, W), s0)
        s1 = fma(entry(table, j + P, W), of_state(numbers, k + W, W), s1)
        s2 = fma(entry(table, j + 2 * P, W), of_state(numbers, k + 2 * W, W), s2)
        s3 = fma(entry(table, j + 3 * P, W), of_state(numbers, k + 3 * W, W), s3)
    return (s0 + s1) + (s2 + s3)


@njit(**INLINE)
def row_sum(table, q, P, window, at, n, N, W):  # type: ignore[no-untyped-def]
    """Σ_j table[j, q] window[j], a sum over the first n rows of both; n is even."""
    s0, s1 = splat(0.0), splat(0.0)
    for j in range(0, n, 2):
        s0 = fma(entry(table, j * P + q, W), load(window, at + j * N), s0)
        s1 = fma(entry(table, j * P + P + q, W), load(window, at + j * N + N), s1)
    return s0 + s1


@njit(**INLINE)
def two_row_sums(table, q, P, window, at, n, N, W, ahead, h):  # type: ignore[no-untyped-def]
    """The same, and into `ahead` that of the next step, which has each row one row further."""
    s0, s1, a0, a1 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    d0 = entry(table, q, W)
    for j in range(0, n, 2):
        v0, v1 = load(window, at + j * N), load(window, at + j * N + N)
        d1, d2 = entry(table, (j + 1) * P + q, W), entry(table, (j + 2) * P + q, W)
        s0, s1 = fma(d0, v0, s0), fma(d1, v1, s1)
        a0, a1 = fma(d1, v0, a0), fma(d2, v1, a1)
        d0 = d2
    store(ahead, h, a0 + a1)
    return s0 + s1


@njit(**INNER)
def move(window, n, N) -> None:  # type: ignore[no-untyped-def]
    """Move the first n rows to the end, so that there are free ones before them."""
    for i in range((n - 1) * N, -1, -N):  # from the end: the two places may overlap
        for h in range(i, i + N, WIDTH):
            store(window, EVERY * N + h, load(window, h))


@njit(**INLINE)
def read_factors(rows, labels, B, begins, lengths, t, which, b) -> None:  # type: ignore[no-untyped-def]
    """Put p(observation | x) at step t into b.

    A lane whose sequence has ended reads ones. A known label rules all other states out.
    """
    n_x, W, ones = U(B.shape[1]), U(which.size), B.shape[0] - 1
    for l in range(W):
        k = ones
        if t < lengths[l] and rows[begins[l] + t] >= 0:
            k = rows[begins[l] + t]
        which[l] = U(k)
    for x in range(n_x):
        for l in range(W):
            b[x * W + l] = B[which[l], x]
    if labels.size > 0:
        for l in range(W):
            label = labels[begins[l] + t] if t < lengths[l] else -1
            for x in range(n_x):
                if label >= 0 and x != U(label):
                    b[x * W + l] = 0.0


@njit(**INNER)
def _to_settle(E, flag, t) -> bool:  # type: ignore[no-untyped-def]
    """Put into flag whether a lane is to be settled; returns whether any is."""
    W, regular, low = flag.size, t % EVERY == 0 and t > 0, False
    for h in range(0, E.size, WIDTH):
        low = any_below(load(E, h), splat(LEAST)) or low
    if not (regular or low):
        return False
    for l in range(W):
        flag[l] = regular
        for i in range(l, E.size, W):
            flag[l] = flag[l] or E[i] < LEAST
    return True


@njit(**INNER)
def add_up(model, forward) -> None:  # type: ignore[no-untyped-def]
    """Sums of the cells of each state, without E, and of alpha in each lane."""
    sums, total, E = forward.sums, forward.total, forward.E
    N, W, P, n_x, n = sums.size, total.size, model.last.shape[1], model.n_x, model.n
    for q in range(0, n_x, WIDTH if W == 1 else 1):
        for h in range(q * W, q * W + max(W, WIDTH), WIDTH):
            at = forward.at[0] * N + h
            s = row_sum(model.S, q, P, forward.recent, at, n + n % 2, N, W)
            for j in range(n):
                s = s + load(forward.down, at + j * N)
            store(sums, h, s + load(forward.top, h))
    for l in range(W):
        total[l] = 0.0
        for i in range(l, n_x * W, W):
            total[l] += E[i] * sums[i]


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
    N = factor.size
    for at in range(first * N, (first + n) * N, N):
        for h in range(0, N, WIDTH):
            v = least(load(window, at + h) * load(factor, h), splat(CEILING))
            store(window, at + h, v)


@njit(**INNER)
def _begin(model, forward) -> None:  # type: ignore[no-untyped-def]
    """Before the first step: what ends n - 1 - j steps from it has begun to count down j ago."""
    N, W, P, n = forward.E.size, forward.flag.size, model.last.shape[1], model.n
    forward.at[0] = EVERY
    for q in range(0, model.n_x, WIDTH if W == 1 else 1):
        for h in range(q * W, q * W + max(W, WIDTH), WIDTH):
            for j in range(n):
                store(forward.recent, (EVERY + j) * N + h, splat(0.0))
                store(forward.down, (EVERY + j) * N + h, entry(model.init, (n - 1 - j) * P + q, W))
            store(forward.top, h, entry(model.init, n * P + q, W))
            store(forward.f, h, splat(0.0))
            store(forward.E, h, load(forward.b, h))


@njit(**INNER, inline="always")
def forward_steps(model, evidence, group, forward, steps, origin, first, last):  # type: ignore[no-untyped-def]
    """Steps first to last - 1 of a group, from the one before; kept in rows from origin on."""
    f, b, E, out, top, recent, down, ahead, _, _, flag, scale, _, which, at = forward
    kept_f, kept_b, kept_E, kept_out, kept_top, kept_scale, kept_flag, kept_settled = steps
    rows, labels, _, B = evidence
    begins, lengths = group
    _, A, _, D, _, ends, _, _, n_x, n = model
    N, W, P = E.size, flag.size, ends.shape[1]
    stride, width = (WIDTH if W == 1 else 1), max(W, WIDTH)
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
            start = at[0] * N
            for q in range(0, n_x, stride):
                for l in range(0, width, WIDTH):
                    h = q * W + l
                    e, before = load(E, h), load(top, h)
                    v = mixed(A, q, P, n_x, out, l, W) * (splat(1.0) / e)
                    store(E, h, e * load(b, h))
                    store(f, h, v)
                    store(recent, start + h, v)
                    store(down, start + h, entry(ends, 2 * P + q, W) * before)
                    held = entry(ends, P + q, W) * before
                    store(top, h, fma(entry(ends, q, W), v, held))
        settled = _to_settle(E, flag, t)
        if settled:
            _settle(model, forward)
        start, row = at[0] * N, (t - origin) * N
        for q in range(0, n_x, stride):
            for h in range(q * W, q * W + width, WIDTH):
                if n == 0:
                    s = load(top, h)
                elif t % 2:
                    s = fma(entry(D, q, W), load(recent, start + h), load(ahead, h))
                    s = s + load(down, start + (n - 1) * N + h)
                else:
                    s = two_row_sums(D, q, P, recent, start + h, n + n % 2, N, W, ahead, h)
                    s = s + load(down, start + (n - 1) * N + h)
                v = load(E, h) * s
                store(out, h, v)
                if kept_f.size > 0:
                    store(kept_f, row + h, load(f, h))
                    store(kept_b, row + h, load(b, h))
                    store(kept_E, row + h, load(E, h))
                    store(kept_out, row + h, v)
                    store(kept_top, row + h, load(top, h))
        if kept_f.size > 0:
            kept_settled[t - origin] = settled
            if settled:
                for l in range(W):
                    kept_flag[t - origin, l], kept_scale[t - origin, l] = flag[l], scale[l]


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
