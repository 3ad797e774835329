"""Many sequences end to end in one array of codes: the layout, its parts, and how to pick from it.

The layout is Arrow's list of dictionary codes: sequence ``i`` is
``codes[offsets[i]:offsets[i + 1]]``, code ``c`` stands for ``vocabulary[c]`` and -1 for a missing
symbol. Nothing is padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import check_choice
from sojourn.data import adapters
from sojourn.data.clock import Clock
from sojourn.data.runs import sums
from sojourn.errors import SojournError

Symbols = list[str | None] | list[int | None]


@dataclass(frozen=True, eq=False, repr=False)
class Ragged:
    """Codes, offsets, vocabulary and ids, with times where there are; `Sequences` makes them."""

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    vocabulary: NDArray[Any]
    ids: NDArray[Any]
    times: NDArray[Any] | None = field(default=None, kw_only=True)
    clock: Clock | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        fields = {"codes": "i", "offsets": "i", "vocabulary": "iU", "ids": "iU", "times": "fM"}
        for name, kinds in fields.items():
            if (array := getattr(self, name)) is not None:
                object.__setattr__(self, name, adapters.frozen(array, name, kinds))
        if self.offsets.size == 0 or self.offsets[0] != 0 or self.offsets[-1] != self.n_total:
            raise SojournError(f"offsets must run from 0 to the number of codes, {self.n_total}")
        if self.ids.size != len(self):
            raise SojournError(f"there are {len(self)} sequences but {self.ids.size} ids")
        adapters.check_lengths(self.lengths, self.ids, empty=True)
        if np.any(self.vocabulary[1:] <= self.vocabulary[:-1]):
            raise SojournError("the vocabulary must be sorted, each symbol once")
        if self.n_total and not -1 <= self.codes.min() <= self.codes.max() < self.n_symbols:
            raise SojournError(f"codes must lie in -1 … {self.n_symbols - 1}")
        if self.times is not None:
            self._check_times(self.times)

    def _check_times(self, times: NDArray[Any]) -> None:
        if times.size != self.n_total:
            raise SojournError(f"there are {self.n_total} symbols but {times.size} times")
        earlier = times[1:] < times[:-1]
        starts = self.offsets[1:-1]
        earlier[starts[(starts > 0) & (starts < times.size)] - 1] = False
        if earlier.any():
            owner, position = adapters.place_of(self.offsets, self.ids)(int(np.argmax(earlier)) + 1)
            raise SojournError(f"{owner} goes back in time at position {position}; sort it by time")

    def recode(self, vocabulary: Any, unknown: str = "error") -> Self:
        """The same sequences as codes into another vocabulary.

        Parameters
        ----------
        vocabulary : column of str or int
            The symbols there can be, in any order, each once.
        unknown : {"error", "missing", "add"}
            Whether a symbol outside it is an error, becomes a missing one, or is added to it.

        Examples
        --------
        >>> from sojourn import Sequences
        >>> seqs = Sequences.from_lists([["a", "c"]])
        >>> seqs.recode(["a", "b", "c"]).codes, seqs.recode(["a"], unknown="missing").codes
        (array([0, 2], dtype=int32), array([ 0, -1], dtype=int32))
        """
        check_choice("unknown", unknown, ("error", "missing", "add"))
        old, new = self.vocabulary, adapters.read_distinct(vocabulary, "the vocabulary", least=0)[0]
        if new.size == 0:
            raise SojournError("the vocabulary is empty; expected at least one symbol")
        alike = old.dtype.kind == new.dtype.kind
        new = np.union1d(new, old) if alike and unknown == "add" else new
        if alike and np.array_equal(old, new):
            return self
        code_of = np.full(old.size + 1, -2, dtype=np.int32)
        code_of[-1] = -1  # where code -1, missing, looks itself up
        if alike:
            at = np.minimum(np.searchsorted(new, old), new.size - 1)
            code_of[:-1] = np.where(new[at] == old, at, -2)
        codes = code_of[self.codes]
        if np.any(codes == -2) and not (alike and unknown == "missing"):
            k = int(np.argmax(codes == -2))
            owner, position = adapters.place_of(self.offsets, self.ids)(k)
            reason = (
                f"which is not in the vocabulary of {new.size} symbols; set unknown='missing' on "
                f"the model to treat it as not seen, or refit (before you split lists for "
                f"scikit-learn, make one Sequences of all: its parts share a vocabulary)"
                if alike
                else f"but the vocabulary holds symbols such as {new[0].item()!r}"
            )
            symbol = old[self.codes[k]].item()
            raise SojournError(f"{owner} has symbol {symbol!r} at position {position}, {reason}")
        return replace(self, codes=np.maximum(codes, -1), vocabulary=new)

    def cut(self, offsets: NDArray[np.int64], ids: NDArray[Any]) -> Self:
        """The same steps as other sequences, which begin at these offsets."""
        return replace(self, offsets=offsets, ids=ids)

    def without(self, dropped: NDArray[np.bool_]) -> Self:
        """The same sequences without some steps."""
        return self._taken(~dropped, adapters.offsets_of(~dropped)[self.offsets], self.ids)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of symbols in each sequence, missing ones included."""
        return np.diff(self.offsets)

    @property
    def shape(self) -> tuple[int]:
        """The number of sequences, by which scikit-learn splits them."""
        return (len(self),)

    @property
    def n_observed(self) -> NDArray[np.int64]:
        """Number of symbols in each sequence that are not missing."""
        return sums((self.codes >= 0).astype(np.int64), self.offsets)

    @property
    def n_symbols(self) -> int:
        """Number of symbols in the vocabulary."""
        return len(self.vocabulary)

    @property
    def n_total(self) -> int:
        """Number of symbols in all sequences together, missing ones included."""
        return len(self.codes)

    def to_lists(self) -> list[Symbols]:
        """The symbols again, one list per sequence, None where one is missing."""
        return list(self)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Columns id, time (if there are times) and symbol, one entry per symbol."""
        symbol = np.array([*self.vocabulary.tolist(), None], dtype=object)[self.codes]
        columns = {"id": np.repeat(self.ids, self.lengths), "time": self.times, "symbol": symbol}
        return {name: column for name, column in columns.items() if column is not None}

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Symbols]:
        symbol = [*self.vocabulary.tolist(), None]  # code -1 is the last
        for start, stop in pairwise(self.offsets.tolist()):
            yield [symbol[code] for code in self.codes[start:stop].tolist()]

    @overload
    def __getitem__(self, index: int | str) -> Symbols: ...
    @overload
    def __getitem__(self, index: slice | list[int] | NDArray[Any]) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        """One sequence, by place or id; or the `Sequences` that a slice, indices or a mask pick."""
        if isinstance(index, str):
            index = self._place(index)
        if isinstance(index, int | np.integer):
            i = range(len(self))[index]
            return next(iter(self[i : i + 1]))
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(len(self))
            bounds = self.offsets[start : max(start, stop) + 1]
            return self._taken(slice(bounds[0], bounds[-1]), bounds - bounds[0], self.ids[index])
        picked = np.arange(len(self))[index]
        offsets = adapters.offsets_of(lengths := self.lengths[picked])
        at = np.arange(offsets[-1]) + np.repeat(self.offsets[picked] - offsets[:-1], lengths)
        return self._taken(at, offsets, self.ids[picked])

    def _taken(self, at: Any, offsets: NDArray[np.int64], ids: NDArray[Any]) -> Self:
        times = None if self.times is None else self.times[at]
        return type(self)(
            self.codes[at], offsets, self.vocabulary, ids, times=times, clock=self.clock
        )

    def _place(self, name: str) -> int:
        found = np.flatnonzero(self.ids == name)
        if found.size == 0:
            known = ", ".join(map(repr, self.ids[:3].tolist()))
            raise SojournError(f"there is no sequence {name!r}; the ids are such as {known}")
        if found.size > 1:
            raise SojournError(
                f"{found.size} sequences have the id {name!r}; pick one by its place, "
                f"{found[0]} or {found[1]}{' or another' * (found.size > 2)}"
            )
        return int(found[0])

    def describe(self) -> dict[str, Any]:
        """Sizes of the data: numbers of sequences and symbols, lengths, the commonest symbols.

        Examples
        --------
        >>> from sojourn import Sequences
        >>> Sequences.from_lists([["a", "b"], ["b", None, "b"]]).describe()["commonest"]
        {'b': 3, 'a': 1}
        """
        lengths = self.lengths
        counts = np.bincount(self.codes[self.codes >= 0], minlength=self.n_symbols)
        order = np.argsort(-counts, kind="stable")[:10]
        quartiles = np.percentile(lengths, [0, 25, 50, 75, 100]).tolist() if len(self) else []
        found = {
            "sequences": len(self),
            "symbols": self.n_total,
            "missing": int(np.count_nonzero(self.codes < 0)),
            "empty": int(np.count_nonzero(lengths == 0)),
            "vocabulary": self.n_symbols,
            "lengths": dict(
                zip(("least", "25%", "median", "75%", "most"), quartiles, strict=False)
            ),
            "commonest": {self.vocabulary[k].item(): int(counts[k]) for k in order},
        }
        if self.times is not None and self.times.size:
            found |= {"first": self.times.min(), "last": self.times.max()}
        return found if self.clock is None else found | {"every": self.clock.every}

    def __repr__(self) -> str:
        if len(self) == 0:
            return f"Sequences(0 sequences over {self.n_symbols} symbols)"
        low, high = self.lengths.min(), self.lengths.max()
        size = f"{low}" if low == high else f"{low} to {high}"
        n_missing = int(np.count_nonzero(self.codes < 0))
        missing = f" ({n_missing} missing)" if n_missing else ""
        shown = ", ".join(map(repr, self.vocabulary[:6].tolist()))
        more = ", …" if self.n_symbols > 6 else ""
        head = f"{len(self)} sequence{'s' if len(self) > 1 else ''} of {size}"
        symbols = f"{self.n_total} symbols{missing} over {self.n_symbols}: {shown}{more}"
        every = f", every {self.clock.every}" if self.clock and self.clock.every else ""
        return f"Sequences({head}, {symbols}{every})"
