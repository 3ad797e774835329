"""Spectral learning on contexts in plain Python and NumPy: what `SpectralHSMM` computes, slowly.

A row is a list of symbols 0 … n_o - 1, None where one is missing. A position is a step of a row, or
its end. What comes before a position is its past, read backwards, the rest its future, both in
runs. The steps, in the order of this file:

    pasts, futures = grow(past_readings, m), grow(future_readings, m)  # contexts
    counts = count(rows, pasts, futures, n_o)                          # one pass
    model = learn(counts, k)                                           # one SVD
    filtered(row, model, counts, pasts)                                # the filter
    follow(rows, pasts, n_o)                                           # the context tree beside it

`SpectralHSMM` mixes the filter's predictions with those of a context tree (`follow`; where ends are
not predicted, given that there is none). It holds out about a fifth of the rows, chooses m, k, the
ridge and the weight of the mixture by their likelihood, and then learns again from all rows.
The method comes from I. Melnyk and A. Banerjee, "A Spectral Algorithm for Inference in Hidden
semi-Markov Models" (arXiv 1407.3422), whose windows of fixed offsets are in `paper`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from sojourn.contexts.trees import BUCKETS

Row = Sequence[int | None]
Reading = tuple[Any, ...]
EDGE, MISSING = "edge", "missing"  # the start or end of a row; a symbol that is not known
RIDGE, ASTRAY = 0.1, 20.0
SMOOTHING = 20.0


def reading(symbols: Row) -> Reading:
    """Symbols in runs, each as its symbol and a bucket of its length, up to where they close."""
    tokens: list[Any] = []
    for symbol, run in groupby(symbols):
        if symbol is None:
            return (*tokens, MISSING)
        tokens += [symbol, ("run", bisect_right(BUCKETS.tolist(), len(list(run))) - 1)]
    return (*tokens, EDGE)


def past(row: Row, t: int) -> Reading:
    """The past of position t: the symbols before it, the last one first."""
    return reading(row[:t][::-1])


def future(row: Row, t: int) -> Reading:
    """The future of position t: the symbols from it on."""
    return reading(row[t:])


def grow(readings: Sequence[Reading], m: float) -> Callable[[Reading], Reading]:
    """A tree of readings, as the function that gives the context of one: a part of its beginning.

    A node that m readings begin with is split by their next token. Children with fewer than m/2
    share the context of what ends at their parent, but for those at the start or end of a row.
    """
    met: Counter[Reading] = Counter([()] * len(readings))
    layer, depth = list(readings), 0
    while layer:  # one token more of the readings whose beginning is still frequent
        layer = [r for r in layer if len(r) > depth and met[r[:depth]] >= m]
        depth += 1
        met.update(r[:depth] for r in layer)
    own = {node for node, n in met.items() if node and (n >= m / 2 or node[-1] == EDGE)}
    opened = {node[:-1] for node in own if met[node[:-1]] >= m}

    def context(r: Reading) -> Reading:
        depth = 0
        while r[:depth] in opened and depth < len(r) and r[: depth + 1] in own:
            depth += 1
        return r[:depth]

    return context


class Counts(NamedTuple):
    """How often futures follow pasts; contexts are numbered as they come."""

    pasts: dict[Reading, int]
    futures: dict[Reading, int]
    H: Any  # past and future at a position                                       (n_u, n_v)
    H_o: Any  # past, symbol, and the future after it                             (n_o, n_u, n_v)
    first: Any  # future where a row starts                                       (n_v,)


def count(rows: Sequence[Row], pasts: Any, futures: Any, n_o: int) -> Counts:
    """One pass over all positions; the end of a row is one."""
    at = [[(pasts(past(r, t)), futures(future(r, t))) for t in range(len(r) + 1)] for r in rows]
    u = {c: i for i, c in enumerate(dict.fromkeys(p for row in at for p, _ in row))}
    v = {c: i for i, c in enumerate(dict.fromkeys(f for row in at for _, f in row))}
    H, H_o, first = np.zeros((len(u), len(v))), np.zeros((n_o, len(u), len(v))), np.zeros(len(v))
    for row, here in zip(rows, at, strict=True):
        first[v[here[0][1]]] += 1
        for t, (p, f) in enumerate(here):
            H[u[p], v[f]] += 1
            if t < len(row) and row[t] is not None:
                H_o[row[t], u[p], v[here[t + 1][1]]] += 1
    return Counts(u, v, H, H_o, first)


class Model(NamedTuple):
    """Operators: p(o | q) = emit[o] · q, and q becomes q M[o] / p(o | q)."""

    start: Any  # (k,)
    M: Any  # (n_o, k, k)
    emit: Any  # of the symbols and, last, of the end                             (n_o + 1, k)
    restart: Any  # the state of each past                                        (n_u, k)


def learn(counts: Counts, k: int, ends: bool = False, ridge: float = RIDGE) -> Model:
    """Operators from counts; contexts are one-hot, so the scaling is canonical correlation's.

    Where ends are not predicted, futures that reach the end are left out.
    """
    used = np.array([ends or f[-1:] != (EDGE,) for f in counts.futures])
    H, H_o, first = counts.H[:, used], counts.H_o[:, :, used], counts.first[used]
    some, n = H.sum(axis=1) > 0, H.sum()  # some pasts have no other futures
    d_u, d_v = np.where(some, H.sum(axis=1), np.inf) ** -0.5, H.sum(axis=0) ** -0.5
    U, s, Vt = np.linalg.svd(d_u[:, None] * H * d_v, full_matrices=False)
    U, s, V = U[:, :k], s[:k], Vt[:k].T  # D_u^-½ H D_v^-½ ≈ U S Vᵀ
    W = d_v[:, None] * V  # Ṽ = D_v^-½ V                                          (n_v, k)
    R = ridge * (np.sqrt(some.sum()) + np.sqrt(len(d_v))) ** 2 / n * (np.arange(len(s)) > 0)
    G = (d_u[:, None] * U * s / (s**2 + R)).T  # (S² + R)⁻¹ S Uᵀ D_u^-½           (k, n_u)
    M = np.einsum("ku,ouv,vl->okl", G, H_o, W)  # M_o = G H_o Ṽ            (n_o, k, k)
    w = V.T @ (1 / d_v)  # w = Vᵀ D_v^½ 1                                         (k,)
    end = np.array([f[:1] == (EDGE,) for f in counts.futures])[used]  # futures that are an end
    emit = np.vstack([M @ w, V[end].T @ (1 / d_v)[end]])  # p(o | q) = q M_o w
    first = first + H.sum(axis=0) / n  # one average future more
    start = first / first.sum() @ W
    restart = d_u[:, None] ** 2 * (H @ W)  # D_u⁻¹ H Ṽ                            (n_u, k)
    return Model(start, M, emit, np.where(some[:, None], restart, start))


def surprise(row: Row, model: Model, counts: Counts, pasts: Any, ends: bool = False) -> Any:
    """-log p of each symbol given those before it, and of the end, by the normalised filter.

    Predictions are cut below at ε and made to sum to one; the state is divided by the prediction
    before it was cut. Where that is less than ε, or predictions that were cut sum to much more than
    one, the state restarts at that of the past.
    """
    out: list[float] = []
    q, n_o = model.start, len(model.M)
    epsilon = min(1e-5, 1e-3 / n_o)
    for t, symbol in enumerate((*row, EDGE)):
        raw = model.emit[: n_o + ends] @ q
        cut = np.maximum(raw, epsilon)
        p = cut / cut.sum()
        if symbol == EDGE:
            return np.array([*out, -np.log(p[n_o])] if ends else out)
        here = raw[:n_o].sum() if symbol is None else raw[symbol]
        out.append(0.0 if symbol is None else -np.log(p[symbol]))
        move = model.M.sum(axis=0) if symbol is None else model.M[symbol]
        if here >= epsilon and cut.sum() < ASTRAY:
            q = q @ move / here
        else:
            q = model.restart[counts.pasts[pasts(past(row[: t + 1], t + 1))]]
    return None


def follow(rows: Sequence[Row], pasts: Any, n_o: int) -> Callable[[Reading], Any]:
    """The context tree: what follows a past, smoothed by what follows shorter ones.

    p(node) = (counts + 20 p(parent)) / (n + 20), the parent of the root being uniform.
    `SpectralHSMM` learns from held-out rows how far to trust each node instead.
    """
    met: Counter[tuple[Reading, Any]] = Counter()
    for row in rows:
        for t, symbol in enumerate((*row, n_o)):
            node = pasts(past(row, t)) if symbol is not None else ()
            met.update(
                (node[:depth], symbol) for depth in range(len(node) + 1) if symbol is not None
            )

    def predicted(r: Reading) -> Any:
        p, node = np.full(n_o + 1, 1 / (n_o + 1)), pasts(r)
        for depth in range(len(node) + 1):
            counts = np.array([met[node[:depth], symbol] for symbol in range(n_o + 1)])
            p = (counts + SMOOTHING * p) / (counts.sum() + SMOOTHING)
        return p

    return predicted
