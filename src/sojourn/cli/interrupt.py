"""Interrupts that are obeyed within a second, whatever is being computed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from sojourn.storage.atomic import remove_drafts

INTERRUPTED = 130  # as a shell has it
GRACE = 0.5  # seconds in which a command may end by itself


@contextmanager
def prompt_interrupts() -> Iterator[None]:
    """End the process soon after an interrupt, if the block does not.

    Python raises `KeyboardInterrupt` between two of its own steps, and a kernel over a long
    sequence is one of them; threads are waited for, too. Drafts of files are removed.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    done = threading.Event()
    read, write = os.pipe()
    os.set_blocking(write, False)

    def watch() -> None:
        while number := os.read(read, 1):
            if number[0] == signal.SIGINT and not done.wait(GRACE):
                leave()

    watcher = threading.Thread(target=watch, daemon=True)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before)
        os.close(write)  # which ends the watcher
        watcher.join()
        os.close(read)


def leave() -> NoReturn:
    """End the process, whatever its threads do."""
    remove_drafts()
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h\n")  # a status line hides the cursor
    os._exit(INTERRUPTED)
