"""All benchmarks, or those named: ``python -m benchmarks [name ...]``."""

import sys
import time
from importlib import import_module

NAMES = (
    "kernels",
    "compiling",
    "sensors",
    "spectral",
    "accuracy",
    "nested",
    "real",
    "contexts",
    "spice",
    "hdfs",
    "reading",
    "streams",
    "alphabets",
    "detection",
    "forecasts",
    "scale",
)

for name in sys.argv[1:] or NAMES:
    began = time.perf_counter()
    print(f"=== {name}", flush=True)
    import_module(f"benchmarks.{name}").run()
    print(f"=== {name}: {time.perf_counter() - began:.0f} s\n", flush=True)
