"""hmmlearn's CategoricalHMM, in its faster variant."""

import logging

import hmmlearn
import loop
from hmmlearn.hmm import CategoricalHMM

logging.getLogger("hmmlearn").setLevel(logging.ERROR)


class Model:
    def __init__(self, tables, train):
        start, A, B = tables
        self.hmm = CategoricalHMM(
            len(start), tol=-1e300, init_params="", n_features=B.shape[1], implementation="scaling"
        )
        self.hmm.startprob_, self.hmm.transmat_, self.hmm.emissionprob_ = start, A, B
        self.column, self.lengths = train.reshape(-1, 1), [train.shape[1]] * len(train)

    def iterate(self, n):
        self.hmm.n_iter = self.hmm.monitor_.n_iter = n  # the second is what is obeyed
        self.hmm.fit(self.column, self.lengths)

    def score(self, X):
        return [self.hmm.score(row.reshape(-1, 1)) for row in X]

    def total(self, X):
        return self.hmm.score(X.reshape(-1, 1), [X.shape[1]] * len(X))


if __name__ == "__main__":
    loop.serve(Model, hmmlearn.__version__)
