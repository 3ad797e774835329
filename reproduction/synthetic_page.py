"""The synthetic experiment beside the paper's claims: the page, its tables and figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import figures
from reproduction.figures import STYLES
from reproduction.grid import duration, run_grid
from reproduction.page import Claim, Page, Section, Table, without
from reproduction.synthetic import (
    METHODS,
    Plan,
    Size,
    Summary,
    cells,
    linear_entries,
    linear_fits,
    measure,
    summarise,
)


def reproduce_synthetic(folder: Path, plan: Plan | None = None) -> Path:
    """Run what is left of the synthetic experiment and write its page; the path of the page."""
    plan = plan or Plan()
    rows = run_grid(cells(plan), measure, folder / "cells")
    return _page(rows, plan).save(folder)


def _page(rows: list[dict[str, Any]], plan: Plan) -> Page:
    summary = summarise(rows)
    path = [
        {name: row[name] for name in ("method", "size", "n", "run")}
        | {"iteration": step, "seconds": seconds, "rmse": error}
        for row in rows
        for step, seconds, error in row.get("path", ())
    ]
    return Page(
        "The paper's synthetic experiment",
        "Figure 6 of “A Spectral Algorithm for Inference in Hidden Semi-Markov Models”, run again. "
        "The error is the root mean square, over the test sequences, of the relative deviation of "
        "the likelihood from the true one. Times are processor seconds of one thread.",
        _facts(plan),
        claims(summary, plan),
        _sections(summary, plan),
        {
            "runs": [without(row, "path") for row in rows],
            "errors": summary.rows,
            "iterations": path,
        },
        {
            "error-by-iteration": figures.by_iteration(rows, plan.sizes),
            "error-by-training": figures.by_training(summary, plan.sizes),
            "time": figures.times(summary, plan.sizes),
            "error-and-time": figures.error_and_time(summary, plan.sizes),
        },
    )


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
NO_EM: Found = ("EM was not run", None)


def _for_all(plan: Plan, find: Callable[[Size], Found]) -> Found:
    """One sentence per size; the claim holds if it holds for all of them."""
    found = [(size, *find(size)) for size in plan.sizes]
    text = " ".join(f"({', '.join(map(str, size))}): {sentence}." for size, sentence, _ in found)
    agree = [agrees for *_, agrees in found]
    return text, None if None in agree else all(agree)


def _falls(summary: Summary, size: Size) -> Found:
    parts, falls = [], True
    for method in ("pooled", "spectral"):
        found = summary.of(size, method)
        first, last = found[0], found[-1]
        falls &= last["median"] < first["median"]
        parts.append(
            f"{STYLES[method].name} from {first['median']:.2f} (N={first['n']:,d}) to "
            f"{last['median']:.2f} (N={last['n']:,d})"
        )
    return "; ".join(parts), falls


def _medians(summary: Summary, size: Size, n: int) -> tuple[dict[str, float], str]:
    """Median errors of all methods at N, also as text."""
    rows = {name: summary.at(size, name, n) for name in STYLES}
    errors = {name: row["median"] for name, row in rows.items() if row}
    listed = ", ".join(f"{STYLES[name].name} {value:.2f}" for name, value in errors.items())
    return errors, f"at N={n:,d} {listed}"


def _small(summary: Summary, size: Size, n: int) -> Found:
    errors, text = _medians(summary, size, n)
    if "em" not in errors:
        return NO_EM
    return text, errors["em"] < min(errors["pooled"], errors["spectral"])


def _large(summary: Summary, size: Size) -> Found:
    if not (em := summary.of(size, "em")):
        return NO_EM
    errors, text = _medians(summary, size, em[-1]["n"])
    return text, errors["pooled"] < errors["em"]


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
        return NO_EM
    n, seconds = em[-1]["n"], em[-1]["seconds"]
    rows = {method: summary.at(size, method, n) for method in ("pooled", "spectral")}
    ratios = {method: seconds / row["seconds"] if row else np.nan for method, row in rows.items()}
    text = (
        f"at N={n:,d} plain EM took {duration(seconds)}, {ratios['pooled']:.0f} times as long as "
        f"the paper's method and {ratios['spectral']:.0f} times as long as ours"
    )
    return text, ratios["pooled"] >= 100  # two orders of magnitude


def _facts(plan: Plan) -> dict[str, str]:
    limit = f", up to N={plan.most_for_em:,d}" if plan.most_for_em else ""
    return {
        "models": f"{plan.runs} random ones of each size, no self-transitions, data of their own",
        "sizes (n_o, n_x, n_d)": ", ".join(str(size) for size in plan.sizes),
        "training sequences": ", ".join(f"{n:,d}" for n in plan.training) + ", of 100 symbols",
        "test sequences": f"{plan.test:,d}, of 100 symbols",
        "EM": f"at most {plan.iterations} passes, or until a pass gains less than 1e-8 nats per "
        f"symbol{limit}",
    }


def _sections(summary: Summary, plan: Plan) -> list[Section]:
    too_large = " ".join(
        f"At {size} it would need a table of {linear_entries(size):,d} entries "
        f"({linear_entries(size) * 8 / 2**30:.1f} GiB), which is not held."
        for size in plan.sizes
        if not linear_fits(size)
    )
    return [
        Section(
            "Error by iteration of EM (a, d)",
            "Medians over runs. The flat lines are the spectral methods, which do not iterate.",
            "error-by-iteration",
            "Error of plain EM against iterations, with the spectral methods as flat lines",
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
            "Error against processor seconds, one line per method",
        ),
        Section(
            "A linear number of observations",
            "Corollary 3 asks for ℓ = n_d consecutive symbols, as the general method for junction "
            "trees would; Theorem 1 for a number that is logarithmic in n_d. At (3, 2, 2) both are "
            f"two consecutive symbols, and the results are the same. {too_large}",
        ),
    ]


def _table(summary: Summary, plan: Plan, size: Size) -> Table:
    rows = []
    for method in METHODS:
        found = [summary.at(size, method.name, n) for n in plan.training]
        values = [f"{r['median']:.3f} ({r['q10']:.2f}–{r['q90']:.2f})" if r else "–" for r in found]
        if any(found):
            rows.append((method.title, *values))
    header = ("", *(f"N={n:,d}" for n in plan.training))
    return Table(f"{size}: median RMSE (10–90 % of runs)", header, rows)
