"""
Summer days among winter days
=============================

ItalyPowerDemand, a public data set that the package aeon carries: how much electricity Italy took,
hour by hour, on days of winter and of summer. Take one season as normal and find days of the other.

You will see one channel used as it is, and the detector beside the likelihood of a hidden Markov
model (hmmlearn). It needs ``pip install aeon``.
"""

# %%
# Fit in three lines
# ------------------
# A list of one-dimensional arrays of floats is one channel.

import matplotlib.pyplot as plt
import numpy as np
from aeon.datasets import load_italy_power_demand
from hmmlearn.hmm import GaussianHMM
from sklearn.metrics import roc_auc_score

import sojourn as sj

X, season = load_italy_power_demand(split="train")
model = sj.HSMM(4, 12, random_state=0).fit(list(X[season == "1"][:, 0]))
print(model.summary())

# %%
# A day, and the phases that it has
# ---------------------------------

fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
sj.plot.signal(model, list(X[season == "1"][:, 0]), 0, 0, ax=ax)
ax.set(xlabel="hour", ylabel="demand, standardised")
plt.show()

# %%
# One season is normal, the other is not
# --------------------------------------
# About thirty days of one season are normal; the test has 1,029 days of both. Beside the detector
# stands what one does with hmmlearn: a Gaussian HMM with as many states, and the log-likelihood per
# step. Both see only single days, and seasons differ little: neither finds all.

test, seasons = load_italy_power_demand(split="test")
days = list(test[:, 0])
auc = {}
for normal in np.unique(season):
    train = list(X[season == normal][:, 0])
    detector = sj.AnomalyDetector(sj.HSMM(4, 12, random_state=0)).fit(train)
    hmm = GaussianHMM(4, covariance_type="diag", random_state=0)
    hmm.fit(np.concatenate(train)[:, None], [len(day) for day in train])
    auc[normal] = (
        roc_auc_score(seasons == normal, detector.score_samples(days)),
        roc_auc_score(seasons == normal, [hmm.score(day[:, None]) / len(day) for day in days]),
    )
    print(f"season {normal}: AUC {auc[normal][0]:.2f}, HMM {auc[normal][1]:.2f}")
