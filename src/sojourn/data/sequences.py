"""Many sequences of symbols, end to end in one array of codes.

The layout is Arrow's list of dictionary codes: ``codes[offsets[i]:offsets[i + 1]]`` is sequence i,
code ``c`` stands for ``vocabulary[c]`` and -1 for a missing symbol. Nothing is padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sojourn.checks import check_choice
from sojourn.data import adapters
from sojourn.data.runs import sums
from sojourn.errors import SojournError

Symbols = list[str | None] | list[int | None]


@dataclass(frozen=True, eq=False, repr=False)
class Sequences:
    """Ragged sequences of strings or of integers, as codes into a sorted vocabulary.

    Use `from_lists`, `from_array`, `from_stacked` or `from_columns`; the constructor checks its
    four arrays and makes its views of them read-only.

    Parameters
    ----------
    codes : int32 array (n_total,)
        Position of each symbol in the vocabulary, -1 where it is missing.
    offsets : int64 array (n + 1,)
        Start of each sequence in `codes`, and the end of the last one.
    vocabulary : int64 or str array (n_symbols,)
        The symbols, sorted, each once.
    ids : int64 or str array (n,)
        A name for each sequence.

    Examples
    --------
    >>> seqs = Sequences.from_lists([["climb", "climb", "level"], ["level", None]])
    >>> seqs
    Sequences(2 sequences of 2 to 3, 5 symbols (1 missing) over 2: 'climb', 'level')
    >>> seqs.codes, seqs[1]
    (array([ 0,  0,  1,  1, -1], dtype=int32), ['level', None])
    """

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    vocabulary: NDArray[Any]
    ids: NDArray[Any]

    def __post_init__(self) -> None:
        for name, kinds in (("codes", "i"), ("offsets", "i"), ("vocabulary", "iU"), ("ids", "iU")):
            object.__setattr__(self, name, adapters.frozen(getattr(self, name), name, kinds))
        if self.offsets.size == 0 or self.offsets[0] != 0 or self.offsets[-1] != self.n_total:
            raise SojournError(f"offsets must run from 0 to the number of codes, {self.n_total}")
        if self.ids.size != len(self):
            raise SojournError(f"there are {len(self)} sequences but {self.ids.size} ids")
        adapters.check_lengths(self.lengths, self.ids, empty=True)
        if np.any(self.vocabulary[1:] <= self.vocabulary[:-1]):
            raise SojournError("the vocabulary must be sorted, each symbol once")
        if self.n_total and not -1 <= self.codes.min() <= self.codes.max() < self.n_symbols:
            raise SojournError(f"codes must lie in -1 … {self.n_symbols - 1}")

    @classmethod
    def from_lists(
        cls,
        lists: Any,
        ids: Any = None,
        vocabulary: Any = None,
        unknown: str = "error",
        empty: bool = False,
    ) -> Sequences:
        """Sequences from a list of lists (or arrays, or columns) of symbols.

        Parameters
        ----------
        lists : iterable of sequences
            Strings or integers of 0 and more, not mixed; None where a symbol is missing.
        ids : column of str or int, optional
            A name for each sequence, each once; 0, 1, … if not given.
        vocabulary : column of str or int, optional
            The symbols there can be; those that occur if not given.
        unknown : {"error", "missing", "add"}
            What a symbol outside a given vocabulary is; "add" adds it to the vocabulary.
        empty : bool
            Whether a sequence may have no symbols, as for a model with ``ends=True``.

        Examples
        --------
        >>> Sequences.from_lists([[3, 7], [7, None, 3]], ids=["a", "b"]).ids
        array(['a', 'b'], dtype='<U1')
        """
        if not adapters.is_collection(lists):
            raise SojournError(
                f"expected a list of sequences, got {type(lists).__name__}; "
                f"where X is one sequence pass [X]"
            )
        rows = list(lists)
        ids = adapters.read_ids(ids, len(rows))
        for i, row in enumerate(rows):
            if type(row) is not list and type(row) is not tuple:
                rows[i] = adapters.read_row(row, adapters.name_of(i, ids))
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        adapters.check_lengths(lengths, ids, empty)
        arrays = rows and all(isinstance(row, np.ndarray) for row in rows)
        flat: Any = np.concatenate(rows) if arrays else list(chain.from_iterable(rows))
        return cls._encode(flat, lengths, ids, vocabulary, unknown)

    @classmethod
    def from_array(
        cls, X: Any, ids: Any = None, vocabulary: Any = None, unknown: str = "error"
    ) -> Sequences:
        """Sequences of equal length, the rows of a two-dimensional array.

        Parameters
        ----------
        X : array (n, length)
            Integers of 0 and more, or strings; a missing symbol is a masked entry.
        ids, vocabulary, unknown
            As in `from_lists`.

        Examples
        --------
        >>> Sequences.from_array(np.array([[0, 5], [5, 5]])).to_lists()
        [[0, 5], [5, 5]]
        """
        # Left to itself, NumPy would turn a list of mixed lists into strings without a word.
        if not isinstance(X, np.ndarray):
            X = np.asarray(X, dtype=None if hasattr(X, "__array__") else object)
        if X.ndim != 2:
            raise SojournError(
                f"expected a two-dimensional array, one sequence per row, got shape {X.shape}; "
                f"pass [X] for one sequence, or lengths= for several laid end to end"
            )
        if X.shape[1] == 0:
            raise SojournError(
                f"the sequences are empty: found array with 0 feature(s) (shape={X.shape}) while "
                f"a minimum of 1 is required."
            )
        ids, lengths = adapters.read_ids(ids, len(X)), np.full(len(X), X.shape[1], dtype=np.int64)
        return cls._encode(X.reshape(-1), lengths, ids, vocabulary, unknown)

    @classmethod
    def from_stacked(
        cls,
        X: Any,
        lengths: Any,
        ids: Any = None,
        vocabulary: Any = None,
        unknown: str = "error",
        empty: bool = False,
    ) -> Sequences:
        """Sequences laid end to end in one column, with the length of each.

        Parameters
        ----------
        X : column (n_total,) or array (n_total, 1)
            Symbols, as in `from_lists`; a missing one is None, null or a masked entry.
        lengths : column of int (n,)
            Lengths that add up to n_total.
        ids, vocabulary, unknown, empty
            As in `from_lists`.

        Examples
        --------
        >>> Sequences.from_stacked(np.array([[4], [4], [6]]), lengths=[2, 1]).to_lists()
        [[4, 4], [6]]
        """
        lengths = adapters.read_integers(lengths, "lengths")
        ids = adapters.read_ids(ids, len(lengths))
        adapters.check_lengths(lengths, ids, empty)
        if getattr(X, "shape", (0,))[1:] == (1,):
            X = (X if isinstance(X, np.ndarray) else np.asarray(X)).reshape(-1)
        return cls._encode(X, lengths, ids, vocabulary, unknown)

    @classmethod
    def from_columns(
        cls, symbol: Any, id: Any = None, vocabulary: Any = None, unknown: str = "error"
    ) -> Sequences:
        """Sequences from two columns of a table: one symbol per row, and the id of its sequence.

        Parameters
        ----------
        symbol : column of str or int
            A list, an array, or a column of pandas, polars or Arrow; null where missing.
        id : column of str or int, optional
            The sequence that each row belongs to. Rows of one id need not be adjacent; they keep
            their order. Without it all rows are one sequence.
        vocabulary, unknown
            As in `from_lists`.

        Returns
        -------
        Sequences
            In the order in which the ids first appear.

        Examples
        --------
        >>> seqs = Sequences.from_columns(symbol=["a", "b", "c"], id=["y", "x", "y"])
        >>> seqs.ids.tolist(), seqs.to_lists()
        (['y', 'x'], [['a', 'c'], ['b']])
        """
        if id is None:
            return cls.from_lists([symbol], None, vocabulary, unknown)
        names, lengths, rows = adapters.group_rows(id, "the id column")
        return cls._encode(symbol, lengths, names, vocabulary, unknown, rows)

    @classmethod
    def _encode(
        cls,
        column: Any,
        lengths: NDArray[np.int64],
        ids: NDArray[Any],
        vocabulary: Any,
        unknown: str,
        rows: NDArray[np.int64] | None = None,
    ) -> Sequences:
        """Code a column of symbols; `rows` puts its entries in the order of the sequences."""
        if len(lengths) == 0:
            raise SojournError("there are no sequences; expected at least 1")
        if hasattr(column, "__len__") and len(column) != lengths.sum():
            raise SojournError(
                f"the column holds {len(column)} symbols, but the sequences {lengths.sum()}; pass "
                f"an id for every row, or lengths that add up to the number of symbols"
            )
        offsets = adapters.offsets_of(lengths)
        place = in_order = adapters.place_of(offsets, ids)
        if rows is not None:
            place = lambda k: in_order(int(np.argmax(rows == k)))  # noqa: E731
        values, missing = adapters.read_column(column, place, least=0)
        symbols, codes = adapters.factorise(values)
        if missing is not None:
            present, codes = codes, np.full(missing.size, -1, dtype=np.int32)
            codes[~missing] = present
        if rows is not None:
            codes = codes[rows]
        if symbols.size == 0 and vocabulary is None:
            raise SojournError("every symbol is missing; pass vocabulary= to say what there can be")
        vocabulary = symbols if vocabulary is None else vocabulary
        return cls(codes, offsets, symbols, ids).recode(vocabulary, unknown)

    @classmethod
    def concatenate(cls, parts: Iterable[Sequences]) -> Sequences:
        """Sequences of one vocabulary, part after part, with the ids that they have.

        Examples
        --------
        >>> seqs = Sequences.from_lists([[0, 1], [1], [0]])
        >>> Sequences.concatenate([seqs[:1], seqs[1:]]).to_lists()
        [[0, 1], [1], [0]]
        """
        parts = list(parts)
        if not all(np.array_equal(part.vocabulary, parts[0].vocabulary) for part in parts):
            raise SojournError("the parts have different vocabularies; recode them to one first")
        lengths = np.concatenate([part.lengths for part in parts])
        codes = np.concatenate([part.codes for part in parts])
        ids = np.concatenate([part.ids for part in parts])
        return cls(codes, adapters.offsets_of(lengths), parts[0].vocabulary, ids)

    def recode(self, vocabulary: Any, unknown: str = "error") -> Sequences:
        """The same sequences as codes into another vocabulary.

        Parameters
        ----------
        vocabulary : column of str or int
            The symbols there can be, in any order, each once.
        unknown : {"error", "missing", "add"}
            Whether a symbol outside it is an error, becomes a missing one, or is added to it.

        Examples
        --------
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
                f"which is not in the vocabulary of {new.size} symbols; pass unknown='missing' to "
                f"treat it as not seen, or refit"
                if alike
                else f"but the vocabulary holds symbols such as {new[0].item()!r}"
            )
            symbol = old[self.codes[k]].item()
            raise SojournError(f"{owner} has symbol {symbol!r} at position {position}, {reason}")
        return Sequences(np.maximum(codes, -1), self.offsets, new, self.ids)

    def cut(self, offsets: NDArray[np.int64], ids: NDArray[Any]) -> Sequences:
        """The same steps as other sequences, which begin at these offsets."""
        return Sequences(self.codes, offsets, self.vocabulary, ids)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of symbols in each sequence, missing ones included."""
        return np.diff(self.offsets)

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

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Symbols]:
        symbol = [*self.vocabulary.tolist(), None]  # code -1 is the last
        for start, stop in pairwise(self.offsets.tolist()):
            yield [symbol[code] for code in self.codes[start:stop].tolist()]

    @overload
    def __getitem__(self, index: int) -> Symbols: ...
    @overload
    def __getitem__(self, index: slice | list[int] | NDArray[Any]) -> Sequences: ...
    def __getitem__(self, index: Any) -> Any:
        """The symbols of one sequence, or the `Sequences` that a slice, indices or a mask pick."""
        if isinstance(index, int | np.integer):
            i = range(len(self))[index]
            return next(iter(self[i : i + 1]))
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(len(self))
            bounds = self.offsets[start : max(start, stop) + 1]
            codes = self.codes[bounds[0] : bounds[-1]]
            return Sequences(codes, bounds - bounds[0], self.vocabulary, self.ids[index])
        picked = np.arange(len(self))[index]
        offsets = adapters.offsets_of(lengths := self.lengths[picked])
        at = np.arange(offsets[-1]) + np.repeat(self.offsets[picked] - offsets[:-1], lengths)
        return Sequences(self.codes[at], offsets, self.vocabulary, self.ids[picked])

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
        return f"Sequences({head}, {symbols})"
