"""What a model answers about sequences: surprise, scores, what comes next, states, draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sojourn.contexts.pieces import Pieces
from sojourn.contexts.trees import BUCKETS, MAX_RUNS, Codes, Flat, lay_out, locate, steps_of
from sojourn.data.sequences import Sequences
from sojourn.scale.threads import chunks, in_order
from sojourn.spectral.filter import run_filter, unseen
from sojourn.spectral.models import Model

Floats = NDArray[np.float64]
R = TypeVar("R")


class Scored(NamedTuple):
    """Some sequences laid out and scored."""

    flat: Flat
    nodes: Codes  # of the past before each place
    surprise: Floats  # -log p of what came at each place; 0 where nothing is predicted
    rows: Floats  # the filter after each sequence                             (n, width)
    states: Floats  # the state before each place, if asked for


def _score(
    model: Model, flat: Flat, keep: bool = False, row: Floats | None = None, seen: int = 0
) -> Scored:
    """Score every outcome; from a row of the filter on, after `seen` symbols."""
    fresh, filter = np.ones(len(flat.starts), bool), model.filter
    if model.trees is None:  # windows have no nodes, and restart by step
        nodes = contexts = steps_of(flat, fresh, 1 if filter is None else filter.n_t, seen)
    else:
        nodes = locate(model.trees.pasts, flat)
        contexts = model.trees.past_context[nodes]
    prob, rows, states = np.ones(len(flat.codes)), np.empty((len(fresh), 0)), np.empty((0, 0))
    if filter is not None:
        filter = filter if row is None else filter._replace(start=row)
        prob, rows, states = run_filter(filter, flat, contexts, fresh, keep)
    if model.followers is not None and model.weight < 1.0:
        beside = model.followers.prob(nodes, flat.codes, model.ends)
        known = flat.codes < model.n_symbols + model.ends
        known[flat.starts - 1] = False  # marks of starts, which look like ends
        prob = np.where(known, model.weight * prob + (1.0 - model.weight) * beside, 1.0)
    return Scored(flat, nodes, 0.0 - np.log(prob), rows, states)  # not -0 where p is 1


def score_chunk(
    model: Model, sequences: Sequences, bounds: tuple[int, int], keep: bool = False
) -> Scored:
    """Score the sequences ``first`` to ``last - 1``; states are kept if asked for."""
    reads = None if model.trees is None else model.trees.reads
    return _score(model, lay_out(Pieces.all_of(sequences, *bounds), model.n_symbols, reads), keep)


def in_chunks(
    run: Callable[..., R], model: Model, sequences: Sequences, n_jobs: int | None, **options: Any
) -> Iterator[R]:
    """Results of ``run(model, sequences, (first, last))`` for chunks, in order, by threads."""
    sizes = sequences.offsets + np.arange(len(sequences) + 1)  # an end is a place too
    return in_order(partial(run, model, sequences, **options), chunks(sizes), n_jobs)


def surprise(
    model: Model, sequences: Sequences, n_jobs: int | None = None
) -> tuple[Floats, Floats]:
    """-log p of each symbol given what came before it, end to end, and of the end of each sequence.

    A missing symbol has none: 0. So has an end that is not predicted.
    """
    steps, ends = [np.empty(0)], [np.empty(0)]
    for scored in in_chunks(score_chunk, model, sequences, n_jobs):
        steps.append(scored.surprise[scored.flat.codes != model.n_symbols])
        ends.append(scored.surprise[scored.flat.stops - 1] * model.ends)
    return np.concatenate(steps), np.concatenate(ends)


def log_prob(model: Model, sequences: Sequences, n_jobs: int | None = None) -> Floats:
    """Log-probability of each sequence, its end included where ends are predicted."""
    found = [np.empty(0)]
    for scored in in_chunks(score_chunk, model, sequences, n_jobs):
        starts = scored.flat.starts
        # Without the marks of starts as many places per sequence in any chunk: the same bits
        places = np.delete(scored.surprise, starts - 1)
        found.append(-np.add.reduceat(places, starts - np.arange(1, len(starts) + 1)))
    return np.concatenate(found)


def states_of(
    model: Model, sequences: Sequences, rank: int, n_jobs: int | None = None
) -> list[Floats]:
    """The state before each symbol and after the last: (length + 1, rank) for each sequence."""
    found: list[Floats] = []
    for scored in in_chunks(score_chunk, model, sequences, n_jobs, keep=True):
        places = zip(scored.flat.starts, scored.flat.stops, strict=True)
        found.extend(scored.states[a:b, :rank].copy() for a, b in places)
    return found


def next_distributions(
    model: Model, sequences: Sequences, horizons: Sequence[int] = (1,), n_jobs: int | None = None
) -> Floats:
    """Distributions some steps after each sequence, (n, n_horizons, n_symbols), and of the end.

    One step ahead it is the mixture's. Further steps weigh the states that may follow by it, and
    the operators take these on; an end stays an end.
    """
    none = np.empty((0, len(horizons), model.n_symbols + model.ends))
    found = in_chunks(next_of_chunk, model, sequences, n_jobs, horizons=horizons)
    return np.concatenate([none, *(p for _, _, p in found)])


def next_of_chunk(
    model: Model, sequences: Sequences, bounds: tuple[int, int], horizons: Sequence[int] = (1,)
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """After each sequence: the filter's row, its length, and the distributions of what follows."""
    scored = score_chunk(model, sequences, bounds)
    lengths = np.diff(sequences.offsets[bounds[0] : bounds[1] + 1])
    nodes = scored.nodes[scored.flat.stops - 1]
    return scored.rows, lengths, ahead(model, scored.rows, nodes, lengths, horizons)


