"""The reference has a page for everything that a user can import or is given."""

import doctest
import importlib.util
import inspect
import typing
from pathlib import Path

import pytest

import sojourn as sj

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "reference_pages.py")
PAGES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(PAGES)
LISTED = [name for _, names in PAGES.TOPICS.values() for name in names]
INTERNAL = {"Adjacent", "Gapped"}  # tables inside `Moments`, for the paper's algorithms


def public_names():
    yield from (f"sojourn.{name}" for name in sj.__all__)
    for module in (sj.datasets, sj.emissions, sj.plot):
        yield from (f"{module.__name__}.{name}" for name in module.__all__)


def classes_in(hint):
    if inspect.isclass(hint) and hint.__module__.startswith("sojourn"):
        yield hint
    for part in typing.get_args(hint):
        yield from classes_in(part)


def returned_by(thing):
    """Classes of this package that a function, or a public method, says it returns."""
    own = [thing] if inspect.isfunction(thing) else []
    if inspect.isclass(thing):
        own = [member for name, member in inspect.getmembers(thing) if not name.startswith("_")]
    for function in own:
        function = function.fget if isinstance(function, property) else function
        try:
            hints = typing.get_type_hints(function)
        except (NameError, TypeError):  # names for type checkers only, or no function
            continue
        yield from classes_in(hints.get("return"))


def test_everything_public_has_a_page():
    assert set(public_names()) <= set(LISTED)
    assert len(LISTED) == len(set(LISTED))


def test_everything_that_public_functions_return_has_a_page():
    things = [PAGES.found(name) for name in LISTED]
    known = {id(thing) for thing in things}
    missing = {
        f"{kind.__module__}.{kind.__name__}"
        for thing in things
        for kind in returned_by(thing)
        if id(kind) not in known and kind.__name__ not in INTERNAL and kind.__name__[0] != "_"
    }
    assert missing == set()


@pytest.mark.parametrize("name", LISTED)
def test_every_page_has_an_example_with_visible_output(name):
    thing = PAGES.found(name)
    if isinstance(thing, tuple) or name.endswith(".Reason"):
        return  # the page shows its value; the example of `Explanation` has one
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(thing))
    shown = [example.want.strip() for example in examples if example.want.strip()]
    assert shown
    assert not all(want in ("True", "False") for want in shown), "show a value, not a proof"


def test_pages_are_written_with_inherited_methods(tmp_path, monkeypatch):
    monkeypatch.setattr(PAGES, "FOLDER", tmp_path)
    PAGES.write()
    assert {path.stem for path in tmp_path.glob("*.rst")} == {"index", *LISTED}
    assert ":inherited-members:" in (tmp_path / "sojourn.HSMM.rst").read_text("utf-8")
