"""Known states: what `HSMM.fit(X, y)` is given, checked and laid out beside the codes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.data import adapters
from sojourn.data.as_sequences import as_sequences
from sojourn.data.runs import runs
from sojourn.data.sequences import Sequences
from sojourn.em.recovery import flat_around
from sojourn.errors import SojournError
from sojourn.exact.params import Params

UNKNOWN = -1


class Labelled(NamedTuple):
    """What labels tell of the size of a model."""

    n_states: int  # labels that occur, or more where numbers are left out
    longest: int  # steps of the longest labelled stay
    names: NDArray[np.str_] | None  # the labels in order, where they are words


def describe_labels(y: Any, sequences: Sequences, lengths: Any) -> Labelled | None:
    """The size that a model of labelled data needs, and the names of its states.

    None where no step is labelled, and where labels cannot be read: `read_labels` says why.
    """
    try:
        given = _read(_integers(y), sequences, lengths, None)
        _check_lengths(given, sequences)
    except SojournError:
        return None
    words = given.vocabulary.dtype.kind not in "iu"
    known = given.codes[given.codes != UNKNOWN]
    if not known.size:
        return None
    _, spans, _ = runs(given.codes, given.offsets)
    of_label = given.codes[np.cumsum(spans) - spans] != UNKNOWN
    n_states = len(given.vocabulary) if words else int(given.vocabulary[known.max()]) + 1
    names = given.vocabulary.astype(np.str_) if words else None
    return Labelled(n_states, int(spans[of_label].max()), names)


def read_labels(
    y: Any,
    sequences: Sequences,
    lengths: Any,
    n_states: int,
    names: NDArray[np.str_] | None = None,
) -> NDArray[np.int32] | None:
    """The state at every step, -1 where it is not known; None where none is.

    Labels are numbers of states, or words, of which `names` is the list in the order of the states.
    """
    if names is not None and len(names) > n_states:
        more = " and others" if len(names) > 3 else ""
        raise SojournError(
            f"the labels are {len(names)} words, {', '.join(names[:3])}{more}, but n_states is "
            f"{n_states}; give at least as many states"
        )
    states = np.arange(n_states) if names is None else names
    given = _labels_of(_integers(y), sequences, lengths, states)
    _check_lengths(given, sequences)
    labels = given.codes
    if np.all(labels == UNKNOWN):
        return None
    if names is None and given.vocabulary.dtype.kind != "i":
        raise SojournError(
            f"labels are numbers of states from 0 to {n_states - 1}; got {given.vocabulary[0]!r}"
        )
    if names is None and given.vocabulary[-1] >= n_states:
        k = int(np.argmax(given.codes == given.n_symbols - 1))
        i = int(np.searchsorted(given.offsets, k, side="right")) - 1
        raise SojournError(
            f"sequence {i} has the label {given.vocabulary[-1]} at position "
            f"{k - given.offsets[i]}; with n_states={n_states} they run from 0 to {n_states - 1}"
        )
    absent = np.setdiff1d(np.arange(n_states), labels)
    if absent.size and not np.any(labels == UNKNOWN):
        raise SojournError(
            f"state {absent[0]} never occurs in the labels, and no step is left unlabelled to "
            f"learn it from; use n_states={n_states - absent.size} with states numbered without "
            f"gaps"
        )
    return labels


def _check_lengths(given: Sequences, sequences: Sequences) -> None:
    if len(given) != len(sequences):
        raise _too_many_or_few(len(given), len(sequences))
    differ = np.flatnonzero(given.lengths != sequences.lengths)
    if differ.size:
        i = int(differ[0])
        raise SojournError(
            f"sequence {i} ({sequences.ids[i]}) has {sequences.lengths[i]} symbols but "
            f"{given.lengths[i]} labels; give one at every step, None where it is not known"
        )


def _integers(y: Any) -> Any:
    """Labels without floats: a column of integers with gaps is one of floats with NaN."""
    if isinstance(y, list | tuple) and any(hasattr(row, "dtype") for row in y):
        return [_integers(row) if hasattr(row, "dtype") else row for row in y]
    if getattr(getattr(y, "dtype", None), "kind", "") != "f":
        return y
    values = np.asarray(y)
    seen = ~np.isnan(values)
    if np.any(values[seen] % 1):
        return y
    labels = np.full(values.shape, None, dtype=object)
    labels[seen] = values[seen].astype(int)
    return labels.tolist()


def _labels_of(
    y: Any, sequences: Sequences, lengths: Any, states: NDArray[np.generic]
) -> Sequences:
    """Labels as `Sequences` over the states; a row may be None where no step of it is labelled.

    Labels that are no states come back over their own vocabulary, which names them.
    """
    try:
        return _read(y, sequences, lengths, states)
    except SojournError:
        return _read(y, sequences, lengths, None)


def _read(
    y: Any, sequences: Sequences, lengths: Any, states: NDArray[np.generic] | None
) -> Sequences:
    many = adapters.is_collection(y) and hasattr(y, "__len__") and len(y) > 0
    if many and lengths is None and not any(r is None or adapters.is_collection(r) for r in y):
        raise SojournError(
            "the labels y cannot be read: they are a flat column; expected a row of labels for "
            "each sequence, or X as a column too, with its lengths by name, lengths="
        )
    if isinstance(y, list | tuple) and any(map(adapters.is_collection, y)):
        lengths = None  # rows of labels have their own
    if isinstance(y, list | tuple) and lengths is None:
        if len(y) != len(sequences):
            raise _too_many_or_few(len(y), len(sequences))
        steps = zip(y, sequences.lengths.tolist(), strict=True)
        y = [[None] * n if row is None else row for row, n in steps]
    empty = bool((sequences.lengths == 0).any())
    try:
        return as_sequences(y, lengths, states, empty=empty)
    except SojournError as error:
        raise SojournError(f"the labels y cannot be read: {error}") from None


def _too_many_or_few(n_labels: int, n: int) -> SojournError:
    return SojournError(
        f"there are labels for {n_labels} sequences but {n} sequences; give a row of labels for "
        f"each, with None at every step whose state is not known"
    )


def clip_stays(
    sequences: Sequences, labels: NDArray[np.int32], max_duration: int, clip: bool
) -> tuple[Sequences, NDArray[np.int32]]:
    """Data and labels without the steps by which a labelled stay exceeds `max_duration`."""
    starts, lengths, _ = runs(labels, sequences.offsets)
    since = np.arange(len(labels)) - np.repeat(starts, lengths)
    excess = (since >= max_duration) & (labels != UNKNOWN)
    if not excess.any():
        return sequences, labels
    if not clip:
        k = int(np.argmax(excess))
        i = int(np.searchsorted(sequences.offsets, k, side="right")) - 1
        start = k - int(since[k])
        stay = lengths[np.searchsorted(starts, start)]
        raise SojournError(
            f"sequence {i} ({sequences.ids[i]}) stays in state {labels[k]} for {stay} steps from "
            f"position {start - sequences.offsets[i]}, but max_duration is {max_duration}; raise "
            f"max_duration, allow self_transitions, or pass clip=True to cut such stays"
        )
    return sequences.without(excess), labels[~excess]


def labelled_start(
    sequences: Sequences,
    labels: NDArray[np.int32],
    n_states: int,
    max_duration: int,
    self_transitions: bool,
) -> Params:
    """Where EM starts from labels: what was seen in each state, and nothing impossible.

    Emissions are counts at the labelled steps, one symbol spread by overall frequency added;
    durations are flat and transitions alike, since a gap in the labels hides them.
    """
    seen = (labels != UNKNOWN) & (sequences.codes >= 0)
    counts = np.zeros((n_states, sequences.n_symbols))
    np.add.at(counts, (labels[seen], sequences.codes[seen]), 1.0)
    frequency = np.bincount(sequences.codes[sequences.codes >= 0], minlength=sequences.n_symbols)
    emission = counts + (frequency + 1e-3) / (frequency + 1e-3).sum()
    emission /= emission.sum(axis=1, keepdims=True)
    return flat_around(emission, max_duration, self_transitions)


def state_names(names: NDArray[np.str_] | None, n_states: int) -> NDArray[np.str_] | None:
    """One name per state: the labels, then numbers; None where labels are numbers."""
    if names is None:
        return None
    return np.array([*names.tolist(), *(f"state {x}" for x in range(len(names), n_states))])
