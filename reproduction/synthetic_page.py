"""The numbers of the synthetic experiment, what they say of the paper's claims, and the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.grid import duration, run_grid
from reproduction.page import (
    Claim,
    Section,
    Table,
    needs,
    save_csv,
    save_figure,
    save_page,
)
from reproduction.synthetic import (
    BY_NAME,
    METHODS,
    Plan,
    Size,
    cells,
    linear_entries,
    linear_fits,
    measure,
)
from reproduction.synthetic_figures import (
    NAMES,
    by_iteration,
    by_training,
    error_and_time,
    times,
)


def reproduce_synthetic(
    folder: str | os.PathLike[str], plan: Plan | None = None, verbose: bool | None = None
) -> Path:
    """Run the synthetic experiment of the paper, or what is left of it, and write its page.

    Parameters
    ----------
    folder : path
        Where figures, tables and the page go, and the cells that are done.
    plan : Plan
        What to run; by default what the paper did.
    verbose : bool or None
        Whether to show progress; None for only on a terminal.

    Returns
    -------
    Path
        The page.
    """
    needs("matplotlib", "jinja2")
    plan, folder = plan or Plan(), Path(folder)
    rows = run_grid(cells(plan), measure, folder / "cells", verbose)
    summary = summarise(rows)
    save_csv([{k: v for k, v in row.items() if k != "path"} for row in rows], folder / "runs.csv")
    save_csv(summary.rows, folder / "errors.csv")
    path = [
        {**{k: row[k] for k in ("method", "size", "n", "run")}, "iteration": step} | rest
        for row in rows
        for step, seconds, error in row.get("path", ())
        for rest in ({"seconds": seconds, "rmse": error},)
    ]
    save_csv(path, folder / "iterations.csv")
    save_figure(by_iteration(rows, plan.sizes), folder, "error-by-iteration")
    save_figure(by_training(summary, plan.sizes), folder, "error-by-training")
    save_figure(times(summary, plan.sizes), folder, "time")
    save_figure(error_and_time(summary, plan.sizes), folder, "error-and-time")
    return save_page(
        folder,
        "The paper's synthetic experiment",
        "Figure 6 of “A Spectral Algorithm for Inference in Hidden Semi-Markov Models”, run again. "
        "The error is the root mean square, over the test sequences, of the relative deviation of "
        "the likelihood from the true one. Times are processor seconds of one thread.",
        _facts(plan),
        claims(summary, plan),
        _sections(summary, plan),
    )


@dataclass(frozen=True)
class Summary:
    """A row for each size, method and N: how the errors of all runs lie, and the median time."""

    rows: list[dict[str, Any]]

    def of(self, size: Size, method: str) -> list[dict[str, Any]]:
        """Rows of one line of a figure, by growing N."""
        return [r for r in self.rows if tuple(r["size"]) == tuple(size) and r["method"] == method]

    def at(self, size: Size, method: str, n: int) -> dict[str, Any] | None:
        """One row, or None."""
        return next((r for r in self.of(size, method) if r["n"] == n), None)


def summarise(rows: Sequence[dict[str, Any]]) -> Summary:
    """Mean, spread and quantiles of the errors over runs.

    Examples
    --------
    >>> row = {"size": [3, 2, 2], "method": "pooled", "n": 500, "seconds": 1.0}
    >>> found = summarise([{**row, "rmse": 0.1}, {**row, "rmse": 0.3}])
    >>> round(found.rows[0]["mean"], 12), found.rows[0]["runs"]
    (0.2, 2)
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((tuple(row["size"]), row["method"], row["n"]), []).append(row)
    found = []
    for (size, method, n), group in sorted(groups.items()):
        errors = np.array([row["rmse"] for row in group])
        mean, sd = float(errors.mean()), float(errors.std(ddof=1)) if len(errors) > 1 else 0.0
        q10, median, q90 = np.quantile(errors, (0.1, 0.5, 0.9)).tolist()
        one = {"size": list(size), "method": method, "n": n, "runs": len(group)}
        one |= {"mean": mean, "sd": sd, "mean_less_sd": mean - sd, "mean_plus_sd": mean + sd}
        one |= {"median": median, "q10": q10, "q90": q90, "worst": float(errors.max())}
        found.append({**one, "seconds": float(np.median([row["seconds"] for row in group]))})
    return Summary(found)


def claims(summary: Summary, plan: Plan) -> list[Claim]:
    """Each claim of the paper's Section 6.1 beside the medians found here."""
    return [
        Claim(
            "The error of the spectral method falls with the number of training sequences.",
            *_for_all(plan, lambda size: _falls(summary, size)),
        ),
        Claim(
            "With a small training set, EM has the smaller error.",
            *_for_all(plan, lambda size: _small(summary, size, min(plan.training))),
        ),
        Claim(
            "As the number of training sequences grows, the spectral method outperforms EM.",
            *_for_all(plan, lambda size: _large(summary, size)),
        ),
        Claim(
            "Larger models need more data for the same accuracy.",
            *_larger(summary, plan),
        ),
        Claim(
            "The spectral method is several orders of magnitude faster than EM.",
            *_for_all(plan, lambda size: _faster(summary, size)),
        ),
    ]


Found = tuple[str, bool | None]


def _for_all(plan: Plan, find: Callable[[Size], Found]) -> Found:
    """One sentence a size; it agrees where it does for all."""
    found = [(size, *find(size)) for size in plan.sizes]
    text = " ".join(f"({', '.join(map(str, size))}): {sentence}." for size, sentence, _ in found)
    agree = [agrees for *_, agrees in found]
    return text, None if None in agree else all(agree)


