"""Packages are in layers: each imports only the packages that its row in the table allows."""

import ast
import re
from pathlib import Path

import pytest

import sojourn

PACKAGE = Path(sojourn.__file__).parent

BASE = ("errors", "checks")
ABOVE = ("*",)  # every package above it in the table

# package: (what it may import, what its functions may import when they are called).
# A package is below those that it imports, so there are no cycles; all may import `BASE`.
TABLE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "errors": ((), ()),
    "checks": ((), ()),
    "data": ((), ()),
    "storage": ((), ("__version__",)),
    "io": (("data", "storage"), ()),
    "scale": (("data", "io"), ()),
    "emissions": ((), ()),
    "exact": (("data", "scale", "emissions"), ()),
    "contexts": (("data", "scale"), ()),
    "spectral": (("data", "scale", "exact", "contexts"), ()),
    "theory": (("exact", "contexts", "spectral"), ()),
    "em": (("data", "storage", "scale", "emissions", "exact", "contexts", "spectral"), ()),
    # a model saves itself and opens streams: the code for that is loaded when it is called
    "estimators": (
        ("data", "io", "scale", "emissions", "exact", "contexts", "spectral", "em"),
        ("persist", "streams"),
    ),
    "streams": (("data", "exact", "spectral", "estimators"), ()),
    "detect": (("data", "exact", "estimators"), ("persist",)),
    "persist": (ABOVE, ()),
    "plot": (("data", "exact", "estimators", "detect"), ()),
    "datasets": (("data", "scale", "exact"), ()),
    "report": (("data", "storage", "estimators", "detect", "plot"), ("__version__",)),
    "cli": (ABOVE, ("__version__",)),
    "__main__": (("cli",), ()),
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


def packages(modules: set[str], own: str) -> set[str]:
    """The packages that modules are in, without their own and those open to all."""
    return {module.partition(".")[0] for module in modules} - {own, *BASE}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_the_row_of_its_package_allows(module):
    package = module.partition(".")[0]
    assert package in TABLE, f"give {package} a row in the table of {Path(__file__).name}"
    may, may_later = TABLE[package]
    if may == ABOVE:
        may = tuple(list(TABLE)[: list(TABLE).index(package)])
    at_once, later = imported(
        ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    )
    assert packages(at_once, package) <= set(may)
    assert packages(later, package) <= {*may, *may_later}


def test_a_row_allows_only_rows_above_it():
    rows = list(TABLE)
    for package, (may, _) in TABLE.items():
        if may != ABOVE:
            assert set(may) <= set(rows[: rows.index(package)]), package


def test_the_architecture_page_lists_the_packages_in_this_order():
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    section = page.partition("## Packages")[2].partition("\n## ")[0]
    listed = [
        name
        for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in row.split(", ")
    ]
    assert [name.strip("`") for name in listed] == [name for name in TABLE if name != "__main__"]


def test_every_package_docstring_names_its_imports_and_where_to_start():
    for package in TABLE:
        path = PACKAGE / package / "__init__.py"
        if path.exists():
            text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
            assert "May import: " in text, package
            assert "Start reading: " in text, package


@pytest.mark.parametrize(
    ("source", "at_once", "later"),
    [
        ("import numpy", set(), set()),
        ("import sojourn", {"sojourn"}, set()),
        ("from sojourn import Params", {"exact.params"}, set()),
        ("from sojourn import checks", {"checks"}, set()),
        ("from sojourn.em.em import run_em", {"em.em"}, set()),
        ("from .em import run_em", {"em"}, set()),
        ("from . import em", {"em"}, set()),
        ("def f():\n    from sojourn.em.em import run_em", set(), {"em.em"}),
        ("if TYPE_CHECKING:\n    from sojourn.em.em import run_em", set(), set()),
        ("try:\n    from sojourn.em import em\nexcept ImportError:\n    pass", {"em"}, set()),
    ],
)
def test_imports_are_found_wherever_they_are(source, at_once, later):
    assert imported(ast.parse(source)) == (at_once, later)
