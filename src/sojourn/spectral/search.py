"""Ranks and sizes of trees compared by held-out likelihood.

The model is a mixture: a filter over contexts (spectral) beside a context tree. Trials are judged
by pieces of data that were not counted, with the best weight of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.contexts.counts import ContextCounts, Trees
from sojourn.contexts.followers import Followers, learn_followers
from sojourn.contexts.pieces import Pieces
from sojourn.contexts.trees import Codes, Flat, kept_ancestors, lay_out, locate, outcomes
from sojourn.contexts.trust import USUAL
from sojourn.spectral.context_operators import (
    RIDGE,
    RIDGE_OF_CLASSES,
    ContextOperators,
    learn_operators,
)
from sojourn.spectral.filter import context_filter, run_filter

Floats = NDArray[np.float64]

RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
FIRST_RANKS = (4, 16, 48)  # where a search begins
HOPELESS = 0.01  # nats per outcome by which a rank is worse than the best for the same tree
# Nats per outcome: a tree that is worse by this than a coarser one ends the search.
WORSE = 0.003
PATIENCE = 3  # trees in a row that are no better than a coarser one
# Outcomes times symbols, which is what judging a size costs.
MAX_JUDGED = 1 << 27
# The least gain, in nats per outcome, for which a mixture keeps both of its parts; and how many
# numbers were fitted to the outcomes that judge it (weights of trust, and of the mixture): some of
# the gain is due to these, but with few outcomes no more than ASKED.
WORTH_MIXING, FITTED, ASKED = 1e-4, len(USUAL) + 1, 0.02
# Fewer held-out symbols cannot show that something is of no use: both parts of a mixture stay, and
# all nodes of the context tree. PRIOR outcomes speak for each part.
FEW, PRIOR = 5_000, 1.0
TIE = 1e-4  # nats per outcome that are too few to distinguish two ranks
CLOSE = 2e-3  # and of fewer outcomes, where they have many symbols to be compared with
# Positions that a node below the contexts needs to stay in the context tree, and nats per outcome
# that more of them must gain.
LEAST, WORTH_NODES = (np.inf, 10_000, 3_000, 1_000, 300, 100, 30, 0), 1e-5


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


@dataclass(frozen=True, eq=False)
class Heldout:
    """Held-out pieces laid out, and what the context tree gives them."""

    flat: Flat
    fresh: NDArray[np.bool_]
    nodes: Codes
    at: NDArray[np.int64]  # the outcomes that are scored
    followers: Followers
    beside: Floats  # p of each under the context tree
    ends: bool

    def prob(self, operators: ContextOperators, contexts: Codes) -> Floats:
        """The probability of each outcome under the operators."""
        filter = context_filter(operators, self.ends)
        return run_filter(filter, self.flat, contexts[self.nodes], self.fresh)[0][self.at]

    def prob_of_tree(self, at: Codes) -> Floats:
        """The probability of each outcome under the context tree with nodes replaced."""
        return self.followers.prob(at[self.nodes[self.at]], self.flat.codes[self.at], self.ends)


def best_mixture(p: Floats, beside: Floats, few: bool = False) -> tuple[float, float]:
    """The weight of `p` in the best mixture with `beside`, and the mean log of that mixture.

    With `few` outcomes both parts stay.
    """
    lo, hi = 0.0, 1.0
    for _ in range(20):  # the slope falls with the weight
        a = (lo + hi) / 2
        slope = ((p - beside) / (a * p + (1 - a) * beside)).mean()
        slope += few * PRIOR / len(p) * (1 / a - 1 / (1 - a))
        lo, hi = (a, hi) if slope > 0 else (lo, a)
    a = (lo + hi) / 2
    both, alone, tree = np.log(a * p + (1 - a) * beside), np.log(p), np.log(beside)
    if few:
        return float(a), float(both.mean())
    gains = both - alone
    # Some of what the tree gains is that its trust, and the weight, were fitted to these outcomes.
    least = max(WORTH_MIXING, min(FITTED / len(p), ASKED), gains.std() / np.sqrt(len(p)))
    if gains.mean() < least:
        return 1.0, float(alone.mean())
    if both.mean() < tree.mean() + WORTH_MIXING:
        return 0.0, float(tree.mean())
    return float(a), float(both.mean())


@dataclass
class Search:
    """The trials so far, and the held-out pieces, if any, that they are judged by."""

    heldout: Heldout | None
    trust: Floats  # the weights of the trust in nodes of the context tree
    n_read: int  # symbols, or classes of them, that trees distinguish
    ridge: float = RIDGE  # of the trials
    first_ranks: tuple[int, ...] = FIRST_RANKS
    trials: list[ContextTrial] = field(default_factory=list)
    in_vain: int = 0  # trees in a row that were no better
    probs: dict[ContextTrial, Floats] = field(default_factory=dict)  # of all outcomes
    few: bool = False  # whether little was held out

    @classmethod
    def of(cls, pieces: Pieces, counts: ContextCounts, ends: bool, few: bool = False) -> Search:
        """A search that judges by the pieces, beside the context tree of the counts."""
        tree, reads = counts.trees.pasts, counts.trees.reads
        flat = lay_out(pieces, tree.n_symbols, reads)
        at = outcomes(flat, tree.n_symbols + ends)
        followers, trust = learn_followers(tree, counts.follows, flat if at.size else None, ends)
        search = cls(None, trust, tree.n_symbols, few=few)
        if reads is not None:
            search.n_read, search.ridge = len(np.unique(reads)), RIDGE_OF_CLASSES
            search.first_ranks = FIRST_RANKS[:-1]  # more take long where symbols are many
        if not at.size:
            return search
        if at.size * tree.n_symbols > MAX_JUDGED:  # each is compared with all symbols
            first = np.cumsum(pieces.ends - pieces.begins) * tree.n_symbols <= MAX_JUDGED
            pieces = pieces.take(np.flatnonzero(first) if first.any() else np.arange(1))
            flat = lay_out(pieces, tree.n_symbols, reads)
            at = outcomes(flat, tree.n_symbols + ends)
        nodes = locate(tree, flat)
        beside = followers.prob(nodes[at], flat.codes[at], ends)
        search.heldout = Heldout(flat, pieces.fresh, nodes, at, followers, beside, ends)
        return search

    @property
    def best(self) -> ContextTrial:
        """The trial with the best score."""
        return max(self.trials, key=lambda trial: (trial.score, trial.alone))

    @property
    def chosen(self) -> ContextTrial:
        """The largest rank that ties with the best: the final model sees more data than trials do.

        The smallest where classes are read, whose ridge leaves little to directions that add none.
        Where the context tree alone is best, the operators that are best alone: they still look
        further ahead than one step.
        """
        if self.best.weight == 0.0:
            return max((t for t in self.trials if t.weight == 0.0), key=lambda t: t.alone)
        alike = [t for t in self.trials if t.split_at == self.best.split_at]
        if self.ridge == RIDGE_OF_CLASSES:
            return min(
                (t for t in alike if t.score > self.best.score - CLOSE), key=lambda t: t.rank
            )
        return max((t for t in alike if t.score > self.best.score - TIE), key=lambda t: t.rank)

    def near(self) -> list[int]:
        """Ranks to begin with: the best so far, and those that were not hopeless when last tried.

        A finer tree may make use of many directions where a coarse one has none.
        """
        if not self.trials:
            return list(self.first_ranks)
        most: dict[float, float] = {}  # for each tree
        for trial in self.trials:
            most[trial.split_at] = max(most.get(trial.split_at, -np.inf), trial.score)
        behind = {trial.rank: most[trial.split_at] - trial.score for trial in self.trials}
        hopeful = (r for r in self.first_ranks if behind.get(r, 0.0) < HOPELESS)
        return [self.best.rank, *hopeful]

    def add(self, found: list[list[ContextTrial]]) -> bool:
        """Add the trials of finer and finer trees; whether a still finer one is worth a try."""
        for trials in found:
            if not trials:
                return False
            before = self.best.score if self.trials else -np.inf
            self.trials.extend(trials)
            if max(trial.score for trial in trials) < self.best.score - WORSE:
                return False
            # Trees that do not know all symbols apart yet are no sign.
            knows = trials[0].n_pasts > self.n_read
            self.in_vain = 0 if self.best.score > before else self.in_vain + knows
        return self.in_vain < PATIENCE

    def trial(
        self, prob: Floats, trees: Trees, split_at: float, rank: int, ridge: float
    ) -> ContextTrial:
        """Judge what operators give each outcome, with the best weight beside the context tree."""
        assert self.heldout is not None
        sizes = (trees.n_pasts, trees.n_futures, rank, ridge)
        mixed = best_mixture(prob, self.heldout.beside, self.few)
        judged = (*mixed, float(np.log(prob).mean()), len(prob))
        found = ContextTrial(split_at, *sizes, *judged)
        self.probs[found] = prob
        return found

    def over(self, pieces: Pieces, trees: Trees) -> Heldout:
        """The judge of operators alone over other pieces."""
        assert self.heldout is not None
        flat = lay_out(pieces, trees.n_symbols, trees.reads)
        at = outcomes(flat, trees.n_symbols + self.heldout.ends)
        nodes = locate(trees.pasts, flat)
        return replace(self.heldout, flat=flat, fresh=pieces.fresh, nodes=nodes, at=at)

    def pruned(
        self, trial: ContextTrial, trees: Trees, sure: float = 0.0
    ) -> tuple[ContextTrial, float]:
        """How many positions a node of the context tree needs to pay, and the trial without others.

        From the contexts alone to all nodes: the fewest that are nearly the best, or not worse by
        `sure` standard errors.
        """
        assert self.heldout is not None
        found, logs, p = [], [], self.probs[trial]
        for least in (0,) if self.few else LEAST:
            beside = self.heldout.prob_of_tree(
                kept_ancestors(trees.pasts, trees.past_context, least)
            )
            weight, score = best_mixture(p, beside, self.few)
            found.append((weight, score, least))
            logs.append(np.log(weight * p + (1 - weight) * beside))
        best = max(range(len(found)), key=lambda i: found[i][1])
        for one, log in zip(found, logs, strict=True):
            noise = sure * float((logs[best] - log).std()) / np.sqrt(len(p))
            if one[1] >= found[best][1] - max(WORTH_NODES, noise):
                break
        weight, score, least = one
        return replace(trial, weight=weight, score=score), least

    def walk(
        self,
        cut: tuple[float, ContextCounts],
        ranks: range,
        near: Iterable[int],
        seed: int,
        n_jobs: int | None = 1,
    ) -> list[ContextTrial]:
        """Trials of one tree, its size and counts: from a few ranks to their best neighbours."""
        assert self.heldout is not None
        split_at, counts = cut
        trees, max_rank, ends = counts.trees, ranks[-1], self.heldout.ends
        grid = sorted({*(r for r in RANKS if r in ranks), max_rank})
        first = [r for r in near if r in ranks] or [max_rank]
        waiting = sorted({int(np.searchsorted(grid, r)) for r in first})
        found: dict[int, ContextTrial] = {}
        # What symbols share is the better known the fewer numbers it has: where they are very many
        # each rank is learned by itself.
        apart = trees.reads is not None
        top = grid[waiting[0] if apart else min(waiting[-1] + 1, len(grid) - 1)]
        more: dict[str, Any] = {"ends": ends, "ridge": self.ridge, "seed": seed, "n_jobs": n_jobs}
        operators = learn_operators(counts, top, **more)
        while waiting:
            for i in waiting:
                if (grid[i] != top) if apart else (grid[i] > operators.rank == top):
                    top = grid[i] if apart else min(2 * top, max_rank)
                    operators = learn_operators(counts, top, **more)
                part = operators.cut(grid[i])
                prob = self.heldout.prob(part, trees.past_context)
                found[i] = self.trial(prob, trees, split_at, part.rank, self.ridge)
                if grid[i] >= operators.rank < top:
                    grid = grid[: i + 1]  # the counts have no more directions
                    break
            best = max(found, key=lambda i: (found[i].score, found[i].alone))
            around = (best - 1, best + 1) if self._may_win(found, best, len(grid)) else (best - 1,)
            waiting = [i for i in around if 0 <= i < len(grid) and i not in found]
        return [found[i] for i in sorted(found)]

    def _may_win(self, found: dict[int, ContextTrial], best: int, n: int) -> bool:
        """Whether larger ranks, each gaining what the last did, would beat coarser trees."""
        if not self.trials or best - 1 not in found:
            return True
        gain = found[best].score - found[best - 1].score
        return found[best].score + gain * (n - 1 - best) > self.best.score
