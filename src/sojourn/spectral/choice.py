"""From counts of contexts to a model: tree size, rank and mixture by held-out likelihood.

How fine contexts are and how many directions are kept trades bias for variance. Pieces of data that
were not counted decide: from coarse trees to fine ones, from one rank to its neighbours, stopping
early.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sojourn.contexts.counts import (
    ContextCounts,
    ContextMoments,
    Trees,
    count_contexts,
    grow_trees,
)
from sojourn.contexts.followers import cross_weights, learn_followers
from sojourn.contexts.pieces import Pieces
from sojourn.contexts.sample import Sample
from sojourn.contexts.tables import MAX_CELLS, Table
from sojourn.contexts.trees import Codes, Flat, lay_out
from sojourn.scale.threads import each
from sojourn.spectral.classes import learn_classes
from sojourn.spectral.context_operators import SHARED_FROM, learn_operators
from sojourn.spectral.models import ContextModel
from sojourn.spectral.search import FEW, RANKS, ContextTrial, Search

# Positions that a context needs to be split at the least, and a child of it among the futures.
FINEST, FINEST_CHILD = 10, 8
# A past of the context tree is split at n / PART positions, at least FEWEST and at most FINEST.
PART, FEWEST = 50_000, 4
# Positions that a context needs to be split: the sizes compared, from coarse to fine, none above
# n / COARSEST.
SIZES = (160_000, 60_000, 25_000, 10_000, 4_000, 1_500, 700, 300, 150, 70, 30)
COARSEST = 4
# Sizes compared again on all that was counted, and how near the best they are (nats).
CONTENDERS, NEAR = 4, 0.001
OTHER_RIDGES = (0.0, 5.0)  # times the usual one, tried for the best size and rank
# The largest rank; a step with operators that symbols share takes the cube of it.
MAX_RANK, MAX_SHARED_RANK = RANKS[-1], 64
MOST_CONTEXTS = 4_000
# From this many symbols on trees may read classes of them; the first trees have at most so many
# times fewer contexts.
CLASSES_FROM, FEWER = 1024, 4
LARGE = 1 << 22  # entries of a table
# How many times fewer positions a node of the context tree may have than seemed to pay.
SOME, MANY = 3, 10
SURE = 3.0  # standard errors by which nodes must pay on a sample: counting them all takes time
# Up to so many symbols all of the data teach how far to trust nodes of the context tree, in folds.
CROSSED, FOLDS = 30_000, 5
# Outcomes that sizes are compared on: fewer where each is compared with many symbols.
JUDGED, JUDGED_SYMBOLS, LEAST_JUDGED = 1 << 15, 1 << 25, 1 << 12


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
    trust : tuple of float
        Weights of the trust in nodes of the context tree that all of few data favour; else empty.
    """

    split_at: float
    rank: int
    ridge: float
    weight: float
    score: float | None
    sizes: tuple[float, ...]
    trials: tuple[ContextTrial, ...] = ()
    trust: tuple[float, ...] = ()


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
    reads: Codes | None = None,
) -> tuple[Trees, ContextChoice]:
    """Trees fine enough for the best sizes on the held-out pieces, grown from all of the sample.

    Those of a large alphabet read its symbols, or classes of them (`reads`), whichever is better.
    """
    if not len(sample.training):  # of few sequences all may be held out: then none is
        sample = replace(sample, training=sample.heldout, heldout=Pieces.none())
    usual, heldout = sample.usual(), sample.heldout
    counted = usual if reads is None else sample
    training, everything = usual.training, usual.training + heldout
    grow = partial(_grow, n_symbols=n_symbols, reads=reads)
    fine, grown = each(grow, [training, everything], n_jobs)
    counts = count_contexts(counted.training, fine, n_jobs)
    n = int(fine.pasts.count[0])
    sizes = [size for size in SIZES if size <= n / COARSEST] or [max(2, n // COARSEST)]
    if reads is not None:  # the coarsest distinguish some of the classes
        sizes = [s for s in sizes if fine.cut(s).n_pasts * FEWER > len(np.unique(reads))] or sizes
    n_judged = min(JUDGED, max(JUDGED_SYMBOLS // n_symbols, LEAST_JUDGED))
    judged = heldout.take(np.flatnonzero(np.cumsum(heldout.ends - heldout.begins) <= n_judged))
    few = heldout.n_total < FEW
    search = Search.of(judged if len(judged) else heldout, counts, ends, few)
    for first in range(0, len(sizes) if search.heldout else 0, 2):  # two at a time, by threads
        near = search.near()

        def compare(size: float, near: list[int] = near) -> list[ContextTrial]:
            cut = fine.cut(size)
            if search.trials and cut.n_pasts > MOST_CONTEXTS:
                return []
            return search.walk((size, counts.grouped(cut)), ranks, near, seed)

        if not search.add(each(compare, sizes[first : first + 2], n_jobs)):
            break
    share = (training.n_total + heldout.n_total) / max(training.n_total, 1)
    trials = tuple(replace(trial, split_at=trial.split_at * share) for trial in search.trials)
    kept = _contenders(trials, n_symbols, counted.is_all) if trials else (sizes[0] * share,)
    full = bool(trials) and search.chosen.rank == ranks[-1] and search.best.weight == 1.0
    if full and counted.is_all:
        kept = _likeliest(kept, share, search, counts, everything, n_jobs, seed)
    trees = grown.cut(min(kept))
    trust = cross_trust(sample, grown, ends, n_jobs) if reads is None else ()
    if not trials:
        return trees.pruned(0), ContextChoice(0.0, 0, search.ridge, 1.0, None, kept, (), trust)
    # Nodes of the context tree that do not pay here are not counted; more data may make some pay.
    sure = 0.0 if counted.is_all else SURE
    _, least = search.pruned(search.best, fine.cut(search.best.split_at), sure)
    trees = trees.pruned(least / (SOME if counted.is_all else MANY))
    plan = (0.0, search.best.rank, search.ridge, 1.0, None, kept, trials, trust)
    found = trees, ContextChoice(*plan)
    if reads is not None or n_symbols < CLASSES_FROM:
        return found
    reads = learn_classes(sample.training, n_symbols, seed)
    other = choose_trees(sample, n_symbols, ends, ranks, n_jobs, seed, reads)
    return max(found, other, key=lambda either: max(t.score for t in either[1].trials))


def cross_trust(
    sample: Sample, trees: Trees, ends: bool, n_jobs: int | None = None
) -> tuple[float, ...]:
    """Weights of the trust in nodes of the context tree by all of few data; none for more.

    What is held out of a few sequences is too little to learn them on: so each fold is in turn.
    """
    pieces, _, _ = (sample.training + sample.heldout).bounded()  # in the order of their keys
    if not sample.is_all or pieces.n_total > CROSSED or len(pieces) < FOLDS:
        return ()
    fold = np.arange(len(pieces)) % FOLDS

    def judged(k: int) -> tuple[Table, Flat]:
        others = pieces.take(np.flatnonzero(fold != k)).compact()
        own = pieces.take(np.flatnonzero(fold == k)).compact()
        return count_contexts(others, trees, n_jobs).follows, lay_out(own, trees.n_symbols)

    weights = cross_weights(trees.pasts, map(judged, range(FOLDS)), ends)
    return () if weights is None else tuple(weights.tolist())


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


def _likeliest(
    sizes: tuple[float, ...],
    share: float,
    search: Search,
    counts: ContextCounts,
    pieces: Pieces,
    n_jobs: int | None,
    seed: int,
) -> tuple[float, ...]:
    """The size under which all of the data are likeliest, counted or not.

    At the full rank sizes differ by noise alone, and the likeliest estimate is the nearest to that
    of maximum likelihood; held-out data, a fifth of all, hardly tell them apart.
    """
    everything, rank = search.over(pieces, counts.trees), search.chosen.rank

    def score(size: float) -> float:
        cut = counts.grouped(counts.trees.cut(size / share))
        operators = learn_operators(cut, rank, everything.ends, search.ridge, seed)
        return float(np.log(everything.prob(operators, cut.trees.past_context)).mean())

    scores = each(score, sizes, n_jobs)
    return (sizes[int(np.argmax(scores))],)


def _grow(pieces: Pieces, n_symbols: int, reads: Codes | None) -> Trees:
    """Fine trees, and contexts that are not finer than any that are compared."""
    fine = grow_trees(pieces, n_symbols, FINEST, FINEST_CHILD, _split_pasts_at(pieces), reads)
    return fine.cut(FINEST)


def _split_pasts_at(pieces: Pieces) -> int:
    return min(max(pieces.n_total // PART, FEWEST), FINEST)


def grow_pasts(sample: Sample, n_symbols: int) -> Trees:
    """The trees of a context tree alone: fine pasts, and futures of one context."""
    sample = sample.usual()
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
    if not moments.counts.pairs.keys.size:  # all was held out: then nothing is
        counted = count_contexts(moments.heldout, fine, n_jobs)
        moments = replace(moments, counts=counted, heldout=Pieces.none())
    sizes = planned.sizes if planned else (0.0,)
    search = Search.of(moments.heldout, moments.counts, ends, moments.heldout.n_total < FEW)
    # Where nothing was held out to compare by: a small model, half of the mixture.
    small = max(min(ranks[-1], 4), ranks[0])
    contexts = (fine.n_pasts, fine.n_futures)
    best = ContextTrial(sizes[0], *contexts, small, search.ridge, 0.5, -np.inf, -np.inf, 0)
    least, grouped = 0.0, moments.counts
    if search.heldout:
        near = [planned.rank] if planned and planned.rank in ranks else search.first_ranks
        how = (sizes if planned else (), ranks, near, n_jobs, seed)
        best, grouped = _best(search, moments.counts, *how)
    elif planned:
        grouped = grouped.grouped(fine.cut(best.split_at))
    trees = grouped.trees
    if search.heldout and planned:
        best, least = search.pruned(best, trees)
    rest = count_contexts(moments.heldout, fine, n_jobs)
    more = (best.ridge, seed, rest.grouped(trees), n_jobs)
    operators = learn_operators(grouped, best.rank, ends, *more)
    follows = moments.counts.follows_of(trees, least) + rest.follows_of(trees, least)
    trees = trees.pruned(least)
    trust = planned.trust if planned else ()
    weights = np.array(trust) if trust else search.trust
    followers, _ = learn_followers(trees.pasts, follows, None, ends, weights)
    model = ContextModel(trees, operators, followers, best.weight, ends)
    trials = (*(planned.trials if planned else ()), *search.trials)
    score = best.score if search.heldout else None
    chosen = (best.split_at, operators.rank, best.ridge, best.weight, score)
    return model, ContextChoice(*chosen, sizes, trials, trust)


def _best(
    search: Search,
    counts: ContextCounts,
    sizes: tuple[float, ...],
    ranks: range,
    near: Iterable[int],
    n_jobs: int | None,
    seed: int,
) -> tuple[ContextTrial, ContextCounts]:
    """The best size and rank of all that was counted, the best ridge for them, and the counts."""
    grouped = each(lambda size: counts.grouped(counts.trees.cut(size)), sizes, n_jobs)
    cuts = dict(zip(sizes, grouped, strict=True)) or {0.0: counts}
    # Threads share out the sizes, or, for memory, the parts of one large table after the other.
    sizes_by, parts_by = (1, n_jobs) if len(counts.moves.keys) > LARGE else (n_jobs, 1)
    walk = partial(search.walk, ranks=ranks, near=near, seed=seed, n_jobs=parts_by)
    search.trials.extend(
        trial for found in each(walk, [*cuts.items()], sizes_by) for trial in found
    )
    best = search.chosen
    cut = cuts[best.split_at]
    assert search.heldout is not None
    how = (search.heldout.ends, search.ridge, seed, None, n_jobs)
    operators = learn_operators(cut, best.rank, *how)
    others = []
    for times in OTHER_RIDGES:
        prob = search.heldout.prob(
            operators.with_ridge(operators.ridge * times), cut.trees.past_context
        )
        ridge = search.ridge * times
        others.append(search.trial(prob, cut.trees, best.split_at, best.rank, ridge))
    search.trials.extend(others)
    return max([best, *others], key=lambda trial: trial.score), cut


def learn_tree(
    moments: ContextMoments, ends: bool, n_jobs: int | None = None, trust: tuple[float, ...] = ()
) -> ContextModel:
    """The context tree alone, its trust given, or learned on what was held out."""
    counts, trees = moments.counts, moments.counts.trees
    weights = np.array(trust) if trust else Search.of(moments.heldout, counts, ends).trust
    everything = counts + count_contexts(moments.heldout, trees, n_jobs)
    followers, _ = learn_followers(trees.pasts, everything.follows, None, ends, weights)
    return ContextModel(trees, None, followers, 0.0, ends)
