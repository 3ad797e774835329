"""Options that commands share. Each group of options becomes one argument of the command."""

from __future__ import annotations

import functools
import glob
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from sojourn.checks import optional
from sojourn.detect import METHODS
from sojourn.errors import SojournError
from sojourn.io.layout import FORMATS

if TYPE_CHECKING:
    from sojourn.data.sequences import Sequences
    from sojourn.io.sources import Scan

Command = TypeVar("Command", bound=Callable[..., Any])
FORMAT = click.Choice(FORMATS)
ON_ERROR = click.Choice(["raise", "skip"])
FILL = click.Choice(["hold", "nothing", "missing", "commonest"])
CLOCKS = ("every", "gaps")
CLOCK = (*CLOCKS, "fill", "max_gap", "zone")  # options about times
EVENTS = (*CLOCK, "lifecycle")
UNKNOWN = click.Choice(["error", "missing"])
UNKNOWN_HERE = click.Choice(["novel", "missing", "error"])  # novel: evidence, for a detector

STDIN = "sojourn-stdin-"  # folders with what was on standard input
READ = ("files", "model", "normal", "held_out")  # arguments that name files to be read
COLUMNS = ("id", "time", "symbol")
LEFT_OUT = ("missing", "values", *EVENTS)  # of the arguments of `read`, where they are not given

# How Dask is set for local processes. By default they give memory back to the system at once and
# have to ask for it again, zeroed page by zeroed page; the scheduler gives a busy worker a task
# that an idle one could have had; and workers look every few milliseconds at what they do, for a
# page that nobody opens.
SETTINGS = {
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 30,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.profile.enabled": False,
}


def grouped(name: str, make: Callable[..., Any], *options: Any) -> Callable[[Command], Command]:
    """Add options from which `make` makes one argument of the command."""

    def decorate(command: Any) -> Any:
        @functools.wraps(command)
        def run(**given: Any) -> Any:
            own = {key: given.pop(key) for key in names}
            return command(**{name: make(**own)}, **given)

        params = vars(run).setdefault("__click_params__", [])
        before = len(params)
        for option in reversed(options):
            option(run)
        names = [param.name for param in params[before:]]
        return run

    return decorate


