"""Slow twins of the kernels: sums over every hidden path, in plain loops over plain numbers.

A hidden path is a list of cells, one per step: the state, the steps that remain, this one included,
and how the cell was reached: "enter" where a stay begins, "hold" in a tail, "down" counting down.
Of the first stay of a left-censored sequence only the remaining steps are known.
"""

import math
from dataclasses import dataclass

import numpy as np


def default_initial(params):
    """Stays begin where the sequence does."""
    return params.start[:, None] * params.duration


def moves(params, x, r):
    """What may follow cell (x, r): (probability, the next cell), or None for the end."""
    n_x, n_d = params.duration.shape
    down = 1.0
    if r == n_d:
        hold = float(params.tail[x])
        yield hold, (x, n_d, "hold")
        down = 1.0 - hold
    if r > 1:
        yield down, (x, r - 1, "down")
        return
    end = float(params.end[x]) if params.ends else 0.0
    yield down * end, None
    for z in range(n_x):
        for d in range(1, n_d + 1):
            p = float(params.transition[x, z]) * float(params.duration[z, d - 1])
            yield down * (1.0 - end) * p, (z, d, "enter")


def paths(params, length, initial=None):
    """Every hidden path over steps 0 ... length - 1, with its probability if that is > 0."""
    initial = default_initial(params) if initial is None else np.asarray(initial)

    def extend(cells, probability):
        x, r, _ = cells[-1]
        if len(cells) == length:
            over = sum(p for p, cell in moves(params, x, r) if cell is None)
            if not params.ends or probability * over > 0.0:
                yield probability * (over if params.ends else 1.0), cells
            return
        for p, cell in moves(params, x, r):
            if cell is not None and p > 0.0:
                yield from extend([*cells, cell], probability * p)

    for (x, d), p in np.ndenumerate(initial):
        if p > 0.0:
            yield from extend([(x, d + 1, "enter")], float(p) * (1.0 - params.empty))


def emission_factor(params, cells, codes, labels=None):
    """p(codes | path); a missing code (-1) is no evidence, a label (>= 0) excludes other states."""
    product = 1.0
    for t, (x, _, _) in enumerate(cells):
        if codes[t] >= 0:
            product *= float(params.emission[x, codes[t]])
        if labels is not None and labels[t] >= 0 and labels[t] != x:
            return 0.0
    return product


@dataclass
class Enumerated:
    """All results of enumeration for one sequence."""

    probability: float
    gamma: np.ndarray
    initial: np.ndarray
    transition: np.ndarray
    duration: np.ndarray
    emission: np.ndarray
    tail: np.ndarray
    end: np.ndarray
    best: float  # the largest joint probability of states, stays and codes
    best_paths: list  # the (states, begins) that reach it to rounding
    last: np.ndarray  # p(state, steps left at the last step | codes)


def enumerate_paths(params, codes, initial=None, labels=None):
    """Sum over every hidden path."""
    n_x, n_d = params.duration.shape
    length = len(codes)
    p = 0.0
    gamma = np.zeros((length, n_x))
    start = np.zeros((n_x, n_d))
    transition = np.zeros((n_x, n_x))
    duration = np.zeros((n_x, n_d))
    emission = np.zeros(params.emission.shape)
    tail, end = np.zeros((n_x, 2)), np.zeros(n_x)
    last = np.zeros((n_x, n_d))
    seen = {}  # the visible part of a path, summed over how far its last stay exceeds the end
    for prior, cells in paths(params, length, initial):
        weight = prior * emission_factor(params, cells, codes, labels)
        if weight == 0.0:
            continue
        p += weight
        start[cells[0][0], cells[0][1] - 1] += weight
        for t, (x, r, how) in enumerate(cells):
            before = cells[t - 1][:2] if t else None
            if t and how == "enter":
                transition[before[0], x] += weight
                duration[x, r - 1] += weight
            if t and before[1] == n_d:
                tail[before[0], 0 if how == "hold" else 1] += weight
            gamma[t, x] += weight
            if codes[t] >= 0:
                emission[x, codes[t]] += weight
        x, r, _ = cells[-1]
        last[x, r - 1] += weight
        if params.ends:
            end[x] += weight
            tail[x, 1] += weight * (n_d == 1)
        begins = tuple(t for t, cell in enumerate(cells) if cell[2] == "enter")
        key = tuple(x for x, _, _ in cells), begins
        seen[key] = seen.get(key, 0.0) + weight
    best = max(seen.values(), default=0.0)
    share = 1.0 / p if p else 0.0
    return Enumerated(
        p,
        gamma * share,
        start * share,
        transition * share,
        duration * share,
        emission * share,
        tail * share,
        end * share,
        best,
        [key for key, weight in seen.items() if weight >= best * (1 - 1e-12)],
        last * share,
    )


