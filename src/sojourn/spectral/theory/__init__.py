"""Algorithms 3 and 4 and the rank theorems of the paper, checked on a model of your own.

May import: what `spectral` may. Start reading: `step`, then `rank_report`.
"""
