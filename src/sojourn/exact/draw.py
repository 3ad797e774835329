"""Sequences drawn at random from a model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sojourn.checks import positive_int
from sojourn.errors import SojournError
from sojourn.scale.hashing import GOLDEN, mix_one
from sojourn.scale.threads import chunks, each

if TYPE_CHECKING:
    from sojourn.exact.params import Params, Rng

Floats = NDArray[np.float64]

LONGEST = 1 << 24  # symbols of a sequence that is drawn to its end
LONGEST_STAY = 1 << 30  # steps beyond `max_duration`: what remains of a stay fits in 32 bits


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
    """Cumulative probabilities, each row ending in one; then plain ones."""

    start: Floats
    first: Floats  # durations of the first stay
    A: Floats
    D: Floats
    B: Floats
    tail: Floats
    end: Floats  # empty where sequences have a length that is given
    empty: float


class Drawn(NamedTuple):
    """Sequences drawn from a model, end to end, and what is hidden in them."""

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    states: NDArray[np.int32]
    remaining: NDArray[np.int32]


@njit(cache=True, nogil=True)
def _draw_one(model, seed, begin, limit, out, write):  # type: ignore[no-untyped-def]
    """Draw a sequence to its end, or of `limit` symbols; its length. Written from `begin` on."""
    draw = np.uint64(0)
    ends = model.end.size > 0
    if ends and model.empty > 0.0:
        draw += np.uint64(1)
        if uniform(seed, np.uint64(0)) < model.empty:
            return 0
    x, left = 0, 0
    for t in range(limit):
        if left == 0:
            if ends and t > 0:
                draw += np.uint64(1)
                if uniform(seed, draw - np.uint64(1)) < model.end[x]:
                    return t
            x = _pick(model.start if t == 0 else model.A[x], uniform(seed, draw))
            durations = model.first[x] if t == 0 else model.D[x]
            left = 1 + _pick(durations, uniform(seed, draw + np.uint64(1)))
            draw += np.uint64(2)
            if left == durations.size and model.tail[x] > 0.0:
                u = uniform(seed, draw)  # below tail^k with that probability
                left += int(min(math.log1p(-u) / math.log(model.tail[x]), LONGEST_STAY))
                draw += np.uint64(1)
        if write:
            out.codes[begin + t] = _pick(model.B[x], uniform(seed, draw))
            out.states[begin + t] = x
            out.remaining[begin + t] = left
        draw += np.uint64(1)
        left -= 1
    return limit


@njit(cache=True, nogil=True)
def _sample_chunk(model, seeds, first, last, out, write):  # type: ignore[no-untyped-def]
    """Draw some sequences, or their lengths only, into the offset after each."""
    for i in range(first, last):
        begin, limit = out.offsets[i], out.offsets[i + 1] - out.offsets[i]
        length = _draw_one(model, seeds[i], begin, limit if write else LONGEST, out, write)
        if not write:
            out.offsets[i + 1] = length


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
    length: ArrayLike | None = None,
    rng: Rng = None,
    n_jobs: int | None = None,
    initial: Floats | None = None,
) -> Drawn:
    """Draw n sequences to their ends, or of one length, or of a length each, from a model.

    A length that is given is the length: ends are left out. `initial` is the joint distribution of
    the first state and its remaining steps, (n_states, max_duration), where stays may begin before
    a sequence.
    """
    if length is None and not params.ends:
        raise SojournError("a model without ends needs length=, the length of the sequences")
    n, lengths = positive_int("n", n), np.asarray(1 if length is None else length)
    if lengths.dtype.kind not in "iu" or lengths.shape not in ((), (n,)):
        raise SojournError(
            f"expected an integer length, or one for each of {n} sequences; got lengths of shape "
            f"{lengths.shape} and type {lengths.dtype}"
        )
    if lengths.min() < 1:
        raise SojournError(f"a length of {lengths.min()} was asked for; the shortest is 1")
    offsets = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.broadcast_to(lengths, n), out=offsets[1:])
    if initial is None:
        initial = params.start[:, None] * params.duration
    # A state that never comes first has no first stay; its row is not used.
    stays = np.where(initial.any(axis=1, keepdims=True), initial, params.duration)
    rows = (initial.sum(axis=1), stays, params.transition, params.duration, params.emission)
    end = params.end if length is None and params.end is not None else np.empty(0)
    plain = {"tail": params.tail, "end": end, "empty": params.empty}
    model = Cumulative(*map(cumulative_rows, rows), **plain)  # type: ignore[arg-type]
    seeds, parts = seeds_for(n, rng), chunks(offsets)

    def draw(out: Drawn, write: bool) -> None:
        each(lambda bounds: _sample_chunk(model, seeds, *bounds, out, write), parts, n_jobs)

    none = np.empty(0, np.int32)
    if length is None:
        draw(Drawn(none, offsets, none, none), write=False)
        if offsets.max() >= LONGEST:
            raise SojournError(
                f"a sequence had not ended after {LONGEST} symbols: the model hardly ever "
                f"ends; give length="
            )
        np.cumsum(offsets, out=offsets)
    codes, states, remaining = np.empty((3, offsets[-1]), dtype=np.int32)
    out = Drawn(codes, offsets, states, remaining)
    draw(out, write=True)
    return out
