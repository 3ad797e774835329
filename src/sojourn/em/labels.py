"""Known states: what `HSMM.fit(X, y)` is given, checked and laid out beside the codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.adapters import offsets_of
from sojourn.data.as_sequences import as_sequences
from sojourn.data.runs import runs
from sojourn.data.sequences import Sequences
from sojourn.em.recovery import flat_around
from sojourn.errors import SojournError
from sojourn.exact.params import Params

UNKNOWN = -1


def read_labels(
    y: Any, sequences: Sequences, lengths: Any, n_states: int
) -> NDArray[np.int32] | None:
    """The state at every step, -1 where it is not known; None where none is."""
    if isinstance(y, list) and all(v is None for row in y for v in (row or ())):
        return None
    given = as_sequences(y, lengths)
    if len(given) != len(sequences):
        raise SojournError(
            f"there are labels for {len(given)} sequences but {len(sequences)} sequences; give a "
            f"row of labels for each, with None at every step whose state is not known"
        )
    differ = np.flatnonzero(given.lengths != sequences.lengths)
    if differ.size:
        i = int(differ[0])
        raise SojournError(
            f"sequence {i} ({sequences.ids[i]}) has {sequences.lengths[i]} symbols but "
            f"{given.lengths[i]} labels; give one at every step, None where it is not known"
        )
    if given.vocabulary.dtype.kind != "i":
        raise SojournError(
            f"labels are numbers of states from 0 to {n_states - 1}; got {given.vocabulary[0]!r}"
        )
    if given.vocabulary[-1] >= n_states:
        k = int(np.argmax(given.codes == given.n_symbols - 1))
        i = int(np.searchsorted(given.offsets, k, side="right")) - 1
        raise SojournError(
            f"sequence {i} has the label {given.vocabulary[-1]} at position "
            f"{k - given.offsets[i]}; with n_states={n_states} they run from 0 to {n_states - 1}"
        )
    values = np.append(given.vocabulary, UNKNOWN).astype(np.int32)
    labels = values[given.codes]
    absent = np.setdiff1d(np.arange(n_states), given.vocabulary)
    if absent.size and not np.any(labels == UNKNOWN):
        raise SojournError(
            f"state {absent[0]} never occurs in the labels, and no step is left unlabelled to "
            f"learn it from; use n_states={len(given.vocabulary)} with states numbered without gaps"
        )
    return labels


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
    keep = ~excess
    offsets = offsets_of(keep)[sequences.offsets]
    cut = Sequences(sequences.codes[keep], offsets, sequences.vocabulary, sequences.ids)
    return cut, labels[keep]


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
