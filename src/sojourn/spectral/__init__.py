"""The paper: counts of windows to operators to probabilities, without iterations.

Melnyk and Banerjee, "A Spectral Algorithm for Inference in Hidden semi-Markov Models"; equations by
their labels in its source.

| in the paper | here |
|---|---|
| Section 3: the model, eqs. (durProb), (transProb) | `sojourn.exact.params.Params` |
| Section 4.1, eq. (mesTensorObserv): a product over steps | `reference.paper_prob` |
| Section 4.2: the moments M, counted | `moments.count`, `reference.count_gapped` |
| Section 4.2: the moments M of a known model | `exact_moments.exact_moments` |
| eqs. (DtensorObs), (tensorXobs), (tensorOobs): D̃, X̃, Õ | `paper.d_tilde`, `x_tilde`, `o_tilde` |
| Section 4.3: Algorithm 1, each step by itself | `paper.algorithm_1`, `paper.count_per_step` |
| Section 4.4: Algorithm 2, eqs. (DtensorAcc) to (OtensorAcc) | `paper.algorithm_2` |
| Section 5, Theorem 1: which symbols to read | `windows.theorem_offsets` |
| Section 5, Algorithms 3 and 4, the rank theorems | package `sojourn.theory` |
| Appendix B, eqs. (X11), (X2): the two ends | `paper.root_tilde`, `tail_tilde`, `as_operators` |

| beyond the paper | here |
|---|---|
| the adjacent form: one scaled SVD instead of three | `operators.learn_adjacent`, `reference` |
| the normalised filter: a true distribution | `filter.run_filter`, `reference.surprise` |
| window, rank and floor by held-out likelihood | `holdout.split`, `select_rank.learn` |
| large alphabets: windows that occur, operators that symbols share | `count_sparse`, `lowrank_*` |

May import: `data`, `scale`, `exact`. Start reading: `reference`, `windows`, then `paper`.
"""
