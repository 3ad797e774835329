"""Slow twins of the kernels: sums over every hidden path, in plain loops over plain numbers.

A hidden path is a list of stays (state, first step, duration), with the complete duration, which
may reach beyond the end of the sequence. Of the first stay of a left-censored sequence only the
remaining steps are known.
"""

import math
from dataclasses import dataclass

import numpy as np


def default_initial(params):
    """Stays begin where the sequence does."""
    return params.start[:, None] * params.duration


def paths(params, length, initial=None):
    """Every hidden path that covers steps 0 ... length - 1, with its probability if that is > 0."""
    n_x, n_d = params.duration.shape
    A, D = params.transition.tolist(), params.duration.tolist()
    initial = (default_initial(params) if initial is None else np.asarray(initial)).tolist()

    def extend(t, stays, probability):
        if t >= length:
            yield probability, stays
            return
        here = stays[-1][0]
        for x in range(n_x):
            for d in range(n_d):
                p = probability * A[here][x] * D[x][d]
                if p > 0.0:
                    yield from extend(t + d + 1, [*stays, (x, t, d + 1)], p)

    for x in range(n_x):
        for d in range(n_d):
            if initial[x][d] > 0.0:
                yield from extend(d + 1, [(x, 0, d + 1)], initial[x][d])


def emission_factor(params, stays, codes, labels=None):
    """p(codes | path); a missing code (-1) is no evidence, a label (>= 0) excludes other states."""
    product = 1.0
    for x, first, duration in stays:
        for t in range(first, min(first + duration, len(codes))):
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
    last = np.zeros((n_x, n_d))
    seen = {}  # the visible part of a path, summed over how far its last stay exceeds the end
    for prior, stays in paths(params, length, initial):
        weight = prior * emission_factor(params, stays, codes, labels)
        if weight == 0.0:
            continue
        p += weight
        start[stays[0][0], stays[0][2] - 1] += weight
        states = []
        for i, (x, first, d) in enumerate(stays):
            if i:
                transition[stays[i - 1][0], x] += weight
                duration[x, d - 1] += weight
            for t in range(first, min(first + d, length)):
                states.append(x)
                gamma[t, x] += weight
                if codes[t] >= 0:
                    emission[x, codes[t]] += weight
        x, first, d = stays[-1]
        last[x, first + d - length] += weight
        key = tuple(states), tuple(first for _, first, _ in stays)
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
    silent = np.zeros(params.n_states)
    for t, code in enumerate(codes):
        if t:
            enter = log_sum_exp(alpha[:, :1] + A, axis=0)
            fresh = enter[:, None] + D
            fresh[:, :-1] = np.logaddexp(fresh[:, :-1], alpha[:, 1:])
            alpha = fresh
        alpha = alpha + (B[:, code] if code >= 0 else silent)[:, None]
    return log_sum_exp(alpha)


def score_path(params, codes, states, begins, initial=None):
    """log p(states, stays, codes); the last stay counts for all the durations it may have had."""
    initial = default_initial(params) if initial is None else np.asarray(initial)
    firsts = [t for t in range(len(codes)) if begins[t]]
    lengths = np.diff([*firsts, len(codes)])
    total = 0.0
    for i, (first, n) in enumerate(zip(firsts, lengths, strict=True)):
        durations = initial[states[0]] if i == 0 else params.duration[states[first]]
        p = durations[n - 1 :].sum() if i == len(firsts) - 1 else durations[n - 1]
        if i:
            p *= params.transition[states[firsts[i - 1]], states[first]]
        total += math.log(p)
    for x, code in zip(states, codes, strict=True):
        total += math.log(params.emission[x, code]) if code >= 0 else 0.0
    return total
