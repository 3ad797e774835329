"""Each module imports from the package only what its row in the table allows."""

import ast
from pathlib import Path

import pytest

import sojourn

PACKAGE = Path(sojourn.__file__).parent

EVERYTHING_ABOVE = ("*",)

# module: (what it may import, what its methods may import when they are called).
# `errors` is open to all. A module stands below those that it imports, so there are no cycles.
# A new module needs a row.
TABLE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "errors": ((), ()),
    "columns": ((), ()),
    "sequences": (("columns",), ()),
    "reading.__init__": ((), ()),
    "reading.layout": ((), ()),
    "reading.textblocks": (("reading.layout",), ()),
    "reading.arrays": (("columns",), ()),
    "reading.order": ((), ()),
    "reading.times": (("reading.arrays",), ()),
    "reading.rows": (
        ("columns", "sequences", "reading.layout", "reading.arrays", "reading.times"),
        ("reading.order",),
    ),
    "reading.csvrows": (("reading.layout", "reading.textblocks", "reading.rows"), ()),
    "reading.linerows": (
        ("reading.layout", "reading.textblocks", "reading.arrays", "reading.rows"),
        (),
    ),
    "reading.tablefiles": (
        (
            "reading.layout",
            "reading.textblocks",
            "reading.arrays",
            "reading.times",
            "reading.rows",
        ),
        (),
    ),
    "reading.files": (
        (
            "reading.layout",
            "reading.textblocks",
            "reading.arrays",
            "reading.rows",
            "reading.csvrows",
            "reading.linerows",
            "reading.tablefiles",
        ),
        (),
    ),
    "sources": (
        ("columns", "sequences", "reading.layout"),
        ("reading.files", "reading.rows"),
    ),
    "sorting": (
        ("reading.layout", "sources"),
        ("reading.arrays", "reading.files", "reading.rows"),
    ),
    "prepare": (("columns", "sequences"), ()),
    "discretize": ((), ()),
    "parallel": ((), ()),
    "sums": (("sequences", "parallel"), ()),
    "checks": ((), ()),
    "params": ((), ("sequences", "sampling", "messages")),
    "messages": (("params", "parallel"), ()),
    "backward": (("messages",), ()),
    "sampling": (("params", "parallel"), ()),
    "datasets.simulate": (("checks", "parallel", "params", "sampling", "sequences"), ()),
    "datasets.recorded": (("sequences",), ()),
    "datasets.__init__": ((), ("datasets.recorded", "datasets.simulate")),
    "parts": (("sequences", "reading.layout", "sources", "parallel"), ("cluster",)),
    "cluster": (("sources", "parts"), ()),
    "scoring": (("parts",), ()),
    "model": (("sequences", "sources", "parts"), ("store", "stream", "scoring")),
    "posterior": (("params", "parallel", "sums", "messages", "backward"), ()),
    "viterbi": (("params", "parallel", "messages"), ()),
    "paths": (("params", "parallel", "messages", "backward", "sampling"), ()),
    "windows": (("params",), ()),
    "modular": ((), ()),
    "ranks": (("params", "windows", "modular"), ()),
    "holdout": (("sequences",), ()),
    "sparse": (("holdout",), ()),
    "tables": (("windows", "sparse"), ()),
    "counting": (("holdout", "sparse", "tables"), ()),
    "moments": (("sequences", "windows", "parallel", "holdout", "tables", "counting"), ()),
    "population": (("params", "windows", "holdout", "tables", "moments"), ()),
    "operators": (("tables", "moments"), ()),
    "shared": (("sparse", "operators"), ()),
    "sharedfilter": (("shared", "parallel"), ()),
    "filtering": (("operators", "parallel", "shared", "sharedfilter"), ()),
    "choice": (
        (
            "holdout",
            "sparse",
            "tables",
            "counting",
            "moments",
            "operators",
            "shared",
            "sharedfilter",
            "filtering",
        ),
        (),
    ),
    "spectral": (
        (
            "checks",
            "sequences",
            "sources",
            "parts",
            "model",
            "windows",
            "moments",
            "sharedfilter",
            "filtering",
            "choice",
        ),
        (),
    ),
    "codec": (("windows",), ()),
    "residuals": (("sequences", "posterior"), ()),
    "calibration": ((), ()),
    "explain": (("sequences", "residuals"), ()),
    "soundness": (
        (
            "checks",
            "model",
            "params",
            "windows",
            "holdout",
            "sparse",
            "tables",
            "moments",
            "operators",
            "shared",
            "residuals",
            "calibration",
            "explain",
        ),
        (),
    ),
    "store": (("codec",), ("soundness", "detect", "__version__")),
    "stream": (("columns", "sequences"), ("filtering", "messages", "scorers", "sharedfilter")),
    "durations": ((), ()),
    "mstep": (("params", "posterior", "durations"), ()),
    "quasinewton": (("params", "durations", "mstep"), ()),
    "em": (
        ("sequences", "params", "parts", "posterior", "durations", "mstep", "quasinewton"),
        (),
    ),
    "samples": (("sequences", "sums", "parts", "holdout"), ()),
    "recovery": (("params",), ()),
    "starting": (
        (
            "sequences",
            "parallel",
            "params",
            "parts",
            "samples",
            "tables",
            "moments",
            "em",
            "recovery",
        ),
        (),
    ),
    "checkpoint": (("codec", "store", "starting"), ("__version__",)),
    "labels": (("sequences", "params"), ()),
    "stays": (("params", "viterbi"), ()),
    "scorers": (
        ("checks", "params", "messages", "sharedfilter", "filtering", "stays", "stream"),
        (),
    ),
    "progress": (("params",), ()),
    "selection": (("checks", "sequences", "params", "durations"), ("spectral", "hsmm")),
    "states": (EVERYTHING_ABOVE, ()),
    "hsmm": (EVERYTHING_ABOVE, ()),
    "detect": (("checks", "sequences", "residuals", "calibration", "explain"), ("store",)),
    "plot.base": ((), ()),
    "plot.models": (("plot.base",), ()),
    "plot.scores": (("plot.base",), ()),
    "plot.sequence": (("sequences", "plot.base"), ()),
    "plot.__init__": (("plot.models", "plot.scores", "plot.sequence"), ()),
    "experiments.__init__": ((), ()),
    "experiments.grid": ((), ()),
    "experiments.page": (("experiments.grid",), ()),
    "experiments.synthetic": (
        ("params", "sequences", "windows", "em", "spectral", "hsmm", "experiments.grid"),
        (),
    ),
    "experiments.synthetic_figures": (
        ("plot.base", "experiments.page", "experiments.synthetic"),
        (),
    ),
    "experiments.synthetic_page": (
        (
            "experiments.grid",
            "experiments.page",
            "experiments.synthetic",
            "experiments.synthetic_figures",
        ),
        (),
    ),
    "report.figures": (("plot.base",), ()),
    "report.known": ((), ()),
    "report.contents": (
        (
            "checks",
            "sequences",
            "plot.base",
            "plot.models",
            "plot.scores",
            "plot.sequence",
            "report.figures",
            "report.known",
        ),
        ("detect",),
    ),
    "report.__init__": ((), ("report.contents",)),
    "experiments.flights": (("sequences", "prepare", "datasets.simulate"), ()),
    "experiments.aviation": (
        (
            "params",
            "sequences",
            "em",
            "spectral",
            "detect",
            "experiments.grid",
            "experiments.flights",
        ),
        (),
    ),
    "experiments.aviation_figures": (
        ("plot.base", "experiments.page", "experiments.aviation"),
        (),
    ),
    "experiments.aviation_page": (
        (
            "experiments.grid",
            "experiments.page",
            "experiments.aviation",
            "experiments.aviation_figures",
        ),
        (),
    ),
    "cli.options": ((), ("sources", "sums", "store")),
    "cli.scale": ((), ()),
    "cli.output": ((), ()),
    "cli.fitting": (
        ("cli.options", "cli.output", "cli.scale"),
        ("hsmm", "spectral", "selection", "detect", "scoring"),
    ),
    "cli.answers": (("cli.options", "cli.output", "cli.scale"), ("scoring",)),
    "cli.detecting": (("cli.options", "cli.output"), ("detect",)),
    "cli.flow": (("cli.options", "cli.output"), ()),
    "cli.reporting": (("cli.options",), ("report",)),
    "cli.reproducing": (
        (),
        (
            "experiments.synthetic",
            "experiments.synthetic_page",
            "experiments.aviation",
            "experiments.aviation_page",
        ),
    ),
    "cli.commands": (
        (
            "cli.answers",
            "cli.detecting",
            "cli.fitting",
            "cli.flow",
            "cli.reporting",
            "cli.reproducing",
        ),
        ("__version__",),
    ),
    "cli.__init__": ((), ("cli.commands",)),
}

