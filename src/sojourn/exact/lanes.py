"""One step of the forward pass, for several sequences side by side.

A step of one sequence waits for the step before it. So W sequences advance together, one per
*lane*: arrays have the state and then the lane as their last axis, N = n_x W numbers in a row, and
each operation is one over whole rows.

A stay that ends at step q keeps its place from step to step: alpha_t[x, r] is in slot (t + r) mod
n_d, with r from 0, the last step of a stay. And the product of the emissions that all stays in a
state share stays out of the slots,

    alpha_t[x, r] = E_t[x] c_t[(t + r) mod n_d, x],

so that a step adds what enters and touches nothing else:

    f_t[x]  = Σ_y out_t-1[y] A[y, x] / E_t-1[x],      out_t[y] = E_t[y] c_t[t mod n_d, y]
    c_t     = c_t-1 + D f_t,     E_t = E_t-1 b_t.

Every 16 steps, and after a step that is nearly impossible in some state, E is multiplied into the
slots, and these are scaled by a power of two, which costs no precision. When that happens depends
on a lane's own sequence, and all sums are over states and slots, in one order: so the result of a
sequence does not depend on its neighbours, to the bit.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.exact.filter import Codes, Floats, Offsets, Tables, leaving, p_empty

if TYPE_CHECKING:
    from sojourn.exact.params import Params

# Sums are in the order in which they are written, so that they do not depend on the lanes.
KERNEL: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz"},
}

LOG_2 = math.log(2.0)
MAX_LANES = 24
# Cells of all lanes together that fit in a core's own cache, together with the table of durations.
MAX_CELLS = 1 << 12

FEW = 4  # lanes that are not worth a loop of their own

# E is multiplied into the slots this often, and after every step with a factor below the second.
EVERY = 16
HARD = 2.0**-32


class Chain(NamedTuple):
    """A model without its emissions, one row per remaining step."""

    init: Floats  # p(not empty, x_1 = x, r remain)                          (n_d, n_x)
    A: Floats  # p(does not end, next state)                                 (n_x, n_x)
    D: Floats  # duration                                                    (n_d, n_x)
    hold: Floats  # of the last r: what is held there, what counts down      (2, n_x)
    stop: Floats  # p(ends | last step of a stay); empty without ends        (n_x,) or (0,)
    empty: float  # probability of a sequence without symbols


class Evidence(NamedTuple):
    """What is observed: p(observation at t | state) is row ``rows[t]`` of B, the last if -1."""

    rows: Codes  # (n_total,)
    labels: Codes  # the state where it is known, -1 where not; empty for none  (n_total,) or (0,)
    offsets: Offsets  # (n + 1,)
    B: Floats  # likelihoods, at most one; the last row is of ones           (n_rows + 1, n_x)
    hard: NDArray[np.bool_]  # whether a row has entries below `HARD`         (n_rows + 1,)


class Tiles(NamedTuple):
    """The tables with each number repeated for all lanes; N is n_x times their number."""

    init: Floats  # (n_d, N)
    A: Floats  # (n_x, n_x), as it is
    D: Floats  # twice, so that it can begin at any slot                     (2 n_d, N)
    hold: Floats  # (2, N)
    tailed: bool  # whether anything is held at all


class Group(NamedTuple):
    """The sequences side by side: where each begins in the evidence, and how many steps it has."""

    begins: Offsets  # (W,)
    lengths: Offsets  # the longest first                                     (W,)


def chain(model: Tables, params: Params) -> Chain:
    """The tables of a model, laid out for lanes."""
    return Chain(
        init=np.array(model.init.T, order="C"),
        A=leaving(params)[0],
        D=np.array(model.D.T, order="C"),
        hold=np.array(model.hold),
        stop=model.stop,
        empty=p_empty(params),
    )


def evidence(codes: Codes, offsets: Offsets, B: Floats, labels: Codes | None = None) -> Evidence:
    """Codes and rows of factors, as in `observed`, as the lanes read them."""
    known = np.empty(0, dtype=np.int32) if labels is None else labels
    # All of one type, so that kernels are compiled once.
    hard = reduce(np.minimum, B.T) < HARD  # faster than B.min(axis=1), of short rows
    return Evidence(_read_only(codes), _read_only(known), offsets, B, hard)


def _read_only(codes: Codes) -> Codes:
    view = codes.view()
    view.flags.writeable = False
    return view


def n_lanes(n: int, n_cells: int) -> int:
    """Sequences to take side by side, of n with so many cells each: groups are alike in size.

    Examples
    --------
    >>> n_lanes(1, 24), n_lanes(33, 24), n_lanes(33, 320)
    (1, 17, 11)
    """
    most = min(MAX_LANES, max(4, MAX_CELLS // n_cells))
    n_groups = -(-max(n, 1) // most)
    return -(-max(n, 1) // n_groups)


@njit(**KERNEL)
def tile(table: Floats, W: int) -> Floats:
    """Each number of the rows repeated W times."""
    n, n_x = table.shape
    tiled = np.empty((n, n_x * W))
    for k in range(n):
        for x in range(n_x):
            for l in range(W):
                tiled[k, x * W + l] = table[k, x]
    return tiled


@njit(**KERNEL)
def tiles_of(model, W) -> Tiles:  # type: ignore[no-untyped-def]
    """The tables for W lanes."""
    n_d, n_x = model.D.shape
    once = tile(model.D, W)
    D = np.empty((2 * n_d, n_x * W))
    for s in range(2 * n_d):
        for i in range(n_x * W):
            D[s, i] = once[s % n_d, i]
    tailed = False
    for x in range(n_x):
        tailed = tailed or model.hold[0, x] > 0.0
    return Tiles(tile(model.init, W), model.A, D, tile(model.hold, W), tailed)


class Forward(NamedTuple):
    """The forward pass of a group: row (t - origin) mod n_rows of each array is of step t."""

    c: Floats  # (n_rows, n_d, N)
    E: Floats  # (n_rows, N)
    b: Floats  # (n_rows, N)
    f: Floats  # (n_rows, N)
    flag: NDArray[np.bool_]  # lanes whose emissions joined c                 (n_rows, W)
    power: Offsets  # and by which power of two c was divided                 (n_rows, W)
    settled: NDArray[np.bool_]  # whether those of any lane did               (n_rows,)
    shifts: Offsets  # all powers of two so far                               (W,)
    total: Floats  # the sum of alpha, where it was needed                    (W,)
    out: Floats  # room for what leaves each state                            (N,)
    sums: Floats  # and for sums over slots                                   (N,)


@njit(**KERNEL)
def new_forward(n_rows: int, n_d: int, n_x: int, W: int) -> Forward:
    """Room for the forward pass of W lanes."""
    N = n_x * W
    flag, power = np.zeros((n_rows, W), np.bool_), np.zeros((n_rows, W), np.int64)
    return Forward(
        np.zeros((n_rows, n_d, N)), np.ones((n_rows, N)), np.zeros((n_rows, N)),
        np.zeros((n_rows, N)), flag, power, np.zeros(n_rows, np.bool_),
        np.zeros(W, np.int64), np.ones(W), np.zeros(N), np.zeros(N),
    )  # fmt: skip


@njit(**KERNEL)
def read_factors(evidence, group, t, row, b, flag) -> bool:  # type: ignore[no-untyped-def]
    """Put p(observation | x) at step t into b[row], and into flag whether a lane is to be settled.

    A lane whose sequence has ended reads ones. A known label rules all other states out. Returns
    whether any lane is to be settled.
    """
    rows, labels, _, B, hard = evidence
    begins, lengths = group
    n_x, W = B.shape[1], flag.shape[1]
    regular = t % EVERY == 0 and t > 0
    any_flag = regular
    for l in range(W):
        k = B.shape[0] - 1
        label = -1
        if t < lengths[l]:
            at = begins[l] + t
            if rows[at] >= 0:
                k = rows[at]
            if labels.size > 0:
                label = labels[at]
        for x in range(n_x):
            b[row, x * W + l] = B[k, x]
        flag[row, l] = regular or hard[k]
        if label >= 0:
            flag[row, l] = True
            for x in range(n_x):
                if x != label:
                    b[row, x * W + l] = 0.0
        any_flag = any_flag or flag[row, l]
    return any_flag


@njit(**KERNEL)
def add_up(c, E, row, sums, total) -> None:  # type: ignore[no-untyped-def]
    """The sum of alpha of each lane."""
    n_d, N = c.shape[1:]
    W = total.size
    for i in range(N):
        sums[i] = 0.0
    for s in range(n_d):
        for i in range(N):
            sums[i] += c[row, s, i]
    for l in range(W):
        total[l] = 0.0
    for x in range(N // W):
        for l in range(W):
            total[l] += E[row, x * W + l] * sums[x * W + l]


@njit(**KERNEL)
def _settle(forward, before, row) -> None:  # type: ignore[no-untyped-def]
    """Multiply E and b into c, in the lanes to be settled, and divide it by a power of two."""
    c, E, b, _, flag, power, _, shifts, total, out, sums = forward
    n_d, N = c.shape[1:]
    W = total.size
    for x in range(N // W):
        for l in range(W):
            i = x * W + l
            out[i] = E[before, i] if flag[row, l] else 1.0
            sums[i] = b[row, i] if flag[row, l] else 1.0
            E[row, i] = 1.0
    for s in range(n_d):
        for i in range(N):
            c[row, s, i] = c[row, s, i] * out[i] * sums[i]
    add_up(c, E, row, sums, total)
    for l in range(W):
        power[row, l] = 0
        if flag[row, l] and total[l] > 0.0:
            power[row, l] = max(-1000, math.frexp(total[l])[1])  # 2^1000 is finite
        shifts[l] += power[row, l]
        scale = math.ldexp(1.0, -power[row, l])
        for x in range(N // W):
            out[x * W + l] = scale
            if not flag[row, l]:
                E[row, x * W + l] = E[before, x * W + l] * b[row, x * W + l]
    for s in range(n_d):
        for i in range(N):
            c[row, s, i] *= out[i]


@njit(**KERNEL)
def forward_steps(  # type: ignore[no-untyped-def]
    tiles, evidence, group, forward, origin, first, last
) -> None:
    """Steps first to last - 1 of a group, from the one before."""
    init, A, D, hold, tailed = tiles
    c, E, b, f, flag, _, settled, _, total, out, _ = forward
    n_rows, n_d, N = c.shape
    n_x, W = A.shape[0], total.size
    for t in range(first, last):
        row, before = (t - origin) % n_rows, (t - origin - 1) % n_rows
        settled[row] = read_factors(evidence, group, t, row, b, flag)
        if t == 0:
            for s in range(n_d):
                for i in range(N):
                    c[row, s, i] = init[s, i]
            for i in range(N):
                E[before, i] = 1.0
                f[row, i] = 0.0
        else:
            top, last_slot, shift = (t - 1) % n_d, (t + n_d - 2) % n_d, n_d - t % n_d
            for i in range(N):
                out[i] = E[before, i] * c[before, top, i]
                f[row, i] = 0.0
            if W < FEW:
                for i in range(N):
                    for y in range(n_x):
                        f[row, i] += A[y, i // W] * out[y * W + i % W]
            else:
                for y in range(n_x):
                    for x in range(n_x):
                        a = A[y, x]
                        for l in range(W):
                            f[row, x * W + l] += a * out[y * W + l]
            for i in range(N):
                f[row, i] /= E[before, i]
            for s in range(n_d):
                for i in range(N):
                    c[row, s, i] = c[before, s, i] + D[s + shift, i] * f[row, i]
            for i in range(N):  # what was there has ended; now it is of the longest stays
                c[row, top, i] = D[n_d - 1, i] * f[row, i]
            if tailed:
                for i in range(N):
                    held = c[before, last_slot, i]
                    if n_d > 1:
                        c[row, last_slot, i] = hold[1, i] * held + D[n_d - 2, i] * f[row, i]
                    c[row, top, i] += hold[0, i] * held
        if settled[row]:
            _settle(forward, before, row)
        else:
            for i in range(N):
                E[row, i] = E[before, i] * b[row, i]


@njit(**KERNEL)
def ending_in(c, E, row, t, stop, l, W) -> float:  # type: ignore[no-untyped-def]
    """The probability that the sequence of lane l, as scaled, ends after step t."""
    slot = t % c.shape[1]
    p = 0.0
    for x in range(stop.size):
        p += E[row, x * W + l] * c[row, slot, x * W + l] * stop[x]
    return p


@njit(**KERNEL)
def log_of(p: float, shift: int) -> float:
    """log(p 2^shift), the same however the powers of two are shared out between the two."""
    if p <= 0.0:
        return -np.inf
    mantissa, exponent = math.frexp(p)
    return math.log(mantissa) + (exponent + shift) * LOG_2


@njit(**KERNEL)
def copy_step(c, E, row, to_c, to_E, to_row) -> None:  # type: ignore[no-untyped-def]
    """Copy a row of c and E to another; plain loops compile in a tenth of the time of slices."""
    for i in range(E.shape[1]):
        to_E[to_row, i] = E[row, i]
        for s in range(c.shape[1]):
            to_c[to_row, s, i] = c[row, s, i]


@njit(**KERNEL)
def set_group(evidence, order, k, group) -> int:  # type: ignore[no-untyped-def]
    """Take the next sequences from place k of the order on; returns how many there are."""
    W = group.lengths.size
    n = min(W, order.size - k)
    for l in range(W):
        i = order[min(k + l, order.size - 1)]
        group.begins[l] = evidence.offsets[i]
        group.lengths[l] = evidence.offsets[i + 1] - evidence.offsets[i] if l < n else 0
    return n


def longest_first(offsets: Offsets, first: int, last: int) -> Offsets:
    """Sequences `first` to ``last - 1``, the longest first."""
    lengths = np.diff(offsets[first : last + 1])
    return first + np.argsort(-lengths, kind="stable")


@njit(**KERNEL)
def score_chunk(model, evidence, order, W, log_probs):  # type: ignore[no-untyped-def]
    """The log-probability of some sequences, the longest first, W at a time."""
    n_d, n_x = model.D.shape
    tiles, forward = tiles_of(model, W), new_forward(2, n_d, n_x, W)
    group = Group(np.zeros(W, np.int64), np.zeros(W, np.int64))
    for k in range(0, order.size, W):
        alive = set_group(evidence, order, k, group)
        for l in range(W):
            forward.shifts[l] = 0
        t = 0
        while alive > 0:
            end = group.lengths[alive - 1]  # of the shortest that is left
            forward_steps(tiles, evidence, group, forward, 0, t, end)
            t = end
            row = (t - 1) % 2
            if t > 0:
                add_up(forward.c, forward.E, row, forward.sums, forward.total)
            while alive > 0 and group.lengths[alive - 1] == t:
                alive -= 1
                p = model.empty if t == 0 else forward.total[alive]
                if t > 0 and model.stop.size > 0:
                    p = ending_in(forward.c, forward.E, row, t - 1, model.stop, alive, W)
                log_probs[order[k + alive]] = log_of(p, forward.shifts[alive])
