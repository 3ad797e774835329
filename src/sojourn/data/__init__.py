"""What a sequence is, made from anything in memory.

`Sequences` (in `sequences`) is the one input of every model: codes end to end, offsets, a
vocabulary, ids. `adapters` reads columns of lists, NumPy, pandas, polars and Arrow; `changes` and
`discretize` make symbols of recorded channels and numbers.

May import: `errors`, `checks`. Start reading: `sequences`.
"""
