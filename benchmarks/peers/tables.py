"""From records to numbers: ratios with their spread, times to a likelihood, and requirements."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from benchmarks.peers.harness import Record

OURS = "sojourn"
FITS = ("hsmm", "moments", "spectral")  # how ours are fitted
# A run has reached a likelihood when it is this close, in nats per symbol: EM spends most of its
# time on digits that do not matter.
NEAR = 1e-4
# mhsmm where R is not installed: its time per iteration and symbol at A, in units of hmmlearn's
# plain HMM; both were measured on one machine.
MHSMM_IN_HMMLEARN = 3.2 / 0.44

Method = tuple[str, str]  # package and model


@dataclass(frozen=True)
class Spread:
    """The median of some values, and the least and greatest.

    Examples
    --------
    >>> str(spread([3.0, 1.0, 2.0]))
    '2.00 (1.00-3.00)'
    """

    middle: float
    least: float
    most: float

    def __str__(self) -> str:
        if math.isnan(self.middle):
            return "–"
        return f"{short(self.middle)} ({short(self.least)}-{short(self.most)})"


def spread(values: Iterable[float]) -> Spread:
    """Of all values; not a number where there are none."""
    known = list(values)
    if not known:
        return Spread(math.nan, math.nan, math.nan)
    return Spread(float(np.median(known)), min(known), max(known))


def short(value: float) -> str:
    """Three digits.

    Examples
    --------
    >>> [short(v) for v in (0.0123, 1.234, 12.34, 1234.0, float("inf"))]
    ['0.0123', '1.23', '12.3', '1,234', '∞']
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 1 else f"{value:.{1 if value >= 10 else 2}f}"


def methods(records: Iterable[Record]) -> list[Method]:
    """Packages in the order in which they were run, and the models of each."""
    found = list(dict.fromkeys((r.package, r.model) for r in records))
    order = list(dict.fromkeys(package for package, _ in found))
    return sorted(found, key=lambda method: order.index(method[0]))


def times(records: Iterable[Record], size: str, method: Method, task: str) -> dict[int, float]:
    """Processor seconds per iteration and symbol, by round."""
    found = {}
    for r in records:
        if (r.size, (r.package, r.model), r.task) == (size, method, task):
            if "cpu" in r.result:
                found[r.turn] = float(r.result["cpu"])
        elif (r.size, (r.package, r.model)) == (size, method) and task in r.result:
            found[r.turn] = float(r.result[task]["cpu"])  # timed along with a fit
    return found


def ratios(theirs: dict[int, float], ours: dict[int, float]) -> Spread:
    """How many times ours theirs is, round by round; above 1 ours is faster.

    Examples
    --------
    >>> str(ratios({0: 4.0, 1: 9.0}, {0: 2.0, 1: 3.0, 2: 1.0}))
    '2.50 (2.00-3.00)'
    """
    return spread(theirs[turn] / ours[turn] for turn in sorted(theirs.keys() & ours.keys()))


@dataclass(frozen=True)
class Fit:
    """One fit, from one start.

    Parameters
    ----------
    cpu : tuple of float
        Processor seconds until each look.
    score : tuple of float
        Held-out log-likelihood per symbol at each look.
    held_out : tuple of float
        Of each held-out sequence, at the model that stands for the run; -inf where it has none.
    """

    cpu: tuple[float, ...]
    score: tuple[float, ...]
    held_out: tuple[float, ...]

    @property
    def reached(self) -> float:
        """Mean of the held-out sequences."""
        return float(np.mean(self.held_out))

    def seconds_to(self, target: float) -> float:
        """Until the first look at which it is near the target; infinite where it never is."""
        return next(
            (t for t, s in zip(self.cpu, self.score, strict=True) if s >= target - NEAR), math.inf
        )


def fits(records: Iterable[Record], size: str, method: Method) -> list[Fit]:
    """Those of a method that ran."""
    out = []
    for r in records:
        if (r.size, (r.package, r.model), r.task) == (size, method, "fit"):
            if "points" not in r.result:
                continue
            points = r.result["points"]
            out.append(
                Fit(
                    tuple(p[1] for p in points),
                    tuple(-math.inf if p[3] is None else p[3] for p in points),
                    tuple(-math.inf if v is None else v for v in r.result["held_out"]),
                )
            )
    return out


