"""Growing samples of data that need not be in memory: the same for any partitions of them.

Long sequences are cut into pieces. A piece is drawn by a hash of where it starts in all the data,
so that every partition can tell by itself which of its pieces may be in a sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn.data.sequences import Sequences
from sojourn.scale.passes import Parts
from sojourn.spectral.holdout import NO_LIMIT, mix

SMALLEST = 1 << 14
GROWTH = 4
# Samples are held in memory: 128 MiB of codes.
LARGEST = 1 << 25
# Pieces are drawn one by one up to the size wanted; twice that is nearly always enough to see.
MARGIN = 2.0


def sample_sizes(n_total: int, smallest: int) -> list[int]:
    """Numbers of symbols of the samples, each a good part smaller than all the data.

    Examples
    --------
    >>> sample_sizes(1_000_000, 10_000)
    [16384, 65536, 262144]
    """
    target, sizes = min(max(SMALLEST, smallest), LARGEST), []
    while 1.5 * target < n_total and target <= LARGEST:
        sizes.append(target)
        target *= GROWTH
    return sizes


def draw_samples(parts: Parts, sizes: list[int], piece: int, salt: int) -> list[Sequences]:
    """Samples of these sizes, each with all that is in the smaller ones.

    Parameters
    ----------
    parts : Parts
        Of known sizes.
    sizes : list of int
        Numbers of symbols, growing.
    piece : int
        Sequences of more than two pieces are cut into pieces of about this length.
    salt : int
        Another number draws other samples.

    Examples
    --------
    >>> seqs = Sequences.from_array(np.zeros((1000, 20), int))
    >>> [s.n_total for s in draw_samples(Parts.of(seqs), [100, 400], 20, 0)]
    [100, 400]
    """
    if not sizes:
        return []
    share = min(1.0, MARGIN * sizes[-1] / parts.n_total)
    drawn = parts.reduced(Draw(piece, salt, min(int(share * 2**64), NO_LIMIT)), _both)
    if sum(map(_n_total, drawn)) < sizes[-1]:
        drawn = parts.reduced(Draw(piece, salt, NO_LIMIT), _both)
    pieces = Sequences.concatenate([part for part, _ in drawn])
    order = np.argsort(np.concatenate([keys for _, keys in drawn]), kind="stable")
    ends = np.cumsum(pieces.lengths[order])
    ids = np.arange(len(pieces))
    pieces = Sequences(pieces.codes, pieces.offsets, pieces.vocabulary, ids)
    return [pieces[np.sort(order[: int(np.searchsorted(ends, size)) + 1])] for size in sizes]


Drawn = list[tuple[Sequences, NDArray[np.uint64]]]


@dataclass(frozen=True)
class Draw:
    """The pieces of a partition whose keys are below a limit."""

    piece: int
    salt: int
    limit: int

    def __call__(self, sequences: Sequences, begin: int, n_jobs: int | None) -> Drawn:
        """The pieces and their keys."""
        pieces = cut(sequences, self.piece)
        starts = (pieces.offsets[:-1] + begin).astype(np.uint64)
        keys = mix(mix(starts + np.uint64(1)) ^ np.uint64(self.salt))
        chosen = np.flatnonzero(keys < np.uint64(self.limit))
        return [(pieces[chosen], keys[chosen])] if chosen.size else []


def cut(sequences: Sequences, piece: int) -> Sequences:
    """The sequences, those of more than two pieces cut into pieces of about that length."""
    if sequences.lengths.max() <= 2 * piece:
        return sequences
    n_pieces = np.where(sequences.lengths > 2 * piece, sequences.lengths // piece, 1)
    owner = np.repeat(np.arange(len(sequences)), n_pieces)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    starts = sequences.offsets[owner] + place * (sequences.lengths // n_pieces)[owner]
    offsets = np.append(starts, sequences.n_total)
    return Sequences(sequences.codes, offsets, sequences.vocabulary, np.arange(len(owner)))


def gathered(parts: Parts) -> Sequences:
    """All sequences, in memory."""
    if parts.in_memory is not None:
        return parts.in_memory
    return Sequences.concatenate(parts.each(_itself))


def _itself(sequences: Sequences, begin: int, n_jobs: int | None) -> Sequences:
    return sequences


def _both(a: Drawn, b: Drawn) -> Drawn:
    return a + b


def _n_total(drawn: tuple[Sequences, NDArray[np.uint64]]) -> int:
    return drawn[0].n_total
