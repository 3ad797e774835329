"""The paper: counts of windows to operators to probabilities, without iterations.

| step | file |
|---|---|
| which symbols to read around a step (Theorem 1) | `windows` |
| counting them in one pass | `moments`, `count_dense`, `count_sparse`, `moment_tables` |
| exact moments of a known model, the oracle | `exact_moments` |
| operators by one scaled SVD; Algorithms 1 and 2, Appendix B | `operators` |
| the same for large alphabets | `lowrank_operators` |
| probabilities of sequences | `filter`, `lowrank_filter` |
| window, rank and floor by held-out likelihood | `holdout`, `select_rank` |
| Algorithms 3 and 4 and the rank theorems | package `theory` |

May import: `data`, `scale`, `exact`. Start reading: `windows`, then `operators`.
"""