def ahead(
    model: Model,
    rows: Floats,
    nodes: Codes,
    lengths: NDArray[np.int64],
    horizons: Sequence[int] = (1,),
) -> Floats:
    """Distributions some steps after rows of the filter, whose pasts are at the nodes."""
    n_o, a = model.n_symbols, model.weight
    p = np.zeros((len(rows), n_o + model.ends))
    if model.filter is not None:
        p = a * model.filter.predictions(rows)
    if model.followers is not None and a < 1.0:
        beside = model.followers.rows(nodes)
        if not model.ends:
            beside = beside[:, :n_o] / (1.0 - beside[:, n_o:])
        p = p + (1.0 - a) * beside
    if horizons[-1] == 1:
        return p[:, None]
    pairs = zip(rows, p, lengths.tolist(), strict=True)
    return np.array([list(_further(model, row, q, t, horizons)) for row, q, t in pairs])


def _further(
    model: Model, row: Floats, p: Floats, t: int, horizons: Sequence[int]
) -> Iterator[Floats]:
    """Distributions some steps ahead; that of the next outcome, at step t, is `p`."""
    n_o, filter = model.n_symbols, model.filter
    rank = model.emission(0).shape[1]  # or an error: a context tree alone looks one step ahead
    assert filter is not None
    state = moved_by(model, row, p[:n_o], t)
    alive = 1.0 - p[n_o] if model.ends else 1.0
    s, q = t + 1, np.zeros((1, filter.k + n_o + 1))
    if horizons[0] == 1:
        yield p
    for to in (t + h - 1 for h in horizons if h > 1):  # the step that the state moves on to
        own = range(s, min(to, filter.n_t))  # steps with operators of their own
        for at, n in (*((at, 1) for at in own), (s + len(own), to - s - len(own))):
            if at < filter.n_t or at == t + 1:
                A, weight = model.combined(np.ones(n_o), at), model.emission(at).sum(axis=0)
            mass = (state @ weight).item()
            state = state / mass if mass > 0 else filter.start[None, :rank]
            state, still = unseen(A, weight, state, n)
            alive *= still.item()
        s = to
        q[0, filter.k :] = np.vecdot(model.emission(to), state)
        out = filter.predictions(q)[0] * (alive if model.ends else 1.0)
        if model.ends:
            out[n_o] += 1.0 - alive
        yield out


def moved_by(model: Model, row: Floats, p: Floats, t: int) -> Floats:
    """The expected state after the symbol of step t, Σ_o p(o) v M_o / q_o, (1, rank)."""
    n_o, filter = model.n_symbols, model.filter
    assert filter is not None
    raw = row[filter.k : filter.k + n_o]
    weights = np.where(raw >= filter.epsilon, p / np.maximum(raw, filter.epsilon), 0.0)
    A = model.combined(weights, t)
    return row[None, : len(A)] @ A


