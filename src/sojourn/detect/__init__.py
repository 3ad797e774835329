"""Which sequences are abnormal, how surely, where and why.

`detector` has `AnomalyDetector`, `residuals` and `novelty` the evidence, `calibration` the
p-values, `explain` the reasons in words.

May import: `data`, `exact`, `estimators`. Start reading: `detector`.
"""

METHODS = ("residual", "loglik", "typicality")  # what a detector can score
