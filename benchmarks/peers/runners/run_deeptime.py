"""deeptime's MaximumLikelihoodHMM, not reversible and not stationary: plain Baum-Welch.

Each of its fits ends with a Viterbi pass over the data.
"""

from importlib.metadata import version

import loop
import numpy as np
from deeptime.markov.hmm import DiscreteOutputModel, HiddenMarkovModel, MaximumLikelihoodHMM


class Model:
    def __init__(self, tables, train):
        start, A, B = tables
        self.hmm = HiddenMarkovModel(A, DiscreteOutputModel(B), start)
        self.rows = list(train.astype(np.int32))

    def iterate(self, n):
        estimator = MaximumLikelihoodHMM(
            self.hmm, stride=1, lagtime=1, reversible=False, stationary=False, accuracy=-np.inf,
            maxit=n,
        )  # fmt: skip
        self.hmm = estimator.fit(self.rows).fetch_model()

    def score(self, X):
        return [self.hmm.compute_observation_likelihood(row) for row in X.astype(np.int32)]

    def total(self, X):
        return self.hmm.compute_observation_likelihood(list(X.astype(np.int32)))


if __name__ == "__main__":
    loop.serve(Model, version("deeptime"))
