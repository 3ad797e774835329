"""The results of an experiment in a folder: CSV files, figures, and a page that shows them."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from matplotlib import rc_context
from matplotlib.figure import Figure

from sojourn.storage.atomic import atomic_write

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, our result, and whether they agree (None: not tested)."""

    paper: str
    ours: str
    agrees: bool | None

    @property
    def verdict(self) -> str:
        """In words."""
        return {True: "agrees", False: "differs", None: "not tested"}[self.agrees]


@dataclass(frozen=True)
class Table:
    """A table of the page: its caption, the names of its columns, and rows of text."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A section of the page: a title, a paragraph, a figure by name, and tables."""

    title: str
    text: str
    figure: str | None = None
    alt: str = ""
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Page:
    """All that is written: `numbers` by name as CSV, `figures` by name as SVG and PNG, the page."""

    title: str
    intro: str
    facts: Mapping[str, str]
    claims: Sequence[Claim] = ()
    sections: Sequence[Section] = ()
    numbers: Mapping[str, Rows] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def save(self, folder: Path) -> Path:
        """Write everything; the path of ``index.html``, which holds its figures itself."""
        for name, rows in self.numbers.items():
            save_csv(rows, folder / f"{name}.csv")
        images = {
            name: _save_figure(figure, folder / name) for name, figure in self.figures.items()
        }
        environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        template = (Path(__file__).parent / "page.html.j2").read_text("utf-8")
        style = resources.files("sojourn.report").joinpath("style.css").read_text("utf-8")
        html = environment.from_string(template).render(
            page=self,
            style=style,
            picture=lambda name: (
                f"data:image/svg+xml;base64,{base64.b64encode(images[name]).decode()}"
            ),
        )
        with atomic_write(folder / "index.html") as file:
            file.write(html)
        return folder / "index.html"


def _save_figure(figure: Figure, path: Path) -> bytes:
    """Write a figure as SVG and as PNG; the bytes of the SVG."""
    # A fixed salt and no date: the same numbers give the same file.
    with rc_context({"svg.hashsalt": "sojourn", "svg.fonttype": "path"}):
        for ending, metadata in (("png", None), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, metadata=metadata)
            with atomic_write(path.with_name(f"{path.name}.{ending}"), "wb") as file:
                file.write(buffer.getvalue())
    return buffer.getvalue()


def save_csv(rows: Rows, path: Path) -> None:
    """Write rows as CSV, numbers in full; a column for each name, in order of first appearance.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_csv([{"n": 1}, {"n": 2, "size": [3, 2]}], Path(folder) / "a.csv")
    ...     print((Path(folder) / "a.csv").read_text())
    n,size
    1,
    2,3 2
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    with atomic_write(path) as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _field(value) for name, value in row.items()} for row in rows)


def _field(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A row without some of its columns."""
    return {name: value for name, value in row.items() if name not in names}
