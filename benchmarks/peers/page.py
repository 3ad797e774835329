"""The page of the documentation: what was compared, the tables, and which requirements are met."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from benchmarks.peers.data import Size
from benchmarks.peers.environments import PEERS
from benchmarks.peers.tables import MHSMM_IN_HMMLEARN, Check, Row, as_markdown

INTRODUCTION = """\
# Compared with other packages

`make bench-peers` installs other packages, each in its own environment, gives all of them the
same sequences and the same starts, and runs them alternately, one at a time and in one thread.
Times are processor times, so that other work on the machine does not count; compilation is not
included.

## What was compared, and what was not

The Python packages measured here have HMMs but no HSMM. Each is run as an HMM with the same
number of states (*plain*), and as the HMM with one state for each pair of state and remaining
duration (*expanded*), started with the zeros that make it an HSMM. The data are drawn from random
HSMMs.

Python packages with an HSMM were tried in November 2026. None is part of the tables below, so
nothing on this page compares their likelihood with ours:

- hsmmlearn is not on the package index; from its repository it has free durations, but one
  sequence per fit, and can report convergence at wrong parameters (its issue 28).
- edhsmm (archived in 2024) is not on the index; with several sequences the likelihood fell between
  iterations of its EM.
- pyhsmm is no longer maintained: its last release does not build on Python 3.11. It has parametric
  durations and Bayesian sampling.
- ssm: the package of that name on the index does not build; from its repository, durations are
  negative binomial only, and its default fit raised an error.
- HiMAP 1.4.0 (for prognostics) installs; its HSMM has Gaussian emissions only, its model of symbols
  is an HMM.

Where patched copies ran at all, an EM iteration at sizes A and C took, in µs per symbol on one core
of another machine, with noise of up to three times: mhsmm (R) 3.2 and 7.8, hsmmlearn 1.0 (at C it
failed), edhsmm 25 and 909, pyhsmm 201 and 1045, ssm 34 (at C it had not ended); hmmlearn's plain
HMM, which the tables below have too, 0.44 and 0.44.

## How to read the tables

What a peer reaches on the held-out sequences is the best value during its run, as if one had
known when to stop; ours is the value at the end of the fit. The *target* is the best that any
peer reached; runs that never reach it add to the time. `hsmm` and `spectral` are `HSMM` and
`SpectralHSMM` with their defaults, `moments` is `HSMM(init="moments")`; times per iteration are
of plain EM. Ratios are medians over the rounds, with minimum and maximum. EM may have become
faster since the date below: [how fast the recursions are](theory-em.md) is measured more often.
"""


SHAPES = {
    "S": "The shape of the paper's first synthetic experiment. ",
    "A": "The shape of the paper's second synthetic experiment, as B. ",
}


def machine() -> str:
    """The type of the machine, without its name.

    Examples
    --------
    >>> "Python" in machine()
    True
    """
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}"
    )


def page(
    heading: str,
    sizes: dict[str, Size],
    tables: dict[str, list[Row]],
    found: list[Check],
    versions: dict[str, str],
    failures: dict[str, str],
    figure: str,
) -> str:
    """The complete page."""
    parts = [INTRODUCTION, f"{heading}\n"]
    parts.append("| package | version | |\n|---|---|---|")
    for peer in PEERS:
        version = versions.get(peer.name, "not run")
        reason = f": {failures[peer.name]}" if peer.name in failures else ""
        parts[-1] += f"\n| {peer.name} | {version} | {peer.description}{reason} |"
    parts.append(f"\n![Held-out likelihood over time]({figure})\n")
    parts.append("## Requirements\n\n| | measured | met |\n|---|---|---|")
    for check in found:
        parts[-1] += (
            f"\n| {check.requirement} | {check.measured} | {'yes' if check.holds else '**no**'} |"
        )
    if "mhsmm" in failures:
        parts.append(
            f"\nmhsmm was not run here. In an earlier comparison on one machine it took "
            f"{MHSMM_IN_HMMLEARN:.1f} times as long as hmmlearn's plain HMM at size A.\n"
        )
    for name, table in tables.items():
        size = sizes[name]
        parts.append(f"\n## Size {name}: {size}\n")
        parts.append(
            f"{SHAPES.get(name, '')}Peers run EM from {size.starts} starts, until they converge or "
            f"for {size.budget:.0f} s each.\n"
        )
        if size.few < size.n:
            parts.append(
                f"Expanded HMMs are given {size.few} of the {size.n} sequences and one start: one "
                f"iteration over all the sequences takes some of them more than a minute.\n"
            )
        parts.append(as_markdown(table))
    return "\n".join(parts) + "\n"


def summary(tables: dict[str, list[Row]]) -> str:
    """The short table for the README: the time of one iteration relative to ours, by size."""
    names = list(tables)
    lines = ["| EM iteration, relative to ours | " + " | ".join(names) + " |"]
    lines.append("|---|" + "---:|" * len(names))
    by_method: dict[tuple[str, str], dict[str, str]] = {}
    for name, table in tables.items():
        for row in table:
            ratio = float(row["em_ratio"])
            if row["package"] != "sojourn" and ratio > 0:
                key = (str(row["package"]), str(row["model"]))
                by_method.setdefault(key, {})[name] = (
                    f"{ratio:.1f}" if ratio < 100 else f"{ratio:.0f}"
                )
    for (package, model), cells in by_method.items():
        row_text = " | ".join(cells.get(name, "–") for name in names)
        lines.append(f"| {package}, {model} HMM | {row_text} |")
    return "\n".join(lines)


def put_between(path: Path, text: str, mark: str = "peers") -> None:
    """Replace the text between the two marks of a Markdown file."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    old = path.read_text()
    before, _, rest = old.partition(begin)
    if end not in rest:
        raise ValueError(f"{path.name} must hold {begin} and {end}, with the table between them")
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")