def time_to(runs: list[Fit], target: float) -> float:
    """Mean seconds until a run reaches the target: the time of all runs, including those that never
    do, divided by the number of runs that do.

    Examples
    --------
    >>> runs = [Fit((1.0, 2.0), (-3.0, -1.0), (-1.0,)), Fit((5.0,), (-2.0,), (-2.0,))]
    >>> time_to(runs, -1.0), time_to(runs, 0.0)
    (7.0, inf)
    """
    arrived = [run.seconds_to(target) for run in runs]
    n = sum(math.isfinite(t) for t in arrived)
    if not n:
        return math.inf
    return (
        sum(t if math.isfinite(t) else run.cpu[-1] for t, run in zip(arrived, runs, strict=True))
        / n
    )


def best(runs: list[Fit]) -> Fit | None:
    """The run that did best on the held-out sequences."""
    return max(runs, key=lambda run: run.reached, default=None)


def middle(runs: list[Fit]) -> Fit | None:
    """The run in the middle, the worse of two."""
    ordered = sorted(runs, key=lambda run: run.reached)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def better_by(ours: Fit, theirs: Fit) -> tuple[float, float]:
    """Mean gain of ours on the same sequences, in nats per symbol, and its standard error.

    Examples
    --------
    >>> gain, error = better_by(Fit((), (), (-1.0, -1.0)), Fit((), (), (-2.0, -1.5)))
    >>> gain, round(error, 3)
    (0.75, 0.25)
    """
    gain = np.asarray(ours.held_out) - np.asarray(theirs.held_out)
    if not np.isfinite(gain).all():
        return math.inf, 0.0
    return float(gain.mean()), float(gain.std(ddof=1) / math.sqrt(len(gain)))


@dataclass(frozen=True)
class Check:
    """A requirement, and whether it is met."""

    requirement: str
    holds: bool
    measured: str


def target_of(records: list[Record], size: str) -> tuple[Method | None, float]:
    """The peer that did best on the held-out sequences of a size, and how well."""
    found = [
        (run.reached, method)
        for method in methods(records)
        if method[0] != OURS
        for run in fits(records, size, method)
    ]
    score, method = max(found, default=(-math.inf, None))
    return method, score


def checks(records: list[Record], sizes: Iterable[str]) -> list[Check]:
    """All requirements, size by size."""
    sizes = [size for size in sizes if any(r.size == size for r in records)]
    out = [_against_mhsmm(records)] if "A" in sizes else []
    peers = [method for method in methods(records) if method[0] != OURS]
    for size in sizes:
        ours = times(records, size, (OURS, "hsmm"), "em")
        wide = {
            package: ratios(times(records, size, (package, model), "em"), ours)
            for package, model in peers
            if model == "expanded"
        }
        wide = {package: ratio for package, ratio in wide.items() if ratio.middle > 0}
        if wide and size != "S":
            nearest = min(wide, key=lambda package: wide[package].middle)
            out.append(
                Check(
                    f"{size}: an EM iteration is faster than that of every expanded HMM",
                    wide[nearest].middle > 1,
                    f"{wide[nearest]} times, the nearest being {nearest}",
                )
            )
        out += _likelihood(records, size, peers)
    return out


def _against_mhsmm(records: list[Record]) -> Check:
    ours = times(records, "A", (OURS, "hsmm"), "em")
    measured = times(records, "A", ("mhsmm", "hsmm"), "em")
    how = "measured"
    if not measured:
        plain = times(records, "A", ("hmmlearn", "plain"), "em")
        measured = {turn: MHSMM_IN_HMMLEARN * t for turn, t in plain.items()}
        how = "taken as 3.2/0.44 of hmmlearn's plain HMM in this run"
    ratio = ratios(measured, ours)
    requirement = "A: an EM iteration is at least 10 times as fast as mhsmm's"
    return Check(requirement, ratio.middle >= 10, f"{ratio} times, mhsmm's {how}")


