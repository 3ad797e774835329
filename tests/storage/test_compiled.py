"""Compiled code of another version is not run."""

import atexit
import os
import shutil
import sys
from pathlib import Path

import sojourn as sj
from sojourn.storage.compiled import STAMP, drop_stale, make_room


def compiled(folder):
    """A package with compiled code in two folders."""
    for place in ("__pycache__", "exact/__pycache__"):
        (folder / place).mkdir(parents=True)
        (folder / place / "kernel-1.py311.nbi").write_text("types of the old version")
    return folder


def test_an_upgrade_drops_compiled_code_and_then_keeps_it(tmp_path):
    package = compiled(tmp_path / "package")
    assert drop_stale(package, "1.0") == 2
    assert not list(package.rglob("*.nbi"))
    (package / "__pycache__" / "new.nbi").write_text("")
    assert drop_stale(package, "1.0") == 0
    assert drop_stale(package, "1.1") == 1


def test_a_folder_that_is_not_there_is_left_alone(tmp_path):
    assert drop_stale(tmp_path / "nothing", "1.0") == 0
    assert not (tmp_path / "nothing").exists()


def test_the_package_has_the_stamp_of_its_version():
    stamp = Path(sj.__file__).parent / "__pycache__" / STAMP
    assert not stamp.exists() or stamp.read_text() == sj.__version__


def test_compiled_code_has_a_folder_where_neither_package_nor_home_can_be_written(monkeypatch):
    """Such as a container that is read-only: numba raised an error of its own at the first use."""
    monkeypatch.setitem(os.environ, "NUMBA_CACHE_DIR", "")
    monkeypatch.delitem(os.environ, "NUMBA_CACHE_DIR")
    monkeypatch.delitem(sys.modules, "numba", raising=False)  # its own setting stays as it is
    make_room("package")
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setattr(os, "access", lambda *_: False)
    make_room("package")
    room = Path(os.environ["NUMBA_CACHE_DIR"])
    assert room.is_dir()
    atexit.unregister(shutil.rmtree)
    room.rmdir()
