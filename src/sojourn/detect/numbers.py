"""Measurements in the detector: their surprise in comparable units, residuals and reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from sojourn.data.runs import sums
from sojourn.data.sequences import Sequences
from sojourn.data.signals import Signals

Floats = NDArray[np.float64]

FAR = 2.0  # standard deviations from which a value is away from what its state has
LEAST_LOG = -1e3  # of a probability, which an outlier must not make infinite


def usual_surprise(model: Any) -> float:
    """The surprise of a step at the mean of all the data: what depends on units alone.

    A density is per unit of its channels, so its logarithm shifts with the units.
    """
    density = model._density
    if density is None:
        return 0.0
    if not model.has_states:
        return float(np.log(np.sqrt(2 * np.pi) * model.codebook_.cells.scale_).sum())
    share = model.occupancy_[:, None]
    mean = (share * density.mean()).sum(axis=0)
    variance = (share * (density.spread() ** 2 + (density.mean() - mean) ** 2)).sum(axis=0)
    known = np.isfinite(variance) & (variance > 0.0)
    return float(0.5 * np.log(2 * np.pi * variance[known]).sum())


def surprises(model: Any, sequences: Sequences) -> tuple[list[Floats], Floats]:
    """Surprise of the steps of each sequence; and of its end, zero if the model has no ends."""
    rows, usual = model.surprise(sequences), usual_surprise(model)
    pairs = list(zip(rows, sequences.lengths.tolist(), strict=True))
    ends = np.array([row[length:].sum() for row, length in pairs])
    return [row[:length] - usual for row, length in pairs], ends


def state_names(model: Any) -> list[str]:
    """States with what they mostly emit."""
    density, top = model.params_.density, model.params_.emission.argmax(axis=1)
    if density is not None:
        emitted = [density.sentence(x, model.channels_) for x in range(len(top))]
    else:
        emitted = [f"mostly {symbol}" for symbol in model.vocabulary_[top].tolist()]
    return [f"{name} ({what})" for name, what in zip(model.state_names, emitted, strict=True)]


def blank_like(sequences: Sequences, lengths: NDArray[np.int64]) -> Sequences:
    """Sequences of these lengths in which everything is missing."""
    offsets = np.append(0, np.cumsum(lengths))
    ids, n = np.arange(len(lengths)), int(offsets[-1])
    if isinstance(sequences, Signals):
        values = np.full((n, len(sequences.channels)), np.nan)
        return Signals.of(values, offsets, ids, sequences.channels, sequences.categories)
    return Sequences(np.full(n, -1, np.int32), offsets, sequences.vocabulary, ids)


def value_residuals(model: Any, signals: Signals, gamma: Floats) -> Floats:
    """How far values are from what their states have, on average and in spread, per sequence.

    `gamma` are the posterior probabilities of the states, (n_total, n_states).
    """
    density, parts = model._density, []
    mean, spread = density.mean(), density.spread()
    for x in range(density.n_states):
        z = (signals.values - mean[x]) / np.where(spread[x] > 0.0, spread[x], 1.0)
        seen = np.isfinite(z)
        w = np.where(seen, gamma[:, x, None], 0.0)
        z = np.clip(np.where(seen, z, 0.0), -10.0, 10.0)
        root = np.sqrt(_summed(w, signals) + 1.0)
        parts += [_summed(w * z, signals) / root, _summed(w * (z * z - 1), signals) / root]
    return np.hstack(parts)


def _summed(table: Floats, signals: Signals) -> Floats:
    """Sums of each column over each sequence, (n, n_columns)."""
    return np.stack([sums(column, signals.offsets) for column in table.T], axis=1)


def far_values(model: Any, one: Signals) -> Iterator[tuple[str, float, int, int, str]]:
    """Stretches in which a channel is away from what its state has, as arguments of `Reason`.

    Without states, from what was expected after the steps before.
    """
    density, path = model._density, []
    if model.has_states:
        (path,) = model.predict(one)
        mean, spread = density.mean()[path], density.spread()[path]
    else:
        p = model.predict_next(one, prefixes=True)[0].states[:-1]
        p = p / p.sum(axis=1, keepdims=True)
        mean = p @ density.mean()
        spread = np.sqrt(p @ (density.mean() ** 2 + density.spread() ** 2) - mean**2)
    z = (one.values - mean) / np.where(spread > 0.0, spread, 1.0)
    for j, name in enumerate(one.channels):
        for sign, word in ((1, "above"), (-1, "below")):
            away = sign * z[:, j]
            stretch = _worst(np.where(np.isfinite(away), away, 0.0))
            if stretch is None:
                continue
            start, stop, log_p = stretch
            size = float(away[start:stop].mean())
            one_step = stop == start + 1
            where = f"at step {stop}" if one_step else f"from step {start + 1} to {stop}"
            names = {model.state_names[x] for x in path[start:stop]}
            state = names.pop() if len(names) == 1 else "each state"
            usual = f"what {state} has" if model.has_states else "what was expected"
            text = f"{name} is {size:.1f} standard deviations {word} {usual}, {where}"
            chances = np.log(z.size) + log_p  # of as much anywhere in the sequence
            brief = f"{name} {word} what {'its state has' if model.has_states else 'is expected'}"
            yield text, float(-ndtri_exp(min(chances, np.log(0.5)))), start, stop, brief


def _worst(away: Floats) -> tuple[int, int, float] | None:
    """The stretch that is least likely by chance, with the logarithm of its probability."""
    far = np.append(away >= FAR, False)
    edges = np.flatnonzero(np.diff(np.append(0, far.astype(np.int8))))
    if not edges.size:
        return None
    logs = np.append(0.0, np.cumsum(np.maximum(log_ndtr(-away), LEAST_LOG)))
    starts, stops = edges[::2], edges[1::2]
    k = int(np.argmin(logs[stops] - logs[starts]))
    return int(starts[k]), int(stops[k]), float(logs[stops[k]] - logs[starts[k]])
