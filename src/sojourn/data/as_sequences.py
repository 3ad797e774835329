"""One way from every form of data in memory to `Sequences`."""

from __future__ import annotations

from typing import Any

from sojourn.data import adapters
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.errors import SojournError


def as_sequences(
    X: Any,
    lengths: Any = None,
    vocabulary: Any = None,
    unknown: str = "error",
    empty: bool = False,
) -> Sequences:
    """`Sequences` from any of the forms in which the estimators take data.

    Parameters
    ----------
    X : Sequences, list of sequences, array (n, length), or column with `lengths`
        A stacked column may also have the shape (n_total, 1); an Arrow or polars column of lists
        is a list of sequences.
    lengths : column of int, optional
        Lengths of the sequences that `X` holds end to end.
    vocabulary, unknown, empty
        As in `Sequences.from_lists`; a `Sequences` of another vocabulary is recoded.

    Examples
    --------
    >>> as_sequences([[0, 1, 1], [2]])
    Sequences(2 sequences of 1 to 3, 4 symbols over 3: 0, 1, 2)
    """
    if isinstance(X, Signals) or _has_channels(X):
        cure = (
            "HSMM takes them as they are, and a Discretizer makes symbols of them for other models"
            if vocabulary is None
            else "the model was fitted to symbols"
        )
        raise SojournError(f"X holds measurements, not symbols; {cure}")
    if isinstance(X, Sequences):
        if lengths is not None:
            raise SojournError("a Sequences knows its lengths; leave lengths= out")
        if len(X) == 0:
            raise SojournError("there are no sequences; expected at least 1")
        adapters.check_lengths(X.lengths, X.ids, empty)
        return X if vocabulary is None else X.recode(vocabulary, unknown)
    if hasattr(X, "tocsr"):
        raise SojournError("X is a sparse matrix; pass X.toarray(), one sequence per row")
    if hasattr(X, "columns"):
        raise SojournError(
            f"X is a table ({type(X).__name__}); pass Sequences.from_pandas(X, id=…, symbol=…), "
            f"from_polars for one of polars, or for measurements Signals.from_table(X, id=…, "
            f"values=[…])"
        )
    if hasattr(X, "get_group"):
        raise SojournError(
            f"X is a {type(X).__name__} of pandas; pass Sequences.from_pandas(table, id=…) of the "
            f"table itself, or [own for _, own in X]"
        )
    if lengths is not None:
        if isinstance(X, list | tuple) and any(map(adapters.is_collection, X[:1])):
            raise SojournError("a list of sequences knows its lengths; leave lengths= out")
        return Sequences.from_stacked(X, lengths, None, vocabulary, unknown, empty)
    X = X.combine_chunks() if hasattr(X, "combine_chunks") else X
    if hasattr(X, "value_lengths"):  # Arrow lists, already in our layout
        lengths = X.value_lengths()
        return Sequences.from_stacked(X.flatten(), lengths, None, vocabulary, unknown, empty)
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if shape[1:] == (1,) and (n := shape[0]) > 1 and X.dtype.kind != "c":
        raise SojournError(
            f"X is a column of {n} symbols (1 feature(s)); pass the lengths of its sequences by "
            f"name, as in fit(X, lengths=[…]), lengths=[{n}] where it is one, or "
            f"Sequences.from_array(X) for {n} sequences of one symbol"
        )
    if len(shape) == 2:
        return Sequences.from_array(X, None, vocabulary, unknown)
    if len(shape) == 1 and not any(row is None or adapters.is_collection(row) for row in X):
        raise SojournError(
            f"X is a flat column of {shape[0]} symbols; pass [X] where it is one sequence, lengths="
            f" where it is several laid end to end, or Sequences.from_columns(X, id=…) where "
            f"another column has their ids"
        )
    return Sequences.from_lists(X, None, vocabulary, unknown, empty)


def _has_channels(X: Any) -> bool:
    """Whether data are arrays of several channels per step."""
    first: Any = X[0] if isinstance(X, list | tuple) and X else X
    if len(getattr(first, "shape", ())) != (2 if first is not X else 3):
        return False
    return first.dtype.kind == "f" and (first is X or bool(first.shape[1] > 1))