def _falls(summary: Summary, size: Size) -> Found:
    parts, falls = [], True
    for method in ("pooled", "adjacent"):
        found = summary.of(size, method)
        first, last = found[0], found[-1]
        falls &= last["median"] < first["median"]
        parts.append(
            f"{NAMES[method]} from {first['median']:.2f} (N={first['n']:,d}) to "
            f"{last['median']:.2f} (N={last['n']:,d})"
        )
    return "; ".join(parts), falls


def _both(summary: Summary, size: Size, n: int) -> dict[str, float]:
    rows = {name: summary.at(size, name, n) for name in NAMES}
    return {name: row["median"] for name, row in rows.items() if row}


def _listed(errors: dict[str, float], n: int) -> str:
    listed = ", ".join(f"{NAMES[name]} {value:.2f}" for name, value in errors.items())
    return f"at N={n:,d} {listed}"


def _small(summary: Summary, size: Size, n: int) -> Found:
    errors = _both(summary, size, n)
    if "em" not in errors:
        return "EM was not run", None
    return _listed(errors, n), errors["em"] < min(errors["pooled"], errors["adjacent"])


def _large(summary: Summary, size: Size) -> Found:
    if not (em := summary.of(size, "em")):
        return "EM was not run", None
    n = em[-1]["n"]
    errors = _both(summary, size, n)
    return _listed(errors, n), errors["pooled"] < errors["em"]


def _larger(summary: Summary, plan: Plan) -> Found:
    n = max(plan.training)
    errors = [summary.at(size, "pooled", n) for size in plan.sizes]
    values = [row["median"] for row in errors if row]
    if len(values) < 2:
        return "One size was run.", None
    listed = ", then ".join(f"{value:.2f}" for value in values)
    text = f"The paper's spectral method at N={n:,d}: {listed} at the larger size."
    return text, values[-1] > values[0]


def _faster(summary: Summary, size: Size) -> Found:
    if not (em := summary.of(size, "em")):
        return "EM was not run", None
    ratios = {}
    for method in ("pooled", "adjacent"):
        row = summary.at(size, method, em[-1]["n"])
        ratios[method] = em[-1]["seconds"] / row["seconds"] if row else np.nan
    text = (
        f"at N={em[-1]['n']:,d} plain EM took {duration(em[-1]['seconds'])}, "
        f"{ratios['pooled']:.0f} times as long as the paper's method and {ratios['adjacent']:.0f} "
        f"times as long as ours"
    )
    return text, ratios["pooled"] >= 100  # two orders of magnitude


def _facts(plan: Plan) -> dict[str, str]:
    limit = f", up to N={plan.most_for_em:,d}" if plan.most_for_em else ""
    return {
        "models": f"{plan.runs} random ones of each size, no self-transitions, data of their own",
        "sizes (n_o, n_x, n_d)": ", ".join(str(size) for size in plan.sizes),
        "training sequences": ", ".join(f"{n:,d}" for n in plan.training) + ", of 100 symbols",
        "test sequences": f"{plan.test:,d}, of 100 symbols",
        "EM": f"at most {plan.iterations} passes, or until a pass gains less than 1e-8 nats a "
        f"symbol{limit}",
    }


def _sections(summary: Summary, plan: Plan) -> list[Section]:
    unfit = [size for size in plan.sizes if not linear_fits(size)]
    linear = " ".join(
        f"At {size} it would need a table of {linear_entries(size):,d} entries "
        f"({linear_entries(size) * 8 / 2**30:.1f} GiB), which is not held."
        for size in unfit
    )
    return [
        Section(
            "Error by iteration of EM (a, d)",
            "Medians over runs. The straight lines are the spectral methods, which do not iterate.",
            "error-by-iteration",
            "Error of plain EM against iterations, with the spectral methods as straight lines",
        ),
        Section(
            "Error by the number of training sequences (b, e)",
            "Above, the mean and one standard deviation, as in the paper. Below, the median and "
            "the range from the 10 % to the 90 % quantile, which a few failing runs do not move.",
            "error-by-training",
            "Error against the number of training sequences, five methods, two sizes",
            [_table(summary, plan, size) for size in plan.sizes],
        ),
        Section(
            "Running time (c, f)",
            "Processor seconds to learn, median over runs.",
            "time",
            "Processor seconds against the number of training sequences",
        ),
        Section(
            "Error against time",
            "Which method to use: down and to the left is better. Numbers beside points are "
            "training sequences.",
            "error-and-time",
            "Error against processor seconds, one line a method",
        ),
        Section(
            "A linear number of observations",
            "Corollary 3 asks for ℓ = n_d symbols in a row, as the general method for junction "
            "trees would; Theorem 1 for a number that is logarithmic in n_d. At (3, 2, 2) both are "
            f"two symbols in a row, and the results are the same. {linear}",
        ),
    ]


def _table(summary: Summary, plan: Plan, size: Size) -> Table:
    rows = []
    for method in METHODS:
        values = []
        for n in plan.training:
            row = summary.at(size, method.name, n)
            values.append(
                f"{row['median']:.3f} ({row['q10']:.2f}–{row['q90']:.2f})" if row else "–"
            )
        if any(value != "–" for value in values):
            rows.append((BY_NAME[method.name].title, *values))
    header = ("", *(f"N={n:,d}" for n in plan.training))
    return Table(f"{size}: median RMSE (10–90 % of runs)", header, rows)
