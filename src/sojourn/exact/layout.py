"""What the kernels in lanes read and write: tables and evidence laid out for W lanes, and room.

Arrays have the state and then the lane as their last axis, N = n_x W numbers in a row, padded to a
multiple of eight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.data.adapters import read_only
from sojourn.exact.filter import Codes, Floats, Offsets, Tables, p_empty
from sojourn.exact.vectors import WIDTH
from sojourn.scale.threads import chunk_size
from sojourn.scale.tree_sum import Chunk, chunk_bounds

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.exact.params import Params

MAX_LANES = 32
# Cells of all lanes together that fit in a core's own cache, together with the table of durations.
MAX_CELLS = 2560

# E is multiplied into the rows this often, and in each lane where an entry falls below the second.
EVERY = 32
LEAST = 2.0**-400
LINES = 128  # bytes of two lines of the cache, which are fetched together

SHORT_PASS = 3 << 20  # multiplications, about, of a millisecond and a half
LONG = 1000  # symbols from which on a sequence may be worth the kernels for one lane
AT_ONCE = 4  # rows that are added at once

# A block stays in a cache until its backward sweep.
_BLOCK_BYTES = 1 << 22
_CHECKPOINT_BYTES = 1 << 26


class Chain(NamedTuple):
    """A model without its emissions; rows are padded with zeros to P, a multiple of eight."""

    init: Floats  # p(not empty, x_1 = x, r remain)                          (n_d, P)
    A: Floats  # p(no end, next state x | y), some rows more                 (n_x + ..., P)
    AT: Floats  # the same, transposed                                       (n_x + ..., P)
    D: Floats  # durations below n_d, some rows more                         (n + ..., P)
    S: Floats  # row j: P(j < duration <= n)                                 (n + ..., P)
    last: Floats  # D of n_d; of n_d: what is held, what counts down         (3, P)
    stop: Floats  # p(ends | last step of a stay); empty without ends        (n_x,) or (0,)
    pad: Floats  # ones after the states                                     (P,)
    empty: float  # probability of a sequence without symbols
    n_x: int
    n: int
    wide: bool | None = True  # None with one lane, for which kernels are compiled apart

    def of_lanes(self, W: int) -> Chain:
        """The tables for W lanes."""
        return self._replace(wide=None if W == 1 else True)


class Evidence(NamedTuple):
    """What is observed: p(observation at t | state) is row ``rows[t]`` of B, the last if -1."""

    rows: Codes  # (n_total,)
    labels: Codes  # the state where it is known, -1 where not; empty for none  (n_total,) or (0,)
    offsets: Offsets  # (n + 1,)
    B: Floats  # likelihoods, at most one; the last row is of ones           (n_rows + 1, n_x)


class Group(NamedTuple):
    """The sequences side by side: where each begins in the evidence, and how many steps it has."""

    begins: Offsets  # (W,)
    lengths: Offsets  # the longest first                                     (W,)


class Steps(NamedTuple):
    """The forward pass as the backward pass needs it, one row per step; all empty for scores."""

    rows: Floats  # f, b, E, top and out                                      (n_rows 5 N,)
    scale: Floats  # power of two by which a lane was multiplied              (n_rows, W)
    flag: NDArray[np.bool_]  # lanes that were settled                        (n_rows, W)
    settled: NDArray[np.bool_]  # whether any lane was                        (n_rows,)


class Forward(NamedTuple):
    """The forward pass of a group after some step.

    What is read at every step is in one array: its address is in a register, others in memory.
    """

    # f, b, E, top and out; `ahead`, a part of `out` of the next step, if that is odd; sums
    rows: Floats  # (7 N + ...,)
    recent: Floats  # f of this step and those before it, from row at[0] on  ((n + EVERY) N,)
    down: Floats  # the same of g                                            ((n + EVERY) N,)
    total: Floats  # the sum of alpha, where it was needed                    (W,)
    flag: NDArray[np.bool_]  # lanes whose E is to join f, g and top          (W,)
    scale: Floats  # power of two by which these were multiplied              (W,)
    shifts: Offsets  # all powers of two so far                               (W,)
    which: Offsets  # where the factors of each begin                         (W,)
    at: Offsets  # (1,)


def chain(model: Tables, params: Params) -> Chain:
    """The tables of a model, as the lanes read them."""
    n_x, n_d = params.duration.shape
    n, A = n_d - 1, model.A.reshape(n_x, -1)[:, :n_x]
    D, even, square = model.D.T[:n], n_d // 2 * 2, -(-n_x // AT_ONCE) * AT_ONCE
    last, pad = np.vstack([model.D[:, n], model.hold]), np.zeros((1, n_x))
    tables = model.init.T, A, A.T, D, np.cumsum(D[::-1], axis=0)[::-1], last, pad
    init, A, AT, D, S, last, pad = padded(tables, (n_d, square, square, even + 1, even, 3, 1))
    pad[0, n_x:] = 1.0
    return Chain(init, A, AT, D, S, last, model.stop, pad[0], p_empty(params), n_x, n)


def row_size(n_x: int, W: int) -> int:
    """Numbers in a row of W lanes: whole vectors."""
    return -(-n_x * W // WIDTH) * WIDTH


def padded(tables: Sequence[Floats], sizes: Sequence[int]) -> list[Floats]:
    """Tables in rows of whole vectors, each with rows of zeros up to its size."""
    n_x = tables[0].shape[1]
    room = aligned(sum(sizes), row_size(n_x, 1))
    parts = [room[a:b] for a, b in pairwise(accumulate(sizes, initial=0))]
    for part, table in zip(parts, tables, strict=True):
        part[: len(table), :n_x] = table
    return parts


def aligned(*shape: int, dtype: Any = np.float64, fill: float = 0.0) -> NDArray[Any]:
    """An array in lines of the cache that no other array has a part of.

    Two threads that write to the same line, or to neighbours, wait for each other at every step.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + 2 * LINES, np.uint8)
    begin = -room.ctypes.data % LINES
    found = room[begin : begin + size].view(dtype).reshape(shape)
    if fill:
        found.fill(fill)
    return found


