"""Pieces of sequences: whole ones, or blocks of long ones, for training or held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn import Sequences
from sojourn.spectral import holdout


@dataclass(frozen=True, eq=False)
class Pieces:
    """Stretches of a code array.

    Parameters
    ----------
    codes : int32 array
        -1 where a symbol is missing.
    begins, ends : int64 arrays (n,)
        Where each piece lies in `codes`.
    fresh, closed : bool arrays (n,)
        Whether it starts where its sequence starts, and ends where that ends.
    keys : uint64 array (n,)
        Hashes by which samples are drawn.
    """

    codes: NDArray[np.int32]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    fresh: NDArray[np.bool_]
    closed: NDArray[np.bool_]
    keys: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def n_total(self) -> int:
        """Number of symbols."""
        return int((self.ends - self.begins).sum())

    def take(self, index: NDArray[np.int64]) -> Pieces:
        """Some of the pieces."""
        names = ("begins", "ends", "fresh", "closed", "keys")
        return Pieces(self.codes, *(getattr(self, name)[index] for name in names))

    def __add__(self, other: Pieces) -> Pieces:
        n = len(self.codes)
        names = ("fresh", "closed", "keys")
        return Pieces(
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.begins, other.begins + n]),
            np.concatenate([self.ends, other.ends + n]),
            *(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names),
        )


def all_pieces(sequences: Sequences, first: int = 0, last: int | None = None) -> Pieces:
    """Every sequence from `first` to before `last` as one piece."""
    offsets = sequences.offsets[first : None if last is None else last + 1]
    n = len(offsets) - 1
    yes = np.ones(n, bool)
    return Pieces(sequences.codes, offsets[:-1], offsets[1:], yes, yes, np.zeros(n, np.uint64))


def split(sequences: Sequences, share: float = holdout.SHARE) -> tuple[Pieces, Pieces]:
    """Pieces for training and held-out ones, by a hash of the id of their sequence."""
    training, eligible = holdout.split(sequences, share)
    held, evicted, _ = eligible.bounded()
    return tuple(  # type: ignore[return-value]
        Pieces(p.codes, p.begins, p.ends, p.fresh, np.isin(p.ends, sequences.offsets), p.keys)
        for p in (training.with_pieces(evicted), held)
    )


def sample(pieces: Pieces, n_symbols: int) -> Pieces:
    """Those with the smallest keys, up to a number of symbols."""
    order = np.argsort(pieces.keys, kind="stable")
    n = int(np.searchsorted(np.cumsum((pieces.ends - pieces.begins)[order]), n_symbols))
    return pieces.take(np.sort(order[: max(n, 1)]))
