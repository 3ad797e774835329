"""Figures of scores: their distribution, ROC and precision-recall curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.plot.base import ALARM, DASHED, PALETTE, axes_or_new, bare, color_of, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
N_BINS = 40
FAR = 6.0  # a score this many times the spread of the middle half below the median is off the axis
MOST_KINDS = 6  # curves of types of abnormality beside the one of all


def scores(
    values: Any, abnormal: Any = None, offset: float | None = None, ax: Axes | None = None
) -> Axes:
    """The distribution of scores, and the threshold between normal and abnormal.

    Parameters
    ----------
    values : array (n,)
        Scores, higher for more normal. Those far below the others are counted in the first bar.
    abnormal : array of bool (n,), optional
        Which are known to be abnormal; they are shown in another colour.
    offset : float, optional
        Scores below it raise an alarm.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import plot
    >>> plot.scores([-3.0, -1.0, -1.2, -0.9], [True, False, False, False], offset=-2.0).get_xlabel()
    'score (higher is more normal)'
    """
    x = _finite(values)
    offset = offset if offset is not None and np.isfinite(offset) else None
    ax = axes_or_new(ax)
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75])
    spread = high - low
    floor = middle - FAR * spread if spread > 0 else x.min()
    if offset is not None:
        floor = min(floor, offset - spread)
        if x.max() > offset:  # what is usual keeps a quarter of the axis
            floor = max(floor, offset - 3 * (float(x.max()) - offset))
    floor, top = max(float(x.min()), floor), float(x.max())
    if top <= floor:
        floor, top = floor - 0.5, top + 0.5
    bins = np.linspace(floor, top, N_BINS + 1).tolist()
    shown = np.maximum(x, floor)
    if abnormal is None:
        ax.hist(shown, bins, color=PALETTE[0], alpha=0.85)
    else:
        bad = _mask(abnormal, len(x))
        parts = [shown[~bad], shown[bad]]
        names = [f"normal ({np.sum(~bad)})", f"abnormal ({np.sum(bad)})"]
        ax.hist(parts, bins, stacked=True, color=[PALETTE[0], ALARM], label=names, alpha=0.85)
        ax.legend(frameon=False)
    if offset is not None:
        ax.axvline(offset, **DASHED | {"linewidth": 1.2})
        text: Any = {"xycoords": ("data", "axes fraction"), "ha": "right", "va": "top"}
        ax.annotate("alarm ", (offset, 1.0), size="small", **text)
    if below := int((x < floor).sum()):
        noun = "score" if below == 1 else "scores"
        ax.set_title(f"the first bar holds {below} {noun} further left", loc="left", size="small")
    ax.set(xlabel="score (higher is more normal)", ylabel="sequences")
    return bare(ax)


def pvalues(values: Any, abnormal: Any = None, ax: Axes | None = None) -> Axes:
    """The distribution of p-values, with the uniform one that normal sequences have.

    Parameters
    ----------
    values : array (n,)
        p-values.
    abnormal : array of bool (n,), optional
        Which are known to be abnormal; they are shown in another colour.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import plot
    >>> plot.pvalues([0.01, 0.3, 0.5, 0.9]).get_xlabel()
    'p-value'
    """
    p = _finite(values)
    ax = axes_or_new(ax)
    bins = np.linspace(0, 1, N_BINS // 2 + 1).tolist()
    bad = np.zeros(len(p), bool) if abnormal is None else _mask(abnormal, len(p))
    colors = [PALETTE[0], ALARM]
    ax.hist([p[~bad], p[bad]], bins, stacked=True, color=colors, alpha=0.85)
    ax.axhline(len(p) / (N_BINS // 2), **DASHED)
    ax.set(xlim=(0, 1), xlabel="p-value", ylabel="sequences")
    return bare(ax)


def roc(values: Any, abnormal: Any, kinds: Any = None, ax: Axes | None = None) -> Axes:
    """ROC curve: the fraction of abnormal sequences found at each false-alarm rate.

    Parameters
    ----------
    values : array (n,)
        Scores, higher for more normal.
    abnormal : array of bool (n,)
        Which are abnormal; both classes must occur.
    kinds : array of str (n,), optional
        Names; the abnormal sequences of each name get a curve of their own, with all normal ones.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import plot
    >>> ax = plot.roc([-3.0, -1.0, -1.2, -0.9], [True, False, False, False])
    >>> ax.get_legend_handles_labels()[1]
    ['all: AUC 1.00']
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    x, bad = _two_classes(values, abnormal)
    ax = axes_or_new(ax)
    ax.plot([0, 1], [0, 1], **DASHED)
    for name, some, color, width in _curves(bad, kinds):
        false, true, _ = roc_curve(bad[some], -x[some])
        area = roc_auc_score(bad[some], -x[some])
        ax.plot(false, true, color=color, linewidth=width, label=f"{name}: AUC {area:.2f}")
    ax.set(xlabel="false-alarm rate", ylabel="fraction of abnormal found")
    return _unit(ax, "lower right")


