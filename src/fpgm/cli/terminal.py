"""Console, JSON and progress bars of all commands."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fpgm.data.names import printable
from fpgm.pacing import Clock, Pace

Callback = Callable[[str, int, int], None]  # what is being done, how much of it is, and how much there is

WIDTH = 120  # of tables that go to a file or a pipe


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, or wide enough for our tables where there is none.

    It takes texts as they are: a ``[`` in the name of a folder is not markup.
    """
    made = Console(stderr=stderr, markup=False)
    return made if made.is_terminal else Console(stderr=stderr, markup=False, width=WIDTH)


_SENTENCES = {
    errno.ENOENT: "there is no {name}",
    errno.EACCES: "{name} may not be read or written by you: change its permissions, or give another",
    errno.EPERM: "{name} may not be read or written by you: change its permissions, or give another",
    errno.EISDIR: "{name} is a folder, and a file was expected",
    errno.ENOTDIR: "{name} is a file, or below one, and a folder was expected",
    errno.EEXIST: "{name} is there already: give another name, or remove it",
    errno.ENOSPC: "{name} finds no room (No space left on device): make some, then give the same command again",
    errno.EDQUOT: "{name} finds no room (Disk quota exceeded): make some, then give the same command again",
    errno.EROFS: "{name} cannot be written (Read-only file system): give another folder",
    errno.ENAMETOOLONG: "{name} is too long for the name of a file",
    errno.ELOOP: "{name} is a link that leads back to itself",
    errno.EMFILE: "too many files are open: raise the limit with `ulimit -n 4096`",
}


def describe_error(error: Exception) -> str:
    """Return the sentence of an error; one of the system gets one of ours instead of its number."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    name = "a file or folder" if error.filename is None else printable(os.fsdecode(error.filename)) or "''"
    if error.errno in _SENTENCES:
        return _SENTENCES[error.errno].format(name=name)
    said = error.strerror or "it failed"
    return said if error.filename is None else f"{name} cannot be used: {said}"


def print_json(**values: Any) -> None:
    """Print values for a program."""
    print(json.dumps(values, indent=2, ensure_ascii=False))


def worker_count(workers: int | None) -> int:
    """Return the given number of processes, or the number of processors."""
    return workers if workers is not None else os.cpu_count() or 1


@contextmanager
def progress_bars(clock: Clock = time.monotonic) -> Iterator[Callable[[str], Callback]]:
    """Show one bar per data set on the error stream; yields a function from a name to its callback.

    Where the error stream is not a terminal there is a line now and then instead, timed by the clock.
    """
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    output = console(stderr=True)
    with Progress(*columns, console=output, transient=True, disable=not output.is_terminal) as bars:

        def bar(name: str) -> Callback:
            task = bars.add_task(name, total=None)

            def show(stage: str, done: int, total: int) -> None:
                bars.update(task, description=f"{name}: {stage}", completed=done, total=total)

            return show

        yield bar if output.is_terminal else lambda name: _lines(output, name, clock)


def _lines(output: Console, name: str, clock: Clock) -> Callback:
    """Return a callback that prints a line now and then; each stage has a pace of its own."""
    paces: dict[str, Pace] = {}

    def show(stage: str, done: int, total: int) -> None:
        pace = paces.setdefault(stage, Pace(done, total, clock=clock))
        if pace.due():
            text = f"{name}: {stage} {done} of {total}{pace.left(done)}"
            output.print(text, highlight=False, soft_wrap=True)

    return show
