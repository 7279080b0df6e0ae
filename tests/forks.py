"""Processes that begin with everything imported: forks of a server, which each process that runs tests starts once.

A fresh interpreter spends seconds on importing torch. Where a test is about what a command does, and not about how an
interpreter starts, a fork does the same at once. It has an environment, a folder and an output of its own, takes
signals and dies like any other process. What `atexit` holds is not run at its end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess, ForkServerContext, ForkServerProcess
from pathlib import Path
from types import SimpleNamespace

from torch import multiprocessing

from fpgm.cli import main
from tests.processes import PATIENCE, signalling


class _Process(ForkServerProcess):
    """Sees the environment of the process that starts it, as a spawned one does, not that of the server."""

    def start(self) -> None:
        self.environment = dict(os.environ)
        super().start()

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self.environment)
        super().run()


class _Context(ForkServerContext):
    Process = _Process  # type: ignore[assignment]  # the stubs fix the class


FORKS = _Context()  # in the place of the context "spawn" of `multiprocessing`
FORKS.set_forkserver_preload(
    ["torch._dynamo", "fpgm.training.run", "fpgm.serving.export", "fpgm.serving.web.app", "matplotlib.pyplot", "pytest"]
)


class Fork:
    """A function in a process of its own, used like a `subprocess.Popen` with one pipe for all that it says.

    The function must be importable by name. The environment and the folder are those of this process.
    """

    def __init__(self, target: Callable[..., object], *arguments: object) -> None:
        reader, writer = FORKS.Pipe(duplex=False)
        self.stdout = os.fdopen(os.dup(reader.fileno()))
        self._process = FORKS.Process(target=_begin, args=(writer, target, arguments))
        self._process.start()
        writer.close()  # the pipe ends with the last process that can write to it
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self) -> int | None:
        self._process.join(PATIENCE)
        return self.returncode

    def communicate(self) -> str:
        """Return what it says until its end; one that hangs is killed."""
        guard = threading.Timer(PATIENCE, self.kill)
        guard.start()
        said = self.stdout.read()
        self.wait()
        guard.cancel()
        return said


def _begin(writer: Connection, target: Callable[..., object], arguments: tuple[object]) -> None:
    for number in (1, 2):
        os.dup2(writer.fileno(), number)
    writer.close()
    # those that are there know what kind of file they had
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    target(*arguments)


def run_ranks(target: Callable[..., object], *arguments: object) -> None:
    """Run a function in two processes, which get their rank before the arguments, and raise what goes wrong there."""
    multiprocessing.start_processes(target, arguments, nprocs=2, start_method="forkserver")


def fpgm(command: Sequence[str]) -> Fork:
    """Start a command, as `python -m fpgm` does."""
    return Fork(_run, command)


def signalled(number: signal.Signals, file: str, count: int, command: Sequence[str]) -> Fork:
    """Start a command that gets a signal when it has written a file for the n-th time, but not named it yet."""
    return Fork(_run_signalled, number, file, count, command)


def _run_signalled(number: int, file: str, count: int, command: Sequence[str]) -> None:
    Path.replace = signalling(number, file, count)  # type: ignore[method-assign, assignment]  # the fork ends with it
    _run(command)


def _run(command: Sequence[str]) -> None:
    """Run a command to the end of this process; where it would start another one for a rank, that is a fork too."""
    from lightning_fabric.strategies.launchers import subprocess_script

    def launch(_: Sequence[str], env: Mapping[str, str], cwd: None) -> _Rank:
        rank = _Rank(target=_run_rank, args=(env, command))
        rank.start()
        return rank

    subprocess_script.subprocess = SimpleNamespace(Popen=launch)  # type: ignore[attr-defined]  # in this fork
    sys.exit(main(command))


class _Rank(ForkProcess):
    """Another rank, a fork of rank zero before it computes; it says what it says at the same place."""

    def poll(self) -> int | None:
        return self.exitcode

    returncode = property(poll)


def _run_rank(environment: Mapping[str, str], command: Sequence[str]) -> None:
    os.environ.update(environment)
    sys.exit(main(command))
