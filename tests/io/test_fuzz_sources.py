"""Text that was never meant to be read: errors, never anything else, and never the wrong rows."""

import bz2
import contextlib
import csv
import gzip
import io
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sojourn as sj
from sojourn.io import text as text_reader
from sojourn.io.csv import _Table
from sojourn.io.layout import Malformed
from sojourn.io.text import Block
from sojourn.io.times import parse_time

ALLOWED = (ValueError, OSError)  # SojournError is a ValueError

VALID = {
    "csv": b'id,time,symbol\na,1,x\na,2.5,"y ""z"""\nb,3,\n"b\n",4,\xc3\xa9\n',
    "tsv": b"id\ttime\tsymbol\na\t2024-01-01\tx\na\t2024-01-02T10:00:00Z\ty\n",
    "matrix": b"1,2,3\n4,,6\n7,8,9\n",
    "lines": b"climb level\nlevel ? level\n\n",
    "jsonl": b'{"id": 1, "time": 0.5, "symbol": "x"}\n{"id": 2, "time": 1, "symbol": null}\n',
    "lists": b'{"id": "a", "symbols": ["x", null, "\\u00e9"]}\n{"id": "b", "symbols": ["y"]}\n',
}
FORMATS = {name: name if name != "lists" else "jsonl" for name in VALID}
# Bytes that mean something to one of the parsers come more often than others.
SPECIAL = [b'"', b",", b"\n", b"\r", b"\t", b"\0", b"\xff", b"{", b"}", b"[", b"]", b"\\", b"-"]
SPECIAL += [b"1", b"0", b".", b"e", b"NaN", b" ", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"null", b'""']
noise = st.lists(st.sampled_from(SPECIAL) | st.binary(max_size=3), max_size=30).map(b"".join)


@st.composite
def mutated(draw, data: bytes) -> bytes:
    """A valid file with bytes put in, taken out and repeated."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        to = draw(st.integers(at, min(len(data), at + 12)))
        put = draw(st.sampled_from([*SPECIAL, data[at:to] * 2, b""]) | st.binary(max_size=3))
        data = data[:at] + put + data[to:]
    return data


def attempt(path, **options) -> sj.Sequences | None:
    """The sequences, or None after an error of the allowed kinds."""
    with contextlib.suppress(*ALLOWED), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        seqs = sj.read(path, quiet=True, **options)
        assert seqs.n_total >= len(seqs) >= 1
        return seqs
    return None


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "file"


@pytest.fixture(params=[1 << 23, 16], ids=["whole", "blocks"])
def block_bytes(request, monkeypatch):
    """Files of a few bytes are one block, unless blocks are smaller still."""
    monkeypatch.setattr(text_reader, "BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("block_bytes")
@pytest.mark.parametrize("name", VALID)
def test_noise_gives_an_error_or_sequences(path, name):
    @settings(max_examples=60)
    @given(noise)
    def run(data):
        path.write_bytes(data)
        for on_error in ("raise", "skip"):
            attempt(path, format=FORMATS[name], on_error=on_error)

    run()


@pytest.mark.usefixtures("block_bytes")
@pytest.mark.parametrize("name", VALID)
def test_a_broken_file_gives_an_error_or_sequences(path, name):
    @settings(max_examples=100)
    @given(mutated(VALID[name]))
    @example(VALID[name])
    def run(data):
        path.write_bytes(data)
        strict = attempt(path, format=FORMATS[name])
        lenient = attempt(path, format=FORMATS[name], on_error="skip")
        if strict is not None:  # where nothing is malformed there is nothing to skip
            assert lenient is not None
            assert lenient.to_lists() == strict.to_lists()

    run()


def test_the_files_that_are_broken_above_are_whole(path):
    for name, data in VALID.items():
        path.write_bytes(data)
        assert attempt(path, format=FORMATS[name]) is not None


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_broken_compression_gives_an_error_or_sequences(tmp_path_factory, suffix, compress):
    path = tmp_path_factory.mktemp("fuzz") / f"a.csv.{suffix}"

    @settings(max_examples=50)
    @given(mutated(compress(VALID["csv"])))
    def run(data):
        path.write_bytes(data)
        attempt(path)

    run()


fields = st.text(st.sampled_from('ab,"\n\r ;é1.'), max_size=5)


@given(st.lists(st.tuples(fields, fields), min_size=1, max_size=8), st.booleans())
def test_the_slow_parser_of_tables_equals_the_fast_one(rows, quoted):
    out = io.StringIO()
    quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    csv.writer(out, lineterminator="\r\n", quoting=quoting).writerows(rows)
    block = Block(out.getvalue().encode(), 1, 0)
    table = _Table(2, ",", ("",), id=0, time=None, symbol=1, lifecycle=None)
    fast, fast_closed = table.fast(block)
    slow, slow_closed = table.slow(block, Malformed("file"))
    assert fast_closed
    assert slow_closed
    assert fast.symbol.to_pylist() == slow.symbol.to_pylist() == [b or None for _, b in rows]
    assert fast.id.to_pylist() == slow.id.to_pylist() == [a or None for a, _ in rows]
    assert [fast.place(i) for i in range(len(rows))] == [slow.place(i) for i in range(len(rows))]


@given(st.text(st.sampled_from('ab,"\n\r')))
@example('a,b\n"')
def test_the_two_parsers_of_tables_agree_on_text_that_is_no_table(text):
    block = Block(text.encode(), 1, 0)
    table = _Table(2, ",", ("",), id=0, time=None, symbol=1, lifecycle=None)
    slow = table.slow(block, malformed := Malformed("file", "skip"))
    fast = table.fast(block)
    if fast is not None:
        assert fast[1] == slow[1]
        if fast[1]:
            assert malformed.count == 0
            assert fast[0].symbol.to_pylist() == slow[0].symbol.to_pylist()
            assert fast[0].id.to_pylist() == slow[0].id.to_pylist()


words = st.text(st.characters(codec="utf-8", categories="LNP"), min_size=1, max_size=4)


@given(st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=5))
def test_any_words_come_back_from_lines(path, lists):
    # Marks of other scripts, unlike ASCII white space, do not divide words.
    path.write_text("\n".join(map(" ".join, lists)) + "\n", "utf-8")
    vocabulary = sorted({word for row in lists for word in row})
    assert sj.read(path, format="lines", vocabulary=vocabulary).to_lists() == lists


@given(st.text(st.sampled_from("0123456789-:T.eE+_ Zné"), max_size=24))
@example("9" * 5000)
@example("0001-01-01")
@example("9999-12-31T23:59:59.999999+00:00")
def test_any_text_is_a_time_or_not(text):
    found = parse_time(text)
    assert found is None or (found[0] in ("number", "date", "time of day") and found[1] == found[1])
