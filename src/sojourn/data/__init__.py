"""What a sequence is, made from anything in memory.

`Sequences` (in `sequences`, on the layout of `ragged`) is the one input of every model: codes end
to end, offsets, a vocabulary, ids, and times if there are any. `adapters` reads columns of lists,
NumPy, pandas, polars and Arrow; `clock` makes one symbol per step of time; `changes` and
`discretize` make symbols of recorded channels and numbers.

May import: `errors`, `checks`. Start reading: `sequences`.
"""
