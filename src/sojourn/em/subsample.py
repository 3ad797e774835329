"""Growing samples of data that need not be in memory: the same for any partitions of them.

Long sequences are cut into pieces. A piece is drawn by a hash of where it starts in all the data,
so that every partition can tell by itself which of its pieces may be in a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sojourn.contexts.pieces import NO_LIMIT
from sojourn.data.sequences import Sequences
from sojourn.scale.hashing import mix
from sojourn.scale.passes import Partition, Partitions, Pass

SMALLEST = 1 << 14
GROWTH = 4
# Samples are held in memory: 128 MiB of codes.
LARGEST = 1 << 25
# Pieces are drawn one by one up to the size wanted; twice that is nearly always enough to see.
MARGIN = 2.0


def sample_sizes(n_total: int, smallest: int) -> list[int]:
    """Numbers of symbols of the samples, each a good part smaller than all the data."""
    target, sizes = min(max(SMALLEST, smallest), LARGEST), []
    while 1.5 * target < n_total and target <= LARGEST:
        sizes.append(target)
        target *= GROWTH
    return sizes


def draw_samples(
    data: Sequences | Partitions, sizes: list[int], piece: int, salt: int
) -> list[Sequences]:
    """Samples of these sizes, each with all that is in the smaller ones."""
    if not sizes:
        return []
    share = min(1.0, MARGIN * sizes[-1] / data.n_total)
    drawn = _drawn(data, Draw(piece, salt, min(int(share * 2**64), NO_LIMIT)))
    if sum(part.n_total for part, _ in drawn) < sizes[-1]:
        drawn = _drawn(data, Draw(piece, salt, NO_LIMIT))
    pieces = drawn[0][0].concatenate(part for part, _ in drawn)
    order = np.argsort(np.concatenate([keys for _, keys in drawn]), kind="stable")
    ends = np.cumsum(pieces.lengths[order])
    ids = np.arange(len(pieces))
    pieces = pieces.cut(pieces.offsets, ids)
    return [pieces[np.sort(order[: int(np.searchsorted(ends, size)) + 1])] for size in sizes]


Drawn = list[tuple[Sequences, NDArray[np.uint64]]]


@dataclass(frozen=True)
class Draw(Pass[Drawn]):
    """The pass that draws the pieces whose keys are below a limit."""

    ordered: ClassVar[bool] = True

    piece: int
    salt: int
    limit: int

    def empty(self) -> Drawn:
        """No pieces."""
        return []

    def add(self, total: Drawn, sequences: Sequences, partition: Partition) -> Drawn:
        """With the pieces of one more partition, and their keys."""
        return total + self.drawn(sequences, partition.begin)

    def drawn(self, sequences: Sequences, begin: int) -> Drawn:
        """The pieces of sequences with `begin` symbols before them."""
        pieces = cut(sequences, self.piece)
        starts = (pieces.offsets[:-1] + begin).astype(np.uint64)
        keys = mix(mix(starts + np.uint64(1)) ^ np.uint64(self.salt))
        chosen = np.flatnonzero(keys < np.uint64(self.limit))
        return [(pieces[chosen], keys[chosen])] if chosen.size else []


def _drawn(data: Sequences | Partitions, draw: Draw) -> Drawn:
    return draw.drawn(data, 0) if isinstance(data, Sequences) else data.run(draw)


def cut(sequences: Sequences, piece: int) -> Sequences:
    """The sequences, those of more than two pieces cut into pieces of about that length."""
    if sequences.lengths.max() <= 2 * piece:
        return sequences
    n_pieces = np.where(sequences.lengths > 2 * piece, sequences.lengths // piece, 1)
    owner = np.repeat(np.arange(len(sequences)), n_pieces)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    starts = sequences.offsets[owner] + place * (sequences.lengths // n_pieces)[owner]
    offsets = np.append(starts, sequences.n_total)
    return sequences.cut(offsets, np.arange(len(owner)))


def gathered(data: Sequences | Partitions) -> Sequences:
    """All sequences, in memory: the sample that cuts nothing and leaves nothing out."""
    if isinstance(data, Sequences):
        return data
    parts = [part for part, _ in data.run(Draw(data.n_total, 0, NO_LIMIT))]
    return parts[0].concatenate(parts)
