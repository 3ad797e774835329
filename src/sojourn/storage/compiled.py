"""Compiled code that numba left behind for another version of the package.

numba keeps compiled functions in ``__pycache__``, where an upgrade leaves them, and looks at the
source of each function only: not at what it calls, nor at the types that it takes. So it may run
old code, or fail to read it.
"""

from __future__ import annotations

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
