"""A figure of one sequence of measurements, on the bands of its states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.data.runs import runs
from sojourn.errors import SojournError
from sojourn.plot.base import QUIET, axes_or_new, bare, color_of, label_steps, model_of, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 2.0  # standard deviations on each side of the mean


def signal(
    model: Any, X: Any, index: int = 0, channel: str | int = 0, ax: Axes | None = None
) -> Axes:
    """One channel of a sequence, and the band that the decoded state has at each step.

    Parameters
    ----------
    model : HSMM of measurements, or a detector with one
    X : Signals, list of arrays, or array of three dimensions
    index : int
        Which of them.
    channel : str or int
        Name of the channel, or its place among `channels_`.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import HSMM, plot
    >>> rng = np.random.default_rng(0)
    >>> X = [np.tile(np.repeat([0.0, 5.0], 5), 4) + rng.normal(size=40) for _ in range(5)]
    >>> plot.signal(HSMM(2, 8, max_iter=5).fit(X), X).get_ylabel()
    'channel 0'
    """
    inner = model_of(model, states=True)
    density = inner.params_.density
    if density is None:
        raise SojournError("this is a model of symbols; use plot.timeline")
    names = list(inner.channels_)
    j = names.index(channel) if channel in names else channel
    if not isinstance(j, int) or not -len(names) <= j < len(names):
        raise SojournError(f"there is no channel {channel!r}; there are {', '.join(names)}")
    signals = inner._encode(X, None)
    if not -len(signals) <= index < len(signals):
        raise SojournError(f"index is {index}; there are {len(signals)} sequences")
    one = signals[[index % len(signals)]]
    ax = axes_or_new(ax)
    mean, spread = density.mean()[:, j], density.spread()[:, j]
    for start, length, x in zip(*runs(inner.predict(one)[0]), strict=True):
        low, high = mean[x] - WIDTH * spread[x], mean[x] + WIDTH * spread[x]
        steps = (start - 0.5, start + length - 0.5)
        ax.fill_between(steps, low, high, color=color_of(int(x)), alpha=0.35, linewidth=0)
    ax.plot(np.arange(one.n_total), one.values[:, j], color=QUIET, linewidth=1)
    ax.set_ylabel(plain(names[j]), parse_math=False)
    ax.set_xlim(-0.5, one.n_total - 0.5)
    label_steps(ax, inner)
    return bare(ax)
