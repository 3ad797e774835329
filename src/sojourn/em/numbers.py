"""Where EM starts on numbers: steps sorted into states by what they measure, and by what they do.

Numbers are quantised by k-means. Clusters of the values themselves, as many as there are states,
are one kind of start. The other is of finer clusters, of the values and their changes: pasts of
their codes that promise the same future are one state (`predictive`). Either way a step has a
state, and the values of a state give its density. The starts take a few steps of EM each on a
sample, and the best continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals
from sojourn.em.em import EMResult
from sojourn.em.predictive import cluster_pasts
from sojourn.em.recovery import flat_around
from sojourn.em.start import with_tails_and_ends
from sojourn.em.subsample import draw_samples
from sojourn.emissions.base import Emission, column_moments
from sojourn.exact.params import Params
from sojourn.scale.threads import in_order
from sojourn.spectral.classes import k_means

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]

# Steps that starts are made from and compared on, at most.
STEPS_FOR_STARTS = 1 << 16
STAYS_PER_PIECE = 32  # longer sequences are cut, for samples only
# Codes per state for clustered pasts, and bounds of their number.
CODES_PER_STATE, FEWEST_CODES, MOST_CODES = 4, 6, 48
CLUSTERINGS = 3  # of the values, from random centres
# Passes of each round of the race, and how many starts are left after it.
ROUNDS = ((6, 3), (20, 1))
# Beyond so many deviations a value is an outlier, which must not have a cluster of its own.
FARTHEST = 5.0


@dataclass(frozen=True, eq=False)
class Wish:
    """The model that is wanted."""

    emission: Emission  # without parameters
    n_states: int
    max_duration: int
    loops: bool
    tail: Sequence[bool]
    ends: bool


def start_numbers(
    data: Signals, wish: Wish, init: str, em: Callable[..., EMResult], rng: int, n_jobs: int | None
) -> Params:
    """The model from which EM starts on numbers; `em` is :func:`run_em` with its options."""
    generator = np.random.default_rng(rng).spawn(3)[2]
    sample = _sample(data, wish, generator)
    with threadpool_limits(limits=1):
        labels = list(_labels(sample, wish, init, generator))
    models = [labelled_numbers(sample, row, wish) for row in labels]
    for passes, n_kept in ROUNDS:
        if len(models) > 1:
            run = partial(em, data=sample, max_iter=passes, n_jobs=1)
            results = list(in_order(run, models, n_jobs))
            best_first = sorted(results, key=lambda r: -r.history[-1])
            models = [r.params for r in best_first[:n_kept]]
    return models[0]


def quantised(signals: Signals, n_codes: int, changes: bool, rng: np.random.Generator) -> Codes:
    """The cluster of each step, by its standardised values and, with `changes`, how they change."""
    features = _features(signals)
    if changes:
        steps = np.zeros_like(features)
        steps[1:] = np.diff(features, axis=0)
        starts = signals.offsets[:-1]
        steps[starts[starts < len(steps)]] = 0.0
        spread = steps.std(axis=0)
        features = np.hstack([features, steps / np.where(spread > 0.0, spread, 1.0)])
    n_codes = min(n_codes, len(np.unique(features[: 64 * n_codes], axis=0)))
    found = k_means(features, None, n_codes, int(rng.integers(2**31)), max_iter=50)
    return np.asarray(found.labels_, np.int32)


def _features(signals: Signals) -> Floats:
    """Values in standard deviations, 0 where missing; symbols as one column each."""
    columns = []
    for name, column in zip(signals.channels, signals.values.T, strict=True):
        if name in signals.categories:
            n = len(signals.categories[name])
            columns.append((column[:, None] == np.arange(n)).astype(np.float64))
            continue
        mean, spread = column_moments(column[:, None])
        scaled = (column - mean) / np.where(spread > 0.0, spread, 1.0)
        columns.append(np.clip(np.nan_to_num(scaled), -FARTHEST, FARTHEST)[:, None])
    return np.hstack(columns)


def _sample(data: Signals, wish: Wish, rng: np.random.Generator) -> Signals:
    """A part of the data that is enough to start from."""
    if data.n_total <= 1.5 * STEPS_FOR_STARTS:
        return data
    piece = data.n_total if wish.ends else STAYS_PER_PIECE * wish.max_duration
    drawn = draw_samples(data, [STEPS_FOR_STARTS], piece, int(rng.integers(2**63)))[0]
    assert isinstance(drawn, Signals)
    return drawn


def _labels(sample: Signals, wish: Wish, init: str, rng: np.random.Generator) -> list[Codes]:
    """States of the steps of the sample, one array per start."""
    n_x = wish.n_states
    if init == "random":
        return [rng.integers(0, n_x, sample.n_total).astype(np.int32) for _ in range(CLUSTERINGS)]
    found = [quantised(sample, n_x, False, rng) for _ in range(CLUSTERINGS)]
    found.append(quantised(sample, n_x, True, rng))
    return found + _by_futures(sample, wish, rng)


def _by_futures(sample: Signals, wish: Wish, rng: np.random.Generator) -> list[Codes]:
    """States by what follows the codes of fine clusters."""
    n_o = int(np.clip(CODES_PER_STATE * wish.n_states, FEWEST_CODES, MOST_CODES))
    codes = quantised(sample, n_o, True, rng)
    vocabulary = np.arange(int(codes.max()) + 1)
    sequences = Sequences(codes, sample.offsets, vocabulary, sample.ids)
    return cluster_pasts(sequences, wish.n_states, wish.ends, rng)


def labelled_numbers(sample: Signals, labels: Codes, wish: Wish) -> Params:
    """The model of steps whose states are known."""
    n_x = wish.n_states
    tables = flat_around(np.ones((n_x, 1)), wish.max_duration, wish.loops)
    tables = with_tails_and_ends(tables, wish.tail, wish.ends)
    known = np.eye(n_x + 1)[labels][:, :n_x]  # none of them where the label is -1
    return replace(tables, density=wish.emission.start(sample.values, known))