def evidence(codes: Codes, offsets: Offsets, B: Floats, labels: Codes | None = None) -> Evidence:
    """Codes and rows of factors, as in `observed`, as the lanes read them."""
    known = np.empty(0, dtype=np.int32) if labels is None else labels
    # With one lane eight factors are read at once: of the last rows, some from behind the table.
    table = np.zeros(B.size + WIDTH)[: B.size].reshape(B.shape)
    table[:] = B
    # All of one type, so that kernels are compiled once.
    return Evidence(read_only(codes), read_only(known), offsets, table)


def n_lanes(lengths: Offsets, n_cells: int) -> int:
    """Sequences to take side by side, of models with so many cells: groups are alike in size.

    One, if some are so much longer than others that most lanes would stay empty.

    Examples
    --------
    >>> [n_lanes(np.array(n), 24) for n in ([5000], [100] * 33, [5000, 100])]
    [1, 24, 1]
    """
    n, longest = len(lengths), int(lengths.max())
    most = min(MAX_LANES, max(WIDTH, MAX_CELLS // n_cells // WIDTH * WIDTH))
    W = -(-n // -(-n // most) // WIDTH) * WIDTH
    return 1 if longest >= LONG and 3 * int(lengths.sum()) < longest * W else W


def jobs(n_jobs: int | None, params: Params, sequences: Sequences) -> int | None:
    """Threads for a pass: one where it is over before others are awake."""
    per_symbol = params.n_states * (params.n_states + params.max_duration)
    short = params.density is None and sequences.n_total * per_symbol < SHORT_PASS
    return 1 if short else n_jobs


class Sums(NamedTuple):
    """What the backward pass adds to, lane by lane; counts lack the factor all terms share."""

    log_probs: Floats  # one per sequence                                    (n,)
    # Rows: n_d of the first stay, n_d of durations, n_x of transitions from each state, and three:
    # held at n_d, counting down from it, and ends.
    counts: Floats  # ((2 n + n_x + 5) N,)
    emission: Floats  # the last row for missing symbols                     (n_rows + 1, n_x)
    gamma: Floats  # p(state at t | sequence), or empty                      (n_total, n_x)


class Sweep(NamedTuple):
    """What the backward pass of a group needs."""

    G: Floats  # of step t and those after it, from row at[0] on             ((n + EVERY) N,)
    # V; p(x_t = x); H; `ahead`, a part of H of the step before; `waiting`, f of an odd step, whose
    # durations are not yet counted; w
    rows: Floats  # (6 N + ...,)
    p: Floats  # of each lane, as scaled at its end; zero if impossible      (W,)
    at: Offsets  # the row of G; whether `ahead` is known; whether a step is waiting   (3,)
    heads: Floats  # the forward pass before each block                       (n_heads, 3, ...)


Room = tuple[Group, Forward, Steps, Sweep]


class Rooms:
    """Lanes and room for chunks, kept for later passes: to make them takes as long as a short one.

    For passes over the same sequences, by models of one size.
    """

    def __init__(self, offsets: Offsets, params: Params) -> None:
        self.offsets, (self.n_x, self.n_d) = offsets, params.duration.shape
        self.known: dict[tuple[int, int], tuple[int, Offsets, int, int]] = {}
        self.free: dict[tuple[int, ...], list[Room]] = {}

    @cached_property
    def numbered(self) -> list[Chunk]:
        """The chunks that sums are made of."""
        return chunk_bounds(self.offsets[:-1], chunk_size(int(self.offsets[-1])))

    def lanes(self, first: int, last: int) -> tuple[int, Offsets, int, int]:
        """W; `first` to ``last - 1``, the longest first; the length of that; how many are empty."""
        if (first, last) not in self.known:
            lengths = np.diff(self.offsets[first : last + 1])
            order, empty = np.argsort(-lengths, kind="stable"), int((lengths == 0).sum())
            W, longest = n_lanes(lengths, self.n_x * self.n_d), max(int(lengths.max()), 1)
            self.known[first, last] = W, first + order, longest, empty
        return self.known[first, last]

    @contextmanager
    def room(self, W: int, longest: int) -> Iterator[Room]:
        """Room for W lanes, and for the steps of sequences up to so long; 0 if none are kept."""
        longest = -(-longest // 64) * 64  # so that few differ
        N = row_size(self.n_x, W)
        size = block_steps(5 * N, 3 * (self.n_d + EVERY) * N, longest)
        key = (W, size + 1, -(-longest // size)) if longest else (W, 0, 0)
        free = self.free.setdefault(key, [])
        try:
            room = free.pop()  # threads may share a list: this is one step
        except IndexError:
            room = new_room(self.n_x, self.n_d, *key)
        yield room
        free.append(room)


def new_room(n_x: int, n_d: int, W: int, n_rows: int, n_heads: int) -> Room:
    """Room for W lanes, steps in so many rows, and the heads of blocks."""
    N, numbers = row_size(n_x, W), partial(aligned, dtype=np.int64)
    # The last rows, which begin one row earlier at each step.
    flags, window = (
        partial(aligned, dtype=np.bool_),
        partial(aligned, (n_d // 2 * 2 + 1 + EVERY) * N),
    )
    of_lanes = aligned(W), flags(W), aligned(W, fill=1.0), numbers(W), numbers(W), numbers(1)
    forward = Forward(aligned(7 * N + AT_ONCE * W), window(), window(), *of_lanes)
    scale = aligned(n_rows, W, fill=1.0)
    steps = Steps(aligned(n_rows * 5 * N), scale, flags(n_rows, W), flags(n_rows))
    heads = aligned(n_heads, 3, len(forward.recent))
    sweep = Sweep(window(), aligned(6 * N + AT_ONCE * W), aligned(W), numbers(3), heads)
    return Group(numbers(W), numbers(W)), forward, steps, sweep


def block_steps(n_numbers: int, n_head: int, longest: int) -> int:
    """Steps to keep at a time: a cache's worth, more where checkpoints would take too much.

    A step takes so many numbers, and so does the head of a block.
    """
    checkpoints = -(-longest * 8 * n_head // _CHECKPOINT_BYTES)
    return max(1, min(longest, max(_BLOCK_BYTES // (8 * n_numbers), checkpoints)))
