"""The paper's experiments, run again: figures, numbers, and a page with ours beside the paper's.

`synthetic` and `aviation` measure (Sections 6.1 and 6.2); `synthetic_page` and `aviation_page`
compare the results with the paper's claims. They share `grid` (cells that are stored, so that a
stopped run continues), `fits` (timed fits), `figures` and `page`. Nothing in ``src`` imports them.
"""
