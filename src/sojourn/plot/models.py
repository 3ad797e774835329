"""Figures of a model: symbols and durations of its states, transitions, singular values, ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.exact.params import Params
from sojourn.plot.base import DASHED, PALETTE, QUIET, axes_or_new, bare, color_of, model_of, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
SHOWN_STAYS = 0.95  # share of the stays with a tail that are shown
MOST_NAMES = 40  # more names than this along an axis cannot be read


def durations(model: Any, state: int | None = None, ax: Axes | None = None) -> Axes:
    """How long the states of a model last: the probability of each length of stay.

    Of a state with a geometric tail the lengths beyond the limit are shown as far as 95 % of the
    stays go, and not further than three times the limit.

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
    from matplotlib.ticker import MaxNLocator

    inner = model_of(model, states=True)
    n_x, (step, unit) = inner.params_.n_states, inner.step_
    if state is not None and not 0 <= state < n_x:
        raise SojournError(f"state is {state}; the model has states 0 … {n_x - 1}")
    ax = axes_or_new(ax)
    D = with_tails(inner.params_, slice(None) if state is None else slice(state, state + 1))
    edges = step * (np.arange(D.shape[1] + 1) + 0.5)
    if state is not None:
        ax.stairs(D[0], edges, color=color_of(state), fill=True)
    else:
        for i, row in enumerate(D):
            name = short(inner.state_names[i])
            ax.stairs(row, edges, color=color_of(i), linewidth=1.6, label=name)
        if n_x <= len(PALETTE):
            ax.legend(frameon=False)
    ax.set(xlim=(edges[0], edges[-1]), xlabel=f"{unit} in a stay", ylabel="probability")
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=step == 1.0, min_n_ticks=1))
    return bare(ax)


def with_tails(params: Params, states: slice) -> Array:
    """Probabilities of the lengths of stays, those beyond the limit included, (n, n_lengths)."""
    D, tail = params.duration[states], params.tail[states, None]
    n_d = D.shape[1]
    if not (tail > 0).any():
        return D
    last = D[:, -1:] * (1 - tail) * tail ** np.arange(2 * n_d + 1)  # from the limit on
    D = np.hstack([D[:, :-1], last])
    enough = (D.cumsum(axis=1) >= SHOWN_STAYS).all(axis=0)
    return D[:, : max(n_d, int(enough.argmax()) + 1) if enough.any() else None]


