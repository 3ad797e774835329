"""An interrupt ends a command soon, with nothing left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sojourn as sj
from sojourn.storage import atomic

ENV = {**os.environ, "PYTHONPATH": str(Path(sj.__file__).parents[1])}
SOON = 30.0  # seconds: half of one by design, and the kernels below take a quarter of an hour

# A command that is deep in a kernel, or waits for threads that are, with a file under way.
BUSY = """
import sys, time
from numba import njit
from concurrent.futures import ThreadPoolExecutor
from sojourn import cli
from sojourn.storage.atomic import atomic_write

@njit(nogil=True)
def kernel(n):
    x = 0.0
    for i in range(n):
        x = x * 0.5 + i % 7
    return x

def run(args):
    kernel(10)
    with atomic_write(args[0]) as file:
        file.write("half")
        file.flush()
        print("ready", flush=True)
        if args[1] == "kernel":
            return kernel(10**12)
        if args[1] == "sleep":
            return time.sleep(1000)
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(kernel, [10**12] * 4))

cli.run = run
cli.main(sys.argv[1:])
"""


@pytest.mark.parametrize("where", ["kernel", "threads", "sleep"])
def test_an_interrupt_is_obeyed_soon_and_leaves_nothing(where, tmp_path):
    command = [sys.executable, "-c", BUSY, str(tmp_path / "file"), where]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=ENV, **pipes) as process:
        assert process.stdout.readline() == b"ready\n"
        assert len(list(tmp_path.iterdir())) == 1  # the draft
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=SOON)
        finally:
            process.kill()
    assert process.returncode == 130
    assert said == b""
    assert list(tmp_path.iterdir()) == []


def test_drafts_are_known_while_they_are_written(tmp_path):
    with atomic.atomic_write(tmp_path / "file") as file:
        file.write("new")
        assert len(atomic._drafts) == 1
    assert atomic._drafts == set()
    assert (tmp_path / "file").read_text() == "new"
