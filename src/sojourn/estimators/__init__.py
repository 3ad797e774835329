"""The scikit-learn faces: `SpectralHSMM`, `ContextTree`, `HSMM`, `select` and forecasts.

Estimators translate: data into `Sequences`, arguments into calls of `spectral`, `em` and `exact`.

May import: all packages above it. Start reading: `spectral_hsmm`, then `hsmm`.
"""
