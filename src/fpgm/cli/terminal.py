"""Console, JSON and progress bars of all commands."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Callback = Callable[[str, int, int], None]  # what is being done, how much of it is, and how much there is

WIDTH = 120  # of tables that go to a file or a pipe


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, or wide enough for our tables where there is none.

    It takes texts as they are: a ``[`` in the name of a folder is not markup.
    """
    made = Console(stderr=stderr, markup=False)
    return made if made.is_terminal else Console(stderr=stderr, markup=False, width=WIDTH)


def print_json(**values: Any) -> None:
    """Print values for a program."""
    print(json.dumps(values, indent=2, ensure_ascii=False))


def worker_count(workers: int | None) -> int:
    """Return the given number of processes, or the number of processors."""
    return workers if workers is not None else os.cpu_count() or 1


@contextmanager
def progress_bars() -> Iterator[Callable[[str], Callback]]:
    """Show one bar per data set on the error stream; yields a function from a name to its callback."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    output = console(stderr=True)
    with Progress(*columns, console=output, transient=True, disable=not output.is_terminal) as bars:

        def bar(name: str) -> Callback:
            task = bars.add_task(name, total=None)

            def show(stage: str, done: int, total: int) -> None:
                bars.update(task, description=f"{name}: {stage}", completed=done, total=total)

            return show

        yield bar
