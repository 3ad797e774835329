"""Hidden paths drawn at random from the posterior, given whole sequences.

Forward filter, backward sampling: the last cell (state, steps remaining) is drawn from alpha_T, and
each one before it from alpha_t times the probability of the move to the cell already drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.backward import again, block_steps, forward_blocks, longest_of, new_room
from sojourn.messages import KERNEL, LANES, Codes, Floats, tables
from sojourn.parallel import chunks, each
from sojourn.sampling import seeds_for, uniform

if TYPE_CHECKING:
    from sojourn.params import Params, Rng
    from sojourn.sequences import Sequences


@njit(**KERNEL)
def _path_chunk(  # type: ignore[no-untyped-def]
    init, A, D, B, codes, labels, offsets, first, last, seeds, steps, states, remaining
):
    """Filter forward, then draw the path of each sequence from its end to its start."""
    n_x, R = D.shape
    room = new_room(D, longest_of(offsets, first, last), steps)
    kept = room[2].reshape(steps + 1, n_x, R + LANES)
    for i in range(first, last):
        start, stop = offsets[i], offsets[i + 1]
        total, _ = forward_blocks(init, A, D, B, codes, labels, start, stop, steps, room)
        if total <= 0.0:
            for t in range(start, stop):
                states[t] = -1
                remaining[t] = 0
            continue
        x, r = -1, -1
        for k in range((stop - start - 1) // steps, -1, -1):
            lo, hi = again(init, A, D, B, codes, labels, start, stop, steps, room, k)
            for t in range(hi - 1, lo - 1, -1):
                u = uniform(seeds[i], np.uint64(t - start))
                if t == stop - 1:
                    x, r = _last_cell(kept, t - lo + 1, total * u)
                else:
                    x, r = _cell_before(kept, t - lo + 1, A, D, x, r, u)
                states[t] = x
                remaining[t] = r + 1


@njit(**KERNEL)
def _last_cell(kept, j, u) -> tuple[int, int]:  # type: ignore[no-untyped-def]
    """The cell at which the running sum of alpha j passes u; the last positive one if none does."""
    found = (0, 0)
    for x in range(kept.shape[1]):
        for r in range(kept.shape[2]):
            if kept[j, x, r] > 0.0:
                found = (x, r)
                u -= kept[j, x, r]
                if u < 0.0:
                    return found
    return found


@njit(**KERNEL)
def _cell_before(kept, j, A, D, x, r, u) -> tuple[int, int]:  # type: ignore[no-untyped-def]
    """The cell of alpha j before (x, r): the same stay with a step more, or one that just ended."""
    n_x = A.shape[0]
    everything = kept[j, x, r + 1]
    for y in range(n_x):
        everything += kept[j, y, 0] * A[y, x // LANES, x % LANES] * D[x, r]
    u = u * everything - kept[j, x, r + 1]
    found = (x, r + 1)
    if u < 0.0:
        return found
    for y in range(n_x):
        weight = kept[j, y, 0] * A[y, x // LANES, x % LANES] * D[x, r]
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
    labels: Codes | None = None,
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
    labels : ndarray of int32, shape (n_total,), optional
        The state at every step where it is known, -1 where not.
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
    known = np.empty(0, dtype=np.int32) if labels is None else labels
    seeds = seeds_for(len(offsets) - 1, rng)

    def draw(bounds: tuple[int, int]) -> None:
        longest = int(np.diff(offsets[bounds[0] : bounds[1] + 1]).max())
        steps = block_steps(n_cells, longest)
        _path_chunk(*model, codes, known, offsets, *bounds, seeds, steps, states, remaining)

    each(draw, chunks(offsets), n_jobs)
    return states, remaining