def precision_recall(values: Any, abnormal: Any, ax: Axes | None = None) -> Axes:
    """Precision-recall curve: the fraction of alarms that are right at each fraction found.

    Parameters
    ----------
    values, abnormal
        As in `roc`.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import plot
    >>> ax = plot.precision_recall([-3.0, -1.0, -1.2, -0.9], [True, False, False, False])
    >>> ax.get_legend_handles_labels()[1][0]
    'average precision 1.00'
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    x, bad = _two_classes(values, abnormal)
    ax = axes_or_new(ax)
    precision, recall, _ = precision_recall_curve(bad, -x)
    area = average_precision_score(bad, -x)
    label = f"average precision {area:.2f}"
    ax.plot(recall, precision, color=PALETTE[0], linewidth=2, drawstyle="steps-post", label=label)
    ax.axhline(bad.mean(), **DASHED, label=f"by chance {bad.mean():.2f}")
    ax.set(xlabel="recall (fraction found)", ylabel="precision (fraction right)")
    return _unit(ax, "lower left" if area > 0.5 else "upper right")


def _curves(bad: NDArray[np.bool_], kinds: Any) -> list[tuple[str, Any, str, float]]:
    """Name, the sequences that count, colour and line width of each curve."""
    curves: list[tuple[str, Any, str, float]] = []
    if kinds is not None:
        kinds = np.asarray(kinds)
        names, counts = np.unique(kinds[bad], return_counts=True)
        for i, k in enumerate(np.argsort(-counts, kind="stable")[:MOST_KINDS].tolist()):
            if len(names) > 1:
                some = ~bad | (kinds == names[k])
                curves.append((short(names[k]), some, color_of(i + 1), 1.2))
    return [*curves, ("all", np.ones(len(bad), bool), PALETTE[0], 2.2)]


def _finite(values: Any) -> Floats:
    """Scores in which infinite ones lie a little beyond all others."""
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or x.size == 0 or np.isnan(x).any():
        raise SojournError(f"expected an array of scores, at least one, got shape {x.shape} or NaN")
    finite = x[np.isfinite(x)]
    if finite.size == 0:
        return np.zeros_like(x)
    span = float(np.ptp(finite)) or 1.0
    return np.clip(x, finite.min() - span, finite.max() + span)


def _mask(abnormal: Any, n: int) -> NDArray[np.bool_]:
    bad = np.asarray(abnormal)
    if bad.dtype != bool or bad.shape != (n,):
        raise SojournError(
            f"abnormal must be {n} times True or False, one for each score, got {bad.dtype} of "
            f"shape {bad.shape}"
        )
    return bad


def _two_classes(values: Any, abnormal: Any) -> tuple[Floats, NDArray[np.bool_]]:
    x = _finite(values)
    bad = _mask(abnormal, len(x))
    if bad.all() or not bad.any():
        what = "abnormal" if bad.all() else "normal"
        raise SojournError(
            f"all {len(x)} labels are {what}; a curve needs both normal and abnormal sequences"
        )
    return x, bad


def _unit(ax: Axes, legend: Any) -> Axes:
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.03))
    ax.legend(loc=legend, edgecolor="none", framealpha=0.8)
    return bare(ax)
