"""The model, and exact inference given its parameters.

`params` holds the tables of a hidden semi-Markov model, `filter` the scaled recursion over one
sequence, a symbol at a time, `lanes` the same over several sequences side by side; `forward` what
the two answer. `backward` and `expected_counts` are the posteriors and the E-step, `viterbi` the
best path, `draw` samples.

May import: `data`, `scale`, `emissions`. Start reading: `params`, then `filter`.
"""
