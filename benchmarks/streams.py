"""Streams beside batch scoring, and saved models under fire.

Streams run in one thread, so their times are that thread's own, whatever else the machine does.
They are taken in turns and the medians compared.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.spectral import in_turns
from sojourn import HSMM, Params, Sequences, SpectralHSMM

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

N = 50_000


def models() -> dict[str, tuple[SpectralHSMM | HSMM, Sequences, int]]:
    """A model of each kind, one long sequence for it, and the updates per second it must reach."""
    small = Params.random(4, 6, 5, rng=0)
    spectral = SpectralHSMM(4, 6, rank=24, n_jobs=1)
    large = Params.random(8, 40, 9, rng=0)
    hsmm = HSMM(8, 40, n_jobs=1)
    hsmm.params_, hsmm.initial_ = large, None
    hsmm.vocabulary_, hsmm.n_symbols_ = np.arange(9), 9
    return {
        "spectral, k=24": (
            spectral.fit(small.sample(2000, 100, rng=1)),
            small.sample(1, N),
            200_000,
        ),
        "HSMM, (8, 40)": (hsmm, large.sample(1, N), 50_000),
    }


def speed() -> None:
    """Updates per second, one by one and many at once, and batch scoring of the same sequence."""
    print("\nStreams, one thread")
    print(
        "model            batch/s    update/s (target)   update, ns   many/batch (0.8)   predict/s"
    )
    for name, (model, data, target) in models().items():
        stream, symbols = model.stream(), data[0]

        def one_by_one(stream=stream, symbols=symbols) -> None:
            update = stream.reset().update
            for symbol in symbols:
                update(symbol)

        def predictions(stream=stream) -> None:
            for _ in range(1000):
                stream.predict()

        t = in_turns(
            {
                "batch": lambda model=model, data=data: model.surprise(data),
                "many": lambda stream=stream, data=data: stream.reset().update_many(data),
                "update": one_by_one,
                "predict": predictions,
            },
            15,
            time.thread_time,
        )
        print(
            f"{name:14s} {N / t['batch']:9,.0f} {N / t['update']:11,.0f} ({target:,d}) "
            f"{t['update'] / N * 1e9:12,.0f} {t['batch'] / t['many']:14.2f} "
            f"{1000 / t['predict']:16,.0f}"
        )


def files() -> None:
    """Mutations of model files, and saves that are killed."""
    from damage import fuzz, fuzz_signed, kill_saves

    print("\nSaved models")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("spectral", "hsmm"):
            golden = ROOT / "tests" / "golden" / f"{kind}-1.sojourn"
            print(f"{kind}, 50,000 mutations: {fuzz(golden, folder / 'mutant', 50_000, 1)}")
            signed = fuzz_signed(golden, folder / "signed", 5_000, 1)
            print(f"{kind}, 5,000 changes with a checksum that matches: {signed}")
        data = Params.random(4, 6, 5, rng=0).sample(100, 100, rng=1)
        two = [SpectralHSMM(2, 2, rank=k).fit(data) for k in (2, 4)]
        found = kill_saves(folder, two, data, kills=100, seed=2)
        print(f"100 saves killed at random moments left: {found}")
        model = SpectralHSMM(4, 6).fit(data)
        for label, keep in (("with moments", True), ("without", False)):
            path = folder / "size.sojourn"
            began = time.perf_counter()
            model.save(path, moments=keep)
            seconds, size = time.perf_counter() - began, path.stat().st_size
            print(f"a spectral model {label}: {size:,d} bytes, saved in {seconds * 1e3:.1f} ms")


def command_line() -> None:
    """How long help takes to answer."""
    code = "from sojourn.cli import main; main(['--help'])"
    seconds = []
    for _ in range(15):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - began)
    print(
        f"\nsojourn --help: {min(seconds):.2f} s at best, {np.median(seconds):.2f} s in the middle "
        f"(0.3)"
    )


def run() -> None:
    """Everything."""
    speed()
    files()
    command_line()
