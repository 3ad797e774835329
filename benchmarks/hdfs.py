"""Abnormal blocks of a distributed file system's log (HDFS): AUC of detectors and of likelihoods.

Data in ``SOJOURN_DATA/logs``: one block per line, as event types. Half of the normal blocks are for
training; the test has the other half and every eighth abnormal one. No label is used in training.
"""

from __future__ import annotations

import gzip
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.ngrams import NGram
from sojourn import HSMM, AnomalyDetector, Sequences, SpectralHSMM


def blocks(path: Path) -> list[list[str]]:
    """Blocks of a file, those without events left out."""
    with gzip.open(path, "rt") as file:
        return [line.split() for line in file if line.strip()]


def run() -> None:
    """A table in Markdown."""
    folder = Path(os.environ.get("SOJOURN_DATA", "")) / "logs"
    if not (folder / "hdfs_normal.txt.gz").is_file():
        print("skipped: set SOJOURN_DATA to a folder with logs/hdfs_normal.txt.gz")
        return
    normal, abnormal = (blocks(folder / f"hdfs_{k}.txt.gz") for k in ("normal", "abnormal"))
    train, test = normal[::2], [*normal[1::2], *abnormal[::8]]
    odd = np.arange(len(test)) >= len(normal[1::2])
    print(f"{len(train)} blocks for training; {np.sum(~odd)} normal and {odd.sum()} abnormal\n")
    print("| method | AUC | found at 1 % false alarms | seconds |\n|---|---:|---:|---:|")

    words = sorted({event for block in (*train, *test) for event in block})
    made = [Sequences.from_lists(part, vocabulary=words) for part in (train, test)]

    def row(name: str, began: float, scores: Any) -> None:
        scores = np.nan_to_num(scores, neginf=-1e300)
        found = np.mean(scores[odd] < np.quantile(scores[~odd], 0.01))
        seconds = time.process_time() - began
        auc = roc_auc_score(odd, -scores)
        print(f"| {name} | {auc:.4f} | {found:.1%} | {seconds:.0f} |", flush=True)

    began = time.process_time()
    ngram = NGram(3).fit(made[0])
    sums = np.add.reduceat(ngram.surprise(made[1]), made[1].offsets[:-1])
    row("3-gram, likelihood per event", began, -sums / made[1].lengths)
    for name, model in (
        ("SpectralHSMM", SpectralHSMM(ends=True)),
        ("HSMM", HSMM(8, 4, ends=True, max_iter=60, random_state=0)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # symbols of the test that training lacks
            began = time.process_time()
            fitted = model.fit(made[0])
            per = fitted.score_samples(made[1]) / (made[1].lengths + 1)
            row(f"`{name}`, likelihood per event", began, per)
            began = time.process_time()
            detector = AnomalyDetector(model, cv=3).fit(train)
            row(f"`AnomalyDetector` with `{name}`", began, detector.score_samples(test))
