"""Which window, which rank and which ε: by the likelihood of what was held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.errors import SojournError
from sojourn.spectral.count_dense import Table
from sojourn.spectral.count_sparse import Sparse
from sojourn.spectral.filter import Filter, make_filter, run_filter
from sojourn.spectral.holdout import Pieces
from sojourn.spectral.lowrank_filter import SharedFilter
from sojourn.spectral.lowrank_operators import (
    SHARED_FROM,
    SharedOperators,
    SharedSpectrum,
    decompose_sparse,
)
from sojourn.spectral.moment_tables import Adjacent, shape_of
from sojourn.spectral.moments import Moments
from sojourn.spectral.operators import Operators, PaperSpectrum, Spectrum, decompose

# Ranks that differ by less than a third are rarely told apart by what is held out.
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
    """One candidate and its log-likelihood a symbol on the held-out pieces, in nats."""

    offsets: tuple[int, ...]
    rank: int
    epsilon: float
    score: float


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidate that was chosen, and all that were tried.

    Parameters
    ----------
    table : int
        Which of the tables of moments, and so which window.
    rank : int
    epsilon : float
    trials : tuple of Trial
        Empty where nothing was held out and there was no comparison.
    """

    table: int
    rank: int
    epsilon: float
    trials: tuple[Trial, ...]


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

    Parameters
    ----------
    moments : Moments
        Over one or several windows.
    rank : int or None
        A rank, or None to choose one.
    max_rank : int
        Largest rank of the model, n_x · n_d.
    n_states : int
        Number of states; the rank where there is nothing to choose by.
    n_jobs : int or None
    seed : int
        Of the random projections that large tables are decomposed with.

    Returns
    -------
    operators : Operators
    choice : Choice

    Examples
    --------
    >>> from sojourn.spectral.moments import count
    >>> from sojourn.exact.params import Params
    >>> seqs = Params.random(2, 2, 3, rng=0).sample(2000, 50, rng=1)
    >>> operators, choice = learn(count(seqs, [(0,), (0, 1)]), None, 4, 2)
    >>> choice.table, operators.rank
    (1, 4)
    """
    choice = choose(moments, rank, max_rank, n_states, n_jobs, seed)
    spectrum = _spectrum(moments.whole(choice.table), choice.rank, n_states, seed)
    return spectrum.cut(choice.rank), choice


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
    heldout = _few(moments.heldout, MAX_SCORED // n_o)
    counted = [i for i, table in enumerate(moments.tables) if _counted(table)]
    if not counted or moments.heldout.n_total == 0:
        # Nothing to compare, or to compare by: the first window that occurs, one direction a state.
        tables = range(len(moments.tables))
        usable = counted or [i for i in tables if _counted(moments.whole(i))]
        if not usable:
            raise SojournError(
                f"no sequence is long enough: the longest of {moments.n_sequences} has "
                f"{moments.longest} symbols (an array's n_features = {moments.longest}), and "
                f"windows {[t.offsets for t in moments.tables]} need {moments.needs}, none of them "
                f"missing; give longer sequences or a smaller max_duration or window, or lengths= "
                f"where the rows of X are sequences end to end"
            )
        return Choice(usable[0], rank or min(n_states, max_rank), _epsilons(n_o)[0] / n_o, ())
    trials: list[tuple[Trial, int, Learned]] = []
    for i in counted:
        table = moments.tables[i]
        spectrum = _spectrum(table, rank or min(max_rank, RANKS[-1]), n_states, seed)
        found = _search(spectrum, table, rank, n_states, heldout, n_jobs)
        trials += [(trial, i, operators) for trial, operators in found]
    best_trial, i, operators = max(trials, key=lambda found: found[0].score)
    refined = [best_trial]
    for scaled in _epsilons(n_o)[1:]:
        score = heldout_score(make_filter(operators, scaled / n_o), heldout, n_jobs)
        refined.append(Trial(best_trial.offsets, best_trial.rank, scaled / n_o, score))
    chosen = max(refined, key=lambda trial: trial.score)
    tried = tuple(trial for trial, _, _ in trials) + tuple(refined[1:])
    return Choice(i, chosen.rank, chosen.epsilon, tried)


def heldout_score(model: Filter | SharedFilter, pieces: Pieces, n_jobs: int | None = None) -> float:
    """Log-likelihood a symbol of the pieces; those that start in mid-sequence from the average."""
    args = (pieces.codes, pieces.begins, pieces.ends, pieces.fresh)
    surprise, _ = run_filter(model, *args, n_jobs)
    return -float(surprise.sum()) / max(int((pieces.codes >= 0).sum()), 1)


def _search(
    spectrum: Spectrum | PaperSpectrum | SharedSpectrum,
    table: Table,
    rank: int | None,
    n_states: int,
    pieces: Pieces,
    n_jobs: int | None,
) -> list[tuple[Trial, Learned]]:
    """Trials of one window at growing ranks, until they stop to improve.

    Below a direction a state they need not: each may gain nothing without the next.
    """
    n_o = shape_of(table).n_symbols
    epsilon = _epsilons(n_o)[0] / n_o
    ranks = [r for r in RANKS if r < spectrum.max_rank] + [spectrum.max_rank]
    found: list[tuple[Trial, Learned]] = []
    best, since = -np.inf, 0
    for k in [rank] if rank else ranks:
        operators = spectrum.cut(k)
        score = heldout_score(make_filter(operators, epsilon), pieces, n_jobs)
        found.append((Trial(table.offsets, operators.rank, epsilon, score), operators))
        best, since = (score, 0) if score > best else (best, since + 1)
        if since >= PATIENCE and k >= n_states:
            break
    return found


def _spectrum(
    table: Table, max_rank: int, n_states: int, seed: int
) -> Spectrum | PaperSpectrum | SharedSpectrum:
    if isinstance(table, Sparse):
        return decompose_sparse(table, max_rank, n_states, seed)
    return decompose(table, max_rank, n_states, seed)


def _epsilons(n_symbols: int) -> tuple[float, ...]:
    return SHARED_EPSILONS if n_symbols >= SHARED_FROM else EPSILONS


def _few(pieces: Pieces, n: int) -> Pieces:
    """The first of the pieces that hold at most n symbols, and at least one."""
    fits = int(np.searchsorted(np.cumsum(pieces.ends - pieces.begins), n, side="right"))
    return pieces.take(np.arange(max(fits, 1))).compact() if fits < len(pieces) else pieces


def _counted(table: Table) -> bool:
    if isinstance(table, Sparse):
        return len(table.counts) > 0
    return bool((table.H if isinstance(table, Adjacent) else table.M_LR).any())
