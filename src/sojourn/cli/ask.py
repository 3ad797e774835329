"""Ask a saved model about sequences: ``score``, ``decode``, ``predict``; and ``sample``."""

from __future__ import annotations

from typing import Any

import click

from sojourn.cli import options
from sojourn.cli.options import Data, Saved, status
from sojourn.cli.output import Output, long, writes_results
from sojourn.errors import SojournError

_horizon = click.option("--horizon", type=int, default=1, help="Number of steps ahead. [1]")
_top = click.option("--top", type=int, default=3, help="Number of likeliest symbols; 0: all. [3]")


@click.command()
@options.uses_model
@options.reads_data
@options.scans_data
@click.option("--steps", is_flag=True, help="Write the surprise of each symbol.")
@writes_results
def score(
    saved: Saved, data: Data, scan: bool, cluster: str | None, steps: bool, output: Output
) -> None:
    """Score each sequence by its log-probability in nats."""
    import numpy as np

    from sojourn.estimators.base import outcomes, score_scan

    scan = scan or cluster is not None
    if steps and scan:
        raise click.UsageError("--steps is not for --scan or --cluster.")
    model = saved.load()
    if scan:
        with options.client_of(cluster) as client, status("scoring"):
            found: Any = score_scan(model, data.scan(model), client)
        log_prob, observed = found.log_prob, found.observed
    else:
        found = data.read(model)
        with status("scoring"):
            if steps:
                output.write(_surprises(model, found))
                return
            log_prob, observed = model.score_samples(found), outcomes(found, model.ends)
    scores = {"log_prob": log_prob, "per_symbol": log_prob / np.maximum(observed, 1)}
    output.write({"id": found.ids, "length": found.lengths, **scores})


def _surprises(model: Any, sequences: Any) -> dict[str, Any]:
    """Columns with the surprise of each symbol and, where ends are modelled, of each END."""
    import numpy as np

    rows = model.surprise(sequences)
    if not model.ends:
        return long(sequences, surprise=np.concatenate(rows))
    columns = long(sequences, surprise=np.concatenate([row[:-1] for row in rows]))
    last: dict[str, Any] = {"id": sequences.ids, "position": sequences.lengths, "symbol": "END"}
    last["surprise"] = np.array([row[-1] for row in rows])
    return {
        name: np.insert(np.asarray(column, object), sequences.offsets[1:], last.get(name, np.nan))
        for name, column in columns.items()
    }


@click.command()
@options.uses_model
@options.reads_data
@click.option("--steps", is_flag=True, help="Write the state at each symbol.")
@writes_results
def decode(saved: Saved, data: Data, steps: bool, output: Output) -> None:
    """Find the stays of the most probable path of states (HSMM)."""
    import numpy as np

    model = saved.load(states="decode")
    sequences = data.read(model)
    with status("decoding"):
        if steps:
            path = np.concatenate(model.predict(sequences))
            named: Any = {} if model.states_ is None else {"name": model.states_[path]}
            output.write(long(sequences, state=path, **named))
            return
        stays = model.segments(sequences)
    columns: dict[str, Any] = {"id": np.repeat(sequences.ids, [len(row) for row in stays])}
    named = () if model.states_ is None else ("name",)
    for name in ("start", "length", "state", "confidence", *named):
        columns[name] = [getattr(stay, name) for row in stays for stay in row]
    output.write(columns)


@click.command()
@options.uses_model
@options.reads_data
@_horizon
@_top
@writes_results
def predict(saved: Saved, data: Data, horizon: int, top: int, output: Output) -> None:
    """Predict what comes after each sequence."""
    import numpy as np

    model = saved.load()
    sequences = data.read(model)
    with status("predicting"):
        p = model.predict_next(sequences, horizon=horizon)
    if getattr(model, "channels_", ()):
        output.write({"id": np.repeat(sequences.ids, len(p.channels)), **_expected(p)})
        return
    output.write(_likeliest(model, sequences.ids, p, top))


