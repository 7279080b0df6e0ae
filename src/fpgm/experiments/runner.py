"""Computes cells: finished ones are kept, killed ones resumed, failed ones retried without stopping the others."""

from __future__ import annotations

import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from fpgm.experiments import cells as on_disk
from fpgm.experiments.plan import Cell
from fpgm.files import claim, write_text

RETRIES = 2
POLL = 0.5  # seconds between looks at cells that another command computes
_LONGEST = 2000  # characters of a reason


@dataclass(frozen=True)
class Steps:
    """How a cell is computed.

    Attributes:
        train: trains or resumes the run in its folder and returns the device; raises KeyboardInterrupt on a request to
            stop.
        evaluate: writes the evaluation of the run, on that device.
    """

    train: Callable[[Cell], Any]
    evaluate: Callable[[Cell, Any], object]


@dataclass(frozen=True)
class Outcome:
    """Result of a cell: computed now, kept from before, failed, or computed by another process."""

    cell: Cell
    state: Literal["done", "kept", "failed", "busy"]
    error: str | None = None
    seconds: float = 0.0


class Engine(Protocol):
    """Where cells are computed."""

    def free(self) -> bool:
        """Whether it takes another cell now."""

    def running(self) -> int:
        """Number of cells that it has started and not returned."""

    def start(self, cell: Cell) -> None:
        """Take a cell."""

    def wait(self) -> list[Outcome]:
        """Wait for cells to end, about a second at most, and return their outcomes."""

    def stop(self) -> None:
        """Stop running cells so that they can be resumed, and clean up; called once, at the end."""


class Watcher(Protocol):
    """Receives the progress of the cells."""

    def started(self, cell: Cell) -> None:
        """The engine has a cell."""

    def ended(self, outcome: Outcome, again: bool) -> None:
        """A cell has ended, or will be tried again."""

    def waiting(self, count: int) -> None:
        """All remaining cells are being computed by other commands."""


def attempt(cell: Cell, steps: Steps) -> Outcome:
    """Compute a cell once, unless it is done or another process computes it."""
    with claim(cell.folder / on_disk.LOCK) as free:
        if not free:
            return Outcome(cell, "busy")
        if on_disk.is_done(cell.folder):
            return Outcome(cell, "kept")
        began = time.monotonic()
        try:
            steps.evaluate(cell, steps.train(cell))
        except Exception as error:  # whatever it is, the other cells go on
            write_text(cell.folder / "error.txt", traceback.format_exc())
            return record(cell, time.monotonic() - began, _reason(error))
        (cell.folder / "error.txt").unlink(missing_ok=True)
        return record(cell, time.monotonic() - began)


def record(cell: Cell, seconds: float, error: str | None = None) -> Outcome:
    """Write ``cell.json`` after an attempt and return its outcome."""
    on_disk.write(cell, seconds, error)
    return Outcome(cell, "failed" if error else "done", error, seconds)


def run(cells: Iterable[Cell], engine: Engine, watcher: Watcher, retries: int = RETRIES) -> list[Outcome]:
    """Compute all cells and return their outcomes in the order in which they ended.

    A failed cell is tried again after all others, `retries` times. A cell that another command computes waits until
    that command has finished it or was killed.
    """
    left, failures, outcomes = deque(cells), Counter[Cell](), list[Outcome]()
    try:
        while left or engine.running():
            ended = []
            for cell in _startable(left, engine):
                if on_disk.is_done(cell.folder):
                    ended.append(Outcome(cell, "kept"))
                else:
                    watcher.started(cell)
                    engine.start(cell)
            if engine.running():
                ended += engine.wait()
            elif not ended:
                watcher.waiting(len(left))
                time.sleep(POLL)
            for outcome in ended:
                failures[outcome.cell] += outcome.state == "failed"
                again = outcome.state == "busy" or (outcome.state == "failed" and failures[outcome.cell] <= retries)
                if again:
                    left.append(outcome.cell)
                else:
                    outcomes.append(outcome)
                watcher.ended(outcome, again)
    finally:
        engine.stop()
    return outcomes


def _startable(left: deque[Cell], engine: Engine) -> Iterable[Cell]:
    """Take cells that no other process computes out of the queue, while the engine takes more."""
    for _ in range(len(left)):
        if not engine.free():
            return
        cell = left.popleft()
        if on_disk.is_taken(cell.folder):
            left.append(cell)
        else:
            yield cell


def _reason(error: Exception) -> str:
    """Return an error as text, with the name of its class unless it is a sentence for the user."""
    is_sentence = isinstance(error, ValueError | OSError) and str(error)
    return (str(error) if is_sentence else f"{type(error).__name__}: {error}")[:_LONGEST]


class InProcess:
    """This process, one cell at a time."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.outcomes: list[Outcome] = []

    def free(self) -> bool:
        """Until one has been computed."""
        return not self.outcomes

    def running(self) -> int:
        """Those that were computed."""
        return len(self.outcomes)

    def start(self, cell: Cell) -> None:
        """Compute it at once."""
        self.outcomes.append(attempt(cell, self.steps))

    def wait(self) -> list[Outcome]:
        """Give the one that was computed."""
        given, self.outcomes = self.outcomes, []
        return given

    def stop(self) -> None:
        """Nothing is under way."""
