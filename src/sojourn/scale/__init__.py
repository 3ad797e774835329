"""One pass over partitions of the data, by threads or on a Dask cluster.

Results do not depend on threads, partitions or workers: integers add in any order, floats along one
tree (`tree_sum`).

May import: `data`, `io`. Start reading: `threads`, then `passes`.
"""
