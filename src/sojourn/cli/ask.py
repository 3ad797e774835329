"""What a saved model says of sequences: ``score``, ``decode``, ``predict``; and ``sample``."""

from __future__ import annotations

from typing import Any

import click

from sojourn.cli.options import (
    load_model,
    read_data,
    reads_data,
    scan_data,
    status,
    uses_model,
)
from sojourn.cli.output import long, write, writes_results
from sojourn.cli.scale import cluster_of, scans_data
from sojourn.errors import SojournError


@click.command()
@uses_model
@reads_data
@scans_data
@click.option("--steps", is_flag=True, help="The surprise of each symbol.")
@writes_results
def score(**options: Any) -> None:
    """How likely each sequence is: its log-probability in nats."""
    steps, (in_parts, cluster) = options.pop("steps"), cluster_of(options)
    if steps and in_parts:
        raise click.UsageError("--steps is not for --scan or --cluster.")
    model = load_model(options)
    if in_parts:
        from sojourn.estimators.scan_scores import score_scan

        data = scan_data(options, model)
        with cluster as client, status("scoring"):
            scores = score_scan(model, data, client)
        write(options, _scored(scores.ids, scores.lengths, scores.observed, scores.log_prob))
        return
    sequences = read_data(options, model)
    import numpy as np

    with status("scoring"):
        if steps:
            surprise = np.concatenate(model.surprise(sequences))
            write(options, long(sequences, surprise=surprise))
            return
        log_prob = model.score_samples(sequences)
    write(options, _scored(sequences.ids, sequences.lengths, sequences.n_observed, log_prob))


def _scored(ids: Any, lengths: Any, observed: Any, log_prob: Any) -> dict[str, Any]:
    import numpy as np

    per_symbol = log_prob / np.maximum(observed, 1)
    return {"id": ids, "length": lengths, "log_prob": log_prob, "per_symbol": per_symbol}


@click.command()
@uses_model
@reads_data
@click.option("--steps", is_flag=True, help="The state at each symbol.")
@writes_results
def decode(**options: Any) -> None:
    """The stays of the most probable path of states (HSMM)."""
    steps = options.pop("steps")
    model = load_model(options, states="decode")
    sequences = read_data(options, model)
    import numpy as np

    with status("decoding"):
        if steps:
            states = np.concatenate(model.predict(sequences))
            write(options, long(sequences, state=states))
            return
        stays = model.segments(sequences)
    owners = np.repeat(sequences.ids, [len(row) for row in stays])
    flat = [stay for row in stays for stay in row]
    fields = ("start", "length", "state", "confidence")
    write(options, {"id": owners, **{f: [getattr(stay, f) for stay in flat] for f in fields}})


@click.command()
@uses_model
@reads_data
@click.option("--horizon", type=int, default=1, help="Number of steps ahead. [1]")
@click.option("--top", type=int, default=3, help="How many symbols, the likeliest; 0: all. [3]")
@writes_results
def predict(**options: Any) -> None:
    """What comes after each sequence."""
    horizon, top = options.pop("horizon"), options.pop("top")
    if top < 0:
        raise SojournError(f"--top is {top}; it is a number of symbols, or 0 for all")
    model = load_model(options)
    sequences = read_data(options, model)
    import numpy as np

    with status("predicting"):
        p = model.predict_next(sequences, horizon=horizon)
    order = np.argsort(-p, axis=1, kind="stable")[:, : top or None]
    columns = {
        "id": np.repeat(sequences.ids, order.shape[1]),
        "symbol": model.vocabulary_[order].ravel(),
        "probability": np.take_along_axis(p, order, axis=1).ravel(),
    }
    write(options, columns)


@click.command()
@click.argument("model")
@click.option("-n", type=int, default=1, help="Number of sequences. [1]")
@click.option("--length", type=int, default=100, help="Length of each. [100]")
@click.option("--seed", type=int)
@click.option("--states", is_flag=True, help="The states, too.")
@writes_results
def sample(**options: Any) -> None:
    """Draw sequences from a model (HSMM)."""
    n, length, seed, with_states = (options.pop(key) for key in ("n", "length", "seed", "states"))
    model = load_model(options, states="sample from")
    import numpy as np

    drawn, states = model.sample(n, length, random_state=seed, return_states=True)
    write(options, long(drawn, **({"state": np.concatenate(states)} if with_states else {})))
