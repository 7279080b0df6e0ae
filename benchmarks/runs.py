"""Four short trainings on the processors of this machine: one on each, as `fpgm reproduce` has it, beside one on all.

Whole trainings of preset `mini` on phantoms of 96 x 96, in processes of their own, from the start to the evaluation.
"""

from __future__ import annotations

from harness import compare

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS, RUNS = 30, 4


def call(*arguments: str) -> float:
    """Run a command of ours in a process that may use all processors, and return its seconds."""
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "fpgm", *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Print the ratio."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        call("data", "synth", "--out", store, "--count", "40", "--size", "96")
        runs = ["main", "--data", store, "--preset", "mini", "--methods", "supervised", "fpgm_teacher"]
        runs += ["--labeled", "20%", "--seeds", *map(str, range(RUNS // 2)), "--iterations", str(STEPS)]
        beside = call("reproduce", *runs, "--out", str(Path(folder) / "beside"))
        after = call("reproduce", *runs, "--out", str(Path(folder) / "after"), "--jobs", "1")
    what = f"{RUNS} trainings of {STEPS} steps, one on each processor"
    compare("runs", what, beside, after, "one after the other on all", fast=True)


if __name__ == "__main__":
    main()
