"""Short ways: how many calls lie between a public method and the compiled kernels.

Counted are the calls on the stack below the public method, the one of the kernel included. The
stack of a thread, or of a worker of a cluster, continues that of whoever gave it its task.
"""

import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numba.core.registry import CPUDispatcher

import sojourn
from sojourn import HSMM, Params, SpectralHSMM, scan

PACKAGE = str(Path(sojourn.__file__).parent)
COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
TRUTH = Params.random(2, 3, 4, rng=0)
DATA = TRUTH.sample(3000, 50, rng=1)  # five chunks, so that there is work for two threads


class Recorder:
    """The path to every kernel that is called from Python."""

    def __init__(self):
        self.paths = set()
        self.of_cluster = ()  # the stack of whoever gave the workers their tasks
        self.above = threading.local()  # the stack of whoever submitted what a thread runs
        self.above.path = ()

    def stack(self):
        """Functions of the package that are being called, the outermost first."""
        found, frame = [], sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(PACKAGE) and code.co_name not in COMPREHENSIONS:
                found.append(code.co_qualname)
            frame = frame.f_back
        return (*getattr(self.above, "path", self.of_cluster), *found[::-1])

    def calling(self, call):
        def called(kernel, *args, **kwargs):
            self.paths.add((*self.stack(), kernel.py_func.__name__))
            return call(kernel, *args, **kwargs)

        return called

    def submitting(self, submit):
        def submitted(pool, fn, /, *args, **kwargs):
            path = self.stack()

            def run(*args, **kwargs):
                self.above.path = path
                return fn(*args, **kwargs)

            return submit(pool, run, *args, **kwargs)

        return submitted

    def mapping(self, map_on_cluster):
        def mapped(client, fn, *args, **kwargs):
            self.of_cluster = self.stack()
            return map_on_cluster(client, fn, *args, **kwargs)

        return mapped


@contextmanager
def recorded(monkeypatch, client=None):
    recorder = Recorder()
    with monkeypatch.context() as patch:
        patch.setattr(CPUDispatcher, "__call__", recorder.calling(CPUDispatcher.__call__))
        if client is None:
            patch.setattr(
                ThreadPoolExecutor, "submit", recorder.submitting(ThreadPoolExecutor.submit)
            )
        else:
            patch.setattr(type(client), "map", recorder.mapping(type(client).map))
        yield recorder


def check(recorder, kernels, most):
    """These kernels were called, and all by short paths."""
    assert set(kernels) <= {path[-1] for path in recorder.paths}
    longest = max(recorder.paths, key=len)
    assert len(longest) - 1 <= most, " > ".join(longest)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    for i in range(3):
        part = DATA[1000 * i : 1000 * (i + 1)]
        columns = {"id": np.repeat(part.ids, part.lengths), "symbol": part.codes}
        pq.write_table(pa.table(columns), folder / f"{i}.parquet")
    return scan(folder / "*.parquet", id="id", symbol="symbol", time=False)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    options = {"protocol": "tcp", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    options |= {"threads_per_worker": 1, "processes": False, "silence_logs": 50}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(1, **options) as cluster, distributed.Client(cluster) as it:
            yield it


def spectral(n_jobs):
    return SpectralHSMM(n_jobs=n_jobs)


def hsmm(n_jobs):
    return HSMM(2, 3, max_iter=2, n_jobs=n_jobs)


IN_MEMORY, IN_PARTITIONS = 7, 10
# Of the race of starts, and of EM after it, it is the same kernel.
IN_FIT = {spectral: ("_grow", "_fill_keys", "_filter"), hsmm: ("_locate", "run_chunk")}
IN_SCORE = {spectral: ("_filter",), hsmm: ("run_chunk",)}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("make", [spectral, hsmm])
def test_kernels_are_few_calls_away_in_memory(monkeypatch, make, n_jobs):
    with recorded(monkeypatch) as recorder:
        model = make(n_jobs).fit(DATA)
    check(recorder, IN_FIT[make], IN_MEMORY)
    with recorded(monkeypatch) as recorder:
        model.score(DATA)
    check(recorder, IN_SCORE[make], IN_MEMORY)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("make", [spectral, hsmm])
def test_kernels_are_few_calls_away_from_a_scan(monkeypatch, make, files, n_jobs):
    with recorded(monkeypatch) as recorder:
        model = make(n_jobs).fit(files)
    check(recorder, IN_FIT[make], IN_PARTITIONS)
    with recorded(monkeypatch) as recorder:
        model.score(files)
    check(recorder, IN_SCORE[make], IN_PARTITIONS)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("make", [spectral, hsmm])
def test_kernels_are_few_calls_away_on_a_cluster(monkeypatch, make, client, files):
    with recorded(monkeypatch, client) as recorder:
        model = make(1).fit(files, client=client)
    check(recorder, IN_FIT[make], IN_PARTITIONS)
    with recorded(monkeypatch, client) as recorder:
        model.score(files, client=client)
    check(recorder, IN_SCORE[make], IN_PARTITIONS)
