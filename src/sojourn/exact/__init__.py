"""The model, and exact inference given its parameters.

`params` holds the four tables of a hidden semi-Markov model, `forward` the scaled recursion,
`backward` and `expected_counts` the posteriors and the E-step, `viterbi` the best path, `draw`
samples.

May import: `data`, `scale`, `emissions`. Start reading: `params`, then `forward`.
"""
