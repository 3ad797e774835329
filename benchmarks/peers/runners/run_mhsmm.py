"""mhsmm's EM, in R: times an iteration only. This writes its files and reads its times."""

import subprocess
import tempfile
from pathlib import Path

import loop
import numpy as np

SCRIPT = Path(__file__).with_name("run_mhsmm.R")
NAMES = ("start", "transition", "duration", "emission")


def time_em(_, data, job):
    """Seconds per iteration and symbol."""
    train = data["train"][: job["sequences"]]
    with tempfile.TemporaryDirectory() as folder:
        tables = dict(zip(NAMES, loop.tables(data, job), strict=True))
        for name, table in {**tables, "train": train}.items():
            np.savetxt(Path(folder) / f"{name}.csv", np.atleast_2d(table), delimiter=",")
        subprocess.run(
            ["Rscript", str(SCRIPT), folder, str(job["iterations"])],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        cpu, wall, n = np.loadtxt(Path(folder) / "times.csv", delimiter=",")
    return {"cpu": cpu / (n * train.size), "wall": wall / (n * train.size)}


def version():
    """Of the package in R."""
    asked = ["Rscript", "-e", "cat(as.character(packageVersion('mhsmm')))"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    loop.serve(None, version(), {"em": time_em})
