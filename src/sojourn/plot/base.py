"""Shared by the figures: colours, names that cannot break them, axes, and the model they show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from sojourn.checks import optional
from sojourn.errors import SojournError, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = (
    *("#4a7de0", "#d9822b", "#2a9d8f", "#c8558c", "#7b68c8"),
    *("#6b9b37", "#3a9cc0", "#b5793f", "#a04fb0", "#7d8799"),
)
ALARM = "#dc4446"
QUIET = "#8b95a5"
DASHED: Any = {"color": QUIET, "linewidth": 1, "linestyle": (0, (4, 3))}  # lines to compare with


def color_of(state: int) -> str:
    """Colour of a state: ten of them, then the same again."""
    return PALETTE[state % len(PALETTE)]


def plain(text: Any) -> str:
    r"""A name as one printable line, so that no symbol can break a figure."""
    return printable(str(text))


def short(text: Any, most: int = 20) -> str:
    """A name that is not too long for its place."""
    name = plain(text)
    return name if len(name) <= most else name[: most - 1] + "…"


def axes_or_new(ax: Axes | None) -> Axes:
    """The axes given, or new ones."""
    if ax is not None:
        return ax
    plt = optional("matplotlib.pyplot", "a figure", "plot")
    new: Axes = plt.subplots(layout="constrained")[1]
    return new


def bare(ax: Axes, frame: bool = True) -> Axes:
    """The same axes without the lines that hold nothing; no name in the legend is a formula."""
    for text in legend.get_texts() if (legend := ax.get_legend()) else ():
        text.set_parse_math(False)
    ax.spines[["top", "right"]].set_visible(False)
    if not frame:
        ax.spines[["left", "bottom"]].set_visible(False)
        ax.tick_params(length=0)
    return ax


def label_steps(ax: Axes, inner: Any) -> None:
    """Name the axis of steps, and count it in the unit of the model's clock, if it has one."""
    step, unit = inner.step_
    if unit == "steps":
        ax.set_xlabel("step")
        return
    ax.xaxis.set_major_formatter(lambda x, _: f"{step * x:g}")
    ax.set_xlabel(unit)


def model_of(model: Any, states: bool | None = None) -> Any:
    """The model, or that of a detector; with `states` given, one that has states or has none."""
    inner = getattr(model, "model_", model)
    if states is not None:
        check_is_fitted(inner)
        if inner.has_states != states:
            lacks = (
                "states to show; fit an HSMM" if states else "singular values; fit a SpectralHSMM"
            )
            raise SojournError(f"a {type(inner).__name__} has no {lacks}")
    return inner
