"""Runs that are small, and processes that meet their end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fpgm.cli import main

# Runs `fpgm`; SIGKILL comes when the n-th draft of a file is whole and about to take its place: the worst moment.
DOOMED = """
import os, signal, sys
from pathlib import Path
name, left = sys.argv[1], int(sys.argv[2])
real = Path.replace
def replace(self, target):
    global left
    left -= Path(target).name == name
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, target)
Path.replace = replace
from fpgm.cli import main
sys.exit(main(sys.argv[3:]))
"""


def kill_at(file: str, number: int, command: list[str]) -> None:
    """Run a command in a process that is killed when it has written a file for the n-th time, but not named it yet."""
    words = [sys.executable, "-c", DOOMED, file, str(number), *command]
    done = subprocess.run(words, env=alone(), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == -9, done.stdout + done.stderr


def alone() -> dict[str, str]:
    """The environment of a process with one thread, as the tests of this folder have."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def refusal(capsys: pytest.CaptureFixture[str], command: list[str]) -> str:
    """Run a command that must refuse, and return its sentence."""
    capsys.readouterr()
    assert main(command) == 2
    said = capsys.readouterr().err
    assert said.startswith("fpgm: ") and "Traceback" not in said
    return said


def works(command: list[str]) -> None:
    assert main(command) == 0


def cut(path: Path, share: float) -> None:
    """Leave the first part of a file; 1 takes its last byte alone."""
    data = path.read_bytes()
    path.write_bytes(data[: min(int(share * len(data)), len(data) - 1)])


def drafts(folder: Path) -> list[Path]:
    return list(folder.rglob(".*.part"))


def children(process: int) -> set[int]:
    """All descendants of a process, from /proc."""
    try:
        direct = {int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()}
    except FileNotFoundError:
        return set()
    return direct.union(*(children(child) for child in direct))


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
