"""pomegranate's DenseHMM, without its probabilities of ending: all ends are taken as certain.

With them it would be a distribution over lengths too, and its likelihoods could not be compared.
"""

import loop
import numpy as np
import pomegranate
import torch
from pomegranate.distributions import Categorical
from pomegranate.hmm import DenseHMM

torch.set_num_threads(1)


def tensor(rows):
    return torch.as_tensor(rows[..., None].astype(np.int64))


class Model:
    def __init__(self, tables, train):
        start, A, B = (table.astype(np.float32) for table in tables)
        self.hmm = DenseHMM(
            [Categorical(row[None]) for row in B], edges=A, starts=start, ends=np.ones_like(start)
        )
        self.rows = tensor(train)

    def iterate(self, n):
        with torch.no_grad():
            for _ in range(n):
                self.hmm.summarize(self.rows)
                self.hmm.from_summaries()
                self.hmm.edges -= torch.logsumexp(self.hmm.edges, 1, keepdim=True)
                self.hmm.ends.zero_()

    def score(self, X):
        with torch.no_grad():
            return self.hmm.log_probability(tensor(X)).numpy()


if __name__ == "__main__":
    loop.serve(Model, pomegranate.__version__)
