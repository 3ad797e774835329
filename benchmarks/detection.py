"""Detection: false alarms, what each view finds, simulator flights, and what frequencies miss."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import numpy as np
from scipy.stats import betabinom
from sklearn.metrics import roc_auc_score

from benchmarks.hdfs import blocks
from sojourn import HSMM, AnomalyDetector, Params, Sequences, SpectralHSMM
from sojourn.datasets import simulate_approaches
from sojourn.detect.combination import of_views
from sojourn.detect.residuals import residuals, whiten

RATES = (0.01, 0.05, 0.10)
METHODS = ("combined", "residual", "loglik", "typicality")
KINDS = ("shuffled", "backwards", "exchanged", "evened", "lumped", "dealt")
SPICE = (1, 2, 3, 4, 6, 8, 9, 11, 13, 14)  # problems of strings


def calibration(draws: int = 200, m: int = 200) -> None:
    """False-alarm rates over draws of training and test set: their mean, and single draws."""
    print("\nFalse alarms on normal sequences, and draws inside the 95 % beta-binomial range")
    print("training  method      " + "".join(f"{f'at {r:.0%}':>28}" for r in RATES))
    params = Params.random(2, 2, 3, rng=0)
    for n in (30, 100, 1000):
        for method in METHODS:
            p = []
            for draw in range(draws):
                model = SpectralHSMM(2, 2, algorithm="adjacent", windows=(0, 1), rank=3)
                found = AnomalyDetector(model, method=method)
                found.fit(params.sample(n, 40, rng=[n, draw, 0]))
                p.append(found.pvalues(params.sample(m, 40, rng=[n, draw, 1])))
            cells = []
            for rate in RATES:
                alarms = (np.array(p) <= rate).sum(axis=1)
                k = int(rate * (n + 1) + 1e-9)  # p-values are multiples of 1 / (n + 1)
                if k == 0:
                    cells.append("too few")
                    continue
                false_alarms = betabinom(m, k, n + 1 - k)
                inside = (
                    (alarms >= false_alarms.ppf(0.025)) & (alarms <= false_alarms.ppf(0.975))
                ).mean()
                error = alarms.std(ddof=1) / m / np.sqrt(draws)
                off = (alarms.mean() / m - k / (n + 1)) / error
                cells.append(f"{alarms.mean() / m:.4f} ({off:+.1f} se), {inside:.0%}")
            print(f"{n:8,d}  {method:10s}  " + "".join(f"{c:>28}" for c in cells), flush=True)


def flights(seeds: int = 5) -> None:
    """AUC by type of anomaly on flights flown by hand, sizes chosen by cross-validation."""
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
    train, test, label = data[part == "train"], data[part == "test"], label[part == "test"]
    print("\nAUC by type of anomaly, flights flown by hand (default: mean ≥ 0.95, none < 0.85)")
    found: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        detector = AnomalyDetector(HSMM("auto", "auto", random_state=seed, verbose=False))
        detector.fit(train)
        model = detector.model_
        likely = model.score_samples(test) / test.lengths
        usual = np.median(model.score_samples(train) / train.lengths)
        scores = {
            "combined": -detector.score_samples(test),
            "loglik": -likely,
            "typicality": np.abs(likely - usual),
            "frequencies": _frequency(model, train).distance(residuals(model, test)["symbol"]),
        }
        for name, score in scores.items():
            found.setdefault(name, []).append(_by_kind(f"seed {seed} {name}", score, label))
        print(f"seed {seed}: states, longest stay {model.params_.duration.shape}", flush=True)
    for name, aucs in found.items():
        mean = np.mean(aucs, axis=0)
        _row(f"mean, {name}", mean)


def blind(n: int = 200, seeds: int = 2) -> None:
    """AUC where symbol frequencies are equal by construction."""
    print("\nAUC on simulated flights put into another order or timing (default: mean ≥ 0.85)")
    print(" " * 28 + "".join(f"{kind:>11}" for kind in KINDS) + f"{'mean':>11}")
    for seed in range(seeds):
        train, normal = simulate_approaches(n, [seed, 0]), simulate_approaches(n // 2, [seed, 1])
        detector = AnomalyDetector(HSMM(8, 30, max_iter=20, tol=1e-5, verbose=False)).fit(train)
        model, rng = detector.model_, np.random.default_rng(seed)
        frequency = _frequency(model, train)
        odd = [rearranged(normal, kind, rng) for kind in KINDS]
        label = np.repeat(["normal", *KINDS], len(normal))
        every = [normal, *odd]
        scores = {
            "combined": [-detector.score_samples(s) for s in every],
            "loglik": [-model.score_samples(s) / s.lengths for s in every],
            "frequencies": [frequency.distance(residuals(model, s)["symbol"]) for s in every],
        }
        for name, score in scores.items():
            _by_kind(f"seed {seed} {name}", np.concatenate(score), label, KINDS)


def by_view() -> None:
    """AUC of the combination and of each view alone, mean over the kinds of anomaly of a set."""
    print("\nAUC of the combination, and of the views that find most alone")
    data = Path(os.environ.get("SOJOURN_DATA", ""))
    sets = _hdfs(data) if (data / "logs").is_dir() else []
    for number in SPICE if (data / "spice").is_dir() else ():
        sets += _spice(data, number)
    for name, model, train, normal, odd in sets:
        detector = AnomalyDetector(model).fit(train)
        usual, found = _evidence(detector, normal), [_evidence(detector, some) for some in odd]
        areas = {view: np.mean([_auc(usual[view], one[view]) for one in found]) for view in usual}
        combined = areas.pop("combined")
        best = sorted(areas.items(), key=lambda item: -item[1])[:3]
        shown = ", ".join(f"{view} {area:.3f}" for view, area in best)
        print(f"{name:10s} {combined:.3f} ({combined - best[0][1]:+.3f})  {shown}", flush=True)


def _evidence(detector, sequences) -> dict[str, np.ndarray]:
    """The evidence of each view and of all together for each sequence."""
    encoded = detector._encode(sequences, None)
    folds, found = detector._folds(encoded.known), {}
    for fold in np.unique(folds).tolist():
        part = detector._views(fold, encoded.pick(folds == fold))
        for view, values in of_views(detector.evidence_.views, part).items():
            found.setdefault(view, np.empty(len(folds)))[folds == fold] = values[:, 0]
    return found | {"combined": -detector.score_samples(sequences)}


def _auc(normal, odd) -> float:
    return float(roc_auc_score(np.repeat([0, 1], [len(normal), len(odd)]), np.append(normal, odd)))


def _hdfs(data: Path) -> list:
    """Blocks of a file system's log: a fifth of the normal ones to train on, as many to test."""
    rows = {kind: blocks(data / "logs" / f"hdfs_{kind}.txt.gz") for kind in ("normal", "abnormal")}
    rng = np.random.default_rng(0)
    order = rng.permutation(len(rows["normal"])).tolist()
    cut = len(order) * 4 // 5
    train, test = ([rows["normal"][i] for i in part] for part in (order[:cut:4], order[cut:]))
    odd = [rows["abnormal"][i] for i in rng.permutation(len(rows["abnormal"]))[:1500].tolist()]
    return [("hdfs", HSMM(8, 5, max_iter=50, verbose=False), train, test, [odd])]


