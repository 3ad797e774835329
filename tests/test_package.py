"""The package: its public names, what importing it costs, its size, its habits."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import sojourn

PACKAGE = Path(sojourn.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
ROOT = PACKAGE.parents[1]
# Lines of source, as `wc -l` counts them: what a second engineer can get to know.
MAX_PACKAGE, MAX_MODULE = 3_000, 400
MAX_MODULES_BESIDE_PACKAGES = 5


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(PACKAGE.parent)},
    )
    return done.stdout.strip()


def test_importing_the_package_imports_nothing_heavy():
    heavy = {"numpy", "scipy", "sklearn", "numba", "matplotlib", "pandas", "polars", "pyarrow"}
    loaded = run("import sojourn, sys; print(*{name.partition('.')[0] for name in sys.modules})")
    assert heavy & set(loaded.split()) == set()


def test_sequences_need_no_table_package():
    heavy = {"scipy", "sklearn", "numba", "matplotlib", "pandas", "polars", "pyarrow"}
    loaded = run(
        "import sojourn, sys; sojourn.Sequences.from_lists([['a', None]]);"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    assert heavy & set(loaded.split()) == set()


@pytest.mark.parametrize("name", sojourn.__all__)
def test_public_names_resolve_to_the_module_in_the_table(name):
    value = getattr(sojourn, name)
    assert value.__module__ == f"sojourn.{sojourn._MODULES[name]}"
    assert name in dir(sojourn)


def test_nothing_but_public_names_is_listed():
    more = {"__version__", "datasets", "emissions", "plot"}
    assert set(dir(sojourn)) == {*sojourn.__all__, *more}


def test_type_checkers_see_the_public_names():
    source = (PACKAGE / "__init__.py").read_text("utf-8")
    typed = re.findall(r"    from sojourn\.([\w.]+) import (\w+) as \2\n", source)
    assert {name: module for module, name in typed} == sojourn._MODULES


@pytest.mark.parametrize("name", sojourn.__all__)
def test_public_names_have_an_example(name):
    assert ">>> " in (getattr(sojourn, name).__doc__ or "")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'sojourn' has no attribute 'nothing'"):
        _ = sojourn.nothing


def test_the_version_is_the_one_in_the_citation_and_the_changelog():
    assert f"\nversion: {sojourn.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n## {sojourn.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def lines_of(paths):
    """Number of lines of all files."""
    return sum(path.read_text("utf-8").count("\n") for path in paths)


def test_the_source_stays_within_its_limits():
    packages = {path.parent for path in PACKAGE.glob("*/__init__.py")}
    by_package = {folder.name: lines_of(folder.rglob("*.py")) for folder in packages}
    assert {name: n for name, n in by_package.items() if n > MAX_PACKAGE} == {}
    beside = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}
    assert len(beside) <= MAX_MODULES_BESIDE_PACKAGES


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_module_is_short_and_unpickles_nothing(path):
    source = path.read_text("utf-8")
    assert source.count("\n") <= MAX_MODULE
    # Loading such a file can run any code: models are kept in files that hold data only.
    assert not re.search(r"\b(import (cloud)?pickle|allow_pickle ?= ?True|joblib\.load)\b", source)
