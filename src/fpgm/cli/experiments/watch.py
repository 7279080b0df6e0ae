"""The progress of many runs in the terminal."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from fpgm.pacing import duration

if TYPE_CHECKING:
    from types import FrameType

    from fpgm.experiments.plan import Cell
    from fpgm.experiments.runner import Engine, Outcome


class Display:
    """Shows the progress of the runs: one bar, or plain lines if the training draws its own bar."""

    def __init__(self, output: Console, total: int, *, alone: bool) -> None:
        self.output, self.total, self.alone = output, total, alone
        self.done = self.failed = self.computed = 0
        self.began = time.monotonic()
        self.patient = self.stop_requested = False
        self.running: list[str] = []
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=output,
            disable=alone or not output.is_terminal,
        )
        self.task = self.progress.add_task("", total=total, left="")

    def started(self, cell: Cell) -> None:
        """Name the run; refuse it if a request to stop was lost, as native code may lose a KeyboardInterrupt."""
        if self.stop_requested:
            raise KeyboardInterrupt
        self.running.append(cell.name)
        if self.alone:
            self._say(f"[{self.done + self.failed + 1}/{self.total}] {cell.name}{self._left()}")
        self._update()

    def ended(self, outcome: Outcome, again: bool) -> None:
        """Count the run, and say so."""
        name = outcome.cell.name
        if name in self.running:
            self.running.remove(name)
        self.done += outcome.state in ("done", "kept")
        self.failed += outcome.state == "failed" and not again
        self.computed += outcome.state == "done" or (outcome.state == "failed" and not again)
        count = f"{self.done + self.failed} of {self.total} runs{self._left()}"
        if outcome.state == "failed":
            self._say(f"{name} failed: {outcome.error}; {'it is tried again' if again else f'given up; {count}'}")
        elif outcome.state == "done":
            self._say(f"{name} done in {duration(outcome.seconds)}; {count}")
        self._update()

    def waiting(self, count: int) -> None:
        """Say once that others are at work."""
        if not self.patient:
            self._say(f"waiting for another command, which computes the runs that are left: {count}")
        self.patient = True

    def _left(self) -> str:
        if not self.computed or self.done + self.failed >= self.total:
            return ""
        each = (time.monotonic() - self.began) / self.computed
        return f", about {duration(each * (self.total - self.done - self.failed))} left"

    def _update(self) -> None:
        names = ", ".join(self.running[:2]) + (f" and {len(self.running) - 2} more" if len(self.running) > 2 else "")
        self.progress.update(
            self.task, description=names, completed=self.done + self.failed, left=self._left().strip(", ")
        )

    def _say(self, text: str) -> None:
        self.output.print(text, markup=False, highlight=False)


def compute(cells: Sequence[Cell], engine: Engine, display: Display) -> list[Outcome] | None:
    """Compute the cells; None if the user stopped it."""
    from fpgm.experiments.runner import run

    def stop(number: int, frame: FrameType | None) -> None:
        display.stop_requested = True
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with display.progress:
            return run(cells, engine, display)
    except KeyboardInterrupt:
        display.output.print(f"stopped with {display.done} of {len(cells)} runs done; the same command goes on")
        return None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
