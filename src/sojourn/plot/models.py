"""Figures of a model: what its states say, how long they last, what follows what, and its rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.plot.base import (
    MOST_NAMES,
    PALETTE,
    QUIET,
    axes_or_new,
    bare,
    color_of,
    model_of,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def durations(model: Any, state: int | None = None, ax: Axes | None = None) -> Axes:
    """How long the states of a model last: the probability of each length of stay.

    Parameters
    ----------
    model : HSMM, or a detector with one
    state : int, optional
        One state, as a histogram; all of them, as outlines, if not given.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import HSMM, Params, plot
    >>> model = HSMM(2, 4).fit(Params.random(2, 4, 3, rng=0).sample(50, 30, rng=1))
    >>> plot.durations(model).get_xlabel()
    'steps in a stay'
    """
    D = _params(model).duration
    ax = axes_or_new(ax)
    edges = np.arange(D.shape[1] + 1) + 0.5
    if state is None:
        for i, row in enumerate(D):
            ax.stairs(row, edges, color=color_of(i), linewidth=1.6, label=f"state {i}")
        if len(D) <= len(PALETTE):
            ax.legend(frameon=False)
    else:
        ax.stairs(D[_state(state, len(D))], edges, color=color_of(state), fill=True)
    ax.set_xlim(0.5, D.shape[1] + 0.5)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("steps in a stay")
    ax.set_ylabel("probability")
    return bare(ax)


def emissions(model: Any, ax: Axes | None = None) -> Axes:
    """What the states of a model say: the probability of each symbol in each state.

    Parameters
    ----------
    model : HSMM, or a detector with one
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import HSMM, Params, plot
    >>> model = HSMM(2, 4).fit(Params.random(2, 4, 3, rng=0).sample(50, 30, rng=1))
    >>> plot.emissions(model).get_ylabel()
    'state'
    """
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    E = _params(model).emission
    ax = axes_or_new(ax)
    r, g, b, _ = to_rgba(PALETTE[0])
    shades = LinearSegmentedColormap.from_list("shades", [(r, g, b, 0.04), (r, g, b, 1.0)])
    mesh = ax.pcolormesh(E, cmap=shades, vmin=0, vmax=1, edgecolors="none")
    bar = ax.figure.colorbar(mesh, ax=ax, label="probability", fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    names = model_of(model).vocabulary_
    if len(names) <= MOST_NAMES:
        labels = [short(name) for name in names.tolist()]
        ax.set_xticks(
            np.arange(len(names)) + 0.5, labels, rotation=45, ha="right", parse_math=False
        )
    else:
        ax.set_xlabel(f"symbol (code, of {len(names)})")
    ax.set_yticks(np.arange(len(E)) + 0.5, [str(i) for i in range(len(E))])
    ax.set_ylabel("state")
    ax.invert_yaxis()
    return bare(ax, frame=False)


def transitions(model: Any, least: float = 0.05, ax: Axes | None = None) -> Axes:
    """Which states follow which: a graph with an arrow for each transition that is not rare.

    A state's area grows with the share of time spent in it in the long run, an arrow's width with
    the probability of the transition.

    Parameters
    ----------
    model : HSMM, or a detector with one
    least : float
        Transitions less probable than this are left out.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import HSMM, Params, plot
    >>> model = HSMM(2, 4).fit(Params.random(2, 4, 3, rng=0).sample(50, 30, rng=1))
    >>> len(plot.transitions(model).texts) >= 2
    True
    """
    from matplotlib.patches import Circle, FancyArrowPatch

    params = _params(model)
    A, n = params.transition, params.n_states
    ax = axes_or_new(ax)
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    at = np.column_stack((np.cos(angle), np.sin(angle))) * (n > 1)
    most = min(0.3, 0.85 * np.sin(np.pi / n)) if n > 1 else 0.3
    radius = np.clip(most * np.sqrt(occupancy(model) * min(n, 4) / 1.5), 0.45 * most, most)
    names = model_of(model).vocabulary_[params.emission.argmax(axis=1)]
    size = max(7.0, 11.0 - 0.25 * n)
    for i in range(n):
        for j in np.flatnonzero(A[i] >= least).tolist():
            if i == j:
                continue
            bend = 0.16 if A[j, i] >= least else 0.08
            gap = np.array([radius[i], radius[j]]) + 0.02
            way = (at[j] - at[i]) / np.linalg.norm(at[j] - at[i])
            arrow = FancyArrowPatch(
                tuple(at[i] + gap[0] * _turned(way, -bend)),
                tuple(at[j] - gap[1] * _turned(way, bend)),
                connectionstyle=f"arc3,rad={bend}",
                arrowstyle="-|>",
                mutation_scale=7 + 5 * A[i, j],
                linewidth=0.6 + 2.4 * A[i, j],
                color=QUIET,
                alpha=0.35 + 0.65 * A[i, j],
                shrinkA=0,
                shrinkB=0,
            )
            arrow.set_gid(f"{i}-{j}")
            ax.add_patch(arrow)
    for i in range(n):
        ax.add_patch(Circle(tuple(at[i]), radius[i], color=color_of(i), linewidth=0, zorder=2))
        ax.text(
            at[i, 0],
            at[i, 1],
            str(i),
            ha="center",
            va="center",
            color="white",
            size=size,
            weight="bold",
        ).set_zorder(3)
        out = at[i] * (1 + (radius[i] + 0.06) / max(np.linalg.norm(at[i]), 1e-9))
        side = "left" if at[i, 0] > 0.1 else "right" if at[i, 0] < -0.1 else "center"
        up = "bottom" if at[i, 1] > 0.9 else "top" if at[i, 1] < -0.9 or n == 1 else "center"
        out = out if n > 1 else np.array([0.0, -radius[0] - 0.05])
        ax.text(out[0], out[1], short(names[i]), ha=side, va=up, size=size - 1, parse_math=False)
    ax.set_xlim(-1.75, 1.75)
    ax.set_ylim(-1.45, 1.45)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def occupancy(model: Any) -> NDArray[np.float64]:
    """Share of time that a model spends in each of its states in the long run.

    Examples
    --------
    >>> from sojourn import HSMM, Params, plot
    >>> model = HSMM(2, 4).fit(Params.random(2, 4, 3, rng=0).sample(50, 30, rng=1))
    >>> round(float(plot.occupancy(model).sum()), 6)
    1.0
    """
    params = _params(model)
    A = params.transition
    # Averaging over two steps keeps a cycle of states from going round for ever.
    visits = np.linalg.matrix_power((A + np.eye(len(A))) / 2, 1 << 12).T @ params.start
    share = visits * (params.duration @ np.arange(1, params.max_duration + 1))
    return share / share.sum()


def spectrum(model: Any, ax: Axes | None = None) -> Axes:
    """Singular values of the moment matrix, and how many of them the model keeps.

    Parameters
    ----------
    model : SpectralHSMM, or a detector with one
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import Params, SpectralHSMM, plot
    >>> model = SpectralHSMM(2, 2).fit(Params.random(2, 2, 3, rng=0).sample(50, 30, rng=1))
    >>> plot.spectrum(model).get_yscale()
    'log'
    """
    inner = _spectral(model)
    values = np.asarray(inner.singular_values_, dtype=float)
    ax = axes_or_new(ax)
    values = values[values > 0]
    number = np.arange(1, len(values) + 1)
    kept = number <= inner.rank_
    for some, color, what in ((kept, PALETTE[0], "kept"), (~kept, QUIET, "cut")):
        ax.plot(number[some], values[some], "o", color=color, markersize=4.5, label=what)
    ax.axvline(inner.rank_ + 0.5, color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
    ax.set_yscale("log")
    ax.set_xlabel("number of the singular value")
    ax.set_ylabel("singular value")
    ax.legend(frameon=False)
    return bare(ax)


def ranks(model: Any, ax: Axes | None = None) -> Axes:
    """Held-out likelihood of the ranks and windows that a spectral model compared.

    Parameters
    ----------
    model : SpectralHSMM, or a detector with one
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import Params, SpectralHSMM, plot
    >>> model = SpectralHSMM(2, 2).fit(Params.random(2, 2, 3, rng=0).sample(50, 30, rng=1))
    >>> plot.ranks(model).get_xlabel()
    'rank'
    """
    from matplotlib.ticker import MaxNLocator

    inner = _spectral(model)
    ax = axes_or_new(ax)
    by_window: dict[tuple[int, ...], dict[int, float]] = {}
    for trial in inner.choice_.trials:
        scores = by_window.setdefault(tuple(trial.offsets), {})
        scores[trial.rank] = max(trial.score, scores.get(trial.rank, -np.inf))
    for i, (window, scores) in enumerate(sorted(by_window.items())):
        tried = sorted(scores)
        name = "window " + " ".join(map(str, window))
        ax.plot(tried, [scores[k] for k in tried], "o-", color=color_of(i), ms=4, label=name)
    ax.axvline(inner.rank_, color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
    if 1 < len(by_window) <= len(PALETTE):
        ax.legend(frameon=False)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("rank")
    ax.set_ylabel("held-out nats a symbol")
    return bare(ax)


def _turned(way: NDArray[np.float64], by: float) -> NDArray[np.float64]:
    """A direction turned by the angle at which a bent arrow leaves or meets a state."""
    c, s = np.cos(2 * by), np.sin(2 * by)
    return np.array([c * way[0] - s * way[1], s * way[0] + c * way[1]])


def _params(model: Any) -> Any:
    inner = model_of(model)
    if not hasattr(inner, "params_"):
        raise SojournError(
            f"a {type(inner).__name__} has no states to show, or is not fitted; fit an HSMM"
        )
    return inner.params_


def _spectral(model: Any) -> Any:
    inner = model_of(model)
    if not hasattr(inner, "singular_values_"):
        raise SojournError(
            f"a {type(inner).__name__} has no singular values, or is not fitted; fit a SpectralHSMM"
        )
    return inner


def _state(state: int, n: int) -> int:
    if not 0 <= state < n:
        raise SojournError(f"state is {state}; the model has states 0 … {n - 1}")
    return state
