"""Reading a large Parquet file, sorted and not: seconds and peak memory, beside pandas.

Each reading is a process of its own, so that peaks do not mix. Memory is what the process held at
its peak beyond the interpreter and its imports.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

N_ROWS = 10_000_000
LIMITS = {"sorted": 400, "unsorted": 1200}  # MB

WRITE = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
folder, n = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
owner = np.sort(rng.integers(0, n // 100, n))
seconds = rng.random(n)
seconds = seconds[np.lexsort((seconds, owner))]
words = pa.array("bank brake climb descend flaps gear level throttle view".split())
symbol = words.take(pa.array(rng.integers(0, len(words), n)))
names = pa.array([f"flight-{i:08d}" for i in range(n // 100)])
shuffle = pa.array(rng.permutation(n))
for kind, ids in (("int", pa.array(owner)), ("str", names.take(pa.array(owner)))):
    table = pa.table({"id": ids, "time": seconds, "symbol": symbol})
    pq.write_table(table, f"{folder}/sorted-{kind}.parquet")
    pq.write_table(table.take(shuffle), f"{folder}/unsorted-{kind}.parquet")
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
    "from sojourn.io.order import order;"
    "order(np.zeros(2, np.int32), 1, np.zeros(2))",
    "len(sj.read(sys.argv[1], id='id', time='time', symbol='symbol'))",
)
PANDAS = (
    "import pandas as pd, pyarrow.parquet",
    "len(pd.read_parquet(sys.argv[1]).sort_values(['id', 'time'])"
    ".groupby('id', sort=False)['symbol'].size())",
)


def measure(code: tuple[str, str], path: Path) -> tuple[float, float, int]:
    """Seconds, megabytes and sequences of a reading in a fresh interpreter."""
    program = MEASURE.format(imports=code[0], read=code[1])
    done = subprocess.run(
        [sys.executable, "-c", program, path], check=True, capture_output=True, text=True
    )
    return tuple(json.loads(done.stdout))


def run(n_rows: int = N_ROWS) -> None:
    """Print a line for each file."""
    print(f"reading {n_rows:,} rows of Parquet (id, time, symbol)")
    print(f"{'file':14}{'sojourn':>10}{'pandas':>10}{'sojourn':>12}{'pandas':>12}{'limit':>10}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", WRITE, folder, str(n_rows)], check=True)
        for path in sorted(Path(folder).iterdir()):
            seconds, megabytes, n = measure(SOJOURN, path)
            pandas_seconds, pandas_megabytes, pandas_n = measure(PANDAS, path)
            assert n == pandas_n
            limit = LIMITS[path.stem.partition("-")[0]]
            print(
                f"{path.stem:14}{seconds:8.2f} s{pandas_seconds:8.2f} s{megabytes:9.0f} MB"
                f"{pandas_megabytes:9.0f} MB{limit:7} MB"
            )


if __name__ == "__main__":
    run(*map(int, sys.argv[1:]))
