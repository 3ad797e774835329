"""Detection: false alarms at their nominal rate, simulator flights, and what frequencies miss."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from sojourn import HSMM, AnomalyDetector, Params, Sequences, SpectralHSMM
from sojourn.datasets import simulate_approaches
from sojourn.residuals import residuals, whiten

RATES = (0.01, 0.05, 0.10)
METHODS = ("residual", "loglik", "typicality")


def calibration(draws: int = 200, m: int = 200) -> None:
    """Mean false-alarm rates over draws of training and test set, in standard errors."""
    params = Params.random(2, 2, 3, rng=0)
    for n in (100, 1000):
        for method in METHODS:
            p = []
            for draw in range(draws):
                found = AnomalyDetector(SpectralHSMM(2, 2, rank=3), method=method)
                found.fit(params.sample(n, 40, rng=[n, draw, 0]))
                p.append(found.pvalues(params.sample(m, 40, rng=[n, draw, 1])))
            for rate in RATES:
                alarms = (np.array(p) <= rate).mean(axis=1)
                error = alarms.std(ddof=1) / np.sqrt(draws)
                print(f"n={n} {method}: {alarms.mean():.4f} ± {error:.4f} at {rate}", flush=True)


def flights(seeds: int = 5) -> None:
    """AUC by type of anomaly on flights flown by hand."""
    path = Path(os.environ.get("SOJOURN_DATA", "")) / "flightsim.csv"
    if not path.is_file():
        print("skipped: set SOJOURN_DATA to a folder with flightsim.csv")
        return
    with path.open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda r: (r["flight"], float(r["seconds"])))
    about = {r["flight"]: (r["set"], r["label"]) for r in rows}
    data = Sequences.from_columns(
        np.array([r["command"] for r in rows]), np.array([r["flight"] for r in rows])
    )
    part, label = (np.array([about[i][k] for i in data.ids.tolist()]) for k in (0, 1))
    train, test = data[part == "train"], data[part == "test"]
    for seed in range(seeds):
        model = HSMM("auto", "auto", random_state=seed, verbose=False)
        found = AnomalyDetector(model, method="residual").fit(train)
        _table(f"seed {seed}", -found.score_samples(test), label[part == "test"])


def blind(n: int = 100) -> None:
    """AUC where symbol frequencies are equal by construction."""
    train, normal = simulate_approaches(n, 0), simulate_approaches(n // 2, 1)
    model = HSMM(8, 30, max_iter=20, tol=1e-5, verbose=False)
    found = AnomalyDetector(model).fit(train)
    frequency = whiten(residuals(found.model_, train)["symbol"])
    rng = np.random.default_rng(0)
    for kind in ("shuffled", "backwards", "evened", "lumped", "exchanged"):
        odd = rearranged(normal, kind, rng)
        label = np.array(["normal"] * len(normal) + [kind] * len(odd))
        score = np.append(-found.score_samples(normal), -found.score_samples(odd))
        both = [residuals(found.model_, s)["symbol"] for s in (normal, odd)]
        _table("default", score, label)
        _table("frequencies", frequency.standard(np.concatenate(both)), label)


def rearranged(sequences: Sequences, kind: str, rng: np.random.Generator) -> Sequences:
    """Each sequence in another order, or with its runs of other lengths; symbols equally often."""
    rows = []
    for codes in np.split(sequences.codes, sequences.offsets[1:-1]):
        at = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        symbols, lengths = codes[at], np.diff(np.append(at, len(codes)))
        if kind == "exchanged":
            a, b, c, d = np.array_split(codes, 4)
            rows.append(np.concatenate([a, c, b, d]))
            continue
        if kind == "backwards":
            symbols, lengths = symbols[::-1], lengths[::-1]
        elif kind == "shuffled":
            order = rng.permutation(len(symbols))
            symbols, lengths = symbols[order], lengths[order]
        for k in np.unique(symbols) if kind in ("evened", "lumped") else ():
            of = np.flatnonzero(symbols == k)
            total = lengths[of].sum()
            lengths[of] = total // len(of) if kind == "evened" else 1
            lengths[rng.choice(of)] += total - lengths[of].sum()
        rows.append(np.repeat(symbols, lengths))
    return Sequences(np.concatenate(rows), sequences.offsets, sequences.vocabulary, sequences.ids)


def _table(name: str, score: np.ndarray, label: np.ndarray) -> None:
    for kind in sorted(set(label) - {"normal"}):
        of = (label == "normal") | (label == kind)
        print(f"{name}, {kind}: AUC {roc_auc_score(label[of] == kind, score[of]):.3f}", flush=True)


def run() -> None:
    """All three."""
    flights()
    blind()
    calibration()


if __name__ == "__main__":
    run()
