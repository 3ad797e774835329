"""Reading a large file of events, sorted and not: seconds and peak memory, beside pandas.

    python benchmarks/reading.py --rows 1000000 --repeats 3 csv jsonl

Each reading is a process of its own, so that peaks do not mix, and the programs take turns, so
that a busy machine slows all of them. Figures are medians. Memory is what the process held at its
peak beyond the interpreter and its imports. "pandas" reads, sorts and groups, which is what
`sojourn.read` does; "parsing" is the part of it that only makes a table of the file. An event log
in XES is compared with lxml's iterparse, if that is installed: "lxml" takes three attributes of
each event, "parsing" only counts events.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

N_ROWS = 10_000_000
FORMATS = ("parquet", "csv", "jsonl", "xes")

WRITE = """
import sys
import numpy as np, pyarrow as pa, pyarrow.csv, pyarrow.parquet
path, format, order, ids, n = *sys.argv[1:5], int(sys.argv[5])
rng = np.random.default_rng(0)
owner = np.sort(rng.integers(0, n // 100, n))
seconds = rng.random(n)
seconds = seconds[np.lexsort((seconds, owner))]
words = pa.array("bank brake climb descend flaps gear level throttle view".split())
symbol = words.take(pa.array(rng.integers(0, len(words), n)))
id = pa.array(owner)
if ids == "str":
    id = pa.array([f"flight-{i:08d}" for i in range(n // 100)]).take(id)
table = pa.table({"id": id, "time": seconds, "symbol": symbol})
if order == "unsorted":
    table = table.take(pa.array(rng.permutation(n)))
if format == "parquet":
    pa.parquet.write_table(table, path)
elif format == "csv":
    pa.csv.write_csv(table, path, pa.csv.WriteOptions(quoting_style="none"))
elif format == "xes":
    attribute = '<{} key="{}" value="{}"/>'.format
    with open(path, "w") as file:
        file.write("<log>")
        last = None
        for case, second, name in zip(*(column.to_pylist() for column in table.columns)):
            if case != last:
                file.write("</trace>" * (last is not None) + "<trace>")
                file.write(attribute("string", "concept:name", case))
            last = case
            when = np.datetime64(round(second * 1e9), "ms")
            file.write("<event>" + attribute("string", "org:resource", "Ann"))
            file.write(attribute("string", "concept:name", name))
            file.write(attribute("string", "lifecycle:transition", "complete"))
            file.write(attribute("date", "time:timestamp", f"{when}+00:00") + "</event>")
        file.write("</trace></log>")
else:
    with open(path, "w") as file:
        line = '{{"id": {!r}, "time": {}, "symbol": "{}"}}\\n'.format
        for part in table.to_batches(100_000):
            rows = zip(*(column.to_pylist() for column in part.columns))
            file.write("".join(line(*row) for row in rows).replace("'", '"'))
"""

MEASURE = """
import json, resource, sys, time
def peak():  # the system's own mark of this process; ru_maxrss may begin with the parent's
    try:
        status = open("/proc/self/status").read()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
{imports}
before, start = peak(), time.perf_counter()
n = {read}
print(json.dumps([time.perf_counter() - start, (peak() - before) / 1e6, int(n)]))
"""

# Compiled kernels are loaded with the imports, as they are once a process.
SOJOURN = (
    "import numpy as np, pyarrow.parquet, sojourn as sj, sojourn.io.formats;"
    "from sojourn.io.gather import sort_rows;"
    "sort_rows(np.zeros(2, np.int32), 1, np.array([1.0, 0.0]))",
    "len(sj.read(sys.argv[1], id='id', time='time', symbol='symbol'))",
)
LOG = (SOJOURN[0], "len(sj.read(sys.argv[1]))")
LXML = """
from lxml import etree
def rows():
    for _, case in etree.iterparse(sys.argv[1], tag="trace", huge_tree=True):
        for event in case.iterchildren("event"):
            yield {each.get("key"): each.get("value") for each in event}
        case.clear()
        while case.getprevious() is not None:
            del case.getparent()[0]
wanted = ("concept:name", "time:timestamp", "lifecycle:transition")
"""
PANDAS_READERS = {
    "parquet": "pd.read_parquet(sys.argv[1])",
    "csv": "pd.read_csv(sys.argv[1])",
    "jsonl": "pd.read_json(sys.argv[1], lines=True)",
}


def programs(format: str) -> dict[str, tuple[str, str]]:
    """What is measured for a format: imports, and an expression that reads."""
    if format == "xes":
        taken = "len([[row.get(key) for key in wanted] for row in rows()])"
        return {"sojourn": LOG, "lxml": (LXML, taken), "parsing": (LXML, "sum(1 for _ in rows())")}
    imports, parse = "import pandas as pd, pyarrow.parquet", PANDAS_READERS[format]
    group = f"len({parse}.sort_values(['id', 'time']).groupby('id', sort=False)['symbol'].size())"
    return {"sojourn": SOJOURN, "pandas": (imports, group), "parsing": (imports, f"len({parse})")}


def measure(code: tuple[str, str], path: Path) -> tuple[float, float, int]:
    """Seconds, megabytes and sequences of a reading in a fresh interpreter."""
    program = MEASURE.format(imports=code[0], read=code[1])
    done = subprocess.run(
        [sys.executable, "-c", program, path], check=True, capture_output=True, text=True
    )
    return tuple(json.loads(done.stdout))


def run(n_rows: int = N_ROWS, repeats: int = 3, formats: tuple[str, ...] = FORMATS) -> None:
    """Print one line for each file."""
    print(f"reading {n_rows:,} rows (id, time, symbol); medians of {repeats}")
    for format in formats:
        print(f"{'file':22}" + "".join(f"{name:>20}" for name in programs(format)))
        for order in ("sorted", "unsorted")[: 1 if format == "xes" else 2]:
            for ids in ("int", "str"):
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder, f"events.{format}")
                    options = (path, format, order, ids, str(n_rows))
                    subprocess.run([sys.executable, "-c", WRITE, *options], check=True)
                    print(f"{f'{format} {order} {ids}':22}" + _figures(format, path, repeats))


def _figures(format: str, path: Path, repeats: int) -> str:
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in programs(format)}
    for _ in range(repeats):
        for name, code in programs(format).items():
            found[name].append(measure(code, path))
    if format != "xes":
        assert found["sojourn"][0][2] == found["pandas"][0][2]
    medians = (map(statistics.median, zip(*figures, strict=True)) for figures in found.values())
    return "".join(f"{seconds:9.2f} s{megabytes:6.0f} MB" for seconds, megabytes, _ in medians)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("formats", nargs="*", choices=FORMATS, default=FORMATS)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    run(given.rows, given.repeats, tuple(given.formats))
