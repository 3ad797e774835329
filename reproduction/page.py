"""What an experiment leaves in its folder: figures, numbers, and a page that shows them."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.errors import SojournError
from sojourn.storage.atomic import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Claim:
    """What the paper says, what was found here, and whether that is the same (None: not tested)."""

    paper: str
    ours: str
    agrees: bool | None

    @property
    def verdict(self) -> str:
        """In words."""
        return {True: "as in the paper", False: "otherwise", None: "not tested"}[self.agrees]


@dataclass(frozen=True)
class Table:
    """A table of the page: its caption, the names of the columns, and rows of text."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A part of the page: a title, a paragraph, a figure by name, and tables."""

    title: str
    text: str
    figure: str | None = None
    alt: str = ""
    tables: Sequence[Table] = ()


def needs(*modules: str) -> None:
    """Raise an error that says what to install if one of the modules is missing.

    Examples
    --------
    >>> needs("math")
    """
    from importlib.util import find_spec

    for module in modules:
        if find_spec(module) is None:
            raise SojournError(
                f"the experiments need {module}, which is not installed; "
                f"pip install 'sojourn[report]'"
            )


def new_figure(rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
    """An empty figure and its axes, of the size and look that all figures here share.

    Examples
    --------
    >>> figure, axes = new_figure(1, 2)
    >>> axes.shape
    (1, 2)
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * columns, 3.5 * rows), layout="constrained", dpi=150)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def label_ends(
    ax: Axes, ends: Sequence[tuple[float, float, str, str]], room: float = 0.065
) -> None:
    """Names at the right ends of lines, moved apart where they would overlap.

    Parameters
    ----------
    ax : matplotlib axes
        Its limits are final.
    ends : sequence of (x, y, text, colour)
    room : float
        Least distance of two names, as a share of the height.
    """
    import numpy as np

    if not ends:
        return
    to_axes = ax.transData + ax.transAxes.inverted()
    at = [to_axes.transform((x, y)) for x, y, _, _ in ends]
    order = np.argsort([y for _, y in at], kind="stable")
    heights = [float(at[i][1]) for i in order]
    for _ in range(200):  # neighbours that are too close push each other away
        for i in range(len(heights) - 1):
            short = room - (heights[i + 1] - heights[i])
            if short > 1e-9:
                heights[i] -= short / 2
                heights[i + 1] += short / 2
    for i, height in zip(order, heights, strict=True):
        _, _, text, colour = ends[int(i)]
        ax.annotate(
            text,
            (float(at[i][0]), float(at[i][1])),
            xytext=(float(at[i][0]) + 0.04, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=colour,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            },
        )


def readable_log(axis: Axis, values: Sequence[float] = ()) -> None:
    """Ticks of a logarithmic axis at the given values, or at 1, 2 and 5; plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(
        FixedLocator(list(values)) if len(values) else LogLocator(subs=(1, 2, 5))
    )
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def save_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as SVG and as PNG."""
    from matplotlib import rc_context

    for kind in ("svg", "png"):
        buffer = io.BytesIO()
        # A fixed salt and no date: the same numbers give the same file.
        with rc_context({"svg.hashsalt": "sojourn", "svg.fonttype": "path"}):
            figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else None)
        with atomic_write(folder / f"{name}.{kind}", "wb") as file:
            file.write(buffer.getvalue())


def save_csv(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows as CSV; numbers in full, columns in the order in which they first appear.

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
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_field(row.get(name)) for name in names])
    with atomic_write(path) as file:
        file.write(buffer.getvalue())


def _field(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def save_page(
    folder: Path,
    title: str,
    intro: str,
    facts: Mapping[str, str],
    claims: Sequence[Claim],
    sections: Sequence[Section],
) -> Path:
    """Write ``index.html``: one file that holds its figures and needs no other.

    Returns
    -------
    Path
        The page.
    """
    from jinja2 import Environment

    def picture(name: str) -> str:
        data = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
        return f"data:image/svg+xml;base64,{data}"

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals["picture"] = picture
    html = environment.from_string(_PAGE).render(
        title=title, intro=intro, facts=facts, claims=claims, sections=sections
    )
    path = folder / "index.html"
    with atomic_write(path) as file:
        file.write(html)
    return path


_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { --ink: #1d2433; --soft: #5a6475; --line: #dde2ea; --ground: #fff; --yes: #1f7a5c;
  --no: #a8500a; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #a4adbb; --line: #353c49;
  --ground: #171b22; --yes: #5cc8a1; --no: #f0a35e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 62rem; color: var(--ink);
  background: var(--ground); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .75rem; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0 1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; font-size: .92rem; }
dt { color: var(--soft); } dd { margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; margin: 1rem 0;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem 1.1rem .4rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; } .numbers td { white-space: nowrap; }
.yes { color: var(--yes); } .no { color: var(--no); } .none { color: var(--soft); }
.verdict { white-space: nowrap; font-weight: 600; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; background: #fff;
  border-radius: 6px; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p>{{ intro }}</p>
<dl>
{% for name, value in facts.items() %}
<dt>{{ name }}</dt><dd>{{ value }}</dd>
{% endfor %}
</dl>
{% if claims %}
<h2>What the paper says, and what was found here</h2>
<div class="wide"><table>
<tr><th scope="col">The paper</th><th scope="col">Here</th><th scope="col"></th></tr>
{% for claim in claims %}
<tr><td>{{ claim.paper }}</td><td>{{ claim.ours }}</td>
<td class="verdict {{ {true: 'yes', false: 'no', none: 'none'}[claim.agrees] }}">{{ claim.verdict }}
</td></tr>
{% endfor %}
</table></div>
{% endif %}
{% for section in sections %}
<h2>{{ section.title }}</h2>
<p>{{ section.text }}</p>
{% if section.figure %}
<figure><img src="{{ picture(section.figure) }}" alt="{{ section.alt }}"></figure>
{% endif %}
{% for table in section.tables %}
<div class="wide"><table class="numbers">
<caption>{{ table.caption }}</caption>
<tr>{% for name in table.header %}<th scope="col">{{ name }}</th>{% endfor %}</tr>
{% for row in table.rows %}
<tr>{% for value in row %}<td>{{ value }}</td>{% endfor %}</tr>
{% endfor %}
</table></div>
{% endfor %}
{% endfor %}
</body>
</html>
"""
