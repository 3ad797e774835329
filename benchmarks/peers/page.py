"""The page of the documentation: what was compared, the tables, what must hold and what did not."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from benchmarks.peers.data import Size
from benchmarks.peers.environments import PEERS
from benchmarks.peers.tables import MHSMM_IN_HMMLEARN, Check, Row, as_markdown

INTRODUCTION = """\
# Beside other packages

`make bench-peers` installs other packages, each in its own environment, gives all of them the same
sequences and the same starts, and runs them in turns, one at a time and in one thread. Times are
of the processor, so that other work on the machine does not enter; compiling is not counted.

None of the Python packages has an HSMM. They are run as an HMM with as many states (*plain*), and
as the HMM with a state for each pair of a state and the steps that remain in it (*expanded*),
started with the zeros that make it an HSMM. The data are drawn from random HSMMs. What a peer
reaches on the held-out sequences is the best on its way, as if one had known when to stop; ours is
where the fit ended. The *target* is the best that any peer reached; the time to it counts in the
runs that never get there. `hsmm` and `spectral` are `HSMM` and `SpectralHSMM` as they come,
`moments` is `HSMM(init="moments")`; times an iteration are of plain EM. Ratios are medians over
the rounds, with the least and the greatest.
"""


SHAPES = {
    "S": "The shape of the paper's first synthetic experiment. ",
    "A": "The shape of the paper's second synthetic experiment, as B. ",
}


def machine() -> str:
    """The kind of machine, not which one.

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
    said: str,
    sizes: dict[str, Size],
    tables: dict[str, list[Row]],
    found: list[Check],
    versions: dict[str, str],
    failures: dict[str, str],
    figure: str,
) -> str:
    """The whole page."""
    parts = [INTRODUCTION, f"{said}\n"]
    parts.append("| package | version | |\n|---|---|---|")
    for peer in PEERS:
        version = versions.get(peer.name, "not run")
        reason = f": {failures[peer.name]}" if peer.name in failures else ""
        parts[-1] += f"\n| {peer.name} | {version} | {peer.said}{reason} |"
    parts.append(f"\n![Held-out likelihood over time]({figure})\n")
    parts.append("## What must hold\n\n| | measured | holds |\n|---|---|---|")
    for check in found:
        parts[-1] += f"\n| {check.said} | {check.measured} | {'yes' if check.holds else '**no**'} |"
    if "mhsmm" in failures:
        parts.append(
            f"\nmhsmm was not run here; it was measured earlier, beside hmmlearn, at "
            f"{MHSMM_IN_HMMLEARN:.1f} times the time of hmmlearn's plain HMM at size A.\n"
        )
    for name, table in tables.items():
        size = sizes[name]
        parts.append(f"\n## Size {name}: {size}\n")
        parts.append(
            f"{SHAPES.get(name, '')}Peers climb from {size.starts} starts, until they settle or "
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
    """The short table for the README: times an iteration over ours, by size."""
    names = list(tables)
    lines = ["| EM iteration, times ours | " + " | ".join(names) + " |"]
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
    """Replace what stands between the two marks of a Markdown file."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    old = path.read_text()
    before, _, rest = old.partition(begin)
    if end not in rest:
        raise ValueError(f"{path.name} must hold {begin} and {end}, for the table to stand between")
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")
