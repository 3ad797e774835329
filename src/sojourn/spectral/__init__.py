"""From counts to operators to probabilities, without iterations: on contexts, and the paper.

Melnyk and Banerjee, "A Spectral Algorithm for Inference in Hidden semi-Markov Models"; equations by
their labels in its source.

| in the paper | here |
|---|---|
| Section 3: the model, eqs. (durProb), (transProb) | `sojourn.exact.params.Params` |
| Section 4.1, eq. (mesTensorObserv): a product over steps | `paper.raw_log_prob` |
| Section 4.2: the moments M, counted | `moments.count` |
| Section 4.2: the moments M of a known model | `sojourn.theory.exact_moments` |
| eqs. (DtensorObs), (tensorXobs), (tensorOobs): D̃, X̃, Õ | `paper.d_tilde`, `x_tilde`, `o_tilde` |
| Section 4.3: Algorithm 1, each step by itself | `paper.algorithm_1` |
| Section 4.4: Algorithm 2, eqs. (DtensorAcc) to (OtensorAcc) | `paper.algorithm_2` |
| Section 5, Theorem 1: which symbols to read | `windows.theorem_offsets` |
| Section 5, Algorithms 3 and 4, the rank theorems | package `sojourn.theory` |
| Appendix B, eqs. (X11), (X2): the two ends | `paper.root_tilde`, `tail_tilde`, `as_operators` |

| beyond the paper | here |
|---|---|
| contexts in place of windows: one scaled SVD | `context_operators`, `reference` |
| the adjacent form of windows | `operators.learn_adjacent` |
| classes of symbols, read by the trees of large alphabets | `classes` |
| the normalised filter: a true distribution | `filter.run_filter`, `reference.surprise` |
| size, rank, ridge and mixture by held-out likelihood | `choice`, `select_rank` for windows |
| models and what they answer | `models`, `answers` |

May import: `data`, `scale`, `exact`, `contexts`. Start reading: `reference`, then
`context_operators`, `paper`.
"""
