"""Operators over windows from moments; rank and ε by the likelihood of what was held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.contexts.pieces import Pieces
from sojourn.contexts.trees import lay_out, outcomes, steps_of
from sojourn.errors import SojournError
from sojourn.spectral.filter import run_filter, window_filter
from sojourn.spectral.moment_tables import Adjacent, Table, shape_of
from sojourn.spectral.moments import Moments
from sojourn.spectral.operators import Operators, Spectrum, learn_adjacent
from sojourn.spectral.paper import PaperSpectrum, algorithm_1, algorithm_2

# Held-out data rarely separate ranks that differ by less than a third.
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# A rank search stops after this many ranks in a row that did not improve on the best.
PATIENCE = 2
# ε times the number of symbols. The search for the rank is done with the first one.
EPSILONS = (1e-3, 1e-2, 1e-4, 1e-6)


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


def learn_windows(
    moments: Moments, rank: int | None, max_rank: int, n_states: int, seed: int = 0
) -> tuple[Operators, Choice]:
    """Operators from moments, with what is not given chosen by held-out likelihood.

    What was held out is counted again for the operators themselves.
    """
    choice = choose(moments, rank, max_rank, n_states, seed)
    table = moments.with_heldout(choice.table)
    return decompose(table, choice.rank, n_states, seed).cut(choice.rank), choice


def choose(
    moments: Moments, rank: int | None, max_rank: int, n_states: int, seed: int = 0
) -> Choice:
    """Choose rank and ε; see `learn_windows`."""
    table = moments.tables[0]
    offsets, n_o = table.offsets, shape_of(table).n_symbols
    epsilons = [e / n_o for e in EPSILONS]
    if not _counts(table).any() or moments.heldout.n_total == 0:
        if not _counts(moments.with_heldout(0)).any():
            raise _too_short(moments)
        # Nothing to compare by: a rank of n_states.
        return Choice(0, rank or min(n_states, max_rank), epsilons[0], ())
    trials: list[Trial] = []

    def score(operators: Operators, epsilon: float) -> float:
        found = heldout_score(operators, epsilon, moments.heldout)
        trials.append(Trial(offsets, operators.rank, epsilon, found))
        return found

    spectrum = decompose(table, rank or min(max_rank, RANKS[-1]), n_states, seed)
    best, since = -np.inf, 0
    for k in [rank] if rank else [r for r in RANKS if r < spectrum.max_rank] + [spectrum.max_rank]:
        found = score(spectrum.cut(k), epsilons[0])
        best, since = (found, 0) if found > best else (best, since + 1)
        # Below one direction per state, each may gain nothing without the next.
        if since >= PATIENCE and k >= n_states:
            break
    operators = spectrum.cut(max(trials, key=lambda trial: trial.score).rank)
    for epsilon in epsilons[1:]:
        score(operators, epsilon)
    chosen = max(trials, key=lambda trial: trial.score)
    return Choice(0, chosen.rank, chosen.epsilon, tuple(trials))


def decompose(
    table: Table, max_rank: int, n_states: int, seed: int = 0
) -> Spectrum | PaperSpectrum:
    """Operators of a table of moments, up to a rank, by the algorithm that it was counted for."""
    if isinstance(table, Adjacent):
        return learn_adjacent(table, max_rank, seed)
    algorithm = algorithm_1 if len(table.M_LoR) > 1 else algorithm_2
    return algorithm(table, max_rank, n_states, seed)


def heldout_score(operators: Operators, epsilon: float, pieces: Pieces) -> float:
    """Log-likelihood per symbol; pieces that start in mid-sequence start from the average state."""
    filter = window_filter(operators, epsilon)
    flat = lay_out(pieces, filter.n_o)
    prob = run_filter(filter, flat, steps_of(flat, pieces.fresh, filter.n_t), pieces.fresh)[0]
    seen = outcomes(flat, filter.n_o)
    return float(np.log(prob[seen]).sum()) / max(len(seen), 1)


def _counts(table: Table) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return table.H if isinstance(table, Adjacent) else table.M_LR


def _too_short(moments: Moments) -> SojournError:
    return SojournError(
        f"no sequence is long enough: the longest of {moments.n_sequences} has "
        f"{moments.longest} symbols (an array's n_features = {moments.longest}), and "
        f"windows {moments.tables[0].offsets} need {moments.needs}, none of them "
        f"missing; give longer sequences or a smaller max_duration or window, or lengths= "
        f"where the rows of X are sequences end to end"
    )
