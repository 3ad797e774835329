"""Which sequences are abnormal, how surely, where and why.

`detector` has `AnomalyDetector`; `views` the kinds of evidence, from the model, `residuals` and
`contexts`; `novelty` symbols never seen; `combination` and `calibration` the p-values; `explain`
the reasons in words; `stream` alarms while symbols arrive.

May import: `data`, `exact`, `estimators`. Start reading: `detector`, then `views`.
"""

METHODS = ("combined", "residual", "loglik", "typicality")  # what a detector can score
