"""Algorithms 3 and 4 and the rank theorems of the paper, checked on a model of your own.

May import: `exact`, `spectral`. Start reading: `step`, then `rank_report`.
"""
