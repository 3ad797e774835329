"""Sequences drawn at random from a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import SojournError
from sojourn.scale.hashing import GOLDEN, mix_one
from sojourn.scale.threads import chunks, each

if TYPE_CHECKING:
    from sojourn.exact.params import Params, Rng

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def uniform(seed: np.uint64, draw: np.uint64) -> float:
    """The draw-th uniform number in [0, 1) of a sequence's own stream: a hash of a counter."""
    return (mix_one(seed + (draw + np.uint64(1)) * GOLDEN) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def _pick(cumulative: Floats, u: float) -> int:
    """The first entry whose cumulative probability exceeds u: never one of probability zero."""
    low, high = 0, cumulative.size - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


class Cumulative(NamedTuple):
    """Cumulative probabilities, each row ending in one."""

    start: Floats
    first: Floats  # durations of the first stay
    A: Floats
    D: Floats
    B: Floats


class Drawn(NamedTuple):
    """Sequences drawn from a model, end to end, and what is hidden in them."""

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    states: NDArray[np.int32]
    remaining: NDArray[np.int32]


@njit(cache=True, nogil=True)
def _sample_chunk(model, seeds, first, last, out):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        draw = np.uint64(0)
        left = 0
        x = 0
        for t in range(out.offsets[i], out.offsets[i + 1]):
            if left == 0:
                begins = t == out.offsets[i]
                x = _pick(model.start if begins else model.A[x], uniform(seeds[i], draw))
                durations = model.first[x] if begins else model.D[x]
                left = 1 + _pick(durations, uniform(seeds[i], draw + np.uint64(1)))
                draw += np.uint64(2)
            out.codes[t] = _pick(model.B[x], uniform(seeds[i], draw))
            draw += np.uint64(1)
            out.states[t] = x
            out.remaining[t] = left
            left -= 1


def seeds_for(n: int, rng: Rng) -> NDArray[np.uint64]:
    """A seed for each of n sequences, so that no sequence depends on the thread it is drawn by."""
    return np.random.default_rng(rng).integers(0, 2**64, size=n, dtype=np.uint64)


def cumulative_rows(table: Floats) -> Floats:
    """Cumulative sums of the rows, the last entry exactly one: a draw below one always lands."""
    sums = np.cumsum(table, axis=-1)
    return np.ascontiguousarray(sums / sums[..., -1:])


def sample(
    params: Params,
    n: int,
    length: ArrayLike,
    rng: Rng = None,
    n_jobs: int | None = None,
    initial: Floats | None = None,
) -> Drawn:
    """Draw n sequences of one length, or of a length each, from a model.

    `initial` is the joint distribution of the first state and its remaining steps, (n_states,
    max_duration), where stays may begin before a sequence.
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
    out = Drawn(codes, offsets, states, remaining)
    if initial is None:
        initial = params.start[:, None] * params.duration
    # A state that never comes first has no first stay; its row is not used.
    stays = np.where(initial.any(axis=1, keepdims=True), initial, params.duration)
    rows = (initial.sum(axis=1), stays, params.transition, params.duration, params.emission)
    model, seeds = Cumulative(*map(cumulative_rows, rows)), seeds_for(n, rng)

    def draw(bounds: tuple[int, int]) -> None:
        _sample_chunk(model, seeds, *bounds, out)

    each(draw, chunks(offsets), n_jobs)
    return out
