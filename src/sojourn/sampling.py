"""Sequences and hidden paths drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sojourn.backward import block_steps, fill_block
from sojourn.errors import SojournError
from sojourn.messages import LANES, Floats, new_state, tables
from sojourn.parallel import chunks, each

if TYPE_CHECKING:
    from sojourn.params import Params, Rng
    from sojourn.sequences import Sequences

# Constants of the SplitMix64 generator (Steele, Lea and Flood, 2014).
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True)
def _uniform(seed: np.uint64, draw: np.uint64) -> float:
    """The draw-th uniform number in [0, 1) of a sequence's own stream: a hash of a counter."""
    z = seed + (draw + np.uint64(1)) * _GAMMA
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def _pick(cumulative: NDArray[np.float64], u: float) -> int:
    """The first entry whose cumulative probability exceeds u: never one of probability zero."""
    low, high = 0, cumulative.size - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def _sample_chunk(start, A, D, B, seeds, offsets, first, last, codes, states, remaining):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        draw = np.uint64(0)
        left = 0
        x = 0
        for t in range(offsets[i], offsets[i + 1]):
            if left == 0:
                row = start if t == offsets[i] else A[x]
                x = _pick(row, _uniform(seeds[i], draw))
                left = 1 + _pick(D[x], _uniform(seeds[i], draw + np.uint64(1)))
                draw += np.uint64(2)
            codes[t] = _pick(B[x], _uniform(seeds[i], draw))
            draw += np.uint64(1)
            states[t] = x
            remaining[t] = left
            left -= 1


def seeds_for(n: int, rng: Rng) -> NDArray[np.uint64]:
    """A seed for each of n sequences, so that no sequence depends on the thread it is drawn by."""
    return np.random.default_rng(rng).integers(0, 2**64, size=n, dtype=np.uint64)


def cumulative_rows(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums of the rows, the last entry exactly one: a draw below one always lands."""
    sums = np.cumsum(table, axis=-1)
    return np.ascontiguousarray(sums / sums[..., -1:])


def sample(
    params: Params, n: int, length: ArrayLike, rng: Rng = None, n_jobs: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Symbols, offsets, states and remaining durations of n sequences drawn from a model.

    Examples
    --------
    >>> from sojourn import Params
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0, 1]], [[1, 0], [0, 1]])
    >>> codes, offsets, states, remaining = sample(p, n=1, length=5, rng=0)
    >>> codes.tolist(), offsets.tolist(), remaining.tolist()
    ([0, 0, 1, 1, 0], [0, 5], [2, 1, 2, 1, 2])
    """
    lengths = np.asarray(length)
    if n < 1 or lengths.dtype.kind not in "iu" or lengths.shape not in ((), (n,)):
        raise SojournError(
            f"expected a number of sequences of at least 1 and an integer length, or one for each; "
            f"got n={n!r} and lengths of shape {lengths.shape} and type {lengths.dtype}"
        )
    if lengths.min() < 1:
        raise SojournError(f"a length of {lengths.min()} was asked for; the shortest is 1")
    offsets = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.broadcast_to(lengths, n), out=offsets[1:])
    codes, states, remaining = np.empty((3, offsets[-1]), dtype=np.int32)
    A, D, B = map(cumulative_rows, (params.transition, params.duration, params.emission))
    start = cumulative_rows(params.start)
    seeds = seeds_for(n, rng)

    def draw(bounds: tuple[int, int]) -> None:
        _sample_chunk(start, A, D, B, seeds, offsets, *bounds, codes, states, remaining)

    each(draw, chunks(offsets), n_jobs)
    return codes, offsets, states, remaining


