"""Figures of models, scores and sequences, each on matplotlib axes that are given or made.

Text, ticks and frames keep the colours of the style in use, and marks have colours of medium
lightness, so that figures are legible on a light and on a dark background.

May import: `data`, `exact`, `estimators`, `detect`. Start reading: `models`.
"""

from sojourn.plot.models import durations, emissions, occupancy, ranks, spectrum, transitions
from sojourn.plot.scores import precision_recall, pvalues, roc, scores
from sojourn.plot.sequence import timeline
from sojourn.plot.signals import signal

__all__ = [
    "durations",
    "emissions",
    "occupancy",
    "precision_recall",
    "pvalues",
    "ranks",
    "roc",
    "scores",
    "signal",
    "spectrum",
    "timeline",
    "transitions",
]
