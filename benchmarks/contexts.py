"""Contexts beside n-grams: held-out perplexity of songs and flights, automata, SPiCe's rankings.

Sizes, ranks and weights are chosen inside each training part. SPiCe's score is NDCG@5 on its public
prefixes. The targets of its problem 14 do not belong to their prefixes: equal prefixes have
different targets, which are those of the prefix with one more symbol.
"""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.ngrams import NGram
from sojourn import Sequences, SpectralHSMM, read
from sojourn.datasets import simulate_approaches

Floats = NDArray[np.float64]

FOLDS = 5
PROBLEMS = (1, 2, 3, 4, 6, 8, 9, 11, 13, 14)
# States and symbols of random automata, each state with four arcs.
AUTOMATA = ((10, 4), (30, 4), (30, 10), (60, 10), (60, 20))
RANKED = 5


def songs(path: Path) -> None:
    """Five-fold perplexity of a finch's syllables."""
    data = read(path, id="song", time="onset", symbol="syllable", quiet=True)
    fold, began, total = np.arange(len(data)) % FOLDS, time.perf_counter(), np.zeros(2)
    for k in range(FOLDS):
        train, test = data[fold != k], data[fold == k]
        held = np.arange(len(train)) % FOLDS == 0
        scores = {n: NGram(n).fit(train[~held]).score(train[held]) for n in range(1, 9)}
        order = max(scores, key=lambda n: scores[n])
        total[0] += SpectralHSMM().fit(train).score_samples(test).sum()
        total[1] -= NGram(order).fit(train).surprise(test).sum()
    ours, theirs = np.exp(-total / data.n_total)
    seconds = time.perf_counter() - began
    print(f"{path.stem:12s} perplexity {ours:.4f}, n-grams {theirs:.4f}  {seconds:6.1f} s")


def flights() -> None:
    """Held-out likelihood of simulated approaches."""
    data = simulate_approaches(400, rng=1)
    began = time.perf_counter()
    score = SpectralHSMM().fit(data[:300]).score(data[300:])
    print(f"{'flights':12s} {score:.4f} nats per symbol  {time.perf_counter() - began:6.1f} s")


def random_automaton(n_states: int, n_symbols: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Operators p(symbol, next state | state), p(end | state) and p(first state)."""
    rng = np.random.default_rng(seed)
    T, end = np.zeros((n_symbols, n_states, n_states)), np.full(n_states, 1 / 11)
    for x in range(n_states):
        for p in rng.dirichlet(np.ones(4)):
            T[rng.integers(n_symbols), x, rng.integers(n_states)] += p * (1 - end[x])
    return T, end, rng.dirichlet(np.ones(n_states))


def draw_strings(
    T: Floats, end: Floats, start: Floats, n: int, seed: int
) -> tuple[Sequences, float]:
    """Strings, and their log-probability."""
    n_o, n_x, _ = T.shape
    rng = np.random.default_rng(seed)
    cumulated = np.cumsum(T.transpose(1, 0, 2).reshape(n_x, -1), axis=1)
    rows, log_prob = [], 0.0
    while len(rows) < n:
        x, row, alpha = rng.choice(n_x, p=start), [], start
        while (j := int(np.searchsorted(cumulated[x], rng.random()))) < n_o * n_x:
            row.append(j // n_x)
            alpha = alpha @ T[j // n_x]
            x = j % n_x
        log_prob += float(np.log(alpha @ end))
        rows.append(row)
    return Sequences.from_lists(rows, vocabulary=np.arange(n_o), empty=True), log_prob


def automata(n_models: int = 2, n_strings: int = 20_000) -> None:
    """Perplexity on fresh strings, ends counted, over the truth's."""
    for n_states, n_symbols in AUTOMATA:
        for seed in range(n_models):
            model = random_automaton(n_states, n_symbols, seed)
            train, _ = draw_strings(*model, n_strings, seed + 100)
            test, truth = draw_strings(*model, 4000, seed + 200)
            began = time.perf_counter()
            ours = float(SpectralHSMM(ends=True).fit(train).score_samples(test).sum())
            ratio = np.exp((truth - ours) / (test.n_total + len(test)))
            seconds = time.perf_counter() - began
            print(
                f"automaton of {n_states} states, {n_symbols} symbols: {ratio:.4f}  {seconds:.1f} s"
            )


def strings(path: Path) -> tuple[list[list[int]], int]:
    """Strings of a file of SPiCe, and the number of symbols that it names."""
    with gzip.open(path, "rt") as file:
        n_symbols = int(file.readline().split()[1])
        return [list(map(int, line.split()))[1:] for line in file if line.strip()], n_symbols


def ranking(predicted: Floats, path: Path) -> float:
    """Mean NDCG@5; the last column is the end, -1 in the file of targets."""
    n_symbols, total = predicted.shape[1] - 1, 0.0
    top = np.argsort(-predicted, axis=1, kind="stable")[:, :RANKED]
    with gzip.open(path, "rt") as file:
        targets = [line.split() for line in file if line.strip()][: len(predicted)]
    for row, (most, *pairs) in zip(top, targets, strict=True):
        p = dict(zip(map(int, pairs[::2]), map(float, pairs[1::2]), strict=True))
        gains = [p.get(-1 if s == n_symbols else int(s), 0.0) for s in row]
        total += sum(g / np.log2(r + 2) for r, g in enumerate(gains)) / float(most)
    return total / len(predicted)


def spice(folder: Path, problem: int) -> None:
    """Next-symbol ranking beside interpolated 3-grams, whose end is one more symbol."""
    rows, n_o = strings(folder / f"{problem}.train.gz")
    prefixes, _ = strings(folder / f"{problem}.prefix.public.gz")
    began, vocabulary = time.perf_counter(), np.arange(n_o)
    model = SpectralHSMM(ends=True)
    model.fit(Sequences.from_lists(rows, vocabulary=vocabulary, empty=True))
    asked = Sequences.from_lists(prefixes, vocabulary=vocabulary, empty=True)
    predicted = model.predict_next(asked)
    target = folder / f"{problem}.target.public.gz"
    ours, seconds = ranking(predicted, target), time.perf_counter() - began
    theirs = ranking(_trigrams(rows, prefixes, n_o), target)
    print(
        f"SPiCe {problem:2d}     NDCG@5 {ours:.4f}, 3-grams {theirs:.4f}  {seconds:6.1f} s",
        flush=True,
    )


def _trigrams(rows: list[list[int]], prefixes: list[list[int]], n_o: int) -> Floats:
    vocabulary = np.arange(n_o + 1)
    model = NGram(3).fit(Sequences.from_lists([[*r, n_o] for r in rows], vocabulary=vocabulary))
    return model.predict_next(Sequences.from_lists(prefixes, vocabulary=vocabulary, empty=True))


def run() -> None:
    """Everything, for the files that are there."""
    flights()
    automata()
    folder = Path(os.environ.get("SOJOURN_DATA", ""))
    if not os.environ.get("SOJOURN_DATA"):
        print("skipped: set SOJOURN_DATA to a folder with finch4.csv, finch7.csv and spice/")
        return
    for name in ("finch4.csv", "finch7.csv"):
        songs(folder / name)
    for problem in PROBLEMS:
        spice(folder / "spice", problem)
