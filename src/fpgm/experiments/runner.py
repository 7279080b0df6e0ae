"""Computes cells: what is done is kept, what was killed goes on, what failed is tried again and stops nobody else."""

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
        train: fills the run folder, going on with what is there, and says on which device it did; raises
            KeyboardInterrupt when it is asked to stop.
        evaluate: writes the evaluation of the run, on that device.
    """

    train: Callable[[Cell], Any]
    evaluate: Callable[[Cell, Any], object]


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: computed now, kept from before, failed, or busy in the hands of another process."""

    cell: Cell
    state: Literal["done", "kept", "failed", "busy"]
    error: str | None = None
    seconds: float = 0.0


class Engine(Protocol):
    """Where cells are computed."""

    def free(self) -> bool:
        """Whether it takes another cell now."""

    def running(self) -> int:
        """How many cells it has taken and not given back."""

    def start(self, cell: Cell) -> None:
        """Take a cell."""

    def wait(self) -> list[Outcome]:
        """Wait for cells to end, a second or so at most, and give them back."""

    def stop(self) -> None:
        """End what is under way, so that it can go on later, and clean up; called once, at the end."""


class Watcher(Protocol):
    """Is told how far the cells are."""

    def started(self, cell: Cell) -> None:
        """The engine has a cell."""

    def ended(self, outcome: Outcome, again: bool) -> None:
        """A cell has come to an end, or will be tried again."""

    def waiting(self, count: int) -> None:
        """All cells that are left are being computed by other commands."""


def attempt(cell: Cell, steps: Steps) -> Outcome:
    """Compute a cell once, unless it is done or somebody else does it."""
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
    """Compute all cells and return their outcomes in the order they came to an end.

    A failed cell is tried again after all others, `retries` times. A cell that another command computes is left until
    that command has finished it, or has been killed.
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
    """Take cells that nobody computes out of the queue, as long as the engine has room."""
    for _ in range(len(left)):
        if not engine.free():
            return
        cell = left.popleft()
        if on_disk.is_taken(cell.folder):
            left.append(cell)
        else:
            yield cell


def _reason(error: Exception) -> str:
    """Say what went wrong; a sentence of ours needs no name of its class."""
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
