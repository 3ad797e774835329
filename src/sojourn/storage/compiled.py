"""Compiled code that numba left behind for another version of the package.

numba keeps compiled functions in ``__pycache__``, where an upgrade leaves them, and looks at the
source of each function only: not at what it calls, nor at the types that it takes. So it may run
old code, or fail to read it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

STAMP = "compiled-for.txt"


def drop_stale(package: str | Path, version: str) -> int:
    """Delete compiled code that another version of a package left in its folder; how many files."""
    stamp = Path(package, "__pycache__", STAMP)
    with suppress(OSError, UnicodeDecodeError):
        if stamp.read_text("utf-8") == version:
            return 0
    dropped = 0
    with suppress(OSError):  # nobody may write there, so numba did not either
        for index in Path(package).rglob("__pycache__/*.nbi"):
            index.unlink(missing_ok=True)
            dropped += 1
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(version, "utf-8")
    return dropped


def make_room(package: str | Path) -> None:
    """A folder that ends with the process for compiled code, where numba can write to no other."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    places = (Path(package, "__pycache__"), Path(cache, "numba"))
    if "NUMBA_CACHE_DIR" in os.environ or any(map(_writable, places)):
        return
    import atexit
    import shutil
    import tempfile

    with suppress(OSError):
        room = os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="sojourn-")
        atexit.register(shutil.rmtree, room, ignore_errors=True)
        if "numba" in sys.modules:
            sys.modules["numba"].config.CACHE_DIR = room


def _writable(folder: Path) -> bool:
    return os.access(next(p for p in (folder, *folder.parents) if p.exists()), os.W_OK)
