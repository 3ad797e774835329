"""The picture on the first page: a flight with its reasons, drawn by the package itself."""

from __future__ import annotations

import io
import re
from pathlib import Path

FOLDER = Path(__file__).parent
FLIGHT = "london_gatwick"
SIZES = {"wide": (8.0, 3.6), "narrow": (4.2, 3.6)}  # inches; the second is for phones
INK = "#123456"  # replaced by the colour of the text around the picture


def write(app=None) -> None:
    """Write the picture in two widths, to stand inside a page in the colours of its theme."""
    folder = FOLDER / "generated"
    folder.mkdir(exist_ok=True)
    if all((folder / f"timeline-{name}.svg").is_file() for name in SIZES):
        return
    detector, flight, why = explained()
    for name, size in SIZES.items():
        text = drawn(detector, flight, why, size).replace(INK, "currentColor")
        (folder / f"timeline-{name}.svg").write_text(text, "utf-8")


def explained():
    """The detector of the first page, its flight and the reasons."""
    import sojourn as sj

    flights = sj.datasets.approaches()
    model = sj.HSMM(n_states=4, max_duration=60, random_state=0)
    detector = sj.AnomalyDetector(model, contamination=0.05).fit(flights.normal)
    flight = flights.unusual[flights.unusual.ids == FLIGHT]
    return detector, flight, detector.explain(flight)[0]


def drawn(detector, flight, why, size) -> str:
    """The timeline of a flight as SVG; numbers stand at the steps that reasons are about."""
    import matplotlib
    from matplotlib.figure import Figure

    import sojourn as sj

    style = dict.fromkeys(("text.color", "xtick.color", "ytick.color", "axes.labelcolor"), INK)
    style |= {"svg.fonttype": "none", "svg.hashsalt": "sojourn", "font.size": 10}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.subplots()
        places = [reason.start for reason in why.reasons]
        sj.plot.timeline(detector, flight, marks=[p for p in places if p is not None], ax=ax)
        for place, numbers in _numbers(places, apart=30 * 8 / size[0]).items():
            ax.annotate(
                numbers, (place, 1), (3, 1), ("data", "axes fraction"), "offset points",
                color="#dc4446", weight="bold",
            )  # fmt: skip
        ax.set_xlabel("seconds")
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    label = f"Timeline of the flight {FLIGHT}: what it does, its states, and its surprise"
    svg = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    return re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)


def _numbers(places, apart):
    """Numbers of reasons by step; those of steps too close to be read apart stand together."""
    joined: dict[int, str] = {}
    for number, place in sorted(enumerate(places, 1), key=lambda pair: pair[1] or 0):
        if place is None:
            continue
        near = next((p for p in joined if abs(p - place) < apart), place)
        joined[near] = f"{joined[near]}, {number}" if near in joined else str(number)
    return joined


if __name__ == "__main__":  # the copy that README.md shows, in a colour for both themes
    picture = drawn(*explained(), SIZES["wide"]).replace(INK, "#6b7480")
    (FOLDER / "timeline.svg").write_text(picture, "utf-8")