def log_sum_exp(values, axis=None):
    """log Σ exp(values), with -inf for a sum of nothing."""
    top = np.max(values, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        result = np.log(np.sum(np.exp(values - top), axis=axis, keepdims=True)) + top
    return float(result.item()) if axis is None else np.squeeze(result, axis)


def forward_in_logs(params, codes, initial=None):
    """log p(codes) by the forward recursion on logarithms, without any scaling."""
    with np.errstate(divide="ignore"):
        A, D, B = (np.log(t) for t in (params.transition, params.duration, params.emission))
        alpha = np.log(default_initial(params) if initial is None else initial)
        alpha = alpha + np.log(1.0 - params.empty)
        hold, release = np.log(params.tail), np.log(1.0 - params.tail)
        end = np.log(params.end) if params.ends else np.full(params.n_states, -np.inf)
        more = np.log(1.0 - params.end) if params.ends else np.zeros(params.n_states)
    silent = np.zeros(params.n_states)
    for t, code in enumerate(codes):
        if t:
            held = alpha[:, -1] + hold
            alpha[:, -1] += release
            enter = log_sum_exp(alpha[:, :1] + more[:, None] + A, axis=0)
            fresh = enter[:, None] + D
            fresh[:, :-1] = np.logaddexp(fresh[:, :-1], alpha[:, 1:])
            fresh[:, -1] = np.logaddexp(fresh[:, -1], held)
            alpha = fresh
        alpha = alpha + (B[:, code] if code >= 0 else silent)[:, None]
    if params.ends:
        alpha[:, -1] += release
        return log_sum_exp(alpha[:, 0] + end)
    return log_sum_exp(alpha)


def stay_probability(durations, tail, n, last):
    """p(a stay lasts n steps), or at least n for the last one, given the row of its first cells."""
    n_d = len(durations)
    if n < n_d:
        return durations[n - 1 :].sum() if last else durations[n - 1]
    return durations[-1] * tail ** (n - n_d) * (1.0 if last else 1.0 - tail)


def score_path(params, codes, states, begins, initial=None):
    """log p(states, stays, codes); without ends the last stay may have had any longer duration."""
    initial = default_initial(params) if initial is None else np.asarray(initial)
    initial = initial * (1.0 - params.empty)
    firsts = [t for t in range(len(codes)) if begins[t]]
    lengths = np.diff([*firsts, len(codes)])
    total = 0.0
    for i, (first, n) in enumerate(zip(firsts, lengths, strict=True)):
        x, censored = states[first], i == len(firsts) - 1 and not params.ends
        durations = initial[x] if i == 0 else params.duration[x]
        p = stay_probability(durations, params.tail[x], n, censored)
        if i:
            before = states[firsts[i - 1]]
            p *= params.transition[before, x] * (1.0 - params.end[before] if params.ends else 1.0)
        total += math.log(p)
    for x, code in zip(states, codes, strict=True):
        total += math.log(params.emission[x, code]) if code >= 0 else 0.0
    return total + (math.log(params.end[states[-1]]) if params.ends else 0.0)
