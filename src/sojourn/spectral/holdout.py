"""Which parts of the data are held out to choose ranks and windows by.

A piece (a sequence, or a block of a long one) may be held out if a hash of its sequence's id is
small. Of those pieces the ones with the smallest hashes are kept, up to a bound on their symbols;
the others are counted after all. So what is held out depends on the ids alone: any partition of the
data, read in any order, holds out the same pieces. (Where ids just number the sequences of each
part, the parts must come in order.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import check_arrays
from sojourn.data.sequences import Sequences
from sojourn.errors import SojournError
from sojourn.scale.hashing import GOLDEN, mix

# A fifth can choose between a few dozen candidates and leaves the fit nearly all of its data.
SHARE = 0.2
# 2^17 symbols separate candidates that differ by some 1e-3 nats per symbol; more would cost time.
MAX_SYMBOLS = 1 << 17
# Longer than any window in use, short enough that one sequence of 10,000 gives several pieces.
BLOCK = 512
NO_LIMIT = 2**64 - 1

_PRIME = np.uint64(0x100000001B3)


class Spans(NamedTuple):
    """Pieces as the kernels read them."""

    codes: NDArray[np.int32]  # -1 where a symbol is missing
    begins: NDArray[np.int64]  # where each piece lies in `codes`                  (n,)
    ends: NDArray[np.int64]  # (n,)
    fresh: NDArray[np.bool_]  # whether the piece starts where its sequence starts  (n,)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Parts of a code array, each a sequence or a block of one; the fields are those of `Spans`."""

    codes: NDArray[np.int32]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    fresh: NDArray[np.bool_]
    keys: NDArray[np.uint64]  # hashes of the pieces                               (n,)

    def __post_init__(self) -> None:
        at = {"begins": "int64 n", "ends": "int64 n"}
        check_arrays(self, codes="int32 c", fresh="bool n", keys="uint64 n", **at)
        inside = (self.begins >= 0) & (self.begins <= self.ends) & (self.ends <= len(self.codes))
        if not inside.all():
            raise SojournError(f"begins and ends of Pieces must lie in 0 … {len(self.codes)}")

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def n_total(self) -> int:
        """Number of symbols in all pieces."""
        return int((self.ends - self.begins).sum())

    @property
    def spans(self) -> Spans:
        """The pieces as the kernels read them."""
        return Spans(self.codes, self.begins, self.ends, self.fresh)

    @classmethod
    def none(cls) -> Pieces:
        """No pieces."""
        at = np.empty(0, np.int64)
        return cls(np.empty(0, np.int32), at, at, np.empty(0, bool), np.empty(0, np.uint64))

    def take(self, index: NDArray[np.int64]) -> Pieces:
        """Some of the pieces, over the same codes."""
        at = (self.begins[index], self.ends[index], self.fresh[index], self.keys[index])
        return Pieces(self.codes, *at)

    def batches(self, size: int) -> list[Pieces]:
        """The pieces in order, in groups of about `size` symbols."""
        ends = np.cumsum(self.ends - self.begins)
        cuts = np.unique(np.searchsorted(ends, np.arange(size, self.n_total, size)))
        return [self.take(index) for index in np.split(np.arange(len(self)), cuts)]

    def with_pieces(self, more: Pieces) -> Pieces:
        """These pieces and more of the same code array."""
        names = ("begins", "ends", "fresh", "keys")
        both = (np.concatenate([getattr(self, name), getattr(more, name)]) for name in names)
        return Pieces(self.codes, *both)

    def compact(self) -> Pieces:
        """The same pieces with codes of their own, end to end."""
        ends = np.cumsum(self.ends - self.begins)
        parts = [self.codes[b:e] for b, e in zip(self.begins, self.ends, strict=True)]
        codes = np.concatenate(parts) if parts else np.empty(0, np.int32)
        begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)]
        return Pieces(codes, begins, ends, self.fresh, self.keys)

    def __add__(self, other: Pieces) -> Pieces:
        n = len(self.codes)
        return Pieces(
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.begins, other.begins + n]),
            np.concatenate([self.ends, other.ends + n]),
            np.concatenate([self.fresh, other.fresh]),
            np.concatenate([self.keys, other.keys]),
        )

    def bounded(self, limit: int = NO_LIMIT) -> tuple[Pieces, Pieces, int]:
        """The pieces with the smallest keys that fit in `MAX_SYMBOLS`, the rest, and their limit.

        The limit is the smallest key that was ever rejected. Without it a later, shorter piece
        could take the place of one rejected earlier, and the order of reading would matter.
        """
        order = self._order()
        keys = self.keys[order]
        fitting = np.cumsum((self.ends - self.begins)[order]) <= MAX_SYMBOLS
        if not fitting.all():
            limit = min(limit, int(keys[np.argmin(fitting)]))
        kept = keys < np.uint64(limit)  # pieces with the same key are kept or rejected together
        return self.take(order[kept]), self.take(order[~kept]), limit

    def _order(self) -> NDArray[np.int64]:
        """By key; pieces with the same key, as of sequences with one id, by their contents."""
        order = np.argsort(self.keys, kind="stable")
        if (self.keys[order[1:]] != self.keys[order[:-1]]).all():
            return order
        sums = [
            crc32(self.codes[b:e].tobytes()) for b, e in zip(self.begins, self.ends, strict=True)
        ]
        return np.lexsort((np.array(sums), self.ends - self.begins, self.keys))


