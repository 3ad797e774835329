"""Emissions: what is observed at a step, given the state.

An emission is a small frozen object, the one place that knows what an observation is. Without
parameters it is a wish (``Gaussian()``); `Emission.start` gives it parameters from weighted steps,
`Emission.updated` new ones from expected statistics, which add. Observations are arrays of float64,
one row per step and one column per channel; NaN is missing, in its channel only.

May import: nothing above it. Start reading: `base`, then `gaussian`; `channels` has several.
"""

from sojourn.emissions.base import Emission
from sojourn.emissions.categorical import Bernoulli, Categorical
from sojourn.emissions.channels import Channels
from sojourn.emissions.counts import NegativeBinomial, Poisson
from sojourn.emissions.gaussian import Gaussian
from sojourn.emissions.positive import Exponential, Gamma
from sojourn.emissions.student import StudentT

__all__ = [
    "Bernoulli",
    "Categorical",
    "Channels",
    "Emission",
    "Exponential",
    "Gamma",
    "Gaussian",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
]
