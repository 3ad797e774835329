"""
Contexts against n-grams
========================

A bird sings motifs, and which motif comes next depends on the one before the last: memory that
reaches over a dozen syllables. An n-gram sees the last few syllables. A longer one sees more, and
has less data for each past.

You will see how :class:`sojourn.SpectralHSMM`, which takes pasts as long as the data support and
joins those that promise the same future, compares with n-grams of every order. The songs are
simulated; on recorded finches the figures are on the page of benchmarks.
"""

# %%
# The songs
# ---------
# Three motifs of five to seven syllables. Each syllable may be repeated. The bird never sings the
# same motif at every second place: after A and B it sings C, after A and C it sings B, mostly.

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

import sojourn as sj

MOTIFS = {"A": "abcdd", "B": "abefgd", "C": "hbcceed"}


def sing(rng, motifs=9):
    """The syllables of a song."""
    order = list(rng.permutation(list(MOTIFS))[:2])
    while len(order) < motifs:
        (other,) = set(MOTIFS) - set(order[-2:])
        order.append(other if rng.random() < 0.9 else str(rng.choice(list(MOTIFS))))
        if order[-1] == order[-2]:
            order.pop()
    song = []
    for motif in order:
        for syllable in MOTIFS[motif]:
            song += [syllable] * (1 + (rng.random() < 0.15))
    return song


rng = np.random.default_rng(0)
songs = sj.Sequences.from_lists([sing(rng) for _ in range(400)])
train, test = songs[:200], songs[200:]
print(train)

# %%
# n-grams
# -------
# Each order falls back on the next shorter one where it has seen little (Witten and Bell).


def ngram_perplexity(order):
    """Perplexity of the test songs under an interpolated n-gram of the training songs."""
    counts, after = Counter(), {}
    for song in train:
        for t, symbol in enumerate(song):
            for k in range(min(order, t + 1)):
                past = tuple(song[t - k : t])
                counts[past, symbol] += 1
                after.setdefault(past, Counter())[symbol] += 1
    nats = 0.0
    for song in test:
        for t, symbol in enumerate(song):
            p = 1 / train.n_symbols
            for k in range(min(order, t + 1)):
                seen = after.get(past := tuple(song[t - k : t]))
                if seen:
                    total, different = seen.total(), len(seen)
                    p = (counts[past, symbol] + different * p) / (total + different)
            nats -= np.log(p)
    return float(np.exp(nats / test.n_total))


orders = np.arange(1, 13)
ngrams = {int(n): ngram_perplexity(n) for n in orders}
best = min(ngrams, key=ngrams.get)
print(f"best n-gram: order {best}, perplexity {ngrams[best]:.3f}")

# %%
# Contexts
# --------
# No size is given: contexts, rank and mixture are chosen on songs that the fit holds out.

model = sj.SpectralHSMM().fit(train)
perplexity = float(np.exp(-model.score(test)))
print(f"SpectralHSMM: perplexity {perplexity:.3f}, rank {model.rank_}")

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.plot(orders, list(ngrams.values()), "o-", color="#d9822b", label="n-grams")
ax.axhline(perplexity, color="#4a7de0", label="SpectralHSMM")
ax.set(xlabel="order of the n-gram", ylabel="held-out perplexity", xticks=orders, ylim=(1, 3))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# Where the gain is
# -----------------
# The surprise of each syllable of one song. The n-gram is surprised where a motif begins; the model
# knows which one is due, and is surprised where the bird itself breaks its rule, and by repeats.

song = test[0]
own = model.surprise([song])[0]
fig, ax = plt.subplots(figsize=(8, 2.8), layout="constrained")
ax.bar(range(len(song)), own, color="#4a7de0")
ax.set_xticks(range(len(song)), song, size=8)
ax.set(ylabel="surprise (nats)", xlabel="syllables of a song")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
