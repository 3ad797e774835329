"""From counts of contexts to a model: tree size, rank and mixture by held-out likelihood.

The model is a mixture: a filter over contexts (spectral) beside a context tree. How fine contexts
are and how many directions are kept trades bias for variance. Pieces of data that were not counted
decide: from coarse trees to fine ones, from one rank to its neighbours, stopping early.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sojourn.contexts.counts import (
    ContextCounts,
    ContextMoments,
    Trees,
    count_contexts,
    grow_trees,
)
from sojourn.contexts.followers import learn_followers
from sojourn.contexts.pieces import Pieces
from sojourn.contexts.sample import Sample
from sojourn.contexts.tables import MAX_CELLS
from sojourn.contexts.trees import Codes, Flat, lay_out, locate, positions
from sojourn.scale.threads import each
from sojourn.spectral.context_operators import (
    RIDGE,
    SHARED_FROM,
    ContextOperators,
    learn_operators,
)
from sojourn.spectral.filter import context_filter, run_filter
from sojourn.spectral.models import ContextModel

Floats = NDArray[np.float64]

# Positions that a context needs to be split at the least, and a child of it among the futures.
FINEST, FINEST_CHILD = 10, 8
# Positions that a past of the context tree needs to be split: one in so many of all, within these.
PART, FEWEST = 50_000, 4
# Positions that a context needs to be split: the sizes compared, from coarse to fine, the first
# being at most this part of all.
SIZES = (160_000, 60_000, 25_000, 10_000, 4_000, 1_500, 700, 300, 150, 70, 30)
COARSEST = 4
# Sizes compared again on all that was counted, and how near the best these are, in nats.
CONTENDERS, NEAR = 4, 0.001
OTHER_RIDGES = (0.0, 0.5)  # tried for the best size and rank
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
FIRST_RANKS = (4, 16, 48)  # where a search begins
HOPELESS = 0.01  # nats per outcome by which a rank is worse than the best for the same tree
# The largest rank; a step with operators that symbols share takes the cube of it.
MAX_RANK, MAX_SHARED_RANK = RANKS[-1], 64
MOST_CONTEXTS = 4_000
# Nats per outcome: a tree that is worse by this than a coarser one ends the search.
WORSE = 0.003
# Outcomes that sizes are compared on.
JUDGED = 1 << 15
# Outcomes times symbols, which is what judging a size costs.
MAX_JUDGED = 1 << 27
# A mixture that gains less than this over its better half is that half.
WORTH_MIXING = 1e-4
TIE = 1e-4  # nats per outcome that do not tell two ranks apart


@dataclass(frozen=True)
class ContextTrial:
    """One candidate: positions per split, contexts, rank, ridge, and how it scored held out."""

    split_at: float
    n_pasts: int
    n_futures: int
    rank: int
    ridge: float
    weight: float
    score: float
    alone: float  # the score of the operators without the context tree
    n_judged: int  # outcomes that it was judged by


@dataclass(frozen=True)
class ContextChoice:
    """What was chosen by held-out likelihood, and all that was compared.

    Parameters
    ----------
    split_at : float
        Positions of the sample that a context needs to be split; 0 where trees were given.
    rank : int
    ridge : float
    weight : float
        Of the filter in the mixture; the rest is the context tree's.
    score : float or None
        Held-out log-likelihood per outcome, in nats; None where nothing was held out.
    sizes : tuple of float
        The values of `split_at` that were still compared after all was counted.
    trials : tuple of ContextTrial
    """

    split_at: float
    rank: int
    ridge: float
    weight: float
    score: float | None
    sizes: tuple[float, ...]
    trials: tuple[ContextTrial, ...] = ()


@dataclass(frozen=True, eq=False)
class _Heldout:
    """Held-out pieces laid out, and what the context tree gives them."""

    flat: Flat
    fresh: NDArray[np.bool_]
    nodes: Codes
    at: NDArray[np.int64]  # the outcomes that are scored
    beside: Floats  # p of each under the context tree
    ends: bool

    def judge(self, operators: ContextOperators, contexts: Codes) -> tuple[float, float, float]:
        """The best weight of the operators beside the context tree, its score, and theirs alone."""
        filter = context_filter(operators, self.ends)
        prob = run_filter(filter, self.flat, contexts[self.nodes], self.fresh)[0][self.at]
        return *mixed(prob, self.beside), float(np.log(prob).mean())


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


@dataclass
class _Search:
    """The trials so far, and the held-out pieces, if any, that they are judged by."""

    heldout: _Heldout | None
    trust: Floats  # the weights of the trust in nodes of the context tree
    trials: list[ContextTrial] = field(default_factory=list)

    @classmethod
    def of(cls, pieces: Pieces, counts: ContextCounts, ends: bool) -> _Search:
        """A search that judges by the pieces, beside the context tree of the counts."""
        tree = counts.trees.pasts
        flat = lay_out(pieces, tree.n_symbols)
        at = positions(flat)
        at = at[flat.codes[at] < tree.n_symbols + ends]
        followers, trust = learn_followers(tree, counts.follows, flat if at.size else None, ends)
        if not at.size:
            return cls(None, trust)
        if at.size * tree.n_symbols > MAX_JUDGED:  # each is compared with all symbols
            few = np.cumsum(pieces.ends - pieces.begins) * tree.n_symbols <= MAX_JUDGED
            pieces = pieces.take(np.flatnonzero(few) if few.any() else np.arange(1))
            flat = lay_out(pieces, tree.n_symbols)
            at = positions(flat)
            at = at[flat.codes[at] < tree.n_symbols + ends]
        nodes = locate(tree, flat)
        beside = followers.prob(nodes[at], flat.codes[at], ends)
        return cls(_Heldout(flat, pieces.fresh, nodes, at, beside, ends), trust)

    @property
    def best(self) -> ContextTrial:
        return max(self.trials, key=lambda trial: (trial.score, trial.alone))

    @property
    def largest(self) -> ContextTrial:
        """The largest rank that is as good as the best: the model is learned from more than it.

        Where the context tree alone is best, the operators still look further ahead than one step:
        the best by themselves.
        """
        if self.best.weight == 0.0:
            return max((t for t in self.trials if t.weight == 0.0), key=lambda t: t.alone)
        alike = [t for t in self.trials if t.split_at == self.best.split_at]
        return max((t for t in alike if t.score > self.best.score - TIE), key=lambda t: t.rank)

    def near(self) -> list[int]:
        """Ranks to begin with: the best so far, and those that were not hopeless when last tried.

        A finer tree may make use of many directions where a coarse one has none.
        """
        if not self.trials:
            return list(FIRST_RANKS)
        most: dict[float, float] = {}  # for each tree
        for trial in self.trials:
            most[trial.split_at] = max(most.get(trial.split_at, -np.inf), trial.score)
        behind = {trial.rank: most[trial.split_at] - trial.score for trial in self.trials}
        hopeful = (r for r in FIRST_RANKS if behind.get(r, 0.0) < HOPELESS)
        return [self.best.rank, *hopeful]

    def improved(self, found: list[list[ContextTrial]]) -> bool:
        """Take the trials of finer and finer trees; whether a still finer one is worth a try."""
        for trials in found:
            if not trials:
                return False
            self.trials.extend(trials)
            if max(trial.score for trial in trials) < self.best.score - WORSE:
                return False
        return True

    def trial(
        self, operators: ContextOperators, trees: Trees, split_at: float, ridge: float = RIDGE
    ) -> ContextTrial:
        """Judge operators."""
        assert self.heldout is not None
        sizes = (trees.n_pasts, trees.n_futures, operators.rank, ridge)
        judged = self.heldout.judge(operators, trees.past_context)
        return ContextTrial(split_at, *sizes, *judged, len(self.heldout.at))

    def walk(
        self, counts: ContextCounts, split_at: float, ranks: range, near: Iterable[int], seed: int
    ) -> list[ContextTrial]:
        """Trials of one tree: from a few ranks to the best among their neighbours."""
        trees, max_rank = counts.trees, ranks[-1]
        grid = sorted({*(r for r in RANKS if r in ranks), max_rank})
        first = [r for r in near if r in ranks] or [max_rank]
        waiting = sorted({int(np.searchsorted(grid, r)) for r in first})
        found: dict[int, ContextTrial] = {}
        top = grid[min(waiting[-1] + 1, len(grid) - 1)]
        operators = learn_operators(counts, top, seed=seed)
        while waiting:
            for i in waiting:
                if grid[i] > operators.rank == top:
                    top = min(2 * top, max_rank)
                    operators = learn_operators(counts, top, seed=seed)
                found[i] = self.trial(operators.cut(grid[i]), trees, split_at)
                if grid[i] >= operators.rank < top:
                    grid = grid[: i + 1]  # the counts have no more directions
                    break
            best = max(found, key=lambda i: (found[i].score, found[i].alone))
            waiting = [i for i in (best - 1, best + 1) if 0 <= i < len(grid) and i not in found]
        return [found[i] for i in sorted(found)]


def max_rank(n_symbols: int) -> int:
    """The largest rank to be tried for an alphabet."""
    return MAX_RANK if n_symbols < SHARED_FROM else MAX_SHARED_RANK


def choose_trees(
    sample: Sample,
    n_symbols: int,
    ends: bool,
    ranks: range,
    n_jobs: int | None = None,
    seed: int = 0,
) -> tuple[Trees, ContextChoice]:
    """Trees fine enough for the best sizes on the held-out pieces, grown from all of the sample."""
    training, heldout = sample.training, sample.heldout
    fine = _grow(training, n_symbols)
    counts = count_contexts(training, fine, n_jobs)
    n = int(counts.pairs.counts.sum())
    sizes = [size for size in SIZES if size <= n / COARSEST] or [max(2, n // COARSEST)]
    judged = heldout.take(np.flatnonzero(np.cumsum(heldout.ends - heldout.begins) <= JUDGED))
    search = _Search.of(judged if len(judged) else heldout, counts, ends)
    for first in range(0, len(sizes) if search.heldout else 0, 2):  # two at a time, by threads
        near = search.near()

        def compare(size: float, near: list[int] = near) -> list[ContextTrial]:
            cut = fine.cut(size)
            if search.trials and cut.n_pasts > MOST_CONTEXTS:
                return []
            return search.walk(counts.grouped(cut), size, ranks, near, seed)

        if not search.improved(each(compare, sizes[first : first + 2], n_jobs)):
            break
    share = (training.n_total + heldout.n_total) / max(training.n_total, 1)
    trials = tuple(replace(trial, split_at=trial.split_at * share) for trial in search.trials)
    kept = _contenders(trials, n_symbols, sample.is_all) if trials else (sizes[0] * share,)
    grown = _grow(training + heldout, n_symbols)
    best = max(trials, key=lambda trial: trial.score) if trials else None
    # Where the context tree has no share in the mixture, its finer pasts need not be counted.
    trees = grown.cut(min(kept)).pruned(pasts=best is not None and best.weight == 1.0)
    return trees, ContextChoice(0.0, best.rank if best else 0, RIDGE, 1.0, None, kept, trials)


def _contenders(
    trials: tuple[ContextTrial, ...], n_symbols: int, is_all: bool
) -> tuple[float, ...]:
    """Sizes to be compared again on all that was counted: those that are nearly the best.

    More data than the sample may support finer contexts: then the next finer size is one too, but
    none whose counts would not fit in one table, which takes much longer to count.
    """
    best: dict[float, float] = {}
    for trial in trials:
        best[trial.split_at] = max(best.get(trial.split_at, -np.inf), trial.score)
    sizes = sorted(best, key=lambda size: -best[size])
    near = [size for size in sizes[:CONTENDERS] if best[size] > best[sizes[0]] - NEAR]
    if is_all:
        return tuple(near)
    cells = {t.split_at: t.n_pasts * t.n_futures * n_symbols for t in trials}
    finer = sorted(size for size in sizes if size < min(near))[-1:]
    fitting = [size for size in (*near, *finer) if cells[size] <= MAX_CELLS]
    return tuple(fitting or [max(near)])


def _grow(pieces: Pieces, n_symbols: int) -> Trees:
    """Fine trees, and contexts that are not finer than any that are compared."""
    fine = grow_trees(pieces, n_symbols, FINEST, FINEST_CHILD, _split_pasts_at(pieces))
    return fine.cut(FINEST)


def _split_pasts_at(pieces: Pieces) -> int:
    return min(max(pieces.n_total // PART, FEWEST), FINEST)


def grow_pasts(sample: Sample, n_symbols: int) -> Trees:
    """The trees of a context tree alone: fine pasts, and futures of one context."""
    everything = sample.training + sample.heldout
    none = everything.n_total + len(everything) + 1
    return grow_trees(everything, n_symbols, none, none, _split_pasts_at(everything))


def learn_contexts(
    moments: ContextMoments,
    ends: bool,
    ranks: range,
    planned: ContextChoice | None = None,
    n_jobs: int | None = None,
    seed: int = 0,
) -> tuple[ContextModel, ContextChoice]:
    """The model of counts: size, rank, ridge and mixture chosen on what was held out.

    `planned` is what `choose_trees` left to be compared; without it trees are used as they are.
    """
    fine = moments.counts.trees
    sizes = planned.sizes if planned else (0.0,)
    search = _Search.of(moments.heldout, moments.counts, ends)
    # Where nothing was held out to compare by: a small model, half of the mixture.
    small = max(min(ranks[-1], 4), ranks[0])
    best = ContextTrial(
        sizes[0], fine.n_pasts, fine.n_futures, small, RIDGE, 0.5, -np.inf, -np.inf, 0
    )
    if search.heldout:
        near = [planned.rank] if planned and planned.rank in ranks else FIRST_RANKS
        best = _best(search, moments.counts, sizes if planned else (), ranks, near, n_jobs, seed)
    trees = fine.cut(best.split_at) if planned else fine
    everything = moments.counts + count_contexts(moments.heldout, fine, n_jobs)
    operators = learn_operators(everything.grouped(trees), best.rank, best.ridge, seed)
    follows = everything.follows
    if best.weight == 1.0:  # nothing reads the pasts below the contexts
        follows, trees = everything.follows_of_contexts(trees), trees.pruned(pasts=True)
    followers, _ = learn_followers(trees.pasts, follows, None, ends, search.trust)
    model = ContextModel(trees, operators, followers, best.weight, ends)
    trials = (*(planned.trials if planned else ()), *search.trials)
    score = best.score if search.heldout else None
    chosen = (best.split_at, operators.rank, best.ridge, best.weight, score)
    return model, ContextChoice(*chosen, sizes, trials)


def _best(
    search: _Search,
    counts: ContextCounts,
    sizes: tuple[float, ...],
    ranks: range,
    near: Iterable[int],
    n_jobs: int | None,
    seed: int,
) -> ContextTrial:
    """The best size and rank of all that was counted, then the best ridge for them."""
    cuts = {size: counts.grouped(counts.trees.cut(size)) for size in sizes} or {0.0: counts}
    walks = each(
        lambda cut: search.walk(cut[1], cut[0], ranks, near, seed), [*cuts.items()], n_jobs
    )
    search.trials.extend(trial for walk in walks for trial in walk)
    best = search.largest
    cut = cuts[best.split_at]
    operators = learn_operators(cut, best.rank, RIDGE, seed)
    others = [
        search.trial(operators.with_ridge(operators.ridge * r / RIDGE), cut.trees, best.split_at, r)
        for r in OTHER_RIDGES
    ]
    search.trials.extend(others)
    return max([best, *others], key=lambda trial: trial.score)


def learn_tree(moments: ContextMoments, ends: bool, n_jobs: int | None = None) -> ContextModel:
    """The context tree alone, its trust learned on what was held out."""
    counts, trees = moments.counts, moments.counts.trees
    trust = _Search.of(moments.heldout, counts, ends).trust
    everything = counts + count_contexts(moments.heldout, trees, n_jobs)
    followers, _ = learn_followers(trees.pasts, everything.follows, None, ends, trust)
    return ContextModel(trees, None, followers, 0.0, ends)