class Data(NamedTuple):
    """Files, and how to read them."""

    files: tuple[str, ...]
    how: dict[str, Any]  # arguments of `sojourn.read`

    @classmethod
    def of(cls, files: tuple[str, ...], no_id: bool, no_time: bool, **how: Any) -> Data:
        """Of the options of `reads_data`."""
        for name, no in (("id", no_id), ("time", no_time)):
            if no and how[name] is not None:
                raise click.UsageError(f"--{name} and --no-{name} exclude each other.")
            how[name] = False if no else how[name]
        for name, clocks in (("fill", CLOCKS[:1]), ("max_gap", CLOCKS[:1]), ("zone", CLOCKS)):
            if how[name] is not None and not any(map(how.get, clocks)):
                needed = " or ".join(f"--{clock}" for clock in clocks)
                raise click.UsageError(f"--{name.replace('_', '-')} needs {needed}.")
        for name in ("gaps", "values"):
            how[name] = how[name].split(",") if how[name] else None
        how = {k: v for k, v in how.items() if v not in (None, ()) or k not in LEFT_OUT}
        if folders := [name for name in files if os.path.isdir(name)]:
            raise click.UsageError(f"{folders[0]} is a folder; give the files in it.")
        if "-" in files:
            files = tuple(_stdin(how) if name == "-" else name for name in files)
        return cls(files, how)

    def columns(self) -> dict[str, Any]:
        """Columns that were named, and those that were guessed, to be remembered with a model."""
        named = {name: self.how[name] for name in COLUMNS if self.how.get(name) is not None}
        layout, guessed = self._layout(self.how), {}
        for name in ("id", "time") if "values" in self.how else COLUMNS:
            if name not in named and getattr(layout, name) is not None:
                guessed[name] = getattr(layout, name)
        return {"columns": named, "guessed": guessed}

    def _layout(self, how: dict[str, Any]) -> Any:
        """How the first file is read; an error where it has not the columns."""
        from sojourn.io import sources

        return sources.scan(self.files[0], **how | {"quiet": True}).layout

    def read(self, model: Any = None, unknown: str = "") -> Sequences:
        """All sequences, in the vocabulary of a model if one is given; `unknown` overrides its."""
        from sojourn.io import sources

        how = self._how(model, unknown)
        with status(f"reading {self.files[0]}{' and others' if len(self.files) > 1 else ''}"):
            if len(self.files) == 1:
                return sources.read(self.files[0], **how)
            parts = list(sources.scan(self.files, **how, rows_per_partition=None))
            found = parts[0].concatenate(parts)
        _warn_of_repeated(found.ids.tolist())
        return found

    def scan(self, model: Any = None) -> Scan:
        """The same sequences, to be read in partitions; one name may be a pattern."""
        from sojourn.io import sources

        files = self.files if len(self.files) > 1 else self.files[0]
        return sources.scan(files, **self._how(model))

    def labels(self, column: str, sequences: Sequences, model: Any) -> list[Any]:
        """The label of each sequence, from a column that has one value in all of its rows."""
        without = ("missing", "values", "vocabulary", "unknown", "empty", *EVENTS)
        how = {name: value for name, value in self._how(model).items() if name not in without}
        how.update(symbol=column, time=False, quiet=True)
        try:
            found = Data(self.files, how).read()
        except SojournError as error:
            raise SojournError(str(error).replace("symbol=", "labels=")) from None
        if found.ids.tolist() != sequences.ids.tolist():
            raise SojournError(
                f"column {column} has labels of {len(found)} sequences, and there are "
                f"{len(sequences)}; give each sequence a label"
            )
        labels = []
        for name, values in zip(found.ids.tolist(), found, strict=True):
            distinct = list(dict.fromkeys(values))
            if len(distinct) > 1 or distinct == [None]:
                shown = " and ".join("nothing" if v is None else repr(v) for v in distinct[:2])
                raise SojournError(
                    f"column {column} has {shown} for sequence {name}; it needs one label for all "
                    f"rows of a sequence"
                )
            labels.append(distinct[0])
        return labels

    def _how(self, model: Any, unknown: str = "") -> dict[str, Any]:
        if model is None:
            return self.how
        inner = getattr(model, "model_", model)
        extras = getattr(model, "extras_", {})
        named, guessed = extras.get("columns", {}), extras.get("guessed", {})
        for remembered in (guessed | named, named):
            own = {name: value for name, value in remembered.items() if self.how.get(name) is None}
            found = Data(self.files, self.how | own)._of_model(model, inner, unknown)
            try:
                if own:
                    self._layout(found)
                break
            except SojournError as error:
                if remembered == named:  # a guess was for another file
                    shown = ", ".join(f"--{name} {value}" for name, value in own.items())
                    raise SojournError(
                        f"{error}; the model remembers {shown} from its fit: name the columns of "
                        f"this file by the same options"
                    ) from None
        return found

    def _of_model(self, model: Any, inner: Any, unknown: str) -> dict[str, Any]:
        """How to read what a model is asked about: in its vocabulary, channels and clock."""
        if channels := getattr(inner, "channels_", ()):
            return {"values": list(channels), **self.how}
        clock = getattr(inner, "clock_", None)
        self._check_clock(clock)
        own: dict[str, Any] = {"empty": inner.ends}
        own |= {} if clock is None or {*CLOCKS} & {*self.how} else {"every": clock}
        unknown = unknown or model.unknown
        unknown = "add" if unknown == "novel" else unknown
        return own | self.how | {"vocabulary": model.vocabulary_, "unknown": unknown}

    def _check_clock(self, own: Any) -> None:
        """Refuse a clock that is not the model's."""
        from sojourn.data.clock import Clock

        given = Clock.of(**{name: self.how[name] for name in CLOCK if name in self.how})
        if given is not None and not given.counts_as(own):
            raise SojournError(
                f"the model counts {own or 'events without a clock'}, and the options ask for "
                f"{given}; leave out {'--every' if given.every else '--gaps'}, for a model reads "
                f"data as those of its fit were read"
            )


