"""Real sequences, found through SOJOURN_DATA: held-out perplexity, and which flights are abnormal.

Four models: `SpectralHSMM`, `HSMM`, hmmlearn's HMM (the best of 5 starts) and interpolated n-grams.
Five folds, sequence i in fold i modulo 5; every method chooses its size inside the training part by
its own means. Where there are labels, models of the training sequences separate normal from
abnormal ones: ours by `AnomalyDetector`, all of them by log-likelihood per symbol.
"""

from __future__ import annotations

import csv
import logging
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.ngrams import NGram
from sojourn import HSMM, AnomalyDetector, Sequences, SpectralHSMM, read, select

Floats = NDArray[np.float64]

FOLDS = 5
HMM_STARTS, HMM_STATES, HMM_ITERATIONS = 5, (4, 8, 16, 24), 100
# What was not seen in training is unlikely rather than impossible, as in HSMM.
PSEUDOCOUNT = 0.01
ORDERS = range(1, 9)


@dataclass(frozen=True)
class Corpus:
    """Sequences to learn from and, where there are any, labelled ones to judge."""

    name: str
    normal: Sequences
    sizes: tuple[list[int], list[int]]  # states and durations that HSMM compares
    judged: Sequences | None = None
    labels: NDArray[np.str_] | None = None


@dataclass(frozen=True)
class Fitted:
    """A model, the size that it chose, and log p of each sequence under it."""

    size: str
    log_prob: Callable[[Sequences], Floats]
    model: Any = None


def songs(folder: Path) -> Corpus:
    """Syllables of a finch."""
    data = read(folder / "finch4.csv", id="song", time="onset", symbol="syllable")
    return Corpus("finch4", data, ([12, 16, 24], [6, 10]))


def flights(folder: Path) -> Corpus:
    """Commands in a flight simulator, and flights of five unusual kinds."""
    path = folder / "flightsim.csv"
    data = read(path, id="flight", time="seconds", symbol="command")
    with path.open(newline="") as file:
        about = {row["flight"]: (row["set"], row["label"]) for row in csv.DictReader(file)}
    train = np.array([about[name][0] == "train" for name in data.ids.tolist()])
    labels = np.array([about[name][1] for name in data.ids.tolist()])
    sizes = ([8, 12, 16], [10, 20])
    return Corpus("flightsim", data[train], sizes, data[~train], labels[~train])


def fit_spectral(train: Sequences, corpus: Corpus) -> Fitted:
    model = SpectralHSMM().fit(train)  # it chooses its size itself
    return Fitted(f"rank {model.rank_}", model.score_samples, model)


def fit_hsmm(train: Sequences, corpus: Corpus) -> Fitted:
    found = select(train, *corpus.sizes, cv=3)
    model = HSMM(found.n_states, found.max_duration, verbose=False).fit(train)
    return Fitted(f"{found.n_states}x{found.max_duration}", model.score_samples, model)


def fit_hmm(train: Sequences, corpus: Corpus) -> Fitted:
    """hmmlearn's: for each number of states the start of most likelihood, then the least BIC."""
    from hmmlearn.hmm import CategoricalHMM

    column, lengths = train.codes[:, None], train.lengths.tolist()
    found = []
    for n_states in HMM_STATES:
        tried = []
        for seed in range(HMM_STARTS):
            model = CategoricalHMM(
                n_states,
                n_iter=HMM_ITERATIONS,
                tol=1.0,
                n_features=train.n_symbols,
                implementation="scaling",
                startprob_prior=1 + PSEUDOCOUNT,
                transmat_prior=1 + PSEUDOCOUNT,
                emissionprob_prior=1 + PSEUDOCOUNT,
                random_state=seed,
            ).fit(column, lengths)
            tried.append((model.score(column, lengths), -seed, model))
        best = max(tried)[2]
        found.append((best.bic(column, lengths), n_states, best))
    _, n_states, model = min(found)

    def log_prob(sequences: Sequences) -> Floats:
        parts = np.split(sequences.codes, sequences.offsets[1:-1])
        return np.array([model.score(part[:, None]) for part in parts])

    return Fitted(str(n_states), log_prob)


