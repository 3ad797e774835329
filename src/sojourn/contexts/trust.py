"""How far a node of the context tree is trusted beside its parent: λ = σ(w · f).

The evidence f for a node is how often it was met, how varied what followed it is, and above all
how clearly that differs from what followed its parent: the log-likelihood ratio of the two beside
its degrees of freedom; the root is compared with the uniform distribution. Where nothing differs,
as beyond the memory of the data, nodes are passed over, however often they were met.

The weights w are learned on held-out positions by damped Newton steps, with the sum of the outer
products of the positions' gradients as curvature. A quadratic penalty draws them to `USUAL`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import expit

from sojourn.contexts.trees import BY_LENGTH, Codes, Ints, Tree

Floats = NDArray[np.float64]

# Weights of the columns of `features` that serve birdsong, logs, code, text and simulations alike.
USUAL = np.array([-1.09, 1.41, -1.04, 2.83, -4.53, -0.94, 1.94, -0.32, -3.7, -0.36, 0.56, 1.49])
PENALTY = 0.3
STEPS = 25
ENOUGH = 1e-5  # a step that gains less, in nats per position, is the last
LEAST_DAMPING, MOST_DAMPING = 0.1, 1e4


def features(tree: Tree, first: Ints, symbol: Codes, count: Ints, totals: Floats) -> Floats:
    """The evidence for each node, (n_nodes, len(USUAL))."""
    parent = np.maximum(tree.parent, 0)
    depth, ratio, once = _compared(tree.parent, first, symbol, count, totals, tree.n_symbols + 1)
    variety = np.diff(first).astype(float)
    choices = np.append(tree.n_symbols + 1.0, variety[parent[1:]])
    freedom = np.maximum(np.minimum(choices, totals) - 1.0, 0.0)
    closed = (tree.token >= tree.n_symbols) & (tree.split[parent] != BY_LENGTH)
    n, v = np.log(np.maximum(totals, 1.0)), np.log(np.maximum(variety, 1.0))
    differs = np.log((2.0 * ratio + 1.0) / (freedom + 1.0))
    columns: tuple[Callable[[], Any], ...] = (
        lambda: np.ones(tree.n_nodes),
        lambda: closed,
        lambda: np.log1p(depth),
        lambda: n / 3,
        lambda: v / 2,
        # Good and Turing's share of what is new
        lambda: np.log((once + 0.5) / (totals + 1.0)) / 3,
        lambda: np.log1p(2.0 * ratio) / 2,
        lambda: differs,
        lambda: n * n / 25,
        lambda: differs * differs / 3,
        lambda: differs * n / 5,
        lambda: v * n / 10,
    )
    out = np.empty((tree.n_nodes, len(columns)))
    for j, column in enumerate(columns):  # one at a time: there may be a million nodes
        out[:, j] = column()
    return out


def trust_of(features: Floats, weights: Floats) -> Floats:
    """λ of each node, never quite 0 or 1."""
    return np.asarray(expit(np.clip(features @ weights, -12.0, 12.0)))


def learn_weights(features: Floats, paths: tuple[Ints, Floats, Ints], uniform: float) -> Floats:
    """The weights that held-out positions favour.

    The paths are (begin, share, node): position t has the nodes ``node[begin[t] : begin[t + 1]]``,
    from its own to the root; `share` is the relative frequency of its symbol at each, `uniform`
    what the root's parent gives it.
    """
    begin, share, node = paths
    longest = int(np.diff(begin).max(initial=0))

    def at(w: Floats) -> tuple[float, Floats, Floats]:
        slope, curvature = np.zeros(len(w)), np.zeros((len(w), len(w)))
        arrays = (features, begin, share, node, trust_of(features, w))
        value = _slope(*arrays, uniform, np.empty(longest), slope, curvature)
        away = w - USUAL
        curvature += np.tril(curvature, -1).T + PENALTY * np.eye(len(w))
        return value - PENALTY / 2 * away @ away, slope - PENALTY * away, curvature

    w, damping = USUAL, 0.0
    value, slope, curvature = at(w)
    for _ in range(STEPS):
        damped = curvature + damping * np.diag(np.diag(curvature))
        further = w + np.linalg.solve(damped, slope)
        found = at(further)
        gain = found[0] - value
        if gain > 0:
            w, (value, slope, curvature), damping = further, found, damping / 4
            damping *= damping > LEAST_DAMPING / 100
        else:
            damping = max(4 * damping, LEAST_DAMPING)
        if 0 <= gain < ENOUGH * (len(begin) - 1) or damping > MOST_DAMPING:
            break
    return w


@njit(cache=True, nogil=True)
def _compared(parent, first, symbol, count, totals, n):  # type: ignore[no-untyped-def]
    """Depth of each node, how unlike its followers are to its parent's, how many came once.

    There are n outcomes, equally likely for what is compared with the root.
    """
    size = len(parent)
    depth, ratio, once = np.zeros(size), np.zeros(size), np.zeros(size)
    for x in range(size):
        above = max(parent[x], 0)
        depth[x] = depth[above] + 1.0 if x else 0.0
        at = first[above]
        for j in range(first[x], first[x + 1]):
            while symbol[at] < symbol[j]:  # its parent's symbols are all of its own and more
                at += 1
            expected = count[at] / totals[above] if x else 1.0 / n
            ratio[x] += count[j] * np.log(count[j] / totals[x] / expected)
            once[x] += count[j] == 1
        ratio[x] = max(ratio[x], 0.0)
    return depth, ratio, once


@njit(cache=True, nogil=True)
def _slope(features, begin, share, node, trust, uniform, above, slope, curvature):  # type: ignore[no-untyped-def]
    """The log-likelihood of the positions; adds its slope and, below the diagonal, curvature."""
    k = features.shape[1]
    gradient = np.zeros(k)
    value = 0.0
    for t in range(len(begin) - 1):
        p = uniform
        for j in range(begin[t + 1] - 1, begin[t] - 1, -1):  # from the root down
            above[j - begin[t]] = p
            p += trust[node[j]] * (share[j] - p)
        value += np.log(p)
        gradient[:] = 0.0
        rest = 1.0 / p
        for j in range(begin[t], begin[t + 1]):
            a = trust[node[j]]
            pull = rest * (share[j] - above[j - begin[t]]) * a * (1.0 - a)
            rest *= 1.0 - a
            for i in range(k):
                gradient[i] += pull * features[node[j], i]
        for i in range(k):
            slope[i] += gradient[i]
            for h in range(i + 1):
                curvature[i, h] += gradient[i] * gradient[h]
    return value