def _warn_of_repeated(ids: list[Any]) -> None:
    """Warn of an id in several files, whose events stay sequences of their own."""
    for name, n in Counter(ids).most_common(1):  # none, where there are no sequences
        if n > 1:
            warnings.warn(
                f"id {name!r} is in {n} files, each with a sequence of its own; if these are parts "
                f"of one, put the files together with sojourn.sort_events",
                stacklevel=2,
            )


class Saved(NamedTuple):
    """The file of a model, and how the model is to treat symbols that it does not know."""

    model: str
    unknown: str | None = None

    def load(self, states: str = "", detector: bool = False) -> Any:
        """The model, or that of a detector unless `detector`; `states`: what needs its states."""
        from sojourn.detect.detector import AnomalyDetector
        from sojourn.persist.saving import load

        model = load(self.model)
        if isinstance(model, AnomalyDetector):
            if detector:
                return model.set_params(unknown=self.unknown) if self.unknown else model
            inner = model.model_
            inner.extras_ = getattr(model, "extras_", {})
            model = inner
        if self.unknown == "novel":
            if detector:
                return model
            raise click.UsageError("--unknown novel is for detect and report.")
        if states and not model.has_states:
            raise SojournError(
                f"{self.model} is a {type(model).__name__}, which has no states to {states}; "
                f"fit one with --method hsmm"
            )
        return model.set_params(unknown=self.unknown) if self.unknown else model


@contextmanager
def client_of(cluster: str | None) -> Iterator[Any]:
    """A client of a Dask cluster; None without one."""
    if cluster is None:
        yield None
        return
    local, number = cluster.startswith("local:"), cluster.removeprefix("local:")
    if not (number.isdecimal() and int(number) > 0 if local else "://" in cluster):
        raise click.BadParameter(f"--cluster is {cluster!r}; expected tcp://HOST:PORT or local:N.")
    dask = optional("distributed", "a cluster", "dask")
    if not local:
        with dask.Client(cluster, timeout=30) as client:
            yield client
        return
    from dask import config

    how = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with (
        config.set(SETTINGS),
        dask.LocalCluster(n_workers=int(number), threads_per_worker=1, **how) as processes,
        dask.Client(processes) as client,
    ):
        yield client


reads_data = grouped(
    "data",
    Data.of,
    click.argument("files", nargs=-1, required=True, metavar="DATA..."),
    click.option(
        "--id", metavar="COLUMN", help="Column with the sequence id (guessed if omitted)."
    ),
    click.option("--time", metavar="COLUMN", help="Column with the time (guessed if omitted)."),
    click.option("--symbol", metavar="COLUMN", help="Column with the symbol (guessed if omitted)."),
    click.option("--values", metavar="A,B,...", help="Columns with measurements (HSMM)."),
    click.option("--every", metavar="TIME", help="One symbol per step of a clock, such as 1h."),
    click.option("--fill", type=FILL, help="The symbol of a step without an event. [hold]"),
    click.option("--max-gap", metavar="TIME", help="Split where events are further apart."),
    click.option("--gaps", metavar="TIME,...", help="Make the time to the next event a symbol's."),
    click.option("--zone", help="Time zone of dates without one, and of days."),
    click.option("--lifecycle", metavar="NAME|all", help="Transitions of a log to keep."),
    click.option("--no-id", is_flag=True, help="The file is one sequence."),
    click.option("--no-time", is_flag=True, help="Keep the order of the file."),
    click.option("--from", "format", type=FORMAT, help="Format (by the file name if omitted)."),
    click.option("--delimiter", help="Character between fields."),
    click.option("--missing", multiple=True, help="Text that stands for a missing symbol."),
    click.option("--on-error", type=ON_ERROR, default="raise", help="For malformed rows. [raise]"),
    click.option("--quiet", "-q", is_flag=True, help="Do not print guesses."),
)
names_model = grouped("saved", Saved, click.argument("model"))
uses_model = grouped(
    "saved",
    Saved,
    click.argument("model"),
    click.option(
        "--unknown",
        type=UNKNOWN_HERE,
        help="For symbols not seen in training (as fitted if omitted; novel for a detector).",
    ),
)


