"""Matplotlib figures as SVG inside a page, with its fonts and colours that follow its theme."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sojourn.plot.base import ALARM, PALETTE, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (4.6, 2.9)  # inches; small, so that text is large where a page is narrow
# These stand for colours of the page.
INK, MUTED, LINE, SURFACE = "#0a0b0c", "#0a0b0d", "#0a0b0e", "#0a0b0f"

STYLE: Any = {  # settings of matplotlib
    "svg.fonttype": "none",
    "svg.hashsalt": "sojourn",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": LINE,
    "axes.linewidth": 0.8,
    "axes.facecolor": "none",
    "axes.titlecolor": MUTED,
    "figure.facecolor": "none",
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "legend.fontsize": "small",
    "legend.facecolor": SURFACE,
}
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--rule)",
    SURFACE: "var(--surface)",
    ALARM: "var(--alarm)",
    QUIET: "var(--quiet)",
    **{color: f"var(--c{i})" for i, color in enumerate(PALETTE)},
}


def figure(
    name: str, label: str, draw: Callable[[Axes], Any], size: tuple[float, float] = SIZE
) -> str:
    """An SVG element of what `draw` draws on axes; the size is in inches, which the page scales.

    The name is part of all ids in the element, so that figures of one page do not mix theirs.

    Examples
    --------
    >>> svg = figure("f", "a line", lambda ax: ax.plot([0, 1], color="#dc4446"))
    >>> svg[:14], "stroke: var(--alarm)" in svg, "http" in svg
    ('<svg role="img', True, False)
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # The browser has glyphs that matplotlib's font, used for measuring only, has not.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        fig = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(fig)
        draw(fig.subplots())
        file = io.StringIO()
        fig.savefig(file, format="svg", transparent=True)
    return _themed(file.getvalue(), name, label)


def _themed(svg: str, name: str, label: str) -> str:
    from markupsafe import escape

    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>|<!--.*?-->", "", svg, flags=re.S)
    box = re.search(r'viewBox="([^"]*)"', svg)
    head = f'<svg role="img" aria-label="{escape(label)}" viewBox="{box[1] if box else ""}">'
    svg = head + svg[svg.index(">") + 1 :]
    # Names of symbols stand between the elements, and stay as they are.
    referred = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    svg = re.sub(r"<[^>]*>", lambda tag: _themed_tag(tag[0], name, referred), svg)
    return re.sub(r"\n\s*", "\n", svg).strip()


def _themed_tag(tag: str, name: str, referred: set[str]) -> str:
    tag = tag.replace("xlink:href", "href")
    tag = re.sub(
        r' id="([^"]*)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in referred else "", tag
    )
    tag = re.sub(r'(href="|url\()#', rf"\g<1>#{name}-", tag)
    tag = re.sub(r" font-family: [^;\"]*;?", "", tag)
    tag = re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", tag)
    return re.sub(r"#[0-9a-f]{6}\b", lambda m: VARIABLES.get(m[0], m[0]), tag)
