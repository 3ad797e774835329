"""``sojourn fit`` and ``sojourn info``: learn a model, and show what is in one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from sojourn.cli import options
from sojourn.cli.options import Data, Saved, status
from sojourn.cli.output import SHAPE, Output, writes_results

# Arguments that one estimator alone has.
ONLY_HSMM = ("init", "max_iter", "tol", "durations", "pseudocount", "left_censored")
ONLY_SPECTRAL = ("algorithm", "windows", "rank")


def _number_or_auto(text: str) -> int | str:
    if text != "auto" and not text.isdecimal():
        raise click.BadParameter(f"{text!r} is not a number or auto.")
    return text if text == "auto" else int(text)


def window(text: str) -> str | tuple[int, ...]:
    """Offsets, or the name of a rule to choose them by."""
    if not text[:1].isdigit():
        return text
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not offsets such as 0,1,4.") from None


NUMBER: dict[str, Any] = {"type": _number_or_auto, "metavar": "N|auto"}
METHOD = click.Choice(["hsmm", "spectral"])
INIT = click.Choice(["spectral", "states", "moments", "random"])
ALGORITHM = click.Choice(["contexts", "adjacent", "pooled", "per_step"])
SELF = "self-transitions"


@click.command()
@options.reads_data
@options.scans_data
@click.option("--checkpoint", metavar="FILE", help="Save the progress of EM after each pass.")
@click.option("--resume", is_flag=True, help="Continue from the checkpoint, if there is one.")
@click.option("--method", "estimator", type=METHOD, default="hsmm", help="Estimator. [hsmm]")
@click.option("--states", "n_states", **NUMBER, default="auto", help="Number of states. [auto]")
@click.option("--max-duration", **NUMBER, default="auto", help="Longest stay, in steps. [auto]")
@click.option("--init", type=INIT, help="Start of EM.")
@click.option("--max-iter", type=int, help="Maximum number of passes of EM.")
@click.option("--tol", type=float, help="Smallest gain of a pass, in nats per symbol.")
@click.option("--durations", help="free, geometric, poisson, negative_binomial or lognormal.")
@click.option("--pseudocount", type=float, help="Added to every expected count.")
@click.option("--left-censored", is_flag=True, default=None, help="First stays may be incomplete.")
@click.option("--ends", is_flag=True, default=None, help="Sequences end; model where.")
@click.option("--algorithm", type=ALGORITHM, help="What the spectral method counts. [contexts]")
@click.option("--windows", type=window, help="auto, theorem, contiguous, or such as 0,1,4.")
@click.option("--rank", **NUMBER, help="Number of singular directions.")
@click.option(f"--{SELF}/--no-{SELF}", default=None, help="Whether a state may follow itself.")
@click.option("--unknown", type=options.UNKNOWN, help="For symbols not seen in training. [error]")
@click.option("--seed", "random_state", type=int, help="Seed of the random numbers.")
@click.option("--jobs", "n_jobs", type=int, help="Number of threads (all cores if omitted).")
@click.option("--detector", is_flag=True, help="Save a calibrated detector of abnormal sequences.")
@options.makes_detector(" of the detector")
@click.option("--no-moments", is_flag=True, help="Write a smaller file, without partial_fit.")
@options.writes_file("MODEL", "Model file to write.")
@click.option("--format", "shape", type=SHAPE, help="Format of the summary.")
def fit(
    data: Data,
    scan: bool,
    cluster: str | None,
    checkpoint: str | None,
    resume: bool,
    estimator: str,
    detector: bool,
    detection: dict[str, Any],
    no_moments: bool,
    output: str,
    shape: str | None,
    **arguments: Any,
) -> None:
    """Learn a model from sequences and save it."""
    from sojourn import HSMM, AnomalyDetector, SpectralHSMM
    from sojourn.persist.saving import save

    if detection and not detector:
        raise click.UsageError("--contamination and --detect-method need --detector.")
    arguments, scan = options.given(**arguments), scan or cluster is not None
    for name in ONLY_SPECTRAL if estimator == "hsmm" else ONLY_HSMM:
        if name in arguments:
            raise click.UsageError(f"--{name.replace('_', '-')} is not for --method {estimator}.")
    how = options.given(checkpoint=checkpoint, resume=resume or None)
    if checkpoint is not None:
        options.check_written(checkpoint, "--checkpoint")
    if how and estimator != "hsmm":
        raise click.UsageError("--checkpoint and --resume are for --method hsmm.")
    if detector and (scan or how):
        raise click.UsageError("--detector is not for --scan, --cluster, --checkpoint or --resume.")
    if "windows" in arguments:
        arguments.setdefault("algorithm", "adjacent")  # contexts have no windows
    if estimator == "spectral" and arguments.get("algorithm", "contexts") == "contexts":
        # The data decide what is not given.
        arguments = {name: value for name, value in arguments.items() if value != "auto"}
    auto = "auto" in (arguments.get("n_states"), arguments.get("max_duration"))
    if scan and auto:
        raise click.UsageError("--scan and --cluster need --states and --max-duration.")
    data.how["empty"] = bool(arguments.get("ends"))
    sequences: Any = data.scan() if scan else data.read()
    with options.client_of(cluster) as client:
        with _progress(estimator, auto, detector):
            if estimator == "hsmm":
                # EM shows its progress itself, but a terminal has one such line at a time.
                arguments |= {"verbose": False} if auto or detector else {}
                model: Any = HSMM(**arguments)
            else:
                arguments |= _chosen_sizes(sequences, **arguments) if auto else {}
                model = SpectralHSMM(**arguments)
            if detector:
                model = AnomalyDetector(model, **detection).fit(sequences)
            else:
                model.fit(sequences, **how, client=client)
        fitted = model.model_ if detector else model
        facts = _facts(fitted) | _size(fitted, sequences, client)
    save(model, output, moments=not no_moments, extras=data.columns())
    _write_facts(Output(None, shape), facts | {"saved to": output})


def _progress(estimator: str, auto: bool, detector: bool) -> AbstractContextManager[None]:
    """What is shown on a terminal while a model is fitted."""
    if estimator == "hsmm" and not auto and not detector:
        return nullcontext()
    steps = ("comparing sizes",) * auto + ("fitting",) + ("calibrating",) * detector
    return status(", then ".join(steps))


def _chosen_sizes(sequences: Any, n_states: Any, max_duration: Any, **more: Any) -> dict[str, int]:
    from sojourn.estimators.select import DURATIONS, STATES, select

    fitting = [n for n in STATES if n <= sequences.n_symbols]
    states = fitting if n_states == "auto" else [n_states]
    durations = DURATIONS if max_duration == "auto" else [max_duration]
    found = select(sequences, states, durations, method="spectral", cv=3, **more)
    return {"n_states": found.n_states, "max_duration": found.max_duration}


def _size(model: Any, sequences: Any, client: Any) -> dict[str, Any]:
    from sojourn.data.sequences import Sequences
    from sojourn.estimators.base import score_scan

    if isinstance(sequences, Sequences):
        n, n_total, score = len(sequences), sequences.n_total, model.score(sequences)
    else:
        with status("scoring"):
            found = score_scan(model, sequences, client)
        n, n_total, score = len(found.ids), int(found.lengths.sum()), found.per_symbol
    return {"sequences": n, "symbols in them": n_total, "nats per symbol": score}


@click.command()
@options.names_model
@click.option("--states", is_flag=True, help="Write one row per state.")
@writes_results
def info(saved: Saved, states: bool, output: Output) -> None:
    """Show what a saved model is, or what its states are."""
    from sojourn.detect.detector import AnomalyDetector

    if states:
        output.write(_states(saved.load(states="show")))
        return
    found, facts = saved.load(detector=True), {}
    model = found
    if isinstance(model, AnomalyDetector):
        facts = {
            "detector": model.method,
            "contamination": model.contamination,
            "training sequences": len(model.calibration_.scores),
            "threshold": model.offset_,
        }
        model = model.model_
    _write_facts(output, facts | _facts(model) | _reads(found, model) | {"file": saved.model})


def _reads(saved: Any, model: Any) -> dict[str, Any]:
    """How a model reads data: ends, clock, and the columns that it remembers from its fit."""
    extras, found = getattr(saved, "extras_", {}), {"ends": model.ends}
    if (clock := getattr(model, "clock_", None)) is not None:
        found["clock"] = str(clock)
    columns = extras.get("guessed", {}) | extras.get("columns", {})
    named = ((name, columns[name]) for name in options.COLUMNS if name in columns)
    shown = (f"{name} {value}" if value else f"no {name}" for name, value in named)
    return found | ({"columns": ", ".join(shown)} if columns else {})


def _write_facts(output: Output, facts: dict[str, Any]) -> None:
    output.write({"property": list(facts), "value": list(facts.values())})


def _facts(model: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"model": type(model).__name__}
    if model.has_states:
        facts["states"] = model.params_.n_states
        facts["max duration"] = model.params_.max_duration
        facts["free parameters"] = model.n_parameters_
        facts["converged"] = model.converged_
        n = round(model.n_passes_, 2)  # passes over samples are parts of one
        facts["passes over the data"] = int(n) if n.is_integer() else n
    else:
        facts |= _spectral_facts(model)
    if getattr(model, "channels_", ()):
        density = model._density
        if not model.has_states:
            facts["codes"] = density.n_states
        return facts | {"channels": ", ".join(model.channels_), "emission": str(density)}
    n = len(model.vocabulary_)
    shown = ", ".join(repr(symbol) for symbol in model.vocabulary_[:12].tolist())
    facts["symbols"] = n
    facts["vocabulary"] = shown + (f" and {n - 12} more" if n > 12 else "")
    facts["unknown symbols"] = model.unknown
    return facts


def _spectral_facts(model: Any) -> dict[str, Any]:
    """What a model without states is made of; a context tree has no operators."""
    facts: dict[str, Any] = {}
    if hasattr(model, "rank_"):
        facts = {"algorithm": model.algorithm, "filter": model.filter, "rank": model.rank_}
    if hasattr(model, "trees_"):
        facts["contexts"] = model.trees_.n_pasts
        facts["ends"] = model.ends
    if hasattr(model, "window_"):
        facts["window"] = ",".join(map(str, model.window_))
        facts["least probability"] = model.epsilon_
    return facts


def _states(model: Any) -> dict[str, Any]:
    """One row per state: how it starts, how long it lasts, its symbols, and what follows."""
    import numpy as np

    params, symbols = model.params_, model.vocabulary_.tolist()

    def most(row: Any, names: list[Any]) -> str:
        order = np.argsort(-row, kind="stable")[:3]
        return ", ".join(f"{names[i]} {row[i]:.2f}" for i in order.tolist() if row[i] >= 0.005)

    states, density = list(range(params.n_states)), params.density
    emits = {"symbols": [most(row, symbols) for row in params.emission]}
    if density is not None:
        emits = {"values": [density.sentence(x, model.channels_) for x in states]}
    return {
        "state": states,
        "start": params.start,
        "mean duration": model.expected_durations_,
        **emits,
        "next": [most(row, states) for row in params.transition],
    }
