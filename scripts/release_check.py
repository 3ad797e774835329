"""Check what would be released, as `make release-check` does: build, look inside, install, try.

Builds a wheel and a source archive from a clean copy of what git tracks; checks names, metadata and
that nothing foreign is inside; installs each in a new environment, without extras and with each of
them, and runs a small program there. `--quick` installs only the wheel, alone and with cli.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST_WHEEL = 1_000_000  # bytes
FOREIGN = ("__pycache__", ".venv", "_build", ".peers", ".egg-info", ".ipynb", ".nbi")
BASE = """
import os, sojourn as sj
data = sj.Params.random(2, 3, 4, rng=0).sample(60, 30, rng=1)
for model in (sj.HSMM(2, 3, max_iter=5).fit(data), sj.SpectralHSMM(2, 3).fit(data)):
    model.save("model.sojourn")
    assert (sj.load("model.sojourn").score_samples(data) == model.score_samples(data)).all()
detector = sj.AnomalyDetector(sj.HSMM(2, 3, max_iter=5)).fit(data)
assert len(sj.datasets.approaches().normal) == 82
"""
TABLE = """
import pyarrow as pa, pyarrow.parquet as pq, numpy as np
pq.write_table(pa.table({"id": np.repeat(np.arange(20), 30), "time": np.tile(np.arange(30), 20),
                         "symbol": np.tile(["a", "b", "b"], 200)}), "events.parquet")
columns = {"id": "id", "time": "time", "symbol": "symbol"}
assert len(sj.read("events.parquet", **columns)) == 20
"""
WITH = {  # what each extra is for
    "plot": "import matplotlib; matplotlib.use('agg'); sj.plot.timeline(detector, data)",
    "report": "sj.write_report(detector, data, 'r.html'); assert os.path.getsize('r.html')",
    "files": TABLE,
    "cli": TABLE
    + "import subprocess, sys\n"
    + "subprocess.run([sys.executable, '-m', 'sojourn', 'fit', 'events.parquet', '--states', '2',"
    + " '--max-duration', '2', '-o', 'm.sojourn'], check=True, stdout=subprocess.DEVNULL)",
    "outofcore": TABLE + "assert sj.sort_events('events.parquet', 'sorted.parquet', **columns)",
    "dask": TABLE
    + "import distributed\n"
    + "client = distributed.Client(processes=False, dashboard_address=None)\n"
    + "sj.SpectralHSMM(2, 2).fit(sj.scan('events.parquet', **columns)); client.close()",
}


def call(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command; what it prints, or its end where it fails."""
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    words = list(map(str, command))
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(map(str, command))[:300]}\n{done.stderr[-2000:]}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Wheel and source archive of what git tracks."""
    clean = folder / "clean"
    clean.mkdir()
    archive = folder / "tracked.tar"
    call("git", "-C", ROOT, "archive", "-o", archive, "HEAD")
    with tarfile.open(archive) as tar:
        tar.extractall(clean, filter="data")
    call(sys.executable, "-m", "hatchling", "build", "-d", folder / "dist", cwd=clean)
    (wheel,), (sdist,) = (list((folder / "dist").glob(p)) for p in ("*.whl", "*.tar.gz"))
    return wheel, sdist


def look_inside(wheel: Path, sdist: Path) -> None:
    """Check sizes, names and metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (about,) = [name for name in names if name.endswith("METADATA")]
        metadata = Parser().parsestr(file.read(about).decode())
    tops = {name.split("/")[0] for name in names}
    info = about.split("/")[0]
    expect(tops == {"sojourn", info}, f"the wheel has {sorted(tops)}")
    expect(wheel.stat().st_size < LARGEST_WHEEL, f"the wheel has {wheel.stat().st_size} bytes")
    with tarfile.open(sdist) as tar:
        inside = {name.partition("/")[2] for name in tar.getnames()}
    tracked = set(call("git", "-C", ROOT, "ls-files").splitlines())
    foreign = inside - tracked - {"PKG-INFO"}
    expect(not foreign, f"the source archive has files that git does not track: {sorted(foreign)}")
    for name in (*names, *inside):
        expect(not any(part in name for part in FOREIGN), f"{name} does not belong in a release")
    for file_name in ("py.typed", "report/page.html.j2"):
        expect(f"sojourn/{file_name}" in names, f"the wheel lacks {file_name}")
    expect(any("licenses/LICENSE" in name for name in names), "the wheel lacks its licence")
    for key, value in (
        ("Name", project["name"]),
        ("Summary", project["description"]),
        ("Requires-Python", project["requires-python"]),
        ("License-Expression", project["license"]),
    ):
        expect(metadata[key] == value, f"{key} is {metadata[key]!r}; expected {value!r}")
    extras = set(metadata.get_all("Provides-Extra", []))
    expect(extras == set(project["optional-dependencies"]), f"extras are {sorted(extras)}")
    expect(len(metadata.get_payload()) > 1000, "the description is not the README")
    print(f"{wheel.name}: {wheel.stat().st_size / 1000:.0f} kB, {len(names)} files")
    print(f"{sdist.name}: {sdist.stat().st_size / 1000:.0f} kB, {len(inside)} files")


def expect(holds: bool, otherwise: str) -> None:
    """Stop with a sentence unless something holds."""
    if not holds:
        raise SystemExit(f"not ready for release: {otherwise}")


def install(package: Path, extra: str | None, folder: Path) -> None:
    """Install in a new environment and run the small program."""
    began = time.perf_counter()
    home = folder / "environment"  # always the same, as are the dates: compiled code goes by both
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    wanted = f"sojourn[{extra}] @ {package.as_uri()}" if extra else f"sojourn @ {package.as_uri()}"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    call(*pip, "-c", ROOT / "constraints.txt", wanted)
    call(python, "-m", "pip", "check")
    for file in home.glob("lib/python*/site-packages/sojourn/**/*.py"):
        os.utime(file, (0, 0))
    work = home / "work"
    work.mkdir()
    if extra:
        call(python, "-c", BASE + WITH[extra], cwd=work)
    else:
        call(python, "-W", "error", "-c", BASE, cwd=work)
    where = call(python, "-c", "import sojourn; print(sojourn.__file__)", cwd=work)
    expect(str(home) in where, f"the program used {where}, not what was installed")
    shutil.rmtree(home)
    print(f"{package.name} with {extra or 'no extra'}: {time.perf_counter() - began:.0f} s",
          flush=True)  # fmt: skip


def main() -> None:
    """Build, look inside, install and try."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the wheel alone and with cli only")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # What the first environment compiles is read by the others.
        os.environ["NUMBA_CACHE_DIR"] = str(folder / "kernels")
        wheel, sdist = build(folder)
        look_inside(wheel, sdist)
        for package in (wheel,) if quick else (wheel, sdist):
            for extra in (None, "cli") if quick else (None, *WITH):
                install(package, extra, folder)
    print("ready for release")


if __name__ == "__main__":
    main()
