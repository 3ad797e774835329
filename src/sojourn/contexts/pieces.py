"""Pieces of sequences, and which of them are held out to choose sizes and ranks by.

A piece (a sequence, or a block of a long one) may be held out if a hash of its sequence's id is
small. Of those pieces the ones with the smallest hashes are kept, up to a bound on their symbols;
the others are counted after all. So what is held out depends on the ids alone: any partition of the
data, read in any order, holds out the same pieces. (Where ids just number the sequences of each
part, the parts must come in order.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self
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
PER_PIECE = ("begins", "ends", "fresh", "closed", "keys")

_PRIME = np.uint64(0x100000001B3)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Parts of a code array, each a sequence or a block of one."""

    codes: NDArray[np.int32]  # -1 where a symbol is missing
    begins: NDArray[np.int64]  # where each piece lies in `codes`                  (n,)
    ends: NDArray[np.int64]  # (n,)
    fresh: NDArray[np.bool_]  # whether it starts where its sequence starts         (n,)
    closed: NDArray[np.bool_]  # whether it ends where its sequence ends            (n,)
    keys: NDArray[np.uint64]  # hashes of the pieces                               (n,)

    def __post_init__(self) -> None:
        at = {"begins": "int64 n", "ends": "int64 n"}
        check_arrays(self, codes="int32? c", fresh="bool n", closed="bool n", keys="uint64 n", **at)
        inside = (self.begins >= 0) & (self.begins <= self.ends) & (self.ends <= len(self.codes))
        if not inside.all():
            raise SojournError(f"begins and ends of Pieces must lie in 0 … {len(self.codes)}")

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def n_total(self) -> int:
        """Number of symbols in all pieces."""
        return int((self.ends - self.begins).sum())

    @classmethod
    def none(cls) -> Pieces:
        """No pieces."""
        at, no = np.empty(0, np.int64), np.empty(0, bool)
        return cls(np.empty(0, np.int32), at, at, no, no, np.empty(0, np.uint64))

    @classmethod
    def all_of(cls, sequences: Sequences, first: int = 0, last: int | None = None) -> Pieces:
        """Sequences `first` to before `last`, each as one piece, without keys."""
        offsets = sequences.offsets[first : None if last is None else last + 1]
        yes = np.ones(len(offsets) - 1, bool)
        return cls(
            sequences.codes, offsets[:-1], offsets[1:], yes, yes, np.zeros(len(yes), np.uint64)
        )

    def take(self, index: NDArray[np.int64]) -> Pieces:
        """Some of the pieces, over the same codes."""
        return Pieces(self.codes, *(getattr(self, name)[index] for name in PER_PIECE))

    def batches(self, size: int) -> list[Pieces]:
        """The pieces in order, in groups of about `size` symbols."""
        ends = np.cumsum(self.ends - self.begins)
        cuts = np.unique(np.searchsorted(ends, np.arange(size, self.n_total, size)))
        return [self.take(index) for index in np.split(np.arange(len(self)), cuts)]

    def with_pieces(self, more: Pieces) -> Pieces:
        """These pieces and more of the same code array."""
        return replace(self, **_joined(self, more))

    def compact(self) -> Pieces:
        """The same pieces with codes of their own, end to end."""
        ends = np.cumsum(self.ends - self.begins)
        parts = [self.codes[b:e] for b, e in zip(self.begins, self.ends, strict=True)]
        codes = np.concatenate(parts) if parts else np.empty(0, np.int32)
        begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)]
        return replace(self, codes=codes, begins=begins, ends=ends)

    def __add__(self, other: Pieces) -> Pieces:
        n = len(self.codes)
        parts = _joined(self, other)
        for name in ("begins", "ends"):
            parts[name] = parts[name] + n * (np.arange(len(parts[name])) >= len(self))
        return Pieces(codes=np.concatenate([self.codes, other.codes]), **parts)

    def bounded(self, limit: int = NO_LIMIT, most: int = MAX_SYMBOLS) -> tuple[Pieces, Pieces, int]:
        """The pieces with the smallest keys that fit in `most` symbols, the rest, and their limit.

        The limit is the smallest key that was ever rejected. Without it a later, shorter piece
        could take the place of one rejected earlier, and the order of reading would matter.
        """
        order = self._order()
        keys = self.keys[order]
        fitting = np.cumsum((self.ends - self.begins)[order]) <= most
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


def _joined(a: Pieces, b: Pieces) -> dict[str, Any]:
    return {name: np.concatenate([getattr(a, name), getattr(b, name)]) for name in PER_PIECE}


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
    marks = (nth[first] == 0, nth[last] == n_blocks[owner[last]] - 1)
    pieces = Pieces(sequences.codes, block_begins[first], block_ends[last], *marks, keys[first])
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


class Tally(ABC):
    """Counts under way: sequences are counted part after part, in any order, some held out.

    `share` of the pieces may be held out; sequences are cut into blocks of `block` symbols.
    """

    def __init__(self, share: float = SHARE, block: int | None = BLOCK) -> None:
        self._share, self._block = share, block
        self.n_sequences = self.n_total = self.longest = 0
        self.heldout, self.limit = Pieces.none(), NO_LIMIT

    def add(self, sequences: Sequences, n_jobs: int | None = None, shift: int = 0) -> None:
        """Count more sequences, by threads; `shift` as in `split`."""
        training, eligible = split(sequences, self._share, self._block, shift)
        kept, evicted, self.limit = eligible.bounded(self.limit)
        self._count(training.with_pieces(evicted), n_jobs)
        self._hold_out(self.heldout + kept.compact())
        self.n_sequences += len(sequences)
        self.n_total += sequences.n_total
        self.longest = max(self.longest, int(sequences.lengths.max(initial=0)))

    def __add__(self, other: Self) -> Self:
        """Both together; neither is changed."""
        both = copy(self)
        both._join(other)
        both.n_sequences += other.n_sequences
        both.n_total += other.n_total
        both.longest = max(self.longest, other.longest)
        both.limit = min(self.limit, other.limit)
        both._hold_out(self.heldout + other.heldout)
        return both

    def _hold_out(self, pieces: Pieces) -> None:
        """Hold out those of the pieces that may be, and count the others."""
        self.heldout, evicted, self.limit = pieces.bounded(self.limit)
        self.heldout = self.heldout.compact()
        if len(evicted):
            self._count(evicted, 1)

    @abstractmethod
    def _count(self, pieces: Pieces, n_jobs: int | None) -> None:
        """Count pieces; counts that others may hold are not changed."""

    @abstractmethod
    def _join(self, other: Self) -> None:
        """Add the counts of another tally, which stays as it is."""
