"""A figure of one sequence: its symbols, the states behind them, and how surprising steps are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sojourn.data.as_sequences import as_sequences
from sojourn.data.runs import runs
from sojourn.errors import SojournError
from sojourn.plot.base import (
    ALARM,
    QUIET,
    axes_or_new,
    bare,
    color_of,
    label_steps,
    model_of,
    plain,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LANES = 24  # more symbols than this share the last lane
SURPRISE_LANES = 3.5  # height of the surprise, in lanes of symbols


def lanes(codes: NDArray[Any], names: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Names of the lanes of a timeline, and the lane of each symbol; the rarest may share one."""
    count = np.bincount(codes[codes >= 0], minlength=len(names))
    used = np.flatnonzero(count)
    if len(used) > MOST_LANES:
        used = np.sort(used[np.argsort(-count[used], kind="stable")[: MOST_LANES - 1]])
    lane = np.full(len(names), -1)
    lane[used] = np.arange(len(used))
    others = np.flatnonzero((count > 0) & (lane < 0))
    shown = [names[k] for k in used.tolist()]
    if len(others):
        lane[others] = len(used)
        shown.append(f"{len(others)} other symbols")
    return shown, lane


def timeline(
    model: Any, X: Any, index: int = 0, marks: Iterable[int] = (), ax: Axes | None = None
) -> Axes:
    """One sequence from its first step to its last: symbols, decoded states, surprise.

    Parameters
    ----------
    model : HSMM, SpectralHSMM, or a detector with one
        A `SpectralHSMM` has no states, and none are shown.
    X : Sequences, list of sequences or integer array
    index : int
        Which of them.
    marks : iterable of int
        Steps to point out.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import HSMM, Params, plot
    >>> seqs = Params.random(2, 4, 3, rng=0).sample(50, 30, rng=1)
    >>> plot.timeline(HSMM(2, 4).fit(seqs), seqs, 7, marks=[12]).get_xlabel()
    'step'
    """
    inner = model_of(model)
    sequences = as_sequences(X, None, inner.vocabulary_, inner.unknown)
    if not -len(sequences) <= index < len(sequences):
        raise SojournError(f"index is {index}; there are {len(sequences)} sequences")
    index %= len(sequences)
    one = sequences[index : index + 1]
    names, lane = lanes(one.codes, [plain(name) for name in one.vocabulary.tolist()])
    ax = axes_or_new(ax)
    ticks, labels = list(range(len(names))), [short(name) for name in names]
    for start, length, code in zip(*runs(one.codes), strict=True):
        if code >= 0:
            ax.broken_barh([(start, length)], (lane[code] - 0.32, 0.64), color=QUIET)
    y = float(len(names))
    if inner.has_states:
        for start, length, state in zip(*runs(inner.predict(one)[0]), strict=True):
            ax.broken_barh([(start, length)], (y - 0.3, 0.8), color=color_of(int(state)))
        ticks.append(len(names))
        labels.append("state")
        y += 1.0
    s = inner.surprise(one)[0][: len(one.codes)]  # without that of an end
    surprise = np.where(np.isfinite(s), s, 0.0)
    height = surprise / max(float(surprise.max(initial=0.0)), 1e-9) * SURPRISE_LANES
    ax.stairs(y + height, np.arange(len(surprise) + 1), baseline=y, fill=True, color=QUIET)
    ticks.append(len(names) + 2 + int(SURPRISE_LANES / 2))
    labels.append("surprise")
    for step in marks:
        ax.axvline(step + 0.5, color=ALARM, linewidth=1)
    ax.set_yticks(ticks, labels, parse_math=False)
    ax.set(xlim=(0, len(surprise)), ylim=(-0.6, y + SURPRISE_LANES + 0.2))
    label_steps(ax, inner)
    return bare(ax, frame=False)
