"""The model behind a report: a card for each state, and figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn import plot
from sojourn.plot.base import PALETTE, plain
from sojourn.report.figures import SIZE, figure

MOST_STATES = 24  # states that get a card
TOP = 5  # symbols of a state


def plate(
    title: str, note: str, label: str, draw: Callable[[Any], Any], size: Any = SIZE
) -> dict[str, str]:
    """A figure with its heading and caption; the label is for those who do not see it."""
    name = "".join(c for c in title.lower() if c.isalpha())  # part of its ids on the page
    return {"title": title, "note": note, "svg": figure(name, label, draw, size)}


def state_cards(inner: Any, paths: list[NDArray[np.int32]]) -> list[dict[str, Any]]:
    """One card per state: its share of time in training and here, its stays, what it emits."""
    params, (step, unit) = inner.params_, inner.step_
    here = np.bincount(np.concatenate(paths), minlength=params.n_states)
    shares = here / max(here.sum(), 1)
    density, names = params.density, [plain(name) for name in inner.vocabulary_.tolist()]
    cards = []
    for i in range(min(params.n_states, MOST_STATES)):

        def draw(ax: Any, state: int = i) -> None:
            plot.durations(inner, state, ax).set_ylabel("")
            ax.locator_params(axis="y", nbins=3)

        top = np.argsort(-params.emission[i], kind="stable")[:TOP].tolist()
        bars = [(names[k], float(params.emission[i, k])) for k in top]
        cards.append(
            {
                "number": i,
                "name": plain(inner.state_names[i]),
                "color": i % len(PALETTE),
                "share": percent(round(float(inner.occupancy_[i]), 3)),
                "here": percent(round(float(shares[i]), 3)),
                "mean": f"{float(step * inner.expected_durations_[i]):.1f} {unit}",
                "top": [] if density is not None else bars,
                "emits": "" if density is None else plain(density.sentence(i, inner.channels_)),
                "svg": figure(f"d{i}", f"How long state {i} lasts", draw, (3.2, 1.35)),
            }
        )
    return cards


def model_figures(inner: Any) -> list[dict[str, str]]:
    """Transitions of a model with states; singular values and ranks of a spectral one."""
    if inner.has_states:
        return [
            plate(
                "Transitions",
                "The larger a state, the more of the training data's time is spent in it; the "
                "wider an arrow, the more probable. Transitions under 5 % are left out.",
                "Graph of the transitions between states",
                lambda ax: plot.transitions(inner, ax=ax),
                (5.6, 4.1),
            )
        ]
    if not hasattr(inner, "rank_"):  # a context tree
        return []
    found = [
        plate(
            "Spectrum",
            f"Singular values of the moment matrix; the first {inner.rank_} are in use.",
            "Singular values",
            lambda ax: plot.spectrum(inner, ax),
        )
    ]
    if inner.choice_.trials:
        found.append(
            plate(
                "Choice of the rank",
                f"Held-out likelihood of each rank and window compared; the line is at the rank "
                f"chosen, {inner.rank_}.",
                "Held-out score",
                lambda ax: plot.ranks(inner, ax),
            )
        )
    return found


def percent(share: float) -> str:
    r"""A share in per cent, with as many digits as it needs.

    Examples
    --------
    >>> percent(0.05), percent(0.125), percent(0.0004)
    ('5\xa0%', '12.5\xa0%', '0.04\xa0%')
    """
    return f"{100 * share:.3g}\u00a0%"
