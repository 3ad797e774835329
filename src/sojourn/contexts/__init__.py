"""Contexts: pasts and futures of variable length, what they are and how often they occur.

Data in pieces, some held out (`pieces`); trees of pasts and futures, read in runs (`trees`), grown
by counting sort (`grow`); counts over their contexts, which add (`counts`); what follows each past,
smoothed by shorter pasts (`followers`), the model behind `sojourn.ContextTree`.

May import: `data`, `scale`. Start reading: `trees`, then `counts`.
"""
