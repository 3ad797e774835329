"""What a model over contexts answers: surprise, scores, what comes next, states, draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.contexts.choice import ContextModel
from benchmarks.contexts.filter import moved, predictions, run_filter
from benchmarks.contexts.pieces import all_pieces
from benchmarks.contexts.trees import (
    BUCKET_OF,
    BUCKETS,
    MAX_RUNS,
    Codes,
    Flat,
    descend,
    lay_out,
    locate,
)
from sojourn.data.sequences import Sequences
from sojourn.scale.threads import chunks, each

Floats = NDArray[np.float64]


class _Chunk(NamedTuple):
    """Some sequences laid out and located."""

    flat: Flat
    nodes: Codes
    contexts: Codes


def _lay_out(model: ContextModel, sequences: Sequences, first: int, last: int) -> _Chunk:
    pieces = all_pieces(sequences, first, last)
    flat = lay_out(pieces, model.trees.n_symbols)
    nodes = locate(model.trees.pasts, flat)
    return _Chunk(flat, nodes, model.trees.past_context[nodes])


def _probabilities(model: ContextModel, chunk: _Chunk) -> tuple[Floats, Floats]:
    """Probability of every outcome under the mixture, and the states after the sequences."""
    flat, a = chunk.flat, model.weight
    fresh = np.ones(len(flat.starts), bool)
    prob, last, _ = run_filter(model.filter, flat, chunk.contexts, fresh)
    if a < 1.0:
        beside = model.followers.prob(chunk.nodes, flat.codes, model.ends)
        seen = flat.codes < model.trees.n_symbols + model.ends
        prob = np.where(seen, a * prob + (1.0 - a) * beside, 1.0)
    return prob, last


def _each(run: Callable[[int, int], object], sequences: Sequences, n_jobs: int | None) -> None:
    sizes = sequences.offsets + np.arange(len(sequences) + 1)  # ends count too
    each(lambda bounds: run(*bounds), chunks(sizes), n_jobs)


def surprise(
    model: ContextModel, sequences: Sequences, n_jobs: int | None = None
) -> tuple[Floats, Floats]:
    """-log p of each symbol given what came before it, end to end, and of the end of each sequence.

    A missing symbol has none: 0. So has an end that is not predicted.
    """
    out, ends = np.zeros(sequences.n_total), np.zeros(len(sequences))

    def run(first: int, last: int) -> None:
        chunk = _lay_out(model, sequences, first, last)
        values = 0.0 - np.log(_probabilities(model, chunk)[0])  # not -0 where p is 1
        a, b = sequences.offsets[first], sequences.offsets[last]
        inside = chunk.flat.codes != model.trees.n_symbols
        out[a:b] = values[inside]
        if model.ends:
            ends[first:last] = values[chunk.flat.stops - 1]

    _each(run, sequences, n_jobs)
    return out, ends


def log_prob(model: ContextModel, sequences: Sequences, n_jobs: int | None = None) -> Floats:
    """Log-probability of each sequence, its end included where ends are predicted."""
    steps, ends = surprise(model, sequences, n_jobs)
    return -np.add.reduceat(steps, sequences.offsets[:-1]) - ends


def states_of(model: ContextModel, sequences: Sequences, n_jobs: int | None = None) -> list[Floats]:
    """The state before each symbol and after the last: (length + 1, rank) for each sequence."""
    rows: list[Floats] = [np.empty(0)] * len(sequences)

    def run(first: int, last: int) -> None:
        chunk = _lay_out(model, sequences, first, last)
        flat = chunk.flat
        fresh = np.ones(len(flat.starts), bool)
        states = run_filter(model.filter, flat, chunk.contexts, fresh, keep=True)[2]
        for i, (a, b) in enumerate(zip(flat.starts, flat.stops, strict=True)):
            rows[first + i] = states[a:b].copy()

    _each(run, sequences, n_jobs)
    return rows


def next_distribution(
    model: ContextModel, sequences: Sequences, horizon: int = 1, n_jobs: int | None = None
) -> Floats:
    """Distribution `horizon` steps after each sequence, (n, n_symbols), with a column for the end.

    One step ahead it is the mixture's. Further steps weigh the states that may follow by it, and
    the operators take these on; an end stays an end.
    """
    n_o = model.trees.n_symbols
    out = np.empty((len(sequences), n_o + model.ends))

    def run(first: int, last: int) -> None:
        chunk = _lay_out(model, sequences, first, last)
        states = _probabilities(model, chunk)[1]
        out[first:last] = ahead(model, states, chunk.nodes[chunk.flat.stops - 1], horizon)

    _each(run, sequences, n_jobs)
    return out


def ahead(model: ContextModel, states: Floats, nodes: Codes, horizon: int = 1) -> Floats:
    """Distribution of the outcome `horizon` steps after states whose pasts are at the nodes."""
    n_o, a = model.trees.n_symbols, model.weight
    p, raw = predictions(model.filter, states)
    if a < 1.0:
        beside = np.array([model.followers.row(int(node)) for node in nodes]).reshape(-1, n_o + 1)
        if not model.ends:
            beside = beside[:, :n_o] / (1.0 - beside[:, n_o:])
        p = a * p + (1.0 - a) * beside
    if horizon == 1:
        return p
    out = np.zeros_like(p)
    for i in range(len(states)):
        out[i] = _further(model, states[i], p[i], raw[i], horizon - 1)
    return out


def _further(model: ContextModel, state: Floats, p: Floats, raw: Floats, steps: int) -> Floats:
    """Distribution `steps` after the next outcome, which has distribution `p`."""
    n_o = model.trees.n_symbols
    good = np.flatnonzero((raw[:n_o] >= model.filter.epsilon) & (p[:n_o] > 0))
    after = moved(model.filter, np.tile(state, (len(good), 1)), good) / raw[good, None]
    weight = p[good] / max(p[good].sum(), 1e-300)
    q = weight @ after if len(good) else model.operators.start
    missing = np.array([n_o + 1])
    ended = p[n_o] if model.ends else 0.0
    here = p
    for step in range(steps):
        here, raw = (x[0] for x in predictions(model.filter, q[None]))
        if step < steps - 1:
            continues = raw[:n_o].sum()
            if model.ends:
                ended += (1.0 - ended) * here[n_o]
            if not continues > model.filter.epsilon:
                break
            q = moved(model.filter, q[None], missing)[0] / continues
    if model.ends:
        here = here * (1.0 - ended)
        here[n_o] += ended
    return here


class Walk:
    """A sequence under way, one symbol at a time: its state, and its past as runs.

    What is kept of the past is bounded: as many runs as a tree reads, each as long as the longest
    bucket.
    """

    def __init__(self, model: ContextModel) -> None:
        self.model = model
        self.state = model.operators.start.copy()
        self.codes = np.array([model.trees.n_symbols], np.int32)

    @property
    def node(self) -> int:
        """The node of the past."""
        tree, codes = self.model.trees.pasts, self.codes
        same = np.append(False, codes[1:] == codes[:-1])
        same[:2] = False
        first = np.maximum.accumulate(np.where(same, 0, np.arange(len(codes)))).astype(np.int32)
        where = (codes, first, len(codes) - 1, -1)
        return int(descend(*where, *tree.lookup, tree.by_runs, BUCKET_OF, BUCKETS))

    def distribution(self, horizon: int = 1) -> Floats:
        """Distribution of what comes `horizon` steps on."""
        node = np.array([self.node], np.int32)
        return ahead(self.model, self.state[None], node, horizon)[0]

    def update(self, code: int) -> float:
        """Take a symbol, -1 where missing; its surprise."""
        model, n_o = self.model, self.model.trees.n_symbols
        p = self.distribution()
        raw = predictions(model.filter, self.state[None])[1][0]
        token = code if code >= 0 else n_o + 1
        self._remember(token)
        here = raw[code] if code >= 0 else raw[:n_o].sum()
        astray = np.maximum(raw, model.filter.epsilon).sum()
        if here >= model.filter.epsilon and astray < 20.0:
            self.state = moved(model.filter, self.state[None], np.array([token]))[0] / here
        else:
            context = model.trees.past_context[self.node]
            self.state = model.operators.restart[context].copy()
        return 0.0 - float(np.log(p[code])) if code >= 0 else 0.0

    def end(self) -> float:
        """The surprise of an end here; 0 where ends are not predicted."""
        if not self.model.ends:
            return 0.0
        return 0.0 - float(np.log(self.distribution()[-1]))

    def _remember(self, token: int) -> None:
        longest = int(BUCKETS[-1]) + 1
        tail = self.codes[-longest:]
        if len(tail) == longest and (tail == token).all():
            return  # the run is as long as any bucket tells
        self.codes = np.append(self.codes, np.int32(token))
        if len(self.codes) > 2 * MAX_RUNS * longest:
            self.codes = self.codes[-MAX_RUNS * longest :].copy()


def draw(
    model: ContextModel, n: int, length: int | None, rng: np.random.Generator, most: int = 100_000
) -> list[NDArray[np.int32]]:
    """Draw sequences of codes: of a length, or to their ends where these are predicted."""
    rows = []
    for _ in range(n):
        walk, codes = Walk(model), []
        while len(codes) < (most if length is None else length):
            p = walk.distribution()
            code = int(rng.choice(len(p), p=p / p.sum()))
            if code == model.trees.n_symbols:
                if length is None:
                    break
                continue
            codes.append(code)
            walk.update(code)
        rows.append(np.array(codes, np.int32))
    return rows
