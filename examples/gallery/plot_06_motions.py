"""
Walking, running, standing, badminton
=====================================

BasicMotions, a public data set that the package aeon carries: a watch with an accelerometer and a
gyroscope (six channels, ten readings per second, ten seconds) on somebody who stands, walks, runs
or plays badminton. Take one motion as normal and find the others.

You will see how arrays of measurements are used as they are, and how a detector compares with the
likelihood of a hidden Markov model (hmmlearn). It needs ``pip install aeon``.
"""

# %%
# Fit in three lines
# ------------------
# aeon has the channels before the steps; sojourn, as hmmlearn, has them last.

import matplotlib.pyplot as plt
import numpy as np
from aeon.datasets import load_basic_motions
from hmmlearn.hmm import GaussianHMM
from sklearn.metrics import roc_auc_score

import sojourn as sj

X, kind = load_basic_motions(split="train")
model = sj.HSMM(3, 20, random_state=0).fit(X.transpose(0, 2, 1)[kind == "walking"])
print(model.summary())

# %%
# One channel of a person who walks, with the states that alternate at each step.

fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
sj.plot.signal(model, X.transpose(0, 2, 1)[kind == "walking"], 0, 0, ax=ax)
ax.set(xlabel="tenths of a second", ylabel="acceleration")
plt.show()

# %%
# One motion is normal, the others are not
# -----------------------------------------
# Ten recordings of a motion are normal. The test has ten of each motion. Beside the detector stands
# what one does with hmmlearn: a Gaussian HMM, and the log-likelihood per step.

test, kinds = load_basic_motions(split="test")
test = test.transpose(0, 2, 1)
auc, scores = {}, {}
for normal in np.unique(kind):
    train = X.transpose(0, 2, 1)[kind == normal]
    hsmm = sj.HSMM(3, 20, max_iter=30, random_state=0)
    detector = sj.AnomalyDetector(hsmm, contamination=0.1, cv=2).fit(train)
    hmm = GaussianHMM(3, covariance_type="diag", random_state=0)
    hmm.fit(train.reshape(-1, train.shape[2]), [train.shape[1]] * len(train))
    scores[normal] = detector.score_samples(test), detector.offset_
    auc[normal] = (
        roc_auc_score(kinds == normal, scores[normal][0]),
        roc_auc_score(kinds == normal, [hmm.score(one) for one in test]),
    )
    print(f"{normal:10} AUC {auc[normal][0]:.2f}, HMM {auc[normal][1]:.2f}")

# %%
# Scores of all recordings when walking is normal: lower is more unusual.

walking, threshold = scores["walking"]
fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
for row, name in enumerate(np.unique(kinds)):
    own = walking[kinds == name]
    ax.plot(own, np.full(len(own), row), "o", alpha=0.6, color="#4a7de0")
ax.axvline(threshold, color="#dc4446", linewidth=1)
ax.annotate(
    "threshold",
    (threshold, 1),
    (-4, -10),
    ("data", "axes fraction"),
    "offset points",
    size=9,
    ha="right",
)
ax.set_xscale("symlog")
ax.set_yticks(range(4), np.unique(kinds))
ax.set_xlabel("score")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