MODULES = sorted(
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if path != PACKAGE / "__init__.py"
)


def imported(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Modules of the package that a source imports at once, and within its functions."""
    at_once: set[str] = set()
    later: set[str] = set()

    def visit(node: ast.AST, found: set[str]) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            return  # never run
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found = later
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            found.update(name for name in names if name.split(".")[0] == "sojourn")
        elif isinstance(node, ast.ImportFrom):
            origin = "sojourn." + (node.module or "") if node.level else node.module or ""
            if origin.rstrip(".") == "sojourn":  # a module, or a public name of one
                found.update(sojourn._MODULES.get(alias.name, alias.name) for alias in node.names)
            elif origin.startswith("sojourn."):
                found.add(origin.removeprefix("sojourn."))
        for child in ast.iter_child_nodes(node):
            visit(child, found)

    visit(tree, at_once)
    return at_once, later


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_row_allows(module):
    assert module in TABLE, f"give {module} a row in the table of {Path(__file__).name}"
    may, may_later = TABLE[module]
    if may == EVERYTHING_ABOVE:
        rows = list(TABLE)
        may = tuple(rows[: rows.index(module)])
    at_once, later = imported(
        ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    )
    assert at_once - {"errors"} <= set(may)
    assert later - {"errors"} <= {*may, *may_later}


def test_a_row_allows_only_rows_above_it():
    rows = list(TABLE)
    for module, (may, _) in TABLE.items():
        if may != EVERYTHING_ABOVE:
            assert set(may) <= set(rows[: rows.index(module)]), module


@pytest.mark.parametrize(
    ("source", "at_once", "later"),
    [
        ("import numpy", set(), set()),
        ("import sojourn", {"sojourn"}, set()),
        ("from sojourn import Params", {"params"}, set()),
        ("from sojourn import windows", {"windows"}, set()),
        ("from sojourn.moments import count", {"moments"}, set()),
        ("from .moments import count", {"moments"}, set()),
        ("from . import windows", {"windows"}, set()),
        ("def f():\n    from sojourn.moments import count", set(), {"moments"}),
        ("if TYPE_CHECKING:\n    from sojourn.params import Params", set(), set()),
        ("try:\n    from sojourn.em import fit\nexcept ImportError:\n    pass", {"em"}, set()),
    ],
)
def test_imports_are_seen_wherever_they_stand(source, at_once, later):
    assert imported(ast.parse(source)) == (at_once, later)
