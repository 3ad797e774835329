"""Maximum likelihood: EM with L-BFGS acceleration, from a spectral start.

`em` is the loop, `mstep` and `durations` the M-step, `lbfgs` the acceleration, `start` and
`recovery` the starts, `labels` known states, `checkpoint` interrupted fits.

May import: `data`, `storage`, `scale`, `exact`, `spectral`. Start reading: `em`.
"""
