"""Write files atomically: at any moment there is the old file or the complete new one.

Also what may be read: regular files.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from sojourn.errors import SojournError

_KINDS = {stat.S_IFDIR: "directory", stat.S_IFLNK: "symbolic link to itself"}
_drafts: set[str] = set()  # files under way, of any thread
MAX_NAME = 255  # bytes of a file name, on every file system in use


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: str = "w", *, check: Callable[[str], Any] | None = None
) -> Iterator[IO[Any]]:
    """A file to write to, which replaces `path` when the block ends without an error.

    The data are on the disk before the old file goes. A symbolic link is followed, permissions of
    an old file are kept. Pipes and character devices are written to as they are; nothing else but
    a regular file is replaced. The mode is "w" (UTF-8, line ends as given) or "wb". `check` is
    called with the path of the complete draft; what it raises keeps the old file.
    """
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    target = os.path.realpath(path)
    if not os.path.lexists(target) and os.path.exists(path):
        target = os.fspath(path)  # a pipe without a name, as /dev/stdout and /dev/fd/3 may be
    there = os.path.exists(target)  # or else a link to itself
    old = os.stat(target, follow_symlinks=there).st_mode if os.path.lexists(target) else None
    if old is not None and (stat.S_ISFIFO(old) or stat.S_ISCHR(old)):
        with open(target, mode, **text) as file:
            yield file
        return
    if old is not None and not stat.S_ISREG(old):
        kind = _KINDS.get(stat.S_IFMT(old), "socket or block device")
        raise SojournError(f"{os.fspath(path)} is a {kind}; give the path of a file")
    folder, name = os.path.split(target)
    draft = os.path.join(folder, _draft_name(name))
    _drafts.add(draft)
    try:
        with open(draft, mode.replace("w", "x"), **text) as file:
            if old is not None:
                os.chmod(draft, stat.S_IMODE(old) & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if check is not None:
            check(draft)
        os.replace(draft, target)
    finally:
        _remove(draft)  # where it has not been put in place
    _sync_folder(folder)


def remove_drafts() -> None:
    """Remove all files under way: for a process that is about to end without further ado."""
    for draft in tuple(_drafts):
        _remove(draft)


def _remove(draft: str) -> None:
    with suppress(FileNotFoundError):
        os.remove(draft)
    _drafts.discard(draft)


def check_no_device(path: str | os.PathLike[str]) -> None:
    """Raise an error if reading the path could block or never end: a pipe or a device."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a directory is an error of open
        raise SojournError(
            f"{os.fspath(path)} is a pipe, a device or a socket; give the path of a file (write "
            f"what the pipe gives to one first)"
        )


def _draft_name(name: str) -> str:
    """A hidden name beside the target, as long as the file system allows at most."""
    ending = f".{secrets.token_hex(4)}.tmp"
    room = MAX_NAME - len(ending) - 1
    return "." + os.fsdecode(os.fsencode(name)[:room]) + ending


def _sync_folder(folder: str) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
