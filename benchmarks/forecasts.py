"""Forecasts on recorded data: next activities, the rest of cases, the remaining life of engines.

Data are in the folder ``logs`` of the one that SOJOURN_DATA names. Folds are by case (place modulo
five). For remaining times a part of the training cases is kept out of the fit, to calibrate.
"""

import dataclasses
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sojourn as sj
from sojourn.estimators.forecast import all_prefixes

Floats = NDArray[np.float64]

LOGS = Path(os.environ.get("SOJOURN_DATA", "")) / "logs"
ORDERS = range(2, 11)
FOLDS = 5


def models() -> dict[str, sj.SpectralHSMM | sj.HSMM]:
    """Models of cases that end."""
    hsmm = sj.HSMM(64, 1, ends=True, pseudocount=0.02, max_iter=100, random_state=0)
    return {"SpectralHSMM": sj.SpectralHSMM(ends=True), "HSMM(64, 1)": hsmm}


def ngram(train: sj.Sequences, test: sj.Sequences, order: int, prior: float = 2.0) -> list[Floats]:
    """What follows each prefix by n-grams, each smoothed by shorter ones: (length + 1, n + 1)."""
    n, start = train.n_symbols + 1, [-1] * (order - 1)
    counts: dict[tuple[int, ...], Floats] = defaultdict(lambda: np.zeros(n))
    for row in np.split(train.codes, train.offsets[1:-1]):
        padded = [*start, *row.tolist(), n - 1]
        for t in range(order - 1, len(padded)):
            for k in range(order):
                counts[tuple(padded[t - k : t])][padded[t]] += 1

    def after(past: list[int]) -> Floats:
        p = np.full(n, 1 / n)
        for k in range(order):
            own = counts.get(tuple(past[len(past) - k :]))
            p = p if own is None else (own + prior * p) / (own.sum() + prior)
        return p

    rows = (row.tolist() for row in np.split(test.codes, test.offsets[1:-1]))
    return [np.array([after([*start, *row[:t]]) for t in range(len(row) + 1)]) for row in rows]


def judged(rows: list[Floats], test: sj.Sequences) -> Floats:
    """Sum of log-losses, number of first guesses that are right, number of outcomes."""
    total = np.zeros(3)
    for row, p in zip(np.split(test.codes, test.offsets[1:-1]), rows, strict=True):
        outcome = np.append(row, test.n_symbols)
        own = p[np.arange(len(outcome)), outcome]
        total += -np.log(own).sum(), (p.argmax(axis=1) == outcome).sum(), len(outcome)
    return total


def rest_of(cases: sj.Sequences) -> tuple[sj.Sequences, Floats]:
    """Every prefix of complete cases, and how long it lasts from there: in hours, or in steps."""
    parts, owner = all_prefixes(cases)
    if cases.times is None:
        return parts, (cases.lengths[owner] - parts.lengths).astype(float)
    left = cases.times[cases.offsets[1:] - 1][owner] - cases.times
    return parts, left / np.timedelta64(1, "h")


def receipt() -> None:
    """Next activity and remaining hours of a permit process."""
    log = sj.read(LOGS / "receipt.xes.gz")
    fold = np.arange(len(log)) % FOLDS
    totals: dict[str, Floats] = defaultdict(lambda: np.zeros(3))
    errors: dict[str, list[Floats]] = defaultdict(list)
    covered: dict[str, list[Floats]] = defaultdict(list)
    for f in range(FOLDS):
        train, test = log[fold != f], log[fold == f]
        for order in ORDERS:
            totals[f"{order}-gram"] += judged(ngram(train, test, order), test)
        parts, hours = rest_of(test)
        seen, known = rest_of(train)
        mean = [known[seen.lengths == n].mean() for n in range(1, seen.lengths.max() + 1)]
        by_length = np.array(mean)[np.minimum(parts.lengths, len(mean)) - 1]
        errors["mean by length"].append(abs(by_length - hours))
        kept = np.arange(len(train)) % 4 == 0
        for name, model in models().items():
            rows = model.fit(train).predict_next(test, prefixes=True)
            totals[name] += judged(rows, test)
            rest = model.fit(train[~kept]).remaining_time(parts, held_out=train[kept])
            errors[name].append(abs(rest.time - hours))
            covered[name].append((rest.low <= hours) & (hours <= rest.high))
    print("receipt, five folds, ends included: nats per outcome, accuracy")
    for name, (loss, right, n) in totals.items():
        print(f"  {name:16}{loss / n:8.4f}{right / n:9.4f}")
    print("remaining hours at each event: mean absolute error, cover of intervals of 90 %")
    for name, found in errors.items():
        share = f"{np.concatenate(covered[name]).mean():9.3f}" if name in covered else ""
        print(f"  {name:16}{np.concatenate(found).mean():8.1f}{share}")


def cmapss() -> None:
    """Remaining cycles of turbofans that ran to failure: one sensor in 20 levels."""
    import pandas as pd

    tables = [pd.read_csv(LOGS / f"cmapss_fd001_{part}.csv", sep=";") for part in ("train", "test")]
    columns = {"id": "unit_nr", "time": "time_cycles", "symbol": "s_discretized"}
    engines = sj.Sequences.from_pandas(pd.concat(tables), **columns)
    engines = dataclasses.replace(engines, times=None)  # a cycle is a step
    own = np.isin(engines.ids, tables[1]["unit_nr"].unique())
    splits = [np.arange(len(engines)) % FOLDS == f for f in range(FOLDS)]
    rng = np.random.default_rng(0)
    hsmm = sj.HSMM(8, 30, ends=True, pseudocount=0.01, random_state=0)
    for name, model in {"SpectralHSMM": sj.SpectralHSMM(ends=True), "HSMM(8, 30)": hsmm}.items():
        covered, errors = [], []
        for held in (*splits, own):
            train, test = engines[~held], engines[held]
            kept = np.arange(len(train)) % 3 == 0
            model.fit(train[~kept])
            parts, cycles = rest_of(test)
            if held is not own:  # each engine at one cycle, so that they are independent
                pick = [int(rng.integers(a, b)) for a, b in zip(*_bounds(test), strict=True)]
                parts, cycles = parts[pick], cycles[pick]
            rest = model.remaining_time(parts, held_out=train[kept])
            covered.append((rest.low <= cycles) & (cycles <= rest.high))
            errors.append(rest.time - cycles)
        one, error = np.concatenate(covered[:-1]), np.concatenate(errors[:-1])
        print(
            f"{name}: {len(one)} engines at a random cycle, five folds: cover {one.mean():.2f}",
            end="",
        )
        print(
            f", mean absolute error {abs(error).mean():.1f}, RMSE {np.sqrt((error**2).mean()):.1f}"
        )
        print(f"  all cycles of the {int(own.sum())} test engines: ", end="")
        print(f"cover {covered[-1].mean():.2f}, RMSE {np.sqrt((errors[-1] ** 2).mean()):.1f}")


def _bounds(cases: sj.Sequences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return cases.offsets[:-1], cases.offsets[1:]


def run() -> None:
    """Both, if the data are there."""
    if not LOGS.is_dir():
        print("skipped: set SOJOURN_DATA to a folder with logs/")
        return
    receipt()
    cmapss()
