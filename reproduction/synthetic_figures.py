"""Figure 6 of the paper, and the picture it lacks: error against time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.page import label_ends, new_figure, readable_log
from reproduction.synthetic import Size
from sojourn.plot.base import PALETTE, QUIET, bare

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from reproduction.synthetic_page import Summary

# Told apart by colour, by marker and by the name at the end of each line.
LOOK = {
    "pooled": (PALETTE[1], "s", "--"),
    "adjacent": (PALETTE[0], "o", "-"),
    "em": (PALETTE[3], "^", "--"),
    "hsmm": (PALETTE[2], "D", "-"),
    "bound": (QUIET, "v", ":"),
}
NAMES = {
    "pooled": "paper's spectral",
    "adjacent": "our spectral",
    "em": "plain EM",
    "hsmm": "HSMM",
    "bound": "EM from truth",
}


def _title(size: Size) -> str:
    n_o, n_x, n_d = size
    return f"$n_o={n_o},\\ n_x={n_x},\\ n_d={n_d}$"


def by_iteration(rows: Sequence[dict[str, Any]], sizes: Sequence[Size]) -> Figure:
    """Error of EM by iteration at the least and most N, spectral ones as straight lines (a, d)."""
    figure, axes = new_figure(1, len(sizes))
    for ax, size in zip(axes[0], sizes, strict=True):
        here = [row for row in rows if tuple(row["size"]) == size]
        ns = sorted({row["n"] for row in here if row["method"] == "em"})
        ns = ns if len(ns) < 2 else [ns[0], ns[-1]]  # more lines could not be told apart
        ends = []
        for i, n in enumerate(ns):
            shade = 0.35 + 0.65 * (i + 1) / len(ns)
            paths = [row["path"] for row in here if row["method"] == "em" and row["n"] == n]
            steps = sorted({point[0] for path in paths for point in path})
            # A run that has converged keeps its last error.
            errors = [
                np.median([[e for k, _, e in path if k <= step][-1:] or [np.nan] for path in paths])
                for step in steps
            ]
            ax.plot(steps, errors, color=LOOK["em"][0], alpha=shade, linewidth=1.6)
            ends.append((steps[-1], float(errors[-1]), f"EM, N={n:,d}", LOOK["em"][0]))
            for method in ("pooled", "adjacent"):
                found = [r["rmse"] for r in here if r["method"] == method and r["n"] == n]
                level, colour = float(np.median(found)), LOOK[method][0]
                ax.plot([1, steps[-1]], [level] * 2, color=colour, alpha=shade, linewidth=1)
                ends.append((steps[-1], level, f"{NAMES[method]}, N={n:,d}", colour))
        ax.set_xlabel("iteration of EM")
        ax.set_title(_title(size), fontsize=10)
        _finish(ax, ends)
    axes[0, 0].set_ylabel("error (median RMSE)")
    return figure


def by_training(summary: Summary, sizes: Sequence[Size]) -> Figure:
    """Error by N: mean and one standard deviation, as in (b, e); median and 10-90 % below."""
    figure, axes = new_figure(2, len(sizes), sharex=True)
    for column, size in enumerate(sizes):
        for row, (centre, low, high) in enumerate(
            (("mean", "mean_less_sd", "mean_plus_sd"), ("median", "q10", "q90"))
        ):
            ax, ends = axes[row, column], []
            for method, (colour, marker, line) in LOOK.items():
                found = summary.of(size, method)
                if not found:
                    continue
                ns = [one["n"] for one in found]
                middle = [one[centre] for one in found]
                ax.plot(ns, middle, line, color=colour, marker=marker, markersize=4, linewidth=1.6)
                lower = [max(one[low], 0.2 * one[centre]) for one in found]  # a log axis ends there
                ax.fill_between(
                    ns, lower, [one[high] for one in found], color=colour, alpha=0.12, linewidth=0
                )
                ends.append((ns[-1], middle[-1], NAMES[method], colour))
            if row == 0:
                ax.set_title(_title(size), fontsize=10)
            else:
                ax.set_xlabel("training sequences N")
            _finish(ax, ends, _spaced(summary, size))
    axes[0, 0].set_ylabel("mean RMSE ± one s.d.")
    axes[1, 0].set_ylabel("median RMSE, 10–90 %")
    return figure


def times(summary: Summary, sizes: Sequence[Size]) -> Figure:
    """Processor seconds by N (c, f)."""
    figure, axes = new_figure(1, len(sizes))
    for ax, size in zip(axes[0], sizes, strict=True):
        ends = []
        for method, (colour, marker, line) in LOOK.items():
            if not (found := summary.of(size, method)):
                continue
            ns, seconds = [one["n"] for one in found], [one["seconds"] for one in found]
            ax.plot(ns, seconds, line, color=colour, marker=marker, markersize=4, linewidth=1.6)
            ends.append((ns[-1], seconds[-1], NAMES[method], colour))
        ax.set_xlabel("training sequences N")
        ax.set_title(_title(size), fontsize=10)
        _finish(ax, ends, _spaced(summary, size))
    axes[0, 0].set_ylabel("processor seconds to learn")
    return figure


def error_and_time(summary: Summary, sizes: Sequence[Size]) -> Figure:
    """What a second buys: error against time; each line is a method at growing N."""
    figure, axes = new_figure(1, len(sizes))
    for ax, size in zip(axes[0], sizes, strict=True):
        ends = []
        for method, (colour, marker, line) in LOOK.items():
            if method == "bound" or not (found := summary.of(size, method)):
                continue
            x, y = [one["seconds"] for one in found], [one["median"] for one in found]
            ax.plot(x, y, line, color=colour, marker=marker, markersize=4, linewidth=1.6)
            for one in (found[0], found[-1]):
                ax.annotate(
                    f"{one['n']:,d}",
                    (one["seconds"], one["median"]),
                    xytext=(-5, -3),
                    textcoords="offset points",
                    ha="right",
                    fontsize=6.5,
                    color=colour,
                )
            ends.append((x[-1], y[-1], NAMES[method], colour))
        ax.set_xlabel("processor seconds to learn")
        ax.set_title(_title(size), fontsize=10)
        _finish(ax, ends)
    axes[0, 0].set_ylabel("error (median RMSE)")
    return figure


def _spaced(summary: Summary, size: Size) -> list[int]:
    """Numbers of sequences to write along an axis: those run, less some that are too close."""
    ticks: list[int] = []
    for n in sorted({one["n"] for one in summary.rows if tuple(one["size"]) == size}, reverse=True):
        if not ticks or ticks[-1] / n > 3:
            ticks.append(n)
    return ticks


def _finish(
    ax: Axes, ends: Sequence[tuple[float, float, str, str]], ticks: Sequence[float] = ()
) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    readable_log(ax.xaxis, ticks)
    readable_log(ax.yaxis)
    ax.tick_params(labelsize=8)
    ax.grid(axis="y", color=QUIET, alpha=0.25, linewidth=0.6)
    label_ends(bare(ax), ends)