class Walk:
    """A sequence under way, one symbol at a time: the filter's row, and its past as runs.

    What is kept of the past is bounded: as many runs as a tree reads, each as long as the longest
    bucket. Symbols are scored by the same kernels as whole sequences, to the same bits.
    """

    LONGEST = int(BUCKETS[-1]) + 1  # a run this long is as long as any
    MOST = 2 * MAX_RUNS * LONGEST  # symbols that any tree reads of a past

    def __init__(self, model: Model) -> None:
        self.model, self.reads = model, None if model.trees is None else model.trees.reads
        self.row = np.empty(0) if model.filter is None else model.filter.start.copy()
        self.n_seen = 0
        self.remember(np.array([model.n_symbols], np.int32))

    def remember(self, past: Codes) -> None:
        """Take a past, from the start mark or from a symbol on."""
        self.codes, self.read, self.first = np.zeros((3, 64), np.int32)
        self.n = 0
        self.n = self._write(past)

    @property
    def past(self) -> Codes:
        """What trees can read of the past."""
        return self.codes[max(0, self.n - self.MOST) : self.n].copy()

    def advance(self, codes: Codes, out: Floats) -> None:
        """Take symbols, -1 where missing, and write the surprise of each to `out`."""
        for begin in range(0, len(codes), self.LONGEST):
            part = codes[begin : begin + self.LONGEST]
            scored, n = self._scored(part), self.n + len(part)
            out[begin : begin + len(part)] = scored.surprise[self.n : n]
            self.row = scored.rows[0]
            self.n_seen += len(part)
            run = n - int(self.first[n - 1])
            self.n = n if run <= 2 * self.LONGEST else n - run + self.LONGEST
            if self.n > 2 * self.MOST:
                self.remember(self.past)

    def distributions(self, horizons: Sequence[int] = (1,)) -> Floats:
        """Distributions of what comes some steps on, (n_horizons, …)."""
        nodes = self._scored(np.empty(0, np.int32)).nodes[self.n : self.n + 1]
        return ahead(self.model, self.row[None], nodes, np.array([self.n_seen]), horizons)[0]

    def end(self) -> float:
        """The surprise of an end here; 0 where ends are not predicted."""
        return float(self._scored(np.empty(0, np.int32)).surprise[self.n])

    def _scored(self, codes: Codes) -> Scored:
        """Score symbols, and an end, after the past; what is written after it does not count."""
        n, end = self.n, self._write(codes)
        self.codes[end] = self.model.n_symbols
        here = np.array([n])
        runs = (self.read, self.first, self.first)
        flat = Flat(self.codes[: end + 1], *runs, here, here + len(codes) + 1)
        return _score(self.model, flat, row=self.row, seen=self.n_seen)

    def _write(self, codes: Codes) -> int:
        """Write symbols after the past, with room for one more; where they end."""
        end = self.n + len(codes)
        if end >= len(self.codes):
            more = np.zeros(end + len(self.codes), np.int32)
            arrays = (self.codes, self.read, self.first)
            self.codes, self.read, self.first = (np.append(x, more) for x in arrays)
        n_o, reads = self.model.n_symbols, self.reads
        for n, code in enumerate(codes.tolist(), self.n):
            self.codes[n] = code if code >= 0 else n_o + 1
            self.read[n] = self.codes[n] if reads is None or not 0 <= code < n_o else reads[code]
            same = n > 1 and self.read[n] == self.read[n - 1]
            self.first[n] = self.first[n - 1] if same else n
        return end


def draw(
    model: Model, n: int, length: int | None, rng: np.random.Generator, most: int = 100_000
) -> list[Codes]:
    """Draw sequences of codes: of a length, or to their ends where these are predicted."""
    rows = []
    for _ in range(n):
        walk, nothing = Walk(model), np.empty(1)
        codes: list[int] = []
        while len(codes) < (most if length is None else length):
            p = walk.distributions()[0]
            if length is not None:
                p = p[: model.n_symbols]
            code = int(rng.choice(len(p), p=p / p.sum()))
            if code == model.n_symbols:
                break
            codes.append(code)
            walk.advance(np.array([code], np.int32), nothing)
        rows.append(np.array(codes, np.int32))
    return rows
