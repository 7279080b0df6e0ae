"""Runs that are small, and processes that meet their end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fpgm.cli import main
from tests.forks import signalled


def kill_at(file: str, number: int, command: list[str]) -> None:
    """Run a command in a process that is killed when it has written a file for the n-th time, but not named it yet."""
    process = signalled(signal.SIGKILL, file, number, command)
    output = process.communicate()
    assert process.returncode == -signal.SIGKILL, output


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