def _strings(data: Path, number: int) -> list[list[str]]:
    with gzip.open(data / "spice" / f"{number}.train.gz", "rt") as file:
        rows = [line.split()[1:] for line in file.read().splitlines()[1:]]
    return [row for row in rows if 6 <= len(row) <= 200]


def _spice(data: Path, number: int) -> list:
    """Strings with their second half shuffled, of another problem, and cut in the middle."""
    rng, every = np.random.default_rng(number), _strings(data, number)
    rows = [every[i] for i in rng.permutation(len(every))[:800].tolist()]
    train, test = rows[:500], rows[500:]
    symbols = sorted({symbol for row in train for symbol in row})
    other = _strings(data, SPICE[(SPICE.index(number) + 4) % len(SPICE)])[:300]
    foreign = [[symbols[int(s) % len(symbols)] for s in row] for row in other]
    half = [len(row) // 2 for row in test]
    pairs = list(zip(test, half, strict=True))
    shuffled = [[*row[:h], *rng.permutation(row[h:]).tolist()] for row, h in pairs]
    cut = [row[: max(h, 2)] for row, h in pairs]
    model = HSMM(6, 4, max_iter=40, verbose=False)
    return [(f"spice {number}", model, train, test, [shuffled, foreign, cut])]


def _frequency(model: HSMM, train: Sequences):
    """Mahalanobis distance of the square roots of symbol frequencies."""
    return whiten(residuals(model, train)["symbol"])


def rearranged(sequences: Sequences, kind: str, rng: np.random.Generator) -> Sequences:
    """Each sequence in another order, or with its runs of other lengths; symbols equally often."""
    rows = []
    for codes in np.split(sequences.codes, sequences.offsets[1:-1]):
        at = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        symbols, lengths = codes[at], np.diff(np.append(at, len(codes)))
        if kind == "exchanged":  # the two middle quarters
            a, b, c, d = np.array_split(codes, 4)
            rows.append(np.concatenate([a, c, b, d]))
            continue
        if kind == "backwards":
            symbols, lengths = symbols[::-1], lengths[::-1]
        elif kind == "shuffled":
            order = rng.permutation(len(symbols))
            symbols, lengths = symbols[order], lengths[order]
        for k in np.unique(symbols) if kind in ("evened", "lumped", "dealt") else ():
            of = np.flatnonzero(symbols == k)
            if kind == "dealt":  # the lengths of a symbol's runs, in another order
                lengths[of] = rng.permutation(lengths[of])
                continue
            total = lengths[of].sum()
            lengths[of] = total // len(of) if kind == "evened" else 1
            lengths[rng.choice(of)] += total - lengths[of].sum()
        rows.append(np.repeat(symbols, lengths))
    return Sequences(np.concatenate(rows), sequences.offsets, sequences.vocabulary, sequences.ids)


def _by_kind(name, score, label, kinds=()) -> list[float]:
    """Print and give the AUC of each kind against the normal ones."""
    aucs = []
    for kind in kinds or sorted(set(label) - {"normal"}):
        of = (label == "normal") | (label == kind)
        aucs.append(float(roc_auc_score(label[of] == kind, score[of])))
    _row(name, aucs)
    return aucs


def _row(name, aucs) -> None:
    cells = "".join(f"{auc:11.3f}" for auc in (*aucs, np.mean(aucs)))
    print(f"{name:28s}{cells}", flush=True)


def run() -> None:
    """All four."""
    by_view()
    flights()
    blind()
    calibration()
