"""dynamax's CategoricalHMM; its steps are compiled once per shape, which is not timed.

Its M-step is the mode of a Dirichlet distribution, which needs more than one pseudo-count
everywhere: entries that are zero in the start of the other packages are very small here.
"""

from functools import cache, partial
from importlib.metadata import version

import jax
import jax.numpy as jnp
import loop
import numpy as np
from dynamax.hidden_markov_model import CategoricalHMM

MORE_THAN_ONE = 1.0001


@cache
def compiled(n_states, n_symbols):
    """The model, one EM iteration, and the scores of sequences."""
    hmm = CategoricalHMM(
        n_states, 1, n_symbols, MORE_THAN_ONE, MORE_THAN_ONE,
        emission_prior_concentration=MORE_THAN_ONE,
    )  # fmt: skip
    _, props = hmm.initialize()

    @jax.jit
    def step(params, rows):
        stats, _ = jax.vmap(partial(hmm.e_step, params))(rows)
        state = hmm.initialize_m_step_state(params, props)
        return hmm.m_step(params, props, stats, state)[0]

    return hmm, step, jax.jit(jax.vmap(hmm.marginal_log_prob, (None, 0)))


class Model:
    def __init__(self, tables, train):
        start, A, B = (jnp.asarray(table, jnp.float32) for table in tables)
        hmm, self.step, self.log_prob = compiled(*B.shape)
        self.params, _ = hmm.initialize(
            initial_probs=start, transition_matrix=A, emission_probs=B[:, None]
        )
        self.rows = jnp.asarray(train[..., None].astype(np.int32))

    def iterate(self, n):
        for _ in range(n):
            self.params = self.step(self.params, self.rows)
        jax.block_until_ready(self.params)

    def score(self, X):
        return np.asarray(self.log_prob(self.params, jnp.asarray(X[..., None].astype(np.int32))))


if __name__ == "__main__":
    loop.serve(Model, version("dynamax"))
