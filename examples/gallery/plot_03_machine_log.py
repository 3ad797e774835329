"""
A machine that stays too long in a phase
========================================

A press repeats a cycle: load, heat, press, cool, unload. Its log has one line per second. Some
faults appear as a message in the wrong place; others write only ordinary messages, but for too
long. To find those, a model needs durations.

The log is simulated, by the function below. You will see how a detector with durations compares
with one without them, and where in a log it points.
"""

# %%
# The log
# -------
# A batch is six cycles. Messages are shared between phases: ``temp ok`` comes when the press
# heats, presses and cools, so a single message does not identify the phase.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

import sojourn as sj

PHASES = {  # mean seconds, spread, and the chances of messages
    "load": (6, 1.0, {"arm move": 0.7, "sensor read": 0.3}),
    "heat": (14, 1.5, {"heater on": 0.6, "temp ok": 0.2, "sensor read": 0.2}),
    "press": (10, 1.0, {"pressure ok": 0.6, "temp ok": 0.4}),
    "cool": (12, 1.5, {"fan on": 0.5, "temp ok": 0.3, "sensor read": 0.2}),
    "unload": (5, 1.0, {"arm move": 0.8, "sensor read": 0.2}),
}
FAULTS = {  # and the phase in which they happen
    "long press": "press",
    "short cooling": "cool",
    "arm retries": "load",
    "heater flicker": "heat",
}


def batch(rng, fault=None, cycles=6):
    """The messages of a batch, and the seconds of the faulty phase."""
    log, where = [], None
    bad = rng.integers(1, cycles - 1)
    for cycle in range(cycles):
        for phase, (mean, spread, messages) in PHASES.items():
            seconds = max(2, round(rng.normal(mean, spread)))
            if cycle == bad and FAULTS.get(fault) == phase:
                if fault == "heater flicker":
                    messages = {"heater on": 0.4, "fan on": 0.3, "temp ok": 0.3}
                else:
                    seconds = {"long press": 24, "short cooling": 2, "arm retries": 18}[fault]
                where = (len(log), len(log) + seconds)
            log += rng.choice(list(messages), size=seconds, p=list(messages.values())).tolist()
    return log, where


rng = np.random.default_rng(1)
training = [batch(rng)[0] for _ in range(60)]
calibration = [batch(rng)[0] for _ in range(60)]
normal = [batch(rng)[0] for _ in range(60)]
faulty = [(fault, *batch(rng, fault)) for fault in FAULTS for _ in range(15)]
logs = normal + [log for _, log, _ in faulty]
kinds = np.array(["normal"] * len(normal) + [fault for fault, _, _ in faulty])
print(f"{len(training)} batches to learn from, {sum(map(len, training))} messages")

# %%
# With and without durations
# --------------------------
# Four states, since unloading and loading follow each other and write the same messages.
# ``max_duration=1`` is a hidden Markov model. There are enough normal batches to fit each model
# once and to let the detector only calibrate it on others (``refit=False``).

WAYS = {  # name: longest stay, what the detector scores
    "likelihood, HMM": (1, "loglik"),
    "likelihood, HSMM": (30, "loglik"),
    "residuals, HSMM": (30, "residual"),
}
models = {
    longest: sj.HSMM(4, longest, tol=1e-5, max_iter=60, random_state=0).fit(training)
    for longest in (1, 30)
}
auc = {}
for way, (longest, method) in WAYS.items():
    detector = sj.AnomalyDetector(models[longest], method=method, refit=False).fit(calibration)
    scores = detector.score_samples(logs)
    for fault in FAULTS:
        some = (kinds == "normal") | (kinds == fault)
        auc[way, fault] = roc_auc_score(kinds[some] == fault, -scores[some])

print(f"{'AUC':15}" + "".join(f"{way:>18}" for way in WAYS))
for fault in FAULTS:
    print(f"{fault:15}" + "".join(f"{auc[way, fault]:18.2f}" for way in WAYS))

# %%
# A flickering heater writes messages in the wrong place, and every method finds it. The other three
# faults write ordinary messages, and without durations their likelihood is hardly lower. With
# durations it is. Residuals, the detector's default, compare how often and for how long things
# happen with what the model expects, and find nearly all faults.

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
y = np.arange(len(FAULTS))
looks = (("#d9822b", "s"), ("#4a7de0", "o"), ("#2a9d8f", "D"))
for way, (color, marker) in zip(WAYS, looks, strict=True):
    ax.plot([auc[way, f] for f in FAULTS], y, marker, color=color, label=way, alpha=0.9)
ax.axvline(0.5, color="#8b95a5", linewidth=1, linestyle=(0, (4, 3)))
ax.annotate("by chance", (0.5, 0.02), (4, 0), ("data", "axes fraction"), "offset points", size=9)
ax.set_yticks(y, FAULTS)
ax.set_ylim(len(FAULTS) - 0.4, -0.5)
ax.set_xlabel("AUC against normal batches")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.45, 1), ncols=3)
plt.show()

# %%
# Where
# -----
# A batch in which the press stays closed. The first reason is the fault.

_, log, (start, stop) = next(f for f in faulty if f[0] == "long press")
why = detector.explain([log], most=3)[0]
print(why)

# %%
# The same batch second by second: messages, the most probable states, and the surprise of each
# message. The fault is shaded.

fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
sj.plot.timeline(detector, [log], ax=ax)
ax.axvspan(start, stop, color="#dc4446", alpha=0.15, linewidth=0)
ax.set_xlabel("seconds")
plt.show()
