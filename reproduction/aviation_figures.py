"""Figures 7 and 8 of the paper: scores of test flights, ROC curves, and AUC by model size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.aviation import Size
from reproduction.page import label_ends, new_figure
from sojourn.plot.base import ALARM, PALETTE, QUIET, bare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[dict[str, Any]]

NAMES = {
    "spectral": "our spectral",
    "pooled": "paper's spectral",
    "em": "plain EM",
    "detector": "detector",
}
LOOK = {
    "spectral": (PALETTE[0], "o", "-"),
    "pooled": (PALETTE[1], "s", "--"),
    "em": (PALETTE[3], "^", "--"),
    "detector": (PALETTE[2], "D", "-"),
}


def likelihoods(rows: Rows, size: Size) -> Figure:
    """Normalised joint log-likelihood of the test flights of the first set (7 a, b)."""
    figure, axes = new_figure(1, 2)
    for ax, method in zip(axes[0], ("spectral", "em"), strict=True):
        row = _first(rows, method, size)
        n = len(row["normal"])
        everything = np.array(row["normal"] + row["abnormal"])
        low = np.quantile(everything, 0.02)
        floor = low - 0.15 * (everything.max() - low)
        for values, at, colour, marker, name in (
            (row["normal"], 0, PALETTE[0], "o", "normal"),
            (row["abnormal"], n, ALARM, "x", "abnormal"),
        ):
            y = np.maximum(values, floor)
            ax.scatter(at + np.arange(len(y)), y, s=14, marker=marker, color=colour, linewidth=1)
            centre = at + len(y) / 2
            ax.text(centre, everything.max(), name, color=colour, ha="center", va="bottom", size=9)
        ax.set_title(f"{NAMES[method]}, AUC {row['auc']:.2f}", fontsize=10, pad=14)
        ax.set_xlabel("test flight")
        ax.tick_params(labelsize=8)
        bare(ax)
    axes[0, 0].set_ylabel("log-likelihood a symbol")
    return figure


def curves(rows: Rows, size: Size) -> Figure:
    """ROC curves of the first set (7 c)."""
    from sklearn.metrics import roc_curve

    figure, axes = new_figure(1, 1)
    ax = axes[0, 0]
    ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
    for method, (colour, _, line) in LOOK.items():
        row = _first(rows, method, size)
        abnormal = [False] * len(row["normal"]) + [True] * len(row["abnormal"])
        false, true, _ = roc_curve(abnormal, [-s for s in row["normal"] + row["abnormal"]])
        label = f"{NAMES[method]}: AUC {row['auc']:.2f}"
        ax.plot(false, true, line, color=colour, linewidth=1.6, label=label)
    ax.legend(frameon=False, loc="lower right", fontsize=8)
    ax.set_aspect("equal")
    ax.set_xlabel("false alarms (share of the normal)")
    ax.set_ylabel("found (share of the abnormal)")
    ax.tick_params(labelsize=8)
    bare(ax)
    return figure


def areas(rows: Rows, sizes: Sequence[Size], paper: Mapping[str, Sequence[float]]) -> Figure:
    """AUC by model size (8): a mark a set, lines through the means; the paper's beside it."""
    figure, axes = new_figure(1, 2, sharey=True)
    names = [f"({n_x}, {n_d})" for n_x, n_d in sizes]
    for ax, title in zip(axes[0], ("here", "in the paper"), strict=True):
        ends = []
        for method, (colour, marker, line) in LOOK.items():
            if title == "here":
                found = [of(rows, method, size) for size in sizes]
                means = [float(np.mean([row["auc"] for row in group])) for group in found]
                for i, group in enumerate(found):
                    y = [row["auc"] for row in group]
                    ax.scatter([i] * len(y), y, s=10, color=colour, alpha=0.35, linewidth=0)
            elif method in paper and len(paper[method]) == len(sizes):
                means = list(paper[method])
            else:
                continue
            ax.plot(means, line, color=colour, marker=marker, markersize=4, linewidth=1.6)
            name = "spectral" if title != "here" and method == "pooled" else NAMES[method]
            ends.append((len(sizes) - 1, means[-1], name, colour))
        ax.set_xticks(range(len(sizes)), names)
        ax.set_xlabel("model size $(n_x, n_d)$")
        ax.set_title(title, fontsize=10)
        ax.tick_params(labelsize=8)
        ax.grid(axis="y", color=QUIET, alpha=0.25, linewidth=0.6)
        ax.set_ylim(0.5, 1.0)
        label_ends(bare(ax), ends)
    axes[0, 0].set_ylabel("area under the ROC curve")
    return figure


def of(rows: Rows, method: str, size: Size) -> list[dict[str, Any]]:
    """Rows of one method and size, a set each."""
    return [r for r in rows if r["method"] == method and tuple(r["size"]) == tuple(size)]


def _first(rows: Rows, method: str, size: Size) -> dict[str, Any]:
    return of(rows, method, size)[0]
