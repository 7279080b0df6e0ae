"""Other processes: waiting for them, and signals that reach them at a certain point of their work.

No test rests on how fast a machine is. A limit in seconds guards against hanging alone.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 600.0  # seconds


def alone() -> dict[str, str]:
    """The environment of a process with one thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def signalling(number: int, file: str, count: int) -> Callable[[Path, Path], Path]:
    """A `Path.replace` with which a process signals itself: the n-th draft of a file is whole, but not named yet."""
    real, seen = Path.replace, itertools.count(1)

    def replace(draft: Path, target: Path) -> Path:
        if Path(target).name == file and next(seen) == count:
            os.kill(os.getpid(), number)
        return real(draft, target)

    return replace


def wait(condition: Callable[[], object]) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def children(process: int) -> set[int]:
    """All descendants of a process, whichever of its threads has started them, from /proc."""
    try:
        lists = [task.read_text() for task in Path(f"/proc/{process}/task").glob("*/children")]
    except FileNotFoundError:
        return set()
    direct = {int(child) for child in " ".join(lists).split()}
    return direct.union(*(children(child) for child in direct))


def alive(process: int) -> bool:
    """Whether a process runs; a zombie that nobody buries does not."""
    return _state(Path(f"/proc/{process}")) not in ("", "Z")


def wait_until_stopped(process: int) -> None:
    """Wait for SIGSTOP to reach a process: then none of its threads runs."""

    def stopped() -> bool:
        assert alive(process), "it ended and was not stopped"
        return all(_state(thread) == "T" for thread in Path(f"/proc/{process}/task").iterdir())

    wait(stopped)


def _state(entry: Path) -> str:
    """The letter that /proc has for the state of a process or thread; empty if there is none."""
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
