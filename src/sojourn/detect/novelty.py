"""Symbols that were never seen in training: found while encoding, and evidence by default."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.data.as_sequences import as_sequences
from sojourn.data.sequences import Sequences

UNKNOWN = ("novel", "missing", "error")


class Encoded(NamedTuple):
    """Sequences as the model reads them, and as they were given."""

    known: Sequences  # in the vocabulary of training; other symbols are missing
    given: Sequences  # the same, with those symbols added to the vocabulary

    def pick(self, which: Any) -> Encoded:
        """Some of the sequences, by a slice, indices or a mask."""
        return Encoded(self.known[which], self.given[which])

    def seen_by(self, seen: NDArray[np.bool_]) -> Encoded:
        """The same, with symbols of the vocabulary that are not among those seen missing, too."""
        if seen.all():
            return self
        codes = np.where(np.append(seen, True)[self.known.codes], self.known.codes, np.int32(-1))
        return Encoded(replace(self.known, codes=codes), self.given)

    def novel_steps(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which steps have a symbol that is not among those seen, (n_total,)."""
        codes = self.known.codes
        unseen = np.append(~seen, False)[codes]  # code -1, missing, is the last
        return np.asarray(unseen | ((codes < 0) & (self.given.codes >= 0)))

    def novel_counts(self, seen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many such steps each sequence has, (n,)."""
        total = np.append(0, np.cumsum(self.novel_steps(seen)))
        return np.asarray(np.diff(total[self.known.offsets]))


def encode(
    X: Any, lengths: Any, vocabulary: NDArray[Any], unknown: str, empty: bool = False
) -> Encoded:
    """Sequences of any form in a vocabulary; `unknown` as in `AnomalyDetector`.

    Examples
    --------
    >>> found = encode([["a", "b"], ["c", "a"]], None, np.array(["a", "b"]), "novel")
    >>> found.known.codes, found.novel_counts(np.array([True, True]))
    (array([ 0,  1, -1,  0], dtype=int32), array([0, 1]))
    """
    given = as_sequences(X, lengths, vocabulary, "add" if unknown == "novel" else unknown, empty)
    known = given.recode(vocabulary, "missing" if unknown == "novel" else "error")
    return Encoded(known, given)


def seen_symbols(sequences: Sequences) -> NDArray[np.bool_]:
    """Which symbols of the vocabulary occur, (n_symbols,)."""
    found = np.zeros(sequences.n_symbols + 1, dtype=bool)
    found[sequences.codes] = True
    return found[:-1]
