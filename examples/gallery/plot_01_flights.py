"""
Flights that are not like the others
====================================

Learn from recorded approaches of airliners to Paris what an approach looks like. Then rank
held-out airliners together with aircraft on special missions (calibration of landing aids,
firefighting, gliders, surveys), and ask why the most unusual one is unusual.

You will see how to fit an :class:`sojourn.AnomalyDetector`, how to read its scores and p-values,
and how to get its reasons in words.
"""

# %%
# The data
# --------
# The recordings come with the package. There is one symbol per second for what the aircraft
# does: descend, stay level or gain height; turn left, go straight or turn right. Two thirds of the
# airliners are used for training.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

import sojourn as sj

data = sj.datasets.approaches()
held_out = np.arange(len(data.normal)) % 3 == 0
training, others = data.normal[~held_out], data.normal[held_out]
flights = sj.Sequences.from_lists(
    [*others, *data.unusual], [*others.ids, *data.unusual.ids], training.vocabulary
)
kinds = np.array(["normal"] * len(others) + data.kinds.tolist())
abnormal = kinds != "normal"
print(f"{len(training)} approaches to learn from, {len(flights)} to rank")

# %%
# Learn and rank
# --------------
# ``contamination`` is the accepted false-alarm rate: the share of normal flights that may be
# flagged. No label is used: the detector only sees normal flights.

model = sj.HSMM(n_states=4, max_duration=20, tol=1e-3, max_iter=25, random_state=0)
detector = sj.AnomalyDetector(model, contamination=0.05).fit(training)
scores = detector.score_samples(flights)

auc = roc_auc_score(abnormal, -scores)
alarms = detector.predict(flights) == -1
print(f"AUC {auc:.2f}")
print(f"flagged: {alarms[abnormal].mean():.0%} of the missions")
print(f"flagged: {alarms[~abnormal].mean():.0%} of the held-out airliners")

# %%
# On the left, one ROC curve for each type of mission; surveys are the hardest to find. On the
# right, the scores and the threshold below which a flight is flagged.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
sj.plot.roc(scores, abnormal, kinds, ax=left)
sj.plot.scores(scores, abnormal, detector.offset_, ax=right)
plt.show()

# %%
# Why
# ---
# The flight with the lowest score, in words. The smallest possible p-value is 1/55, since there are
# 54 flights to compare with.

worst = int(np.argmin(scores))
why = detector.explain(flights[[worst]])[0]
print(why)

# %%
# The same flight from its first step to its last: what it does, the most probable states, and the
# surprise of each step. Red lines mark the steps named above.

fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
sj.plot.timeline(detector, flights, worst, marks=why.steps, ax=ax)
ax.set_xlabel(f"seconds ({flights.ids[worst]}, {kinds[worst]})")
plt.show()
