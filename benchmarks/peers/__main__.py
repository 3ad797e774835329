"""Install, measure, write: ``python -m benchmarks.peers [--quick] [--only name ...]``."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from benchmarks.peers.data import QUICK, SIZES, Size, write
from benchmarks.peers.environments import PEERS, Environment, install, ours
from benchmarks.peers.figure import draw
from benchmarks.peers.harness import Record, in_turns
from benchmarks.peers.page import machine, page, put_between, summary
from benchmarks.peers.tables import FITS, OURS, as_csv, checks, rows

ROOT = Path(__file__).resolve().parents[2]


HOME = ROOT / ".peers"


@dataclass
class Run:
    """All measurements, with date and machine."""

    date: str
    machine: str
    records: list[Record]
    versions: dict[str, str]
    failures: dict[str, str]


def measure(sizes: dict[str, Size], only: list[str], scratch: Path, last: Path) -> Run:
    """Install and run all packages; records are stored after each size."""
    packages: dict[str, tuple[Environment, tuple[str, ...]]] = {OURS: (ours(), FITS)}
    failures: dict[str, str] = {}
    for peer in PEERS:
        if only and peer.name not in only:
            failures[peer.name] = "not asked for"
            continue
        print(f"installing {peer.name}", flush=True)
        environment = install(peer, HOME)
        if environment.reason:
            failures[peer.name] = environment.reason
            print(f"  failed: {environment.reason}", flush=True)
        else:
            packages[peer.name] = (environment, peer.models)

    records: list[Record] = []
    versions: dict[str, str] = {}
    for name, size in sizes.items():
        print(f"=== {name}: {size}", flush=True)
        data = write(size, scratch)
        found, started = in_turns(
            size, data, packages, scratch / name, lambda line: print(line, flush=True)
        )
        records += found
        versions.update(started)
        for package in packages.keys() - started.keys():
            reason = next(r.result["error"] for r in found if r.package == package)
            failures[package] = f"installed, but does not start: {reason}"
            del packages[package]
        run = Run(date.today().isoformat(), machine(), records, versions, failures)
        last.write_text(json.dumps(asdict(run)))
    return run


def main() -> None:
    """Everything in one run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, nothing is written to docs"
    )
    parser.add_argument("--only", nargs="*", default=[], help="these peers only")
    parser.add_argument("--sizes", nargs="*", default=[], help="these sizes only")
    parser.add_argument("--out", type=Path, help="folder for what is written")
    parser.add_argument("--again", action="store_true", help="write from the last run's records")
    asked = parser.parse_args()
    known = QUICK if asked.quick else SIZES
    sizes = {name: size for name, size in known.items() if not asked.sizes or name in asked.sizes}
    scratch = tempfile.TemporaryDirectory()
    out = asked.out or (Path(scratch.name) if asked.quick else ROOT / "docs")
    HOME.mkdir(exist_ok=True)
    last = HOME / ("last-quick.json" if asked.quick else "last.json")
    began = time.perf_counter()
    if asked.again:
        run = Run(**json.loads(last.read_text()))
        run.records = [Record(**record) for record in run.records]  # type: ignore[arg-type]
    else:
        run = measure(sizes, asked.only, Path(scratch.name), last)
    records, versions, failures = run.records, run.versions, run.failures

    tables = {name: rows(records, name) for name in sizes}
    held = checks(records, sizes)
    out.mkdir(parents=True, exist_ok=True)
    (out / "peers.csv").write_text(as_csv([row for table in tables.values() for row in table]))
    draw(records, list(sizes), out / "peers.svg")
    heading = f"Measured {run.date}: {run.machine}, one thread."
    text = page(heading, sizes, tables, held, versions, failures, "peers.svg")
    (out / "peers.md").write_text(text)
    print(text)
    if not (asked.quick or asked.out):
        put_between(ROOT / "README.md", f"{summary(tables)}\n\n{heading}")
    scratch.cleanup()
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
