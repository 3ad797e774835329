"""Text files as blocks of whole lines, checked before a parser sees them.

Memory is bounded whatever the file holds: a line has a greatest length, and what is decompressed
may not outgrow the file beyond measure. A line that is not text is a malformed row.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

from sojourn.errors import SojournError
from sojourn.io.layout import Malformed

BLOCK_BYTES = 1 << 23  # large beside the cost of a call to the parser, small beside memory
LINE_BYTES = 1 << 26
FREE_BYTES = 1 << 28  # below this a file may expand as it likes

LINE_END = re.compile(rb"\r\n|\n|\r")
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Block:
    r"""Consecutive whole lines of a file.

    Parameters
    ----------
    data : bytes
        The lines with their ends.
    line : int
        Number of the first of them, from 1.
    start : int
        Where they begin in the file, in bytes (after decompression).
    numbers : tuple of int, optional
        Number of each line, where lines between them were left out.

    Examples
    --------
    >>> Block(b"a\nb\n", line=7, start=0).number(1)
    8
    """

    data: bytes
    line: int
    start: int
    numbers: tuple[int, ...] | None = None

    def number(self, i: int) -> int:
        """Number in the file of line `i` of the block."""
        return self.line + i if self.numbers is None else self.numbers[i]

    def from_line(self, i: int) -> Block:
        """The block without its first `i` lines."""
        cut = self._end_of_line(i - 1)
        numbers = None if self.numbers is None else self.numbers[i:]
        line = self.line + i if not numbers else numbers[0]
        return Block(self.data[cut:], line, self.start + cut, numbers)

    def before_line(self, i: int) -> Block:
        """The first `i` lines of the block."""
        numbers = None if self.numbers is None else self.numbers[:i]
        return Block(self.data[: self._end_of_line(i - 1)], self.line, self.start, numbers)

    def _end_of_line(self, i: int) -> int:
        """Where line `i` ends, 0 for the one before the first."""
        ends = LINE_END.finditer(self.data)
        end = None if i < 0 else next(islice(ends, i, None), None)
        return 0 if i < 0 else len(self.data) if end is None else end.end()

    def __add__(self, other: Block) -> Block:
        numbers = None
        if self.numbers is not None or other.numbers is not None:
            numbers = tuple(
                block.number(i) for block in (self, other) for i in range(count_lines(block.data))
            )
        return Block(self.data + other.data, self.line, self.start, numbers)


class Expansion:
    """A watch on how much larger what a file holds is than the file.

    Examples
    --------
    >>> import os
    >>> watch = Expansion(os.devnull, most=200)
    >>> watch.add(1000)  # below `FREE_BYTES` anything goes
    """

    def __init__(self, path: str, most: float) -> None:
        self.path, self.most = path, most
        self.size, self.total = os.path.getsize(path), 0

    def add(self, n_bytes: int) -> None:
        """Count bytes of what the file holds; an error where they are too many."""
        self.total += n_bytes
        if self.total > max(FREE_BYTES, self.most * self.size):
            raise SojournError(
                f"{self.path}: the file has {self.size:,} bytes but holds more than "
                f"{self.total:,}, over {self.most:g} times as many; if you trust it, pass "
                f"max_expansion=float('inf')"
            )


def count_lines(data: bytes) -> int:
    r"""Number of lines, however they end; the last may have no end.

    Examples
    --------
    >>> count_lines(b"a\r\nb"), count_lines(b"a\rb\n"), count_lines(b"a\n")
    (2, 2, 1)
    """
    if b"\r" in data:
        return len(data.splitlines())
    return data.count(b"\n") + (data[-1:] not in (b"\n", b""))


def check_path(path: str) -> None:
    """Nothing where `path` is a file with something in it, else an error that says what it is."""
    if os.path.isdir(path):
        raise SojournError(
            f"{path} is a directory; pass a file, or read many with sojourn.scan({path + '/*'!r})"
        )
    if os.stat(path).st_size == 0 and os.path.isfile(path):
        raise SojournError(f"{path} is empty; expected at least one sequence")


def blocks(
    path: str,
    malformed: Malformed,
    max_expansion: float = 200.0,
    start: int = 0,
    stop: int | None = None,
    line: int = 1,
) -> Iterator[Block]:
    r"""The lines of a text file, a few megabytes at a time.

    Parameters
    ----------
    path : str
        A file, compressed if its name ends in .gz, .bz2 or .xz.
    malformed : Malformed
        Takes the lines that are not UTF-8 or hold NUL.
    max_expansion : float
        How many times larger than the file its text may be.
    start, stop, line : int
        Bytes between which to read, at line ends, and the number of the first line.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.txt")
    ...     _ = path.write_bytes(b"a b\nc\n")
    ...     list(blocks(str(path), Malformed(str(path))))
    [Block(data=b'a b\nc\n', line=1, start=0, numbers=None)]
    """
    check_path(path)
    suffix = os.path.splitext(path.lower())[1]
    opener = OPENERS.get(suffix, open)
    watch = Expansion(path, max_expansion if suffix in OPENERS else float("inf"))
    with opener(path, "rb") as stream:
        if start:
            stream.seek(start)
        rest, end = b"", start
        while True:
            wanted = BLOCK_BYTES if stop is None else min(BLOCK_BYTES, stop - end)
            piece = _read(stream, wanted, path)
            watch.add(len(piece))
            if end == 0:
                piece, end = _without_mark(piece, path)
            end += len(piece)
            rest = rest + piece if rest else piece
            if wanted and piece:
                cut = rest.rfind(b"\n") + 1
                if len(rest) - cut > LINE_BYTES:
                    at = line + count_lines(rest[:cut])
                    raise SojournError(
                        f"{path}: line {at} is longer than {LINE_BYTES:,} bytes; expected lines of "
                        f"text: break it up, or check that this is the file you mean"
                    )
                if not cut:
                    continue
                data, rest = rest[:cut], rest[cut:]
            else:
                data, rest = rest, b""
            if data:
                block = Block(data, line, end - len(rest) - len(data))
                line += count_lines(data)
                if (block := _checked(block, malformed)).data:
                    yield block
            if not (wanted and piece):
                return


def _read(stream: IO[bytes], n: int, path: str) -> bytes:
    try:
        return stream.read(n)
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file system's, not the decompressor's
        raise SojournError(f"{path}: cannot be decompressed: {error}") from None


def _without_mark(piece: bytes, path: str) -> tuple[bytes, int]:
    """The first piece of a file without its byte-order mark, and the length of that."""
    if piece.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SojournError(f"{path} is UTF-16 text; expected UTF-8: save it as that")
    mark = 3 if piece.startswith(b"\xef\xbb\xbf") else 0
    return piece[mark:], mark


def _checked(block: Block, malformed: Malformed) -> Block:
    """The block without the lines that are not text."""
    if b"\0" not in block.data:
        if block.data.isascii():
            return block
        try:
            block.data.decode("utf-8")
            return block
        except UnicodeDecodeError:
            pass
    kept, numbers = [], []
    for i, text in enumerate(block.data.splitlines(keepends=True)):
        reason = "holds a NUL byte" if b"\0" in text else ""
        if not reason:
            try:
                text.decode("utf-8")
            except UnicodeDecodeError as error:
                reason = f"is not UTF-8 (byte {text[error.start]:#04x} at column {error.start + 1})"
        if reason:
            malformed.add(f"line {block.number(i)}", reason)
        else:
            kept.append(text)
            numbers.append(block.number(i))
    return Block(b"".join(kept), block.line, block.start, tuple(numbers))
