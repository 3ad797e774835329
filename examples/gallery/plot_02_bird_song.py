"""
How often a songbird repeats a syllable
=======================================

A Bengalese finch repeats syllables in bouts: five of this, six of that. The number of repeats has
a typical value. A hidden Markov model cannot represent this, because its durations are geometric,
and one repeat is always the most probable number. A semi-Markov model can.

You will see how to compare two duration distributions on held-out songs, and how to check a
model against the data by drawing from it.
"""

# %%
# The songs
# ---------
# If the environment variable ``SOJOURN_DATA`` names a folder with ``finch4.csv`` (one row per
# syllable: song, onset, syllable), the recorded songs in it are used. Otherwise the songs are
# simulated, with the order of syllables and numbers of repeats that such a bird has.

import os
from itertools import groupby
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import sojourn as sj

# Each syllable: the mean and the spread of its number of repeats, and what may come next.
SONG = {
    "a": (2.0, 0.8, {"b": 0.93, "e": 0.07}),
    "b": (1.0, 0.0, {"c": 1.0}),
    "c": (6.5, 2.4, {"d": 1.0}),
    "d": (4.8, 1.2, {"e": 0.55, "b": 0.45}),
    "e": (1.3, 0.5, {"a": 1.0}),
}


def sing(rng):
    """One song of about 60 syllables, which begins with a long bout of the first one."""
    syllable, repeats, song = "a", rng.integers(5, 16), []
    while len(song) < 60:
        song += [syllable] * repeats
        mean, spread, following = SONG[syllable]
        syllable = rng.choice(list(following), p=list(following.values())).item()
        mean, spread, _ = SONG[syllable]
        repeats = max(1, round(rng.normal(mean, spread)))
    return song


recorded = Path(os.environ.get("SOJOURN_DATA", "")) / "finch4.csv"
if recorded.is_file():
    songs = sj.read(recorded, id="song", time="onset", symbol="syllable")
    print("recorded songs")
else:
    rng = np.random.default_rng(0)
    songs = sj.Sequences.from_lists([sing(rng) for _ in range(400)])
    print("simulated songs")
print(songs)

# %%
# Two duration distributions
# ---------------------------
# Every third song is for training, the others are for testing. With ``durations="geometric"`` each
# state lasts as in a hidden Markov model; with ``"free"`` any distribution over 1 to 16 repeats is
# possible.

third = np.arange(len(songs)) % 3 == 0
training, test = songs[third], songs[~third]
models = {
    name: sj.HSMM(6, 16, durations=name, tol=1e-5, max_iter=60, random_state=0).fit(training)
    for name in ("free", "geometric")
}
perplexity = {name: float(np.exp(-model.score(test))) for name, model in models.items()}
for name, value in perplexity.items():
    print(f"{name:10} held-out perplexity {value:.3f}")

# %%
# What the models sing
# --------------------
# To compare with the recordings, draw songs from both models and count repeats in the same way.
# The geometric distribution has its maximum at a single syllable, where the bird hardly ever sings
# just one.


def repeats_of(sequences, syllable, most=16):
    """The share of bouts of a syllable that have 1, 2, … repeats."""
    bouts = [len(list(run)) for song in sequences for s, run in groupby(song) if s == syllable]
    return np.bincount(np.minimum(bouts, most), minlength=most + 1)[1:] / len(bouts)


drawn = {name: model.sample(300, length=60, random_state=1) for name, model in models.items()}
symbols = songs.vocabulary.tolist()
long_bouts = sorted(symbols, key=lambda s: repeats_of(test, s)[0])[:2]
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
x = np.arange(1, 17)
for ax, syllable in zip(axes, sorted(long_bouts), strict=True):
    ax.bar(x, repeats_of(test, syllable), color="0.8", label="held-out songs")
    ax.plot(x, repeats_of(drawn["free"], syllable), "o-", color="#4a7de0", label="free")
    ax.plot(x, repeats_of(drawn["geometric"], syllable), "s--", color="#d9822b", label="geometric")
    ax.set(xticks=range(2, 17, 2), xlabel="repeats in a bout", title=f"syllable {syllable}")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("share of bouts")
axes[1].legend(frameon=False)
plt.show()

# %%
# The distance of each model from the songs: half the sum of the absolute differences between the
# bars and its line.

distance = {
    name: max(
        0.5 * float(np.abs(repeats_of(test, s) - repeats_of(drawn[name], s)).sum())
        for s in long_bouts
    )
    for name in models
}
for name, value in distance.items():
    print(f"{name:10} largest distance {value:.2f}")
