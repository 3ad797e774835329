"""Each peer in an environment of its own, and why not where that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
RUNNERS = HERE / "runners"
# One thread, whatever does the arithmetic.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
INSTALLING = 1800  # seconds


@dataclass(frozen=True)
class Peer:
    """A package to compare with.

    Parameters
    ----------
    name : str
    models : tuple of str
        What it is run as: "hsmm", "plain" and "expanded" HMMs, "automaton".
    description : str
        What it is, for the table.
    """

    name: str
    models: tuple[str, ...]
    description: str

    @property
    def requirements(self) -> Path:
        """What its environment is made of."""
        return HERE / "requirements" / f"{self.name}.txt"


HMM = ("plain", "expanded")
PEERS = (
    Peer("hmmlearn", HMM, "HMM by EM, C++"),
    Peer("deeptime", HMM, "HMM by EM, C++"),
    Peer("dynamax", HMM, "HMM by EM, JAX"),
    Peer("pomegranate", HMM, "HMM by EM, PyTorch"),
    Peer("scikit-splearn", ("automaton",), "weighted automata, spectral"),
    Peer("mhsmm", ("hsmm",), "HSMM by EM, R and C"),
)


@dataclass(frozen=True)
class Environment:
    """How to start a runner, or why it cannot be.

    Parameters
    ----------
    command : tuple of str
        Empty where there is none.
    reason : str
        Why, then.
    """

    command: tuple[str, ...]
    reason: str = ""


def ours() -> Environment:
    """The environment of this process."""
    return Environment((sys.executable, str(RUNNERS / "run_sojourn.py")))


def install(peer: Peer, folder: Path) -> Environment:
    """The environment of a peer, made now unless it was made before from the same requirements."""
    if peer.name == "mhsmm":
        return _in_r()
    home = folder / peer.name
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted, made = peer.requirements.read_text(), home / "made-from.txt"
    script = str(RUNNERS / f"run_{peer.name.replace('-', '_')}.py")
    if not (made.is_file() and made.read_text() == wanted):
        shutil.rmtree(home, ignore_errors=True)
        steps = (
            [sys.executable, "-m", "venv", str(home)],
            [str(python), "-m", "pip", "install", "--quiet", "-r", str(peer.requirements)],
        )
        for step in steps:
            reason = attempt(step)
            if reason:
                return Environment((), reason)
        made.write_text(wanted)
    return Environment((str(python), script))


def _in_r() -> Environment:
    if shutil.which("Rscript") is None:
        return Environment((), "R is not installed: there is no Rscript on the path")
    reason = attempt(["Rscript", "-e", "library(mhsmm)"])
    if reason:
        return Environment((), f"R is here, but not the package: {reason}")
    return Environment((sys.executable, str(RUNNERS / "run_mhsmm.py")))


def attempt(command: list[str]) -> str:
    """Run it; empty where that went well, else the reason in a line."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALLING)
    except subprocess.TimeoutExpired:
        return f"not done after {INSTALLING} s"
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else last_error(done.stderr) or f"exit {done.returncode}"


def last_error(text: str) -> str:
    """The line of a log that says what was wrong: the last that speaks of an error, or the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    return (telling or lines or [""])[-1][:200]