def emissions(model: Any, ax: Axes | None = None) -> Axes:
    """The probability of each symbol in each state of a model.

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

    inner = model_of(model, states=True)
    E, names = inner.params_.emission, inner.vocabulary_
    ax = axes_or_new(ax)
    ends = [to_rgba(PALETTE[0], alpha) for alpha in (0.04, 1.0)]
    shades = LinearSegmentedColormap.from_list("shades", ends)
    mesh = ax.pcolormesh(E, cmap=shades, vmin=0, vmax=1, edgecolors="none")
    bar = ax.figure.colorbar(mesh, ax=ax, label="probability", fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    if len(names) <= MOST_NAMES:
        labels = [short(name) for name in names.tolist()]
        at = np.arange(len(names)) + 0.5
        ax.set_xticks(at, labels, rotation=45, ha="right", parse_math=False)
    else:
        ax.set_xlabel(f"symbol (code, of {len(names)})")
    ax.set_yticks(np.arange(len(E)) + 0.5, [str(i) for i in range(len(E))])
    ax.set_ylabel("state")
    ax.invert_yaxis()
    return bare(ax, frame=False)


def transitions(model: Any, least: float = 0.05, ax: Axes | None = None) -> Axes:
    """Which states follow which: a graph with an arrow for each transition that is not rare.

    The area of a state grows with its share of the training data's time, the width of an arrow
    with the probability of the transition. States without a name have that of their most probable
    symbol.

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
    >>> ax = plot.transitions(model)
    >>> [text.get_text() for text in ax.texts]
    ['0', '0', '1', '2']
    """
    from matplotlib.patches import Circle

    inner = model_of(model, states=True)
    A, n = inner.params_.transition, inner.params_.n_states
    ax = axes_or_new(ax)
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    at = np.column_stack((np.cos(angle), np.sin(angle))) * (n > 1)  # on a circle       (n, 2)
    most = min(0.3, 0.85 * np.sin(np.pi / n)) if n > 1 else 0.3
    radius = np.clip(most * np.sqrt(inner.occupancy_ * min(n, 4) / 1.5), 0.45 * most, most)
    for i, j in np.argwhere(least <= A).tolist():
        if i != j:
            bend = 0.16 if A[j, i] >= least else 0.08
            arrow = _arrow(at[i], at[j], radius[[i, j]] + 0.02, bend, A[i, j])
            arrow.set_gid(f"{i}-{j}")
            ax.add_patch(arrow)
    names = inner.state_names
    if inner.states_ is None and inner.params_.density is None:
        names = inner.vocabulary_[inner.params_.emission.argmax(axis=1)].tolist()
    size = max(7.0, 11.0 - 0.25 * n)
    inside: Any = {"ha": "center", "va": "center", "color": "white", "weight": "bold"}
    for i in range(n):
        x, y = at[i]
        ax.add_patch(Circle((x, y), radius[i], color=color_of(i), linewidth=0, zorder=2))
        ax.text(x, y, str(i), size=size, **inside).set_zorder(3)
        out = at[i] * (1 + (radius[i] + 0.06) / max(np.linalg.norm(at[i]), 1e-9))
        side = "left" if x > 0.1 else "right" if x < -0.1 else "center"
        up = "bottom" if y > 0.9 else "top" if y < -0.9 or n == 1 else "center"
        out = out if n > 1 else np.array([0.0, -radius[0] - 0.05])
        ax.text(
            out[0], out[1], short(names[i], 24), ha=side, va=up, size=size - 1, parse_math=False
        )
    ax.set(xlim=(-2.1, 2.1), ylim=(-1.45, 1.45), aspect="equal")
    ax.set_axis_off()
    return ax


def _arrow(start: Array, stop: Array, gaps: Array, bend: float, probability: float) -> Any:
    """A bent arrow between two states, which ends at these distances from their centres."""
    from matplotlib.patches import FancyArrowPatch

    way = (stop - start) / np.linalg.norm(stop - start)
    c, s = np.cos(2 * bend), np.sin(2 * bend)
    turn = np.array([[c, -s], [s, c]])  # by the angle between the arrow's ends and its chord
    return FancyArrowPatch(
        tuple(start + gaps[0] * turn.T @ way),
        tuple(stop - gaps[1] * turn @ way),
        connectionstyle=f"arc3,rad={bend}",
        arrowstyle="-|>",
        mutation_scale=7 + 5 * probability,
        linewidth=0.6 + 2.4 * probability,
        color=QUIET,
        alpha=0.35 + 0.65 * probability,
        shrinkA=0,
        shrinkB=0,
    )


def occupancy(model: Any, ax: Axes | None = None) -> Axes:
    """Share of the training data's time in each state; the numbers are ``model.occupancy_``.

    Parameters
    ----------
    model : HSMM, or a detector with one
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from sojourn import HSMM, Params, plot
    >>> model = HSMM(2, 4).fit(Params.random(2, 4, 3, rng=0).sample(50, 30, rng=1))
    >>> plot.occupancy(model).get_xlabel()
    'share of time'
    """
    inner = model_of(model, states=True)
    share, ax = inner.occupancy_, axes_or_new(ax)
    at = np.arange(len(share))
    ax.barh(at, share, color=[color_of(x) for x in at.tolist()])
    ax.set_yticks(at, [short(name) for name in inner.state_names], parse_math=False)
    ax.set(xlabel="share of time", xlim=(0, None))
    ax.invert_yaxis()
    return bare(ax)


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
    from matplotlib.ticker import LogLocator

    inner = model_of(model, states=False)
    values = inner.singular_values_[inner.singular_values_ > 0]
    number = np.arange(1, len(values) + 1)
    kept = number <= inner.rank_
    ax = axes_or_new(ax)
    for some, color, what in ((kept, PALETTE[0], "kept"), (~kept, QUIET, "cut")):
        ax.plot(number[some], values[some], "o", color=color, markersize=4.5, label=what)
    ax.axvline(inner.rank_ + 0.5, **DASHED)
    ax.set(yscale="log", xlabel="number of the singular value", ylabel="singular value")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # not mathtext
    ax.yaxis.set_minor_formatter(lambda value, _: "")
    ax.legend(frameon=False)
    return bare(ax)


def ranks(model: Any, ax: Axes | None = None) -> Axes:
    """Held-out likelihood of the ranks and windows or contexts that a spectral model compared.

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

    inner = model_of(model, states=False)
    ax = axes_or_new(ax)
    by_window: dict[tuple[int, ...], dict[int, float]] = {}
    for trial in inner.choice_.trials:
        windows = hasattr(trial, "offsets")
        scores = by_window.setdefault(tuple(trial.offsets) if windows else (trial.n_pasts,), {})
        scores[trial.rank] = max(trial.score, scores.get(trial.rank, -np.inf))
    for i, (window, scores) in enumerate(sorted(by_window.items())):
        tried = sorted(scores)
        name = f"window {' '.join(map(str, window))}" if windows else f"{window[0]} contexts"
        ax.plot(tried, [scores[k] for k in tried], "o-", color=color_of(i), ms=4, label=name)
    ax.axvline(inner.rank_, **DASHED)
    if 1 < len(by_window) <= len(PALETTE):
        ax.legend(frameon=False)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="rank", ylabel="held-out nats per symbol")
    return bare(ax)
