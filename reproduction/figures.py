"""Figures 6, 7 and 8 of the paper, and one that it lacks: error against time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
from sklearn.metrics import roc_curve

from sojourn.plot.base import ALARM, PALETTE, QUIET, bare

if TYPE_CHECKING:
    from reproduction.synthetic import Summary

Rows = Sequence[dict[str, Any]]
Size = tuple[int, ...]


class Style(NamedTuple):
    """How a method is drawn: distinct in colour, marker and the name at the end of its line."""

    name: str
    color: str
    marker: str
    line: str


STYLES = {
    "pooled": Style("paper's spectral", PALETTE[1], "s", "--"),
    "spectral": Style("our spectral", PALETTE[0], "o", "-"),
    "em": Style("plain EM", PALETTE[3], "^", "--"),
    "hsmm": Style("HSMM", PALETTE[2], "D", "-"),
    "bound": Style("EM from truth", QUIET, "v", ":"),
    "detector": Style("detector", PALETTE[2], "D", "-"),
}


class End(NamedTuple):
    """The right end of a line, and the text beside it."""

    x: float
    y: float
    text: str
    color: str


def of(rows: Rows, method: str, size: Size) -> list[dict[str, Any]]:
    """Rows of one method and size."""
    return [r for r in rows if r["method"] == method and tuple(r["size"]) == tuple(size)]


def by_iteration(rows: Rows, sizes: Sequence[Size]) -> Figure:
    """Error of EM by iteration at the smallest and largest N; spectral lines are flat (6 a, d)."""
    figure, panels = _log_panels(sizes, "iteration of EM", "error (median RMSE)")
    for ax, size, ends in panels:
        ns = sorted({row["n"] for row in of(rows, "em", size)})
        ns = ns if len(ns) < 2 else [ns[0], ns[-1]]  # more lines could not be distinguished
        for i, n in enumerate(ns):
            shade = 0.35 + 0.65 * (i + 1) / len(ns)
            paths = [row["path"] for row in of(rows, "em", size) if row["n"] == n]
            steps = sorted({point[0] for path in paths for point in path})
            # A run that has converged keeps its last error.
            errors = [
                np.median([[e for k, _, e in path if k <= step][-1:] or [np.nan] for path in paths])
                for step in steps
            ]
            color = STYLES["em"].color
            ax.plot(steps, errors, color=color, alpha=shade, linewidth=1.6)
            ends.append(End(steps[-1], float(errors[-1]), f"EM, N={n:,d}", color))
            for method in ("pooled", "spectral"):
                found = [row["rmse"] for row in of(rows, method, size) if row["n"] == n]
                level, style = float(np.median(found)), STYLES[method]
                ax.plot([1, steps[-1]], [level] * 2, color=style.color, alpha=shade, linewidth=1)
                ends.append(End(steps[-1], level, f"{style.name}, N={n:,d}", style.color))
    return figure


def by_training(summary: Summary, sizes: Sequence[Size]) -> Figure:
    """Error by N: mean and one standard deviation, as in 6 b and e; below, median and 10-90 %."""
    figure = Figure(figsize=(4.6 * len(sizes), 7.0), layout="constrained", dpi=150)
    above, below = figure.subfigures(2, 1)
    for part, centre, low, high, label in (
        (above, "mean", "mean_less_sd", "mean_plus_sd", "mean RMSE ± one s.d."),
        (below, "median", "q10", "q90", "median RMSE, 10–90 %"),
    ):
        _, panels = _log_panels(sizes, "training sequences N", label, summary.ticks, part)
        for ax, size, ends in panels:
            for method, found in _found(summary, size):
                ns = [one["n"] for one in found]
                ends.append(_line(ax, method, ns, [one[centre] for one in found]))
                lower = [max(one[low], 0.2 * one[centre]) for one in found]  # a log axis ends there
                upper = [one[high] for one in found]
                ax.fill_between(ns, lower, upper, color=ends[-1].color, alpha=0.12, linewidth=0)
    return figure


def times(summary: Summary, sizes: Sequence[Size]) -> Figure:
    """Processor seconds by N (6 c, f)."""
    figure, panels = _log_panels(
        sizes, "training sequences N", "processor seconds to learn", summary.ticks
    )
    for ax, size, ends in panels:
        for method, found in _found(summary, size):
            seconds = [one["seconds"] for one in found]
            ends.append(_line(ax, method, [one["n"] for one in found], seconds))
    return figure


def error_and_time(summary: Summary, sizes: Sequence[Size]) -> Figure:
    """Error against time; each line is a method at growing N."""
    figure, panels = _log_panels(sizes, "processor seconds to learn", "error (median RMSE)")
    for ax, size, ends in panels:
        for method, found in _found(summary, size):
            if method == "bound":
                continue
            x, y = [one["seconds"] for one in found], [one["median"] for one in found]
            ends.append(_line(ax, method, x, y))
            for one in (found[0], found[-1]):
                ax.annotate(
                    f"{one['n']:,d}",
                    (one["seconds"], one["median"]),
                    xytext=(-5, -3),
                    textcoords="offset points",
                    ha="right",
                    fontsize=6.5,
                    color=STYLES[method].color,
                )
    return figure


def likelihoods(rows: Rows, size: Size) -> Figure:
    """Normalised joint log-likelihood of the test flights of the first set (7 a, b)."""
    figure, axes = _new_figure(2)
    for ax, method in zip(axes, ("spectral", "em"), strict=True):
        row = of(rows, method, size)[0]
        scores = np.array(row["normal"] + row["abnormal"])
        low, top = np.quantile(scores, 0.02), scores.max()
        floor = low - 0.15 * (top - low)
        for values, at, color, marker, name in (
            (row["normal"], 0, PALETTE[0], "o", "normal"),
            (row["abnormal"], len(row["normal"]), ALARM, "x", "abnormal"),
        ):
            x, y = at + np.arange(len(values)), np.maximum(values, floor)
            ax.scatter(x, y, s=14, marker=marker, color=color, linewidth=1)
            ax.text(at + len(x) / 2, top, name, color=color, ha="center", va="bottom", size=9)
        ax.set_title(f"{STYLES[method].name}, AUC {row['auc']:.2f}", fontsize=10, pad=14)
        ax.set_xlabel("test flight")
    axes[0].set_ylabel("log-likelihood per symbol")
    return figure


def roc_curves(rows: Rows, size: Size, methods: Sequence[str]) -> Figure:
    """ROC curves of the first set (7 c)."""
    figure, (ax,) = _new_figure(1)
    ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
    for method in methods:
        row, style = of(rows, method, size)[0], STYLES[method]
        abnormal = [False] * len(row["normal"]) + [True] * len(row["abnormal"])
        false, true, _ = roc_curve(abnormal, [-s for s in row["normal"] + row["abnormal"]])
        label = f"{style.name}: AUC {row['auc']:.2f}"
        ax.plot(false, true, style.line, color=style.color, linewidth=1.6, label=label)
    ax.legend(frameon=False, loc="lower right", fontsize=8)
    ax.set_aspect("equal")
    ax.set_xlabel("false-positive rate")
    ax.set_ylabel("true-positive rate")
    return figure


def areas(
    rows: Rows, sizes: Sequence[Size], methods: Sequence[str], paper: Mapping[str, Sequence[float]]
) -> Figure:
    """AUC by model size (8): one mark per set, lines through the means; beside it the paper's."""
    figure, (here, printed) = _new_figure(2, sharey=True)
    ends: dict[Axes, list[End]] = {here: [], printed: []}
    for method in methods:
        aucs = [[row["auc"] for row in of(rows, method, size)] for size in sizes]
        for i, y in enumerate(aucs):
            color = STYLES[method].color
            here.scatter([i] * len(y), y, s=10, color=color, alpha=0.35, linewidth=0)
        x, means = list(range(len(sizes))), [float(np.mean(y)) for y in aucs]
        ends[here].append(_line(here, method, x, means))
        if len(paper.get(method, ())) == len(sizes):
            end = _line(printed, method, x, paper[method])
            name = "spectral" if method == "pooled" else end.text  # the paper has only one
            ends[printed].append(end._replace(text=name))
    for ax, title in ((here, "here"), (printed, "in the paper")):
        ax.set_xticks(range(len(sizes)), [f"({n_x}, {n_d})" for n_x, n_d in sizes])
        ax.set_xlabel("model size $(n_x, n_d)$")
        ax.set_title(title, fontsize=10)
        ax.grid(axis="y", color=QUIET, alpha=0.25, linewidth=0.6)
        ax.set_ylim(0.5, 1.0)
        _label_ends(ax, ends[ax])
    here.set_ylabel("area under the ROC curve")
    return figure


