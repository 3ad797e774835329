"""The command line: ``sojourn``. Nothing heavy is imported before a command runs.

May import: all packages above it. Start reading: `commands` below, then `options` and `fit`.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sojourn.cli.interrupt import INTERRUPTED, leave, prompt_interrupts
from sojourn.errors import printable

if TYPE_CHECKING:
    import click

# Parts of messages that advise what is no option, and what to read instead.
NO_OPTION = {
    r" \(before you split lists [^)]*\)": "",
    r"pass vocabulary= to say what there can be": "give data with symbols",
    r" or a smaller cv": " data, or --states and --max-duration",
}
BROKEN_PIPE = 141  # as a shell has it


def main(args: Sequence[str] | None = None) -> None:
    """Run a command and exit: 0 done, 1 a problem of data or arguments, 2 usage, 3 see --check."""
    try:
        with prompt_interrupts():
            code = run(args)
    except KeyboardInterrupt:  # before a command ran, or after
        code = INTERRUPTED
    if code == INTERRUPTED:
        leave()  # threads that are still at work would be waited for
    sys.exit(code)


def run(args: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; a problem is one sentence on standard error.

    Examples
    --------
    >>> run(["--version"])
    sojourn ...
    0
    """
    try:
        group = commands()
        if asked := os.environ.get("_SOJOURN_COMPLETE"):
            from click.shell_completion import shell_complete

            return shell_complete(group, {}, "sojourn", "_SOJOURN_COMPLETE", asked)
        return run_group(group, "sojourn", list(sys.argv[1:] if args is None else args))
    except ImportError as error:
        _print(f"the command line needs {error.name}; pip install 'sojourn[cli]'")
        return 1


def commands() -> click.Group:
    """The commands, in the order in which one needs them."""
    import click

    from sojourn import __version__
    from sojourn.cli.ask import decode, forecast, predict, sample, score
    from sojourn.cli.dataset import completion, dataset
    from sojourn.cli.detect import detect, report
    from sojourn.cli.fit import fit, info
    from sojourn.cli.stream import convert, stream

    others = sample, stream, convert, dataset, completion

    class InOrder(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(self.commands)

    @click.group(
        cls=InOrder,
        commands=[fit, info, score, detect, decode, predict, forecast, report, *others],
        context_settings={"help_option_names": ["-h", "--help"]},
        # The backspace keeps click from filling the lines.
        epilog="\b\nExample:\n  sojourn fit events.csv -o model.sojourn\n"
        "  sojourn score model.sojourn more.csv",
    )
    @click.version_option(__version__, message="sojourn %(version)s")
    def group() -> None:
        """Hidden semi-Markov models of event sequences and sensors."""

    return group


def run_group(group: click.Group, name: str, args: list[str]) -> int:
    """Run a command of a group: errors become one sentence and an exit code."""
    import click

    for stream, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, stream) is None:  # closed by the caller, as >&- does in a shell
            setattr(sys, stream, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if not sys.stdout.isatty() and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")  # files have one encoding everywhere
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = _show_warning
        try:
            # Not `group.main`, which has its own ways with pipes and interrupts.
            with group.make_context(name, args) as context:
                group.invoke(context)
            sys.stdout.flush()
            return 0
        except click.exceptions.Exit as error:
            return error.exit_code
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            # The reader has closed the pipe. The rest of the buffer must not be tried again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        except OSError as error:
            named = error.filename is not None and error.strerror is not None
            _print(f"{os.fsdecode(error.filename)}: {error.strerror}" if named else str(error))
        except MemoryError:
            _print("there is not enough memory for this; give less data or a smaller model")
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            _print(f"a symbol or id holds half a character, {half!r}; correct the data and refit")
        except ValueError as error:  # SojournError is one
            _print(in_options(str(error), group))
        return 1


def in_options(message: str, group: click.Group) -> str:
    """A message in which arguments have the names of the options of a group's commands.

    Examples
    --------
    >>> in_options("n_states is 0; pass unknown='missing', ends=True or id=False", commands())
    '--states is 0; give --unknown missing, --ends or --no-id'
    """
    import re

    for name, option in _option_names(group).items():
        message = re.sub(rf"\b{name}=False\b", option.replace("--", "--no-", 1), message)
        message = re.sub(rf"\b{name}=(True\b|(?=[\s,;)]|$))", option, message)
        message = re.sub(rf"\b{name}=(?:'([^']*)')?", rf"{option} \1", message)
        # A word alone is an argument where it is none of English, or what the sentence is about.
        alone = rf"(?<!-)\b{name}\b" if "_" in name else rf"^{name}(?= is | must )"
        message = re.sub(alone, option, message)
    for clause, instead in NO_OPTION.items():
        message = re.sub(clause, instead, message)
    message = re.sub(r"[^\s']*sojourn-stdin-\w+[/\\]stdin", "standard input", message)
    return re.sub(r"\bpass (?=--)", "give ", message).replace("--no-resume", "no --resume")


def _option_names(group: click.Group) -> dict[str, str]:
    """The arguments of Python that options stand for, and the longest name of each option."""
    found = {
        option.name: max((text for text in option.opts if text.startswith("--")), key=len)
        for command in group.commands.values()
        for option in command.params
        if option.name and any(text.startswith("--") for text in option.opts)
    }
    return found | {"rate": "--alarm"}


def _print(message: str) -> None:
    print(f"sojourn: {printable(' '.join(message.split()))}", file=sys.stderr)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, UserWarning | RuntimeWarning):
        _print(f"warning: {message}")
