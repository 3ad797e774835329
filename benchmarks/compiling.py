"""Seconds that a first fit takes in a new environment, and which functions are compiled in it.

A function is compiled and optimised by itself, and once more as part of each kernel that calls it;
its own seconds do not contain those of the functions that it calls. Processor time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

MODELS = ("SpectralHSMM()", "HSMM(4, 6)")

SCRIPT = """
import time
from numba.core import event
import sojourn

running, rows = [], []

class Clock(event.Listener):
    def on_start(self, event):
        running.append([time.process_time(), 0.0])
    def on_end(self, event):
        began, inner = running.pop()
        taken = time.process_time() - began
        if running:
            running[-1][1] += taken
        function = event.data["dispatcher"].py_func
        rows.append((taken - inner, function.__module__, function.__name__))

event.register("numba:compile", Clock())
began = time.process_time()
sojourn.MODEL.fit([[0, 1, 1, 2, 0] * 10] * 50)
total = time.process_time() - began
print(f"{'MODEL'}: first fit {total:.1f} s, of which compiling {sum(r[0] for r in rows):.1f} s")
for seconds, module, name in sorted(rows, reverse=True)[:12]:
    print(f"{seconds:6.2f}  {module}.{name}")
print(f"{sum(r[0] for r in sorted(rows, reverse=True)[12:]):6.2f}  {len(rows) - 12} others")
"""


def run() -> None:
    """Both tables, each by a process without compiled code of before."""
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            script = SCRIPT.replace("MODEL", model)
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            subprocess.run([sys.executable, "-c", script], env=environment, check=True)
