"""Rows of XES event logs, by a streaming parser that holds one tag at a time.

A log is traces (cases) of events, both with attributes: ``<string key="concept:name" value="…"/>``.
What could make a small file large or a parser call out, a document type and its entities, is
refused; so are tags, names and depths that no log has. So memory is bounded, whatever the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from sojourn.errors import SojournError
from sojourn.io.gather import Rows
from sojourn.io.layout import Layout, Malformed
from sojourn.io.text import pieces

CASE, ACTIVITY, TIME = "case:concept:name", "concept:name", "time:timestamp"
LIFECYCLE = "lifecycle:transition"
EVENTS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 1 << 26
TAG_BYTES = 1 << 22  # of one tag or comment, which the parser must hold
NAME_CHARACTERS = 1 << 14
MOST_TAGS = 1000  # different ones: a log has about ten
MOST_DEPTH = 100


def xes_columns(path: str, layout: Layout) -> list[str]:
    """Names of the columns of a log: its case, and the attributes of its first event."""
    log = _Log(path, layout, Malformed(path))
    for _ in log.parsed():
        if log.symbols:
            break
    if not log.symbols:
        raise SojournError(f"{path} has no events; expected a log with at least one")
    return list(dict.fromkeys((CASE, ACTIVITY, *log.keys)))


def xes_rows(path: str, layout: Layout, malformed: Malformed) -> Iterator[Rows]:
    """Rows of a log, one per event, many thousand at a time."""
    log = _Log(path, layout, malformed)
    n = 0
    for _ in log.parsed():
        full = len(log.symbols) >= EVENTS_AT_ONCE or log.n_bytes >= BYTES_AT_ONCE
        named = not log.owners or log.cases[log.owners[-1]] is not None
        if full and not named and len(log.symbols) >= 16 * EVENTS_AT_ONCE:
            raise SojournError(f"{path}: trace {log.n_cases} has its events before its name")
        if full and named:
            yield log.taken(n)
            n += len(log.symbols)
            log.clear()
    yield log.taken(n)


@dataclass
class _Log:
    """What the parser has found since it was last cleared."""

    path: str
    layout: Layout
    malformed: Malformed
    symbols: list[str | None] = field(default_factory=list)
    times: list[str | None] = field(default_factory=list)
    transitions: list[str | None] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)  # of each event, its place among the cases
    cases: list[str | None] = field(default_factory=list)
    n_cases: int = 0
    empty: list[str] = field(default_factory=list)  # cases without events
    keys: list[str] = field(default_factory=list)  # attributes of the first event
    n_bytes: int = 0

    def clear(self) -> None:
        """Forget all but the case that is open."""
        for found in (self.symbols, self.times, self.transitions, self.owners, self.empty):
            found.clear()
        del self.cases[:-1]
        self.n_bytes = 0

    def taken(self, n_before: int) -> Rows:
        """The events since the last time, as columns; `n_before` were before them."""
        codes = np.array(self.owners, dtype=np.int32)
        id = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(self.cases, pa.string()))
        time = None if self.layout.time is None else pa.array(self.times, pa.string())
        lifecycle = (
            None if self.layout.lifecycle is None else pa.array(self.transitions, pa.string())
        )
        number = np.arange(n_before, n_before + len(codes))
        symbol = pa.array(self.symbols, pa.string()).dictionary_encode()
        return Rows(
            symbol,
            None if self.layout.id is None else id,
            time,
            number,
            lambda i: f"event {number[i] + 1}",
            lifecycle,
            tuple(self.empty),
        )

    def parsed(self) -> Iterator[None]:
        """Parse the file, and return here after each piece of it."""
        parser = expat.ParserCreate()
        parser.ordered_attributes = True
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        _handle(parser, self)
        fed = 0
        try:
            for data in pieces(self.path, self.layout.max_expansion):
                parser.Parse(data, False)
                fed += len(data)
                self.n_bytes += len(data)
                if fed - max(parser.CurrentByteIndex, 0) > TAG_BYTES:
                    raise SojournError(
                        f"{self.path}: line {parser.CurrentLineNumber} begins a tag or comment of "
                        f"more than {TAG_BYTES:,} bytes; expected an event log in XES"
                    )
                yield
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise SojournError(f"{self.path}: the XML cannot be read: {error}") from None
        yield

    def _refuse_doctype(self, *_: Any) -> None:
        raise SojournError(
            f"{self.path} has a document type (DOCTYPE), which XES does not need and which can "
            f"hide harmful entities; remove it if you trust the file"
        )


def _handle(parser: Any, log: _Log) -> None:
    """Give a parser its handlers: functions with few look-ups, for they run for every tag."""
    slots = {log.layout.symbol: 0, log.layout.time: 1, log.layout.lifecycle: 2}
    case_key = (log.layout.id or CASE).removeprefix("case:")
    cases, add_owner, add_symbol = log.cases, log.owners.append, log.symbols.append
    add_time, add_transition = log.times.append, log.transitions.append
    event: list[str | None] = [None, None, None]
    depth = n_events = 0
    in_trace = in_event = False
    first = True  # until an event has ended
    seen = {"string", "date", "event"}

    def start(name: str, attributes: list[str]) -> None:
        nonlocal depth, event, in_event, n_events
        depth += 1
        if in_event and depth == 4:
            if len(attributes) != 4 or attributes[0] != "key" or attributes[2] != "value":
                attributes = plain(attributes)
            _, key, _, value = attributes
            if key in slots:
                event[slots[key]] = value if len(value) <= NAME_CHARACTERS else too_long()
            if first and len(log.keys) < MOST_TAGS:
                log.keys.append(key)
        elif depth == 3 and in_trace and name == "event":
            in_event, event, n_events = True, [None, None, None], n_events + 1
        else:
            outside(name, attributes)
        if name not in seen:
            known(name)

    def outside(name: str, attributes: list[str]) -> None:
        nonlocal in_trace, n_events
        if depth == 3 and in_trace:
            found = plain(attributes)
            if found[1] == case_key:
                cases[-1] = found[3] if len(found[3]) <= NAME_CHARACTERS else too_long()
        elif depth == 2 and name == "trace":
            in_trace, n_events = True, 0
            log.n_cases += 1
            cases.append(None)
        elif depth == 1 and name != "log":
            raise SojournError(f"{log.path} begins with <{name}>; expected <log>, as XES does")
        elif depth > MOST_DEPTH:
            raise SojournError(f"{log.path} nests tags more than {MOST_DEPTH} deep; no log does")

    def end(name: str) -> None:
        nonlocal depth, in_trace, in_event, first
        depth -= 1
        if depth > 2:
            return
        if depth == 2 and in_event:
            in_event = first = False
            add_symbol(event[0])
            add_time(event[1])
            add_transition(event[2])
            add_owner(len(cases) - 1)
        elif depth == 1 and in_trace:
            in_trace = False
            if cases[-1] is None:
                log.malformed.add(f"trace {log.n_cases}", f"has no {case_key}")
            elif n_events == 0 and log.layout.empty:
                log.empty.append(cases[-1])
            elif n_events == 0:
                log.malformed.add(f"trace {cases[-1]!r}", "is an empty sequence")

    def plain(attributes: list[str]) -> list[str]:
        given = dict(zip(attributes[::2], attributes[1::2], strict=True))
        for name in given:
            known(name)
        return ["key", given.get("key", ""), "value", given.get("value", "")]

    def known(name: str) -> None:
        seen.add(name)
        if len(seen) > MOST_TAGS:
            raise SojournError(f"{log.path} has more than {MOST_TAGS} kinds of tags; no log has")

    def too_long() -> NoReturn:
        raise SojournError(
            f"{log.path}: line {parser.CurrentLineNumber} has a name of more than "
            f"{NAME_CHARACTERS:,} characters; expected an event log in XES"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
