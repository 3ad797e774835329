"""The hidden path given the data: posterior state probabilities, and EM's expected counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.exact.backward import run_chunk
from sojourn.exact.filter import Codes, Floats, tables
from sojourn.exact.layout import Rooms, Sums, aligned, chain, evidence, jobs, row_size
from sojourn.exact.observed import Observed
from sojourn.scale.passes import Partitions
from sojourn.scale.threads import chunk_size, chunks, each, in_order
from sojourn.scale.tree_sum import Summing, TreeSum

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.exact.params import Params


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """How often each thing happened, in expectation given the data; these add."""

    log_likelihood: float  # -inf if a sequence is impossible; such a one adds no counts
    # The first state and its remaining steps. Where stays begin with the sequence, its rows are
    # durations like those below, and its row sums the counts of the start.
    initial: Floats  # (n_states, max_duration)
    transition: Floats  # changes from state to state                   (n_states, n_states)
    # Of the stays entered after the first. One cut by the end counts for all durations it may have.
    duration: Floats  # (n_states, max_duration)
    emission: Floats  # symbols in each state, without missing ones     (n_states, n_symbols)
    tail: Floats  # steps held in the tail, and left it by counting down (n_states, 2)
    end: Floats  # ends in each state                                   (n_states,)
    n_empty: int  # sequences without symbols
    # Of a model of numbers, what its density expects to have seen   (n_states, n_statistics)
    statistics: Floats | None = None

    def __add__(self, other: ExpectedCounts) -> ExpectedCounts:
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        total: list[Any] = [None if a is None else a + b for a, b in pairs]
        return ExpectedCounts(*total)

    @property
    def start(self) -> Floats:
        """How often each state came first."""
        return self.initial.sum(axis=1)


def _chunk_runner(
    params: Params,
    sequences: Sequences,
    initial: Floats | None,
    labels: Codes | None = None,
    gamma: Floats | None = None,
    rooms: Rooms | None = None,
) -> Callable[[tuple[int, int]], ExpectedCounts]:
    """The function that a chunk of sequences is given to, as (first, last)."""
    model, offsets = tables(params, initial), sequences.offsets
    observed, log_probs = Observed(params, sequences), np.empty(len(sequences))
    posterior = np.empty((0, 0)) if gamma is None else gamma
    kept, (n_x, n_d) = rooms or Rooms(offsets, params), params.duration.shape
    laid_out = chain(model, params)
    A, n_rows = laid_out.A[:n_x, :n_x], 2 * n_d + n_x + 3

    def run(bounds: tuple[int, int]) -> ExpectedCounts:
        first, last = bounds
        W, order, longest, n_empty = kept.lanes(first, last)
        B, top = observed.rows(model.B, first, last)
        counts = aligned(n_rows * row_size(n_x, W))
        sums = Sums(log_probs, counts, aligned(*B.shape), posterior)
        seen = evidence(observed.codes, offsets, B, labels)
        with kept.room(W, longest) as room:
            run_chunk(laid_out.of_lanes(W), seen, order, *room, sums)
        observed.add_tops(log_probs, top, first, last)
        emission = sums.emission
        statistics = observed.statistics(emission[:-1], first, last)
        if statistics is not None:
            # One symbol, none missing. Sums of columns are slow where these are few.
            emission = np.stack([np.ascontiguousarray(emission.T).sum(axis=1), np.zeros(n_x)])
        rows = sums.counts.reshape(n_rows, -1)[:, : n_x * W]
        parts = rows.reshape(-1, n_x, W).sum(axis=2)
        changes, (held, down, end) = A * parts[2 * n_d : -3], parts[-3:]
        held, down = model.hold * (held, down)
        return ExpectedCounts(
            log_likelihood=float(log_probs[first:last].sum()),
            initial=model.init * parts[:n_d].T,
            transition=changes,
            duration=params.duration * parts[n_d : 2 * n_d].T,
            emission=np.ascontiguousarray(emission[:-1].T),
            # What is in the tail of a state of one step leaves it by leaving the state.
            tail=np.stack([held, down if n_d > 1 else changes.sum(axis=1) + end], axis=1),
            end=end,
            n_empty=n_empty,
            statistics=statistics,
        )

    return run


def expected_counts(
    params: Params,
    data: Sequences | Partitions,
    initial: Floats | None = None,
    labels: Codes | None = None,
    n_jobs: int | None = None,
    rooms: Rooms | None = None,
) -> ExpectedCounts:
    """Expected starts, transitions, durations and emissions given the data: EM's E-step.

    Codes are below ``params.n_symbols``, or -1 where missing; partitions have known sizes;
    `initial` as in :func:`sojourn.exact.filter.tables`. `labels`, for sequences in memory, holds
    the state at every step where it is known, -1 where not. The bits do not depend on `n_jobs`.
    Several passes over sequences in memory may share `rooms`.

    Examples
    --------
    >>> from sojourn import Params, Sequences
    >>> p = Params([1, 0], [[0, 1], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]])
    >>> counts = expected_counts(p, Sequences.from_lists([[0, 0, 1], [0, 0, 1, 0]]))
    >>> counts.duration                  # the first sequence may have ended in a longer stay
    array([[0. , 1. ],
           [1.5, 0.5]])
    """
    size = chunk_size(data.n_total)
    if isinstance(data, Partitions):
        summing = Summing(partial(_chunk_runner, params, initial=initial), size)
        total: ExpectedCounts = summing.total(data.run(summing))
        return total
    rooms, sums = rooms or Rooms(data.offsets, params), TreeSum(0)
    run = _chunk_runner(params, data, initial, labels, rooms=rooms)
    results = in_order(run, [bounds for _, bounds in rooms.numbered], jobs(n_jobs, params, data))
    for (number, _), counts in zip(rooms.numbered, results, strict=True):
        sums.push(number, counts)
    sums.pad(data.n_total // size)
    total = sums.total()
    return total


def expected_counts_each(
    params: Params,
    sequences: Sequences,
    initial: Floats | None = None,
    labels: Codes | None = None,
    n_jobs: int | None = None,
) -> list[ExpectedCounts]:
    """The expected counts of each sequence by itself; arguments as in :func:`expected_counts`."""
    run = _chunk_runner(params, sequences, initial, labels)
    return each(run, [(i, i + 1) for i in range(len(sequences))], n_jobs)


def state_probabilities(
    params: Params,
    sequences: Sequences,
    initial: Floats | None = None,
    labels: Codes | None = None,
    n_jobs: int | None = None,
) -> Floats:
    """p(state at t | all symbols) at every step, sequences end to end, (n_total, n_states).

    Rows sum to one; all zeros where the model cannot produce the sequence. Arguments as in
    :func:`expected_counts`.
    """
    gamma = np.empty((len(sequences.codes), params.n_states))
    run = _chunk_runner(params, sequences, initial, labels, gamma)
    each(run, chunks(sequences.offsets), n_jobs)
    return gamma
