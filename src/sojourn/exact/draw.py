"""Sequences drawn at random from a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import SojournError
from sojourn.scale.hashing import GOLDEN, mix_one
from sojourn.scale.threads import chunks, each

if TYPE_CHECKING:
    from sojourn.exact.params import Params, Rng


@njit(cache=True, nogil=True)
def uniform(seed: np.uint64, draw: np.uint64) -> float:
    """The draw-th uniform number in [0, 1) of a sequence's own stream: a hash of a counter."""
    return (mix_one(seed + (draw + np.uint64(1)) * GOLDEN) >> np.uint64(11)) * 2.0**-53


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
def _sample_chunk(start, A, D_first, D, B, seeds, offsets, first, last, codes, states, remaining):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        draw = np.uint64(0)
        left = 0
        x = 0
        for t in range(offsets[i], offsets[i + 1]):
            if left == 0:
                first_stay = t == offsets[i]
                x = _pick(start if first_stay else A[x], uniform(seeds[i], draw))
                law = D_first[x] if first_stay else D[x]
                left = 1 + _pick(law, uniform(seeds[i], draw + np.uint64(1)))
                draw += np.uint64(2)
            codes[t] = _pick(B[x], uniform(seeds[i], draw))
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
    params: Params,
    n: int,
    length: ArrayLike,
    rng: Rng = None,
    n_jobs: int | None = None,
    initial: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Symbols, offsets, states and remaining durations of n sequences drawn from a model.

    `initial` is the law of the first state and the steps it has left, (n_states, max_duration),
    where stays may begin before a sequence.

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
    if initial is None:
        initial = params.start[:, None] * params.duration
    # A state that never comes first has no first stay; its row is not used.
    stays = np.where(initial.any(axis=1, keepdims=True), initial, params.duration)
    start, first = cumulative_rows(initial.sum(axis=1)), cumulative_rows(stays)
    seeds = seeds_for(n, rng)

    def draw(bounds: tuple[int, int]) -> None:
        _sample_chunk(start, A, first, D, B, seeds, offsets, *bounds, codes, states, remaining)

    each(draw, chunks(offsets), n_jobs)
    return codes, offsets, states, remaining
