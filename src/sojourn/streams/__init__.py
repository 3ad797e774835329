"""Observations that arrive one by one: `model.stream()` gives an `OnlineScorer`.

`scorer` has what all streams share, with snapshots; each kind of model has a module of its own.

May import: `data`, `exact`, `spectral`, `estimators`. Start reading: `scorer`, then `states`.
"""
