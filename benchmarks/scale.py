"""From disk and by several: time and memory by size of data, threads and workers.

``SOJOURN_SCALE`` is the largest number of symbols, 10^8 if not given. Files go to a temporary
folder and are deleted.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit
from threadpoolctl import threadpool_limits

from sojourn import HSMM, Params, Sequences, SpectralHSMM, scan
from sojourn.cli.options import SETTINGS
from sojourn.contexts.counts import ContextTally
from sojourn.estimators.predictive import counted as counted_over
from sojourn.scale.passes import Partitions
from sojourn.spectral.choice import learn_contexts

LARGEST = int(float(os.environ.get("SOJOURN_SCALE", "1e8")))
SIZE = (8, 40, 9)


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


@cache
def trees():
    """Contexts that all counts of a process are over."""
    return SpectralHSMM(rank=8).fit(Params.random(*SIZE, rng=0).sample(500, 1000, rng=1)).trees_


def counted(folder, n_jobs=None, client=None):
    """Seconds of the one pass that counts, and what it counted."""
    partitions = Partitions.of(scanned(folder), n_jobs, client)
    over = partial(ContextTally, trees())
    began = time.perf_counter()
    moments = counted_over(partitions, over, n_jobs)
    return time.perf_counter() - began, moments


def one_fit(folder, few):
    """Counting by one thread and by all, and the rest of a fit."""
    folder, few = Path(folder), Path(few)
    counted(few, n_jobs=1)  # imports, and kernels read from their cache
    fixed, _ = counted(few, n_jobs=1)
    by_one = statistics.median(counted(folder, n_jobs=1)[0] for _ in range(3))
    by_all, moments = counted(folder)
    began = time.perf_counter()
    with threadpool_limits(1, user_api="blas"):  # as in a fit
        learn_contexts(moments, False, range(1, 65))
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
    print(f"load {os.getloadavg()[0]:.1f}; model {SIZE}, given contexts, from Parquet files")
    print("           counting by one thread                    by all  rest of    whole    peak")
    print("   symbols  fixed s        s  ns per symbol beyond it       s    fit s    fit s     MiB")
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
    data = Sequences.concatenate(scanned(folder))
    times = {n: [] for n in (1, None)}
    for _ in range(3):
        for n in times:
            began = time.perf_counter()
            SpectralHSMM(*SIZE[:2], n_jobs=n).fit(data)
            times[n].append(time.perf_counter() - began)
    one, two = (statistics.median(values) for values in times.values())
    print(f"{data.n_total} symbols in memory, whole fit: {one:.2f} s by one thread, {two:.2f} s")


def em_step(folder, n_jobs=None, client=None):
    """Seconds of a fit of one step, and the model."""
    model = HSMM(*SIZE[:2], init=Params.random(*SIZE, rng=1), max_iter=1, n_jobs=n_jobs)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one step is not enough
        model.fit(scanned(folder), client=client)
    return time.perf_counter() - began, model


def by_workers(what, job, folder, repeats):
    """A job by one and by two, in turns; threads and workers have counted before."""
    import distributed
    from dask import config

    options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    times = {(kind, n): [] for kind in ("thread", "worker") for n in (1, 2)}
    for n in (1, 2):
        counted(folder, n_jobs=n)
    for _ in range(repeats):
        for n in (1, 2):
            times["thread", n].append(job(folder, n_jobs=n)[0])
    for _ in range(repeats):
        for n in (1, 2):
            with (
                config.set(SETTINGS),
                distributed.LocalCluster(n_workers=n, silence_logs=50, **options) as cluster,
                distributed.Client(cluster) as client,
            ):
                counted(folder, client=client)
                times["worker", n].append(job(folder, client=client)[0])
    print(f"load {os.getloadavg()[0]:.1f}; {what}, medians of {repeats}, in turns")
    for kind in ("thread", "worker"):
        print(f"  1 {kind} and 2: {compared(times[kind, 1], times[kind, 2])}")


def compared(by_one, by_two):
    one, two = statistics.median(by_one), statistics.median(by_two)
    ratios = sorted(a / b for a, b in zip(by_one, by_two, strict=True))
    return (
        f"{one:.2f} s, {two:.2f} s, {one / two:.2f} times; "
        f"of pairs {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


@njit(nogil=True)
def _arithmetic(numbers, _):
    x = np.uint64(numbers[0])
    for _ in range(10**8):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
    numbers[0] = x


@njit(nogil=True)
def _copying(numbers, copies):
    for _ in range(8):
        for i in range(len(numbers)):
            copies[i] = numbers[i]


@njit(nogil=True)
def _vectors(numbers, _):
    for _ in range(20_000):
        for i in range(4096):  # which the nearest cache holds
            numbers[i] = (numbers[i] ^ np.uint64(7)) + np.uint64(1)


def two_cores():
    """What a second core of this machine is worth: at best, for vectors, and for memory alone.

    Two that share the vector units of one core, as hyper-threads do, gain little from vectors.
    """
    arrays = [(np.ones(2**23, np.uint64), np.ones(2**23, np.uint64)) for _ in range(2)]
    for job in (_arithmetic, _vectors, _copying):
        times = {1: [], 2: []}
        job(*arrays[0])
        for _ in range(9):
            for n in times:
                began = time.perf_counter()
                with ThreadPoolExecutor(n) as pool:
                    list(pool.map(job, *zip(*arrays, strict=True)))
                times[n].append(time.perf_counter() - began)
        print(f"{job.__name__[1:]} by 1 thread and 2: {compared(times[1], times[2])}")


def run():
    warnings.simplefilter("ignore")
    root = Path(tempfile.mkdtemp(prefix="sojourn-scale-"))
    try:
        largest = by_size(root)
        in_memory(largest)
        two_cores()
        by_workers("a pass that counts", counted, largest, repeats=9)
        by_workers("a fit of one step of EM", em_step, largest, repeats=3)
        two_cores()
    finally:
        shutil.rmtree(root)