def _expected(values: Any) -> dict[str, Any]:
    """Columns with the mean and quantiles of each channel, of `NextValues` of any shape."""
    import numpy as np

    low, median, high = np.moveaxis(values.quantiles, -2, 0)
    columns = {"mean": values.mean, "5%": low, "50%": median, "95%": high}
    channels = np.tile(values.channels, values.mean.size // len(values.channels))
    return {"channel": channels, **{name: table.ravel() for name, table in columns.items()}}


def _likeliest(model: Any, ids: Any, p: Any, top: int) -> dict[str, Any]:
    """Columns with the most probable outcomes of each row; the end is called END."""
    import numpy as np

    if top < 0:
        raise SojournError(f"--top is {top}; it is a number of symbols, or 0 for all")
    outcomes = np.append(model.vocabulary_, "END") if model.ends else model.vocabulary_
    order = np.argsort(-p, axis=1, kind="stable")[:, : top or None]
    return {
        "id": np.repeat(ids, order.shape[1]),
        "symbol": outcomes[order].ravel(),
        "probability": np.take_along_axis(p, order, axis=1).ravel(),
    }


@click.command()
@options.uses_model
@options.reads_data
@_horizon
@_top
@click.option("--time-to", metavar="SYMBOL", help="How long until this symbol comes first.")
@click.option("--state", help="How long until this state, or one of this name, comes first (HSMM).")
@click.option("--end", is_flag=True, help="How long until each sequence ends, in steps.")
@click.option("--remaining", is_flag=True, help="Time from the last event to the end.")
@click.option(
    "--held-out", metavar="DATA", help="Complete sequences, for --remaining: adds intervals."
)
@writes_results
def forecast(
    saved: Saved, data: Data, horizon: int, top: int, output: Output, held_out: str, **wait: Any
) -> None:
    """Forecast what comes after each sequence, and when."""
    if sum(map(bool, wait.values())) > 1:
        raise click.UsageError("give one of --time-to, --state, --end and --remaining.")
    if held_out and not wait["remaining"]:
        raise click.UsageError("--held-out needs --remaining.")
    model = saved.load(states="wait for" if wait["state"] is not None else "")
    sequences = data.read(model)
    complete = Data((held_out,), data.how | {"quiet": True}).read(model) if held_out else None
    with status("forecasting"):
        if wait.pop("remaining"):
            rest = model.remaining_time(sequences, held_out=complete)
            columns = {"time": rest.time, "low": rest.low, "high": rest.high}
            columns["unit"] = [rest.unit] * len(sequences)
        elif any(wait.values()):
            columns = _wait(model, sequences, **wait)
        else:
            columns = _ahead(model, sequences, horizon, top)
    output.write({"id": sequences.ids} | columns)


def _ahead(model: Any, sequences: Any, horizon: int, top: int) -> dict[str, Any]:
    """Columns with the most probable symbols, or with what is expected of channels, by step."""
    import numpy as np

    found, ids = model.forecast(sequences, horizon), np.repeat(sequences.ids, horizon)
    if getattr(model, "channels_", ()):
        ids, columns = np.repeat(ids, len(found.channels)), _expected(found)
    else:
        p = found.probabilities
        columns = _likeliest(model, ids, p.reshape(-1, p.shape[2]), top)
        ids = columns.pop("id")
    each = len(ids) // (horizon * len(sequences))
    step = np.tile(np.repeat(np.arange(1, horizon + 1), each), len(sequences))
    return {"id": ids, "step": step, **columns}


def _wait(
    model: Any, sequences: Any, time_to: str | None, state: str | None, end: bool
) -> dict[str, Any]:
    """Columns with how long until a symbol, a state or the end."""
    symbol: Any = time_to
    if time_to is not None and model.vocabulary_.dtype.kind == "i":
        symbol = int(time_to) if time_to.isdecimal() else time_to
    if time_to is not None and symbol not in model.vocabulary_.tolist():
        known = ", ".join(map(repr, model.vocabulary_[:12].tolist()))
        raise SojournError(f"--time-to is {time_to!r}; expected a symbol of the model, as {known}")
    place = int(state) if state is not None and state.isdecimal() else state
    wait = model.time_to(sequences, symbol=symbol, state=place, end=end)
    quantiles = {f"{q:.0%}": wait.quantile(q) for q in (0.05, 0.5, 0.95)}
    chance = {"probability": wait.probability, "mean": wait.mean}
    return {**chance, **quantiles, "unit": [wait.unit] * len(sequences)}


@click.command()
@options.names_model
@click.option("-n", type=click.IntRange(1), default=1, help="Number of sequences. [1]")
@click.option(
    "--length", type=click.IntRange(1), default=100, help="Length of each sequence. [100]"
)
@click.option("--seed", type=int, help="Seed of the random numbers.")
@click.option("--states", is_flag=True, help="Write the states, too.")
@writes_results
def sample(
    saved: Saved, n: int, length: int, seed: int | None, states: bool, output: Output
) -> None:
    """Draw sequences from a model (HSMM)."""
    import numpy as np

    model = saved.load(states="sample from")
    drawn, paths = model.sample(n, length, random_state=seed, return_states=True)
    output.write(long(drawn, **({"state": np.concatenate(paths)} if states else {})))