def fit_ngram(train: Sequences, corpus: Corpus) -> Fitted:
    """The order that does best on a fifth of the training part."""
    held = np.arange(len(train)) % FOLDS == 0
    scores = {n: NGram(n).fit(train[~held]).score(train[held]) for n in ORDERS}
    order = max(scores, key=lambda n: scores[n])
    model = NGram(order).fit(train)

    def log_prob(sequences: Sequences) -> Floats:
        return -np.add.reduceat(model.surprise(sequences), sequences.offsets[:-1])

    return Fitted(str(order), log_prob)


METHODS: dict[str, Callable[[Sequences, Corpus], Fitted]] = {
    "SpectralHSMM": fit_spectral,
    "HSMM": fit_hsmm,
    "HMM (hmmlearn)": fit_hmm,
    "n-grams": fit_ngram,
}


def perplexities(corpus: Corpus) -> None:
    """Held-out perplexity of each method, with the standard error over folds."""
    data = corpus.normal
    print(f"\n{corpus.name}: {len(data)} sequences, {data.n_total:,} symbols over {data.n_symbols}")
    print(f"{'':16s} perplexity  std. error  sizes of the folds            seconds")
    fold = np.arange(len(data)) % FOLDS
    for name, fit in METHODS.items():
        began, scores, counts, sizes = time.perf_counter(), [], [], []
        for k in range(FOLDS):
            fitted = fit(data[fold != k], corpus)
            test = data[fold == k]
            scores.append(float(fitted.log_prob(test).sum()))
            counts.append(test.n_total)
            sizes.append(fitted.size)
        each = np.exp(-np.array(scores) / np.array(counts))
        error = each.std(ddof=1) / np.sqrt(FOLDS)
        print(
            f"{name:16s} {np.exp(-sum(scores) / sum(counts)):10.4f}  {error:10.4f}  "
            f"{', '.join(sizes):28s} {time.perf_counter() - began:8.0f}",
            flush=True,
        )


def detection(corpus: Corpus) -> None:
    """AUC of telling abnormal sequences from normal ones, overall and by kind."""
    if corpus.judged is None or corpus.labels is None:
        return
    kinds = sorted(set(corpus.labels.tolist()) - {"normal"})
    print(f"\n{corpus.name}: AUC of {len(corpus.judged)} labelled sequences")
    print(f"{'':32s}    all  " + "  ".join(f"{kind:>6s}" for kind in kinds))
    per = corpus.judged.lengths
    for name, fit in METHODS.items():
        fitted = fit(corpus.normal, corpus)
        _print_auc(f"{name}, log-likelihood", fitted.log_prob(corpus.judged) / per, corpus, kinds)
        if fitted.model is not None:
            detector = AnomalyDetector(fitted.model).fit(corpus.normal)
            scores = detector.score_samples(corpus.judged)
            _print_auc(f"{name}, AnomalyDetector", scores, corpus, kinds)


def _print_auc(name: str, normality: Floats, corpus: Corpus, kinds: list[str]) -> None:
    labels = corpus.labels
    assert labels is not None
    odd = -np.nan_to_num(normality, neginf=-1e300)
    overall = roc_auc_score(labels != "normal", odd)
    by_kind = []
    for kind in kinds:
        among = (labels == "normal") | (labels == kind)
        by_kind.append(roc_auc_score(labels[among] == kind, odd[among]))
    print(f"{name:32s} {overall:6.3f}  " + "  ".join(f"{auc:6.3f}" for auc in by_kind), flush=True)


def run() -> None:
    """Everything, for the files that are there."""
    folder = Path(os.environ.get("SOJOURN_DATA", ""))
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    for file, corpus_of in (("finch4.csv", songs), ("flightsim.csv", flights)):
        if not os.environ.get("SOJOURN_DATA") or not (folder / file).is_file():
            print(f"skipped: set SOJOURN_DATA to a folder with {file}")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # more states than symbols, on purpose
            corpus = corpus_of(folder)
            perplexities(corpus)
            detection(corpus)
