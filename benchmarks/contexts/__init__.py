"""Spectral learning on contexts, a candidate to take the place of fixed windows, to be measured.

Pasts and futures of variable length are grown from the data and read in runs (`trees`); one pass
counts which futures follow which pasts (`counts`); one scaled SVD gives operators (`operators`), a
filter scores with them (`filter`) beside a smoothed context tree (`followers`); tree size, rank and
mixture are chosen by held-out likelihood (`choice`). `model` has the estimator that the benchmarks
compare.
"""


def run() -> None:
    """Measure it beside n-grams: songs, flights, random automata, next-symbol rankings."""
    from benchmarks.contexts import study

    study.run()
