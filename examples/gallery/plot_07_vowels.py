"""
Who speaks?
===========

JapaneseVowels, a public data set that the package aeon carries: nine speakers say two vowels, 640
times in all; each recording has twelve channels (coefficients of the sound) and 7 to 29 steps. One
model per speaker, and the most likely model says who speaks.

You will see recordings of different lengths, and models used for classification. It needs
``pip install aeon``.
"""

# %%
# One model per speaker
# ---------------------
# The list of arrays is taken as it is, apart from the order of its axes. Six states that last at
# most six steps, with a diagonal covariance; thirty recordings per speaker.

import matplotlib.pyplot as plt
import numpy as np
from aeon.datasets import load_japanese_vowels

import sojourn as sj
from sojourn.emissions import Gaussian

X, speaker = load_japanese_vowels(split="train")
test, speakers = load_japanese_vowels(split="test")
names = np.unique(speaker)


def fitted(name, longest=6):
    """The model of a speaker."""
    own = [one.T for one, who in zip(X, speaker, strict=True) if who == name]
    model = sj.HSMM(
        6, longest, emissions=Gaussian(covariance="diagonal"), max_iter=30, tol=1e-3, random_state=0
    )
    return model.fit(own)


models = [fitted(name) for name in names]
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
