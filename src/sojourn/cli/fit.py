"""``sojourn fit`` and ``sojourn info``: make a model, and say what is in one."""

from __future__ import annotations

from typing import Any

import click

from sojourn.cli.options import (
    load_model,
    number_or_auto,
    read_data,
    reads_data,
    scan_data,
    status,
)
from sojourn.cli.output import write, writes_results
from sojourn.cli.scale import cluster_of, scans_data

# Arguments that one estimator alone has.
ONLY_HSMM = ("init", "max_iter", "tol", "durations", "pseudocount", "left_censored")
ONLY_SPECTRAL = ("algorithm", "windows", "rank")

NUMBER: dict[str, Any] = {"type": number_or_auto, "metavar": "N|auto"}


@click.command()
@reads_data
@scans_data
@click.option("--checkpoint", metavar="FILE", help="Write how far EM has come after each pass.")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint, if there is one.")
@click.option("--method", type=click.Choice(["hsmm", "spectral"]), default="hsmm")
@click.option("--states", "n_states", **NUMBER, default="auto", help="How many. [auto]")
@click.option("--max-duration", **NUMBER, default="auto", help="Longest stay. [auto]")
@click.option(
    "--init", type=click.Choice(["spectral", "moments", "random"]), help="Where EM starts."
)
@click.option("--max-iter", type=int, help="Most passes of EM.")
@click.option("--tol", type=float, help="Least gain of a pass, in nats a symbol.")
@click.option("--durations", help="free, geometric, poisson, negative_binomial or lognormal.")
@click.option("--pseudocount", type=float, help="Added to all that is possible.")
@click.option("--left-censored", is_flag=True, default=None, help="First stays began earlier.")
@click.option("--algorithm", type=click.Choice(["adjacent", "pooled", "per_step"]))
@click.option("--windows", help="auto, theorem, contiguous, or offsets such as 0,1,4.")
@click.option("--rank", **NUMBER, help="Number of singular directions.")
@click.option("--self-transitions/--no-self-transitions", default=None)
@click.option("--unknown", type=click.Choice(["error", "missing"]))
@click.option("--seed", "random_state", type=int)
@click.option("--jobs", "n_jobs", type=int, help="Number of threads; else all cores.")
@click.option("--detector", is_flag=True, help="Save a detector: normal sequences, calibrated.")
@click.option("--contamination", type=float, help="False-alarm rate of the detector. [0.05]")
@click.option(
    "--detect-method",
    type=click.Choice(["residual", "loglik", "typicality"]),
    help="What the detector scores. [residual]",
)
@click.option("--no-moments", is_flag=True, help="A smaller file, without partial_fit.")
@click.option("--output", "-o", required=True, metavar="MODEL", help="Such as model.sojourn.")
@click.option("--format", "shape", type=click.Choice(["table", "csv", "json"]))
def fit(**options: Any) -> None:
    """Learn a model from sequences and save it."""
    method, path, shape = (options.pop(name) for name in ("method", "output", "shape"))
    moments, detector = not options.pop("no_moments"), options.pop("detector")
    how = {name: options.pop(name) for name in ("contamination", "detect_method")}
    how = {name.removeprefix("detect_"): value for name, value in how.items() if value is not None}
    if how and not detector:
        raise click.UsageError("--contamination and --detect-method need --detector.")
    foreign = ONLY_SPECTRAL if method == "hsmm" else ONLY_HSMM
    for name in foreign:
        if options.pop(name) is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} is not for --method {method}.")
    in_parts, cluster = cluster_of(options)
    stops = {name: options.pop(name) for name in ("checkpoint", "resume")}
    if (stops["checkpoint"] or stops["resume"]) and method != "hsmm":
        raise click.UsageError("--checkpoint and --resume are for --method hsmm.")
    if in_parts and detector:
        raise click.UsageError("--detector is not for --scan or --cluster.")
    sequences: Any = scan_data(options) if in_parts else read_data(options)
    arguments = {name: value for name, value in options.items() if value is not None}
    if isinstance(windows := arguments.get("windows"), str) and windows[:1].isdigit():
        arguments["windows"] = _offsets(windows)
    if in_parts:
        with cluster as client:
            model, size = _fitted_scan(method, arguments, sequences, client, stops)
    else:
        model = _fitted(method, arguments, sequences, stops)
        size = (len(sequences), sequences.n_total, model.score(sequences))
    if detector:
        _detector(model, how, sequences).save(path)
    else:
        model.save(path, moments=moments)
    facts = {
        **_facts(model),
        "sequences": size[0],
        "symbols in them": size[1],
        "nats a symbol": size[2],
        "saved to": path,
    }
    write({"output": None, "shape": shape}, _listed(facts))