def _found(summary: Summary, size: Size) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Methods that were run at a size, with their rows by growing N."""
    for method in STYLES:
        if found := summary.of(size, method):
            yield method, found


def _line(ax: Axes, method: str, x: Sequence[float], y: Sequence[float]) -> End:
    name, color, marker, line = STYLES[method]
    ax.plot(x, y, line, color=color, marker=marker, markersize=4, linewidth=1.6)
    return End(x[-1], y[-1], name, color)


def _new_figure(columns: int, parent: Any = None, **options: Any) -> tuple[Figure, Any]:
    """A figure (or a part of one) with a row of axes, in the size and look that all share."""
    figure = parent or Figure(figsize=(4.6 * columns, 3.5), layout="constrained", dpi=150)
    axes = figure.subplots(1, columns, squeeze=False, **options)[0]
    for ax in axes:
        bare(ax).tick_params(labelsize=8)
    return figure, axes


def _log_panels(
    sizes: Sequence[Size],
    x: str,
    y: str,
    ticks: Callable[[Size], Sequence[float]] = lambda size: (),
    parent: Any = None,
) -> tuple[Figure, Iterator[tuple[Axes, Size, list[End]]]]:
    """A figure with one logarithmic panel per size, and the panels to draw on, one by one.

    What is added to the list that comes with a panel is written at the ends of its lines.
    """
    figure, axes = _new_figure(len(sizes), parent)

    def panels() -> Iterator[tuple[Axes, Size, list[End]]]:
        axes[0].set_ylabel(y)
        for ax, size in zip(axes, sizes, strict=True):
            n_o, n_x, n_d = size
            ax.set_title(f"$n_o={n_o},\\ n_x={n_x},\\ n_d={n_d}$", fontsize=10)
            ax.set_xlabel(x)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ends: list[End] = []
            yield ax, size, ends
            _plain_log(ax.xaxis, ticks(size))
            _plain_log(ax.yaxis)
            ax.grid(axis="y", color=QUIET, alpha=0.25, linewidth=0.6)
            _label_ends(ax, ends)

    return figure, panels()


def _plain_log(axis: Axis, values: Sequence[float] = ()) -> None:
    """Ticks of a logarithmic axis at the given values, or at 1, 2 and 5; plain numbers."""
    axis.set_major_locator(
        FixedLocator(list(values)) if len(values) else LogLocator(subs=(1, 2, 5))
    )
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _label_ends(ax: Axes, ends: Sequence[End], room: float = 0.065) -> None:
    """Write names at the right ends of lines, `room` (a share of the height) apart at least."""
    ax.autoscale_view()  # limits are final
    to_axes = ax.transData + ax.transAxes.inverted()
    at = [to_axes.transform((end.x, end.y)) for end in ends]
    order = np.argsort([y for _, y in at], kind="stable")
    heights = [float(at[i][1]) for i in order]
    for _ in range(200):  # neighbours that are too close push each other away
        for i in range(len(heights) - 1):
            short = room - (heights[i + 1] - heights[i])
            if short > 1e-9:
                heights[i] -= short / 2
                heights[i + 1] += short / 2
    line = {"arrowstyle": "-", "linewidth": 0.6, "shrinkB": 2, "relpos": (0, 0.5)}
    for i, height in zip(order, heights, strict=True):
        x, y = (float(value) for value in at[i])
        ax.annotate(
            ends[i].text,
            (x, y),
            xytext=(x + 0.04, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=ends[i].color,
            annotation_clip=False,
            arrowprops={**line, "color": ends[i].color},
        )
