"""Files to `Sequences`, all at once (`read`) or partition by partition (`scan`).

The only package that imports pyarrow and duckdb. `sources` has the public functions, `layout` is
what a file holds, `formats` picks the reader (`csv`, `lines`, `columnar`, `xes`), `gather` turns
batches of rows into sequences, `sort` sorts tables that do not fit in memory.

May import: `data`, `storage`. Start reading: `sources`.
"""
