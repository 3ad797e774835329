"""What the forward pass answers: likelihood, surprise, the state now, the next symbol."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from sojourn.exact.ahead import distribution_after
from sojourn.exact.backward import run_chunk
from sojourn.exact.filter import (
    KERNEL,
    Codes,
    Floats,
    Offsets,
    Tables,
    ending,
    filter_steps,
    leaving,
    new_state,
    p_empty,
    tables,
)
from sojourn.exact.layout import Rooms, Sums, chain, evidence, jobs
from sojourn.exact.observed import Observed
from sojourn.scale.threads import chunks, each

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.exact.params import Params


class Outputs(NamedTuple):
    """What a forward pass fills; an empty array is not wanted."""

    surprise: Floats = np.empty(0)  # (n_total,), or (n_total + n,) with ends
    finals: Floats = np.empty((0, 0, 0))  # alpha at the end of each sequence   (n, n_x, n_d)


@njit(**KERNEL)
def _filter_chunk(model, codes, offsets, empty, first, last, out):  # type: ignore[no-untyped-def]
    """The forward pass over some sequences; `empty` is the probability of one without symbols."""
    init, A, D, B, hold, stop = model
    alpha, work = new_state(D)
    ends = stop.size > 0
    for i in range(first, last):
        start, end = offsets[i], offsets[i + 1]
        at = start + i if ends else start
        steps = out.surprise[at : at + end - start]
        total = filter_steps(init, A, D, B, hold, alpha, -1.0, work, codes, start, end, steps)
        if out.surprise.size > 0 and ends:
            p = empty
            if start < end:
                p = ending(alpha, stop) / total if total > 0.0 else 0.0
            out.surprise[at + end - start] = max(0.0, -math.log(p)) if p > 0.0 else np.inf
        if out.finals.size > 0:
            share = 1.0 / total if total > 0.0 else 0.0
            for x in range(out.finals.shape[1]):
                for r in range(out.finals.shape[2]):
                    out.finals[i, x, r] = alpha[x, r] * share


def _run(
    params: Params, sequences: Sequences, initial: Floats | None, n_jobs: int | None, out: Outputs
) -> None:
    model, empty = tables(params, initial), p_empty(params)
    observed, offsets = Observed(params, sequences), sequences.offsets

    def run(bounds: tuple[int, int]) -> None:
        B, top = observed.rows(model.B, *bounds)
        _filter_chunk(model._replace(B=B), observed.codes, offsets, empty, *bounds, out)
        if top.size and out.surprise.size:
            out.surprise[observed.steps(params.ends, *bounds)] -= top

    each(run, chunks(sequences.offsets), n_jobs)


def log_prob(
    params: Params,
    sequences: Sequences,
    initial: Floats | None = None,
    n_jobs: int | None = None,
    labels: Codes | None = None,
) -> Floats:
    """Log-probability of each sequence in nats, -inf where the model cannot produce it.

    Codes are below ``params.n_symbols``, or -1 where missing; `initial` as in :func:`tables`;
    `labels` are the states where they are known, else -1.
    """
    model, offsets = tables(params, initial), sequences.offsets
    observed, out = Observed(params, sequences), np.empty(len(sequences))
    rooms, laid_out, nothing = Rooms(offsets, params), chain(model, params), np.empty((0, 0))
    sums = Sums(out, np.empty(0), nothing, nothing)

    def run(bounds: tuple[int, int]) -> None:
        B, top = observed.rows(model.B, *bounds)
        W, order, _, _ = rooms.lanes(*bounds)
        seen = evidence(observed.codes, offsets, B, labels)
        with rooms.room(W, 0) as room:
            run_chunk(laid_out.of_lanes(W), seen, order, *room, sums)
        observed.add_tops(out, top, *bounds)

    each(run, chunks(offsets), jobs(n_jobs, params, sequences))
    return out


def surprise(
    params: Params, sequences: Sequences, initial: Floats | None = None, n_jobs: int | None = None
) -> Floats:
    """-log p(o_t | o_1 ... o_t-1) at every step, all sequences end to end.

    Infinite from the first symbol on that the model cannot produce. With ends, the last number of
    each sequence is that of its end.
    """
    out = np.empty(len(sequences.codes) + params.ends * len(sequences))
    _run(params, sequences, initial, n_jobs, Outputs(surprise=out))
    return out


def split_steps(steps: Floats, offsets: Offsets, ends: bool) -> list[Floats]:
    """One array per sequence of what :func:`surprise` returns for all of them."""
    return np.split(steps, (offsets + ends * np.arange(len(offsets)))[1:-1])


def filtered(
    params: Params, sequences: Sequences, initial: Floats | None = None, n_jobs: int | None = None
) -> Floats:
    """p(state, remaining steps | all symbols) at the end of each sequence, (n, n_states, n_d).

    Column ``r`` is ``r + 1`` remaining steps, the last one seen included; the last column is the
    tail, where there is one. All zeros where the model cannot produce the sequence, and where it
    has no symbols.
    """
    out = np.empty((len(sequences), params.n_states, params.max_duration))
    _run(params, sequences, initial, n_jobs, Outputs(finals=out))
    return out


def next_symbol(
    params: Params, alpha: Floats, horizons: Sequence[int], initial: Floats | None = None
) -> Floats:
    """Distributions of the symbol some steps ahead, (n, n_horizons, n_symbols), after `filtered`.

    With ends, one more column: that the sequence has ended by then. A row of alpha that is zero
    stands for a sequence that has not begun.
    """
    states = next_states(params, alpha, horizons, initial)
    p = np.asarray(states[:, :, :-1] @ params.emission)
    return np.concatenate([p, states[:, :, -1:]], axis=2) if params.ends else p


def step_unseen(params: Params, model: Tables, alpha: Floats) -> tuple[Floats, Floats]:
    """p(state, remaining steps) one step on, and that the sequence ends there: (n, …) and (n,)."""
    A, stop = leaving(params)
    held, down = alpha[:, :, -1:] * model.hold[0][:, None], alpha.copy()
    down[:, :, -1] *= model.hold[1]
    entering = (alpha[:, :, 0] @ A)[:, :, None] * params.duration
    return np.concatenate([down[:, :, 1:], held], axis=2) + entering, alpha[:, :, 0] @ stop


def next_states(
    params: Params, alpha: Floats, horizons: Sequence[int], initial: Floats | None = None
) -> Floats:
    """p(state) some steps ahead, (n, n_horizons, n_states + 1): last, that the sequence has ended.

    Horizons are sorted; each continues from the one before.
    """
    model, shape = tables(params, initial), params.duration.shape

    def step(rows: Floats) -> Floats:  # alpha and, last, that the sequence has ended
        alpha, ended = step_unseen(params, model, rows[:, :-1].reshape(-1, *shape))
        return np.column_stack([alpha.reshape(len(alpha), -1), rows[:, -1] + ended])

    rows = step(np.hstack([alpha.reshape(len(alpha), -1), np.zeros((len(alpha), 1))]))
    rows[~alpha.any(axis=(1, 2))] = np.append(model.init, params.empty)
    found = []
    for n in np.diff(horizons, prepend=1).tolist():
        rows = distribution_after(step, rows, n)
        found.append(np.column_stack([rows[:, :-1].reshape(-1, *shape).sum(axis=2), rows[:, -1]]))
    return np.stack(found, axis=1)
