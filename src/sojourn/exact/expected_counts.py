"""What the data say about the hidden path: posterior state probabilities, EM's expected counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sojourn.exact.backward import block_steps, expect_chunk
from sojourn.exact.forward import LANES, Codes, Floats, Offsets, in_lanes, tables
from sojourn.scale.threads import chunks, each
from sojourn.scale.tree_sum import Stretch, finished, joined, stretch

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.exact.params import Params


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """How often each thing happened, in expectation given the data; these add.

    Attributes
    ----------
    log_likelihood : float
        Of all sequences; ``-inf`` if one of them is impossible (such a one adds no counts).
    initial : ndarray, shape (n_states, max_duration)
        The first state and the steps it has left. Where stays begin with the sequence its rows
        are durations like those below, and its row sums the counts of the start.
    transition : ndarray, shape (n_states, n_states)
        Changes from state to state.
    duration : ndarray, shape (n_states, max_duration)
        Durations of the stays entered after the first. One that the end cuts short counts for all
        the durations it may have had.
    emission : ndarray, shape (n_states, n_symbols)
        Symbols seen in each state; missing ones are not.

    Examples
    --------
    >>> from sojourn import Params, Sequences
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> expected_counts(p, Sequences.from_lists([[0, 0, 1, 0]])).duration
    array([[0., 1.],
           [1., 0.]])
    """

    log_likelihood: float
    initial: Floats
    transition: Floats
    duration: Floats
    emission: Floats

    def __add__(self, other: ExpectedCounts) -> ExpectedCounts:
        return ExpectedCounts(
            self.log_likelihood + other.log_likelihood,
            self.initial + other.initial,
            self.transition + other.transition,
            self.duration + other.duration,
            self.emission + other.emission,
        )

    @property
    def start(self) -> Floats:
        """How often each state came first."""
        return self.initial.sum(axis=1)


def _chunk_runner(
    params: Params,
    codes: Codes,
    offsets: Offsets,
    initial: Floats | None,
    labels: Codes | None,
    log_probs: Floats,
    gamma: Floats,
) -> Callable[[tuple[int, int]], ExpectedCounts]:
    """The function that a chunk of sequences is given to."""
    model = tables(params, initial)
    AT = in_lanes(np.ascontiguousarray(params.transition.T))
    known = np.empty(0, dtype=np.int32) if labels is None else labels
    n_x, n_d = params.duration.shape
    n_cells = n_x * (model.D.shape[1] + LANES)

    def run(bounds: tuple[int, int]) -> ExpectedCounts:
        first, last = bounds
        longest = int(np.diff(offsets[first : last + 1]).max())
        at_start = np.zeros_like(model.init)
        transition = np.zeros_like(model.A)
        duration = np.zeros_like(model.D)
        emission = np.zeros_like(model.B)
        expect_chunk(
            *model, AT, codes, known, offsets, first, last, block_steps(n_cells, longest),
            log_probs, at_start, transition, duration, emission, gamma,
        )  # fmt: skip
        return ExpectedCounts(
            log_likelihood=float(log_probs[first:last].sum()),
            initial=(model.init * at_start)[:, :n_d].copy(),
            transition=(model.A * transition).reshape(n_x, -1)[:, :n_x].copy(),
            duration=(model.D * duration)[:, :n_d].copy(),
            emission=np.ascontiguousarray(emission[:-1].T),
        )

    return run


@dataclass(frozen=True, eq=False)
class Counting:
    """A pass for the expected counts under a model, over one partition after another.

    Parameters
    ----------
    params, initial, labels
        As in :func:`expected_counts`; labels are for data that are one partition.

    Examples
    --------
    >>> from sojourn import Params
    >>> p = Params.random(2, 3, 4, rng=0)
    >>> seqs, counting = p.sample(2000, 30, rng=1), Counting(p)
    >>> parts = [counting.stretch(seqs[:700], 0), counting.stretch(seqs[700:], 21000)]
    >>> counts = counting.finished(counting.joined(*parts))
    >>> bool((counts.emission == expected_counts(p, seqs).emission).all())
    True
    """

    params: Params
    initial: Floats | None = None
    labels: Codes | None = None

    def __call__(self, sequences: Sequences) -> Callable[[tuple[int, int]], ExpectedCounts]:
        """What runs over a chunk of these sequences."""
        log_probs = np.empty(len(sequences))
        where = (sequences.codes, sequences.offsets, self.initial)
        # Labels lie beside the symbols of all the data; what is left of a chunk is at their end.
        labels = None if self.labels is None else self.labels[-len(sequences.codes) :]
        return _chunk_runner(self.params, *where, labels, log_probs, np.empty((0, 0)))

    def stretch(self, sequences: Sequences, begin: int, n_jobs: int | None = None) -> Stretch:
        """The pass over one partition, with `begin` symbols before it."""
        return stretch(self, sequences, begin, n_jobs)

    def joined(self, a: Stretch, b: Stretch) -> Stretch:
        """The passes over two partitions, the second after the first."""
        return joined(self, a, b)

    def finished(self, whole: Stretch) -> ExpectedCounts:
        """The counts of all the data."""
        counts: ExpectedCounts = finished(self, whole)
        return counts


def expected_counts(
    params: Params,
    sequences: Sequences,
    initial: Floats | None = None,
    labels: Codes | None = None,
    n_jobs: int | None = None,
) -> ExpectedCounts:
    """Expected starts, transitions, durations and emissions given the data: EM's E-step.

    Parameters
    ----------
    params : Params
        The model.
    sequences : Sequences
        Codes below ``params.n_symbols``, or -1 where missing.
    initial : ndarray, shape (n_states, max_duration), optional
        Law of the first state and the steps it has left, where stays may begin before a sequence.
    labels : ndarray of int32, shape (n_total,), optional
        The state at every step where it is known, -1 where not.
    n_jobs : int or None
        Number of threads; the counts are the same to the bit for any of them.

    Examples
    --------
    >>> from sojourn import Params, Sequences
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> counts = expected_counts(p, Sequences.from_lists([[0, 0, 1], [0, 0, 1, 0]]))
    >>> counts.duration                  # the first sequence may have ended in a longer stay
    array([[0. , 1. ],
           [1.5, 0.5]])
    """
    counting = Counting(params, initial, labels)
    return counting.finished(counting.stretch(sequences, 0, n_jobs))


def expected_counts_each(
    params: Params,
    sequences: Sequences,
    initial: Floats | None = None,
    labels: Codes | None = None,
    n_jobs: int | None = None,
) -> list[ExpectedCounts]:
    """The expected counts of each sequence by itself; arguments as in :func:`expected_counts`.

    Examples
    --------
    >>> from sojourn import Params, Sequences
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> each_one = expected_counts_each(p, Sequences.from_lists([[0, 0], [0, 0, 1]]))
    >>> [counts.transition[0].tolist() for counts in each_one]
    [[0.0, 0.0], [0.0, 1.0]]
    """
    n = len(sequences.offsets) - 1
    run = _chunk_runner(
        params, sequences.codes, sequences.offsets, initial, labels, np.empty(n), np.empty((0, 0))
    )
    return each(run, [(i, i + 1) for i in range(n)], n_jobs)


def state_probabilities(
    params: Params,
    sequences: Sequences,
    initial: Floats | None = None,
    labels: Codes | None = None,
    n_jobs: int | None = None,
) -> Floats:
    """p(state at t | the whole sequence) at every step, all sequences end to end.

    Arguments as in :func:`expected_counts`.

    Returns
    -------
    ndarray, shape (n_total, n_states)
        Rows sum to one; all zeros where the model cannot produce the sequence.

    Examples
    --------
    >>> from sojourn import Params, Sequences
    >>> p = Params([0.5, 0.5], [[0, 1], [1, 0]], [[1], [1]], [[1, 0], [0.5, 0.5]])
    >>> state_probabilities(p, Sequences.from_lists([[0, 1]]))
    array([[1., 0.],
           [0., 1.]])
    """
    gamma = np.empty((len(sequences.codes), params.n_states))
    log_probs = np.empty(len(sequences.offsets) - 1)
    run = _chunk_runner(
        params, sequences.codes, sequences.offsets, initial, labels, log_probs, gamma
    )
    each(run, chunks(sequences.offsets), n_jobs)
    return gamma
