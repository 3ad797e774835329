"""The figure of a channel on the bands of its states."""

import numpy as np
import pytest

from sojourn import HSMM, Params, SojournError, plot

plt = pytest.importorskip("matplotlib.pyplot")


def test_bands_are_those_of_the_decoded_states():
    rng = np.random.default_rng(0)
    X = [np.tile(np.repeat([0.0, 5.0], 5), 4) + rng.normal(size=40) for _ in range(6)]
    model = HSMM(2, 8, max_iter=5).fit(X)
    ax = plot.signal(model, X, 1)
    assert len(ax.collections) == len(model.segments(X)[1])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), X[1])
    plt.close(ax.figure)
    with pytest.raises(SojournError, match="no channel 'speed'"):
        plot.signal(model, X, channel="speed")
    with pytest.raises(SojournError, match="index is 9"):
        plot.signal(model, X, 9)
    symbols = Params.random(2, 2, 3, rng=0).sample(9, 9, rng=0)
    with pytest.raises(SojournError, match="a model of symbols"):
        plot.signal(HSMM(2, 2, max_iter=3).fit(symbols), symbols)
