"""From disk and by several: time and memory by size of data, threads and workers, killed workers.

``SOJOURN_SCALE`` is the largest number of symbols, 10^8 if not given. Files go to a temporary
folder and are deleted.
"""

import operator
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn import Params, SpectralHSMM, scan
from sojourn.parts import Parts
from sojourn.spectral import _Counting
from sojourn.windows import candidate_offsets

LARGEST = int(float(os.environ.get("SOJOURN_SCALE", "1e8")))
SIZE = (8, 40, 9)
WINDOWS = candidate_offsets(*SIZE)


def write(folder, n_symbols, length=1000, per_file=10**7):
    """Files of sequences of a random model, a row each event."""
    params = Params.random(*SIZE, rng=0)
    for i in range(0, n_symbols, per_file):
        n = min(per_file, n_symbols - i) // length
        codes = params.sample(n, length, rng=i).codes.astype(np.int8)
        ids = np.repeat(np.arange(i // length, i // length + n), length)
        pq.write_table(
            pa.table({"id": ids, "symbol": codes}),
            folder / f"{i:012}.parquet",
            row_group_size=2**18,
        )


def counted(folder, n_jobs=None, client=None):
    """Seconds of the one pass that counts, and what it counted."""
    files = scan(
        str(folder / "*.parquet"), id="id", symbol="symbol", time=False, vocabulary=range(SIZE[2])
    )
    parts = Parts.of(files, n_jobs, client)
    began = time.perf_counter()
    moments = parts.tallied(_Counting(WINDOWS, SIZE[2], False, False, 0), operator.add).moments()
    return time.perf_counter() - began, moments


def one_fit(folder):
    """Counting, then the rest of a fit, and the peak of memory: printed for the parent."""
    folder = Path(folder)
    seconds, moments = counted(folder)
    files = scan(
        str(folder / "*.parquet"), id="id", symbol="symbol", time=False, vocabulary=range(SIZE[2])
    )
    began = time.perf_counter()
    SpectralHSMM(*SIZE[:2]).fit(files)
    whole = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(seconds, max(whole - seconds, 0.0), peak, moments.n_total)


def by_size(root):
    print(f"load {os.getloadavg()[0]:.1f}; model {SIZE}, windows {WINDOWS}")
    print("   symbols  counting s  ns a symbol  rest of fit s  peak MiB")
    for n in (n for n in (10**6, 10**7, 10**8) if n <= LARGEST):
        folder = root / f"{n}"
        folder.mkdir()
        write(folder, n)
        command = [sys.executable, "-m", "benchmarks.scale", str(folder)]
        subprocess.run(command, check=True, capture_output=True)  # fills the page cache
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        seconds, rest, peak = map(float, out[:3])
        print(f"{n:10d}  {seconds:10.2f}  {1e9 * seconds / n:11.1f}  {rest:13.2f}  {peak:8.0f}")
    return folder


def by_workers(folder):
    import distributed

    times = {"1 thread": [], "2 threads": [], "1 worker": [], "2 workers": []}
    options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
    for _ in range(3):
        for n in (1, 2):
            name = f"{n} thread{'s' * (n > 1)}"
            times[name].append(counted(folder, n_jobs=n)[0])
            with (
                distributed.LocalCluster(n_workers=n, silence_logs=50, **options) as cluster,
                distributed.Client(cluster) as client,
            ):
                client.run(candidate_offsets, *SIZE)  # imports
                name = f"{n} worker{'s' * (n > 1)}"
                times[name].append(counted(folder, client=client)[0])
    median = {name: statistics.median(values) for name, values in times.items()}
    print(f"load {os.getloadavg()[0]:.1f}; medians of 3, interleaved")
    for kind in ("thread", "worker"):
        one, two = median[f"1 {kind}"], median[f"2 {kind}s"]
        print(f"1 {kind}: {one:.2f} s, 2: {two:.2f} s, {one / two:.2f} times")


def killed(root, n_runs=20):
    import distributed

    folder = root / "killed"
    folder.mkdir()
    write(folder, 2 * 10**6, per_file=10**5)
    _, truth = counted(folder)
    rng, exact = np.random.default_rng(0), 0
    options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=2, silence_logs=50, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        for _ in range(n_runs):
            client.wait_for_workers(2)
            pids = sorted(client.run(os.getpid).values())
            victim, moment = int(rng.choice(pids)), float(rng.uniform(0.0, 1.0))
            killer = threading.Timer(moment, os.kill, (victim, signal.SIGKILL))
            killer.start()
            _, found = counted(folder, client=client)
            killer.join()
            pairs = zip(truth.tables, found.tables, strict=True)
            exact += all(np.array_equal(a.H_o, b.H_o) for a, b in pairs)
    print(f"workers killed at random moments: {exact} of {n_runs} results exact")


def run():
    warnings.simplefilter("ignore")
    root = Path(tempfile.mkdtemp(prefix="sojourn-scale-"))
    try:
        largest = by_size(root)
        by_workers(largest)
        killed(root)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    one_fit(sys.argv[1])
