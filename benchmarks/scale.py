"""From disk and by several: time and memory by size of data, threads and workers.

``SOJOURN_SCALE`` is the largest number of symbols, 10^8 if not given. Files go to a temporary
folder and are deleted.
"""

import operator
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn import Params, SpectralHSMM, scan
from sojourn.choice import learn
from sojourn.cli.scale import SETTINGS
from sojourn.parts import Parts
from sojourn.spectral import _Counting
from sojourn.sums import concatenated
from sojourn.windows import candidate_offsets

LARGEST = int(float(os.environ.get("SOJOURN_SCALE", "1e8")))
SIZE = (8, 40, 9)
REPEATS = 9
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


def scanned(folder):
    pattern = str(folder / "*.parquet")
    return scan(pattern, id="id", symbol="symbol", time=False, vocabulary=range(SIZE[2]))


def counted(folder, n_jobs=None, client=None):
    """Seconds of the one pass that counts, and what it counted."""
    parts = Parts.of(scanned(folder), n_jobs, client)
    began = time.perf_counter()
    tally = parts.tallied(_Counting(WINDOWS, SIZE[2], False, False, 0), operator.add)
    moments = tally.moments(n_jobs)
    return time.perf_counter() - began, moments


def one_fit(folder, few):
    """Counting by one thread and by all, and the rest of a fit."""
    folder, few = Path(folder), Path(few)
    counted(few, n_jobs=1)  # imports, and kernels read from their cache
    fixed, _ = counted(few, n_jobs=1)
    by_one = statistics.median(counted(folder, n_jobs=1)[0] for _ in range(3))
    by_all, moments = counted(folder)
    began = time.perf_counter()
    learn(moments, None, SIZE[0] * SIZE[1], SIZE[0])
    rest = time.perf_counter() - began
    print(fixed, by_one, by_all, rest)


def whole_fit(folder):
    """A fit from files, and the peak of its memory."""
    began = time.perf_counter()
    SpectralHSMM(*SIZE[:2]).fit(scanned(Path(folder)))
    seconds = time.perf_counter() - began
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def alone(job, *folders):
    """What a job prints in a process of its own."""
    code = f"from benchmarks import scale; scale.{job}(*{[str(folder) for folder in folders]!r})"
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return map(float, out.split())


def by_size(root):
    print(f"load {os.getloadavg()[0]:.1f}; model {SIZE}, windows {WINDOWS}, from Parquet files")
    print("           counting by one thread                    by all  rest of    whole    peak")
    print("   symbols  fixed s        s  ns a symbol beyond it       s    fit s    fit s     MiB")
    few = root / "few"
    few.mkdir()
    write(few, 1000)
    for n in (n for n in (10**6, 10**7, 10**8) if n <= LARGEST):
        folder = root / f"{n}"
        folder.mkdir()
        write(folder, n)
        whole, peak = alone("whole_fit", folder)  # and fills the page cache
        fixed, by_one, by_all, rest = alone("one_fit", folder, few)
        print(
            f"{n:10d} {fixed:8.3f} {by_one:8.2f} {1e9 * (by_one - fixed) / n:21.1f} "
            f"{by_all:7.2f} {rest:8.2f} {whole:8.2f} {peak:7.0f}"
        )
    return folder


def in_memory(folder):
    """The whole fit of data that are in memory, by one thread and by all."""
    data = concatenated(list(scanned(folder)))
    times = {n: [] for n in (1, None)}
    for _ in range(3):
        for n in times:
            began = time.perf_counter()
            SpectralHSMM(*SIZE[:2], n_jobs=n).fit(data)
            times[n].append(time.perf_counter() - began)
    one, two = (statistics.median(values) for values in times.values())
    print(f"{data.n_total} symbols in memory, whole fit: {one:.2f} s by one thread, {two:.2f} s")


def by_workers(folder):
    """Passes by one and by two, in turns; threads and workers have made one before."""
    import distributed
    from dask import config

    options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    names = {1: ("1 thread", "1 worker"), 2: ("2 threads", "2 workers")}
    times = {name: [] for both in names.values() for name in both}
    for n in names:
        counted(folder, n_jobs=n)
    for _ in range(REPEATS):
        for n, (by_threads, _) in names.items():
            times[by_threads].append(counted(folder, n_jobs=n)[0])
    for _ in range(REPEATS):
        for n, (_, by_processes) in names.items():
            with (
                config.set(SETTINGS),
                distributed.LocalCluster(n_workers=n, silence_logs=50, **options) as cluster,
                distributed.Client(cluster) as client,
            ):
                counted(folder, client=client)
                times[by_processes].append(counted(folder, client=client)[0])
    median = {name: statistics.median(values) for name, values in times.items()}
    print(f"load {os.getloadavg()[0]:.1f}; medians of {REPEATS}, interleaved")
    for kind in ("thread", "worker"):
        one, two = median[f"1 {kind}"], median[f"2 {kind}s"]
        pairs = zip(times[f"1 {kind}"], times[f"2 {kind}s"], strict=True)
        ratios = sorted(a / b for a, b in pairs)
        print(
            f"1 {kind}: {one:.2f} s, 2: {two:.2f} s, {one / two:.2f} times; "
            f"of pairs {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def run():
    warnings.simplefilter("ignore")
    root = Path(tempfile.mkdtemp(prefix="sojourn-scale-"))
    try:
        largest = by_size(root)
        in_memory(largest)
        by_workers(largest)
    finally:
        shutil.rmtree(root)
