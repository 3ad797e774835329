"""The sample of the data that trees are grown from and sizes are compared on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sojourn.contexts.pieces import NO_LIMIT, Pieces, split
from sojourn.data.sequences import Sequences

# Symbols that trees are grown from and sizes compared on; more are only counted.
SAMPLE = 1 << 19
PER_SYMBOL = 64  # at least as many for each symbol of a large alphabet


@dataclass(frozen=True, eq=False)
class Sample:
    """Pieces that trees are grown from and sizes compared on; those of parts of the data add.

    Which pieces it holds depends on the ids of their sequences alone.
    """

    training: Pieces
    heldout: Pieces
    training_limit: int = NO_LIMIT
    heldout_limit: int = NO_LIMIT
    most: int = 0  # symbols to train on

    @classmethod
    def of(cls, sequences: Sequences, shift: int = 0) -> Sample:
        """The sample of some sequences; `shift` as in `split`."""
        most = max(SAMPLE, PER_SYMBOL * sequences.n_symbols)
        return cls(*split(sequences, shift=shift), most=most)._bounded()

    @classmethod
    def none(cls) -> Sample:
        """Nothing."""
        return cls(Pieces.none(), Pieces.none())

    def __add__(self, other: Sample) -> Sample:
        return Sample(
            self.training + other.training,
            self.heldout + other.heldout,
            min(self.training_limit, other.training_limit),
            min(self.heldout_limit, other.heldout_limit),
            max(self.most, other.most),
        )._bounded()

    def usual(self) -> Sample:
        """The part of it that an alphabet of any size has."""
        return self if self.most <= SAMPLE else replace(self, most=SAMPLE)._bounded()

    @property
    def is_all(self) -> bool:
        """Whether it holds all of the data."""
        return self.training_limit == NO_LIMIT

    def _bounded(self) -> Sample:
        training, _, a = self.training.bounded(self.training_limit, self.most)
        heldout, _, b = self.heldout.bounded(self.heldout_limit)
        return Sample(training.compact(), heldout.compact(), a, b, self.most)