def scans_data(command: Command) -> Command:
    """Add the options that read data in partitions, here or on a cluster."""
    where, what = "tcp://HOST:PORT|local:N", "Use a Dask cluster, or N processes; implies --scan."
    command = click.option("--cluster", metavar=where, help=what)(command)
    return click.option("--scan", is_flag=True, help="Read one partition at a time.")(command)


def makes_detector(when: str) -> Callable[[Command], Command]:
    """Add the arguments of a detector; `when` completes their descriptions."""
    rate, what = f"False-alarm rate{when}. [0.05]", f"Type of score{when}. [combined]"
    method = click.option("--detect-method", "method", type=click.Choice(METHODS), help=what)
    return grouped(
        "detection", given, click.option("--contamination", type=float, help=rate), method
    )


def _stdin(how: dict[str, Any]) -> str:
    """Standard input as a file, of the format given or CSV; it is removed when the command ends."""
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix=STDIN)
    click.get_current_context().call_on_close(lambda: shutil.rmtree(folder, ignore_errors=True))
    how["format"] = how["format"] or "csv"
    path = os.path.join(folder, "stdin")
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def check_written(path: str, hint: str = "--output") -> None:
    """Refuse, before any work, a file whose folder does not exist or that is read, too."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise click.BadParameter(f"there is no folder {folder}.", param_hint=hint)
    if os.path.isdir(path):
        raise click.BadParameter(f"{path} is a folder; give a file.", param_hint=hint)
    for name in _files_read() if os.path.isfile(path) else ():  # not devices
        if os.path.exists(name) and os.path.samefile(path, name):
            raise click.BadParameter(
                f"{path} is {name}, which is read; give another file.", param_hint=hint
            )


def _files_read() -> Iterator[str]:
    """The files that the command at work reads."""
    given = click.get_current_context().params
    for option in READ:
        names = given.get(option) or ()
        for name in (names,) if isinstance(names, str) else names:
            yield from (name, *glob.glob(name))  # a scan takes patterns


def writes_file(metavar: str, what: str, *endings: str) -> Callable[[Command], Command]:
    """Add the option of a file that must be given, by one of the endings if there are any."""

    def checked(output: str) -> str:
        if output == "-":
            raise click.BadParameter("- is no file; give a name.", param_hint="--output")
        ending = os.path.splitext(output)[1].lower()
        if endings and ending not in endings:
            raise click.BadParameter(
                f"{output} ends in {ending or 'nothing'}; expected {' or '.join(endings)}.",
                param_hint="--output",
            )
        check_written(output)
        return output

    option = click.option("--output", "-o", required=True, metavar=metavar, help=what)
    return grouped("output", checked, option)


def note(message: str) -> None:
    """Print a line for people, which is no part of the results."""
    click.echo(f"sojourn: {message}", err=True)


def given(**options: Any) -> dict[str, Any]:
    """The options that were given; the others are left to the defaults of an estimator."""
    return {name: value for name, value in options.items() if value is not None}


@contextmanager
def status(what: str) -> Iterator[None]:
    """Show what is done, on standard error and only if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
