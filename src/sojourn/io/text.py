"""Text files as blocks of complete lines, for parsers that work a few blocks ahead in threads.

Memory is bounded whatever the file holds: a line has a greatest length, and what is decompressed
may not outgrow the file beyond a limit.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, TypeVar

import numpy as np

from sojourn.errors import SojournError
from sojourn.storage.atomic import check_no_device

BLOCK_BYTES = 1 << 22  # large beside the cost of a call to the parser, small beside memory
PIECE_BYTES = 1 << 20
LINE_BYTES = 1 << 26
FREE_BYTES = 1 << 26  # below this a file may expand without limit
MAX_THREADS = 8  # more would wait for the one that takes the rows

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_FEED = ord("\n")
LINE_END = re.compile(rb"\r\n|\n|\r")
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class Block:
    """Consecutive complete lines of a file."""

    data: bytes
    line: int  # number of the first line, from 1
    start: int = 0  # where the lines begin in the file, in bytes after decompression

    def split(self, i: int) -> tuple[Block, Block]:
        """The first `i` lines, and the others."""
        end = next(islice(LINE_END.finditer(self.data), i - 1, None), None) if i else None
        cut = 0 if i == 0 else len(self.data) if end is None else end.end()
        rest = Block(self.data[cut:], self.line + i, self.start + cut)
        return Block(self.data[:cut], self.line, self.start), rest

    def __add__(self, other: Block) -> Block:
        return Block(self.data + other.data, self.line, self.start)


class Expansion:
    """A watch on how much larger than a file its decompressed content is."""

    def __init__(self, path: str, most: float) -> None:
        self.path, self.most = path, most
        self.size, self.total = os.path.getsize(path), 0

    def add(self, n_bytes: int) -> None:
        """Count decompressed bytes; an error where they are too many."""
        self.total += n_bytes
        if self.total > max(FREE_BYTES, self.most * self.size):
            raise SojournError(
                f"{self.path}: the file has {self.size:,} bytes but holds more than "
                f"{self.total:,}, over {self.most:g} times as many; if you trust it, pass "
                f"max_expansion=float('inf')"
            )


def count_lines(data: bytes) -> int:
    """Number of lines, whatever their line ends; the last line may have none."""
    if b"\r" in data:
        return len(data.splitlines())
    n = np.count_nonzero(np.frombuffer(data, np.uint8) == LINE_FEED)  # faster than bytes.count
    return int(n) + (data[-1:] not in (b"\n", b""))


def check_path(path: str) -> None:
    """Raise an error if `path` is a directory, an empty file, or none that ends."""
    if os.path.isdir(path):
        raise SojournError(
            f"{path} is a directory; pass a file, or read many with sojourn.scan({path + '/*'!r})"
        )
    check_no_device(path)
    if os.stat(path).st_size == 0:
        raise SojournError(f"{path} is empty; expected at least one sequence")


def blocks(
    path: str,
    max_expansion: float = 200.0,
    start: int = 0,
    stop: int | None = None,
    line: int = 1,
) -> Iterator[Block]:
    """The lines of a text file, a few megabytes at a time, not yet checked to be text.

    `start` and `stop` are bytes at line ends between which to read, `line` is the number of the
    first line there.
    """
    check_path(path)
    watch = _watch(path, max_expansion)
    with opened(path) as stream:
        if start:
            stream.seek(start)
        while True:
            wanted = BLOCK_BYTES if stop is None else min(BLOCK_BYTES, stop - start)
            data = _read_lines(stream, wanted, path, line)
            watch.add(len(data))
            if start == 0:
                data, start = _without_mark(data, path)
            if not data:
                return
            yield Block(data, line, start)
            start += len(data)
            line += count_lines(data)


def pieces(path: str, max_expansion: float) -> Iterator[bytes]:
    """The bytes of a file, decompressed, about a megabyte at a time."""
    check_path(path)
    with opened(path) as stream:
        watch = _watch(path, max_expansion)
        while data := _decompressed(path, stream.read, PIECE_BYTES):
            watch.add(len(data))
            yield data


def check_expansion(path: str, max_expansion: float) -> None:
    """Raise an error if a compressed file holds too much, before any of it is parsed and kept."""
    if os.path.splitext(path.lower())[1] in OPENERS and max_expansion < float("inf"):
        for _ in pieces(path, max_expansion):
            pass


def opened(path: str) -> Any:
    """The bytes of a file to read, decompressed."""
    return OPENERS.get(os.path.splitext(path.lower())[1], open)(path, "rb")


def _watch(path: str, max_expansion: float) -> Expansion:
    compressed = os.path.splitext(path.lower())[1] in OPENERS
    return Expansion(path, max_expansion if compressed else float("inf"))


def _decompressed(path: str, read: Callable[[int], bytes], wanted: int) -> bytes:
    """What `read` returns; an error that names the file where it cannot be decompressed."""
    try:
        return read(wanted)
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file system's, not the decompressor's
        raise SojournError(f"{path}: cannot be decompressed: {error}") from None


def _read_lines(stream: IO[bytes], wanted: int, path: str, line: int) -> bytes:
    """About as many bytes as wanted, up to the end of a line; none at the end of the file."""
    data = _decompressed(path, stream.read, wanted)
    if not data or data.endswith(b"\n"):
        return data
    rest = _decompressed(path, stream.readline, LINE_BYTES + 1)
    last = data.rfind(b"\n") + 1
    if len(data) - last + len(rest) > LINE_BYTES:
        raise SojournError(
            f"{path}: line {line + count_lines(data[:last])} is longer than {LINE_BYTES:,} bytes; "
            f"expected lines of text: break it up, or check that this is the file you mean"
        )
    return data + rest


def _without_mark(data: bytes, path: str) -> tuple[bytes, int]:
    """The first block of a file without its byte-order mark, and the length of that."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SojournError(f"{path} is UTF-16 text; expected UTF-8: save it as that")
    mark = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    return data[mark:], mark


def parse_ahead(
    found: Iterable[Block], parse: Callable[[Block], Parsed]
) -> Iterator[tuple[Block, Parsed]]:
    """Each block and what `parse` makes of it, in order; threads work a few blocks ahead."""
    n_threads = min(os.cpu_count() or 1, MAX_THREADS)
    waiting: deque[tuple[Block, Future[Parsed]]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        for block in found:
            waiting.append((block, pool.submit(parse, block)))
            if len(waiting) > n_threads:
                block, parsed = waiting.popleft()
                yield block, parsed.result()
        for block, parsed in waiting:
            yield block, parsed.result()


def is_text(data: bytes) -> bool:
    """Whether all lines are UTF-8 without NUL."""
    if b"\0" in data:
        return False
    try:
        return data.isascii() or bool(data.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def text_fault(line: bytes) -> str:
    """Why a line is not text, nothing if it is."""
    if b"\0" in line:
        return "holds a NUL byte"
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"is not UTF-8 (byte {line[error.start]:#04x} at column {error.start + 1})"
    return ""