def _likelihood(records: list[Record], size: str, peers: list[Method]) -> list[Check]:
    """Held-out likelihood, and the time to it."""
    ours = {model: fits(records, size, (OURS, model)) for model in FITS}
    standing = {model: run for model, runs in ours.items() if (run := middle(runs)) is not None}
    theirs = {m: run for m in peers if (run := best(fits(records, size, m))) is not None}
    if not standing or not theirs:
        return []
    out = []
    model = "hsmm" if "hsmm" in standing else next(iter(standing))
    gains = {m: better_by(standing[model], run) for m, run in theirs.items()}
    nearest = min(gains, key=lambda m: gains[m][0])
    gain, error = gains[nearest]
    out.append(
        Check(
            f"{size}: held-out likelihood is at least every peer's, to one standard error",
            gain >= -error,
            f"{model}: {gain:+.5f} ± {error:.5f} nats per symbol relative to {' '.join(nearest)}",
        )
    )
    _, target = target_of(records, size)
    mine = {m: time_to(runs, target) for m, runs in ours.items()}
    quickest = min(mine, key=lambda m: mine[m])
    peer, method = min((time_to(fits(records, size, m), target), m) for m in theirs)
    share = mine[quickest] / peer
    limit = "at most a tenth of the best peer's" if size in "BC" else "reported"
    out.append(
        Check(
            f"{size}: time to the best peer's held-out likelihood is {limit}",
            size not in "BC" or share <= 0.1,
            f"{quickest}: {short(mine[quickest])} s of {short(peer)} s "
            f"({' '.join(method)}): {short(share)}",
        )
    )
    return out


COLUMNS = (
    "size", "package", "model", "em_us", "em_ratio", "em_ratio_least", "em_ratio_most",
    "score_us", "score_ratio", "score_ratio_least", "score_ratio_most", "held_out",
    "held_out_least", "held_out_most", "not_positive", "seconds_to_target", "target_ratio",
    "peak_mb", "failure",
)  # fmt: skip
Row = dict[str, str | float]


def rows(records: list[Record], size: str) -> list[Row]:
    """One row per package and model: medians in microseconds, ratios to ours with their spread."""
    em, score = (times(records, size, (OURS, "hsmm"), task) for task in ("em", "score"))
    _, target = target_of(records, size)
    mine = min(
        (time_to(fits(records, size, (OURS, m)), target) for m in FITS),
        default=math.inf,
    )
    out = []
    for package, model in methods(records):
        here = [r for r in records if (r.size, r.package, r.model) == (size, package, model)]
        if not here:
            continue
        row: Row = {"size": size, "package": package, "model": model}
        for task, ours in (("em", em), ("score", score)):
            taken = times(records, size, (package, model), task)
            ratio = ratios(taken, ours)
            row[f"{task}_us"] = spread(taken.values()).middle * 1e6
            row[f"{task}_ratio"] = ratio.middle
            row[f"{task}_ratio_least"], row[f"{task}_ratio_most"] = ratio.least, ratio.most
        runs = fits(records, size, (package, model))
        reached = spread(run.reached for run in runs)
        row["held_out"], row["held_out_least"], row["held_out_most"] = (
            reached.middle, reached.least, reached.most,
        )  # fmt: skip
        row["not_positive"] = float(
            np.mean([np.isneginf(run.held_out).mean() for run in runs]) if runs else math.nan
        )
        seconds = time_to(runs, target) if runs else math.nan
        row["seconds_to_target"], row["target_ratio"] = seconds, seconds / mine
        row["peak_mb"] = max(
            (float(r.result["peak"]) for r in here if "peak" in r.result), default=math.nan
        )
        row["failure"] = next((r.result["error"] for r in here if "error" in r.result), "")
        out.append(row)
    return out


def as_csv(table: list[Row]) -> str:
    """All rows, with every number."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in table:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    return file.getvalue()


def _number(row: Row, name: str) -> float:
    return float(row[name])


def _with_spread(row: Row, name: str) -> str:
    value = Spread(*(_number(row, f"{name}{end}") for end in ("", "_least", "_most")))
    return str(value)


def as_markdown(table: list[Row]) -> str:
    """The rows of a size as a Markdown table."""
    head = (
        "package", "model", "EM, µs per symbol", "× ours", "scoring, µs per symbol", "× ours",
        "held-out, nats per symbol", "s to the target", "peak, MB",
    )  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    for row in table:
        bad = _number(row, "not_positive")
        held = _number(row, "held_out")
        likelihood = "–" if math.isnan(held) else f"{held:.4f}"
        if bad > 0:
            likelihood = f"none: {100 * bad:.0f} % of probabilities ≤ 0"
        cells = [
            str(row["package"]),
            str(row["model"]),
            _plain(_number(row, "em_us")),
            _with_spread(row, "em_ratio"),
            _plain(_number(row, "score_us")),
            _with_spread(row, "score_ratio"),
            likelihood,
            "not reached" if math.isinf(_number(row, "seconds_to_target"))
            else _plain(_number(row, "seconds_to_target")),
            _plain(_number(row, "peak_mb")),
        ]  # fmt: skip
        if row["failure"]:
            cells[6] = f"failed: {str(row['failure'])[:80]}"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _plain(value: float) -> str:
    return "–" if math.isnan(value) else short(value)