def _fitted_scan(
    method: str, arguments: dict[str, Any], data: Any, client: Any, stops: dict[str, Any]
) -> tuple[Any, tuple[int, int, float]]:
    """The model, and the number of sequences, of symbols, and nats a symbol."""
    from sojourn.estimators.scan_scores import score_scan

    if "auto" in (arguments["n_states"], arguments["max_duration"]):
        raise click.UsageError("--scan and --cluster need --states and --max-duration.")
    model: Any
    if method == "hsmm":
        from sojourn.estimators.hsmm import HSMM

        model = HSMM(**arguments).fit(data, client=client, **stops)
    else:
        from sojourn.estimators.spectral_hsmm import SpectralHSMM

        with status("counting, then fitting"):
            model = SpectralHSMM(**arguments).fit(data, client=client)
    with status("scoring"):
        scores = score_scan(model, data, client)
    return model, (len(scores.ids), int(scores.lengths.sum()), scores.per_symbol)


def _fitted(method: str, arguments: dict[str, Any], sequences: Any, stops: dict[str, Any]) -> Any:
    auto = "auto" in (arguments["n_states"], arguments["max_duration"])
    if method == "hsmm":
        from sojourn.estimators.hsmm import HSMM

        if not auto:
            return HSMM(**arguments).fit(sequences, **stops)
        with status("comparing sizes, then fitting"):  # one line at a time on a terminal
            return HSMM(**arguments, verbose=False).fit(sequences, **stops)
    from sojourn.estimators.select import DURATIONS, STATES, select
    from sojourn.estimators.spectral_hsmm import SpectralHSMM

    if auto:
        n_states, max_duration = arguments.pop("n_states"), arguments.pop("max_duration")
        sizes = [n for n in STATES if n <= sequences.n_symbols]
        with status("comparing sizes"):
            found = select(
                sequences,
                sizes if n_states == "auto" else [n_states],
                DURATIONS if max_duration == "auto" else [max_duration],
                method="spectral",
                cv=3,
                **arguments,
            )
        arguments.update(n_states=found.n_states, max_duration=found.max_duration)
    with status("fitting"):
        return SpectralHSMM(**arguments).fit(sequences)


def _detector(model: Any, how: dict[str, Any], sequences: Any) -> Any:
    """A detector around a model of the sizes that were found, which it fits for each fold."""
    from sojourn.detect.detector import AnomalyDetector

    sizes = {"n_states": model.n_states, "max_duration": model.max_duration}
    if hasattr(model, "params_"):
        n_states, max_duration = model.params_.duration.shape
        sizes = {"n_states": n_states, "max_duration": max_duration}
    with status("fitting the detector"):
        return AnomalyDetector(model.set_params(**sizes), **how).fit(sequences)


def _offsets(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not offsets such as 0,1,4.") from None


@click.command()
@click.argument("model")
@click.option("--states", is_flag=True, help="A row for each state.")
@writes_results
def info(**options: Any) -> None:
    """Say what a saved model is, or what its states are."""
    if options.pop("states"):
        model = load_model(options, states="show")
        write(options, _states(model))
        return
    path = options["model"]
    model = load_model(options, detector=True)
    if hasattr(model, "calibration_"):
        facts = {
            "detector": model.method,
            "contamination": model.contamination,
            "training sequences": len(model.calibration_.scores),
            "threshold": model.offset_,
        }
        write(options, _listed({**facts, **_facts(model.model_), "file": path}))
        return
    write(options, _listed({**_facts(model), "file": path}))


def _listed(facts: dict[str, Any]) -> dict[str, list[Any]]:
    return {"property": list(facts), "value": list(facts.values())}


def _facts(model: Any) -> dict[str, Any]:
    vocabulary = [repr(symbol) for symbol in model.vocabulary_[:12].tolist()]
    more = f" and {len(model.vocabulary_) - 12} more" if len(model.vocabulary_) > 12 else ""
    facts: dict[str, Any] = {"model": type(model).__name__}
    if hasattr(model, "params_"):
        facts["states"] = model.params_.n_states
        facts["max duration"] = model.params_.max_duration
        facts["free parameters"] = model.n_parameters_
        facts["converged"] = model.converged_
        facts["passes over the data"] = round(model.n_passes_, 2)
    else:
        facts["states"], facts["max duration"] = model.n_states, model.max_duration
        facts["algorithm"], facts["filter"] = model.algorithm, model.filter
        facts["rank"] = model.rank_
        facts["window"] = ",".join(map(str, model.window_))
        facts["least probability"] = model.epsilon_
    facts["symbols"] = len(model.vocabulary_)
    facts["vocabulary"] = ", ".join(vocabulary) + more
    facts["unknown symbols"] = model.unknown
    return facts


def _states(model: Any) -> dict[str, Any]:
    """What each state does: how it starts, how long it lasts, what it says, what follows."""
    import numpy as np

    params, symbols = model.params_, model.vocabulary_.tolist()

    def most(row: Any, names: list[Any]) -> str:
        order = np.argsort(-row, kind="stable")[:3]
        return ", ".join(f"{names[i]} {row[i]:.2f}" for i in order.tolist() if row[i] >= 0.005)

    states = list(range(params.n_states))
    return {
        "state": states,
        "start": params.start,
        "mean duration": model.expected_durations_,
        "symbols": [most(row, symbols) for row in params.emission],
        "next": [most(row, states) for row in params.transition],
    }
