"""Held-out likelihood over time, and times an iteration, in one figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.harness import Record
from benchmarks.peers.tables import OURS, fits, methods, target_of

COLOURS = ("#b23a2e", "#1f6f8b", "#7a9a3a", "#c08a1e", "#6b4f9a", "#8a8a8a")


RACED = "#5a1710"  # our fit with a race of starts, beside the one without


def draw(records: list[Record], sizes: Sequence[str], path: Path) -> None:
    """A panel a size: the way of every run, ours in red; the dashed line is the best peer's."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    packages = list(dict.fromkeys(package for package, _ in methods(records)))
    colour = dict(zip(packages, COLOURS, strict=False))
    figure, axes = plt.subplots(
        1, len(sizes), figsize=(3.3 * len(sizes), 3.4), layout="constrained", squeeze=False
    )
    drawn: set[str] = set()
    for axis, size in zip(axes[0], sizes, strict=True):
        _, target = target_of(records, size)
        ends = []
        for package, model in methods(records):
            for run in fits(records, size, (package, model)):
                if not all(map(math.isfinite, run.score)):
                    continue
                drawn.add(package)
                ends.append(max(run.score))
                axis.plot(
                    run.cpu,
                    run.score,
                    color=RACED if (package, model) == (OURS, "hsmm") else colour[package],
                    linestyle=":" if model == "plain" else "-",
                    linewidth=1.8 if package == OURS else 1.0,
                    marker="o" if model == "spectral" else None,
                    markersize=5,
                    zorder=3 if package == OURS else 2,
                )
        if ends:
            top = max(ends)
            room = max(top - sorted(ends)[len(ends) // 4], 0.002)
            axis.set_ylim(top - 3 * room, top + 0.3 * room)
        if math.isfinite(target):
            axis.axhline(target, color="0.4", linewidth=0.8, linestyle="--", zorder=1)
        axis.set_xscale("log")
        axis.set_title(f"size {size}", fontsize=10, loc="left")
        axis.set_xlabel("seconds of one core")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    axes[0][0].set_ylabel("held-out nats per symbol")
    handles = [
        Line2D([], [], color=RACED, linewidth=1.8, label="HSMM"),
        Line2D([], [], color=colour[OURS], linewidth=1.8, label='HSMM, init="moments"'),
    ]
    handles += [Line2D([], [], color=colour[p], label=p) for p in packages if p in drawn - {OURS}]
    handles += [
        Line2D([], [], color="0.3", linestyle=":", label="plain HMM"),
        Line2D([], [], color="0.3", linestyle="-", label="expanded HMM"),
        Line2D([], [], color=COLOURS[0], marker="o", linestyle="", label="SpectralHSMM"),
        Line2D([], [], color="0.4", linestyle="--", label="best peer"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    figure.savefig(path)
    plt.close(figure)