def split(
    sequences: Sequences, share: float = SHARE, block: int | None = BLOCK, shift: int = 0
) -> tuple[Pieces, Pieces]:
    """Cut the sequences into pieces for training and pieces that may be held out, a `share`.

    Sequences of more than two blocks are cut; block=None cuts none. `shift` is added to the ids
    where they just number the sequences, so that several such sets in a row differ.
    """
    hashes = _hashes(sequences.ids, shift)
    begins, ends = sequences.offsets[:-1], sequences.offsets[1:]
    size = block or 1
    long = ends - begins > 2 * size if block else np.zeros(len(begins), bool)
    n_blocks = np.where(long, (ends - begins) // size, 1)  # the last one takes what is left over
    owner = np.repeat(np.arange(len(begins)), n_blocks)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks)
    own = mix(hashes[owner] + GOLDEN * (nth + 1).astype(np.uint64))
    keys = np.where(long[owner], own, hashes[owner])
    held = keys < np.uint64(min(int(share * 2**64), NO_LIMIT))
    # Neighbouring blocks on the same side are one piece, so no window inside is lost.
    first = np.flatnonzero(held | (nth == 0) | np.append(True, held[:-1]))
    last = np.append(first[1:], len(owner)) - 1
    block_begins = begins[owner] + nth * size
    block_ends = np.where(nth == n_blocks[owner] - 1, ends[owner], block_begins + size)
    fresh = nth[first] == 0
    pieces = Pieces(sequences.codes, block_begins[first], block_ends[last], fresh, keys[first])
    return pieces.take(np.flatnonzero(~held[first])), pieces.take(np.flatnonzero(held[first]))


def _hashes(ids: NDArray[np.generic], shift: int) -> Any:
    """A 64-bit hash of each id: of its number or its characters, whatever the array's type."""
    n = len(ids)
    if ids.dtype.kind == "U":
        letters = np.ascontiguousarray(ids).view(np.uint32).reshape(n, -1).astype(np.uint64)
        h = np.full(n, GOLDEN)
        for column in letters.T:
            h = np.where(column > 0, (h ^ column) * _PRIME, h)  # padding does not count
        return mix(h)
    numbers = ids.astype(np.int64)
    if np.array_equal(numbers, np.arange(n)):
        numbers = numbers + shift
    return mix((numbers.astype(np.uint64) + np.uint64(1)) * GOLDEN)  # 0 would stay 0
