"""Operators from moments; window, rank and ε by the likelihood of what was held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.errors import SojournError
from sojourn.spectral.count_dense import Table
from sojourn.spectral.count_sparse import Sparse
from sojourn.spectral.filter import AnyFilter, make_filter, run_filter
from sojourn.spectral.holdout import Pieces
from sojourn.spectral.lowrank_operators import (
    SHARED_FROM,
    SharedOperators,
    SharedSpectrum,
    decompose_sparse,
)
from sojourn.spectral.moment_tables import Adjacent, shape_of
from sojourn.spectral.moments import Moments
from sojourn.spectral.operators import Operators, Spectrum, learn_adjacent
from sojourn.spectral.paper import PaperSpectrum, algorithm_1, algorithm_2

# Held-out data rarely separate ranks that differ by less than a third.
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# A rank search stops after this many ranks in a row that did not improve on the best.
PATIENCE = 2
# ε times the number of symbols. The search for rank and window is done with the first one.
EPSILONS = (1e-3, 1e-2, 1e-4, 1e-6)
# The same where the least probability is a share of each symbol's frequency, which costs little.
SHARED_EPSILONS = (1e-2, 1e-1, 1e-3, 3e-1)
# Symbols times held-out symbols that a candidate is scored on.
MAX_SCORED = 1 << 29

Learned = Operators | SharedOperators


@dataclass(frozen=True)
class Trial:
    """One candidate, and its log-likelihood per symbol on the held-out pieces, in nats."""

    offsets: tuple[int, ...]
    rank: int
    epsilon: float
    score: float


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidate that was chosen, and all that were tried."""

    table: int  # which of the tables of moments, and so which window
    rank: int
    epsilon: float
    trials: tuple[Trial, ...]  # empty where nothing was held out to compare by


def learn(
    moments: Moments,
    rank: int | None,
    max_rank: int,
    n_states: int,
    n_jobs: int | None = None,
    seed: int = 0,
) -> tuple[Learned, Choice]:
    """Operators from moments, with what is not given chosen by held-out likelihood.

    What was held out is counted again for the operators themselves.
    """
    choice = choose(moments, rank, max_rank, n_states, n_jobs, seed)
    table = moments.with_heldout(choice.table)
    return decompose(table, choice.rank, n_states, seed).cut(choice.rank), choice


def choose(
    moments: Moments,
    rank: int | None,
    max_rank: int,
    n_states: int,
    n_jobs: int | None = None,
    seed: int = 0,
) -> Choice:
    """Choose window, rank and ε; see `learn`."""
    n_o = shape_of(moments.tables[0]).n_symbols
    epsilons = [e / n_o for e in (SHARED_EPSILONS if n_o >= SHARED_FROM else EPSILONS)]
    counted = [i for i, table in enumerate(moments.tables) if _counted(table)]
    if not counted or moments.heldout.n_total == 0:
        # Nothing to compare, or to compare by: the first window that occurs, a rank of n_states.
        return Choice(_first_usable(moments), rank or min(n_states, max_rank), epsilons[0], ())
    heldout = _few(moments.heldout, MAX_SCORED // n_o)
    trials: list[tuple[Trial, int, Learned]] = []
    for i in counted:
        offsets, best, since = moments.tables[i].offsets, -np.inf, 0
        spectrum = decompose(moments.tables[i], rank or min(max_rank, RANKS[-1]), n_states, seed)
        ranks = [r for r in RANKS if r < spectrum.max_rank] + [spectrum.max_rank]
        for k in [rank] if rank else ranks:
            operators = spectrum.cut(k)
            score = heldout_score(make_filter(operators, epsilons[0]), heldout, n_jobs)
            trials.append((Trial(offsets, operators.rank, epsilons[0], score), i, operators))
            best, since = (score, 0) if score > best else (best, since + 1)
            # Below one direction per state, each may gain nothing without the next.
            if since >= PATIENCE and k >= n_states:
                break
    best_trial, i, operators = max(trials, key=lambda found: found[0].score)
    refined = [best_trial]
    for epsilon in epsilons[1:]:
        score = heldout_score(make_filter(operators, epsilon), heldout, n_jobs)
        refined.append(Trial(best_trial.offsets, best_trial.rank, epsilon, score))
    chosen = max(refined, key=lambda trial: trial.score)
    tried = tuple(trial for trial, _, _ in trials) + tuple(refined[1:])
    return Choice(i, chosen.rank, chosen.epsilon, tried)


def decompose(
    table: Table, max_rank: int, n_states: int, seed: int = 0
) -> Spectrum | PaperSpectrum | SharedSpectrum:
    """Operators of a table of moments, up to a rank, by the algorithm that it was counted for."""
    if isinstance(table, Sparse):
        return decompose_sparse(table, max_rank, n_states, seed)
    if isinstance(table, Adjacent):
        return learn_adjacent(table, max_rank, seed)
    algorithm = algorithm_1 if len(table.M_LoR) > 1 else algorithm_2
    return algorithm(table, max_rank, n_states, seed)


def heldout_score(model: AnyFilter, pieces: Pieces, n_jobs: int | None = None) -> float:
    """Log-likelihood per symbol; pieces that start in mid-sequence start from the average state."""
    surprise, _ = run_filter(model, *pieces.spans, n_jobs)
    return -float(surprise.sum()) / max(int((pieces.codes >= 0).sum()), 1)


def _first_usable(moments: Moments) -> int:
    """The first table in which anything was counted, the held-out pieces included."""
    for i in range(len(moments.tables)):
        if _counted(moments.tables[i]) or _counted(moments.with_heldout(i)):
            return i
    raise SojournError(
        f"no sequence is long enough: the longest of {moments.n_sequences} has "
        f"{moments.longest} symbols (an array's n_features = {moments.longest}), and "
        f"windows {[t.offsets for t in moments.tables]} need {moments.needs}, none of them "
        f"missing; give longer sequences or a smaller max_duration or window, or lengths= "
        f"where the rows of X are sequences end to end"
    )


def _few(pieces: Pieces, n: int) -> Pieces:
    """The first of the pieces that hold at most n symbols, and at least one."""
    fits = int(np.searchsorted(np.cumsum(pieces.ends - pieces.begins), n, side="right"))
    return pieces.take(np.arange(max(fits, 1))).compact() if fits < len(pieces) else pieces


def _counted(table: Table) -> bool:
    if isinstance(table, Sparse):
        return len(table.counts) > 0
    return bool((table.H if isinstance(table, Adjacent) else table.M_LR).any())
