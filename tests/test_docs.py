"""What the manual shows besides doctests: scripts and command lines, run on small files."""

import ast
import doctest
import re
import shlex
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sojourn as sj
from reproduction.__main__ import reproduce
from sojourn.cli import commands

ROOT = Path(__file__).parent.parent
PAGES = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
WORDS = np.array(["bank_left", "climb", "throttle_up"])
MODEL = sj.Params.random(2, 2, 3, rng=0)


def blocks(page, *languages):
    """The blocks of code on a page."""
    fenced = re.findall(r"^```(\w+)\n(.*?)^```", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    return [body for language, body in fenced if language in languages]


def scripts(page):
    return [body for body in blocks(page, "python") if ">>> " not in body]


def sessions(page):
    """Command lines of `sojourn`, each with what is piped into it, and the output shown."""
    shown = [re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", b, re.M) for b in blocks(page, "console")]
    return [pair for block in shown for pair in block if re.match(r"(.*\| )?sojourn ", pair[0])]


def commands_of(page):
    """Command lines without output, which are run on small files."""
    return [line for line, output in sessions(page) if not output]


def table(n, seed):
    drawn = MODEL.sample(n, 40, rng=seed)
    user = np.repeat([f"{seed}-{i:03d}" for i in range(n)], 40)
    return pa.table(
        {"user": user, "seconds": np.tile(np.arange(40), n), "event": WORDS[drawn.codes]}
    )


def test_the_fifteen_minute_read_is_at_most_1200_lines_in_six_files():
    section = PAGES["architecture.md"].partition("## The fifteen-minute read")[2]
    files = re.findall(r"^\d+\. `([\w/]+\.py)`", section.partition("\n## ")[0], flags=re.MULTILINE)
    assert 2 <= len(files) <= 6
    sources = [(ROOT / "src/sojourn" / name).read_text("utf-8") for name in files]
    assert sum(source.count("\n") for source in sources) <= 1200


def test_the_scripts_of_the_readme_print_what_is_shown(capsys):
    text = (ROOT / "README.md").read_text("utf-8")
    pattern = r"^```python\n(.*?)^```\n\n```text\n(.*?)^```"
    pairs = re.findall(pattern, text, flags=re.DOTALL | re.MULTILINE)
    assert len(pairs) == text.count("```python") >= 3
    names = {}
    for script, shown in pairs:
        exec(script, names)
        assert capsys.readouterr().out == shown


def test_outputs_are_shown_in_full_and_no_example_is_skipped():
    parse = doctest.DocTestParser().get_examples
    texts = [*PAGES.items()]
    for path in sorted((ROOT / "src").rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        documented = [
            n for n in nodes if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)
        ]
        texts += [(path.name, ast.get_docstring(node) or "") for node in documented]
    examples = [(page, example) for page, text in texts for example in parse(text)]
    assert len(examples) > 500
    assert not [page for page, example in examples if example.options]
    cut = [(page, e.want) for page, e in examples if "..." in e.want and e.exc_msg is None]
    # A version, and what the representation of many symbols looks like.
    assert [page for page, _ in cut] == ["__init__.py", "recorded.py"], cut


def test_every_page_with_a_script_is_run_below():
    assert {page for page in PAGES if scripts(page)} == {"scale.md", "theory-ranks.md"}


def test_the_script_on_ranks(capsys):
    (script,) = scripts("theory-ranks.md")
    small = script.replace("n_states=8, max_duration=40, n_symbols=9", "2, 3, 3")
    assert small != script
    exec(small, {})
    assert capsys.readouterr().out.count("Lemma 8") == 2


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_scripts_on_scale(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    for folder in ("events", "raw"):
        Path(folder).mkdir()
    for seed in (1, 2):
        pq.write_table(table(60, seed), f"events/{seed}.parquet")
        pa.csv.write_csv(table(60, seed), f"raw/{seed}.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the cluster, about ports
        cluster = distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
    names = {}
    with cluster:
        try:
            for i, script in enumerate(scripts("scale.md")):
                here = script.replace("tcp://scheduler:8786", cluster.scheduler_address)
                small = here.replace("(8, 40)", "(2, 2)")
                exec(small.replace("fit.checkpoint", f"{i}.checkpoint"), names)
        finally:
            names["client"].close()
    assert Path("sorted.parquet").exists()
    assert len(names["parts"]) == 1
    assert names["model"].score_samples(names["parts"]).shape == (120,)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manual")
    for seed, name in enumerate(("events", "normal", "new", "held-out", "quiet_days", "today")):
        events = table(60, seed).rename_columns(["flight", "seconds", "command"])
        kind = np.where(np.arange(len(events)) % 400 < 40, "strange", "routine")
        pa.csv.write_csv(events.append_column("kind", [kind]), folder / f"{name}.csv")
    (folder / "commands.log").write_text("climb\nbank_left\n")
    event = '<event><string key="concept:name" value="{}"/></event>'
    case = '<trace><string key="concept:name" value="{}"/>{}</trace>'
    traces = [case.format(i, "".join(map(event.format, "ab" + "c" * (i % 3)))) for i in range(30)]
    for name in ("log.xes", "today.xes", "complete.xes"):
        (folder / name).write_text(f"<log>{''.join(traces)}</log>")
    columns = {"id": "flight", "time": "seconds", "symbol": "command"}
    normal = sj.read(folder / "normal.csv", **columns)
    sj.SpectralHSMM(2, 2).fit(normal).save(folder / "model.sojourn")
    return folder


SHOWN = {"start.md", "cli.md"}  # with outputs
PLAIN = ("cli.md", "detection.md", "forecasting.md", "report.md")


@pytest.mark.parametrize("page", PLAIN)
def test_the_command_lines_run(folder, monkeypatch, page):
    monkeypatch.chdir(folder)
    if page == "report.md":  # which begins where another page has ended
        arguments = ["fit", "normal.csv", "--detector", "-o", "flights.sojourn"]
        assert run(arguments).exit_code == 0
    lines = commands_of(page)
    assert len(lines) >= 3
    for line in lines:
        command, given = piped(line)
        done = run(command, given)
        assert done.exit_code in ((0, 3) if "--check" in line else (0,)), (line, done.output)


def piped(line):
    """The arguments of a command, and what is piped into it."""
    before, _, command = line.partition(" || ")[0].rpartition(
        "| "
    )  # what follows a failure is not run
    given = None
    if before:
        ends = before.replace("tail -f", "tail")  # else it would wait for more
        given = subprocess.run(ends, shell=True, check=True, capture_output=True).stdout
    return shlex.split(command)[1:], given


def test_the_quick_start_prints_what_is_shown_and_leaves_its_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = sessions("start.md")
    assert len(shown) == 4
    stream = [pair for pair in sessions("cli.md") if pair[1]]  # reads what the quick start leaves
    assert len(stream) == 1
    for line, output in shown + stream:
        command, given = piped(line)
        done = CliRunner().invoke(commands(), command, input=given, catch_exceptions=False)
        for word, other in zip(output.split(), done.output.split(), strict=False):
            try:
                # EM that ends a little elsewhere moves a p-value by some ranks of 39,312 steps.
                assert float(word) == pytest.approx(float(other), rel=0.01), line
            except ValueError:
                assert word == other, line
        assert len(done.output.split()) >= len(output.split())  # of a fit the first lines are shown
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"normal.csv", "today.csv", "flights.sojourn", "verdicts.csv", "report.html"}


def run(arguments, given=None):
    if arguments[0] == "fit":  # the last of an option counts
        arguments = [*arguments, "--states", "2", "--max-duration", "2"]
        arguments += ["--contamination", "0.05"] * ("--detector" in arguments)
    if arguments[0] == "detect" or arguments[0] == "report":
        arguments += ["--contamination", "0.05"] * ("--normal" in arguments)
    return CliRunner().invoke(commands(), arguments, input=given, catch_exceptions=False)


def test_the_command_lines_of_long_experiments_are_understood():
    lines = "".join(blocks("reproduction.md", "console")).splitlines()
    lines = [line for line in lines if line.startswith("$ python -m reproduction ")]
    assert len(lines) >= 5
    for line in lines:
        name, *arguments = shlex.split(line.removeprefix("$ python -m reproduction "))
        command = reproduce.commands[name]
        arguments = [ROOT / "docs" if word == "recordings" else word for word in arguments]
        command.make_context(name, [str(word) for word in arguments])


# Blocks that are not run: drawings, files, and code for other packages.
NOT_RUN = {
    "architecture.md": ("files\n",),
    "coming-from.md": ("J <- 3", "model = pyhsmm.models"),
    "reproduction.md": ("flight,time,altitude",),
    "README.md": ("",),  # outputs, which are compared above
}
ELSEWHERE = ("pip install", "python -m reproduction ")  # `make release-check`; the test above


def test_every_block_of_code_is_run_or_is_known_not_to_be():
    assert {page for page in PAGES if commands_of(page)} == set(PLAIN)
    assert {page for page in PAGES if any(output for _, output in sessions(page))} == SHOWN
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    files = {name: (ROOT / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md")}
    for name, text in (PAGES | files).items():
        fenced = re.findall(r"^ *```(\S*).*\n((?:.*\n)*?) *```", text, re.MULTILINE)
        assert 2 * len(fenced) == len(re.findall(r"^ *```", text, re.MULTILINE)), name
        for language, body in fenced:
            if language == "text":
                assert body.startswith(NOT_RUN[name])
            elif language in ("sh", "console"):
                lines = re.findall(r"^\$ (.*)" if language == "console" else "^.+", body, re.M)
                for line in lines:
                    known = line.startswith(ELSEWHERE) or re.match(r"(.*\| )?sojourn ", line)
                    assert known or line.split()[1] in targets, (name, line)
            else:  # doctests and scripts
                assert language == "python" or language.startswith("{"), (name, body)
