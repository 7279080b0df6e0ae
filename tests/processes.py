"""Other processes: waiting for them, and signals that reach them at a certain point of their work.

No test rests on how fast a machine is. A limit in seconds guards against hanging alone.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
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


def signalled(number: signal.Signals, file: str, count: int, command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a command that gets a signal when it has written a file for the n-th time, but not named it yet."""
    script = Path(__file__).with_name("signalled.py")
    words = [sys.executable, str(script), str(int(number)), file, str(count), *command]
    return subprocess.Popen(words, env=alone(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_until_stopped(process: subprocess.Popen[str]) -> None:
    """Wait for SIGSTOP to reach a process: then none of its threads runs."""
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), process.communicate()[0]


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
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
