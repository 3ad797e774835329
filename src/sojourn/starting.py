"""From sequences to a fitted model: a race of starts on a few of them, then EM on ever more.

Which hill EM climbs is decided by its start; most of its steps are spent far from the top. Neither
needs all the data. So several starts take a few steps each on a small sample, the better half goes
on, and so forth; the winner climbs on samples that grow fourfold, and only the last steps, which
settle what the small samples left open, go over everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sojourn.em import EMResult, run_em
from sojourn.errors import SojournError
from sojourn.moments import Gapped, Shape, count
from sojourn.parallel import each
from sojourn.params import Params, Rng, allows_self_transitions
from sojourn.recovery import around_emission, recover_emission
from sojourn.sequences import Sequences

Codes = NDArray[np.int32]

# Symbols of the smallest sample for each free parameter, and at least.
SYMBOLS_PER_PARAMETER = 256
SMALLEST = 1 << 14
GROWTH = 4
# Longer sequences are cut, for samples only; a cut spoils one stay, so pieces hold many.
STAYS_PER_PIECE = 32
# Passes over the small sample that each start gets in the first round; twice as many in the next.
FIRST_ROUND = 10
N_RANDOM = 2
# A sample settles a parameter to about half a nat. A climb on one stops when a step gains less
# than this share of a nat for each parameter.
ENOUGH = 0.002

MAX_WINDOWS = 256
MAX_ENTRIES = 1 << 21


@dataclass(frozen=True)
class _Climb:
    """How EM runs on a sample: everything but the start, the data and the tolerance."""

    max_iter: int
    pseudocount: float
    durations: str | Sequence[str]
    left_censored: bool

    def __call__(
        self, start: Params, sample: Sequences, passes: int, tol: float, n_jobs: int | None
    ) -> EMResult:
        return run_em(
            start,
            sample,
            max_iter=max(1, min(passes, self.max_iter)),
            tol=tol,
            pseudocount=self.pseudocount,
            durations=self.durations,
            left_censored=self.left_censored,
            n_jobs=n_jobs,
        )


def fit_params(
    sequences: Sequences,
    n_states: int,
    max_duration: int,
    n_symbols: int,
    *,
    init: str | Params = "spectral",
    rng: Rng = None,
    max_iter: int = 500,
    tol: float = 1e-8,
    pseudocount: float = 0.0,
    durations: str | Sequence[str] = "free",
    left_censored: bool = False,
    self_transitions: bool | None = None,
    labels: Codes | None = None,
    n_jobs: int | None = None,
    callback: Callable[[int, float, Params], object] | None = None,
) -> EMResult:
    generator = np.random.default_rng(rng)
    climb = _Climb(max_iter, max(pseudocount, SAMPLE_PSEUDO), durations, left_censored)
    spent = 0.0
    if isinstance(init, Params):
        start = init
    elif labels is not None:
        raise NotImplementedError
    else:
        loops = allows_self_transitions(n_states, max_duration, self_transitions)
        random = partial(
            Params.random, n_states, max_duration, n_symbols, generator, self_transitions=loops
        )
        starts = [random() for _ in range(N_RANDOM if init == "spectral" else 8)]
        if init == "spectral":
            starts += spectral_starts(
                sequences, n_states, max_duration, n_symbols, generator, loops, n_jobs
            )
        n_free = n_states * (n_states + max_duration + n_symbols - 1)
        samples = _samples(sequences, max_duration, n_free, generator)
        start, spent = _race(starts, samples[0], climb, tol, n_jobs)
        for sample in samples[1:]:
            result = climb(start, sample, STAGE, tol, n_jobs)
            if LOG is not None: LOG.append((sample.n_total, result.n_passes, result.converged))
            start, spent = result.params, spent + result.n_passes * sample.n_total
    result = run_em(
        start, sequences, max_iter=max_iter, tol=tol, pseudocount=pseudocount, durations=durations,
        left_censored=left_censored, labels=labels, n_jobs=n_jobs, callback=callback,
    )  # fmt: skip
    if LOG is not None: LOG.append((sequences.n_total, result.n_passes, result.converged))
    return replace(result, n_passes=result.n_passes + spent / sequences.n_total)


LOG = None
ROUNDS = ((20, 3), (60, 1))
STAGE = 60
SAMPLE_PSEUDO = 1.0


def _race(starts, sample, climb, tol, n_jobs):
    spent = 0.0
    field = starts
    for passes, keep in ROUNDS:
        run = lambda start: climb(start, sample, passes, tol, 1)
        results = each(run, field, n_jobs)
        spent += sum(r.n_passes for r in results) * sample.n_total
        order = sorted(range(len(results)), key=lambda i: -results[i].history[-1])
        if LOG is not None:
            LOG.append((sample.n_total, passes, [round((results[i].history[-1])/sample.n_total*1e6) - round(results[order[0]].history[-1]/sample.n_total*1e6) for i in range(len(results))], [r.n_passes for r in results]))
        field = [results[i].params for i in order[: keep]]
    return field[0], spent


def spectral_starts(sequences, n_states, max_duration, n_symbols, rng, loops, n_jobs):
    starts = []
    for ell in (1, 2, 3):
        shape = Shape(tuple(range(ell)), n_symbols, True)
        if shape.n_windows > MAX_WINDOWS or shape.n_entries > MAX_ENTRIES or sequences.lengths.max() < shape.needs:
            continue
        table = count(sequences, [shape.offsets], gapped=True, holdout=False, n_jobs=n_jobs).tables[0]
        assert isinstance(table, Gapped)
        M_LoR = table.M_LoR[0]
        if M_LoR.sum() == 0: continue
        for k in RANKS[ell](n_states):
            if k <= shape.n_windows and k <= ell * n_states:
                E = recover_emission(M_LoR, n_states, k, rng)
                starts.append(flat(E, M_LoR.sum((0, 2)), max_duration, loops))
                if JAY: starts.append(around_emission(E, table.M_oo[0], max_duration, rng, loops))
    return starts
RANKS = {1: lambda n: (n,), 2: lambda n: (n, n + 1, 2 * n), 3: lambda n: (n + 1, 2 * n)}
JAY = False

def flat(E, marg, nd, loops):
    nx = len(E)
    E = 0.9 * E + 0.1 * marg / marg.sum()
    T = np.ones((nx, nx))
    if not loops: T -= np.eye(nx)
    return Params(np.full(nx, 1 / nx), T / T.sum(1, keepdims=True), np.full((nx, nd), 1 / nd), E)


def _samples(sequences, max_duration, n_free, rng):
    target = max(SMALLEST, SYMBOLS_PER_PARAMETER * n_free)
    order = rng.permutation(len(sequences))
    ends = np.cumsum(sequences.lengths[order])
    out = []
    while target * 1.5 < sequences.n_total:
        n = int(np.searchsorted(ends, target)) + 1
        out.append(sequences[np.sort(order[:n])])
        target *= GROWTH
    return out or [sequences]
