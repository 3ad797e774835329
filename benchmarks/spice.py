"""Next symbols of SPiCe's public problems: `SpectralHSMM`, `HSMM` and three others, by NDCG@5.

Data in ``SOJOURN_DATA/spice``. Strings are complete: their ends are predicted too; hmmlearn's HMM
has the end as one more symbol. Every method chooses its size on every tenth string. To keep this
short, the two fits by EM see at most 100,000 symbols and scikit-splearn 5,000 strings; it runs in
an environment of its own, as in `benchmarks.peers`. ``python -m benchmarks spice``; the variable
SPICE names some of the problems: ``SPICE=1,4``.
"""

from __future__ import annotations

import logging
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.contexts import _trigrams, ranking, strings
from benchmarks.peers.environments import HERE, PEERS, install
from sojourn import HSMM, Sequences, SpectralHSMM

Floats = NDArray[np.float64]
Rows = list[list[int]]

PROBLEMS = (1, 2, 3, 4, 6, 8, 9, 13)  # 14's targets belong to other prefixes; 11 has 6,722 symbols
HMM_STATES, HMM_ITERATIONS = (8, 24), 40
HSMM_SIZES = ((8, 1), (24, 1), (8, 4))  # states, free steps of a stay
MOST_SYMBOLS = 100_000  # the two fits by EM take strings up to this many


def some(rows: Rows) -> Rows:
    """The first strings, at most `MOST_SYMBOLS` symbols."""
    ends = np.cumsum([len(row) + 1 for row in rows])
    return rows[: int(np.searchsorted(ends, MOST_SYMBOLS)) + 1]


def held_out(rows: Rows) -> tuple[Rows, Rows]:
    return [r for i, r in enumerate(rows) if i % 10], rows[::10]


def by_spectral(rows: Rows, prefixes: Rows, n_o: int) -> Floats:
    symbols = np.arange(n_o)
    model = SpectralHSMM(ends=True)
    model.fit(Sequences.from_lists(rows, vocabulary=symbols, empty=True))
    return model.predict_next(Sequences.from_lists(prefixes, vocabulary=symbols, empty=True))


def by_hsmm(rows: Rows, prefixes: Rows, n_o: int) -> Floats:
    symbols, rows = np.arange(n_o), some(rows)
    made = [Sequences.from_lists(part, vocabulary=symbols, empty=True) for part in held_out(rows)]
    models = [
        HSMM(x, d, ends=True, max_iter=40, random_state=0).fit(made[0]) for x, d in HSMM_SIZES
    ]
    best = max(models, key=lambda model: model.score(made[1]))
    return best.predict_next(Sequences.from_lists(prefixes, vocabulary=symbols, empty=True))


def by_hmm(rows: Rows, prefixes: Rows, n_o: int) -> Floats:
    """hmmlearn's; what comes next is its own forward recursion and one step more."""
    from hmmlearn.hmm import CategoricalHMM

    def stacked(part: Rows) -> tuple[NDArray[np.int64], list[int]]:
        return np.concatenate([[*r, n_o] for r in part])[:, None], [len(r) + 1 for r in part]

    train, test = (stacked(part) for part in held_out(some(rows)))
    models = [
        CategoricalHMM(
            n, n_iter=HMM_ITERATIONS, tol=1.0, n_features=n_o + 1, implementation="scaling",
            emissionprob_prior=1.01, transmat_prior=1.01, startprob_prior=1.01, random_state=0,
        ).fit(*train)
        for n in HMM_STATES
    ]  # fmt: skip
    best = max(models, key=lambda model: model.score(*test))
    predicted = np.empty((len(prefixes), n_o + 1))
    for i, prefix in enumerate(prefixes):
        state = best.startprob_
        for symbol in prefix:
            state = state * best.emissionprob_[:, symbol]
            state = (state / max(state.sum(), 1e-300)) @ best.transmat_
        predicted[i] = state @ best.emissionprob_
    return predicted


def by_splearn(rows: Rows, prefixes: Rows, n_o: int) -> Floats:
    peer = next(peer for peer in PEERS if peer.name == "scikit-splearn")
    environment = install(peer, HERE.parents[1] / ".peers")
    if not environment.command:
        raise RuntimeError(environment.reason)
    with tempfile.TemporaryDirectory() as folder:
        for name, part in (("train", rows), ("prefixes", prefixes)):
            text = "\n".join(" ".join(map(str, row)) for row in part)
            Path(folder, f"{name}.txt").write_text(text + "\n")
        script = Path(environment.command[1]).with_name("next_scikit_splearn.py")
        subprocess.run(
            [environment.command[0], script, folder, str(n_o)], check=True, timeout=600,
            capture_output=True,
        )  # fmt: skip
        return np.load(Path(folder, "predicted.npy"))


METHODS: dict[str, Callable[[Rows, Rows, int], Floats]] = {
    "3-gram": _trigrams,
    "scikit-splearn": by_splearn,
    "HMM (hmmlearn)": by_hmm,
    "HSMM": by_hsmm,
    "SpectralHSMM": by_spectral,
}


def run() -> None:
    """A table in Markdown, one row per problem, with the mean of each method."""
    folder = Path(os.environ.get("SOJOURN_DATA", "")) / "spice"
    if not folder.is_dir():
        print("skipped: set SOJOURN_DATA to a folder with spice/")
        return
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    asked = os.environ.get("SPICE")
    problems = list(map(int, asked.split(","))) if asked else PROBLEMS
    print(f"| problem | {' | '.join(METHODS)} |\n|---|{'---:|' * len(METHODS)}", flush=True)
    table = []
    for problem in problems:
        rows, n_o = strings(folder / f"{problem}.train.gz")
        prefixes, _ = strings(folder / f"{problem}.prefix.public.gz")
        scores, seconds = [], []
        for method in METHODS.values():
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of sizes, on purpose
                try:
                    predicted = method(rows, prefixes, n_o)
                    target = folder / f"{problem}.target.public.gz"
                    scores.append(ranking(np.nan_to_num(predicted, nan=0.0), target))
                except (RuntimeError, subprocess.SubprocessError) as error:
                    print(f"<!-- {problem}: {str(error)[:200]} -->", flush=True)
                    scores.append(np.nan)
            seconds.append(time.process_time() - began)
        table.append(scores)
        took = ", ".join(f"{s:.0f}" for s in seconds)
        row = " | ".join(f"{score:.3f}" for score in scores)
        print(f"| {problem} | {row} | <!-- s: {took} -->", flush=True)
    print(f"| mean | {' | '.join(f'{mean:.3f}' for mean in np.nanmean(table, axis=0))} |")
