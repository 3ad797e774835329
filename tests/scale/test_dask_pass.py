"""A Dask cluster of process workers: the bits of one thread, whatever dies meanwhile."""

import asyncio
import os
import signal
import threading
import time
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import HSMM, Params, SojournError, SpectralHSMM, scan
from sojourn.scale import dask_pass
from sojourn.scale.dask_pass import MOST_TOGETHER, _grouped
from sojourn.scale.passes import Partitions, Pass
from sojourn.spectral.moments import WindowTally

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

# Workers are forked from a server that has imported what they need: an interpreter for each would
# take longer to start than all of the tests to run.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
PROCESSES = distributed.utils.get_mp_context()
PROCESSES.set_forkserver_preload(
    ["distributed", "sojourn.estimators.hsmm", "pyarrow.parquet", "pytest"]
)

TABLES = ("start", "transition", "duration", "emission")
TRUTH = Params.random(2, 3, 4, rng=0)
DATA = TRUTH.sample(1600, 50, rng=1)

# The event loops of a cluster close their sockets and processes when they are collected, and a
# worker that was killed leaves its pipes open: nothing that sojourn could do.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


def two_workers(**options):
    """A client of a cluster of its own, which ends with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            **options,
        )
        client = distributed.Client(cluster)
        yield client
        client.close()
        cluster.close()


@pytest.fixture(scope="module")
def client():
    yield from two_workers()


# Tests that end workers on purpose have theirs, so that no other test waits for new ones.
@pytest.fixture
def expendable():
    yield from two_workers()


@pytest.fixture
def cramped():
    """Workers whose memory is too small for themselves, so that they pause."""
    with dask.config.set({"distributed.worker.memory.terminate": False}):
        yield from two_workers(memory_limit="20 MB")


def files(folder, n):
    """The data in `n` files."""
    for i, rows in enumerate(np.array_split(np.arange(len(DATA)), n)):
        part = DATA[rows[0] : rows[-1] + 1]
        columns = {"id": np.repeat(part.ids, part.lengths), "symbol": part.codes}
        pq.write_table(pa.table(columns), folder / f"{i}.parquet")
    return scan(folder / "*.parquet", id="id", symbol="symbol", time=False)


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    return files(tmp_path_factory.mktemp("eight"), 8)


def same(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in TABLES)


@pytest.mark.parametrize("n", [1, 3, 8])
def test_tables_are_the_same_for_any_number_of_partitions(client, tmp_path, n):
    parts = files(tmp_path, n)
    assert len(parts) == n
    here = SpectralHSMM(2, 3).fit(DATA)
    there = SpectralHSMM(2, 3).fit(parts, client=client)
    for name in ("pairs", "moves", "follows"):
        mine, its = (getattr(model.moments_.counts, name) for model in (here, there))
        assert np.array_equal(mine.keys, its.keys)
        assert np.array_equal(mine.counts, its.counts)
    assert here.choice_ == there.choice_
    assert np.array_equal(here.operators_.own, there.operators_.own)
    assert np.array_equal(here.score_samples(DATA), there.score_samples(parts, client=client))
    fits = HSMM(2, 3, init=TRUTH, max_iter=3), HSMM(2, 3, init=TRUTH, max_iter=3)
    assert same(fits[0].fit(DATA).params_, fits[1].fit(parts, client=client).params_)


def test_start_from_moments_and_samples_is_the_same_on_the_cluster(client, eight):
    here = HSMM(2, 2, max_iter=2, random_state=3).fit(DATA)
    there = HSMM(2, 2, max_iter=2, random_state=3).fit(eight, client=client)
    assert same(here.params_, there.params_)


class Slow(Pass):
    """A pass that takes long enough to be killed in, and whose total depends on order."""

    ordered = True

    def empty(self):
        return []

    def add(self, total, sequences, partition):
        time.sleep(0.05)
        return [*total, float(np.sqrt(sequences.n_total + partition.number))]


def work(address):
    """Be a worker of a scheduler, until killed."""

    async def main():
        worker = distributed.Worker(address, nthreads=1, host="127.0.0.1", dashboard=False)
        await (await worker).finished()

    asyncio.run(main())


class Crew:
    """Workers without nannies, which may be killed at any moment and are replaced immediately.

    A nanny gives up a worker that is killed while it starts.
    """

    def __init__(self, address, n):
        self.address = address
        self.workers = [self.started() for _ in range(n)]

    def started(self):
        worker = PROCESSES.Process(target=work, args=(self.address,))
        worker.start()
        return worker

    def kill(self, number):
        self.workers[number].kill()
        self.workers[number].join()
        self.workers[number] = self.started()

    def close(self):
        for worker in self.workers:
            worker.kill()
            worker.join()


@pytest.fixture
def crewed():
    """A client of a scheduler, and its crew."""
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    cluster = distributed.LocalCluster(n_workers=0, processes=True, **options)
    crew = Crew(cluster.scheduler_address, 2)
    try:
        with cluster, distributed.Client(cluster) as client:
            yield client, crew
    finally:
        crew.close()


class SlowCounting(Pass):
    """A pass that counts windows, and takes long enough to be killed in."""

    def empty(self):
        return WindowTally([(0, 1), (0, 2)], 4)

    def add(self, total, sequences, partition):
        total.add(sequences, n_jobs=1)
        time.sleep(0.05)
        return total


def test_killed_workers_are_survived(crewed, eight):
    client, crew = crewed
    truth = Partitions.of(eight).run(Slow())
    counts = Partitions.of(eight).run(SlowCounting()).moments()
    rng, in_time = np.random.default_rng(0), 0
    for i in range(12):
        client.wait_for_workers(2, timeout=60)
        number, moment = int(rng.integers(2)), float(rng.uniform(0.0, 0.2))
        killer = threading.Timer(moment, crew.kill, (number,))
        killer.start()
        parts = Partitions.of(eight, client=client)
        if i % 2:
            assert parts.run(Slow()) == truth
        else:
            found = parts.run(SlowCounting()).moments()
            for mine, its in zip(counts.tables, found.tables, strict=True):
                assert np.array_equal(mine.H_o, its.H_o)
                assert np.array_equal(mine.first, its.first)
        in_time += not killer.is_alive()
        killer.join()
    assert in_time > 6  # the others came after their pass was done


def test_an_estimator_survives_a_killed_worker(crewed, eight):
    client, crew = crewed
    client.wait_for_workers(2, timeout=60)
    killer = threading.Timer(0.3, crew.kill, (0,))
    killer.start()
    there = HSMM(2, 3, init=TRUTH, max_iter=4, tol=0.0).fit(eight, client=client)
    killer.join()
    assert same(there.params_, HSMM(2, 3, init=TRUTH, max_iter=4, tol=0.0).fit(DATA).params_)


class Poison(Slow):
    """A pass that ends the worker of the partition that begins with an id."""

    def __init__(self, first_id):
        self.first_id = first_id

    def add(self, total, sequences, partition):
        if self.first_id == sequences.ids[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return total


@pytest.mark.parametrize(
    ("n_parts", "n_threads"), [(1, 8), (50, 1), (50, 2), (800, 100), (5000, 100)]
)
def test_groups_shrink_so_that_a_slow_worker_delays_little(n_parts, n_threads):
    groups = _grouped(tuple(range(n_parts)), n_threads)
    assert sum(groups, ()) == tuple(range(n_parts))
    assert max(map(len, groups)) <= MOST_TOGETHER
    speed = [1.0] * n_threads
    speed[0] = 0.5
    ends = [0.0] * n_threads
    for group in groups:  # to whoever is free first
        first = ends.index(min(ends))
        ends[first] += len(group) / speed[first]
    assert max(ends) < 1.3 * max(n_parts / sum(speed), 1 / speed[0])


def test_all_partitions_are_grouped_without_workers():
    assert sum(_grouped(tuple(range(50)), 0), ()) == tuple(range(50))


def test_tables_are_the_same_for_tasks_of_several_partitions(client, eight):
    client.wait_for_workers(2, timeout=60)
    adjacent = {"algorithm": "adjacent", "windows": (0, 1)}
    found = SpectralHSMM(2, 3, **adjacent).fit(eight, client=client)
    assert list(map(len, _grouped(Partitions.of(eight).items, 2))) == [2, 1, 1, 1, 1, 1, 1]
    alone = SpectralHSMM(2, 3, **adjacent).fit(eight)
    np.testing.assert_array_equal(found.moments_.tables[0].H_o, alone.moments_.tables[0].H_o)


def test_a_partition_that_always_kills_its_worker_is_named(expendable, eight):
    expendable.wait_for_workers(2, timeout=60)
    with pytest.raises(SojournError, match=r"partition .*5\.parquet.* ended 4 workers in a row"):
        Partitions.of(eight, client=expendable).run(Poison(1000))


def test_an_error_of_a_worker_reaches_the_driver(client, tmp_path):
    parts = files(tmp_path, 3)
    assert len(parts) == 3
    (tmp_path / "1.parquet").unlink()
    with pytest.raises((SojournError, OSError), match=r"1\.parquet"):
        SpectralHSMM(2, 3).fit(parts, client=client)


def test_progress_counts_partitions_on_the_driver(client, eight):
    seen = []
    parts = Partitions.of(eight, client=client)
    parts = replace(parts, watch=lambda done, n: seen.append((done, n)))
    assert parts.run(Slow())
    done = [n for n, _ in seen]
    assert len(done) == len(_grouped(parts.items, 2))
    assert done == sorted(set(done))
    assert seen[-1] == (8, 8)
    assert {n for _, n in seen} == {8}


def schedule(pipe):
    """Be a scheduler, until killed."""

    async def main():
        scheduler = distributed.Scheduler(host="127.0.0.1", dashboard=False)
        await scheduler
        pipe.send(scheduler.address)
        await scheduler.finished()

    asyncio.run(main())


@pytest.fixture
def remote():
    """A client of a scheduler in a process of its own, and that process."""
    mine, its = PROCESSES.Pipe()
    scheduler = PROCESSES.Process(target=schedule, args=(its,))
    scheduler.start()
    crew = Crew(mine.recv(), 1)
    client = distributed.Client(crew.address, timeout=30)
    client.wait_for_workers(1, timeout=60)
    try:
        yield client, scheduler
    finally:
        scheduler.kill()
        scheduler.join()
        crew.close()
        client.close(timeout=1)


def test_workers_with_too_little_memory_are_one_sentence_and_the_checkpoint_is_complete(
    cramped, eight, tmp_path, monkeypatch
):
    """Workers that pause take no tasks: the fit waited for ever."""
    monkeypatch.setattr(dask_pass, "PATIENCE", 2.0)
    path, how_to_fit = tmp_path / "checkpoint", {"init": TRUTH, "tol": 0.0}
    HSMM(2, 3, max_iter=2, **how_to_fit).fit(eight, checkpoint=path)
    kept = path.read_bytes()
    with pytest.raises(SojournError, match="all 2 workers of the cluster have paused"):
        HSMM(2, 3, max_iter=4, **how_to_fit).fit(
            eight, client=cramped, checkpoint=path, resume=True
        )
    assert path.read_bytes() == kept


def test_a_scheduler_that_stops_before_its_result_is_fetched_is_one_sentence(remote, monkeypatch):
    client, scheduler = remote
    monkeypatch.setattr(dask_pass, "PATIENCE", 1.0)
    monkeypatch.setattr(dask_pass, "ANSWER", 0.5)
    last = client.submit(np.ones, 10)
    distributed.wait(last)
    os.kill(scheduler.pid, signal.SIGSTOP)
    with pytest.raises(SojournError, match="its scheduler does not answer"):
        dask_pass._fetched(client, last, dask_pass._Pulse(client))


class Slower(Slow):
    def add(self, total, sequences, partition):
        time.sleep(0.4)
        return total


@pytest.mark.parametrize("how", ["closed", "killed", "stopped"])
def test_a_cluster_that_is_lost_is_one_sentence_and_the_checkpoint_is_complete(
    remote, eight, how, tmp_path, monkeypatch
):
    """The client closed, the scheduler killed, and the network gone, as a stopped process shows."""
    client, scheduler = remote
    monkeypatch.setattr(dask_pass, "PATIENCE", 2.0)
    monkeypatch.setattr(dask_pass, "ANSWER", 0.5)
    path = tmp_path / "checkpoint"
    how_to_fit = {"init": TRUTH, "tol": 0.0}
    HSMM(2, 3, max_iter=2, **how_to_fit).fit(eight, client=client, checkpoint=path)
    kept = path.read_bytes()
    lose = {
        "closed": client.close,
        "killed": scheduler.kill,
        "stopped": lambda: os.kill(scheduler.pid, signal.SIGSTOP),
    }[how]
    timer = threading.Timer(0.7, lose)
    timer.start()
    with pytest.raises(SojournError, match=r"the cluster was lost: its (client|scheduler)"):
        Partitions.of(eight, client=client).run(Slower())
    timer.join()
    resumed = HSMM(2, 3, max_iter=4, **how_to_fit)
    with pytest.raises(SojournError, match="the cluster was lost"):  # nor is it asked again
        resumed.fit(eight, client=client, checkpoint=path, resume=True)
    assert path.read_bytes() == kept
    resumed = HSMM(2, 3, max_iter=4, **how_to_fit).fit(eight, checkpoint=path, resume=True)
    assert same(resumed.params_, HSMM(2, 3, max_iter=4, **how_to_fit).fit(DATA).params_)