@njit(cache=True, nogil=True)
def _path_chunk(  # type: ignore[no-untyped-def]
    init, A, D, B, codes, offsets, first, last, seeds, steps, states, remaining
):
    """Filter forward, a block of steps at a time, then draw the path from its end to its start."""
    n_x, R = D.shape
    alpha, work = new_state(D)
    flat = alpha.reshape(alpha.size)
    block = np.zeros((steps + 1, alpha.size))
    kept = block.reshape(steps + 1, n_x, R + LANES)
    scales = np.ones(steps + 1)
    entries = np.zeros((steps + 1, n_x))
    no_labels = np.empty(0, dtype=np.int32)
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    n_blocks = (longest + steps - 1) // steps
    heads = np.zeros((n_blocks, alpha.size))
    head_totals = np.zeros(n_blocks)
    for i in range(first, last):
        start, stop = offsets[i], offsets[i + 1]
        total = -1.0
        n_blocks = (stop - start + steps - 1) // steps
        for k in range(n_blocks):
            head_totals[k] = total
            heads[k] = flat
            lo = start + k * steps
            hi = min(lo + steps, stop)
            total, _ = fill_block(
                init, A, D, B, alpha, total, work, codes, no_labels, lo, hi, block, scales, entries
            )
            if total <= 0.0:
                break
        if total <= 0.0:
            states[start:stop] = -1
            remaining[start:stop] = 0
            continue
        x, r = _pick_cell(alpha, total * _uniform(seeds[i], np.uint64(stop - start)))
        for k in range(n_blocks - 1, -1, -1):
            lo = start + k * steps
            hi = min(lo + steps, stop)
            if k < n_blocks - 1:
                flat[:] = heads[k]
                fill_block(
                    init, A, D, B, alpha, head_totals[k], work, codes, no_labels, lo, hi,
                    block, scales, entries,
                )  # fmt: skip
            for t in range(hi - 1, lo - 1, -1):
                states[t] = x
                remaining[t] = r + 1
                if t > start:
                    u = _uniform(seeds[i], np.uint64(t - start))
                    x, r = _step_back(kept[t - lo], A, D, x, r, u)


@njit(cache=True, nogil=True)
def _pick_cell(alpha: Floats, u: float) -> tuple[int, int]:
    """The cell at which the running sum of alpha passes u; the last positive one if none does."""
    found = (0, 0)
    for x in range(alpha.shape[0]):
        for r in range(alpha.shape[1]):
            if alpha[x, r] > 0.0:
                found = (x, r)
                u -= alpha[x, r]
                if u < 0.0:
                    return found
    return found


@njit(cache=True, nogil=True)
def _step_back(alpha: Floats, A: Floats, D: Floats, x: int, r: int, u: float) -> tuple[int, int]:
    """The cell before (x, r): the same stay with a step more to go, or another that just ended."""
    n_x = A.shape[0]
    everything = alpha[x, r + 1]
    for y in range(n_x):
        everything += alpha[y, 0] * A[y, x // LANES, x % LANES] * D[x, r]
    u = u * everything - alpha[x, r + 1]
    found = (x, r + 1)
    if u < 0.0:
        return found
    for y in range(n_x):
        weight = alpha[y, 0] * A[y, x // LANES, x % LANES] * D[x, r]
        if weight > 0.0:
            found = (y, 0)
            u -= weight
            if u < 0.0:
                return found
    return found


def sample_paths(
    params: Params,
    sequences: Sequences,
    rng: Rng = None,
    initial: Floats | None = None,
    n_jobs: int | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """A hidden path of each sequence, drawn from the posterior given the whole of it.

    Parameters
    ----------
    params : Params
        The model.
    sequences : Sequences
        Codes below ``params.n_symbols``, or -1 where missing.
    rng : int, numpy Generator or None
        Where the randomness comes from; equal generators give equal paths.
    initial : ndarray, shape (n_states, max_duration), optional
        Law of the first state and the steps it has left, where stays may begin before a sequence.
    n_jobs : int or None
        Number of threads; the paths are the same for any of them.

    Returns
    -------
    states, remaining : ndarray of int32, shape (n_total,)
        As :meth:`sojourn.Params.sample` returns them; -1 and 0 where the model cannot produce the
        sequence.

    Examples
    --------
    >>> from sojourn import Params, Sequences
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> sample_paths(p, Sequences.from_lists([[0, 0, 1, 0]]), rng=0)
    (array([0, 0, 1, 0], dtype=int32), array([2, 1, 1, 2], dtype=int32))
    """
    codes, offsets = sequences.codes, sequences.offsets
    model = tables(params, initial)
    n_cells = params.n_states * (model.D.shape[1] + LANES)
    states, remaining = np.empty((2, len(codes)), dtype=np.int32)
    seeds = seeds_for(len(offsets) - 1, rng)

    def draw(bounds: tuple[int, int]) -> None:
        longest = int(np.diff(offsets[bounds[0] : bounds[1] + 1]).max())
        steps = block_steps(n_cells, longest)
        _path_chunk(*model, codes, offsets, *bounds, seeds, steps, states, remaining)

    each(draw, chunks(offsets), n_jobs)
    return states, remaining
