"""
Who speaks?
===========

JapaneseVowels, a public data set that the package aeon carries: nine speakers say two vowels, 640
times in all; each recording has twelve channels (coefficients of the sound) and 7 to 29 steps. One
model per speaker, and the most likely model says who speaks.

You will see recordings of different lengths, models used for classification, and a detector of
other speakers beside the likelihood of a hidden Markov model (hmmlearn). It needs
``pip install aeon``.
"""

# %%
# One model per speaker
# ---------------------
# The list of arrays is taken as it is, apart from the order of its axes. Six states that last at
# most six steps; thirty recordings per speaker are few for twelve channels, so all states share one
# covariance.

import matplotlib.pyplot as plt
import numpy as np
from aeon.datasets import load_japanese_vowels
from hmmlearn.hmm import GaussianHMM
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import sojourn as sj
from sojourn.emissions import Gaussian

X, speaker = load_japanese_vowels(split="train")
test, speakers = load_japanese_vowels(split="test")
names = np.unique(speaker)


def recordings(name):
    """Those of a speaker to learn from."""
    return [one.T for one, who in zip(X, speaker, strict=True) if who == name]


normal = Gaussian(covariance="tied")
hsmm = sj.HSMM(6, 6, emissions=normal, max_iter=30, tol=1e-3, random_state=0)
models = [clone(hsmm).fit(recordings(name)) for name in names]
likelihood = np.array([model.score_samples([one.T for one in test]) for model in models])
found = names[likelihood.argmax(axis=0)]
accuracy = float(np.mean(found == speakers))
print(f"{accuracy:.1%} of {len(test)} recordings are given to the right speaker")

# %%
# Who is taken for whom
# ---------------------

confusion = np.array([[np.sum(found[speakers == a] == b) for b in names] for a in names])
fig, ax = plt.subplots(figsize=(5.4, 4.6), layout="constrained")
mesh = ax.pcolormesh(confusion / confusion.sum(axis=1, keepdims=True), cmap="Blues")
for i, j in zip(*np.nonzero(confusion), strict=True):
    ax.annotate(
        confusion[i, j],
        (j + 0.5, i + 0.5),
        ha="center",
        va="center",
        size=9,
        color="white" if i == j else "black",
    )
ax.set_xticks(np.arange(len(names)) + 0.5, names)
ax.set_yticks(np.arange(len(names)) + 0.5, names)
ax.set(xlabel="found", ylabel="speaker")
ax.invert_yaxis()
plt.show()

# %%
# What a vowel looks like
# -----------------------
# The decoded states of some recordings of the first speaker: mostly the same phases in the same
# order, each stretched or shortened as the vowels are spoken.

own = [one.T for one, who in zip(test, speakers, strict=True) if who == names[0]][:20]
paths = models[0].predict(own)
grid = np.full((len(own), max(map(len, paths))), np.nan)
for row, path in zip(grid, paths, strict=True):
    row[: len(path)] = path
fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.pcolormesh(grid, cmap="tab10", vmin=0, vmax=9)
ax.set(xlabel="step", ylabel="recording")
plt.show()

# %%
# One speaker is normal, the others are not
# -----------------------------------------
# A detector knows thirty recordings of one speaker and ranks those of the test. Beside it stands
# what one does with hmmlearn: a Gaussian HMM with as many states, and the log-likelihood per step.
# Here nearly all evidence is in the likelihood, so both find about as much; only the detector has
# p-values, and reasons.

auc = []
for name in names:
    own = recordings(name)
    detector = sj.AnomalyDetector(hsmm).fit(own)
    hmm = GaussianHMM(6, covariance_type="diag", random_state=0)
    hmm.fit(np.concatenate(own), [len(one) for one in own])
    scores = detector.score_samples([one.T for one in test])
    per_step = [hmm.score(one.T) / one.shape[1] for one in test]
    auc.append([roc_auc_score(speakers == name, found) for found in (scores, per_step)])
print("AUC of the detector {:.3f}, of hmmlearn's likelihood {:.3f}".format(*np.mean(auc, axis=0)))
