"""From counts of contexts to a model: tree size, rank and mixture by held-out likelihood.

The model is a mixture: a filter over contexts (spectral) beside a context tree. How fine contexts
are and how many directions are kept trades bias for variance. Pieces of data that were not counted
decide: from coarse trees to fine ones, from one rank to its neighbours, stopping early.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.contexts.counts import (
    ContextCounts,
    Trees,
    count_contexts,
    grow_trees,
)
from benchmarks.contexts.filter import ContextFilter, make_filter, run_filter
from benchmarks.contexts.followers import Followers, learn_followers
from benchmarks.contexts.operators import ContextOperators, learn_operators
from benchmarks.contexts.pieces import Pieces
from benchmarks.contexts.trees import Codes, Flat, lay_out, locate, positions
from sojourn.errors import SojournError
from sojourn.scale.threads import each

Floats = NDArray[np.float64]

# Symbols that trees are grown from and sizes compared on; more are only counted.
SAMPLE = 1 << 19
# Positions that a node of the finest tree needs, and a child of it among the futures.
FINEST, FINEST_CHILD = 10, 8
# Positions that a context needs to be split: the sizes compared, from coarse to fine.
SIZES = (10_000, 4_000, 1_500, 700, 300, 150, 70, 30)
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
FIRST_RANKS = (4, 16, 48)  # where a search begins that knows nothing better
MOST_CONTEXTS = 4_000
# Nats per outcome: a tree that is worse by this than a coarser one ends the search.
WORSE = 0.003
# Outcomes that sizes are compared on.
JUDGED = 1 << 15
# A mixture that gains less than this over its better half is that half.
WORTH_MIXING = 1e-4


@dataclass(frozen=True)
class ContextTrial:
    """One size that was compared: positions per split, contexts, rank, weight, held-out score."""

    split_at: float
    n_pasts: int
    n_futures: int
    rank: int
    weight: float
    score: float


@dataclass(frozen=True)
class ContextChoice:
    """What was chosen by held-out likelihood, and all that was compared.

    Parameters
    ----------
    split_at : float
        Positions of the sample that a context needs to be split; 0 where trees were given.
    rank : int
    weight : float
        Of the filter in the mixture; the rest is the context tree's.
    score : float or None
        Held-out log-likelihood per outcome, in nats; None where nothing was held out.
    trials : tuple of ContextTrial
    """

    split_at: float
    rank: int
    weight: float
    score: float | None
    trials: tuple[ContextTrial, ...] = ()


@dataclass(frozen=True, eq=False)
class ContextModel:
    """What scores sequences: trees, operators, the context tree beside them and its weight.

    Parameters
    ----------
    trees : Trees
    operators : ContextOperators
    followers : Followers
    weight : float
        Of the operators' predictions in the mixture.
    ends : bool
        Whether the end of a sequence is predicted.
    """

    trees: Trees
    operators: ContextOperators
    followers: Followers
    weight: float
    ends: bool

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight <= 1.0:
            raise SojournError(f"the weight of a mixture lies between 0 and 1, not {self.weight!r}")
        alike = (
            self.operators.n_symbols == self.followers.n_symbols == self.trees.n_symbols
            and len(self.operators.restart) == self.trees.n_pasts
            and len(self.followers.parent) == self.trees.pasts.n_nodes
        )
        if not alike:
            raise SojournError("trees, operators and context tree are not of one model")

    @cached_property
    def filter(self) -> ContextFilter:
        """The operators laid out for scoring."""
        return make_filter(self.operators, self.ends)


@dataclass(frozen=True, eq=False)
class _Heldout:
    """Held-out pieces laid out, and what the context tree gives them."""

    flat: Flat
    fresh: NDArray[np.bool_]
    nodes: Codes
    at: NDArray[np.int64]  # the outcomes that are scored
    beside: Floats  # p of each under the context tree
    ends: bool

    def judge(self, operators: ContextOperators, contexts: Codes) -> tuple[float, float]:
        """The best weight of the operators beside the context tree, and the score it gives."""
        filter = make_filter(operators, self.ends)
        prob = run_filter(filter, self.flat, contexts[self.nodes], self.fresh)[0][self.at]
        return mixed(prob, self.beside)


def mixed(p: Floats, beside: Floats) -> tuple[float, float]:
    """The weight of `p` in the best mixture with `beside`, and the mean log of that mixture."""
    lo, hi = 0.0, 1.0
    for _ in range(20):  # the slope falls with the weight
        a = (lo + hi) / 2
        slope = ((p - beside) / (a * p + (1 - a) * beside)).mean()
        lo, hi = (a, hi) if slope > 0 else (lo, a)
    a = (lo + hi) / 2
    score = np.log(a * p + (1 - a) * beside).mean()
    alone, tree = np.log(p).mean(), np.log(beside).mean()
    if score < max(alone, tree) + WORTH_MIXING:
        return (1.0, float(alone)) if alone >= tree else (0.0, float(tree))
    return float(a), float(score)


def _held_out(
    pieces: Pieces, counts: ContextCounts, ends: bool
) -> tuple[_Heldout | None, Followers, Floats]:
    tree = counts.trees.pasts
    flat = lay_out(pieces, tree.n_symbols)
    at = positions(flat)
    at = at[flat.codes[at] < tree.n_symbols + ends]
    followers, trust = learn_followers(tree, counts.follows, flat if at.size else None, ends)
    if not at.size:
        return None, followers, trust
    nodes = locate(tree, flat)
    beside = followers.prob(nodes[at], flat.codes[at], ends)
    return _Heldout(flat, pieces.fresh, nodes, at, beside, ends), followers, trust


@dataclass
class _Search:
    """The best of the trials so far."""

    heldout: _Heldout
    trials: list[ContextTrial] = field(default_factory=list)

    @property
    def best(self) -> ContextTrial:
        return max(self.trials, key=lambda trial: trial.score)

    def walk(
        self, counts: ContextCounts, split_at: float, max_rank: int, near: int | None, seed: int
    ) -> list[ContextTrial]:
        """Trials of one tree: from a rank, or a few, to the best among its neighbours."""
        trees = counts.trees
        grid = sorted({*(r for r in RANKS if r < max_rank), max_rank})
        first = [r for r in FIRST_RANKS if r <= max_rank] if near is None else [near]
        waiting = sorted({int(np.searchsorted(grid, r)) for r in first or [max_rank]})
        found: dict[int, ContextTrial] = {}
        top = grid[min(waiting[-1] + 1, len(grid) - 1)]
        operators = learn_operators(counts, top, seed)
        while waiting:
            for i in waiting:
                if grid[i] > operators.rank == top:
                    top = min(2 * top, max_rank)
                    operators = learn_operators(counts, top, seed)
                model = operators.cut(grid[i])
                weight, score = self.heldout.judge(model, trees.past_context)
                sizes = (trees.n_pasts, trees.n_futures, model.rank)
                found[i] = ContextTrial(split_at, *sizes, weight, score)
                if grid[i] >= operators.rank < top:
                    grid = grid[: i + 1]  # the counts have no more directions
                    break
            best = max(found, key=lambda i: found[i].score)
            waiting = [i for i in (best - 1, best + 1) if 0 <= i < len(grid) and i not in found]
        return [found[i] for i in sorted(found)]


def choose_trees(
    training: Pieces,
    heldout: Pieces,
    n_symbols: int,
    ends: bool,
    max_rank: int,
    *,
    by_runs: bool = True,
    n_jobs: int | None = None,
    seed: int = 0,
) -> tuple[Trees, float, tuple[ContextTrial, ...]]:
    """Trees of the size that does best on held-out pieces, grown from all pieces.

    Returns
    -------
    trees : Trees
    split_at : float
        Positions that a context needs to be split.
    trials : tuple of ContextTrial
        What was compared.
    """
    fine = grow_trees(training, n_symbols, FINEST, FINEST_CHILD, by_runs)
    counts = count_contexts(training, fine, n_jobs)
    n = int(counts.pairs.counts.sum())
    sizes = [size for size in SIZES if size <= n / 25] or [max(2, n // 25)]
    judged = heldout.take(np.flatnonzero(np.cumsum(heldout.ends - heldout.begins) <= JUDGED))
    held, _, _ = _held_out(judged if len(judged) else heldout, counts, ends)
    search = _Search(held) if held is not None else None
    chosen: float = sizes[0]

    if search is not None:
        for first in range(0, len(sizes), 2):  # two at a time, by threads
            near = search.best.rank if search.trials else None

            def compare(size: float, near: int | None = near) -> list[ContextTrial]:
                cut = fine.cut(size)
                if near is not None and cut.n_pasts > MOST_CONTEXTS:
                    return []
                return search.walk(counts.grouped(cut), size, max_rank, near, seed)

            found = each(compare, sizes[first : first + 2], n_jobs)
            stop = False
            for trials in found:
                if stop or not trials:
                    stop = True
                    break
                search.trials.extend(trials)
                stop = max(t.score for t in trials) < search.best.score - WORSE
            if stop:
                break
        chosen = search.best.split_at
    everything = training + heldout if len(heldout) else training
    grown = grow_trees(everything, n_symbols, FINEST, FINEST_CHILD, by_runs)
    share = everything.n_total / max(training.n_total, 1)
    return grown.cut(chosen * share), chosen, tuple(search.trials if search is not None else ())


def learn(
    counts: ContextCounts,
    heldout: Pieces,
    ends: bool,
    max_rank: int,
    *,
    split_at: float = 0.0,
    trials: tuple[ContextTrial, ...] = (),
    n_jobs: int | None = None,
    seed: int = 0,
) -> tuple[ContextModel, ContextChoice]:
    """The model of counts over given trees: rank and mixture chosen on what was held out."""
    trees = counts.trees
    held, _, trust = _held_out(heldout, counts, ends)
    weight, rank, score = 0.5, min(max_rank, 4), None
    if held is not None:
        search = _Search(held)
        near = max(trials, key=lambda trial: trial.score).rank if trials else None
        search.trials = search.walk(counts, split_at, max_rank, near, seed)
        best = search.best
        weight, rank, score = best.weight, best.rank, best.score
        trials = (*trials, *search.trials)
    everything = counts + count_contexts(heldout, trees, n_jobs)
    operators = learn_operators(everything, rank, seed)
    followers, _ = learn_followers(trees.pasts, everything.follows, None, ends, trust)
    model = ContextModel(trees, operators, followers, weight, ends)
    return model, ContextChoice(split_at, operators.rank, weight, score, trials)
