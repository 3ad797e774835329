"""Settings that all tests share."""

import os

import hypothesis

# The same examples on every run; no deadline, since a first call may compile a numba kernel.
hypothesis.settings.register_profile("sojourn", derandomize=True, deadline=None)
hypothesis.settings.load_profile("sojourn")

os.environ.setdefault("MPLBACKEND", "Agg")
