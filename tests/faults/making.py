"""Runs that are small, and processes that meet their end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from fpgm.cli import main
from tests.processes import PATIENCE, signalling

_CONTEXT = multiprocessing.get_context("forkserver")  # one process imports torch, those that are killed are its forks
_CONTEXT.set_forkserver_preload(["fpgm.training.run", "fpgm.evaluation", "fpgm.serving.export", "fpgm.cli"])


def kill_at(file: str, number: int, command: list[str]) -> None:
    """Run a command in a process that is killed when it has written a file for the n-th time, but not named it yet."""
    with tempfile.NamedTemporaryFile("r") as output:
        process = _CONTEXT.Process(target=_until_killed, args=(output.name, file, number, command))
        process.start()
        process.join(PATIENCE)
        code = process.exitcode
        process.kill()  # one that hangs
        assert code == -signal.SIGKILL, (code, output.read())


def _until_killed(output: str, file: str, number: int, command: list[str]) -> None:
    with Path(output).open("w") as to:
        os.dup2(to.fileno(), 1)
        os.dup2(to.fileno(), 2)
    Path.replace = signalling(signal.SIGKILL, file, number)  # type: ignore[method-assign, assignment]  # the fork ends with it
    sys.exit(main(command))


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
